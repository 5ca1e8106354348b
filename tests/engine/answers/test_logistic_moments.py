"""Scores and shares of the Fisher matrix of a logistic regression: what they are, and the same for every cut."""

import numpy as np
import pytest

from blockveil.engine.answers.gradients import GradientsQuery
from blockveil.engine.answers.layout import Tile
from blockveil.engine.answers.logistic_moments import LogisticMomentsQuery, largest_vector
from blockveil.engine.answers.models import FEATURE_STEPS, Activation, Model, Output
from blockveil.engine.answers.second_moment import SecondMomentQuery
from blockveil.engine.records.geometry import Ball, Box
from blockveil.engine.records.quantiser import NotFiniteError, Quantiser

RNG = np.random.default_rng(5)
K = 2**15 - 1


def query(weights, output=Output.LOGISTIC):
    inputs = weights.shape[1]
    box = Box(-np.ones(inputs - 1), np.ones(inputs - 1), np.zeros(inputs - 1))
    clip = Quantiser(box.coordinates(), FEATURE_STEPS, augmented=True, stand_in=None)
    model = Model.at(output, Activation.TANH, {"last": weights})
    ball = Ball(np.zeros(2 * inputs), largest_vector(inputs)).coordinates()
    moment = SecondMomentQuery(Quantiser(ball, K, augmented=True, stand_in=None))
    return LogisticMomentsQuery(moment, GradientsQuery(model, clip, (0.0, len(weights)), 1.0, K))


def records(rows, features=3):
    return np.column_stack([RNG.uniform(-1.5, 1.5, (rows, features)), RNG.integers(0, 2, rows)]).astype(np.float64)


def textbook(weights, values):
    inputs = np.column_stack([np.ones(len(values)), np.clip(values[:, :-1], -1.0, 1.0)])
    chance = 1.0 / (1.0 + np.exp(-inputs @ weights[0]))
    return inputs * (chance - values[:, -1])[:, None], inputs * np.sqrt(chance * (1.0 - chance))[:, None], chance


def test_a_record_is_its_score_and_its_share_of_the_fisher_matrix():
    weights, values = RNG.normal(0.0, 2.0, (1, 4)), records(200)
    score, share, _ = textbook(weights, values)
    np.testing.assert_allclose(query(weights).vectors(values), np.hstack([score, share]), atol=3e-6)


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0])
def test_both_together_are_no_longer_than_the_features(size):
    weights, values = RNG.normal(0.0, 1.0, (1, 4)) * size, records(500)
    values[:8, :-1] = np.array(np.meshgrid(*[[-9.0, 9.0]] * 3)).reshape(3, -1).T
    vectors = query(weights).vectors(values)
    inputs = np.column_stack([np.ones(len(values)), np.clip(values[:, :-1], -1.0, 1.0)])
    lengths, chance = np.linalg.norm(vectors, axis=1), textbook(weights, values)[2]
    expected = np.linalg.norm(inputs, axis=1) * np.sqrt(np.abs(chance - values[:, -1]))
    np.testing.assert_allclose(lengths, expected, rtol=1e-4, atol=1e-5)
    assert np.all(lengths <= largest_vector(4))


def test_the_sum_is_exact_and_the_same_for_every_cut(monkeypatch):
    weights, values = RNG.normal(0.0, 1.0, (1, 4)), records(300)
    one, whole = query(weights), [Tile((0, 9), (0, 9))]
    found = one.partial(values, 0, 300, 300, whole)[0]
    integers = one.moment.quantiser.quantise(one.vectors(values)).astype(np.int64)
    np.testing.assert_array_equal(found, integers.T @ integers)
    monkeypatch.setattr("blockveil.engine.answers.logistic_moments._PIECE_BYTES", 9 * 8 * 7)
    parts = [Tile((0, 5), (0, 5)), Tile((0, 5), (5, 9)), Tile((5, 9), (5, 9))]
    cut = [
        sum(each) for each in zip(*(one.partial(values, at, at + 100, 13, parts) for at in (0, 100, 200)), strict=True)
    ]
    for tile, part in zip(parts, cut, strict=True):
        np.testing.assert_array_equal(part, found[slice(*tile.rows), slice(*tile.columns)])


@pytest.mark.parametrize("place", [(2, 1), (2, 3)])
def test_a_missing_value_or_class_is_refused(place):
    values = records(5)
    values[place] = np.nan
    with pytest.raises(NotFiniteError):
        query(np.zeros((1, 4))).partial(values, 0, 5, 5, [Tile((0, 9), (0, 9))])


def test_another_model_is_refused():
    with pytest.raises(ValueError, match="two classes"):
        query(np.zeros((3, 4)), Output.SOFTMAX)
    other = query(np.zeros((1, 4)))
    with pytest.raises(ValueError, match="twice as many"):
        LogisticMomentsQuery(query(np.zeros((1, 3))).moment, other.gradients)
