"""The page of the papers shows what the benchmark prints, and the order of the ways that it speaks of holds."""

import hashlib
import re
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks.papers import claims as claimed
from benchmarks.papers import data, mvg
from benchmarks.papers.outcomes import sketched
from benchmarks.papers.releases import CONFIGS
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text()


def row(first, text=PAGE):
    """Cells of the line of a table that begins so."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {first} |")]
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


@cache
def claims():
    return claimed.claims()


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
    for way, (private, error) in claimed.counts_of_a_city().items():
        assert row(way) == [private, f"{error:.3g}"]


def test_the_data_are_those_that_their_page_describes():
    read_me = (data.SHIPPED / "README.md").read_text()
    for name, digest in data.DIGESTS.items():
        assert f"- `{name}`: `{digest}`" in read_me
        assert hashlib.sha256((data.SHIPPED / name).read_bytes()).hexdigest() == digest
        assert data.shipped(name).exists()


def test_a_shipped_file_that_was_changed_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "SHIPPED", tmp_path)
    (tmp_path / "liver.csv").write_text("mcv\n1\n")
    with pytest.raises(data.Absent, match="take it from the project again"):
        data.shipped("liver.csv")


def test_the_city_has_the_cells_and_pickups_of_the_paper():
    assert (int((data.city() > 0).sum()), int(data.city().sum())) == (300, 3829)


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_config_of_an_experiment_can_be_planned_and_is_listed(path):
    plan = make_plan(load_config(path), date(2026, 11, 20))
    assert plan.charge.delta(plan.guarantee.epsilon) <= plan.guarantee.delta
    assert f"`{path.stem}`" in PAGE


def test_a_missing_file_is_a_line_and_no_failure(tmp_path):
    for found, name in (
        (data.movement, "MovementAAL_RSS_1.csv"),
        (data.fetal_hearts, "CTG.xls"),
        (data.swarm, "Flock"),
    ):
        with pytest.raises(data.Absent, match=rf"{name}.* was not looked for: give a folder"):
            found(None)
        with pytest.raises(data.Absent, match=rf"{name}.* is not below"):
            found(tmp_path)
    assert "(MovementAAL_RSS_1.csv is not below" in mvg.first_component(1, tmp_path).records


def test_files_of_another_publisher_are_found_anywhere_below_the_folder_by_name(tmp_path):
    rng, folder = np.random.default_rng(3), tmp_path / "movement" / "dataset"
    folder.mkdir(parents=True)
    for number in range(1, 315):
        text = "\n".join(",".join(f"{value:.6g}" for value in line) for line in rng.uniform(-1, 1, (33, 4)))
        (folder / f"MovementAAL_RSS_{number}.csv").write_text(
            f"#RSS_anchor1, RSS_anchor2,RSS_anchor3,RSS_anchor4\n{text}"
        )
    found = data.movement(tmp_path)
    assert found.values.shape == (10_176, 4)
    assert re.search(r"SHA-256 [0-9a-f]{16}", found.note)
    (folder / "MovementAAL_RSS_7.csv").unlink()
    with pytest.raises(data.Absent, match=r"MovementAAL_RSS_7\.csv is not beside"):
        data.movement(tmp_path)


def test_another_file_in_place_of_one_with_a_published_digest_is_refused(tmp_path):
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"something else")
    with pytest.raises(data.Absent, match="and not the published f68b3c2d"):
        data.mnist(tmp_path)


def test_a_sketch_gives_the_second_moment_on_average():
    records = np.array([[1.0, 2.0], [0.0, 1.0], [3.0, -1.0]])
    mean = np.mean([sketched(records, 2.0, 50, trial) for trial in range(2000)], axis=0)
    truth = records.T @ records
    # The variance of an entry is (S_ii S_jj + S_ij^2) / 50 with S the truth and four on the diagonal; 6.2 deviations.
    regularised = truth + 4.0 * np.eye(2)
    variance = (np.outer(np.diag(regularised), np.diag(regularised)) + regularised**2) / 50.0
    room = 6.2 * np.sqrt(variance / 2000.0)
    assert np.all(np.abs(mean - truth) <= room)
    assert np.any(np.abs(mean - 1.05 * regularised + 4.0 * np.eye(2)) > room)


@pytest.mark.slow
def test_the_experiments_have_the_order_of_the_page():
    """Over fewer trials than the page's, within what chance allows."""
    regression, first, all_ = mvg.regression(12), mvg.first_component(12, None), mvg.all_components(12, None)
    nothing = regression.result("no information").mean
    assert regression.result("records, mvg binary").mean > nothing
    assert regression.result("records, gaussian").mean > 1.1 * nothing
    best = [each.result(name).mean for each, name in zip((regression, first, all_), BEST, strict=True)]
    assert best[1] < 1e-3 * first.result("mvg, Theorem 3").mean
    assert best[2] < 1e-2 * all_.result("records, gaussian").mean
    parts = [part.split("\n## ")[0] for part in PAGE.split("\n### MVG")[1:]]
    shown = [float(row(name, part)[1].split(" ")[0]) for name, part in zip(BEST, parts, strict=True)]
    assert shown == pytest.approx(best, rel=0.5)


BEST = ("covariance, auto", "second moment, auto", "second moment, auto")
