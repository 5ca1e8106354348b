"""Nights that share a charge: charged once, a key each, read with earlier results, resumed, over records that grow."""

import os
import shutil
import signal
from contextlib import contextmanager, nullcontext
from datetime import date, timedelta
from functools import partial

import numpy as np
import pytest
import zarr

from blockveil.engine.answers.gram import partial_gram
from blockveil.engine.noise.design import add_noise
from blockveil.engine.noise.discrete_gaussian import NoiseKey, noise_block
from blockveil.engine.noise.level_strategy import of_change
from blockveil.pipeline.base.errors import (
    BlockveilError,
    ConfigError,
    DataError,
    KeyLost,
    LedgerError,
    ReleaseConflict,
    StoreError,
)
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data import released as reading
from blockveil.pipeline.data.content import array_digest
from blockveil.pipeline.data.content_key import ContentKey
from blockveil.pipeline.data.datasets import open_records
from blockveil.pipeline.data.history import history_of
from blockveil.pipeline.ledger import Ledger, marks
from blockveil.pipeline.ledger.statement import statement
from blockveil.pipeline.plan import budgets
from blockveil.pipeline.plan.begun_plans import as_begun
from blockveil.pipeline.plan.forecast import forecast
from blockveil.pipeline.plan.planning import make_plan, plan_near
from blockveil.pipeline.plan.price import price_of
from blockveil.pipeline.plan.splitting import split
from blockveil.pipeline.plan.summary import describe
from blockveil.pipeline.releases import retention
from blockveil.pipeline.releases.charged_steps import measure as measure_night
from blockveil.pipeline.releases.charged_steps import reserve as reserve_night
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.growing import needed_later
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.releases.night import run_release
from tests.house import support, warm

FIRST = date(2026, 11, 1)
SECTION = "\n[continual]\nnights = 4\nfirst = 2026-11-01\n"
VALUES = support.records(400)

KEY = ContentKey(bytes(range(32)))


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


def run(loaded, number):
    return run_release(make_plan(loaded, on(number)), ThreadCompute(2), "test", lambda *a: None)


def spent(loaded):
    return Ledger(loaded.ledger_url).budget("people").spent


def reserved(loaded):
    return [entry for entry in Ledger(loaded.ledger_url).history() if entry.kind == "RESERVED"]


def of_series(loaded, number):
    """The plan of a night as its ledger has it."""
    return as_begun(make_plan(loaded, on(number)), Ledger(loaded.ledger_url))


def bits(outcome):
    group = zarr.open_group(outcome.path, mode="r")
    return {name: array[...].tobytes() for name, array in sorted(group.arrays()) if name != "feature"}


@pytest.fixture
def secrets(monkeypatch):
    """Secrets by charge, as they were made; the store itself forgets each when its night is sealed."""
    made, create = {}, KeyStore.create

    def kept(self, charge_id):
        made[charge_id] = create(self, charge_id)
        return made[charge_id]

    monkeypatch.setattr(KeyStore, "create", kept)
    return made


