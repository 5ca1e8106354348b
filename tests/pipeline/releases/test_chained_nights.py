"""Nights of a series that an earlier version began with chains of increments go on as they began."""

import os
import signal
from datetime import date, timedelta

import numpy as np
import pytest
import zarr

from blockveil.engine.answers.gram import partial_gram
from blockveil.engine.noise.design import add_noise
from blockveil.engine.noise.discrete_gaussian import NoiseKey
from blockveil.pipeline.base.errors import BlockveilError, DataError, KeyLost, LedgerError, ReleaseConflict
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.datasets import open_records
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.statement import statement
from blockveil.pipeline.plan.begun import Begun
from blockveil.pipeline.plan.nights import InLedger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.charged_steps import reserve as reserve_night
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.releases.night import Workspace, run_release
from tests import support, warm

FIRST = date(2026, 11, 1)
SECTION = "\n[continual]\nnights = 4\nfirst = 2026-11-01\n"
VALUES = support.records(400)


def on(number):
    return FIRST + timedelta(days=number - 1)


def grow(folder, rows, chunks=None):
    support.write_records(folder, VALUES[:rows], chunks)


def prepare(folder, rows=100, section=SECTION, **config):
    grow(folder, rows)
    path = support.write_config(folder, **config)
    path.write_text(path.read_text() + section)
    loaded = load_config(path)
    support.set_budget(loaded, 3.0)
    return loaded


def plan_of(loaded, number):
    """As an earlier version planned it."""
    return make_plan(loaded, on(number), Begun(night=InLedger(chained=True, number=number)))


def run(loaded, number):
    return run_release(plan_of(loaded, number), ThreadCompute(2), "test", lambda *a: None)


def spent(loaded):
    return Ledger(loaded.ledger_url).budget("people").spent


def bits(outcome):
    group = zarr.open_group(outcome.path, mode="r")
    return {name: array[...].tobytes() for name, array in sorted(group.arrays()) if name != "feature"}


def by_hand(loaded, number, secret):
    """Arrays of a night from its records, the shared key and the increments' noise, added one by one."""
    plan, data = plan_of(loaded, number), open_records(loaded)
    key, size = NoiseKey.derive(secret, bytes.fromhex(plan.series.digest)), (0, plan.design.width)
    noise = sum(
        type(plan.design.grid)(plan.design.grid.levels, (night,)).draw(key, size, size, True)
        for night in plan.public["calibration"]["continual"]["chain"]
    )
    exact = partial_gram(data.array, 0, data.rows, plan.question.query.quantiser, 100)
    released = add_noise(exact, plan.design.steps(size, size), noise, plan.design.shift)
    arrays = plan.answer.arrays(released, data.rows)
    return {name: np.asarray(value).tobytes() for name, (value, _) in sorted(arrays.items()) if name != "feature"}


def reserved(loaded):
    return [entry for entry in Ledger(loaded.ledger_url).history() if entry.kind == "RESERVED"]


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_all_nights_are_paid_by_the_first_and_share_noise(tmp_path, kind, neighbours):
    loaded, keys = prepare(tmp_path, kind=kind, neighbours=neighbours), KeyStore(tmp_path / "keys")
    after_first, secret = None, None
    for number, rows in ((1, 100), (2, 100), (3, 250), (4, 400)):
        grow(tmp_path, rows)
        outcome = run(loaded, number)
        if number == 1:
            after_first = spent(loaded)
            (opener,) = keys.list()
            secret = keys.read(opener)
        assert spent(loaded) == after_first
        assert bits(outcome) == by_hand(loaded, number, secret)
        assert keys.list() == ([opener] if number < 4 else [])
        again = run(loaded, number)
        assert again.output_digest == outcome.output_digest
        assert "complete already" in again.resumed
        attributes = zarr.open_group(outcome.path, mode="r").attrs
        assert "all 4 nights of this release together" in attributes["guarantee"]["sentence"]
        assert attributes["mechanism"]["continual"]["night"] == number
    plan = plan_of(loaded, 1)
    assert spent(loaded).mu == pytest.approx(plan.charge.mu)
    assert plan.charge.delta(1.0) <= 1e-6
    assert len(reserved(loaded)) == 4
    notes = [line.note for line in statement(Ledger(loaded.ledger_url).history()) if line.kind == "RESERVED"]
    assert notes == ["", *["paid by an earlier night"] * 3]
    assert Ledger(loaded.ledger_url).verify().problems == []
    for name in ("ledger.db", "people.toml"):
        assert secret not in (tmp_path / name).read_bytes()


