"""Directions of noise in a config: from a file or a paid-for release, pinned, with honest errors, in any blocks."""

import tomllib
from datetime import date

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.flows.cli import app
from blockveil.pipeline.base.errors import ConfigError, StoreError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.public import noise_directions, shaping
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support
from tests.house.forged import forged

NIGHT, NEXT = date(2026, 11, 20), date(2026, 11, 21)
BASIS = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
MVG = 'kind = "{kind}"\n{more}directions = "w.npy"\ndirections_source = "people/covariance/2026-11-20"\n'
SHARES = "allocation = { kind = 'shares', shares = { direction1 = 0.6, direction2 = 0.3, direction3 = 0.1 } }\n"
UNIFORM = "allocation = { kind = 'uniform' }\n"
PUBLISHED = "theorem = 2\nzeta = 'square-root'\n"
BALL = "kind = 'ball'\nradius = 2e5\n" + "".join(
    ["features = [", *(f"{{ name = '{name}', origin = 0 }}, " for name in support.FEATURES), "]\n"]
)


def mechanism(kind="mvg-exact", allocation=SHARES):
    return MVG.format(kind=kind, more=(PUBLISHED if kind == "mvg" else "") + allocation)


def rewrite(folder, *, noise=None, kind=None, geometry=None, block_rows=50):
    path = folder / "people.toml"
    text = path.read_text().replace("block_rows = 50", f"block_rows = {block_rows}")
    for section, end, new in (("[mechanism]", "[compute]", noise), ("[query.geometry]", "[privacy]", geometry)):
        if new is not None:
            first, last = text.index(section), text.index(end)
            text = f"{text[:first]}{section}\n{new}\n{text[last:]}"
    if kind is not None:
        text = text.replace('kind = "covariance"', f'kind = "{kind}"')
    path.write_text(text)
    return load_config(path)


def prepare(folder, *, basis=BASIS, noise=None, kind="second-moment", geometry=None, **config):
    support.prepare(folder, **{"epsilon": 20.0, "budget": 60.0, **config})
    np.save(folder / "w.npy", basis)
    return rewrite(folder, noise=mechanism() if noise is None else noise, kind=kind, geometry=geometry)


def run(loaded, night=NIGHT):
    return run_release(make_plan(loaded, night), ThreadCompute(2), "test", lambda *_: None)


@pytest.mark.parametrize("geometry", [None, BALL])
@pytest.mark.parametrize("kind", ["second-moment", "rows"])
def test_a_release_along_directions_is_near_the_truth_by_its_own_errors(tmp_path, kind, geometry):
    noise = mechanism() if geometry is None else mechanism("mvg")
    loaded = prepare(tmp_path, kind=kind, neighbours="replace-one", noise=noise, geometry=geometry)
    plan = make_plan(loaded, NIGHT)
    found = zarr.open_group(run(loaded).path, mode="r")
    values, name = support.records(), plan.answer.matrix
    box = (np.array([0.0, 0.0, -5e5]), np.array([120.0, 1e6, 5e5]))
    origin = (box[0] + box[1]) / 2 if geometry is None else np.zeros(3)
    inside = np.clip(values, *box) - origin
    if geometry is not None:
        inside /= np.maximum(np.linalg.norm(inside, axis=1) / 2e5, 1.0)[:, None]
    truth = inside.T @ inside if kind == "second-moment" else inside + origin
    ratio = (found[name][...] - truth) / found[f"{name}_standard_deviation"][...]
    assert np.max(np.abs(ratio)) < 7  # seven standard deviations
    if kind == "rows":
        assert np.all(np.abs(np.std(ratio, axis=0) - 1) < 6 / np.sqrt(2 * len(ratio)) + 0.01)
    assert "half width" in plan.answer.error_sentence()


def test_the_stated_deviations_are_those_of_the_noise_and_a_wrong_scale_is_seen(tmp_path):
    plan = make_plan(prepare(tmp_path), NIGHT)
    design, coordinates = plan.design, plan.question.query.quantiser.coordinates
    rng, size = np.random.default_rng(5), design.entry_standard_deviation()
    noise = rng.standard_normal((40_000, 3, 3)) * size
    noise = np.triu(noise) + np.triu(noise, 1).transpose(0, 2, 1)
    raw = coordinates.to_raw() @ noise @ coordinates.to_raw().T
    stated = plan.answer.arrays(np.zeros((3, 3), dtype=np.int64), 400)["second_moment_standard_deviation"][0]
    # 40,000 draws: the standard error of a deviation is 0.35 %, six of them 2.1 %, alpha 2e-9 an entry.
    off = np.abs(raw.std(axis=0) / stated - 1)
    assert np.max(off) < 0.0215
    assert np.min(np.abs(raw.std(axis=0) / (1.05 * stated) - 1)) > 0.0215


