"""Sums of clipped gradients of one step or of a training: outer products, of records that steps take in turn."""
