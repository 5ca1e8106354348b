"""Where officers sign, a release is charged for no other approval; the ledger has the signature for ever."""

import io
import json
from dataclasses import replace
from datetime import date

import pyarrow.parquet as arrow_parquet
import pytest

from blockveil.pipeline.base.ed25519 import raw
from blockveil.pipeline.base.errors import ConfigError, LedgerError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.datasets import stated_records
from blockveil.pipeline.data.released import open_release
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.approved import Approved, approval_words, problem
from blockveil.pipeline.ledger.grants import named_grant
from blockveil.pipeline.plan import signed_approval
from blockveil.pipeline.plan.approval import NotApproved
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases import charged_steps
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.verification.findings import Evidence
from blockveil.pipeline.verification.verified import verify
from tests.flows.cli.test_cli import blockveil
from tests.house import support
from tests.house.forged import forged
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.verification.test_signed_releases import key_file

NIGHT = date(2026, 11, 20)
ASKED = """
[approval]
threshold_share = 0.01
officers = { "A. Officer" = "file:officer.pub" }
"""


@pytest.fixture
def asked(tmp_path):
    """A config whose release needs a signature, with the officer's key beside it."""
    loaded = support.prepare(tmp_path, budget=3.0)
    key = key_file(tmp_path / "officer.pem")
    with loaded.path.open("a") as file:
        file.write(ASKED)
    return load_config(loaded.path), key


def approve(loaded, key, night=NIGHT, name="A. Officer"):
    plan = make_plan(loaded, night)
    made = signed_approval.sign(plan, Ledger(loaded.ledger_url), name, "a reviewed release", key)
    path = signed_approval.inbox(plan)
    path.parent.mkdir(exist_ok=True)
    path.write_text(signed_approval.text_of(made))
    return made, path


def reserve(loaded, night_=NIGHT, attempt="test"):
    return charged_steps.reserve(*support.opened(make_plan(loaded, night_)), attempt)


def test_a_release_that_an_officer_signed_is_charged_with_the_signature(asked):
    loaded, key = asked
    made, _ = approve(loaded, key)
    run_release(make_plan(loaded, NIGHT), ThreadCompute(2), "test", lambda *_: None)
    ledger = Ledger(loaded.ledger_url)
    reserved = next(each for each in ledger.history() if each.kind == "RESERVED")
    assert Approved.of(reserved.payload["approval"]) == made
    assert "A. Officer, signed with the key" in approval_words(reserved.payload)
    assert ledger.verify().approvals == (made,)
    assert ledger.verify().problems == []


def test_neither_a_typed_name_nor_another_plan_key_officer_or_text_counts(asked, tmp_path):
    loaded, key = asked
    with pytest.raises(NotApproved, match="blockveil ledger approve"):
        reserve(loaded, attempt="process 1, approved by A. Officer")
    made, path = approve(loaded, key)
    stranger = key_file(tmp_path / "stranger.pem")
    for other in (
        replace(made, why="another reason"),
        replace(made, release_id="people/covariance/2026-11-21").signed(key),
        replace(made, plan="0" * 64).signed(key),
        replace(made, records="0" * 64).signed(key),
        replace(made, budget="animals").signed(key),
        replace(made, ledger="0" * 64).signed(key),
        replace(made, ledger="").signed(key),
        replace(made, why="agreed 2026-11-20 10:30").signed(key),
        replace(made, name="B. Officer").signed(key),
        made.signed(stranger),
        replace(made, key=raw(stranger.public_key()).hex()),
        replace(made, signature=""),
    ):
        path.write_text(signed_approval.text_of(other))
        with pytest.raises(NotApproved):
            reserve(loaded)
    for text in ("", "[]", "{}", json.dumps({**made.plain, "more": "1"}), json.dumps({**made.plain, "why": 1})):
        path.write_text(text)
        with pytest.raises(NotApproved):
            reserve(loaded)
    assert [each.kind for each in Ledger(loaded.ledger_url).history()] == ["BUDGET"]
    path.write_text(signed_approval.text_of(made))
    assert reserve(loaded).charge.is_new


def test_an_approval_holds_for_one_night_and_for_what_was_planned(asked):
    loaded, key = asked
    _, path = approve(loaded, key)
    path.rename(signed_approval.inbox(make_plan(loaded, date(2026, 11, 21))))
    with pytest.raises(NotApproved, match="another release"):
        reserve(loaded, date(2026, 11, 21))
    approve(loaded, key)
    loaded.path.write_text(loaded.path.read_text().replace("epsilon = 1.0", "epsilon = 1.5"))
    with pytest.raises(NotApproved, match="another release"):
        reserve(load_config(loaded.path))


