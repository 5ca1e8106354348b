"""A release shows by itself what it promises, and whatever is changed in it is found."""

import json
import re
import shutil
from datetime import date
from pathlib import Path

import mpmath
import pytest
import zarr
from typer.testing import CliRunner

import blockveil
from blockveil.engine.guarantees.calibration import gaussian_delta
from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import StoreError
from blockveil.pipeline.base.kinds import FOLDERS
from blockveil.pipeline.config import load_config
from blockveil.pipeline.data.contribution import Contribution
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import promise
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from blockveil.pipeline.verification.exact_gaussian import delta_of
from blockveil.pipeline.verification.verified import releases_at, verify
from tests.house.forged import forged
from tests.house.support import prepare
from tests.pipeline.budget import test_parts as parts
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.data.test_contribution import configured, released
from tests.pipeline.study.test_frozen_outputs import planned

DAY = date(2026, 11, 20)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    run_release(make_plan(prepare(folder), DAY), ThreadCompute(2), "test", lambda *_: None)
    return folder / "releases" / "people" / "covariance"


@pytest.fixture
def releases(made, tmp_path):
    shutil.copytree(made, tmp_path / "copy")
    return tmp_path / "copy"


def altered(releases, change):
    """The release with other attributes, under the same arrays, by somebody who makes its digest agree."""
    return verify(forged(next(releases.glob("*.zarr")), change))


def failing(found):
    """What does not hold, but for arrays: what is stated here is often of another plan than they are."""
    return [finding.what for finding in found.findings if finding.holds is False and finding.what != "Arrays"]


def test_a_release_verifies_by_its_pointer_its_folder_and_the_folder_of_all(releases):
    pointer, folder = releases / "2026-11-20.json", next(releases.glob("*.zarr"))
    assert releases_at(releases.parent) == [pointer]
    for place in (pointer, folder):
        found = verify(place)
        assert found.holds
        assert found.name == "people/covariance/2026-11-20"
        what = ["Content", "Place", "Promise", "Noise", "Sensitivity", "Unit", "Arrays", "Signature"]
        assert [finding.what for finding in found.findings] == what
        assert [finding.holds for finding in found.findings] == [True, True, True, True, True, True, True, None]


@pytest.mark.parametrize("mechanism", ['"gaussian"', '"laplace", optimise_for = "relative-error"'])
def test_a_unit_of_several_rows_verifies_and_one_more_row_is_found(tmp_path, mechanism):
    people.write_parquet(tmp_path, people.visits())
    people.run(people.configure(tmp_path, people.COLUMNS[:2], unit=people.CHOOSE.format(most=20)))
    loaded = configured(tmp_path, "one person", ", rows_per_unit = 20")
    loaded.path.write_text(loaded.path.read_text().replace('"gaussian"', mechanism))
    outcome, _ = released(load_config(loaded.path))
    found = verify(outcome.path)
    assert found.holds, found
    (unit,) = [finding for finding in found.findings if finding.what == "Unit"]
    assert unit.words == "one person is charged for 20 rows"
    more = altered(outcome.path.parent, lambda stated: stated["guarantee"]["contribution"].update(charged_rows=21))
    assert failing(more) == ["Promise", "Noise", "Unit"]


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("Promise", lambda stated: stated["guarantee"].update(epsilon=0.98)),
        ("Promise", lambda stated: stated["guarantee"].update(delta=0.9e-6)),
        ("Promise", lambda stated: stated["guarantee"]["loss"].update(mu=stated["guarantee"]["loss"]["mu"] * 1.05)),
        ("Noise", lambda stated: stated["mechanism"].update(scale=stated["mechanism"]["scale"] * 0.95)),
        ("Noise", lambda stated: stated["mechanism"].update(sensitivity=stated["mechanism"]["sensitivity"] * 1.05)),
        ("Unit", lambda stated: stated["guarantee"]["contribution"].update(charged_rows=2)),
    ],
)
def test_a_promise_that_does_not_follow_is_found(what, change, releases):
    assert what in failing(altered(releases, change))


def impossible(*path_and_value):
    """A change of one stated number to what no number of its kind is."""
    *path, last, value = path_and_value

    def change(stated):
        table = stated
        for key in path:
            table = table[key]
        table[last] = value

    return change


