"""Releases that share one guarantee keep it together, exactly, and state what each keeps alone."""

from datetime import date

import pytest

from blockveil.engine.guarantees.calibration import gaussian_delta, gaussian_mu
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import load_config
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.splitting import split
from tests.house import support

NIGHT = date(2026, 11, 20)


def config(folder, name, share, **changed):
    """Config of a release of some share."""
    path = support.write_config(folder)
    text = path.read_text().replace('name = "covariance"', f'name = "{name}"', 1)
    text = text.replace("delta = 1e-6", f"delta = 1e-6\nshare = {share}" if share is not None else "delta = 1e-6")
    for old, new in changed.values():
        assert old in text
        text = text.replace(old, new)
    target = folder / f"{name}.toml"
    target.write_text(text)
    return make_plan(load_config(target), NIGHT)


def test_shares_add_up_to_exactly_the_guarantee(tmp_path):
    plans = [config(tmp_path, "first", 0.5), config(tmp_path, "second", 0.3), config(tmp_path, "third", 0.2)]
    found = split(plans)
    mu = gaussian_mu(1.0, 1e-6)
    total = sum(plan.charge.mu**2 for plan in plans) ** 0.5
    assert mu * (1 - 1e-6) < total <= mu
    assert found.together.delta(1.0) <= 1e-6
    for plan, share in zip(plans, (0.5, 0.3, 0.2), strict=True):
        assert plan.charge.mu == pytest.approx(mu * share**0.5, rel=1e-6)
        assert plan.guarantee.epsilon < 1.0
        assert gaussian_delta(plan.charge.mu, plan.guarantee.epsilon) <= 1e-6
        assert plan.public["privacy"]["share"] == share


def test_a_whole_share_is_the_whole_release(tmp_path):
    whole, one = config(tmp_path, "whole", None), config(tmp_path, "one", 1.0)
    assert one.charge.mu == pytest.approx(whole.charge.mu, rel=1e-8)
    assert "share" not in whole.public["privacy"]


@pytest.mark.parametrize(
    "changed",
    [
        {"a": ("epsilon = 1.0", "epsilon = 2.0")},
        {"a": ('neighbours = "add-remove"', 'neighbours = "replace-one"')},
        {"a": ('unit = "one person (one row)"', 'unit = "one household"')},
        {"a": ('dataset = "people"', 'dataset = "others"')},
    ],
)
def test_releases_that_do_not_state_the_same_guarantee_are_not_split(tmp_path, changed):
    with pytest.raises(ConfigError, match="differ in"):
        split([config(tmp_path, "first", 0.5), config(tmp_path, "second", 0.5, **changed)])


def test_shares_beyond_one_are_refused_and_a_missing_one_counts_as_all(tmp_path):
    with pytest.raises(ConfigError, match=r"add up to 1\.1"):
        split([config(tmp_path, "first", 0.5), config(tmp_path, "second", 0.6)])
    with pytest.raises(ConfigError, match=r"add up to 1\.5"):
        split([config(tmp_path, "first", 0.5), config(tmp_path, "second", None)])


def test_the_same_release_twice_is_refused(tmp_path):
    plan = config(tmp_path, "first", 0.5)
    with pytest.raises(ConfigError, match="same release name"):
        split([plan, plan])


def test_pure_losses_have_no_share(tmp_path):
    laplace = {
        "mechanism": (
            'kind = "shaped-gaussian"\noptimise_for = "relative-error"',
            'kind = "laplace"\noptimise_for = "relative-error"',
        )
    }
    with pytest.raises(ConfigError, match="mu squared"):
        config(tmp_path, "first", 0.5, **laplace)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, "nan", '"half"', 1e-300])
def test_shares_that_mean_nothing_are_refused(tmp_path, share):
    with pytest.raises(ConfigError):
        config(tmp_path, "first", share)
