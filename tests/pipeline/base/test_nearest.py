"""A misspelt name is answered with whole names, the nearest first."""

from __future__ import annotations

import numpy as np
import pytest

import blockveil as bv
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.base.nearest import among, nearest

LONG = [f"predominant_degree_awarded_as_reported={level}" for level in ("Less than two years", "Two years", "Four")]


def test_the_nearest_names_come_first_and_none_is_cut():
    names = ["age", *LONG, "earnings_median", "earnings_mean"]
    assert nearest("earnings_medain", names)[0] == "earnings_median"
    assert LONG[1] in among("degree_awarded=Two years", names)


def test_a_name_like_none_is_answered_with_the_first_ones():
    assert nearest("zzz", ["a", "b", "c"]) == ["a", "b", "c"]
    assert among("zzz", list("abcdef")) == 'among "a", "b", "c", "d", ...'


@pytest.mark.parametrize("count", [0, 1, 100_000])
def test_any_number_of_names_is_answered(count):
    assert len(nearest("f7", [f"f{number}" for number in range(count)])) == min(count, 4)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nearest")
    rows = np.random.default_rng(1).integers(0, 9, (200, 2))
    np.savetxt(folder / "c.csv", rows, "%d", ",", header="earnings_median,age", comments="")
    columns = {"earnings_median": "0 to 10", "age": "0 to 10"}
    made = bv.init(
        folder / "c.csv", date="2026-12-01", output=folder / "colleges", unit_column="row", rows_at_most=1000,
        row_count_public=False, purpose="correlations", every="once", strictness="loose", columns=columns,
    )  # fmt: skip
    bv.ingest(made.folder / "ingest.toml")
    bv.budget(made.config).grant(epsilon=8.0, delta=1e-6)
    bv.run(made.config, date="2026-12-01")
    return made.folder / "releases"


@pytest.mark.parametrize("named", ["colleges/correlation/2026-12-01", "colleges/correlations/2026-12-02"])
def test_a_release_that_is_not_there_is_no_damaged_one(released, named):
    with pytest.raises(StoreError, match="There is no release") as refused:
        bv.open(named, root=released)
    assert '"colleges/correlations/2026-12-01"' in str(refused.value)
    assert "backup" not in str(refused.value)


def test_features_that_are_not_there_are_answered_with_whole_names(released):
    release = bv.open("colleges/correlations/2026-12-01", root=released)
    for ask in (
        lambda: release.regress("earnings", ["age"]),
        lambda: release.regress("age", ["earnings_medain"]),
    ):
        with pytest.raises(ConfigError, match='"earnings_median"'):
            ask()