def test_blocks_do_not_change_a_bit_and_the_plan_pins_the_file(tmp_path):
    loaded = prepare(tmp_path)
    plan = make_plan(loaded, NIGHT)
    first = run(loaded)
    again = run(rewrite(tmp_path, block_rows=7))
    assert again.output_digest == first.output_digest
    assert Ledger(loaded.ledger_url).budget("people").charges == 1
    stated = plan.public["mechanism"]
    assert stated["directions"] == "matrix"
    assert stated["directions_source"] == "people/covariance/2026-11-20"
    assert len(stated["directions_sha256"]) == 64
    assert "2**33" in plan.public["calibration"]["directions"]
    assert not plan.public["calibration"]["sensitivity_exact"]
    np.save(tmp_path / "w.npy", -BASIS)
    with pytest.raises(ConfigError, match="changed while"):
        make_plan(loaded, NIGHT)
    assert make_plan(load_config(loaded.path), NIGHT).digest != plan.digest


def test_directions_of_a_release_cost_nothing_and_are_declared_by_the_next_one(tmp_path):
    loaded = support.prepare(tmp_path, epsilon=20.0, budget=60.0)
    first = run(loaded)
    shown = CliRunner().invoke(app, ["public", "directions", str(first.path), "--output", str(tmp_path / "w.npy")])
    assert shown.exit_code == 0, shown.exception
    line = next(line for line in shown.stdout.splitlines() if line.startswith("Mechanism"))
    declared = tomllib.loads(line.partition("  ")[2].replace(", ", "\n"))
    assert declared == {"directions": "w.npy", "directions_source": "people/covariance/2026-11-20"}
    found = zarr.open_group(first.path, mode="r")["covariance"][...]
    (tmp_path / "there.npz").touch()
    for option, name in (("--output", "l.npy"), ("--picture", "l.png"), ("--output", "there.npz")):
        words = ["public", "eigenpairs", str(tmp_path / "not read"), option, str(tmp_path / name)]
        refused = CliRunner().invoke(app, words)
        assert isinstance(refused.exception, ConfigError)
        assert str(refused.exception).startswith(f'{option} "{name}"')
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise_directions, "_MOST", 2)
        with pytest.raises(ConfigError, match="blockveil public eigenpairs gives"):
            noise_directions.principal_directions(first.path)
    half = np.array([60.0, 5e5, 5e5])
    _, vectors = np.linalg.eigh(found / np.outer(half, half))
    matrix = np.load(tmp_path / "w.npy")
    assert np.abs(np.sum(matrix * vectors[:, ::-1], axis=0)) == pytest.approx(np.ones(3))
    assert np.all(matrix[np.argmax(np.abs(matrix), axis=0), range(3)] > 0)
    again = run(rewrite(tmp_path, noise=mechanism(), kind="second-moment"), NEXT)
    assert again.release_id.endswith("2026-11-21")
    assert Ledger(loaded.ledger_url).budget("people").charges == 2


@pytest.mark.parametrize("geometry", [None, BALL])
def test_released_rows_give_their_singular_vectors_in_units_of_their_shape(tmp_path, geometry):
    noise = 'kind = "shaped-gaussian"\noptimise_for = "relative-error"'
    values = support.records(6000)
    settings = {"epsilon": 30.0, "neighbours": "replace-one", "values": values}
    outcome = run(prepare(tmp_path, kind="rows", noise=noise, geometry=geometry, **settings))
    found = noise_directions.principal_directions(outcome.path)
    scaled = values - [60.0, 5e5, 0.0]
    if geometry is None:
        scaled = np.clip(scaled / [60.0, 5e5, 5e5], -1, 1)
    else:
        scaled = values / 2e5
        scaled /= np.maximum(np.linalg.norm(scaled, axis=1), 1.0)[:, None]
    leading = np.linalg.svd(scaled)[2][0]
    assert abs(found.matrix[:, 0] @ leading) > 0.97  # about 0.998; six standard errors away
    assert found.strength[0] == pytest.approx(np.mean((scaled @ leading) ** 2), rel=0.2)
    assert found.matrix.T @ found.matrix == pytest.approx(np.eye(3))


