"""Old releases go, their charges stay, and a pruned night is neither drawn nor published again."""

from datetime import date

import pytest

from blockveil.pipeline.base.errors import KeyLost
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import retention
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support

NIGHTS = [date(2026, 11, day) for day in (10, 11, 12)]


@pytest.fixture
def released(tmp_path):
    """A config with three released nights."""
    loaded = support.prepare(tmp_path)
    for night in NIGHTS:
        run(loaded, night)
    return loaded


def run(loaded, night):
    return run_release(make_plan(loaded, night), ThreadCompute(1), "test", lambda *_: None)


def test_what_is_older_than_is_kept_goes_pointer_first_and_the_rest_stays(released):
    folder = released.output_root / "people" / "covariance"
    page = next(folder.glob("2026-11-10-*.zarr")).with_suffix(".html")
    page.write_text("a report")
    (old,) = retention.old_releases(released, date(2026, 11, 11))
    assert old.release_id == "people/covariance/2026-11-10"
    assert old.files[0].name == "2026-11-10.json"
    assert page in old.files
    assert old.size > 1000
    retention.prune([old])
    assert not list(folder.glob("2026-11-10*"))
    assert len(list(folder.glob("*.zarr"))) == 2
    assert retention.old_releases(released, date(2026, 11, 11)) == []


def test_the_newest_release_is_kept_however_old_it_is(released):
    assert [old.release_id[-2:] for old in retention.old_releases(released, date(2030, 1, 1))] == ["10", "11"]


def test_a_pruned_night_stays_charged_and_is_never_drawn_again(released):
    ledger = Ledger(released.ledger_url)
    before = ledger.budget("people").spent_mu
    retention.prune(retention.old_releases(released, date(2026, 11, 11)))
    with pytest.raises(KeyLost):
        run(released, NIGHTS[0])
    assert ledger.budget("people").spent_mu == before
    assert not (released.output_root / "people" / "covariance" / "2026-11-10.json").exists()
    assert not ledger.verify().problems


def test_what_the_ledger_does_not_know_as_released_is_left_alone(tmp_path):
    loaded = load_config(support.write_config(tmp_path))
    folder = loaded.output_root / "people" / "covariance"
    folder.mkdir(parents=True)
    (folder / "2020-01-01-0123456789abcdef.zarr").mkdir()
    assert retention.old_releases(loaded, date(2030, 1, 1)) == []
    support.set_budget(loaded)
    assert retention.old_releases(loaded, date(2030, 1, 1)) == []


def test_a_prune_that_was_cut_short_is_gone_on_with(released):
    (old,) = retention.old_releases(released, date(2026, 11, 11))
    old.files[0].unlink()
    (again,) = retention.old_releases(released, date(2026, 11, 11))
    assert again.files == old.files[1:]
    retention.prune([again])
    assert retention.old_releases(released, date(2026, 11, 11)) == []
