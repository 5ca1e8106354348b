"""Nights with one fault each, by a clock that the test turns: ``python -m tests.nights``."""
