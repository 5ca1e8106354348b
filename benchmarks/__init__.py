"""Measurements of Blockveil; Opacus installs a package of this name, which must not take their place."""
