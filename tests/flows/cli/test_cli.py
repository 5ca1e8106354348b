"""The command line as a person uses it: its words, its output and its exit code."""

import contextlib
import io
import json
import logging
import os
import re
import subprocess
import sys
import traceback
import warnings
from datetime import date
from pathlib import Path
from unittest import mock

import pytest

from blockveil.flows.cli import app, main, night_commands
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.reserving import ChargeRequest
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.keys import KeyStore
from tests.house import support, warm

ROOT = Path(__file__).parents[3]


def process(*words, **options):
    """Run the command line in a process of its own."""
    command = [sys.executable, "-c", "from blockveil.flows.cli import main; main()", *map(str, words)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250, check=False, **options)


def blockveil(*words):
    """Run the command line in this process, which takes a tenth of the time."""
    shown, told, argv = io.StringIO(), io.StringIO(), ["blockveil", *map(str, words)]
    level, code = logging.getLogger("distributed").level, 0
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.dict(os.environ),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(told),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except Exception:
            traceback.print_exc()
            code = 1
    logging.getLogger("distributed").setLevel(level)
    return subprocess.CompletedProcess(argv, code, shown.getvalue(), told.getvalue())


def refusal(found, code):
    """The message of a refused command: exit code, two lines at most, no traceback."""
    assert found.returncode == code, found.stderr + found.stdout
    lines = found.stderr.strip().splitlines()
    assert 1 <= len(lines) <= 3
    assert "Traceback" not in found.stderr
    return found.stderr


@pytest.fixture
def people(tmp_path):
    return support.prepare(tmp_path)


def test_a_plan_reads_no_data_and_shows_cost_and_error(tmp_path):
    path = support.write_config(tmp_path)  # there are no records and no ledger
    found = blockveil("plan", path, "--date", "2026-11-20")
    assert found.returncode == 0, found.stderr
    for word in ("people/covariance/2026-11-20", "Sensitivity", "Expected error", "mu 0.2367", "none granted", "MiB"):
        assert word in found.stdout
    assert {file.name for file in tmp_path.iterdir()} == {"people.toml"}


def test_a_plan_as_json_holds_every_number_and_answers_what_if(tmp_path):
    path = support.write_config(tmp_path)
    plans = [
        json.loads(blockveil("plan", path, "--json", "--set", f"privacy.epsilon={e}").stdout) for e in ("1.0", "2.0")
    ]
    deviations = [plan["calibration"]["scale"] for plan in plans]
    assert deviations[1] < deviations[0]
    assert plans[0]["plan_digest"] != plans[1]["plan_digest"]


def test_a_run_without_prefect_releases_and_a_second_one_says_that_it_is_done(people):
    command = "from blockveil.flows.cli import main; main()"
    first = warm.run(command, "run", str(people.path), "--no-prefect", "--date", "2026-11-20")
    assert first.returncode == 0, first.stderr
    assert first.stderr == "", "no progress where there is no terminal"
    for word in ("multiplies the probability", "Records", "Left", ".zarr", ".html"):
        assert word in first.stdout
    report = next(people.output_root.rglob("*.html"))
    assert str(report) in first.stdout
    second = blockveil("run", people.path, "--no-prefect", "--date", "2026-11-20")
    assert "complete already" in second.stdout


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_shows_how_far_and_how_fast_a_run_goes_and_that_it_is_done(people):
    with mock.patch("io.StringIO", Terminal), mock.patch.dict(os.environ, {"TERM": "xterm", "NO_COLOR": "1"}):
        found = blockveil("run", people.path, "--no-prefect", "--date", "2026-11-20")
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9?]*[a-zA-Z]", "\n", found.stderr).splitlines() if line.strip()]
    assert any(re.search(r"adding up .* \d+% +(just begun|.* a second, )", line) for line in lines), lines
    assert any(re.search(r"writing the release .* 100% +.*done in \d+ s$", line) for line in lines), lines
    assert re.search(r"^0:00:\d\d done .*100%$", lines[-1]), lines[-1]
    assert not any(word in found.stderr for word in ("rows", "records"))


def test_a_terminal_shows_a_refusal_on_a_line_of_its_own(people):
    values = support.records()
    values[3, 1] = float("nan")
    support.write_records(people.path.parent, values)
    with mock.patch("io.StringIO", Terminal):
        found = blockveil("run", people.path, "--no-prefect", "--date", "2026-11-20")
    assert found.returncode == 4
    plain = re.sub(r"\x1b\[[0-9?]*[a-zA-Z]", "", found.stderr)
    assert "\nblockveil: The records hold a missing" in plain
    assert " done " not in plain


def test_a_run_goes_through_prefect_by_default(people):
    found = process("run", people.path, "--date", "2026-11-20")
    assert found.returncode == 0, found.stderr
    assert "Released people/covariance/2026-11-20." in found.stdout
    assert found.stderr == ""


