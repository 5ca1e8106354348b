"""The page of the papers shows what the benchmark prints, and the order of the ways that it speaks of holds."""

import hashlib
import re
from functools import cache
from pathlib import Path

import pytest

from benchmarks import papers

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text()


def row(first):
    """Cells of the line of a table that begins so."""
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


@cache
def claims():
    return papers.claims()


def test_every_claim_is_shown_with_its_true_delta_and_its_noise():
    for claim in claims():
        epsilon, delta, true_delta, excess = row(claim.name)
        assert (float(epsilon), float(delta)) == pytest.approx((claim.claimed.epsilon, claim.claimed.delta), rel=5e-3)
        if true_delta == "below 1e-300":
            assert claim.true_delta < 1e-300
        else:
            assert float(true_delta) == pytest.approx(claim.true_delta, rel=5e-3)
        assert float(excess) == pytest.approx(claim.excess, rel=6e-3)


def test_a_claim_has_less_noise_than_the_exact_mechanism_only_where_it_is_false():
    for claim in claims():
        false = claim.true_delta > 2.0 * claim.claimed.delta
        assert false == claim.name.startswith("R1SMG")
        assert (claim.excess < 1.0 - 1e-9) == false


def test_the_counts_of_a_city_are_those_of_the_page():
    for way, (private, error) in papers.counts_of_a_city().items():
        assert row(way) == [private, f"{error:.3g}"]


def test_the_data_are_those_that_their_page_describes():
    read_me = (papers.LIVER.parent / "README.md").read_text()
    assert re.search(r"SHA-256: `(\w+)`", read_me)[1] == hashlib.sha256(papers.LIVER.read_bytes()).hexdigest()


@pytest.mark.slow
def test_the_experiments_have_the_order_of_the_page():
    """Over fewer trials than the page's, within what chance allows."""
    found = papers.experiments(12)
    regression, first, all_ = (found[name] for name in found)
    assert regression["own query, as published"].mean > regression["no information"].mean
    assert regression["own query, exact"].mean > 1.1 * regression["no information"].mean
    assert first["best here"].mean < 1e-3 * first["as published, Theorem 3"].mean
    assert all_["best here"].mean < 1e-2 * all_["own query, exact"].mean
    text = PAGE.split("## MVG, experiments I to III")[1]
    shown = re.findall(r"\| best here \| (\S+) \(", text)
    assert [float(value) for value in shown] == pytest.approx(
        [each["best here"].mean for each in (regression, first, all_)], rel=0.5
    )
