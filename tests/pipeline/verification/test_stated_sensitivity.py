"""A sensitivity that is too small is refuted from the declared bounds alone, and a right one never is."""

import itertools
import json
import math
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.engine.kinds.moments.problem import SecondMoment
from blockveil.engine.kinds.outer.problem import OuterProducts
from blockveil.engine.kinds.rows.problem import Rows
from blockveil.engine.kinds.totals.problem import Totals
from blockveil.engine.noise.banded import Band
from blockveil.engine.records.geometry import Ball, Box, reaches_both_ends
from blockveil.engine.records.quantiser import Quantiser
from blockveil.engine.sensitivity.spread import Diagonal, Spread
from blockveil.pipeline.plan.planning import make_plan
from blockveil.pipeline.verification.stated_sensitivity import moved
from blockveil.pipeline.verification.stated_steps import nights_factor, steps_factor
from tests.house import shipped
from tests.pipeline.kinds.counts import test_workloads as workloads
from tests.pipeline.kinds.histograms import test_column_histograms as histograms
from tests.pipeline.kinds.marginals import test_marginals as tables
from tests.pipeline.questions import test_ordered_axes as ranges
from tests.pipeline.questions import test_queries as queries

GAUSSIAN, LAPLACE = "2 levels of width 2048", "discrete Laplace of rate 1/1048576"
ADD, REPLACE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
BITS = 12
K = 2 ** (BITS - 1) - 1


def stated(query, mechanism, neighbours, **guarantee):
    return {"query": query, "mechanism": mechanism, "guarantee": {"neighbours": neighbours.value, **guarantee}}


def bounds(attributes):
    found = moved(attributes)
    return math.sqrt(found.least), None if found.most is None else math.sqrt(found.most)


def planned(name):
    with tempfile.TemporaryDirectory() as folder:
        plan = make_plan(shipped._moved(name.partition(",")[0], Path(folder)), shipped.NIGHT)
    public = json.loads(json.dumps(plan.public))
    nights = {} if plan.series is None else {"nights": plan.series.nights}
    return stated(public["query"], public["mechanism"] | public["calibration"], plan.neighbours, **nights)


@pytest.mark.parametrize("name", shipped.names())
def test_the_sensitivity_of_a_shipped_config_is_recomputed_and_a_twentieth_less_is_refuted(name):
    found = planned(name)
    if name == "directions":  # drawn, by a constant that is recomputed with the noise
        assert "sensitivity" not in found["mechanism"]
        return
    if name == "quantiles":  # by a matrix among the arrays of a release; see test_quantiles.py
        with pytest.raises(KeyError, match="measured_kernel"):
            bounds(found)
        return
    least, most = bounds(found)
    claimed = found["mechanism"]["sensitivity"]
    assert least <= claimed
    assert 0.95 * claimed < least
    assert most <= claimed * (1.0 + 1e-12)


@pytest.mark.parametrize("missing", ["drop", "count"])
@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_what_histograms_have_in_common_is_recomputed_from_their_bins(relation, missing, tmp_path):
    query = histograms.QUERY.replace("drop", missing)
    loaded = queries.config(tmp_path, query, neighbours=relation, mechanism='kind = "histogram-residuals"')
    plan = make_plan(loaded, shipped.NIGHT)
    public = json.loads(json.dumps(plan.public))
    found = stated(public["query"], public["mechanism"] | public["calibration"], plan.neighbours)
    claimed = found["mechanism"]["sensitivity"]
    assert bounds(found) == pytest.approx([claimed, claimed], rel=1e-11)
    assert bounds(found)[1] <= claimed
    found["mechanism"]["strategy"]["bins_by_column"][0] += 1
    with pytest.raises(ValueError, match="bins_by_column"):
        moved(found)