@pytest.mark.parametrize("how", [[], ["--no-prefect"]], ids=["prefect", "plain"])
def test_an_exhausted_budget_ends_with_code_three(tmp_path, prefect, monkeypatch, how):
    monkeypatch.setattr(night_commands.server, "at_hand", contextlib.nullcontext)
    loaded = support.prepare(tmp_path, budget=0.2)
    message = refusal(blockveil("run", loaded.path, *how), 3)
    assert "left epsilon" in message
    assert "ledger grant" in message
    assert not [path for path in loaded.output_root.rglob("*") if not path.is_dir()]
    assert [entry.kind for entry in Ledger(loaded.ledger_url).history()] == ["BUDGET"]
    assert KeyStore(loaded.keys_root).list() == []


def test_a_run_may_not_override_what_decides_the_release_nor_where_its_records_go(people):
    for override in ("privacy.epsilon=9", 'cluster.address="tcp://127.0.0.1:9"'):
        message = refusal(blockveil("run", people.path, "--no-prefect", "--set", override), 2)
        assert f"{override.split('=')[0]} may not be overridden" in message


def test_a_prefect_server_that_is_away_ends_with_code_eight_and_says_what_to_do(people):
    away = {**os.environ, "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    message = refusal(process("run", people.path, env=away), 8)
    assert "PREFECT_API_URL" in message
    assert "Nobody answers at http://127.0.0.1:9/api" in message
    assert "--no-prefect" in message
    assert "--no-prefect" in message
    assert Ledger(people.ledger_url).budget("people").charges == 0


def test_an_interrupt_ends_with_code_130_and_the_same_command_goes_on(people):
    script = """
import signal, sys
from blockveil.pipeline.ledger import Ledger
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background may have been told to ignore it
def interrupted(*a, **k):
    signal.raise_signal(signal.SIGINT)
Ledger.commit = interrupted
sys.argv = ["blockveil", "run", sys.argv[1], "--no-prefect", "--date", "2026-11-20"]
from blockveil.flows.cli import main
main()
"""
    assert "run the same command again" in refusal(warm.run(script, str(people.path)), 130)
    ledger = Ledger(people.ledger_url)
    assert [entry.kind for entry in ledger.history()] == ["BUDGET", "RESERVED", "VOID"]  # it gave back what it held
    assert blockveil("run", people.path, "--no-prefect", "--date", "2026-11-20").returncode == 0
    assert Ledger(people.ledger_url).budget("people").charges == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("epsilon = 1.0\n", ""), "privacy.epsilon"),
        (("epsilon = 1.0", "epsilonn = 1.0"), "Did you mean privacy.epsilon?"),
        (("epsilon = 1.0", "epsilon = nan"), "privacy.epsilon"),
        (('missing = "refuse"', ""), "query.missing"),
        (("[privacy]", "[privacy"), "people.toml"),
    ],
)
def test_a_bad_config_ends_with_code_two_and_names_the_key(people, change, expected):
    people.path.write_text(people.path.read_text().replace(*change))
    assert expected in refusal(blockveil("plan", people.path), 2)


def test_a_missing_config_and_a_bad_date_end_with_code_two(people, tmp_path):
    assert "absent.toml" in refusal(blockveil("plan", tmp_path / "absent.toml"), 2)
    assert "YYYY-MM-DD" in refusal(blockveil("plan", people.path, "--date", "yesterday"), 2)
    assert "key=value" in refusal(blockveil("plan", people.path, "--set", "nonsense"), 2)


def test_records_that_do_not_fit_end_with_code_four(people, tmp_path):
    support.write_records(tmp_path, support.records()[:, :2])
    refusal(blockveil("run", people.path, "--no-prefect"), 4)


def test_changed_data_under_the_same_name_ends_with_code_five(people, tmp_path):
    blockveil("run", people.path, "--no-prefect", "--date", "2026-11-20")
    support.write_records(tmp_path, support.records() + 1)
    message = refusal(blockveil("run", people.path, "--no-prefect", "--date", "2026-11-20"), 5)
    assert "the records have changed" in message


def test_a_run_without_a_budget_ends_with_code_six_and_says_how_to_grant_one(tmp_path):
    support.write_records(tmp_path, support.records())
    path = support.write_config(tmp_path)
    assert "ledger grant" in refusal(blockveil("run", path, "--no-prefect"), 6)


def test_a_missing_store_ends_with_code_seven(people, tmp_path):
    import shutil

    shutil.rmtree(tmp_path / "records.zarr")
    refusal(blockveil("run", people.path, "--no-prefect"), 7)


def test_debug_shows_the_traceback(people):
    found = blockveil("--debug", "plan", people.path, "--date", "yesterday")
    assert "Traceback" in found.stderr


