"""``blockveil export certificate``: one page whose every claim a reader can check, and none for what does not hold."""

import html
import json
import re
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError, LedgerError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.proofs import Proof
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.releases.withdrawing import withdraw
from blockveil.pipeline.verification.findings import Evidence
from blockveil.pipeline.verification.verified import verify
from tests.house import support
from tests.house.forged import forged
from tests.pipeline.verification.test_signed_releases import key_file

FIRST, SECOND = "2026-11-20", "2026-11-21"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two released nights, the second of which somebody approved."""
    folder = tmp_path_factory.mktemp("certified")
    loaded = support.prepare(folder, budget=9.0)
    for night, attempt in ((FIRST, "test"), (SECOND, "process 7, approved by A. Officer")):
        run_release(make_plan(loaded, date.fromisoformat(night)), ThreadCompute(2), attempt, lambda *_: None)
    key_file(folder / "keeper.pem")
    return folder


@pytest.fixture
def people(made, tmp_path):
    return load_config(shutil.copytree(made, tmp_path / "people") / "people.toml")


def pointer(loaded, night):
    return loaded.output_root / "people" / "covariance" / f"{night}.json"


def certificate(*words):
    done = CliRunner().invoke(app, ["export", "certificate", *map(str, words), "--json"])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    return found, html.unescape(Path(found["written"]).read_text())


def test_a_page_states_promise_budget_unit_bounds_approval_and_digests(people):
    found, page = certificate(f"people/covariance/{SECOND}", "--config", people.path)
    stated = open_release(pointer(people, SECOND)).attributes
    budget = Ledger(people.ledger_url).budget("people")
    for words in (
        stated["guarantee"]["sentence"], stated["output_digest"], stated["plan_digest"], stated["ledger"]["row_hash"],
        "one person (one row)", "1,000,000", "by A. Officer", f"together epsilon {budget.spent_epsilon:.4g}",
        "epsilon 9 at delta 1e-05", "it has the digest", "Not checked", "blockveil verify",
        "the ledger sealed values of this digest",
    ):  # fmt: skip
        assert words in page, words
    assert found["releases"] == [f"people/covariance/{SECOND}"]
    assert "A. Officer" not in certificate(f"people/covariance/{FIRST}", "--config", people.path)[1]


def test_the_proof_on_the_page_is_what_a_reader_needs(people, tmp_path):
    folder = people.path.parent
    _, page = certificate(pointer(people, FIRST), "--config", people.path, "--sign", f"file:{folder / 'keeper.pem'}")
    proof = Proof.from_json(re.search("<pre>(.+?)</pre>", page)[1])
    found = verify(pointer(people, FIRST), Evidence(None, (proof,), (folder / "keeper.pub").read_text()))
    assert "not withdrawn by" in {one.what: one.words for one in found.findings}["Ledger"]
    other = replace(proof, head=replace(proof.head, entries=proof.head.entries + 1))
    found = verify(pointer(people, FIRST), Evidence(None, (other,), (folder / "keeper.pub").read_text()))
    assert not found.holds


def test_without_a_ledger_the_page_says_what_it_leaves_out(people, tmp_path):
    found, page = certificate(pointer(people, FIRST), "--output", tmp_path / "page.html")
    assert page.count("No ledger was asked") == 2
    assert found["proof"] is None
    assert "A. Officer" not in page


def test_a_period_lists_every_release_of_the_budget_also_what_is_not_here(people, tmp_path):
    words = ("--config", people.path, "--output", tmp_path / "page.html")
    assert certificate("--since", FIRST, *words)[1].count("checked; stands") == 2
    found, page = certificate("--since", SECOND, "--until", SECOND, *words)
    assert found["releases"] == [f"people/covariance/{SECOND}"]
    assert f"people/covariance/{FIRST}" not in page
    withdraw(people, f"people/covariance/{FIRST}", "wrong", remove=False)
    pointer(people, SECOND).unlink()
    found, page = certificate("--until", SECOND, *words)
    assert (found["releases"], found["not_here"]) == ([], 2)
    assert "<td>withdrawn</td>" in page
    assert "<td>not here, and not checked</td>" in page


def test_what_was_withdrawn_changed_or_paid_for_elsewhere_gets_no_page(people, tmp_path):
    original = next(people.output_root.rglob(f"{FIRST}-*.zarr"))
    for place, value, name, refusal in (
        (("ledger", "sequence"), 99, original.name, LedgerError),
        (("ledger", "row_hash"), "0" * 64, original.name, LedgerError),
        (("release_id",), f"people/covariance/{SECOND}", original.name, StoreError),
        (("release_id",), f"people/covariance/{SECOND}", "copy.zarr", LedgerError),
        (("guarantee", "epsilon"), 0.5, original.name, StoreError),
    ):

        def forge(stated, place=place, value=value):
            for key in place[:-1]:
                stated = stated[key]
            stated[place[-1]] = value

        shutil.rmtree(tmp_path / "forged", ignore_errors=True)
        copy = forged(shutil.copytree(original, tmp_path / "forged" / name), forge)
        with pytest.raises(refusal):
            certificate(copy, "--config", people.path, "--output", tmp_path / "page.html")
    copy = shutil.copytree(original, tmp_path / "copy.zarr")
    certificate(copy, "--config", people.path, "--output", tmp_path / "page.html")
    (tmp_path / "page.html").unlink()
    withdraw(people, f"people/covariance/{FIRST}", "wrong", remove=False)
    with pytest.raises(StoreError, match="withdrawn"):
        certificate(copy, "--config", people.path, "--output", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("command", "remedy"),
    [("export certificate", f'Choose among "people/covariance/{SECOND}'), ("verify", "date and name")],
)
def test_of_a_night_that_does_not_exist_it_is_said_that_there_is_no_such_release(people, command, remedy):
    missing = str(pointer(people, "2030-01-01"))
    asked = [missing] if command == "verify" else ["people/covariance/2030-01-01", "--config", str(people.path)]
    done = CliRunner().invoke(app, [*command.split(), *asked])
    assert isinstance(done.exception, StoreError)
    assert done.exception.exit_code == 7
    # A long path is cut in the middle.
    assert done.exception.value.startswith("There is no release")
    assert done.exception.value.endswith(asked[0][-40:])
    assert remedy in done.exception.remedy


@pytest.mark.parametrize("changed", ["group", "pointer"])
def test_a_release_of_which_a_part_is_gone_does_not_verify(people, changed):
    of = pointer(people, FIRST)
    (group,) = of.parent.glob(f"{FIRST}-*.zarr")
    if changed == "group":
        shutil.rmtree(group)
    else:
        of.write_text("")
    with pytest.raises(StoreError, match="does not verify"):
        certificate(of)


def test_values_that_another_sealed_under_the_same_entry_get_no_page(people, tmp_path, monkeypatch):
    from blockveil.pipeline.report import certified

    real = certified._paid
    monkeypatch.setattr(
        certified, "_paid", lambda entries: {k: replace(v, digest="0" * 64) for k, v in real(entries).items()}
    )
    with pytest.raises(LedgerError, match="sealed it with other values"):
        certificate(pointer(people, FIRST), "--config", people.path, "--output", tmp_path / "page.html")


def test_a_withdrawal_removes_the_page_beside_the_release(people):
    written, _ = certificate(pointer(people, FIRST), "--config", people.path)
    withdraw(people, f"people/covariance/{FIRST}", "wrong", remove=False)
    assert not pointer(people, FIRST).with_name(written["written"].rpartition("/")[2]).exists()


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--since", FIRST),
        ("--since", FIRST, "--until", "2020-01-01", "--output", "page.html"),
        ("ID", "--since", FIRST),
        ("ID", "--output", "page.txt"),
        ("--output", "page.html"),
    ],
)
def test_what_does_not_say_which_releases_are_wanted_is_refused(people, monkeypatch, words):
    monkeypatch.chdir(people.path.parent)
    with pytest.raises(ConfigError):
        certificate(*(f"people/covariance/{FIRST}" if each == "ID" else each for each in words))