def by_hand(loaded, numbered, secrets):
    """Arrays of the newest of some nights, by the definition of weights and recurrence, from secrets and records.

    Each night is its date's number and how many records it had.
    """
    read, data = [], open_records(loaded)
    for night, (date_number, _) in enumerate(numbered, 1):
        plan, levels = of_series(loaded, date_number), of_series(loaded, date_number).series.levels
        charge = Ledger(loaded.ledger_url).find(plan.release_id)
        key = NoiseKey.derive(secrets[charge.charge_id], bytes.fromhex(charge.spec_digest))
        size, total = (0, plan.design.width), 0
        for arrival in range(1, night + 1):
            low, high = (0 if arrival == 1 else numbered[arrival - 2][1]), numbered[arrival - 1][1]
            weight = [v for v, age in zip(levels.weights, levels.ages, strict=True) if age <= night - arrival][-1]
            if low < high:
                total = total + weight * partial_gram(data.array, low, high, plan.question.query.quantiser, 100)
        noise = noise_block(key, size, size, grid=plan.design.grid, symmetric=True)
        measured = add_noise(total, plan.design.steps(size, size), noise, plan.design.shift)
        estimate = measured.astype(np.float64)
        for age, difference in list(zip(levels.ages, levels.differences, strict=True))[1:]:
            if age < night:
                estimate = estimate - float(difference) * read[night - age - 1]
        read.append(estimate / float(levels.weights[0]))
    arrays = plan.answer.arrays(read[-1], numbered[-1][1])
    found = {name: np.asarray(value).tobytes() for name, (value, _) in sorted(arrays.items()) if name != "feature"}
    return found | {"running_total": read[-1].ravel()[None].tobytes()}


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_all_nights_are_paid_by_the_first_and_each_has_a_key_of_its_own(tmp_path, secrets, kind, neighbours):
    loaded, keys = prepare(tmp_path, kind=kind, neighbours=neighbours), KeyStore(tmp_path / "keys")
    numbered, after_first = [], None
    for number, rows in ((1, 100), (2, 100), (3, 250), (4, 400)):
        grow(tmp_path, rows)
        numbered.append((number, rows))
        outcome = run(loaded, number)
        after_first = spent(loaded) if number == 1 else after_first
        assert spent(loaded) == after_first
        assert bits(outcome) == by_hand(loaded, numbered, secrets)
        assert keys.list() == []
        again = run(loaded, number)
        assert again.output_digest == outcome.output_digest
        assert "complete already" in again.resumed
        attributes = zarr.open_group(outcome.path, mode="r").attrs
        assert "all 4 nights of this release together" in attributes["guarantee"]["sentence"]
        assert attributes["mechanism"]["continual"]["night"] == number
    plan = make_plan(loaded, FIRST)
    assert len(set(secrets.values())) == 4
    assert spent(loaded).mu == pytest.approx(plan.charge.mu)
    assert plan.charge.delta(1.0) <= 1e-6
    assert len(reserved(loaded)) == 4
    notes = [line.note for line in statement(Ledger(loaded.ledger_url).history()) if line.kind == "RESERVED"]
    assert notes == ["", *["paid by an earlier night"] * 3]
    assert Ledger(loaded.ledger_url).verify().problems == []
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert not any(secret in kept for secret in secrets.values())


def test_a_date_that_is_left_out_costs_nothing_and_uses_no_night(tmp_path, secrets):
    loaded = prepare(tmp_path)
    run(loaded, 1)
    grow(tmp_path, 300)
    outcome = run(loaded, 3)
    assert of_series(loaded, 3).series.night == 2
    assert bits(outcome) == by_hand(loaded, [(1, 100), (3, 300)], secrets)
    with pytest.raises(LedgerError, match="comes after this night"):
        run(loaded, 2)
    assert len(reserved(loaded)) == 2
    grow(tmp_path, 400)
    assert bits(run(loaded, 4)) == by_hand(loaded, [(1, 100), (3, 300), (4, 400)], secrets)


def test_the_first_night_that_runs_pays_whichever_it_is(tmp_path):
    loaded = prepare(tmp_path)
    run(loaded, 2)
    assert of_series(loaded, 2).series.night == 1
    assert spent(loaded).mu == pytest.approx(make_plan(loaded, FIRST).charge.mu)
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


@pytest.mark.parametrize("change", altered())
def test_records_that_do_not_begin_with_those_of_the_night_before_are_refused(tmp_path, change):
    loaded = prepare(tmp_path)
    run(loaded, 1)
    before = reserved(loaded)
    support.write_records(tmp_path, altered()[change])
    with pytest.raises(DataError, match="do not begin") as caught:
        run(loaded, 2)
    assert "100" not in str(caught.value)
    assert reserved(loaded) == before
    grow(tmp_path, 150)
    run(loaded, 2)