def test_what_gives_no_directions_is_refused_in_words(tmp_path):
    outcome = run(support.prepare(tmp_path, epsilon=20.0, budget=60.0))
    found = noise_directions.principal_directions(outcome.path)
    with pytest.raises(ConfigError, match=r"no \.npy name"):
        shaping.save_matrix(found.matrix, tmp_path / "w.txt")
    shaping.save_matrix(found.matrix, tmp_path / "w.npy")
    with pytest.raises(StoreError, match="exists"):
        shaping.save_matrix(found.matrix, tmp_path / "w.npy")
    with pytest.raises(StoreError):
        noise_directions.principal_directions(tmp_path / "nothing")
    other = forged(outcome.path, lambda stated: stated.update(matrix="mean"))
    with pytest.raises(ConfigError, match="rows or published directions"):
        noise_directions.principal_directions(other)


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        (mechanism().replace('directions = "w.npy"\n', ""), "given without directions"),
        (mechanism().partition("directions_source")[0], "directions_source"),
        (mechanism().replace("w.npy", "v.npy"), "cannot be read"),
        (mechanism().replace("w.npy", "w.txt"), "directions"),
        (mechanism() + f'directions_sha256 = "{"0" * 64}"', "differs from its directions_sha256"),
        (mechanism().replace("direction3", "debt"), "direction1, direction2"),
        (mechanism(allocation="allocation = { kind = 'binary', important = ['age'], share = 0.5 }\n"), "direction1"),
    ],
)
def test_a_config_with_directions_that_cannot_be_used_says_why(tmp_path, noise, expected):
    with pytest.raises(ConfigError) as refused:
        prepare(tmp_path, noise=noise)
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("basis", "kind", "allocation", "expected"),
    [
        (np.eye(2), "second-moment", SHARES, "3 x 3"),
        (np.eye(3) * 1.01, "second-moment", SHARES, "orthonormal"),
        (np.full((3, 3), np.nan), "second-moment", SHARES, "finite"),
        (BASIS, "covariance", SHARES, "second-moment"),
        (BASIS, "second-moment", SHARES.replace("0.1", "0.0"), "direction3"),
    ],
)
def test_directions_that_fit_no_proof_are_refused_before_anything_is_spent(tmp_path, basis, kind, allocation, expected):
    with pytest.raises(ConfigError) as refused:
        run(prepare(tmp_path, basis=basis, kind=kind, noise=mechanism(allocation=allocation)))
    assert expected in str(refused.value)
    assert not (tmp_path / "releases").exists()


def test_published_directions_are_completed_to_a_basis_for_the_noise_of_later_releases(tmp_path):
    support.write_records(tmp_path, support.records(4000))
    path = support.write_config(tmp_path, kind="principal-directions", epsilon=20.0)
    path.write_text(path.read_text().replace("rows_at_most", "directions = 2\nrows_at_most"))
    loaded = rewrite(tmp_path, noise='kind = "exponential"', geometry=BALL)
    Ledger(loaded.ledger_url).set_budget("people", 60.0, 1e-5, Neighbours.ADD_REMOVE, support.UNIT, reserve=20.0)
    outcome = run(loaded)
    found = noise_directions.principal_directions(outcome.path)
    drawn = zarr.open_group(outcome.path, mode="r")["directions"][...]
    assert found.matrix.T @ found.matrix == pytest.approx(np.eye(3), abs=1e-12)
    assert np.abs(np.sum(found.matrix[:, :2] * drawn, axis=0)) == pytest.approx(np.ones(2))
    assert found.strength.tolist() == [1.0, 1.0, 0.0]
    shaping.save_matrix(found.matrix, tmp_path / "w.npy")
    path.write_text(path.read_text().replace("directions = 2\n", "").replace("principal-directions", "second-moment"))
    assert run(rewrite(tmp_path, noise=mechanism("mvg")), NEXT).release_id.endswith("2026-11-21")