def test_an_approval_for_a_ledger_is_refused_by_another_and_taken_by_the_same_one_elsewhere(asked, tmp_path):
    loaded, key = asked
    approve(loaded, key)
    file, first = loaded.resolve("ledger.db", "ledger"), tmp_path / "first.db"
    file.rename(first)
    support.set_budget(loaded, 3.0, 1e-5)
    with pytest.raises(NotApproved, match="or ledger"):
        reserve(loaded)
    assert [each.kind for each in Ledger(loaded.ledger_url).history()] == ["BUDGET"]
    first.replace(file)
    assert reserve(loaded).charge.is_new


def test_the_release_states_its_approval_and_readers_take_only_officers_who_are_given(asked, tmp_path):
    loaded, key = asked
    made, _ = approve(loaded, key)
    released = run_release(make_plan(loaded, NIGHT), ThreadCompute(2), "test", lambda *_: None)

    def finding(*officers):
        found = verify(released.path, Evidence(officers=officers))
        return found.holds, next(each for each in found.findings if each.what == "Approval")

    assert Approved.of(open_release(released.path).attributes["approval"]) == made
    assert finding()[1].holds is None
    assert "A. Officer" in finding()[1].words
    stranger = key_file(tmp_path / "stranger.pem").public_key()
    assert (finding(stranger, key.public_key())[0], finding(key.public_key())[1].holds) == (True, True)
    assert finding(stranger)[0] is False


@pytest.mark.parametrize("change", ["why", "release_id", "plan", "signature", "more", None])
def test_a_release_whose_approval_is_another_s_or_was_changed_does_not_verify(asked, change):
    loaded, key = asked
    approve(loaded, key)
    released = run_release(make_plan(loaded, NIGHT), ThreadCompute(2), "test", lambda *_: None)

    def forge(stated):
        if change in ("release_id", "plan"):
            stated["approval"] = replace(Approved.of(stated["approval"]), **{change: "0" * 64}).signed(key).plain
        elif change is None:
            del stated["approval"]
        else:
            stated["approval"][change] = "0" * 128

    found = verify(forged(released.path, forge), Evidence(officers=(key.public_key(),)))
    assert [each.holds for each in found.findings if each.what == "Approval"] == [False]


def test_a_release_that_needed_no_signature_states_none(tmp_path):
    loaded = support.prepare(tmp_path, budget=3.0)
    released = run_release(make_plan(loaded, NIGHT), ThreadCompute(2), "test", lambda *_: None)
    assert "approval" not in open_release(released.path).attributes
    assert not any(each.what == "Approval" for each in verify(released.path).findings)


def test_nobody_signs_for_a_ledger_that_is_not_there(asked):
    loaded, _ = asked
    loaded.resolve("ledger.db", "ledger").unlink()
    words = ("ledger", "approve", loaded.path, "--date", NIGHT, "--by", "A. Officer", "--why", "a reviewed release")
    refused = blockveil(*words, "--sign", f"file:{loaded.path.parent / 'officer.pem'}")
    assert (refused.returncode, "budget yet" in refused.stderr) == (6, True)


def test_what_is_charged_already_or_takes_little_asks_nobody(asked):
    loaded, key = asked
    _, path = approve(loaded, key)
    assert reserve(loaded).charge.is_new
    path.unlink()
    assert not reserve(loaded).charge.is_new
    loaded.path.write_text(loaded.path.read_text().replace("threshold_share = 0.01", "threshold_share = 0.99"))
    assert reserve(load_config(loaded.path), date(2026, 11, 21)).charge.is_new


