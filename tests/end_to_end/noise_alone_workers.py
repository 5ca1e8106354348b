"""Preloaded by worker processes of Dask, which load such a file twice: what stands in for what is set once."""

import tests.end_to_end.noise_alone  # noqa: F401 - for what its import does
