"""Bits of quantised records: as declared, or few where sums are faster with them and the noise hides their rounding."""

from datetime import date

import numpy as np
import pytest
import zarr

from blockveil.engine.records.dither import Dither
from blockveil.engine.records.fine_dither import FineDither
from blockveil.pipeline.plan import summary
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import shipped, support
from tests.house.eight_bit_products import ProductByNumPy, use
from tests.pipeline.plan.test_planning import BALL, plan

TINY = ("delta = 1e-6", "delta = 1e-12")
FEW = ('missing = "refuse"', 'missing = "refuse"\nquantisation_bits = 8')


@pytest.mark.parametrize("kind", ["covariance", "second-moment"])
def test_few_bits_are_multiplied_in_single_precision_and_the_plan_says_what_rounding_costs(tmp_path, kind):
    made = plan(tmp_path, FEW, kind=kind)
    assert made.answer.work(1000).single
    said = dict(summary.describe(made, None))
    lead, noise = int(kind == "covariance"), made.design.entry_standard_deviation()
    rows = made.config.query.rows_at_most
    of_sum = np.hypot(np.sqrt((0.25 + 2.0**-12) * rows * 8), rows * 2.0**-12) / 127
    of_product = 2.0 * of_sum + (1.0 / 8 + 4.0 / np.sqrt(rows * 8)) * of_sum**2
    entry = f"{of_product / np.min(noise[lead:, lead:]):.2g} of the standard deviation of the noise of an entry"
    assert said["Rounding"].startswith(
        "to 8 bits, at places that differ between contents: if no more than 8 records are alike, " + entry
    )
    assert ("a sum behind a mean" in said["Rounding"]) == (lead == 1)
    if lead:
        assert f"and {of_sum / np.min(noise[0, 1:]):.2g} of that of a sum behind a mean" in said["Rounding"]
    worst = rows * (2.0 / 127 + 1.0 / 127**2) / np.min(noise[lead:, lead:])
    assert said["Rounding of equal records"].startswith(f"if all records are alike, up to {worst:.2g} of the standard")
    usual = plan(tmp_path, kind=kind)
    assert not usual.answer.work(1000).single
    assert "Rounding" not in dict(summary.describe(usual, None))


def test_in_other_shapes_the_plan_has_the_bound_for_records_that_are_all_alike(tmp_path):
    said = dict(summary.describe(plan(tmp_path, FEW, BALL, kind="second-moment"), None))
    assert "Rounding" not in said
    assert "which no standard error includes" in said["Rounding of equal records"]


@pytest.mark.parametrize(("key", "warned"), [("", True), ("\nduplicates_at_most = 1", False)])
def test_a_warning_names_the_worst_case_until_somebody_says_how_many_records_are_alike(tmp_path, key, warned):
    many = ("rows_at_most = 10_000", "rows_at_most = 20_000_000")
    twelve = (FEW[0], f'missing = "refuse"\nquantisation_bits = 16{key}')
    made = plan(tmp_path, twelve, many, TINY, ("epsilon = 1.0", "epsilon = 8.0"), kind="covariance")
    found = [sentence for sentence in summary.warnings(made) if "rounded" in sentence]
    assert any("all records are alike" in sentence for sentence in found) == warned
    assert "Rounding of equal records" in dict(summary.describe(made, None))


def test_declared_steps_are_rounded_by_nothing_and_have_no_line(tmp_path):
    listed = support.CONFIG[support.CONFIG.index("features = [") : support.CONFIG.index("[privacy]")]
    listed = listed.replace("{{", "{").replace("}}", "}")
    whole = 'features = [{ name = "x", count = 3, lower = 0, upper = 6, step = 1 }]\n\n'
    many = ("rows_at_most = 10_000", "rows_at_most = 20_000_000")
    made = plan(tmp_path, (listed, whole), many, TINY, ("epsilon = 1.0", "epsilon = 8.0"), kind="covariance")
    assert not any("Rounding" in name for name, _ in summary.describe(made, None))
    assert not any("rounded" in sentence for sentence in summary.warnings(made))
    assert np.all(made.question.rounding.deviations() == 0.0)


def test_more_bits_are_taken_where_rounding_would_show(tmp_path):
    found = []
    for rows, epsilon in ((10_000, 1.0), (10**8, 8.0), (10**9, 8.0)):
        many = ("rows_at_most = 10_000", f"rows_at_most = {rows}")
        made = plan(tmp_path, many, TINY, ("epsilon = 1.0", f"epsilon = {epsilon}"), kind="covariance")
        found.append(made.question.problem.largest.bit_length() + 1)
    assert found == [16, 18, 17]