def together(*changes):
    def change(stated):
        for each in changes:
            each(stated)

    return change


LOSS = ("guarantee", "loss")


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("Promise", together(impossible("guarantee", "epsilon", 0.5), impossible(*LOSS, "total_variation", -0.1))),
        ("Promise", together(impossible("guarantee", "epsilon", 0.5), impossible(*LOSS, "mu", -1.0))),
        ("Content", impossible("guarantee", "epsilon", float("inf"))),
        ("Content", impossible("guarantee", "epsilon", float("nan"))),
        ("Promise", impossible("guarantee", "epsilon", "1.0")),
        ("Content", impossible(*LOSS, "mu", float("inf"))),
        ("Promise", impossible(*LOSS, "mu", "0.2")),
        ("Promise", impossible("guarantee", "loss", [])),
        ("Noise", together(impossible("mechanism", "scale", -1.0), impossible("mechanism", "sensitivity", -0.1))),
        ("Noise", impossible("mechanism", "scale", 0.0)),
        ("Noise", impossible("mechanism", "scale", True)),
        ("Unit", together(impossible("guarantee", "contribution", "charged_rows", 0), impossible(*LOSS, "mu", 0.01))),
        ("Unit", impossible("guarantee", "contribution", "charged_rows", -3)),
    ],
)
def test_numbers_that_cannot_be_do_not_pass_as_checked_or_as_not_stated(what, change, releases):
    assert what in failing(altered(releases, change))


def test_what_is_not_stated_is_not_called_checked(releases):
    found = altered(releases, lambda stated: stated["mechanism"].pop("scale"))
    assert {finding.what: finding.holds for finding in found.findings}["Noise"] is None


def promised_by(plan, rows=1):
    """The release says what another plan promises, with rows of a unit."""

    def change(stated):
        stated["query"] = plan.public["query"]
        stated["mechanism"] = {**plan.public["mechanism"], **plan.public["calibration"]}
        bounded = Contribution(plan.config.privacy.unit, rows, rows, "declared", False)
        stated["guarantee"] |= {
            "contribution": bounded.facts(),
            "sentence": f"{promise.sentence(plan)} {bounded.sentence}",
            "privacy_unit": plan.config.privacy.unit,
            "epsilon": plan.guarantee.epsilon,
            "delta": plan.guarantee.delta,
            "loss": plan.charge.plain,
            "neighbours": plan.neighbours.value,
            **({} if plan.series is None else {"nights": plan.series.nights}),
        }

    return change


@pytest.mark.parametrize(("relation", "rows"), [("add-remove", 1), ("add-remove", 3), ("replace-one", 1)])
@pytest.mark.parametrize("mechanism", ["exponential", "dawa"])
def test_what_is_drawn_otherwise_is_recomputed_too(mechanism, rows, relation, releases, tmp_path):
    change = promised_by(planned(tmp_path, mechanism, relation, f"rows_per_unit = {rows}" * (rows > 1)), rows)
    found = altered(releases, change)
    assert [each.holds for each in found.findings[2:5]] == [True, True, True], found
    more = altered(releases, together(change, impossible("guarantee", "contribution", "charged_rows", rows + 1)))
    assert failing(more) == ["Promise", "Noise", "Unit"]
    if relation == "add-remove":  # a record that is replaced moves twice as much
        other = altered(releases, together(change, impossible("guarantee", "neighbours", "replace-one")))
        assert failing(other) == ["Promise", "Noise", "Unit"]
    neither = altered(releases, together(change, impossible("guarantee", "neighbours", "none")))
    assert failing(neither) == ["Promise", "Noise", "Unit"]


@pytest.mark.parametrize(
    ("old", "new"),
    [("e^2", "e^0.2"), ("adding or removing", "replacing"), (" to it.", " to it, or nothing."), (" to it.", ""),
     ("one person", "one city"), ("this release", "all 9 nights of this release together")],
)  # fmt: skip
def test_a_sentence_that_promises_something_else_is_found(old, new, releases):
    def change(stated):
        said = stated["guarantee"]["sentence"]
        old_part = f"e^{stated['guarantee']['epsilon']:g}" if old.startswith("e^") else old
        old_part = stated["guarantee"]["privacy_unit"] if old == "one person" else old_part
        assert old_part in said
        stated["guarantee"]["sentence"] = said.replace(old_part, new)

    assert failing(altered(releases, change)) == ["Promise"]


