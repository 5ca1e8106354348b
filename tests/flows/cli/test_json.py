"""Every command that prints has ``--json``: one document on standard output and nothing else; and colour on request."""

import contextlib
import io
import json
import os
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from blockveil.flows.cli import common, main
from blockveil.flows.cli.commands import COMMANDS, load
from blockveil.pipeline.ledger.reserving import ChargeRequest
from tests.flows.cli.test_cli import blockveil
from tests.house import support
from tests.pipeline.data.ingest import growing_support, ingest_support
from tests.pipeline.kinds.gradients.test_training import LOGISTIC, config, release
from tests.pipeline.public import test_private_bounds
from tests.pipeline.scaffold import scaffold_support
from tests.pipeline.verification.test_signed_releases import key_file

WITHOUT = {
    "serve": "it runs until it is stopped",
    "service deploy": "it registers, and says what it does line by line",
    "service worker": "it runs until it is stopped",
    "service metrics": "it runs until it is stopped, and answers in the form of Prometheus",
    "demo": "it is for a person who looks at the product for the first time",
    "ledger export": "--format says in which form it writes",
}
"""Commands that have no such option, and why."""


def commands():
    def below(name, found):
        if not hasattr(found, "commands"):
            yield name, found
        for each, command in getattr(found, "commands", {}).items():
            yield from below(f"{name} {each}", command)

    for name in COMMANDS:
        yield from below(name, load(name))


