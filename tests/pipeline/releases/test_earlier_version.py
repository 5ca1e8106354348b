"""What version 0.1.0 left behind is opened, checked and finished by this version, with the same bits."""

import hashlib
import tarfile
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import zarr

from blockveil.pipeline.base.errors import ReleaseConflict
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger, State
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.releases.publishing import find_published

LEFT = Path(__file__).parents[2] / "data" / "killed_0_1_0.tar.gz"
KILLED = date(2026, 11, 20)

# What version 0.1.0 itself released when it finished a copy of the same folder.
BITS = {
    "count": "6452287f48f419f3a48539727af5c6cd7de3a3375249dd9a5a21b36d9b0af286",
    "second_moment": "ca00a163d262ce62978e98f894b405a6a2f15fbb801c7975649a13ed4e0e498e",
    "mean": "826999ada8c0aea2fe1e2aa03ea11e848ab47183b153d19f15f73b4db2e4f661",
    "covariance": "588e7c49e407da65e135b14925ef5c81300a68102c7fae3b6b5785d2860177af",
}


@pytest.fixture
def left(tmp_path):
    with tarfile.open(LEFT) as archive:
        archive.extractall(tmp_path, filter="fully_trusted")  # the modes of the key store are part of what was left
    return load_config(tmp_path / "people.toml")


def finish(loaded):
    return run_release(make_plan(loaded, KILLED), ThreadCompute(1), "this version", lambda _stage, _share: None)


def test_its_ledger_is_whole_and_its_release_is_as_the_ledger_says(left):
    found = Ledger(left.ledger_url).verify()
    assert not found.problems
    last = Ledger(left.ledger_url).history(release_id="people/covariance/2026-11-19")[-1]
    published = find_published(left.output_root, "people/covariance/2026-11-19", last.charge_id)
    assert published.output_digest == last.payload["output_digest"]


def test_a_night_that_was_killed_after_its_commit_is_finished_with_the_same_bits_at_no_further_cost(left):
    ledger = Ledger(left.ledger_url)
    assert ledger.find("people/covariance/2026-11-20").state == State.COMMITTED
    before = ledger.budget("people").spent_epsilon
    outcome = finish(left)
    released = zarr.open_group(outcome.path, mode="r")
    assert {name: _digest(released[name]) for name in BITS} == BITS
    assert ledger.find("people/covariance/2026-11-20").state == State.RELEASED
    assert ledger.budget("people").spent_epsilon == before
    assert not ledger.verify().problems
    assert not list(left.keys_root.iterdir())


def test_other_records_under_the_killed_night_are_refused(left):
    array = zarr.open_group(left.store_path, mode="r+")["records"]
    array[0, 0] = array[0, 0] + 1
    with pytest.raises(ReleaseConflict):
        finish(left)


def _digest(array):
    values = np.ascontiguousarray(array[...])
    return hashlib.sha256(f"{values.shape} {values.dtype}".encode() + values.tobytes()).hexdigest()
