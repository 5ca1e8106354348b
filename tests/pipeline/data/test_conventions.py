"""Arrays whose attributes say that stored numbers are not values: refused by name, in a release and in an ingest."""

import warnings

import numpy as np
import pytest
import xarray as xr
import zarr

from blockveil.pipeline.base.errors import DataError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.datasets import open_records
from blockveil.pipeline.data.preview import look
from tests.house import support
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.releases.test_release import run

VALUES = support.records(40)
ATTRIBUTES = {
    "scale_factor": 0.01,
    "add_offset": 5.0,
    "_Unsigned": "true",
    "_FillValue": -32768,
    "missing_value": -1,
    "valid_range": [0, 10],
    "valid_min": 0,
    "valid_max": 10,
    "units": "days since 2000-01-01",
}
ENCODINGS = {
    "scale_factor": {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -32768},
    "add_offset": {"dtype": "int16", "add_offset": 5.0, "_FillValue": -32768},
    "_FillValue": {"dtype": "int32", "_FillValue": -1},
    "missing_value": {"dtype": "float64", "missing_value": -1.0},
}


def written(place, values, zarr_format, encoding=None):
    """A store as xarray writes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = xr.Dataset({"records": (("row", "feature"), values)})
        data.to_zarr(place, encoding={"records": encoding or {}}, zarr_format=zarr_format, consolidated=False)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_an_attribute_that_changes_values_is_refused_by_name_and_nothing_is_spent(tmp_path, attribute, zarr_format):
    loaded = support.prepare(tmp_path)
    group = zarr.open_group(tmp_path / "records.zarr", mode="w", zarr_format=zarr_format)
    array = group.create_array("records", shape=VALUES.shape, dtype="f8", config={"write_empty_chunks": True})
    array[...] = VALUES
    array.attrs[attribute] = ATTRIBUTES[attribute]
    for work in (lambda: run(loaded), lambda: look(loaded)):
        with pytest.raises(DataError, match=f'"{attribute}"'):
            work()
    source = 'kind = "zarr"\nfiles = ["records.zarr/records"]\nnames = ["cost", "stay", "more"]'
    with pytest.raises(DataError, match=f'"{attribute}"'):
        people.run(people.configure(tmp_path, [people.NUMBER], source))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_xarray_packs_is_refused(tmp_path, encoding, zarr_format):
    loaded = support.prepare(tmp_path)
    written(tmp_path / "other.zarr", VALUES % 100, zarr_format, ENCODINGS[encoding])
    (tmp_path / "people.toml").write_text(loaded.path.read_text().replace("records.zarr", "other.zarr"))
    with pytest.raises(DataError, match="its attribute"):
        open_records(load_config(loaded.path))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["f4", "f8", "i4"])
def test_what_xarray_writes_as_it_is_is_read(tmp_path, zarr_format, kind):
    loaded = support.prepare(tmp_path)
    written(tmp_path / "other.zarr", VALUES.astype(kind), zarr_format)
    loaded.path.write_text(loaded.path.read_text().replace("records.zarr", "other.zarr"))
    found = open_records(load_config(loaded.path))
    assert np.array_equal(found.array[...], VALUES.astype(kind))


@pytest.mark.parametrize("fill", [np.inf, -np.inf, np.nan, -1.0, 0.0])
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("masked", [True, False], ids=["of xarray", "bare"])
def test_a_fill_value_is_no_value_where_xarray_would_mask_it_and_else_means_nothing(
    tmp_path, fill, zarr_format, masked
):
    loaded = support.prepare(tmp_path)
    group = zarr.open_group(tmp_path / "records.zarr", mode="w", zarr_format=zarr_format)
    array = group.create_array(
        "records", shape=VALUES.shape, dtype="f8", fill_value=fill, config={"write_empty_chunks": True}
    )
    array[...] = VALUES
    if masked:
        array.attrs["_ARRAY_DIMENSIONS"] = ["row", "feature"]
    if masked and zarr_format == 2 and not np.isnan(fill):
        with pytest.raises(DataError, match='"fill_value"'):
            open_records(load_config(loaded.path))
    else:
        assert np.array_equal(open_records(load_config(loaded.path)).array[...], VALUES)


@pytest.mark.parametrize("mark", ["Infinity", "inf", "-Infinity", "AAAAAAAA8H8=", "AAAAAAAA8P8="])
def test_a_mark_of_missing_values_that_is_infinite_is_refused(tmp_path, mark):
    """The last two are what xarray writes in format 3: the bytes of the number."""
    loaded = support.prepare(tmp_path)
    zarr.open_group(tmp_path / "records.zarr", mode="a")["records"].attrs["_FillValue"] = mark
    with pytest.raises(DataError, match='"_FillValue"'):
        open_records(load_config(loaded.path))