@pytest.mark.parametrize("chunks", [(1, 3), (33, 2), (200, 3)])
def test_histories_and_where_nights_end_are_the_same_whatever_the_chunks(tmp_path, monkeypatch, chunks):
    loaded = prepare(tmp_path)
    digests = []
    for rows in (100, 130, 130, 200):
        grow(tmp_path, rows)
        digests.append(history_of(open_records(loaded), KEY).digest)
    grow(tmp_path, 200, chunks)
    monkeypatch.setattr("blockveil.pipeline.data.history._BYTES", 500)
    found = history_of(open_records(loaded), KEY, digests)
    assert (found.digest, found.ends) == (digests[-1], (100, 130, 130, 200))
    own = history_of(open_records(loaded), KEY, digests[:1], digests[1])
    assert (own.digest, own.ends) == (digests[1], (100, 130))
    with pytest.raises(DataError, match="do not begin"):
        history_of(open_records(loaded), KEY, digests[::-1])


def test_compute_settings_and_chunks_do_not_change_a_bit_of_a_night(tmp_path, monkeypatch):
    monkeypatch.setattr("blockveil.pipeline.releases.charged_steps.NoiseKey.derive", lambda *a: NoiseKey(bytes(32)))
    found = set()
    for position, (block_rows, chunks) in enumerate([("7", (50, 3)), ("400", (50, 3)), ("60", (13, 2))]):
        folder = tmp_path / str(position)
        folder.mkdir()
        prepare(folder)
        loaded = load_config(folder / "people.toml", overrides={"compute.block_rows": block_rows})
        run(loaded, 1)
        grow(folder, 200, chunks)
        found.add(tuple(bits(run(loaded, 3)).items()))
    assert len(found) == 1


KILL = """
import os, signal, sys
from datetime import date
from pathlib import Path
from blockveil.pipeline.releases import night, publishing
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.config import load_config
from blockveil.pipeline.releases.keys import KeyStore
from blockveil.pipeline.ledger import Ledger
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
plan = make_plan(load_config(Path(sys.argv[1])), date.fromisoformat(sys.argv[3]))
night.run_release(plan, ThreadCompute(2), "killed", lambda *a: None)
"""


def kill(loaded, point, number):
    assert warm.run(KILL, str(loaded.path), point, on(number).isoformat()).returncode == -signal.SIGKILL


def copy_of(folder, name, loaded):
    """The same world in another folder, with the same secrets, in which nobody is killed."""
    other = folder.parent / f"{folder.name}-{name}"
    shutil.copytree(folder, other)
    shutil.copytree(marks.folder().parents[1], folder.parent / "state")
    return load_config(other / loaded.path.name)


@contextmanager
def on_another_machine(monkeypatch, folder):
    """Let the account have seen what it had when the world was copied, and nothing of what became of the other."""
    with monkeypatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder.parent / "state"))
        yield


POINTS = [
    "Ledger reserve",
    "KeyStore create",
    "Ledger commit",
    "Draft finish",
    "publishing publish",
    "KeyStore destroy",
]


@pytest.mark.parametrize(
    ("number", "point"),
    [
        (1, "Ledger commit"),
        (3, "Draft finish"),
        *(
            pytest.param(number, point, marks=pytest.mark.slow)
            for number in (1, 3)
            for point in POINTS
            if (number, point) not in {(1, "Ledger commit"), (3, "Draft finish")}
        ),
    ],
)
def test_a_killed_night_is_finished_with_the_same_bits_and_no_further_charge_also_after_appends(
    tmp_path, monkeypatch, point, number
):
    folder = tmp_path / "world"
    folder.mkdir()
    loaded = prepare(folder)
    if number > 1:
        run(loaded, 1)
        grow(folder, 200)
    kill(loaded, point, number)
    sealed = point == "KeyStore destroy"
    drawn = point not in ("Ledger reserve", "KeyStore create")
    one, two = loaded, copy_of(folder, "appended", loaded)
    grow(two.base, 333)
    if not sealed and drawn:  # the next date waits until the night that was committed is finished
        with pytest.raises(LedgerError, match="is not released"):
            run(one, 4)
    machines = (nullcontext, partial(on_another_machine, monkeypatch, folder))
    results = []
    for world, machine in zip((one, two), machines, strict=True):
        with machine():
            results.append(run(world, number))
    assert all(result.resumed is not None for result in results)
    if drawn:
        assert bits(results[0]) == bits(results[1])
    for world, result, machine in zip((one, two), results, machines, strict=True):
        assert spent(world).mu == pytest.approx(make_plan(loaded, FIRST).charge.mu)
        assert KeyStore(world.keys_root).list() == []
        grow(world.base, 400)
        with machine():
            final = run(world, 4)
        assert of_series(world, 4).series.night == (2 if number == 1 else 3)
        assert zarr.open_group(final.path, mode="r").attrs["mechanism"]["continual"]["night"] == (number + 3) // 2
        assert result.output_digest != final.output_digest
        assert Ledger(world.ledger_url).verify().problems == []


