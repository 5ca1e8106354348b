"""What is to be run for a question, in which order and why; and the page of its folder that says so."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from blockveil.pipeline.scaffold.answers import Answers
from blockveil.pipeline.scaffold.earlier import Earlier
from blockveil.pipeline.scaffold.place import FIRST, Place
from blockveil.pipeline.scaffold.texts import finds_bounds


@dataclass(frozen=True)
class NextSteps:
    """What is to be run for a question, in which order and why.

    Attributes
    ----------
    answers, place
        The question.
    epsilon
        That of the budget with this question in it.
    earlier
        The question whose budget this one joins.
    stored
        Whether the records are in the earlier question's store.
    """

    answers: Answers
    place: Place
    epsilon: float
    earlier: Earlier | None
    stored: bool

    def commands(self, folder: Path) -> tuple[tuple[str, str], ...]:
        """Commands and what they do, with paths from a folder above."""
        release = shlex.quote(str(folder / self.place.release))
        once = self.answers.every == "once"
        what = f"shows what {'it' if once else 'a night'} costs and how exact it is; reads no data"
        look = (f"blockveil plan {release}", what)
        ingest = shlex.quote(str(folder / self.place.ingest))
        releases = shlex.quote(str(folder / str(self.place.output["root"])))
        steps = [
            *([] if self.stored else [(f"blockveil ingest {ingest}", "reads the records and checks every value")]),
            *([*self._to_bounds(folder), look] if finds_bounds(self.answers) else [look, self._grant(release)]),
            (
                f"blockveil run {release} --date {self.answers.first} --no-prefect",
                f"makes the {'' if once else 'first '}release",
            ),
            (f"blockveil verify {releases}", "checks what was released, by itself"),
        ]
        if not once:
            serves = "runs the nights, and shows them in a browser; needs blockveil[server]"
            steps.append((f"blockveil serve {shlex.quote(str(folder))}", serves))
        return tuple(steps)

    def _grant(self, config: str) -> tuple[str, str]:
        """The grant, for the release whose config it names."""
        delta = self.answers.delta if self.earlier is None else self.earlier.cap.delta
        command = f"blockveil ledger grant {config} --epsilon {self.epsilon:g} --delta {delta:g}"
        if self.earlier is not None:
            return command, f"raises the promise from epsilon {self.earlier.cap.epsilon:g}, so that both fit"
        once = self.answers.every == "once"
        return command, "grants the promise" if once else "grants the promise once, for all nights"

    def _to_bounds(self, folder: Path) -> list[tuple[str, str]]:
        """From no bounds to those of a charged release."""
        answers, place = self.answers, self.place
        finding = shlex.quote(str(folder / place.find_bounds))
        name = f"{place.named(answers)}-bounds"
        release_path = folder / str(place.output["root"]) / str(answers.dataset) / name / f"{answers.first}.json"
        bounds_path = shlex.quote(str(folder / place.bounds))
        return [
            (f"blockveil plan {finding}", "shows how many values must lie together to be found; reads no data"),
            self._grant(finding),
            (
                f"blockveil run {finding} --date {answers.first} --no-prefect",
                "finds the bounds, and is charged for them",
            ),
            (
                f"blockveil public bounds read {shlex.quote(str(release_path))} --output {bounds_path}",
                f"writes them for {place.release}",
            ),
        ]


def readme(answers: Answers, commands: tuple[tuple[str, str], ...]) -> str:
    """The page of a folder: what is in it, and what to run in which order."""
    lines = "\n".join(f"{command}   # {why}" for command, why in commands)
    return (
        f"# {answers.dataset}: {answers.purpose}\n\n"
        f"A release of the {answers.purpose} of `{answers.dataset}` under differential privacy. It protects "
        f"{answers.called}.\n"
        "In this order, from the folder above:\n\n"
        f"```\n{lines}\n```\n\n"
        "`ingest.toml` says what is read, `release.toml` what is released and promised, `deployments.toml` what runs "
        f"when.\n{_of_bounds(answers)}"
        "`private/` will hold the records, the ledger and the keys of the noise: nobody else may read it. "
        "`releases/` is what\nothers may read.\n"
    )


def _of_bounds(answers: Answers) -> str:
    if not finds_bounds(answers):
        return ""
    return f"`{FIRST.find_bounds}` finds the bounds of columns that have none, and `{FIRST.bounds}` will hold them.\n"