@pytest.mark.parametrize(
    "changed",
    [
        {"sentence": "All rows of a person are protected together."},
        {"not_protected": "Nobody is protected less."},
        {"rule": "choose"},
        {"rule": "a promise"},
        {"rows": 2},
        {"excess_dropped": True},
        {"late": "next"},
        {"checked_by": "an auditor"},
    ],
)
def test_a_bound_of_the_rows_of_a_unit_that_is_not_the_one_in_words_is_found(changed, releases):
    def change(stated):
        promise, before = stated["guarantee"], stated["guarantee"]["contribution"]["sentence"]
        promise["contribution"] |= changed
        promise["sentence"] = promise["sentence"].replace(before, promise["contribution"]["sentence"])

    assert failing(altered(releases, change)) == ["Promise"]


@pytest.mark.parametrize(
    ("mechanism", "wrong"),
    [
        ("exponential", ("concentration", 1.1)),
        ("exponential", ("directions", 3)),
        ("exponential", ("unit", 1)),
        ("exponential", ("body", "box")),
        ("dawa", ("steps", 0, "noise", "discrete Laplace of rate 1/2")),
        ("dawa", ("steps", 1, "noise", "discrete Laplace of rate 2/1")),
        ("dawa", ("steps", 0, "unit", 2**20)),
        ("dawa", ("steps", 0, "sensitivity", 1)),
        ("dawa", ("steps", 0, "noise", "discrete Laplace of rate 1/0")),
        ("dawa", ("steps", 0, "step", "buckets")),
    ],
)
def test_what_is_drawn_with_less_noise_than_is_charged_is_found(mechanism, wrong, releases, tmp_path):
    plan = planned(tmp_path, mechanism)
    assert failing(altered(releases, together(promised_by(plan), impossible("mechanism", *wrong)))) == ["Noise", "Unit"]


LAWS = ["2 levels of width 2048", "discrete Laplace of rate 1/9", "K-norm of rate 1/9, largest of 3 entries, version 1"]


@pytest.mark.parametrize("law", LAWS)
def test_a_loss_of_a_kind_that_the_law_of_the_noise_does_not_have_is_found(law, releases):
    """Gaussian noise as large as the sensitivity has no pure epsilon of one, and Laplace noise no mu of one."""

    def change(stated):
        loss = {"mu": 0.0, "epsilon": 1.0} if law.endswith("2048") else {"mu": 1.0, "epsilon": 0.0}
        loss["total_variation"] = 0.0
        stated["mechanism"] |= {"sensitivity": 99.0, "scale": 99.0, "grid": law, "loss": loss}
        sentence = stated["guarantee"]["sentence"].replace(f"e^{stated['guarantee']['epsilon']:g}", "e^5")
        stated["guarantee"] |= {"epsilon": 5.0, "loss": loss, "sentence": sentence}

    # Noise by the largest entry of a row is of no covariance, either.
    further = ["Sensitivity"] * law.startswith("K-norm")
    assert failing(altered(releases, change)) == ["Noise", *further, "Unit"]


def test_noise_of_a_law_that_is_not_known_is_not_called_checked(releases):
    found = altered(releases, impossible("mechanism", "grid", "noise of another kind"))
    assert {finding.what: finding.holds for finding in found.findings}["Noise"] is None


@pytest.mark.parametrize("part", ["total_variation", "failure"])
def test_a_part_of_the_mechanism_s_loss_that_the_promise_leaves_out_is_found(part, releases):
    def change(stated):
        stated["guarantee"]["loss"] = dict(stated["guarantee"]["loss"], **{part: 0.0})
        stated["mechanism"]["loss"] = dict(stated["mechanism"]["loss"], **{part: 1e-7})

    assert failing(altered(releases, change)) == ["Unit"]


