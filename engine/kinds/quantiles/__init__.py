"""Quantiles of columns: how far one record moves the balances from which they follow."""
