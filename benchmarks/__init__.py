"""Measurements beside a peer or the machine's own limit, in the same run."""

import flows  # noqa: F401 - before NumPy is imported, as in the product