def test_a_changed_number_a_swapped_pointer_and_another_name_are_found(releases):
    folder = next(releases.glob("*.zarr"))
    renamed = folder.rename(folder.with_name("2026-11-20-0123456789abcdef.zarr"))
    assert failing(verify(renamed)) == ["Content"]
    assert failing(verify(releases / "2026-11-20.json")) == ["Content"]
    chunk = next(path for path in sorted((renamed / "covariance").rglob("*")) if path.is_file() and "c" in path.parts)
    content = bytearray(chunk.read_bytes())
    content[-1] ^= 1
    chunk.write_bytes(bytes(content))
    assert failing(verify(renamed)) == ["Content"]


def relabelled(group):
    """Swap the names of both axes of a matrix."""
    said = json.loads((group / "covariance" / "zarr.json").read_text())
    said["dimension_names"] = said["dimension_names"][::-1]
    (group / "covariance" / "zarr.json").write_text(json.dumps(said))


def annotated(group):
    """Give an array an attribute."""
    said = json.loads((group / "covariance" / "zarr.json").read_text())
    said["attributes"]["note"] = "exact"
    (group / "covariance" / "zarr.json").write_text(json.dumps(said))


def scaled(group):
    """Let readers who follow the conventions for packed values multiply an array."""
    zarr.open_array(group / "mean", mode="r+").attrs["scale_factor"] = 1000.0


def promising(group):
    """State another promise."""
    said = json.loads((group / "zarr.json").read_text())
    said["attributes"]["guarantee"]["sentence"] = "No one can learn anything."
    (group / "zarr.json").write_text(json.dumps(said))


@pytest.mark.parametrize("change", [relabelled, annotated, scaled, promising])
def test_whatever_a_reader_is_told_of_the_numbers_is_in_the_digest(change, releases):
    change(next(releases.glob("*.zarr")))
    for place in releases_at(releases):
        assert failing(verify(place)) == ["Content"]


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said["guarantee"].update(epsilon=0.01),
        lambda said: said["ledger"].update(sequence=7),
        lambda said: said.update(title="Exact covariance"),
        lambda said: said.update(release_id="people/other/2026-11-20"),
        lambda said: said.update(note="exact"),
        lambda said: said.update(guarantee=None),
    ],
)
def test_a_pointer_says_of_its_release_what_the_release_states(change, releases):
    (pointer,) = releases_at(releases)
    said = json.loads(pointer.read_text())
    change(said)
    pointer.write_text(json.dumps(said))
    assert failing(verify(pointer)) == ["Content"]
    with pytest.raises(StoreError, match=r"states|says"):
        blockveil.open(pointer)


def of_another_night(releases, night):
    """The same release under another date: pointer and folder renamed."""
    (pointer,) = releases.glob("*.json")
    folder = next(releases.glob("*.zarr"))
    folder.rename(folder.with_name(folder.name.replace("2026-11-20", night)))
    pointer.write_text(pointer.read_text().replace(folder.name, folder.name.replace("2026-11-20", night)))
    return pointer.rename(pointer.with_name(f"{night}.json"))


def test_a_copy_under_another_date_is_found_and_not_opened(releases):
    pointer = of_another_night(releases, "2026-11-21")
    for place in (pointer, next(releases.glob("*.zarr"))):
        assert failing(verify(place)) == ["Place"]
        with pytest.raises(StoreError, match="holds people/covariance/2026-11-20"):
            blockveil.open(place)
    with pytest.raises(StoreError, match="holds people/covariance/2026-11-20"):
        blockveil.open(releases)


@pytest.mark.parametrize("elsewhere", ["people/other", "others/covariance"])
def test_a_copy_below_another_data_set_or_name_is_found(elsewhere, releases, tmp_path):
    root = tmp_path / "root"
    shutil.copytree(releases, root / elsewhere)
    (pointer,) = releases_at(root)
    assert failing(verify(pointer, root=root)) == ["Place"]
    with pytest.raises(StoreError, match="holds people/covariance/2026-11-20"):
        blockveil.open(f"{elsewhere}/2026-11-20", root=root)
    assert failing(verify(pointer)) == []  # somebody who names a copy of one release may call its folder as they like
    shutil.copytree(releases, root / "people" / "covariance")
    assert failing(verify(root / "people" / "covariance" / "2026-11-20.json", root=root)) == []