def strategy(folder, query, relation):
    """What a release of a searched strategy states, and its arrays."""
    make = tables.asked if query is ranges.QUERY else workloads.config
    more = {} if query is ranges.QUERY else {"mechanism": 'kind = "matrix-mechanism"', "columns": 16}
    plan = make_plan(make(folder, query, neighbours=relation, **more), shipped.NIGHT)
    public = json.loads(json.dumps(plan.public))
    made = plan.design.strategy.arrays(np.zeros(plan.design.shape), np.ones(plan.design.shape[0]))
    arrays = {name: values for name, (values, _) in made.items()}
    return stated(public["query"], public["mechanism"] | public["calibration"], plan.neighbours), arrays


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("query", [workloads.LINE.replace("{workload}", '"ranges"'), ranges.QUERY])
def test_a_strategy_that_was_searched_is_read_and_held_against_its_digest(query, relation, tmp_path):
    attributes, arrays = strategy(tmp_path, query, relation)
    found, claimed = moved(attributes, arrays), attributes["mechanism"]["sensitivity"]
    assert 0.95 * claimed < math.sqrt(found.least) <= claimed
    assert (found.most is None) == (query is ranges.QUERY and relation == "replace-one")
    assert found.most is None or math.sqrt(found.most) <= claimed * (1.0 + 1e-12)
    (name,) = (each for each in arrays if each in ("column_strategy", "axis_1_strategy"))
    with pytest.raises(ValueError, match="sha256"):
        moved(attributes, arrays | {name: arrays[name] * 2.0})
    with pytest.raises(KeyError, match=name):
        moved(attributes, {each: arrays[each] for each in arrays if each != name})


def shape(chosen, features):
    """A declared shape and the same as the product sees it, with features of other widths."""
    widths = [math.exp(chosen.uniform(-1.5, 1.5)) for _ in range(features)]
    kind = chosen.choice(["ball", "midpoint", "positive", "uneven", "capped", "capped positive"])
    if kind == "ball":
        named = [{"name": str(i), "origin": 0.0} for i in range(features)]
        return {"kind": "ball", "radius": 3.0, "features": named}, Ball([0.0] * features, 3.0)
    share = 0.0 if "positive" in kind else 1.0
    low = [-width * (chosen.choice([0.0, 0.3, 1.0]) if kind == "uneven" else share) for width in widths]
    named = [{"name": str(i), "lower": low[i], "upper": widths[i]} for i in range(features)]
    origin = "midpoint" if kind == "midpoint" else "zero"
    norm = math.hypot(*widths) * chosen.uniform(0.2, 1.1) if "capped" in kind else None
    middle = (np.array(low) + widths) / 2.0 if origin == "midpoint" else np.zeros(features)
    declared = {"kind": "box", "origin": origin, "features": named} | ({} if norm is None else {"norm_at_most": norm})
    return declared, Box(low, widths, middle, norm)


def seen(declared, lead=False):
    clip = Quantiser(declared.coordinates(), K, lead, None)
    ends = None if clip.ends is None else (clip.ends[0] / K, clip.ends[1] / K)
    return clip.coordinates, reaches_both_ends(clip.coordinates, K), ends


def case(chosen):
    """What a release would state, and the product's own sensitivity of it."""
    kind = chosen.choice(["second-moment", "covariance", "covariance", "rows", "totals", "outer-products"])
    neighbours, law = chosen.choice([ADD, REPLACE]), chosen.choice([GAUSSIAN, LAPLACE])
    neighbours = REPLACE if kind == "rows" else neighbours
    features = chosen.choice([1, 2, 3, 5, 9])
    query, declared = shape(chosen, features)
    body, even, ends = seen(declared, kind == "covariance")
    moment = kind in ("second-moment", "covariance")
    lead = int(kind == "covariance" or (kind == "totals" and neighbours is ADD))
    sizes = [math.exp(chosen.uniform(0.0, 1.5)) for _ in range(features + lead)]
    mechanism = {"mechanism": "gaussian", "grid": law, "largest_integer": K, "unit": K**2 if moment else K}
    asked = {"kind": kind, "quantisation_bits": BITS, "geometry": query}
    common = (body.body, body.scale, neighbours, K, 100)
    if moment:
        problem = SecondMoment(*common, bool(lead), even=even, ends=ends)
        own = None
        if law == GAUSSIAN and query["kind"] == "box" and "norm_at_most" not in query and features > 1:
            own = chosen.choice([None, Diagonal(2.5, 0 if neighbours is REPLACE else 2, 2.0, lead)])
            own = Diagonal(3.0, 2, 1.0, 1, 1.5, 2) if own is not None and lead and neighbours is ADD else own
            own = None if neighbours is REPLACE and query["origin"] == "zero" else own
        sizes = [1.0] * len(sizes) if own is not None and own.even else sizes
        mechanism |= {"row_spread": sizes, "column_spread": "as by row"}
        mechanism |= {} if own is None else {"diagonal": own.facts()}
        spread = Spread(np.array(sizes), np.array(sizes), True, 1, diagonal=own)
    elif kind == "outer-products":
        other, again = shape(chosen, 4)
        left, right = (body, ends, even), seen(again)
        problem = OuterProducts(
            body.body, right[0].body, body.scale, right[0].scale, neighbours, K, 100,
            even=left[2] or right[1], left_ends=ends, right_ends=right[2],
        )  # fmt: skip
        asked = {"kind": kind, "quantisation_bits": BITS, "left": query, "right": other}
        mechanism |= {"unit": K**2, "row_spread": sizes, "column_spread": 1.5}
        spread = problem.spread(np.array(sizes), np.full(4, 1.5))
    else:
        problem = (
            Rows(*common, even=even, ends=ends)
            if kind == "rows"
            else Totals(*common, widths=None if ends is None else ends[1] - ends[0])
        )
        mechanism |= {"row_spread": 1.0, "column_spread": sizes}
        spread = problem.spread(np.ones(problem.shape[0]), np.array(sizes))
    return stated(asked, mechanism, neighbours), problem.l2(spread) if law == GAUSSIAN else problem.l1(spread)


