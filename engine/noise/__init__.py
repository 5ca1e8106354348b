"""Noise: noise as integers, a pure function of key, row and column; and sums with that noise."""
