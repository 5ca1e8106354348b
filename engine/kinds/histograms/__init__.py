"""Histograms of all columns: how far one record moves all of their bins."""
