"""Marginal tables of counts: how far one record moves all of their cells."""
