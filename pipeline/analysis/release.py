"""A published release in the hands of an analyst: labelled results, their errors, and what follows from them.

Everything here is post-processing of published values and public parameters: it reads no records, opens no ledger, and
costs nothing. Values are read from the disk when they are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates import components as principal
from blockveil.engine.estimates import correlations
from blockveil.engine.estimates.matrices import Estimate
from blockveil.engine.estimates.noisy_moments import NoisyMoments
from blockveil.pipeline.analysis import fits, labelled, synthetic
from blockveil.pipeline.analysis.export import export
from blockveil.pipeline.analysis.figures import Plots
from blockveil.pipeline.analysis.fits import Interval, PrincipalComponents, Regression, ends
from blockveil.pipeline.analysis.joint_noise import covariances, means, moments_of, quantile
from blockveil.pipeline.analysis.leading_part import LeadingPart, leading_part
from blockveil.pipeline.analysis.linear_classifier import ClassifierAsked, LinearClassifier, Names, classifier_of
from blockveil.pipeline.analysis.released_tables import TableResults
from blockveil.pipeline.analysis.results import CORRELATION, PAIR, PARTIAL, StandardErrors, StatedGuarantee
from blockveil.pipeline.analysis.showing import as_page_part, as_text
from blockveil.pipeline.analysis.trained_model import TrainedModel
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.data.released import OpenRelease
from blockveil.pipeline.data.stores import Location
from blockveil.pipeline.report.facts import Facts, finding
from blockveil.pipeline.report.matrix import Shown
from blockveil.pipeline.report.words import plain_words


class Release(TableResults):
    """A published release: results with labels, their errors, and statistics that follow from them at no charge.

    Parameters
    ----------
    opened
        The release, checked against its digest.
    """

    def __init__(self, opened: OpenRelease) -> None:
        self.opened = opened

    @property
    def path(self) -> Location:
        """Zarr group of the release: a folder, or an address in an object store."""
        return self.opened.path

    @property
    def release_id(self) -> str:
        """``dataset/name/date``."""
        return str(self.opened.attributes.get("release_id"))

    @property
    def attributes(self) -> dict[str, Any]:
        """Guarantee, mechanism, ledger entry and versions: a copy, plain JSON values."""
        found: dict[str, Any] = labelled.plain(self.opened.attributes)
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the arrays of the release."""
        return tuple(self.opened.arrays)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of its features; empty where it has none."""
        found = self.opened.arrays.get("feature")
        return () if found is None else tuple(str(name) for name in np.asarray(found[...]))

    @property
    def guarantee(self) -> StatedGuarantee:
        """What the release promises, as a sentence and in numbers."""
        stated = self.attributes["guarantee"]
        return StatedGuarantee(
            str(stated["sentence"]),
            plain_words(stated),
            float(stated["epsilon"]),
            float(stated["delta"]),
            stated["loss"],
            str(stated["neighbours"]),
            str(stated["privacy_unit"]),
        )

    @property
    def standard_error(self) -> StandardErrors:
        """Standard deviation of the noise of each result, under the same names."""
        return StandardErrors(self)

    @property
    def plot(self) -> Plots:
        """Pictures of it as matplotlib figures."""
        return Plots(self)

    def __getitem__(self, name: str) -> Any:
        """An array of the release with its labels, by name.

        Raises
        ------
        ConfigError
            There is none.
        """
        if name in (CORRELATION, PARTIAL):
            return self.labelled_as(name, self.estimate(name).value)
        return self.labelled_as(name, self.array(name))

    def array(self, name: str) -> NDArray[Any]:
        """An array of the release as NumPy has it, whole; raises as indexing does."""
        if not isinstance(name, str) or name not in self.opened.arrays:
            held = ", ".join(each for each in self.names if not each.endswith("_standard_deviation"))
            raise ConfigError(f"This release has no {str(name)[:60]!r}", f"It holds {held[:200]}", "Choose one of them")
        return np.asarray(self.opened.arrays[name][...])

    def estimate(self, name: str) -> Estimate:
        """Value and standard error of a result, as NumPy arrays.

        The standard error of what the release holds is the one that it states; of what follows from it, it is infinite
        where noise is too large to state one.

        Raises
        ------
        ConfigError
            There is no such result, or no error of it is known.
        """
        if name == CORRELATION:
            return self._correlation
        if name == PARTIAL:
            return correlations.partial_correlation(self._about_mean("A partial correlation"))
        value, noise = self.array(name), f"{name}_standard_deviation"
        if noise not in self.opened.arrays:
            raise ConfigError(
                f"No standard error of {name!r} is known",
                "A release states the noise of what it measured, not of what post-processing made of it",
                f"Use {name.rpartition('_')[0] or 'another result'!r}",
            )
        return Estimate(np.asarray(value, np.float64), self.array(noise))

    def interval(self, name: str, confidence: float = 0.95) -> Interval:
        """Intervals of a result: lower and upper ends, each labelled as the result is.

        Parameters
        ----------
        name
            The result, such as ``mean`` or ``correlation``.
        confidence
            Share of releases of the same records whose interval holds what the records would give without noise.

        Returns
        -------
        Interval
            The whole line where noise is too large to state an interval. Nothing is said of the choice of a sample.

        Raises
        ------
        ConfigError
            There is no such result, or no error of it is known, or it is not of noise alone.
        """
        low, high = ends(self.stated(name), quantile(self.opened, confidence))
        if name in (CORRELATION, PARTIAL):
            low, high = np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)
        return Interval(self.labelled_as(name, low), self.labelled_as(name, high))

    def stated(self, name: str) -> Estimate:
        """Value and standard error of a result for an interval: the error is infinite where first order is not enough.

        Raises
        ------
        ConfigError
            There is no such result, or no error of it is known, or it is not of noise alone.
        """
        mechanism = self.opened.attributes.get("mechanism", {})
        if "not_in_standard_deviations" in mechanism or "concentration" in mechanism:
            drawn = "Directions were drawn; no noise was added to them"
            raise ConfigError(
                f"No interval of {name!r} is known",
                str(mechanism.get("not_in_standard_deviations", drawn))[:200],
                "Use a mechanism that adds noise alone",
            )
        found = self.estimate(name)
        if name not in ("mean", "covariance"):
            return found
        if not self.opened.attributes.get("reliable", True):
            return Estimate(found.value, np.full(found.value.shape, np.inf))
        if not _has_moments(self.opened):
            return found
        of = means if name == "mean" else covariances
        return Estimate(found.value, self.moments("An interval").stated(of, found.standard_deviation))

    def partial_correlation(self) -> Any:
        """Correlation of each pair of features given all others, a DataFrame; NaN where noise has spoilt the matrix."""
        return self[PARTIAL]

    def pca(self, k: int, standardise: bool = False) -> PrincipalComponents:
        """Leading principal components with their errors.

        Parameters
        ----------
        k
            How many, between 1 and the number of features.
        standardise
            Whether each feature counts in units of its own standard deviation.

        Raises
        ------
        ConfigError
            The release holds no second moment, or k is out of range.
        """
        fits.check_components(self.features, k, standardise)
        moments = (self._about_mean if standardise else self.moments)("A principal component")
        found = principal.components(moments, int(k), bool(standardise))
        return PrincipalComponents(self.opened, self.features, bool(standardise), found)

    def leading(self, k: int) -> LeadingPart:
        """Leading eigenvalues and directions of the released matrix, of any size, beside what noise alone gives.

        The matrix is read by tiles, some ten times; it need not fit in memory. :meth:`pca` states the error of each
        component, of up to 1,000 features.

        Parameters
        ----------
        k
            How many, between 1 and the number of features.

        Raises
        ------
        ConfigError
            The matrix is not symmetric, or k is out of range.
        """
        return leading_part(self.opened, self.features, k)

    def regress(self, target: str, features: Sequence[str] | None = None, ridge: float = 0.0) -> Regression:
        """Linear regression of one feature on others, with an intercept and with errors.

        Parameters
        ----------
        target
            What is explained.
        features
            What explains it; all other features where not given.
        ridge
            What is added to each feature's sum of squares about the mean, in its unit squared: ``alpha`` of
            scikit-learn's Ridge. It lessens the pull of noise, and what is estimated is the regression with it.

        Raises
        ------
        ConfigError
            The release holds no second moment, a name is unknown, or the ridge is out of range.
        """
        return fits.regression_of(self.opened, self.features, self.moments("A regression"), (target, features, ridge))

    def classifier(
        self, target: Names, features: Names | None = None, *, rule: str = "ridge", ridge: float = 1.0
    ) -> LinearClassifier:
        """Classifier of one column of 0 and 1, or of the columns of several classes, that is linear in the features.

        Parameters
        ----------
        target
            The column of one class against all else, or the columns of all classes, in their order.
        features
            What tells them apart; all other features where not given.
        rule
            ``ridge``, a regression for each class, or ``lda``, the discriminant of normal laws of one covariance.
        ridge
            How strongly noisy directions are held back; see :mod:`blockveil.engine.estimates.class_rules`.

        Raises
        ------
        ConfigError
            The release has no mean, or a name, the rule or the ridge is none.
        """
        asked = ClassifierAsked(target, features, rule, ridge)
        return classifier_of(self.opened, self.features, self._about_mean("A classifier"), asked)

    @property
    def model(self) -> TrainedModel:
        """The model that the release has trained; ConfigError if it has trained none."""
        return TrainedModel.of(self.opened)

    def predict(self, records: Any) -> NDArray[Any]:
        """What the trained model predicts of records of one's own; see :meth:`.trained_model.TrainedModel.predict`."""
        return self.model.predict(records)

    def sample(self, n: int, seed: int | None = None) -> Any:
        """Synthetic records with the released mean and covariance: a DataFrame that is marked as synthetic.

        Parameters
        ----------
        n
            How many.
        seed
            For the same ones again.

        Raises
        ------
        ConfigError
            The release has no mean and covariance, or n is out of range.
        """
        return synthetic.sample(self.opened, self.features, n, seed)

    def to_xarray(self) -> Any:
        """All arrays as one xarray Dataset: both axes of a matrix have their names, ``feature`` and ``feature_``."""
        return labelled.dataset(self.opened)

    def export(self, place: str | os.PathLike[str], form: str) -> list[Path]:
        """Write its numbers for other programs, bit for bit, with the noise of each and the promise in each file.

        Parameters
        ----------
        place
            New folder of tables, or the new file.
        form
            ``parquet`` or ``csv``, a table for each result; or ``netcdf``, one file.

        Returns
        -------
        The files.

        Raises
        ------
        ConfigError
            The form is unknown, the library that writes it is not installed, or something is at the place.
        StoreError
            The place cannot be written, or the release cannot be read.
        """
        return export(self.opened, absolute(os.fspath(place), "place"), form)

    def moments(self, what: str) -> NoisyMoments:
        """Second moment and the law of its noise; ``what`` is named in the ConfigError where there is none."""
        return moments_of(self.opened, what)

    def labelled_as(self, name: str, values: NDArray[Any]) -> Any:
        """Values with the labels of a result."""
        return labelled.table(values, self.axes_of(name), self.names_of(name))

    def axes_of(self, name: str) -> tuple[str, ...]:
        """Names of the axes of a result."""
        return PAIR if name in (CORRELATION, PARTIAL) else labelled.axes_of(self.opened, name)

    def names_of(self, name: str) -> list[list[str] | None]:
        """Names along each axis of a result."""
        if name in (CORRELATION, PARTIAL):
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

    def _rows(self) -> list[tuple[str, str]]:
        held = [
            f"{name} {' x '.join(map(str, array.shape)) or 'number'}"
            for name, array in self.opened.arrays.items()
            if f"{name}_standard_deviation" in self.opened.arrays
        ]
        return [
            ("Promise", str(self.attributes["guarantee"]["sentence"])),
            ("In words", self.guarantee.in_words),
            ("Findings", finding(Facts(self.opened))),
            ("Results", ", ".join(held)),
        ]

    def __repr__(self) -> str:
        """What it is and where."""
        return f"Release({self.release_id!r}, {self.opened.name!r})"

    def __str__(self) -> str:
        """Promise, findings and results, one line each."""
        return as_text(str(self.attributes.get("title")), self._rows())

    def _repr_html_(self) -> str:
        return as_page_part(f"{self.attributes.get('title')}, {self.attributes.get('logical_date')}", self._rows())


def _has_moments(release: Shown) -> bool:
    try:
        return moments_of(release, "An interval").constant
    except ConfigError:
        return False
