"""What a report says of the releases of one kind of query otherwise than of any matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from blockveil.pipeline.base.kinds import kind_of

if TYPE_CHECKING:
    from blockveil.engine.estimates.matrices import Estimate
    from blockveil.pipeline.report.facts import Facts
    from blockveil.pipeline.report.matrix import Array, ReleasedMatrix, Shown
    from blockveil.pipeline.report.papers import Picture
    from blockveil.pipeline.report.report_sections import ReportSection
    from blockveil.pipeline.report.scan import BeyondNoise

Row = dict[str, str | float]


class Presenter:
    """What is said of one matrix of a kind; here, of a matrix of which nothing more is known.

    The part ``presenter`` of a kind has one for each matrix that it releases.

    Attributes
    ----------
    matrix
        Name of the array that it speaks of; empty for any.
    symmetric
        Whether it is symmetric; a matrix that is not is none of its kind.
    follows_from
        Array of which its entries are ratios to the count; empty where entries are no ratios.
    entry
        What one of its entries is called; empty where it has no name of its own.
    diagonal, root, ratio
        The same of an entry on the diagonal, of the root of several, and of the ratio of an entry to two of them.
    by_row
        Whether a row of the matrix is what the records have a column for; else a column is, or both are.
    in_a_line
        Whether entries along one axis are shown as one row.
    has_spectrum
        Whether singular values may say more than entries do.
    about_origin
        Whether values about two origins differ though the records do not.
    ranked_by_value
        Whether entries have one unit and are ranked by value; else by their noise.
    has_means
        Whether means follow from its entries and the count.
    """

    matrix = ""
    symmetric = False
    follows_from = ""
    entry = ""
    diagonal, root, ratio = "", "", ""
    by_row = False
    in_a_line = False
    has_spectrum = True
    about_origin = True
    ranked_by_value = False
    has_means = False

    def shares_noise(self, attributes: Mapping[str, Any]) -> bool:
        """Whether entries share noise in a way that the release does not tell."""
        del attributes
        return False

    def centre(self, matrix: ReleasedMatrix) -> Array | None:
        """What is released where records say nothing, shape (1, n) or (m, 1); None for zero."""
        del matrix
        return None

    def correlation(self, release: Shown) -> Estimate | None:
        """Correlations, shape (n, n), to be shown in place of ratios to the diagonal; None for these ratios."""
        del release
        return None

    def ratio_errors(self, facts: Facts) -> Array | None:
        """Standard deviations of the noise of ratios to the diagonal, shape (n, n); None where only bounds are."""
        del facts
        return None

    def searched(self, facts: Facts) -> tuple[tuple[BeyondNoise, str], tuple[BeyondNoise, str]] | None:
        """What may stand out, and what it is called, in two groups; None for entries off and on the diagonal."""
        del facts
        return None

    def finds_more(self, facts: Facts) -> bool:
        """Whether something stands out that is no entry."""
        del facts
        return False

    def lines(self, facts: Facts) -> list[tuple[str, str]]:
        """What is found beside entries, in words."""
        del facts
        return []

    def estimates(self, facts: Facts, most: int) -> list[Row] | None:
        """Rows of numbers and their noise, at most so many; None for those of any matrix."""
        del facts, most
        return None

    def in_own_units(self, facts: Facts, rows: Sequence[Row]) -> list[dict[str, str]] | None:
        """The same for a reader, as text; None for each estimate with its noise."""
        del facts, rows
        return None

    def sections(self, facts: Facts) -> list[ReportSection]:
        """What a reader is told between the promise and the findings."""
        del facts
        return []

    def picture(self, facts: Facts) -> tuple[Picture, str] | None:
        """What is drawn in place of a heat map, and how it is read; None where a heat map is drawn."""
        del facts
        return None


def presenter_of(attributes: Mapping[str, Any]) -> Presenter:
    """Presenter of a release by its attributes."""
    query = attributes.get("query")
    kind = query.get("kind") if isinstance(query, dict) else None
    presenters: tuple[Presenter, ...] = kind_of(kind if isinstance(kind, str) else "").part("presenter", ())
    # A published file may name one kind and the matrix of another.
    return next((each for each in presenters if each.matrix == attributes.get("matrix")), OF_ANY_MATRIX)


OF_ANY_MATRIX = Presenter()