def test_a_night_waits_until_the_one_that_pays_has_committed(tmp_path):
    loaded = prepare(tmp_path)
    kill(loaded, "Ledger reserve", 1)
    with pytest.raises(LedgerError, match="has not committed"):
        run(loaded, 2)
    run(loaded, 1)
    grow(tmp_path, 200)
    run(loaded, 2)
    assert spent(loaded).mu == pytest.approx(make_plan(loaded, FIRST).charge.mu)


def test_a_night_given_back_by_its_payer_makes_the_next_one_pay(tmp_path):
    loaded = prepare(tmp_path)
    support.write_records(tmp_path, np.full((10, 3), np.nan))
    with pytest.raises(BlockveilError):
        run(loaded, 1)
    assert spent(loaded).mu == 0.0 or spent(loaded).loss == 0
    grow(tmp_path, 100)
    run(loaded, 2)
    assert spent(loaded).mu == pytest.approx(make_plan(loaded, FIRST).charge.mu)


def test_bad_records_of_a_later_night_use_no_night(tmp_path):
    loaded, keys = prepare(tmp_path), KeyStore(tmp_path / "keys")
    run(loaded, 1)
    support.write_records(tmp_path, np.vstack([VALUES[:100], np.full((1, 3), np.nan)]))
    with pytest.raises(DataError):
        run(loaded, 2)
    assert keys.list() == []
    grow(tmp_path, 120)
    assert run(loaded, 2).resumed is None
    assert of_series(loaded, 2).series.night == 2


def test_a_committed_night_whose_key_is_lost_ends_the_series_without_a_charge(tmp_path):
    loaded, keys = prepare(tmp_path), KeyStore(tmp_path / "keys")
    run(loaded, 1)
    kill(loaded, "Ledger commit", 2)
    (secret,) = keys.list()
    (tmp_path / "keys" / secret).write_bytes(os.urandom(32))
    with pytest.raises(KeyLost):
        run(loaded, 2)
    keys.destroy(secret)
    with pytest.raises(KeyLost):
        run(loaded, 2)
    with pytest.raises(LedgerError, match="is not released"):
        run(loaded, 3)
    assert not list(loaded.output_root.rglob("*2026-11-02*.zarr"))


@pytest.mark.parametrize("first", [2, 3])
def test_of_two_nights_that_run_at_once_one_commits_and_the_other_is_refused_without_a_trace(tmp_path, first):
    loaded = prepare(tmp_path)
    run(loaded, 1)
    grow(tmp_path, 200)
    opened = {number: support.opened(make_plan(loaded, on(number))) for number in (2, 3)}
    held = {number: reserve_night(*each, "test") for number, each in opened.items()}
    second = 5 - first
    run(loaded, first)
    with pytest.raises(LedgerError, match="meanwhile" if second == 3 else "comes after"):
        measure_night(*opened[second], held[second], ThreadCompute(2), lambda *a: None)
    assert not list(loaded.output_root.rglob(f"*{on(second)}*.zarr"))
    numbers = [entry.payload["spec"]["calibration"]["continual"]["night"] for entry in reserved(loaded)]
    assert numbers == [1, 2, 2]
    opened[second][1].ledger.void_if_reserved(held[second].charge.charge_id, "lost the race")
    if second == 3:
        run(loaded, 3)
        assert of_series(loaded, 3).series.night == 3


