"""Paths and texts of a command line that no file system can hold, or that would steer the terminal."""

from pathlib import Path

import pytest

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.base.printable import is_hidden
from blockveil.pipeline.ledger import Ledger
from tests.flows.cli.test_cli import blockveil
from tests.house import support
from tests.house.forged import forged, replaced

LONG = "x" * 300


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    support.prepare(tmp_path)
    for name in ("loop", "loop.toml", "loop.html", "loop.npz", "loop.npy"):
        (tmp_path / name).symlink_to(name)
    (tmp_path / "public.csv").write_text("a,b\n1,2\n2,1\n3,5\n")
    return tmp_path


def places(words):
    """A command with a loop and with a name that is too long in place of @."""
    return [[word.replace("@", place) for word in words.split()] for place in ("loop", LONG)]


COMMANDS = [
    command
    for words in (
        "plan @.toml",
        "run @.toml --no-prefect",
        "run people.toml --no-prefect --set output.root='@'",
        "plan people.toml --set data.store='@/@'",
        "ingest @.toml",
        "serve @",
        "service deploy @",
        "service prune people.toml --set output.root='@'",
        "service catch-up @",
        "report @",
        "report @/a/b --config @.toml",
        "ledger show @.toml",
        "ledger show --ledger @",
        "ledger verify people.toml --head @",
        "ledger head people.toml --output @",
        "ledger export people.toml --output @",
        "ledger admin import @ --ledger new.db",
        "ledger price @.toml --delta 1e-5",
        "ledger charge people.toml @.toml --name a",
        "public shape-of-list @.csv --output a.npy",
        "public shape-of-list public.csv --output @.npy",
        "public shape @ --output a.npy",
        "public step @ --output a.npz --examples 1 --learning-rate 1",
        "public directions @ --output a.npy",
        "study @.toml",
    )
    for command in places(words)
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words).replace(LONG, "LONG"))
def test_a_path_that_cannot_be_is_refused_in_words_and_spends_nothing(folder, words):
    before = (folder / "ledger.db").read_bytes()
    found = blockveil(*words)
    assert found.returncode not in (0, 1), found.stdout
    assert "Traceback" not in found.stderr
    assert len(found.stderr) < 2000
    assert (folder / "ledger.db").read_bytes() == before


@pytest.mark.parametrize("name", ["", " ", "\x1b[31mme", "\u202eem", "x" * 61, "a\nb"])
def test_an_approver_has_a_name_that_can_be_read(folder, name):
    found = blockveil("run", "people.toml", "--no-prefect", "--approve", name)
    assert found.returncode == 2
    assert "--approve" in found.stderr


def test_what_a_ledger_or_a_release_holds_does_not_steer_the_terminal(folder):
    steering = "one \x1b[31mperson\x9b\u202e\r"
    url = f"sqlite:///{folder / 'other.db'}"
    Ledger(url).set_budget("people", 1.0, 1e-5, Neighbours.ADD_REMOVE, steering)
    shown = [blockveil("ledger", "show", "--ledger", "other.db")]
    assert blockveil("run", "people.toml", "--no-prefect").returncode == 0
    release = next((folder / "releases").rglob("*.zarr"))
    release = forged(release, lambda stated: stated.update(replaced(stated, "one person", steering)))
    shown += [blockveil("report", release, "--output", "page.html", *words) for words in ((), ("--json",))]
    for found in shown:
        assert "person" in found.stdout + found.stderr
        assert not any(is_hidden(sign) and sign not in "\n\t" for sign in found.stdout + found.stderr)
    page = Path("page.html").read_text()
    assert "person" in page
    assert not any(is_hidden(sign) and sign not in "\n\t" for sign in page)
