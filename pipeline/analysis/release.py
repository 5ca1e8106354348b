"""A published release in the hands of an analyst: labelled results, their errors, and what follows from them.

Everything here is post-processing of published values and public parameters: it reads no records, opens no ledger, and
costs nothing. Values are read from the disk when they are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blockveil.engine.estimates import components as principal
from blockveil.pipeline.analysis import fits, labelled, synthetic
from blockveil.pipeline.analysis.estimated_results import EstimatedResults, StandardErrors
from blockveil.pipeline.analysis.export import export
from blockveil.pipeline.analysis.figures import Plots
from blockveil.pipeline.analysis.fits import Interval, PrincipalComponents, Regression, ends
from blockveil.pipeline.analysis.joint_noise import POPULATION, RECORDS, Names, check_of, quantile
from blockveil.pipeline.analysis.leading_part import Eigenpairs, leading_part
from blockveil.pipeline.analysis.linear_classifier import LinearClassifier, classifier_of
from blockveil.pipeline.analysis.logistic_regression import LogisticRegression
from blockveil.pipeline.analysis.results import DERIVED, PARTIAL, StatedGuarantee
from blockveil.pipeline.analysis.trained_model import TrainedModel
from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.base.places import absolute
from blockveil.pipeline.base.showing import as_page_part, as_text
from blockveil.pipeline.data.stores import Location
from blockveil.pipeline.report.facts import Facts, finding, nothing_learnt
from blockveil.pipeline.report.words import plain_words


class Release(EstimatedResults):
    """A published release: results with labels, their errors, and statistics that follow from them at no charge."""

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
        attributes: dict[str, Any] = labelled.plain(self.opened.attributes)
        return attributes

    @property
    def guarantee(self) -> StatedGuarantee:
        """What the release promises, as a sentence and in numbers."""
        guarantee = self.attributes["guarantee"]
        return StatedGuarantee(
            str(guarantee["sentence"]),
            plain_words(guarantee),
            float(guarantee["epsilon"]),
            float(guarantee["delta"]),
            guarantee["loss"],
            str(guarantee["neighbours"]),
            str(guarantee["privacy_unit"]),
        )

    @property
    def standard_error(self) -> StandardErrors:
        """Standard deviation of the noise of each result, under the same names."""
        return StandardErrors(self)

    @property
    def plot(self) -> Plots:
        """Pictures of it as matplotlib figures."""
        return Plots(self)

    def interval(
        self,
        name: str,
        confidence: float = 0.95,
        *,
        of: str = "records",
        features: Names | None = None,
        given: Names | None = None,
    ) -> Interval:
        """Intervals of a result: lower and upper ends, each labelled as the result is.

        Parameters
        ----------
        name
            The result, such as ``mean`` or ``correlation``.
        confidence
            Share of releases of the same records whose interval holds what the records would give without noise.
        of
            ``records``, or ``population``: that of which the records are independent draws, by the law that
            :mod:`.sampling_error` supposes. The error of such a sample is part of the interval then.
        features, given
            Of ``partial_correlation``, as that method takes them.

        Returns
        -------
        Interval
            The whole line where noise is too large to state an interval.

        Raises
        ------
        ConfigError
            There is no such result, or no error of it is known, or it is not of noise alone, or it takes no choice.
        """
        check_of(of)
        if of == RECORDS and (features is not None or given is not None):
            return self._partial_interval(name, confidence, features, given)
        estimate = self.of_population(name) if of == POPULATION else self.stated(name)
        low, high = ends(estimate, quantile(self.opened, confidence))
        if name in DERIVED:
            low, high = np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)
        return Interval(self.labelled_as(name, low), self.labelled_as(name, high))

    def _partial_interval(self, name: str, confidence: float, features: Names | None, given: Names | None) -> Interval:
        if name != PARTIAL:
            raise ConfigError(
                f"Intervals of {name[:60]!r} take no choice of features",
                "Only a partial correlation depends on which features take part",
                "Leave features and given out, and take from the result what you need",
            )
        self.stated(name)  # it is of noise alone
        names, estimate = self.partial(features, given)
        low, high = (np.clip(end, -1.0, 1.0) for end in ends(estimate, quantile(self.opened, confidence)))
        return Interval(self.labelled_pairs(names, low), self.labelled_pairs(names, high))

    def partial_correlation(self, features: Names | None = None, given: Names | None = None) -> Any:
        """Correlation of each pair of features given others, a DataFrame; NaN where noise has spoilt the matrix.

        It is the correlation of what a linear regression of each of the two on the given features leaves unexplained.
        All categories of one column add up to one: given the others nothing is left of each, and so noise alone is.
        Leave one of them out of ``features``.

        Parameters
        ----------
        features
            Whose; all that are not given where it is None.
        given
            What each pair is given. Where it is None, each pair is given all others of ``features``, and what is not
            among these plays no part.

        Raises
        ------
        ConfigError
            The release has no mean, or a name is unknown or named twice.
        """
        names, estimate = self.partial(features, given)
        return self.labelled_pairs(names, estimate.value)

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
        components = principal.components(moments, int(k), bool(standardise))
        return PrincipalComponents(self.opened, self.features, bool(standardise), components)

    def eigenpairs(self, k: int) -> Eigenpairs:
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
            What tells them apart; where not given all features but other categories of the same column, which would
            give the class away.
        rule
            ``ridge``, a regression for each class, or ``lda``, the discriminant of normal laws of one covariance.
        ridge
            How strongly noisy directions are held back; see :mod:`blockveil.engine.estimates.class_rules`.

        Raises
        ------
        ConfigError
            The release has no mean, or a name, the rule or the ridge is none.
        """
        moments = self._about_mean("A classifier")
        return classifier_of(self.opened, self.features, moments, target, features, rule, ridge)

    def logistic_regression(self) -> LogisticRegression:
        """The logistic regression that the release has trained, with standard errors, intervals and p-values.

        Raises
        ------
        ConfigError
            The release has trained none, or without ``errors_share``.
        """
        return LogisticRegression.of(self.opened)

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

    def export(self, path: str | os.PathLike[str], format: str) -> list[Path]:  # noqa: A002 - as pandas has it
        """Write its numbers for other programs, bit for bit, with the noise of each and the promise in each file.

        Parameters
        ----------
        path
            New folder of tables, or the new file.
        format
            ``parquet`` or ``csv``, a table for each result; or ``netcdf``, one file.

        Returns
        -------
        The files.

        Raises
        ------
        ConfigError
            The format is unknown, the library that writes it is not installed, or something is at the path.
        StoreError
            The path cannot be written, or the release cannot be read.
        """
        return export(self.opened, absolute(os.fspath(path), "path"), format)

    def _rows(self) -> list[tuple[str, str]]:
        results = [
            f"{name} {' x '.join(map(str, array.shape)) or 'number'}"
            for name, array in self.opened.arrays.items()
            if f"{name}_standard_deviation" in self.opened.arrays
        ]
        facts = Facts(self.opened)
        return [
            ("Promise", str(self.attributes["guarantee"]["sentence"])),
            ("In words", self.guarantee.in_words),
            ("Findings", f"{finding(facts)} {nothing_learnt(facts)}".rstrip()),
            ("Results", ", ".join(results)),
        ]

    def __repr__(self) -> str:
        """What it is and where."""
        return f"Release({self.release_id!r}, {self.opened.name!r})"

    def __str__(self) -> str:
        """Promise, findings and results, one line each."""
        return as_text(str(self.attributes.get("title")), self._rows())

    def _repr_html_(self) -> str:
        return as_page_part(f"{self.attributes.get('title')}, {self.attributes.get('logical_date')}", self._rows())