def test_a_forged_or_moved_approval_in_a_ledger_is_found(asked, tmp_path):
    loaded, key = asked
    made, _ = approve(loaded, key)
    reserve(loaded)
    ledger = Ledger(loaded.ledger_url)
    exported = io.StringIO()
    ledger.export("jsonl", exported)
    (row,) = (each for each in map(json.loads, exported.getvalue().splitlines()) if each["kind"] == "RESERVED")
    first = ledger.first()
    assert problem(row, first) is None
    assert "or ledger" in problem(row, "0" * 64)
    stranger = key_file(tmp_path / "stranger.pem")
    payload = json.loads(row["payload"])
    for approval, words in (
        ({**made.plain, "why": "another"}, "signature"),
        ({**made.plain, "more": "1"}, "signature"),
        ("yes", "signature"),
        (replace(made, plan="0" * 64).signed(stranger).plain, "another release, plan, store, budget or ledger"),
        (replace(made, release_id="people/covariance/2026-11-21").signed(key).plain, "another release"),
        (replace(made, budget="animals").signed(key).plain, "another release"),
    ):
        assert words in problem({**row, "payload": json.dumps({**payload, "approval": approval})}, first)
    changed = {**payload, "spec": {**payload["spec"], "privacy": {}}}
    assert "plan" in problem({**row, "payload": json.dumps(changed)}, first)
    assert "plan" in problem({**row, "payload": json.dumps({**payload, "spec": {}})}, first)
    assert "plan" in problem({**row, "kind": "COMMITTED"}, first)


def test_the_command_signs_and_verify_takes_only_officers_who_are_given(asked, tmp_path, monkeypatch):
    loaded, _ = asked
    monkeypatch.chdir(tmp_path)
    words = ("ledger", "approve", loaded.path, "--date", NIGHT, "--by", "A. Officer", "--why", "a reviewed release")
    refused = blockveil("run", loaded.path, "--no-prefect", "--date", NIGHT, "--approve", "A. Officer")
    assert (refused.returncode, "a typed name does not count" in refused.stderr) == (11, True)
    assert blockveil(*words, "--sign", "file:officer.pem").returncode == 0
    assert blockveil("run", loaded.path, "--no-prefect", "--date", NIGHT).returncode == 0
    for officer, code in (("officer", 0), ("stranger", 7)):
        key_file(tmp_path / "stranger.pem")
        assert blockveil("verify", "releases", "--officer", f"file:{officer}.pub").returncode == code
    found = blockveil("ledger", "verify", loaded.path, "--officer", "file:officer.pub")
    assert (found.returncode, "signed with the key" in found.stdout) == (0, True)
    found = blockveil("ledger", "verify", loaded.path, "--officer", "file:stranger.pub")
    assert (found.returncode != 0, "none of the officers" in found.stderr) == (True, True)
    assert blockveil(*words, "--sign", "file:stranger.pem").returncode == 2


def test_a_signature_is_made_for_officers_of_a_config_that_wants_one_alone(asked, tmp_path):
    loaded, key = asked
    plan, ledger = make_plan(loaded, NIGHT), Ledger(loaded.ledger_url)
    for name, with_key in (("B. Officer", key), ("A. Officer", key_file(tmp_path / "stranger.pem"))):
        with pytest.raises(ConfigError, match="officers"):
            signed_approval.sign(plan, ledger, name, "why", with_key)
    with pytest.raises(ConfigError, match="time of day"):
        signed_approval.sign(plan, ledger, "A. Officer", "agreed 2026-11-20T10:30", key)
    plain = loaded.path.read_text().partition("[approval]")[0]
    loaded.path.write_text(plain)
    with pytest.raises(ConfigError, match="no signed approval"):
        signed_approval.sign(make_plan(load_config(loaded.path), NIGHT), ledger, "A. Officer", "why", key)
    loaded.path.write_text(f"{plain}[approval]\nthreshold_share = 0.1\nofficers = {{}}\n")
    with pytest.raises(ConfigError, match="officers"):
        load_config(loaded.path)
    (tmp_path / "officer.pub").write_text("no key")
    (tmp_path / "officer.pub").chmod(0o600)
    loaded.path.write_text(plain + ASKED)
    with pytest.raises(ConfigError, match="Ed25519 public key"):
        signed_approval.sign(make_plan(load_config(loaded.path), NIGHT), ledger, "A. Officer", "why", key)


def test_who_granted_a_budget_and_why_stands_in_its_entry(asked):
    loaded, _ = asked
    words = ("ledger", "grant", loaded.path, "--epsilon", "4", "--delta", "1e-5")
    assert blockveil(*words, "--by", "A. Chair", "--why", "agreed on Monday").returncode == 0
    assert "granted by A. Chair: agreed on Monday" in blockveil("ledger", "show", loaded.path).stdout
    assert Ledger(loaded.ledger_url).verify().problems == []
    with pytest.raises(LedgerError, match="not stated"):
        named_grant("A. Chair", None)


