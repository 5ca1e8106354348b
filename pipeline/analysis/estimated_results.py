"""Results of a release by name, each with its labels and its standard error, read from the disk when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates import correlations
from blockveil.engine.estimates.matrices import Estimate
from blockveil.engine.estimates.noisy_moments import NoisyMoments
from blockveil.engine.estimates.sampling_error import of_correlation, of_covariance, of_mean, with_sample
from blockveil.pipeline.analysis import labelled
from blockveil.pipeline.analysis.joint_noise import Names, covariances, listed, means, positions
from blockveil.pipeline.analysis.released_tables import TableResults
from blockveil.pipeline.analysis.results import CORRELATION, DERIVED, PAIR, PARTIAL, RAW, Results
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.nearest import among
from blockveil.pipeline.data.released import OpenRelease
from blockveil.pipeline.report.matrix import Shown
from blockveil.pipeline.report.released_moments import moments_of


class EstimatedResults(TableResults):
    """Results that a release holds, and those that follow from its moments, each with its standard error."""

    def __init__(self, opened: OpenRelease) -> None:
        self.opened = opened

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays of the release."""
        return tuple(self.opened.arrays)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of its features; empty where it has none."""
        labels = self.opened.arrays.get("feature")
        return () if labels is None else tuple(str(name) for name in np.asarray(labels[...]))

    def __getitem__(self, name: str) -> Any:
        """An array of the release with its labels, by name; ConfigError where there is none."""
        if name in DERIVED:
            return self.labelled_as(name, self.estimate(name).value)
        return self.labelled_as(name, self.array(name))

    def array(self, name: str) -> NDArray[Any]:
        """An array of the release as NumPy has it, whole; raises as indexing does."""
        if not isinstance(name, str) or name not in self.opened.arrays:
            results = [each for each in self.names if not each.endswith("_standard_deviation")]
            rule = "An array is named as the release names it"
            raise ConfigError(f"This release has no {str(name)[:60]!r}", rule, f"Choose {among(str(name), results)}")
        return np.asarray(self.opened.arrays[name][...])

    def estimate(self, name: str) -> Estimate:
        """Value and standard error of a result, as NumPy arrays.

        The standard error of what the release holds is the one that it states; of what follows from it, it is infinite
        where noise is too large to state one.

        Raises ConfigError where there is no such result, or no error of it is known.
        """
        if name == CORRELATION:
            return self._correlation
        if name == RAW:
            return correlations.raw_correlation(self._about_mean("A correlation"))
        if name == PARTIAL:
            return self.partial()[1]
        value, noise = self.array(name), f"{name}_standard_deviation"
        if noise not in self.opened.arrays:
            raise ConfigError(
                f"No standard error of {name!r} is known",
                "A release states the noise of what it measured, not of what post-processing made of it",
                f"Use {name.rpartition('_')[0] or 'another result'!r}",
            )
        return Estimate(np.asarray(value, np.float64), self.array(noise))

    def partial(self, features: Names | None = None, given: Names | None = None) -> tuple[tuple[str, ...], Estimate]:
        """Names, and partial correlations of each pair of them; see :meth:`.release.Release.partial_correlation`."""
        moments = self._about_mean("A partial correlation")
        controls = () if given is None else listed(self.features, given)
        others = tuple(name for name in self.features if name not in controls)
        names = listed(self.features, others if features is None else features)
        columns = positions(self.features, (*names, *controls))
        places = None if given is None else range(len(names), len(columns))
        return names, correlations.partial_correlation(moments.of(columns), places)

    @property
    def uninformative(self) -> Any:
        """Pairs of features of whose correlation the release tells nothing, a DataFrame of booleans.

        Its standard error is then no less than that of stating zero for it, as correlations in this release go.
        """
        return self.labelled_pairs(self.features, correlations.nothing_learnt(self._correlation))

    def labelled_pairs(self, features: Sequence[str], values: NDArray[Any]) -> Any:
        """Values of each pair of some features, a DataFrame."""
        return labelled.table(values, PAIR, [list(features)] * 2)

    def stated(self, name: str) -> Estimate:
        """Value and standard error of a result for an interval: the error is infinite where first order is not enough.

        Raises ConfigError where there is no such result, or no error of it is known, or it is not of noise alone.
        """
        mechanism = self.opened.attributes.get("mechanism", {})
        if "not_in_standard_deviations" in mechanism or "concentration" in mechanism:
            reason = "Directions were drawn; no noise was added to them"
            raise ConfigError(
                f"No interval of {name!r} is known",
                str(mechanism.get("not_in_standard_deviations", reason))[:200],
                "Use a mechanism that adds noise alone",
            )
        estimate = self.estimate(name)
        if name not in ("mean", "covariance"):
            return estimate
        if not self.opened.attributes.get("reliable", True):
            return Estimate(estimate.value, np.full(estimate.value.shape, np.inf))
        if not _has_moments(self.opened):
            return estimate
        of = means if name == "mean" else covariances
        return Estimate(estimate.value, self.moments("An interval").stated(of, estimate.standard_deviation))

    def of_population(self, name: str) -> Estimate:
        """As :meth:`stated`, with the error of the sample beside that of noise (:mod:`.sampling_error`).

        Raises
        ------
        ConfigError
            As there, or the release does not tell the error of a sample.
        """
        estimate = self.stated(name)
        if name not in ("mean", "covariance", CORRELATION, RAW) or "covariance" not in self.opened.arrays:
            raise ConfigError(
                f"The error of a sample of {name[:60]!r} is not known",
                "It follows from a released covariance, for means, covariances and correlations",
                'Leave out of="population"; regress and pca have intervals of their own',
            )
        count = max(float(self.array("count")), 1.0)
        if name in (CORRELATION, RAW):
            return with_sample(estimate, of_correlation(np.nan_to_num(estimate.value), count))
        of = of_mean if name == "mean" else of_covariance
        return with_sample(estimate, of(self.array("covariance"), count))

    def moments(self, what: str) -> NoisyMoments:
        """Second moment and the law of its noise; ``what`` is named in the ConfigError where there is none."""
        return moments_of(self.opened, what)

    def labelled_as(self, name: str, values: NDArray[Any]) -> Any:
        """Values with the labels of a result."""
        return labelled.table(values, self.axes_of(name), self.names_of(name))

    def axes_of(self, name: str) -> tuple[str, ...]:
        """Names of the axes of a result."""
        return PAIR if name in DERIVED else labelled.axes_of(self.opened, name)

    def names_of(self, name: str) -> list[list[str] | None]:
        """Names along each axis of a result."""
        if name in DERIVED:
            return [list(self.features)] * 2
        return [
            labelled.axis_names(self.opened, axis, int(length))
            for axis, length in zip(self.axes_of(name), self.opened.arrays[name].shape, strict=True)
        ]

    @cached_property
    def _correlation(self) -> Estimate:
        return correlations.correlation(self._about_mean("A correlation"))

    def _about_mean(self, what: str) -> NoisyMoments:
        moments = self.moments(what)
        if not moments.constant:
            raise ConfigError(
                "This release has no mean", f"{what} is about the mean", 'Open a release of kind "covariance"'
            )
        return moments


def _has_moments(release: Shown) -> bool:
    try:
        return moments_of(release, "An interval").constant
    except ConfigError:
        return False


class StandardErrors(Results):
    """Standard deviation of the noise of each result, labelled as the result is."""

    def __init__(self, release: EstimatedResults) -> None:
        self._release = release

    def __repr__(self) -> str:
        """How one of them is read."""
        return "standard errors of the noise, by result: standard_error.covariance, standard_error.correlation, ..."

    def __getitem__(self, name: str) -> Any:
        """That of a result, infinite where it cannot be stated.

        Raises ConfigError where there is no such result, or no error of it is known.
        """
        return self._release.labelled_as(name, self._release.estimate(name).standard_deviation)

    def partial_correlation(self, features: Names | None = None, given: Names | None = None) -> Any:
        """That of each partial correlation, a DataFrame; see :meth:`.release.Release.partial_correlation`."""
        names, estimate = self._release.partial(features, given)
        return self._release.labelled_pairs(names, estimate.standard_deviation)