def test_a_night_that_is_left_out_costs_nothing_and_is_not_made_up_for(tmp_path):
    loaded = prepare(tmp_path)
    run(loaded, 1)
    grow(tmp_path, 300)
    run(loaded, 3)
    with pytest.raises(LedgerError, match="comes after this night"):
        run(loaded, 2)
    assert len(reserved(loaded)) == 2
    run(loaded, 4)


def test_the_first_night_that_runs_pays_whichever_it_is(tmp_path):
    loaded = prepare(tmp_path)
    run(loaded, 2)
    assert spent(loaded).mu == pytest.approx(plan_of(loaded, 1).charge.mu)
    with pytest.raises(LedgerError, match="comes after this night"):
        run(loaded, 1)


def altered():
    changed = VALUES[:200].copy()
    changed[5, 0] += 1
    return {
        "one value": changed,
        "one record less": np.delete(VALUES[:200], 7, axis=0),
        "fewer records": VALUES[:99],
        "one record put in front": np.vstack([VALUES[300:301], VALUES[:200]]),
        "another order": np.vstack([VALUES[50:100], VALUES[:50], VALUES[100:200]]),
        "another type": VALUES[:200].astype(np.float32),
    }


KILL = """
import os, signal, sys
from datetime import date
from pathlib import Path
from blockveil.pipeline.releases import night, publishing
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.config import load_config
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.begun import Begun
from blockveil.pipeline.plan.nights import InLedger
from blockveil.pipeline.plan.planning import make_plan

def die(*a, **k):
    os.kill(os.getpid(), signal.SIGKILL)

def after(owner, name):
    original = getattr(owner, name)
    def call(*a, **k):
        original(*a, **k)
        die()
    setattr(owner, name, call)

owner, name = sys.argv[2].split()
after({"Ledger": Ledger, "KeyStore": KeyStore, "Draft": publishing.Draft, "publishing": publishing}[owner], name)
day = date.fromisoformat(sys.argv[3])
plan = make_plan(load_config(Path(sys.argv[1])), day, Begun(night=InLedger(chained=True, number=day.day)))
night.run_release(plan, ThreadCompute(2), "killed", lambda *a: None)
"""


def kill(loaded, point, number):
    assert warm.run(KILL, str(loaded.path), point, on(number).isoformat()).returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("number", "point"),
    [
        (1, "Ledger commit"),
        (3, "Ledger reserve"),
        (3, "Draft finish"),
        *(
            pytest.param(number, point, marks=pytest.mark.slow)
            for number, point in [
                (1, "Ledger reserve"),
                (1, "Draft finish"),
                (1, "publishing publish"),
                (3, "Ledger commit"),
                (3, "publishing publish"),
            ]
        ),
    ],
)
def test_a_killed_night_is_finished_with_the_same_noise_and_no_further_charge(tmp_path, point, number):
    loaded, keys = prepare(tmp_path), KeyStore(tmp_path / "keys")
    if number > 1:
        run(loaded, 1)
        grow(tmp_path, 200)
    kill(loaded, point, number)
    outcome = run(loaded, number)
    assert outcome.resumed is not None
    (opener,) = keys.list()
    secret = keys.read(opener)
    assert bits(outcome) == by_hand(loaded, number, secret)
    assert spent(loaded).mu == pytest.approx(plan_of(loaded, 1).charge.mu)
    assert len(reserved(loaded)) == (1 if number == 1 else 2)
    grow(tmp_path, 300)
    assert bits(run(loaded, 4)) == by_hand(loaded, 4, secret)