@pytest.fixture
def of_stores(tmp_path):
    """A config whose release needs a signature, of records that are ingested, with the officer's key beside it."""
    key = key_file(tmp_path / "officer.pem")
    people.write_parquet(tmp_path, people.visits())

    def ingest(store, **keys):
        people.run(people.configure(tmp_path, people.COLUMNS[:2], store=store, **keys))
        features = ", ".join(f'{{name = "{name}", lower = 0, upper = 1}}' for name in ("cost", "stay"))
        part = '\npartition_by = "ward"' if "partition" in keys else ""
        text = support.write_config(tmp_path).read_text()
        before, _, after = text.partition("features = [")
        text = f"{before}features = [{features}]{after.partition(chr(10) + ']')[2]}{ASKED}"
        text = text.replace("one person (one row)", "one visit (one row)").replace("records.zarr", store)
        (tmp_path / "people.toml").write_text(text.replace(f'"{store}"', f'"{store}"{part}', 1))
        return load_config(tmp_path / "people.toml")

    return ingest, key


def test_an_approval_is_of_one_store_wherever_the_config_points_afterwards(asked, tmp_path):
    loaded, key = asked
    (tmp_path / "two").mkdir()
    support.write_records(tmp_path / "two", support.records() + 1).rename(tmp_path / "two.zarr")
    approve(loaded, key)
    text = loaded.path.read_text()
    for other in ("two.zarr", "two/../two.zarr"):
        loaded.path.write_text(text.replace('store = "records.zarr"', f'store = "{other}"'))
        with pytest.raises(NotApproved, match="of another store"):
            reserve(load_config(loaded.path))
    assert [each.kind for each in Ledger(loaded.ledger_url).history()] == ["BUDGET"]
    loaded.path.write_text(text)
    assert reserve(load_config(loaded.path)).charge.is_new
    assert Ledger(loaded.ledger_url).verify().problems == []


def test_an_approval_is_of_the_store_that_was_ingested_and_of_no_other_at_its_place(of_stores, tmp_path):
    ingest, key = of_stores
    other = ingest("two.zarr")
    loaded = ingest("one.zarr")
    support.set_budget(loaded)
    approve(loaded, key)
    (tmp_path / "one.zarr").rename(tmp_path / "away.zarr")
    (tmp_path / "two.zarr").rename(tmp_path / "one.zarr")  # the same records, columns and unit, by another ingest
    with pytest.raises(NotApproved, match="of another store"):
        reserve(loaded)
    (tmp_path / "one.zarr").rename(tmp_path / "two.zarr")
    with pytest.raises(NotApproved, match="of another store"):
        reserve(other)
    loaded.path.write_text(loaded.path.read_text().replace('"one.zarr"', '"away.zarr"'))
    assert reserve(load_config(loaded.path)).charge.is_new, "the store may be moved"


def test_an_approval_outlives_what_is_appended_to_its_store(of_stores, tmp_path):
    ingest, key = of_stores
    grows = {"append": True, "late": "refuse"}
    loaded = ingest("one.zarr", **grows)
    support.set_budget(loaded)
    approve(loaded, key)
    before = stated_records(loaded)
    arrow_parquet.write_table(people.visits(200), tmp_path / "in" / "part-1.parquet")
    ingest("one.zarr", **grows)
    assert stated_records(loaded) == before
    assert reserve(loaded).dataset.rows == 700
    assert Ledger(loaded.ledger_url).verify().problems == []


def test_an_approval_is_of_one_part_of_the_records(of_stores, tmp_path):
    ingest, key = of_stores
    loaded = ingest("one.zarr", partition={"column": "ward", "equals": "a", "type": "text", "values": ["a", "b", "c"]})
    support.set_budget(loaded)
    approve(loaded, key)
    store = tmp_path / "one.zarr" / "records" / "zarr.json"
    content = store.read_text()
    other = json.loads(content)
    other["attributes"]["blockveil ingest"]["partition"]["equals"] = "b"  # as whoever may write the store could
    store.write_text(json.dumps(other))
    with pytest.raises(NotApproved, match="of another store"):
        reserve(loaded)
    store.write_text(content)
    assert reserve(loaded).charge.is_new


def test_the_records_of_an_entry_are_those_that_its_approval_is_of(asked):
    loaded, key = asked
    approve(loaded, key)
    reserve(loaded)
    ledger = Ledger(loaded.ledger_url)
    row = next(dict(each) for each in ledger._rows() if each["kind"] == "RESERVED")
    assert problem(row, ledger.first()) is None
    payload = json.loads(row["payload"])
    payload["records"]["store"] = "/elsewhere/two.zarr"
    assert "of another release, plan, store" in problem({**row, "payload": json.dumps(payload)}, ledger.first())