@pytest.mark.parametrize("harm", ["missing", "changed", "of another release"])
def test_a_night_is_read_only_with_the_results_that_the_ledger_names(tmp_path, harm):
    loaded = prepare(tmp_path)
    first = run(loaded, 1)
    result = first.path / "running_total"
    if harm == "missing":
        shutil.rmtree(result)
    else:
        array = zarr.open_group(first.path, mode="r+")["running_total"]
        array[...] = array[...] * (1.0 + 1e-9) if harm == "changed" else 0.0
    before = spent(loaded)
    with pytest.raises(StoreError, match="running_total"):
        run(loaded, 2)
    assert spent(loaded) == before
    charge = Ledger(loaded.ledger_url).find(make_plan(loaded, on(2)).release_id)
    assert charge is None
    assert KeyStore(tmp_path / "keys").list() == []


def test_a_result_that_is_removed_once_it_was_checked_ends_in_words_or_not_at_all(tmp_path, monkeypatch):
    group = zarr.open_group(tmp_path / "2026-11-01.zarr", mode="w", zarr_format=3)
    group.create_array(reading.RUNNING_TOTAL, shape=(1, 2), dtype="<f8")[...] = 1.0
    known = reading.result_digest(tmp_path / "2026-11-01.zarr")

    def digest_then_gone(name, array):
        found = array_digest(name, array)
        shutil.rmtree(tmp_path / "2026-11-01.zarr", ignore_errors=True)
        return found

    monkeypatch.setattr(reading, "array_digest", digest_then_gone)
    found = reading.known_result(tmp_path / "2026-11-01.zarr", known)
    assert found.shape == (1, 2)
    with pytest.raises(StoreError, match="no readable running_total"):
        reading.known_result(tmp_path / "2026-11-01.zarr", known)


def test_results_that_later_nights_are_read_with_are_not_pruned(tmp_path):
    loaded = prepare(tmp_path, section=SECTION.replace("4", "9"))
    for number in range(1, 7):
        run(loaded, number)
    old = retention.old_releases(loaded, on(7))
    # Of 9 nights the largest age is 8; the next night, the seventh, is read with the nights 6, 5, 3.
    assert [found.release_id[-2:] for found in old] == []
    later = prepare(tmp_path, section=SECTION.replace("4", "3").replace("11-01", "11-07"))
    run(later, 7)
    run(later, 8)
    names = [found.release_id[-2:] for found in retention.old_releases(later, on(9))]
    assert names == ["01", "02", "03", "04", "05", "06"]


def test_a_night_that_is_under_way_keeps_the_results_that_it_is_read_with(tmp_path):
    loaded = prepare(tmp_path, section=SECTION.replace("4", "3"))
    for number in (1, 2):
        run(loaded, number)
    plan, books = support.opened(make_plan(loaded, on(3)))
    reserve_night(plan, books, "test")
    # The third night is read with the second and the first, and is not drawn yet.
    assert retention.old_releases(loaded, on(3)) == []
    assert needed_later(loaded, books.ledger, on(3)) >= {on(1), on(2)}
    run(loaded, 3)
    assert [found.release_id[-2:] for found in retention.old_releases(loaded, on(4))] == ["01", "02"]


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


def test_new_nights_are_a_new_charge(tmp_path):
    loaded = prepare(tmp_path)
    run(loaded, 4)
    loaded.path.write_text(loaded.path.read_text().replace("first = 2026-11-01", "first = 2026-11-05"))
    later = load_config(loaded.path)
    run(later, 5)
    assert spent(later).mu == pytest.approx(make_plan(loaded, FIRST).charge.mu * 2**0.5)


