"""Examples that load a released matrix."""

from __future__ import annotations

import json

from blockveil.pipeline.report.facts import Facts


def loading(facts: Facts, folder: str) -> list[tuple[str, str]]:
    """Language or library, and the lines that load the matrix of a release in a folder."""
    kind, path = json.dumps(facts.kind), json.dumps(folder)
    names = "index=group['feature'][...], columns=group['feature'][...]" if facts.matrix.symmetric else ""
    return [
        ("NumPy", f'import zarr\nmatrix = zarr.open_group({path}, mode="r")[{kind}][...]'),
        ("xarray", f"import xarray\nmatrix = xarray.open_zarr({path}, consolidated=False)[{kind}]"),
        (
            "pandas",
            f'import pandas, zarr\ngroup = zarr.open_group({path}, mode="r")\n'
            f"table = pandas.DataFrame(group[{kind}][...]{', ' if names else ''}{names})",
        ),
        (
            "Dask, where the matrix is larger than memory",
            f"import dask.array\nblocks = dask.array.from_zarr({path}, component={kind})",
        ),
        (
            "R, with the package zarr from CRAN",
            f'library(zarr)\nmatrix <- open_zarr({path})[["/{facts.kind}"]][]',
        ),
    ]