@pytest.mark.parametrize(("name", "command"), [pytest.param(*each, id=each[0]) for each in commands()])
def test_every_command_that_prints_has_the_option(name, command):
    options = {word for each in command.params for word in each.opts}
    assert ("--json" in options) == (name not in WITHOUT)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two nights of people, a gradient, public matrices, a list and a deployments file."""
    made = tmp_path_factory.mktemp("json")
    support.prepare(made, budget=9.0)
    for night in ("2026-11-20", "2026-11-21"):
        assert blockveil("run", made / "people.toml", "--no-prefect", "--date", night).returncode == 0
    (made / "deployments.toml").write_text(
        '[[night]]\nconfig = "people"\ncron = "30 2 * * *"\ntimezone = "UTC"\nmode = "release"\nmissed_nights = "all"\n'
    )
    (made / "list.csv").write_text("a,b\n1,2\n2,1\n3,5\n")
    (made / "events.toml").write_text(
        'unit = "one person (one row)"\nneighbours = "add-remove"\n[[event]]\nkind = "gaussian"\nmu = 0.1\n'
    )
    np.save(made / "eye.npy", np.eye(3))
    (made / "disclosure.toml").write_text(DISCLOSED)
    np.savez(made / "xy.npz", X=np.tile(np.eye(3), (4, 1)), y=np.arange(12) % 3)
    training = made / "training"
    training.mkdir()
    (made / "gradient").symlink_to(release(config(training, LOGISTIC)).path)
    return made


DISCLOSED = """
curators = ["an office"]
authors = ["a person"]
description = "a covariance"
intended_use = "tests"
region = "nowhere"
"""

CALLS = [
    "plan people.toml",
    "run people.toml --no-prefect --date 2026-11-20",
    "report people/covariance/2026-11-20 --config people.toml",
    "report people/covariance/2026-11-21 --against people/covariance/2026-11-20 --config people.toml",
    "export data people/covariance/2026-11-20 --config people.toml --format csv --output tables",
    "export site . --output site",
    "public step gradient --examples 1500 --learning-rate 8 --output step.npz",
    "public weights --inputs 3 --outputs 2 --seed 7 --output weights.npz",
    "service prune . --keep-days 36500",
    "service catch-up .",
    "study mechanisms",
    "study mechanisms gaussian",
    "study mechanisms auto",
    "audit gaussian --epsilon 1 --delta 1e-5 --trials 400",
    "public bounds draft people.toml --output drafted.toml",
    "public shape releases/people/covariance/2026-11-20.json --output shape.npy",
    "public shape-of-list list.csv --output list.npy",
    "public directions releases/people/covariance/2026-11-20.json --output directions.npy",
    "public eigenpairs people/covariance/2026-11-20 --config people.toml --output l.npz --picture l.svg",
    "ledger show people.toml",
    "verify releases/people/covariance/2026-11-20.json",
    "ledger verify people.toml",
    "ledger head people.toml",
    "ledger head people.toml --output head.json",
    "export disclosure people.toml --disclosure disclosure.toml --tier 1",
    "ledger prove people.toml people/covariance/2026-11-20 --output proof.json",
    "export certificate people/covariance/2026-11-20 --config people.toml --output certificate.html",
    "export certificate --config people.toml --since 2026-11-20 --output certificates.html",
    "ledger admin role reader",
    "ledger admin import export.jsonl --ledger copy.db --as-copy",
    "ledger admin attest --by Ann --why moved --ledger moved.db",
    "ledger admin reconcile --since 2026-11-20 --ledger moved.db",
    "ledger grant people.toml --epsilon 9 --delta 1e-5",
    "ledger budget people.toml",
    "ledger forecast people.toml",
    "ledger price events.toml --delta 1e-5",
    "ledger charge people.toml events.toml --name elsewhere --date 2026-11-20",
    "study r1smg --shape 3x3 --epsilon 1 --delta 1e-5 --sensitivity 1",
    "study wishart --features 3 --epsilon 1 --delta 1e-5 --neighbours add-remove",
    "study johnson-lindenstrauss --records 9 --features 3 --rows 2 --epsilon 1 --delta 1e-5 --neighbours add-remove",
    "study ppca --matrix eye.npy --directions 1 --epsilon 1 --delta 1e-5 --neighbours add-remove",
    "study imgm --left eye.npy --right eye.npy --epsilon 1 --delta 1e-5 --sensitivity 1",
    "study sampling --epsilon 1 --delta 1e-5 --sampling-probability 0.01 --epochs 1 --slack 1e-6",
    "study training --data xy.npz --epsilon 1 --delta 1e-5 --sampling-probability 0.5 --epochs 1 --slack 1e-6",
]
ELSEWHERE = {
    "ingest", "init", "ledger admin replace-key", "ledger admin void", "ledger approve", "ledger split",
    "ledger withdraw", "public bounds read", "service erase"
}  # fmt: skip
"""Commands whose call needs more of a setting, and is below."""


def answer(*words):
    done = blockveil(*words, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout, parse_constant=lambda name: pytest.fail(name))


@pytest.mark.parametrize("words", CALLS)
def test_a_call_prints_one_document_and_nothing_else(folder, monkeypatch, words):
    monkeypatch.chdir(folder)
    from blockveil.flows.service import login, named_server, recovery

    due = SimpleNamespace(config="people", night="2026-11-22", why="missed", note="due", cost="free")
    monkeypatch.setattr(login, "join", lambda: None)
    monkeypatch.setattr(named_server, "require_server", lambda: None)
    monkeypatch.setattr(recovery, "catch_up_nights", lambda *_: [vars(due)])
    if words.startswith("ledger admin import"):
        blockveil("ledger", "export", "people.toml", "--output", "export.jsonl")
    if words.endswith("moved.db") and not Path("moved.db").exists():
        shutil.copy("ledger.db", "moved.db")
    if words.endswith("moved.db"):
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "another machine"))
    assert answer(*words.split())


def test_the_calls_are_of_all_commands():
    called = {name for name, _ in commands() if any(words.startswith(name) for words in CALLS)}
    assert called | ELSEWHERE == {name for name, _ in commands()} - WITHOUT.keys()


def test_numbers_are_numbers_and_repeated_lines_are_lists(folder, monkeypatch):
    monkeypatch.chdir(folder)
    found = answer("ledger", "budget", "people.toml")
    assert found["in_numbers"]["epsilon"] == 9.0
    assert found["nights_left"] > 0
    assert 0.5 < found["in_numbers"]["guess_right_at_most"]["so_far"] < 1.0
    assert common.keyed([("A b", "1"), ("A b", "2"), ("A b", "3")]) == {"a_b": ["1", "2", "3"]}
    assert common.plain_values({1: (float("nan"), -float("inf"))}) == {"1": ["nan", "-inf"]}


def test_a_killed_reservation_is_given_back_in_json(tmp_path):
    from datetime import date

    from blockveil.pipeline.ledger import Ledger
    from blockveil.pipeline.plan.planning import make_plan

    loaded = support.prepare(tmp_path)
    plan = make_plan(loaded, date(2026, 11, 20))
    Ledger(loaded.ledger_url).reserve(ChargeRequest(
        release_id=plan.release_id, dataset="people", spec={}, spec_digest="0" * 64, charge=plan.charge,
        neighbours=plan.neighbours, unit=support.UNIT, attempt="one",
    ))  # fmt: skip
    assert answer("ledger", "admin", "void", loaded.path, plan.release_id)["release"] == plan.release_id


def test_a_split_is_shown_in_json(tmp_path):
    loaded = support.prepare(tmp_path)
    loaded.path.write_text(loaded.path.read_text().replace("[mechanism]", "share = 1.0\n\n[mechanism]", 1))
    assert answer("ledger", "split", loaded.path)["releases"][0]["share"] == 1.0


def test_an_approval_is_told_in_json(tmp_path):
    loaded = support.prepare(tmp_path)
    key_file(tmp_path / "officer.pem")
    with loaded.path.open("a") as file:
        file.write('[approval]\nthreshold_share = 0.01\nofficers = { Ann = "file:officer.pub" }\n')
    key = f"file:{tmp_path / 'officer.pem'}"
    assert (
        answer("ledger", "approve", loaded.path, "--sign", key, "--by", "Ann", "--why", "it is due")["approval"]["name"]
        == "Ann"
    )


def test_a_withdrawal_is_told_in_json(tmp_path):
    loaded = support.prepare(tmp_path)
    assert blockveil("run", loaded.path, "--no-prefect", "--date", "2026-11-20").returncode == 0
    found = answer("ledger", "withdraw", loaded.path, "people/covariance/2026-11-20", "--why", "wrong")
    assert (found["release_id"], found["reason"]) == ("people/covariance/2026-11-20", "wrong")


def test_a_lost_key_of_digests_is_told_in_json(tmp_path):
    loaded = support.prepare(tmp_path)
    assert blockveil("run", loaded.path, "--no-prefect", "--date", "2026-11-20").returncode == 0
    (key,) = (tmp_path / "keys" / "content").iterdir()
    key.unlink()
    assert answer("ledger", "admin", "replace-key", loaded.path, "--by", "Ann", "--why", "a lost disk")


def test_an_ingest_tells_what_it_made_in_json(tmp_path):
    np.save(tmp_path / "cost.npy", np.arange(4.0)[:, None])
    loaded = ingest_support.configure(
        tmp_path, [ingest_support.NUMBER], 'kind = "npy"\nfiles = ["cost.npy"]\nnames = ["cost"]'
    )
    assert answer("ingest", loaded.path)["columns"] == 1
    assert answer("ingest", loaded.path, "--discard")["removed"] is False


def test_an_erasure_is_told_in_json(tmp_path):
    growing_support.put(tmp_path, 0)
    loaded = growing_support.configure(tmp_path)
    ingest_support.run(loaded)
    (tmp_path / "units.txt").write_text("3\n")
    assert set(answer("service", "erase", loaded.path, tmp_path / "units.txt")) == {"message", "store"}


def test_the_configs_of_a_first_release_are_told_in_json_where_nothing_is_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text(",".join(scaffold_support.NAMES) + "\n")
    made = scaffold_support.made(tmp_path)
    (tmp_path / "answers.toml").write_text(made.files["answers.toml"].replace("../visits.csv", "visits.csv"))
    found = answer("init", "visits.csv", "--answers", "answers.toml", "--yes", "--output", "first")
    assert [each["command"].split()[1] for each in found["next"]][:2] == ["ingest", "plan"]
    refused = blockveil("init", "visits.csv", "--json")
    assert (refused.returncode, refused.stdout) == (2, "")


def test_bounds_that_were_paid_for_are_told_in_json(tmp_path):
    released = test_private_bounds.histograms(tmp_path)
    assert answer("public", "bounds", "read", released.path, "--output", tmp_path / "bounds.toml")["written"]


def test_a_refusal_prints_nothing_to_standard_output(folder):
    done = blockveil("plan", folder / "absent.toml", "--json")
    assert (done.returncode, done.stdout) == (2, "")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("environment", "terminal", "coloured"),
    [({}, True, True), ({}, False, False), ({"NO_COLOR": "1"}, True, False), ({"TERM": "dumb"}, True, False)],
)
def test_colour_is_for_terminals_whose_user_wants_it(environment, terminal, coloured):
    shown = Terminal() if terminal else io.StringIO()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    with mock.patch.dict(os.environ, {**kept, **environment}, clear=True), contextlib.redirect_stdout(shown):
        common.print_rows([("Warning", "one \x1b[31mred"), ("Left", "2")])
    text = shown.getvalue()
    assert ("\x1b[" in text) == coloured
    assert re.sub(r"\x1b\[\d+m", "", text) == "Warning  one \\u001b[31mred\nLeft     2\n"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["plan", "nowhere.toml"], 2, "there is no such file"),
        (["plan"], 2, "Missing argument"),
        (["plan", "people.toml", "--rows", "many"], 2, "Invalid value for '--rows'"),
        (["plan", "people.toml", "--row", "3"], 2, "No such option: --row"),
        (["paln", "people.toml"], 2, "No such command 'paln'"),
        (["ledger", "gramt"], 2, "No such command 'gramt'"),
        (["verify", "nowhere"], 7, "There is no release nowhere"),
        (["report", "nowhere"], 7, "is not there"),
    ],
)
def test_a_command_that_fails_prints_one_document_too(tmp_path, monkeypatch, capsys, words, code, told):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["blockveil", *words, "--json"])
    monkeypatch.setattr(common, "_printed", [])
    with pytest.raises(SystemExit) as ended:
        main()
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert ended.value.code == code
    assert shown.err
    assert told in document["error"]
    assert document["exit_code"] == code


def test_a_command_that_has_an_answer_although_it_fails_prints_that(folder, tmp_path, monkeypatch, capsys):
    shutil.copytree(folder / "releases", tmp_path / "releases")
    (released,) = (tmp_path / "releases" / "people" / "covariance").glob("2026-11-20-*.zarr")
    shutil.rmtree(released / "mean")
    monkeypatch.setattr("sys.argv", ["blockveil", "verify", str(released), "--json"])
    monkeypatch.setattr(common, "_printed", [])
    with pytest.raises(SystemExit) as ended:
        main()
    document = json.loads(capsys.readouterr().out)
    assert (ended.value.code, document["hold"]) == (7, False)
    assert "error" not in document
