"""A source that changes after it was opened is noticed, whatever its kind; databases have tests of their locks."""

import os

import deltalake
import numpy as np
import pyarrow as pa
import pytest
import zarr

from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.data.ingest.ingest_run import ingest, look
from tests.pipeline.data.ingest import ingest_support as people

PLACES = {"npy": "x.npy", "npz": "x.npz", "zarr": "x.zarr", "csv": "x.csv", "delta": "x"}


def put(folder, kind, number):
    """Records of a kind of source, other ones for another number."""
    values = np.full((40, 1), float(number))
    place = folder / PLACES[kind]
    match kind:
        case "npy":
            np.save(place, values)
        case "npz":
            np.savez(place, a=values)
        case "zarr":
            zarr.open_array(place, mode="a", shape=values.shape, dtype=values.dtype)[...] = values
        case "csv":
            place.write_text("cost\n" + "1.5\n" * (40 + number))
        case "delta":
            deltalake.write_deltalake(str(place), pa.table({"cost": values[:, 0]}), mode="overwrite")


@pytest.mark.parametrize("kind", PLACES)
def test_a_source_of_any_kind_that_changes_after_it_was_opened_is_noticed(tmp_path, kind):
    put(tmp_path, kind, 1)
    names = "" if kind in ("csv", "delta") else '\nnames = ["cost"]'
    where = f'table = "{PLACES[kind]}"' if kind == "delta" else f'files = ["{PLACES[kind]}"]{names}'
    arrays = '\narrays = ["a"]' if kind == "npz" else ""
    source = look(people.configure(tmp_path, [people.NUMBER], f'kind = "{kind}"\n{where}{arrays}'))
    if kind == "delta":
        for file in (tmp_path / "x").glob("*.parquet"):
            os.utime(file, ns=(1, 1))
    else:
        put(tmp_path, kind, 2)
    with pytest.raises(DataError, match="changed while it was read"):
        ingest(source, lambda stage, share: None)
    assert not (tmp_path / "out.zarr").exists()
