"""Sums of outer products: how far one record moves them."""
