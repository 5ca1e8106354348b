"""A classifier that follows from a released covariance of features and classes, at no charge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates.class_rules import ClassRule, ClassScores, class_scores
from blockveil.engine.estimates.noisy_moments import NoisyMoments
from blockveil.pipeline.analysis.fits import finite_rows_of
from blockveil.pipeline.analysis.joint_noise import Names, positions
from blockveil.pipeline.analysis.labelled import plain
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.showing import FactSheet
from blockveil.pipeline.report.matrix import Shown

Array = NDArray[np.float64]

LEAST_RIDGE, MOST_RIDGE = 0.0, 1e6


@dataclass(frozen=True, eq=False)
class LinearClassifier(FactSheet):
    """Classes by scores that are linear in the features, from a release.

    What it predicts of a record is post-processing of the release and costs nothing; the record itself is not protected
    by the release.

    Attributes
    ----------
    release
        What it was computed from.
    classes
        Names of the classes' columns; of a single column "not" it, and it.
    features
        Names of the features, in order.
    rule, ridge
        As they were asked for.
    scores
        Weights and constants as arrays.
    """

    release: Shown = field(repr=False)
    classes: tuple[str, ...]
    features: tuple[str, ...]
    rule: str
    ridge: float
    scores: ClassScores = field(repr=False)

    def predict(self, rows: Any) -> NDArray[np.int64]:
        """Class of each row: its position among the classes, int64, shape (rows,).

        Parameters
        ----------
        rows
            A DataFrame with the features as columns, or numbers of shape (rows, features) in their order.

        Raises
        ------
        ConfigError
            A feature is missing, or these are not finite numbers.
        """
        return np.asarray(self.decision_function(rows).argmax(axis=1), np.int64)

    def decision_function(self, rows: Any) -> Array:
        """Score of each class, shape (rows, classes); the largest one decides. Parameters and errors as above."""
        return self.scores.of(finite_rows_of(rows, self.features))

    @property
    def _title(self) -> str:
        return f"Classes by {self.rule}, from {self.release.attributes.get('release_id')}"

    def rows(self) -> list[tuple[str, str]]:
        """What it is made of."""
        return [
            ("Classes", ", ".join(self.classes)),
            ("Features", f"{len(self.features):,}"),
            ("Ridge", f"{self.ridge:g} times the largest eigenvalue that noise alone gives"),
            ("Errors", "none is stated: how often a class is wrong depends on the records"),
        ]


def classifier_of(
    release: Shown,
    held: tuple[str, ...],
    moments: NoisyMoments,
    target: Names,
    features: Names | None,
    rule: str,
    ridge: float,
) -> LinearClassifier:
    """Classifier of a release.

    Parameters
    ----------
    release, held, moments
        The release, the names of its features and their moments about the mean.
    target, features, rule, ridge
        As for :meth:`.Release.classifier`.

    Raises
    ------
    ConfigError
        A name is unknown, a class is no column of 0 and 1, or the rule or the ridge is none.
    """
    targets = _names(target)
    labels = positions(held, targets)
    names = _others(held, targets) if features is None else _names(features)
    columns = positions(held, names)
    _check_labels(release, targets)
    overlap = [name for name in names if name in targets]
    if overlap:
        raise ConfigError(f'"{overlap[0][:60]}" is a class and a feature', "It tells nothing of itself", "Leave it out")
    if rule not in set(ClassRule):
        raise ConfigError("rule is unknown", f"It is one of {', '.join(ClassRule)}", "Choose one of them")
    if isinstance(ridge, bool) or not isinstance(ridge, int | float) or not LEAST_RIDGE <= ridge <= MOST_RIDGE:
        raise ConfigError("ridge is out of range", f"It is a number from 0 to {MOST_RIDGE:g}", "Give for instance 1")
    scores = class_scores(moments, labels, columns, ClassRule(rule), float(ridge))
    classes = tuple(targets) if len(targets) > 1 else (f"not {targets[0]}", targets[0])
    return LinearClassifier(release, classes, tuple(names), rule, float(ridge), scores)


def _others(held: tuple[str, ...], targets: list[str]) -> list[str]:
    """All features but the classes, and other categories of the same columns, which would give the class away."""
    columns = tuple(f"{name.partition('=')[0]}=" for name in targets if "=" in name)
    return [name for name in held if name not in targets and not name.startswith(columns)]


def _names(given: Names) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _check_labels(release: Shown, targets: list[str]) -> None:
    """Refuse classes whose declared bounds are not 0 and 1, as far as the release states bounds."""
    shape = plain(release.attributes).get("query", {}).get("geometry", {})
    for each in shape.get("features", []):
        ends = (each.get("lower", 0.0), each.get("upper", 1.0))
        if each.get("name") in targets and ends != (0.0, 1.0):
            raise ConfigError(
                f'"{each["name"][:60]}" is no class',
                "The column of a class holds 0 and 1, and is declared with lower = 0 and upper = 1",
                'Ingest the class with encode = "one-hot", and declare these bounds',
            )
