"""Checks of releases that ask nobody but the release."""
