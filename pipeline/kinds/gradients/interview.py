"""The training of a linear model, and one step of it, as purposes of a first release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from blockveil.pipeline.scaffold.column_answers import Numbers
from blockveil.pipeline.scaffold.purposes import Purpose, PurposeQuestion, table

if TYPE_CHECKING:
    from blockveil.pipeline.scaffold.answers import Answers

_TARGET = PurposeQuestion(
    key="target",
    text="Which column does the model predict?",
    help="A number or yes-no, among the columns that you describe next.",
    whole=False,
)
_EXAMPLES = PurposeQuestion(
    key="examples",
    text="About how many records are there? A public guess, never a count of the file.",
    help="Sums of gradients are divided by it. One that is twice too large makes each step half as long.",
    suggestion=lambda given: str(given.rows_at_most or ""),
)
_QUERY = {"kind": "gradients", "clipping_norm": 1.0}


def _model(answers: Answers) -> Iterator[str]:
    name = answers.target or ""
    if isinstance(answer := (answers.columns or {})[name], Numbers):
        target = {"name": name, "lower": answer.lowest, "upper": answer.highest}
        yield table("query.model", {"loss": "squared", "target": target})
    else:
        yield table("query.model", {"loss": "logistic", "target": {"name": name, "classes": 2}})


def _training(answers: Answers) -> Iterator[str]:
    yield from _model(answers)
    steps = {"steps": 60, "batches": "full", "examples": answers.examples, "optimiser": "momentum"}
    words = "# All steps are under one charge. The rate is a beginning: try others on simulated records alone."
    yield table("query.training", {**steps, "momentum": 0.9, "learning_rate": 2.0, "schedule": "linear"}, words)


INTERVIEW = (
    Purpose(
        name="training",
        meaning="a linear model, by many steps under one charge",
        synonyms=("model", "train"),
        questions=(_TARGET, _EXAMPLES),
        query=_QUERY,
        further=_training,
        noise={"kind": "gaussian"},
    ),
    Purpose(
        name="gradients",
        meaning="one step of such a training",
        questions=(_TARGET,),
        query=_QUERY,
        further=_model,
    ),
)