def test_a_last_night_killed_after_its_key_was_destroyed_is_sealed_by_the_next_run(tmp_path):
    loaded = prepare(tmp_path)
    run(loaded, 1)
    kill(loaded, "KeyStore destroy", 4)
    assert "only the ledger entry was missing" in run(loaded, 4).resumed
    assert KeyStore(tmp_path / "keys").list() == []


def test_a_night_waits_until_the_one_that_pays_has_committed(tmp_path):
    loaded = prepare(tmp_path)
    kill(loaded, "Ledger reserve", 1)
    with pytest.raises(LedgerError, match="has not committed"):
        run(loaded, 2)
    kill(loaded, "Ledger commit", 1)
    grow(tmp_path, 200)
    run(loaded, 2)
    assert spent(loaded).mu == pytest.approx(plan_of(loaded, 1).charge.mu)
    with pytest.raises(ReleaseConflict, match="records have changed"):
        run(loaded, 1)


def test_a_night_given_back_by_its_payer_makes_the_next_one_pay(tmp_path):
    loaded = prepare(tmp_path)
    support.write_records(tmp_path, np.full((10, 3), np.nan))
    with pytest.raises(BlockveilError):
        run(loaded, 1)
    assert spent(loaded).mu == 0.0 or spent(loaded).loss == 0
    grow(tmp_path, 100)
    run(loaded, 2)
    assert spent(loaded).mu == pytest.approx(plan_of(loaded, 1).charge.mu)


def test_bad_records_of_a_later_night_leave_the_shared_key_alone(tmp_path):
    loaded, keys = prepare(tmp_path), KeyStore(tmp_path / "keys")
    run(loaded, 1)
    (opener,) = keys.list()
    support.write_records(tmp_path, np.vstack([VALUES[:100], np.full((1, 3), np.nan)]))
    with pytest.raises(DataError):
        run(loaded, 2)
    assert keys.list() == [opener]
    grow(tmp_path, 120)
    run(loaded, 2)


def test_a_lost_or_another_key_ends_the_series_without_a_charge(tmp_path):
    loaded, keys = prepare(tmp_path), KeyStore(tmp_path / "keys")
    run(loaded, 1)
    (opener,) = keys.list()
    keys.destroy(opener)
    with pytest.raises(KeyLost):
        run(loaded, 2)
    path = tmp_path / "keys" / opener
    path.write_bytes(os.urandom(32))
    path.chmod(0o600)
    with pytest.raises(LedgerError, match="not the one"):
        run(loaded, 2)
    assert not list(loaded.output_root.rglob("*2026-11-02*.zarr"))


def test_another_plan_cannot_join_the_nights_and_the_difference_is_shown(tmp_path):
    loaded = prepare(tmp_path)
    run(loaded, 1)
    for old, new in (("epsilon = 1.0", "epsilon = 1.5"), ("nights = 4", "nights = 5"), ("10_000", "20_000")):
        text = loaded.path.read_text()
        loaded.path.write_text(text.replace(old, new))
        with pytest.raises(ReleaseConflict, match=f"{old.split(' ')[0]}|rows_at_most"):
            run(load_config(loaded.path), 2)
        loaded.path.write_text(text)
    assert len(reserved(loaded)) == 1


def test_a_reservation_that_was_compared_with_an_older_night_is_refused(tmp_path, monkeypatch):
    loaded = prepare(tmp_path)
    run(loaded, 1)
    grow(tmp_path, 200)
    looked = Ledger.nights

    def meanwhile(self, *args):
        found = looked(self, *args)
        monkeypatch.setattr(Ledger, "nights", looked)
        run(loaded, 2)
        return found

    monkeypatch.setattr(Ledger, "nights", meanwhile)
    with pytest.raises(LedgerError, match="meanwhile"):
        reserve_night(Workspace.open(make_plan(loaded, on(3))), "test")
    assert len(reserved(loaded)) == 2
