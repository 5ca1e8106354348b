"""Estimates: estimates in raw units, each with its error; bands that hold for many entries at once; post-processed
matrices.
"""
