"""A file of events: what is read, what is refused."""

import re
from pathlib import Path

import pytest

from blockveil.engine.guarantees.events import FixedSizeGaussian, GaussianMixture, PoissonGaussian, Step
from blockveil.engine.guarantees.guarantee import ZCDP, ApproxDP, GaussianDP, Neighbours, PureDP
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.budget.event_files import plain, read_events

HEAD = 'neighbours = "add-remove"\nunit = "one person"\n'
ALL = """
[[event]]
kind = "gaussian"
mu = 0.2
[[event]]
kind = "pure"
epsilon = 0.1
count = 3
[[event]]
kind = "approximate"
epsilon = 0.1
delta = 1e-9
[[event]]
kind = "zcdp"
rho = 0.01
[[event]]
kind = "poisson-gaussian"
probability = 0.01
noise_multiplier = 1.0
count = 1000
[[event]]
kind = "gaussian-mixture"
standard_deviation = 2.0
sensitivities = [0.0, 1.0]
probabilities = [0.5, 0.5]
"""


def write(folder, text):
    path = folder / "events.toml"
    path.write_text(text)
    return path


def test_every_kind_is_read_and_written_back(tmp_path):
    found = read_events(write(tmp_path, HEAD + ALL))
    assert (found.neighbours, found.unit) == (Neighbours.ADD_REMOVE, "one person")
    assert found.series == (
        Step(GaussianDP(0.2)),
        Step(PureDP(0.1), 3),
        Step(ApproxDP(0.1, 1e-9)),
        Step(ZCDP(0.01)),
        Step(PoissonGaussian(0.01, 1.0), 1000),
        Step(GaussianMixture(2.0, (0.0, 1.0), (0.5, 0.5))),
    )
    shown = plain(found.series)
    assert shown[4] == {"kind": "poisson-gaussian", "probability": 0.01, "noise_multiplier": 1.0, "count": 1000}
    batch = HEAD.replace("add-remove", "replace-one")
    batch += '[[event]]\nkind = "fixed-size-gaussian"\nfraction = 0.1\nnoise_multiplier = 2.0\n'
    assert read_events(write(tmp_path, batch)).series == (Step(FixedSizeGaussian(0.1, 2.0)),)


@pytest.mark.parametrize(
    "text",
    [
        "",
        HEAD,
        HEAD + "event = []",
        HEAD.replace("add-remove", "none") + ALL,
        HEAD.replace("add-remove", "replace-one") + ALL,  # Poisson sampling has no known loss there
        HEAD + '[[event]]\nkind = "gaussian"\nmu = 0\n',
        HEAD + '[[event]]\nkind = "gaussian"\nmu = nan\n',
        HEAD + '[[event]]\nkind = "gaussian"\nmu = 0.1\ncount = 0\n',
        HEAD + '[[event]]\nkind = "gaussian"\nmu = 0.1\nextra = 1\n',
        HEAD + '[[event]]\nkind = "laplace"\nscale = 1\n',
        HEAD + '[[event]]\nkind = "poisson-gaussian"\nprobability = 2.0\nnoise_multiplier = 1.0\n',
        HEAD + '[[event]]\nkind = "approximate"\nepsilon = 1.0\ndelta = 1.0\n',
        "not toml [",
    ],
)
def test_a_file_that_states_no_loss_is_refused(tmp_path, text):
    with pytest.raises(ConfigError):
        read_events(write(tmp_path, text))


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        read_events(tmp_path / "no.toml")


def test_the_runbook_books_a_forgotten_night_as_events_that_are_read(tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()
    (text,) = re.findall(r'```toml\n(neighbours = "add-remove".*?)```', page, re.DOTALL)
    gaussian, rest = read_events(write(tmp_path, text)).series
    assert gaussian == Step(GaussianDP(0.2367043806518873))  # of epsilon 1 at delta 1e-6
    assert rest == Step(ApproxDP(1e-12, 8.077935669463161e-27))