@pytest.mark.parametrize("seed", range(8))
def test_records_of_random_shapes_never_pass_the_product_s_bound_and_reach_what_it_attains(seed):
    chosen = random.Random(f"shapes {seed}")
    for _ in range(40):
        attributes, known = case(chosen)
        least, most = bounds(attributes)
        assert least <= known.bound * (1.0 + 1e-12), attributes
        assert least >= 0.95 * known.attained, attributes
        assert most is None or most >= known.attained * (1.0 - 1e-9), attributes


def test_no_pair_of_corners_is_further_apart_than_the_bound_or_than_the_pairs_that_are_tried():
    sizes = [1.0, 1.3, 2.0, 1.1]
    features = [{"name": str(i), "lower": -1.0, "upper": 1.0} for i in range(3)]
    query = {"kind": "covariance", "quantisation_bits": BITS}
    query["geometry"] = {"kind": "box", "origin": "midpoint", "features": features}
    mechanism = {"mechanism": "gaussian", "grid": GAUSSIAN, "largest_integer": K, "unit": K**2}
    mechanism |= {"row_spread": sizes, "column_spread": "as by row"}
    records = [np.array([1.0, *corner]) / sizes for corner in itertools.product([-1.0, 0.0, 1.0], repeat=3)]
    apart = [np.linalg.norm(np.outer(y, y) - np.outer(z, z)) for y in records for z in records]
    least, most = bounds(stated(query, mechanism, REPLACE))
    assert least == pytest.approx(max(apart), rel=1e-12)
    assert most >= max(apart)
    assert bounds(stated(query, mechanism, ADD)) == pytest.approx((np.sum(records[-1] ** 2),) * 2, rel=1e-12)


@pytest.mark.parametrize("count", [None, 1, 3, 7])
@pytest.mark.parametrize(("band", "steps"), [(1, 1), (1, 20), (3, 20), (3, 21)])
def test_steps_of_a_training_are_counted_as_the_columns_of_their_matrix_say(count, band, steps):
    if band > (count or 1):
        return
    weights = list(Band(band, steps).weights) if band > 1 else [1]
    matrix = sum(np.diag([w] * (steps - age), -age) for age, w in enumerate(weights) if age < steps)
    batches = [[s for s in range(steps) if s % (count or 1) == first] for first in range(count or 1)]
    training = {"steps": steps, "batches": "full" if count is None else "fixed", "batch_count": count}
    asked = {"training": training | ({"band": band} if band > 1 else {})}
    found = stated(asked, {"band": weights} if band > 1 else {}, ADD)
    assert steps_factor(found, 2) == max(np.sum(matrix[:, steps] ** 2) for steps in batches)
    if band == 1:
        assert steps_factor(found, 1) == max(len(steps) for steps in batches) ** 2
    with pytest.raises(ValueError, match="band"):
        steps_factor(stated(asked, {"band": [*weights, 1]}, ADD), 2)


def test_nights_are_counted_by_the_longest_column_of_their_weights():
    weights, nights = [255, 118, 65, 25], 6
    by_age = [255, 118, 65, 65, 25, 25]
    matrix = sum(np.diag([w] * (nights - age), -age) for age, w in enumerate(by_age))
    norm = int(max(np.sum(matrix**2, axis=0)))
    series = {"continual": {"weights": weights, "squared_norm": norm}}
    assert nights_factor(stated({}, series, ADD, nights=nights)) == norm
    with pytest.raises(ValueError, match="squared_norm"):
        nights_factor(stated({}, series, ADD, nights=nights + 1))
    with pytest.raises(ValueError, match="nights"):
        nights_factor(stated({}, {}, ADD, nights=nights))
