"""What a program calls does what the command of its name does, by the same rules, and imports no more than it needs."""

import asyncio
import json
import subprocess
import sys
import threading
import tomllib
from contextlib import suppress
from datetime import date

import numpy as np
import pytest

import blockveil as bv
from blockveil.flows.cli import main
from blockveil.flows.python.sources import day_of, person
from blockveil.pipeline.base.errors import BudgetExhausted, ConfigError, LedgerError, ReleaseConflict
from blockveil.pipeline.plan.approval import NotApproved
from blockveil.pipeline.report import papers
from tests.house import support

NIGHT = "2026-11-20"


def fresh(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def people(tmp_path, monkeypatch):
    """A folder with records and a config, without a budget; pictures are left out, as drawing them takes longest."""
    support.write_records(tmp_path, support.records())
    support.write_config(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(papers, "svg_text", lambda figure, theme, layout: "<svg/>")
    return tmp_path / "people.toml"


def command(monkeypatch, capsys, *words):
    """What a command prints."""
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["blockveil", *words])
    with suppress(SystemExit):
        main()
    return capsys.readouterr().out


def spaced(text):
    """Lines with single spaces, without empty ones: columns are as wide as what is in them."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def tables(path):
    return tomllib.loads(path.read_text())


def test_the_import_is_light_and_a_name_is_imported_when_it_is_asked_for():
    heavy = (
        "{'numpy', 'pandas', 'prefect', 'dask', 'distributed', 'pydantic', 'sqlalchemy', 'matplotlib', 'typer', 'zarr'}"
    )
    done = fresh(
        f"import sys, blockveil as bv; print({heavy} & set(sys.modules)); print(sorted(set(dir(bv)) & set(bv.__all__)))"
    )
    assert done.stdout.splitlines()[0] == "set()", done.stdout + done.stderr
    assert "run" in done.stdout
    with pytest.raises(AttributeError, match="no attribute 'releases'"):
        _ = bv.releases


def test_a_plan_a_budget_and_an_opened_release_import_no_prefect_and_no_pandas(people):
    done = fresh(
        "import sys, blockveil as bv; bv.plan('people.toml'); bv.budget('people.toml'); bv.open; bv.run;"
        "bv.sklearn.Ridge;"
        "print({'prefect', 'pandas', 'xarray', 'sklearn', 'typer'} & set(sys.modules))"
    )
    assert done.stdout == "set()\n", done.stdout + done.stderr


class TestPlan:
    def test_it_shows_what_the_command_shows(self, people, monkeypatch, capsys):
        shown = bv.plan(people, date=NIGHT)
        said = command(monkeypatch, capsys, "plan", "people.toml", "--date", NIGHT)
        assert spaced(str(shown).partition("\n")[2]) == spaced(said)
        assert repr(shown) == str(shown)
        assert "<script" not in shown._repr_html_()
        assert shown.release_id == f"people/covariance/{NIGHT}"
        assert shown.warnings == []

    def test_its_numbers_are_those_of_the_command(self, people, monkeypatch, capsys):
        theirs = json.loads(command(monkeypatch, capsys, "plan", "people.toml", "--date", NIGHT, "--json"))
        ours = bv.plan(people, date=NIGHT).to_dict()
        assert {name: theirs[name] for name in ours} == json.loads(json.dumps(ours))

    def test_a_path_tables_and_keywords_give_one_plan(self, people):
        given = tables(people)
        digests = {
            bv.plan("people.toml", date=NIGHT).digest,
            bv.plan(people, date=date(2026, 11, 20)).digest,
            bv.plan(given, date=NIGHT).digest,
            bv.plan(**given, date=NIGHT).digest,
            bv.plan({**given, "privacy": {}}, privacy=given["privacy"], date=NIGHT).digest,
        }
        assert len(digests) == 1

    def test_a_what_if_is_laid_over_a_file_and_over_tables(self, people):
        over = bv.plan(people, privacy={"epsilon": 2}, date=NIGHT).to_dict()
        assert over == bv.plan(tables(people), privacy={"epsilon": 2.0}, date=NIGHT).to_dict()
        assert over["privacy"]["epsilon"] == 2.0
        narrow = [{"name": name, "lower": 0, "upper": 100} for name in support.FEATURES]
        features = bv.plan(people, query={"geometry": {"features": narrow}}).to_dict()["query"]["geometry"]["features"]
        assert features == narrow

    def test_what_is_supposed_of_the_records_is_displayed_and_decides_nothing(self, people):
        usual = bv.plan(people, date=NIGHT)
        asked = bv.plan(people, date=NIGHT, rows=5000, options=True, target="correlation 0.2", preview=True)
        assert asked.digest == usual.digest
        assert "At the bound" in str(asked)
        assert {"at_a_guess", "options", "preview", "target"} <= asked.to_dict()["accuracy"].keys()
        assert asked.page().lower().startswith("<!doctype html>")
        for wrong in (
            {"rows": 0},
            {"rows": "many"},
            {"correlation": 2.0},
            {"spread": None},
            {"target": "correlation 0.2"},
        ):
            with pytest.raises(ConfigError):
                bv.plan(people, date=NIGHT, **wrong)

    def test_its_accuracy_is_shown_in_words(self, people):
        found = bv.plan(people, date=NIGHT, rows=5000, target="correlation 0.2", preview=True).accuracy
        for shown in (repr(found), str(found), found._repr_html_()):
            assert "5,000 records (a guess)" in shown
            assert "Target" in shown
            assert "GoodEnough(" not in shown
        assert "simulated records" in repr(found)
        assert "10,000 records (as many as there may be)" in repr(found.bound)
        assert "<td" in found.bound._repr_html_()

    def test_nothing_is_written_or_spent(self, people):
        before = sorted(people.parent.rglob("*"))
        bv.plan(people)
        bv.plan(tables(people))
        str(bv.budget(people))
        assert sorted(people.parent.rglob("*")) == before

    @pytest.mark.parametrize(
        ("given", "over", "problem"),
        [
            (None, {}, "is not given"),
            (3, {}, "cannot be a int"),
            (np.full((2, 2), 271828.0), {}, "cannot be a ndarray"),
            ("nothing.toml", {}, "no such file"),
            ({}, {"query": np.full(3, 271828.0)}, "type ndarray"),
            (
                {"query": {"geometry": {"features": [np.float32(271828.0)]}}},
                {},
                "query.geometry.features is of the type",
            ),
            ({"privacy": {"epsilon": "1\x1b[31m"}}, {}, "control character"),
            ({"privacy": {"epsilon": 10**30}}, {}, "64 bits"),
            ("people.toml", {"privacy": {"epsilon": float("nan")}}, "epsilon"),
            ("people.toml", {"privacy": {"espilon": 1.0}}, "epsilon"),
            ("people.toml", {"seceret": {"a": 1}}, "not a known key"),
        ],
    )
    def test_what_is_no_config_is_refused_and_never_quotes_numbers_of_an_array(self, people, given, over, problem):
        with pytest.raises(ConfigError, match=problem) as refused:
            bv.plan(given, **over)
        assert "271828" not in str(refused.value)
        assert len(str(refused.value)) < 400

    def test_tables_that_hold_themselves_are_refused(self, people):
        circle = {}
        circle["query"] = circle
        with pytest.raises(ConfigError, match="nested more than"):
            bv.plan(circle)

    @pytest.mark.parametrize("day", ["yesterday", 20261120, 1.5, "2026-13-01"])
    def test_what_is_no_date_is_refused(self, people, day):
        with pytest.raises(ConfigError, match="is not a date"):
            bv.plan(people, date=day)


class TestBudget:
    def test_it_grants_shows_and_forecasts(self, people):
        found = bv.budget(people)
        assert not found.granted
        assert found.to_dict() == {"account": "people", "granted": False}
        assert "none granted" in str(found)
        assert found.grant(epsilon=3.0, delta=1e-5) is found
        assert (found.epsilon, found.delta, found.spent_epsilon, found.nights_left) == (3.0, 1e-5, 0.0, 9)
        assert "Nights left" in str(found)
        assert "Nights left" in found._repr_html_()
        assert found.remaining_epsilon == pytest.approx(3.0)
        ahead = found.forecast(until="2099-01-01")
        assert ahead.nights_left == 9
        assert ahead.to_dict()["until"] == "2099-01-01"
        assert str(ahead)
        assert ahead._repr_html_()
        json.dumps(found.to_dict(), allow_nan=False)

    def test_the_rules_are_those_of_the_ledger(self, people):
        found = bv.budget(people)
        for asked in (lambda: found.forecast(), lambda: found.epsilon, lambda: found.nights_left):
            with pytest.raises(LedgerError, match="No budget is granted"):
                asked()
        with pytest.raises(TypeError):
            found.grant()
        for wrong in (
            {"epsilon": -1.0},
            {"epsilon": float("nan")},
            {"epsilon": "3"},
            {"delta": 0.0},
            {"accountant": "sum"},
        ):
            with pytest.raises(LedgerError):
                found.grant(**{"epsilon": 3.0, "delta": 1e-5, **wrong})
        assert not found.granted
        found.grant(epsilon=3.0, delta=1e-5, periods=["month:1.0"], accountant="gaussian")
        assert "month" in str(found)
        found.grant(epsilon=3.0, delta=1e-5, periods=[])
        assert "month" not in str(found)


class TestRun:
    def test_a_release_is_made_once_and_opened_by_each_further_call(self, people):
        bv.budget(people).grant(epsilon=3.0, delta=1e-5)
        heard = []
        found = bv.run(people, date=NIGHT, progress=lambda stage, share: heard.append(stage))
        assert found.release_id == f"people/covariance/{NIGHT}"
        assert heard
        assert bv.open("releases/people/covariance").array("mean") == pytest.approx(found.array("mean"))
        again = bv.run(tables(people), date=NIGHT)
        assert np.array_equal(again.array("covariance"), found.array("covariance"))
        assert bv.budget(people).to_dict()["releases"] == 1
        assert bv.budget(people).nights_left == 8
        with pytest.raises(ReleaseConflict):
            bv.run(tables(people), privacy={"epsilon": 2.0}, date=NIGHT)

    def test_no_call_spends_without_a_budget_or_beyond_it(self, people):
        with pytest.raises(LedgerError):
            bv.run(people, date=NIGHT)
        bv.budget(people).grant(epsilon=0.5, delta=1e-7)
        with pytest.raises(BudgetExhausted):
            bv.run(people, date=NIGHT)
        assert bv.budget(people).spent_epsilon == 0.0

    def test_over_a_file_only_what_changes_no_bit_is_laid(self, people):
        for over in (
            {"privacy": {"epsilon": 9.0}},
            {"output": {"root": "elsewhere"}},
            {"data": {"store": "other.zarr"}},
        ):
            with pytest.raises(ConfigError, match="may not be overridden here"):
                bv.run(people, date=NIGHT, **over)
        bv.budget(people).grant(epsilon=3.0, delta=1e-5)
        usual = bv.plan(people, date=NIGHT).digest
        found = bv.run(people, date=NIGHT, compute={"block_rows": 77})
        assert found.attributes["plan_digest"] == usual

    def test_a_release_that_needs_a_person_waits_for_one(self, people):
        people.write_text(people.read_text() + "\n[approval]\nthreshold_share = 0.01\n")
        bv.budget(people).grant(epsilon=3.0, delta=1e-5)
        with pytest.raises(NotApproved, match="approve=NAME"):
            bv.run(people, date=NIGHT)
        for name in ("", "a\nb", 3, "x" * 61):
            with pytest.raises(ConfigError, match="approve is not a name"):
                bv.run(people, date=NIGHT, approve=name)
        assert bv.run(people, date=NIGHT, approve="Ada").release_id.endswith(NIGHT)

    def test_a_weak_promise_and_noise_above_everything_are_warned_of(self, people):
        bv.budget(people).grant(epsilon=40.0, delta=1e-5)
        given = tables(people)
        with pytest.warns(bv.PromiseWarning):
            bv.run(given, privacy={"epsilon": 30.0}, date=NIGHT)

    def test_a_running_event_loop_is_no_obstacle(self, people):
        bv.budget(people).grant(epsilon=3.0, delta=1e-5)

        async def in_a_notebook():
            return bv.run(people, date=NIGHT)

        assert asyncio.run(in_a_notebook()).release_id.endswith(NIGHT)

    def test_another_thread_than_the_main_one_may_call_it(self, people):
        bv.budget(people).grant(epsilon=3.0, delta=1e-5)
        found = []
        thread = threading.Thread(target=lambda: found.append(bv.run(people, date=NIGHT)))
        thread.start()
        thread.join(120)
        assert found[0].release_id.endswith(NIGHT)

    @pytest.mark.slow
    def test_a_script_of_three_lines_may_have_workers(self, people):
        people.write_text(
            people.read_text().replace('kind = "threads"', 'kind = "local"\nworkers = 1\nalways_start_workers = true')
        )
        bv.budget(people).grant(epsilon=3.0, delta=1e-5)
        script = people.parent / "script.py"
        script.write_text(
            f"import blockveil as bv\nprint('once')\nprint(bv.run('people.toml', date='{NIGHT}').release_id)\n"
        )
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=240)
        assert done.stdout.splitlines() == ["once", f"people/covariance/{NIGHT}"], done.stderr

    @pytest.mark.slow
    def test_prefect_records_one_release_after_another_in_one_notebook(self, people):
        bv.budget(people).grant(epsilon=3.0, delta=1e-5)
        script = people.parent / "notebook.py"
        script.write_text(
            "import asyncio, blockveil as bv\n"
            "async def cell(day):\n"
            "    print(bv.run('people.toml', date=day, prefect=True).release_id)\n"
            f"asyncio.run(cell('{NIGHT}'))\nasyncio.run(cell('2026-11-21'))\n"
        )
        done = subprocess.run(
            [sys.executable, "-W", "error::RuntimeWarning", script],
            capture_output=True,
            text=True,
            check=False,
            timeout=280,
        )
        shown = [line for line in done.stdout.splitlines() if line.startswith("people/")]
        assert shown == [f"people/covariance/{NIGHT}", "people/covariance/2026-11-21"], done.stderr[-3000:]
        assert "never awaited" not in done.stderr


def test_days_and_people_are_read():
    assert day_of("2026-11-20") == date(2026, 11, 20)
    assert day_of(date(2026, 11, 20)) == date(2026, 11, 20)
    assert (person(None), person("Ada Lovelace")) == (None, "Ada Lovelace")
