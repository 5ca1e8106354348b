"""Tables over a few columns each as the purpose of a first release."""

from __future__ import annotations

from blockveil.pipeline.scaffold.purposes import Purpose, PurposeQuestion

INTERVIEW = (
    Purpose(
        name="tables",
        meaning="how many records lie in each cell for all pairs, or triples, of many columns, in tables that agree; "
        "programs make up records from them",
        synonyms=("marginals", "crosstabs", "synthetic"),
        questions=(
            PurposeQuestion(
                key="ways",
                text="Tables of how many columns each?",
                help="2 counts every pair of columns. Each further column means more tables, of more cells, and more "
                "noise.",
                suggestion=lambda given: "2",
            ),
        ),
        query={"kind": "marginals"},
        answered=("ways",),
        counted=True,
        gaussian="residuals",
    ),
)
