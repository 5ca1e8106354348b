"""Counts of records in a public grid: how far one record moves them."""
