"""Lines on a terminal end between words; what goes into a file or to a program stays whole."""

import contextlib
import io
import re

import pytest

from blockveil.flows.cli import common
from blockveil.flows.cli.line_breaks import broken

LONG = "Whatever an attacker knows already, adding or removing one patient multiplies the probability by at most e^3."
PATH = "/srv/" + "a-long-folder/" * 8 + "release.zarr"
ROWS = [("Release", PATH), ("Guarantee", LONG), ("Noise of the whole second moment, in 95 of 100 releases", LONG)]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    """What a call prints, into a file or on a terminal of some columns."""
    monkeypatch.setenv("NO_COLOR", "1")

    def _shown(call, given, columns):
        monkeypatch.setenv("COLUMNS", str(columns or 80))
        stream = Terminal() if columns else io.StringIO()
        with contextlib.redirect_stdout(stream):
            call(given)
        return stream.getvalue()

    return _shown


@pytest.mark.parametrize("columns", [40, 60, 100])
@pytest.mark.parametrize(("call", "given"), [(common.print_rows, ROWS), (common.say_sentence, f"  {LONG}\n{LONG}\n")])
def test_on_a_terminal_no_word_is_broken_and_no_word_is_lost(shown, columns, call, given):
    lines = shown(call, given, columns).splitlines()
    assert all(len(line) <= columns or line.strip() == PATH or line.endswith(f"  {PATH}") for line in lines), lines
    words = re.sub(r"\s+", " ", " ".join(lines)).strip()
    assert words == re.sub(r"\s+", " ", shown(call, given, None)).strip()


def test_what_goes_on_is_indented_below_what_it_goes_on_from(shown):
    first, *others = shown(common.print_rows, ROWS[1:2], 60).splitlines()
    assert first.startswith("Guarantee  Whatever")
    assert others
    assert all(line.startswith(" " * 11) and line[11] != " " for line in others)
    first, *others = shown(common.say_sentence, f"  {LONG}", 60).splitlines()
    assert all(line.startswith("  ") and line[2] != " " for line in [first, *others])


def test_a_long_heading_has_a_line_of_its_own_and_narrows_no_other(shown):
    lines = shown(common.print_rows, ROWS, 80).splitlines()
    assert ROWS[2][0] in lines
    assert lines[0] == "Release".ljust(26) + PATH


@pytest.mark.parametrize("columns", [None, 20])
def test_a_file_and_a_very_narrow_terminal_get_each_line_whole(shown, columns):
    width = max(len(what) for what, _ in ROWS) + 2
    assert shown(common.print_rows, ROWS, columns).splitlines() == [what.ljust(width) + text for what, text in ROWS]
    assert shown(common.say_sentence, LONG, columns) == LONG + "\n"


def test_empty_lines_stay():
    assert broken("one\n\n  two", 40) == "one\n\n  two"
