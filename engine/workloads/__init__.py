"""A room; see its README."""