def wide(features, rows, *others):
    """Replacements for a box of many features alike."""
    listed = support.CONFIG[support.CONFIG.index("features = [") : support.CONFIG.index("[privacy]")]
    listed = listed.replace("{{", "{").replace("}}", "}")
    alike = f'features = [{{ name = "x", count = {features}, lower = 0.0, upper = 1.0 }}]\n\n'
    return (listed, alike), TINY, ("rows_at_most = 10_000", f"rows_at_most = {rows}"), *others


@pytest.mark.parametrize(
    ("features", "rows", "bits"),
    [(300, 200_000, 8), (300, 20_000_000, 16), (255, 200_000, 16), (2_000, 10_000_000, 8), (2_000, 10**9, 16)],
)
def test_few_bits_are_chosen_where_they_are_faster_and_negligible_beside_the_noise(tmp_path, features, rows, bits):
    made = plan(tmp_path, *wide(features, rows), kind="covariance")
    assert made.question.problem.largest == 2 ** (bits - 1) - 1
    assert made.answer.work(rows).single == (bits == 8)
    assert isinstance(made.question.query.quantiser.dither, Dither if bits == 8 else FineDither)
    assert made.public["query"]["quantisation_bits"] == bits, "the ledger has the bits that are used"
    assert made.public["calibration"]["rounding"] == f"at {4096 if bits == 8 else 2**20} places by content"


def test_declared_bits_are_left_as_they_are(tmp_path):
    made = plan(tmp_path, *wide(300, 200_000, (FEW[0], FEW[1].replace("8", "16"))), kind="second-moment")
    assert made.question.problem.largest == 2**15 - 1
    assert made.question.query.quantiser.dither is not None


@pytest.mark.parametrize(("rows", "bits"), [(500, 16), (200_000, 20)])
def test_records_that_are_rounded_to_nearest_have_as_many_bits_as_their_largest_error_asks_for(tmp_path, rows, bits):
    norm = ('kind = "box"', 'kind = "box"\nnorm_at_most = 5.0')
    made = plan(tmp_path, *wide(300, rows, norm), kind="second-moment")
    assert made.question.problem.largest == 2 ** (bits - 1) - 1
    assert made.question.query.quantiser.dither is None


@pytest.mark.parametrize("bounds", ["lower = 0.0, upper = 1.0", "lower = -1.0, upper = 3.0"])
@pytest.mark.parametrize("bits", [(), (FEW,)])
def test_whether_records_are_said_to_be_sparse_decides_no_bit(tmp_path, bounds, bits):
    asked = wide(300, 200_000, ("lower = 0.0, upper = 1.0", bounds), *bits)
    sparse = ("block_rows = 50", "block_rows = 50\ndensity_at_most = 0.001")
    dense, told = (plan(tmp_path, *asked, *more, kind="covariance") for more in ((), (sparse,)))
    assert told.question.query.by_entries
    assert not dense.question.query.by_entries
    assert told.public == dense.public
    rounding = [dict(summary.describe(made, None)).get("Rounding") for made in (told, dense)]
    assert rounding[0] == rounding[1]


def test_a_ball_of_many_features_has_the_bits_that_it_needs(tmp_path):
    ball = BALL[1][: BALL[1].index("features")] + "features = [{name='a', count=16129, origin=0}]\n\n"
    made = plan(tmp_path, (BALL[0], ball), kind="second-moment")
    assert made.question.problem.largest == 2**19 - 1


def test_nights_that_share_a_charge_have_the_same_bits_though_their_noise_differs(tmp_path):
    section = ("[cluster]", "[continual]\nnights = 4\nfirst = 2026-11-01\n\n[cluster]")
    found = set()
    for rows in (1_000_000, 3_000_000, 4_000_000, 5_000_000, 6_000_000, 8_000_000, 30_000_000):
        nights = [
            plan(tmp_path, *wide(256, rows, section), kind="second-moment", night=date(2026, 11, 1 + night))
            for night in range(4)
        ]
        found.add(tuple(made.question.problem.largest for made in nights))
    assert found == {(127,) * 4, (32767,) * 4}


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_a_release_is_the_same_whichever_way_its_integers_are_multiplied(tmp_path, bits):
    released = []
    for product in (None, ProductByNumPy()):
        folder = tmp_path / str(product is None)
        folder.mkdir()
        use(product, halves=True)
        try:
            with shipped.pinned_key():
                made = plan(folder, (FEW[0], FEW[1].replace("8", str(bits))), kind="covariance")
                support.write_records(folder, support.records())
                support.set_budget(made.loaded)
                outcome = run_release(made, ThreadCompute(2), "ways", lambda *_: None)
        finally:
            use(None)
        arrays = {name: array[...] for name, array in zarr.open_group(outcome.path, mode="r").arrays()}
        released.append({name: values.tobytes() for name, values in arrays.items()})
    assert released[0].keys() >= {"covariance"}
    assert released[0] == released[1]