def test_a_folder_without_a_release_is_refused(tmp_path):
    with pytest.raises(StoreError, match="holds no release"):
        releases_at(tmp_path)


def test_the_command_says_what_holds_and_fails_where_something_does_not(releases):
    runner = CliRunner()
    done = runner.invoke(app, ["verify", str(releases)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "Not checked" in done.stdout
    altered(releases, lambda stated: stated["guarantee"].update(epsilon=0.5))
    with pytest.raises(StoreError, match="does not verify"):
        runner.invoke(app, ["verify", str(releases)], catch_exceptions=False)


@pytest.mark.parametrize("mu", [0.01, 0.2367, 1.0, 4.0, 12.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 5.0, 12.0])
def test_two_other_arithmetics_agree_on_a_delta(mu, epsilon):
    found = delta_of(mu, 0.0, 0.0, epsilon)
    with mpmath.workdps(120):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        wanted = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        # No delta is stated below 1e-308, and what lies beyond 60 deviations is called zero.
        assert wanted < mpmath.mpf(10) ** -700 or abs(mpmath.mpf(str(found)) / wanted - 1) < mpmath.mpf(10) ** -25
    assert float(found) <= gaussian_delta(mu, epsilon)


@pytest.mark.parametrize(
    ("mu", "pure", "words"),
    [
        (0.2, 0.0, "a loss of mu 0.2 has delta "),
        (0.0, 0.5, "a loss of a pure epsilon of 0.5 has delta "),
        (0.2, 0.5, "a loss of mu 0.2 and a pure epsilon of 0.5 has delta "),
    ],
)
def test_a_loss_is_named_by_the_parts_that_it_has(releases, mu, pure, words):
    found = altered(releases, lambda stated: stated["guarantee"]["loss"].update(mu=mu, epsilon=pure))
    (promise,) = (finding for finding in found.findings if finding.what == "Promise")
    assert promise.words.startswith(words)


def test_pure_parts_and_distances_of_samplers_count():
    assert delta_of(0.0, 0.5, 0.0, 0.5) == 0
    assert delta_of(0.0, 0.5, 0.0, 0.49) == 1
    assert float(delta_of(0.0, 0.5, 1e-9, 0.5)) == pytest.approx(2.6487212707e-9)
    assert float(delta_of(0.3, 0.25, 0.0, 1.0)) == pytest.approx(float(delta_of(0.3, 0.0, 0.0, 0.75)), rel=1e-15)


def test_the_room_shares_no_arithmetic_with_what_made_a_release():
    pipeline = Path(__file__).parents[3] / "pipeline"
    of_kinds = sorted(pipeline.glob("kinds/*/release_checks.py"))
    assert {path.parent.name for path in of_kinds} == set(FOLDERS.values())
    for path in [*pipeline.glob("verification/*.py"), *of_kinds]:
        assert "blockveil.engine" not in path.read_text(), path
    for path in of_kinds:  # other parts of a kind ask the engine
        imports = re.findall(r"^\s*(?:from|import) (blockveil\S*)", path.read_text(), re.MULTILINE)
        assert all(re.search(r"\.pipeline\.verification\b|\.release_checks$", each) for each in imports), path


def test_the_sentence_of_a_part_of_the_records_holds(tmp_path):
    loaded = parts.TestRelease()._of_bays(tmp_path)
    Ledger(loaded.ledger_url).set_budget("people", 3.0, 1e-9, Neighbours.ADD_REMOVE, parts.UNIT)
    parts.keep(tmp_path, 7, "bay", kind="whole")
    outcome = parts.release(loaded, parts.DATES[0])
    (found,) = [each for each in verify(outcome.path).findings if each.what == "Promise"]
    assert found.holds is True
    place = forged(outcome.path, lambda stated: stated["part"].update(equals="8"))
    assert "Promise" in failing(verify(place))
    place = forged(place, lambda stated: stated["part"].update(equals="7"))
    assert "Promise" not in failing(verify(place))
    more = {"sentence": f"{stated_promise(place)} In truth it is e^0.01."}
    assert "Promise" in failing(verify(forged(place, lambda stated: stated["guarantee"].update(more))))


def stated_promise(place):
    return json.loads((place / "zarr.json").read_text())["attributes"]["guarantee"]["sentence"]
