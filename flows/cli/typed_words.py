"""One question at a terminal: help on demand, and the way back to the question before."""

from __future__ import annotations

from typing import Any

import typer

from blockveil.flows.cli.common import say, say_sentence

MORE, BACK = "?", "<"
"""What asks for help, and what goes back."""


class Back(Exception):
    """The question before is to be asked again."""


YES, NO = ("y", "yes"), ("n", "no")


def said_yes(text: str, more: str) -> bool:
    """Whether somebody says yes; asks until it is yes or no. Parameters and errors as of :func:`typed`."""
    while (words := typed(text, "", more).lower()) not in (*YES, *NO):
        say("    Answer yes or no.")
    return words in YES


def typed(text: str, suggestion: str, more: str) -> str:
    """What somebody types.

    Parameters
    ----------
    text
        The question.
    suggestion
        What an empty line means; an empty text where an answer is asked for.
    more
        Help with the question.

    Raises
    ------
    Back
        The question before is wanted.
    """
    while True:
        line: Any = typer.prompt(text, default=suggestion or None, show_default=bool(suggestion))
        if str(line).strip() == BACK:
            raise Back
        if str(line).strip() != MORE:
            return str(line).strip()
        say_sentence(f"  {more}")
