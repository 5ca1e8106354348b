"""A released covariance of features and classes gives a classifier, at no charge and from the release alone."""

import numpy as np
import pandas as pd
import pytest

from blockveil.pipeline.analysis.estimators import MomentClassifier
from blockveil.pipeline.base.errors import ConfigError
from tests.pipeline.analysis.conftest import BOUNDS, FEATURES, MOMENT, config, features, made, people

CLASSES = ("build=small", "build=middle", "build=large")


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    """People with a class that follows from their height."""
    rows = people()
    classes = np.digitize(rows[:, 0] + np.random.default_rng(2).normal(0, 2, len(rows)), [166.0, 178.0])
    names, bounds = (*FEATURES, *CLASSES), (*BOUNDS, *[(0.0, 1.0)] * 3)
    text = config(MOMENT.format(kind="covariance", features=features(names, bounds)))
    return made(tmp_path_factory.mktemp("builds"), text, np.column_stack([rows, np.eye(3)[classes]]))


@pytest.mark.parametrize("rule", ["ridge", "lda"])
def test_classes_are_told_apart_nearly_as_well_as_by_their_records(builds, rule):
    found = builds.release.classifier(CLASSES, rule=rule, ridge=0.01)
    rows, classes = builds.records[:, :4], builds.records[:, 4:].argmax(axis=1)
    design = np.column_stack([np.ones(len(rows)), rows])
    fitted = (design @ np.linalg.lstsq(design, builds.records[:, 4:], rcond=None)[0]).argmax(axis=1)
    right = np.mean(found.predict(rows) == classes)
    assert right > np.mean(fitted == classes) - 0.03
    assert found.classes == CLASSES
    assert found.features == FEATURES
    frame = pd.DataFrame(rows[:5], columns=FEATURES)[list(FEATURES[::-1])]
    assert np.array_equal(found.predict(frame), found.predict(rows[:5]))
    assert "none is stated" in str(found)
    assert "Ridge" in found._repr_html_()


def test_one_column_is_a_class_against_all_else(builds):
    found = builds.release.classifier("build=small", ["height", "weight"])
    rows, small = builds.records[:, :2], builds.records[:, 4] == 1
    assert np.mean((found.predict(rows) == 1) == small) > 0.8
    assert found.classes == ("not build=small", "build=small")


@pytest.mark.parametrize("target", ["build=small", CLASSES[:2]])
def test_other_categories_of_the_class_are_no_features_unless_they_are_named(builds, target):
    assert builds.release.classifier(target).features == FEATURES
    assert MomentClassifier().fit(builds.release, target=target).coef_.shape[-1] == len(FEATURES)
    assert builds.release.classifier(target, ["age", "build=large"]).features == ("age", "build=large")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_record_with_a_value_that_is_no_number_has_no_class(builds, value):
    rows = builds.records[:5, :4].copy()
    rows[3, 1] = value
    for found in (builds.release.classifier(CLASSES), MomentClassifier().fit(builds.release, target=CLASSES)):
        for asked in (found.predict, found.decision_function):
            with pytest.raises(ConfigError, match="missing or infinite value"):
                asked(rows)


def test_the_estimator_is_the_classifier_of_the_release(builds):
    rows = builds.records[:100, :4]
    made_by = MomentClassifier(rule="lda", ridge=0.5).fit(builds.release, target=CLASSES)
    same = builds.release.classifier(CLASSES, rule="lda", ridge=0.5)
    assert np.array_equal(made_by.decision_function(rows), same.decision_function(rows))
    assert np.array_equal(made_by.classes_[made_by.predict(rows)], same.predict(rows))
    assert made_by.coef_.shape == (3, 4)
    assert made_by.intercept_.shape == (3,)
    assert repr(made_by) == "MomentClassifier(rule='lda', ridge=0.5)"


@pytest.mark.parametrize("given", [np.full((3, 2), 271828.0), None])
def test_records_are_refused_and_not_quoted(given):
    with pytest.raises(ConfigError, match="a fit of records would escape the ledger") as refused:
        MomentClassifier().fit(given, target="age")
    assert "271828" not in str(refused.value)
    with pytest.raises(ConfigError, match="is not fitted"):
        MomentClassifier().predict([[1.0]])
    with pytest.raises(ConfigError, match="is not fitted"):
        MomentClassifier().decision_function([[1.0]])


@pytest.mark.parametrize(
    ("asked", "matching"),
    [
        ({"target": "weight"}, "is no class"),
        ({"target": "build=huge"}, "not a feature"),
        ({"target": CLASSES, "features": ["build=small", "age"]}, "a class and a feature"),
        ({"target": CLASSES, "rule": "tree"}, "rule is unknown"),
        ({"target": CLASSES, "ridge": -1.0}, "ridge is out of range"),
        ({"target": CLASSES, "ridge": True}, "ridge is out of range"),
        ({"target": CLASSES, "ridge": float("nan")}, "ridge is out of range"),
        ({"target": CLASSES, "features": []}, "No feature is named"),
    ],
)
def test_what_gives_no_classifier_is_refused(builds, asked, matching):
    with pytest.raises(ConfigError, match=matching):
        builds.release.classifier(**asked)


def test_a_release_without_a_mean_gives_none(second_moment):
    with pytest.raises(ConfigError, match="no mean"):
        second_moment.release.classifier("age")
