"""The three steps of a plan: what each of them decides, and that none is taken twice."""

import pytest

from blockveil.engine.mechanisms.contract import Importance, NotApplicable
from blockveil.engine.mechanisms.laplace import Laplace
from blockveil.pipeline.config import load_config
from blockveil.pipeline.config.model import ContinualSection
from blockveil.pipeline.kinds.counts.question import BucketsAnswer, CellsAnswer
from blockveil.pipeline.kinds.directions.question import DrawnDirections, NoisyDirections
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.plan import planning
from blockveil.pipeline.plan.begun_plans import as_begun, plan_begun
from blockveil.pipeline.plan.designing import design
from blockveil.pipeline.plan.nights import SharedNight
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.plan.resolving import resolve
from blockveil.pipeline.releases.compute import ThreadCompute
from blockveil.pipeline.releases.night import run_release
from tests.house import support
from tests.pipeline.plan.test_planning import NIGHT
from tests.pipeline.releases.test_bits import wide
from tests.pipeline.releases.test_directions_release import config as directions

COUNTS = """[query]
kind = "counts"
rows_at_most = 4000
missing = "drop"
outside = "drop"
axes = [ { name = "x", cells = 8, lower = 0.0, upper = 1.0 } ]

"""


def wide_config(folder, features, rows):
    path = support.write_config(folder, kind="second-moment")
    text = path.read_text()
    for old, new in wide(features, rows):
        text = text.replace(old, new)
    path.write_text(text)
    return load_config(path)


@pytest.mark.parametrize(("features", "bits"), [(300, [8, 16, 20]), (255, [16, 20])])
def test_a_question_whose_bits_are_open_is_resolved_with_more_and_more_bits(tmp_path, features, bits):
    loaded = wide_config(tmp_path, features, 200_000)
    ways = list(resolve(loaded, NIGHT))
    assert [found.question.problem.largest for found in ways] == [2 ** (each - 1) - 1 for each in bits]
    assert [found.config.query.quantisation_bits for found in ways] == bits
    assert [found.settled for found in ways] == [False] * (len(bits) - 1) + [True]
    assert loaded.config.query.quantisation_bits is None, "a config is not changed by what is made of it"


@pytest.mark.parametrize(("rows", "largest"), [(200_000, 2**7 - 1), (20_000_000, 2**15 - 1)])
def test_the_first_question_whose_bits_are_enough_is_designed(tmp_path, rows, largest):
    ways = list(resolve(wide_config(tmp_path, 300, rows), NIGHT))
    found = design(ways)
    assert found.resolved in ways
    assert found.answer.question.problem.largest == largest


def test_a_question_whose_bits_are_settled_is_resolved_once(tmp_path):
    path = wide_config(tmp_path, 300, 200_000).path
    path.write_text(path.read_text().replace("[query.geometry]", "quantisation_bits = 16\n[query.geometry]"))
    loaded = load_config(path)
    (only,) = resolve(loaded, NIGHT)
    assert only.settled
    assert only.config is loaded.config
    assert only.question.problem.largest == 2**15 - 1


@pytest.mark.parametrize("section", ["", f"\n[continual]\nnights = 4\nfirst = {NIGHT}\n"])
def test_a_run_plans_once_whether_or_not_the_ledger_has_its_release(tmp_path, monkeypatch, section):
    path = support.write_config(tmp_path)
    path.write_text(path.read_text() + section)
    support.write_records(tmp_path, support.records(100))
    loaded, plans = load_config(path), []
    support.set_budget(loaded, 3.0)
    monkeypatch.setattr(planning, "design", lambda ways: plans.append(1) or design(ways))
    first = plan_begun(loaded, NIGHT, Ledger(loaded.ledger_url))
    assert len(plans) == 1
    run_release(first, ThreadCompute(1), "test", lambda *_: None)
    plans.clear()
    again = plan_begun(loaded, NIGHT, Ledger(loaded.ledger_url))
    assert again.charged
    assert again.digest == first.digest
    assert as_begun(again, Ledger(loaded.ledger_url)) is again
    assert len(plans) == 1


def counts(folder, mechanism):
    return directions(folder, mechanism, query=COUNTS)


@pytest.mark.parametrize(
    ("config", "mechanism", "kind", "shape"),
    [
        (directions, 'kind = "exponential"', DrawnDirections, (5, 2)),
        (directions, 'kind = "gaussian"', NoisyDirections, (5, 5)),
        (counts, 'kind = "dawa"', BucketsAnswer, (1, 8)),
        (counts, 'kind = "gaussian"', CellsAnswer, (1, 8)),
    ],
)
def test_a_design_makes_the_answer_of_its_kind(tmp_path, config, mechanism, kind, shape):
    answer = make_plan(config(tmp_path, mechanism), NIGHT).answer
    assert type(answer) is kind
    assert answer.shape == shape
    assert answer.design.lines()


def test_a_question_refuses_designs_of_a_kind_that_does_not_answer_it(tmp_path):
    buckets = make_plan(counts(tmp_path, 'kind = "dawa"'), NIGHT).design
    question = make_plan(load_config(support.write_config(tmp_path)), NIGHT).question
    with pytest.raises(NotApplicable, match="additive noise alone"):
        question.answer(buckets)


def test_nights_that_share_a_charge_refuse_noise_whose_spread_is_not_known_beforehand(tmp_path):
    asked = make_plan(load_config(support.write_config(tmp_path)), NIGHT).designed.resolved
    night = SharedNight.of(ContinualSection(nights=4, first=NIGHT), NIGHT)
    with pytest.raises(NotApplicable, match="laplace has no noise for shared nights"):
        night.together(Laplace(Importance("relative-error")), asked.question.problem, asked.of_a_row)
