"""What somebody at a terminal says of the columns: one by one, or of many at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from blockveil.flows.cli.common import print_rows, say, say_sentence
from blockveil.flows.cli.typed_words import Back, said_yes, typed
from blockveil.pipeline.base.errors import BlockveilError
from blockveil.pipeline.scaffold import many_columns
from blockveil.pipeline.scaffold.column_answers import HELP, hint, meaning, parse_column
from blockveil.pipeline.scaffold.interview import at_question
from blockveil.pipeline.scaffold.named_ranges import suggested

_MANY = (
    "A line may also be about several columns: `height, weight: 0 to 300`; `q*: 1 to 5` for all whose names begin with "
    "q; `*: unknown` for all that are left, whose bounds are then found, at a charge; `*: skip` to leave those out."
)
_SHOWN = 5

Answers = dict[str, str]


class ColumnQuestions:
    """The question of the columns, until each has an answer or is left out."""

    def __init__(self, names: list[str], check: Callable[[Mapping[str, str]], object], counted: bool) -> None:
        """Ask about columns.

        Parameters
        ----------
        names
            Columns that can be released.
        check
            Raises for answers that cannot be.
        counted
            Whether records are counted in cells, which no name suggests.
        """
        self._names, self._check = names, check
        self._suggested = {} if counted else suggested(names)
        self._counted = counted
        self._steps: list[Answers] = [{}]

    def answers(self) -> Answers:
        """Answers by column; those that are left out are absent.

        Raises
        ------
        Back
            The question before is to be asked again.
        """
        say_sentence(f"  {_MANY}")
        if self._suggested:
            say("  Some names suggest what their columns hold:")
            print_rows([(f"    {name}", words) for name, words in self._suggested.items()])
            if self._suggestions_are_right():
                self._steps.append(dict(self._suggested))
        while (name := next((each for each in self._names if each not in self._steps[-1]), None)) is not None:
            try:
                self._take(name, typed(f"  {name}", "skip", f"It is {HELP}. {_MANY}"))
            except Back:
                if len(self._steps) == 1:
                    raise
                self._steps.pop()
            except BlockveilError as error:
                say_sentence(f"    {at_question(error)}")
        return {name: words for name, words in self._steps[-1].items() if not many_columns.is_skip(words)}

    def _suggestions_are_right(self) -> bool:
        return said_yes(
            "  Are these right? (yes, or no to say it yourself; a later line may correct one)",
            "The names are public, and what the columns hold was not looked at. Say yes where you would defend all "
            "of them without having looked.",
        )

    def _take(self, name: str, line: str) -> None:
        """Take a line: about what it names, else about the column that was asked for."""
        about = many_columns.head_of(line, self._names)
        head, words = about or (name, line)
        parts = many_columns.parts(head, self._names)
        others = {each: answer for each, answer in self._steps[-1].items() if each not in parts}
        answers = many_columns.each_column({**others, head: words}, self._names)
        self._check({each: answer for each, answer in answers.items() if not many_columns.is_skip(answer)})
        # In the order of the source, whatever the order of the lines.
        self._steps.append({each: answers[each] for each in self._names if each in answers})
        if about is None and not many_columns.is_skip(words):
            say(f"    {meaning(answer := parse_column(words))}{'' if self._counted else hint(answer)}")
        if about is not None:
            new = [each for each in self._steps[-1] if each not in others]
            listing = ", ".join(new[:_SHOWN]) + (", ..." if len(new) > _SHOWN else "")
            say(f"    {len(new)} column{'' if len(new) == 1 else 's'}: {listing}")