def test_budget_and_ledger_commands_read_like_a_statement(people, tmp_path):
    blockveil("run", people.path, "--no-prefect", "--date", "2026-11-20")
    shown = blockveil("ledger", "budget", people.path).stdout
    assert "by 1 release" in shown
    assert "more releases like this one" in shown
    statement = blockveil("ledger", "show", people.path).stdout
    head, granted, charged, note = statement.splitlines()
    assert head.split()[-4:] == ["Spent", "Epsilon", "Guess", "State"]
    assert "budget of epsilon 3 at delta 1e-05, add-remove" in granted
    status = Ledger(people.ledger_url).budget("people")
    share = f"{100 * status.cap.used(status.spent):.3g}"
    told = ["people/covariance/2026-11-20", share, "%", share, "%", f"{status.spent_epsilon:.4g}", "54.8", "%"]
    assert charged.split()[3:11] == told
    assert charged.split()[-1] == "RELEASED"
    assert note.startswith("Cost and spent are shares of the budget and add up.")
    verified = blockveil("ledger", "verify", people.path).stdout
    assert "4 entries, chain intact" in verified
    head = verified.split("Head: ")[1].strip()
    assert blockveil("ledger", "verify", people.path, "--head", head).returncode == 0
    refusal(blockveil("ledger", "verify", people.path, "--head", "0" * 63 + "1"), 6)
    exported = blockveil("ledger", "export", people.path).stdout.splitlines()
    assert [json.loads(line)["sequence"] for line in exported] == [1, 2, 3, 4]


def test_a_ledger_is_named_by_a_config_or_by_its_address(people):
    by_config = blockveil("ledger", "show", people.path).stdout
    assert "budget of epsilon 3 at delta 1e-05" in by_config
    for address in (people.ledger_url, people.ledger_path):
        assert blockveil("ledger", "show", "--ledger", address).stdout == by_config
    assert "1 entries, chain intact" in blockveil("ledger", "verify", "--ledger", people.ledger_url).stdout
    exported = blockveil("ledger", "export", "--ledger", people.ledger_url).stdout
    assert json.loads(exported)["kind"] == "BUDGET"
    refusal(blockveil("ledger", "show"), 2)
    refusal(blockveil("ledger", "show", people.path, "--ledger", people.ledger_url), 2)


def test_a_statement_shows_what_was_given_back(people):
    ledger = Ledger(people.ledger_url)
    plan = make_plan(people, date(2026, 11, 20))
    charge = ledger.reserve(ChargeRequest(
        release_id=plan.release_id, dataset="people", spec={}, spec_digest="0" * 64, charge=plan.charge,
        neighbours=plan.neighbours, unit=support.UNIT, attempt="one",
    ))  # fmt: skip
    ledger.void_if_reserved(charge.charge_id, "DataError")
    *_, charged, back, _ = blockveil("ledger", "show", people.path).stdout.splitlines()
    assert charged.split()[-1] == "VOID"
    cost = charged.split()[4]
    assert back.split()[4:10] == [f"-{cost}", "%", "0", "%", "0", "50.0"]
    assert "given back (DataError)" in back


def test_a_budget_is_set_and_not_below_what_is_spent(people):
    blockveil("run", people.path, "--no-prefect")
    assert blockveil("ledger", "grant", people.path, "--epsilon", "5", "--delta", "1e-5").returncode == 0
    assert Ledger(people.ledger_url).budget("people").epsilon == 5
    assert "below what" in refusal(blockveil("ledger", "grant", people.path, "--epsilon", "0.1", "--delta", "1e-5"), 6)


def test_a_dead_reservation_is_given_back_by_hand_and_a_release_is_not(people):
    from tests.pipeline.releases.test_release import KILL

    warm.run(KILL, str(people.path), "after reserve")
    assert Ledger(people.ledger_url).budget("people").charges == 1
    done = blockveil("ledger", "admin", "void", people.path, "people/covariance/2026-11-20")
    assert "given back" in done.stdout
    assert Ledger(people.ledger_url).budget("people").spent_mu == 0
    blockveil("run", people.path, "--no-prefect", "--date", "2026-11-20")
    refusal(blockveil("ledger", "admin", "void", people.path, "people/covariance/2026-11-20"), 6)


def test_help_documents_the_exit_codes():
    from typer.testing import CliRunner

    text = CliRunner().invoke(app, ["--help"]).output
    for words in ("3 budget exhausted", "9 noise key lost", "130 interrupted"):
        assert words in " ".join(text.replace("│", " ").split())


def test_compute_settings_of_a_run_do_not_change_the_specification(people):
    blockveil("run", people.path, "--no-prefect", "--date", "2026-11-20")
    again = blockveil(
        "run", people.path, "--no-prefect", "--date", "2026-11-20", "--set", "compute.block_rows=7", "--set",
        "cluster.threads_per_worker=1",
    )  # fmt: skip
    assert "complete already" in again.stdout
    assert load_config(people.path).config.compute.block_rows == 50