@pytest.mark.parametrize("number", [0, 5, -400])
def test_a_date_outside_the_nights_is_refused_before_anything_is_read(tmp_path, number):
    loaded = prepare(tmp_path)
    with pytest.raises(ConfigError, match="not among the 4 nights"):
        make_plan(loaded, on(number))
    assert plan_near(loaded, on(number)).logical_date == (on(4) if number > 0 else on(1))


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("nights = 4", "nights = 1", "nights"),
        ("nights = 4", "nights = 3661", "nights"),
        ("nights = 4", "nights = 4.0", "nights"),
        ("first = 2026-11-01", "", "first"),
        ("first = 2026-11-01", "first = 20261101", "first"),
        ("first = 2026-11-01", "first = 2026-11-01T00:00:00", "first"),
        ("first = 2026-11-01", 'first = "2026-11-01"', "first"),
        ('kind = "shaped-gaussian"', 'kind = "laplace"', "mechanism.kind"),
        ('kind = "covariance"', 'kind = "rows"', "query.kind"),
        ('unit = "one person (one row)"', 'unit = "one person (one row)"\nshare = 0.5', "share"),
    ],
)
def test_what_cannot_share_noise_is_refused_in_the_config(tmp_path, old, new, key):
    path = prepare(tmp_path).path
    text = path.read_text().replace(old, new)
    if new.endswith('"rows"'):
        text = text.replace('"add-remove"', '"replace-one"')
    path.write_text(text)
    with pytest.raises(ConfigError, match=key):
        load_config(path)


def test_plan_budget_and_forecast_tell_that_the_charge_is_for_all_nights(tmp_path):
    loaded = prepare(tmp_path)
    plan, ledger = make_plan(loaded, on(2)), Ledger(loaded.ledger_url)
    status = budgets.granted(plan, ledger)
    assert not budgets.is_paid(plan, ledger)
    assert budgets.nights_left(plan, ledger, status) == 0
    rows = dict(describe(plan, price_of(plan, status)))
    assert rows["Night"].startswith("2 of 4 from 2026-11-01")
    assert "Nights left" not in rows
    run(loaded, 1)
    assert budgets.is_paid(plan, ledger)
    assert budgets.nights_left(plan, ledger, status) == 2
    with pytest.raises(ConfigError, match="share a charge"):
        forecast(status, [], [plan], FIRST, None)
    with pytest.raises(ConfigError, match="continual"):
        split([plan])


def test_every_night_of_a_year_has_the_noise_that_the_weights_promise(tmp_path):
    loaded = prepare(tmp_path, section=SECTION.replace("4", "365"))
    alone = make_plan(support.prepare(tmp_path), FIRST)
    deviation = alone.design.entry_standard_deviation()
    ratios = [make_plan(loaded, on(number)).design.entry_standard_deviation() / deviation for number in (1, 100, 365)]
    assert all(np.ptp(ratio) < 2e-3 for ratio in ratios)  # steps are rounded up
    assert [round(float(ratio.mean()), 2) for ratio in ratios] == [1.64, 2.64, 3.05]


def test_windows_are_the_differences_of_published_nights_with_their_own_errors(tmp_path):
    section = SECTION.replace("nights = 4", "nights = 9\nwindows = [1, 3]")
    loaded, outcomes = prepare(tmp_path, section=section), {}
    for number in range(1, 6):
        grow(tmp_path, 80 * number)
        outcomes[number] = zarr.open_group(run(loaded, number).path, mode="r")
    plan, levels = of_series(loaded, 5), of_series(loaded, 5).series.levels
    totals = {number: outcomes[number]["running_total"][...].reshape(plan.design.shape) for number in outcomes}
    for back in (1, 3):
        design = of_change(plan.design, levels, 5, back)
        expected = plan.question.answer(design).arrays(totals[5] - totals[5 - back], 0)
        for name in ("count", "mean", "covariance", "second_moment", "covariance_psd"):
            assert np.array_equal(outcomes[5][f"last_{back}_{name}"][...], np.asarray(expected[name][0])), name
        deviation = outcomes[5][f"last_{back}_second_moment_standard_deviation"][...]
        ratio = levels.deviation_of_change(5, back) / levels.deviation(5)
        assert np.allclose(deviation / outcomes[5]["second_moment_standard_deviation"][...], ratio)
        spread = 6.2 * float(outcomes[5][f"last_{back}_count_standard_deviation"][...])
        assert abs(float(outcomes[5][f"last_{back}_count"][...]) - 80 * back) < spread
    # A window that is longer than the series so far is all of it.
    assert np.array_equal(outcomes[2]["last_3_covariance"][...], outcomes[2]["covariance"][...])
    # Windows follow from what is released: the series goes on with others.
    loaded.path.write_text(loaded.path.read_text().replace("windows = [1, 3]", "windows = [2]"))
    later = run(load_config(loaded.path), 6)
    assert "last_2_covariance" in zarr.open_group(later.path, mode="r")
    assert spent(loaded).mu == pytest.approx(make_plan(loaded, FIRST).charge.mu)


