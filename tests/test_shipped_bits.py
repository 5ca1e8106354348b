"""A release of a shipped config has the same bits in every version, or its algorithm has a new version."""

import json
from pathlib import Path

import pytest

from tests.house import shipped

KNOWN = json.loads((Path(__file__).parent / "data" / "shipped.json").read_text())


def test_every_shipped_config_that_releases_something_has_known_bits():
    assert shipped.names() == sorted(KNOWN)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_a_shipped_config_releases_the_bits_that_it_always_had(name):
    found = shipped.digests(name)
    assert KNOWN[name] == {array: found[array] for array in KNOWN[name]}


def test_other_records_or_another_key_have_other_bits(monkeypatch):
    monkeypatch.setattr(shipped, "ROWS", shipped.ROWS - 1)
    fewer = shipped.digests("quickstart")
    assert all(fewer[array] != KNOWN["quickstart"][array] for array in ("count", "mean", "covariance", "second_moment"))
