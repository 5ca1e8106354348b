"""Queries: what is computed exactly from blocks of records, before noise."""
