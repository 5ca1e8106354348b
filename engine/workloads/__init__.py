"""Workloads: the strategy's coefficients as integers, and the expected error of the answers that are reconstructed from
it.
"""
