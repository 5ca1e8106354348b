"""Principal directions as the purpose of a first release."""

from __future__ import annotations

from blockveil.pipeline.scaffold.purposes import Purpose, PurposeQuestion

INTERVIEW = (
    Purpose(
        name="directions",
        meaning="principal components alone",
        synonyms=("pca", "components"),
        questions=(
            PurposeQuestion(
                key="directions",
                text="How many principal directions?",
                help="Fewer than there are columns. Each further one has more noise.",
            ),
        ),
        query={"kind": "principal-directions"},
        answered=("directions",),
        noise={"kind": "gaussian"},
    ),
)