def test_windows_of_a_public_number_of_records_are_divided_by_that_of_their_nights(tmp_path):
    section = SECTION.replace("nights = 4", "nights = 4\nwindows = [1]")
    loaded = prepare(tmp_path, neighbours="replace-one", section=section)
    run(loaded, 1)
    grow(tmp_path, 160)
    released = zarr.open_group(run(loaded, 2).path, mode="r")
    assert (float(released["count"][...]), float(released["last_1_count"][...])) == (160.0, 60.0)
    assert float(released["last_1_count_standard_deviation"][...]) == 0.0


@pytest.mark.parametrize("windows", ["[]", "[0]", "[3660]", "[1.5]", '"7"', "[1, 2, 3, 4, 5, 6, 7, 8, 9]"])
def test_windows_that_are_no_numbers_of_nights_are_refused(tmp_path, windows):
    path = prepare(tmp_path).path
    path.write_text(path.read_text().replace("nights = 4", f"nights = 4\nwindows = {windows}"))
    with pytest.raises(ConfigError, match="windows"):
        load_config(path)


@pytest.mark.slow
def test_results_of_long_windows_are_not_pruned(tmp_path):
    loaded = prepare(tmp_path, section=SECTION.replace("nights = 4", "nights = 9\nwindows = [5]"))
    for number in range(1, 9):
        run(loaded, number)
    assert needed_later(loaded, Ledger(loaded.ledger_url), on(9)) == {on(number) for number in range(1, 9)}
    assert needed_later(loaded, Ledger(loaded.ledger_url), on(10)) == set()


def test_persons_with_many_rows_are_protected_over_all_nights_on_which_their_rows_arrive(tmp_path):
    """Removing one row after the other, each with its night: the loss of k rows is at most k times that of one."""
    loaded = prepare(tmp_path)
    text = loaded.path.read_text()
    loaded.path.write_text(text.replace('(one row)"', '(one row)"\nrows_per_unit = 3'))
    alone, several = make_plan(loaded, FIRST), make_plan(load_config(loaded.path), FIRST)
    assert several.charge.mu == pytest.approx(3 * several.design.loss.mu)
    assert several.charge.delta(1.0) <= 1e-6
    assert several.charge.mu == pytest.approx(alone.charge.mu, rel=1e-3)
    ratio = several.design.entry_standard_deviation() / alone.design.entry_standard_deviation()
    assert np.allclose(ratio, 3.0, rtol=1e-2)
    with pytest.raises(DataError, match="rows_per_unit = 3"):  # only an ingest makes it true
        run(load_config(loaded.path), 1)


def test_nights_of_more_records_than_one_weighted_sum_may_have_are_released_digit_by_digit(tmp_path):
    loaded = prepare(tmp_path)
    text = loaded.path.read_text().replace("10_000", "4_000_000_000").replace("delta = 1e-6", "delta = 1e-12")
    loaded.path.write_text(text.replace('missing = "refuse"', 'missing = "refuse"\nquantisation_bits = 16'))
    narrow, loaded = loaded, load_config(loaded.path)
    counted = [of_series(one, 1) for one in (narrow, loaded)]
    efforts = [plan.effort for plan in counted]
    assert [one.cut(one.machine()).work.weighted_sums for one in efforts] == [1, 8]  # their memory is planned
    for number, rows in ((1, 100), (2, 250), (3, 400)):
        grow(tmp_path, rows)
        released = zarr.open_group(run(loaded, number).path, mode="r")
    assert of_series(loaded, 3).design.weight_digits == (1, 8)
    assert abs(float(released["count"][...]) - 400) < 7 * float(released["count_standard_deviation"][...])
