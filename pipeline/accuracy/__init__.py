"""Accuracy: how exactly each number of a planned release will be known, and what would make it more exact."""
