"""Lines of keys: in every way of writing TOML the line is that on which a person finds the key."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.pipeline.base.errors import ConfigError
from blockveil.pipeline.config import toml_lines
from blockveil.pipeline.config.deployments_file import parse_deployments
from blockveil.pipeline.config.toml_lines import LineNumbers

TEXT = '''# a comment = with [brackets]
top = 1
[query]
kind = "covariance" # kind = "counts"
"quoted key" = 'a # b'
features = [
  { name = "a", lower = 0 },
  # { name = "not there" },
  { name = "b]", lower = [1,
     2], "upper" = """
three { lines """ },
]
dotted.key.of = 2026-11-22

[ query . geometry ]
kind = """box"""
[[columns]]
name = "a"
[[columns]]
name = "b"
[columns.deeper]
value = 1_000.5e3
[[columns.parts]]
x = true
[[columns.parts]]
x = false
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("query",), 3),
        (("query", "kind"), 4),
        (("query", "quoted key"), 5),
        (("query", "features"), 6),
        (("query", "features", 0, "lower"), 7),
        (("query", "features", 1), 9),
        (("query", "features", 1, "lower", 0), 9),
        (("query", "features", 1, "lower", 1), 10),
        (("query", "features", 1, "upper"), 10),
        (("query", "dotted", "key", "of"), 13),
        (("query", "geometry", "kind"), 16),
        (("columns", 0, "name"), 18),
        (("columns", 1), 19),
        (("columns", 1, "name"), 20),
        (("columns", 1, "deeper", "value"), 22),
        (("columns", 1, "parts", 0, "x"), 24),
        (("columns", 1, "parts", 1, "x"), 26),
    ],
)
def test_each_key_is_found_on_its_line(path, line):
    assert tomllib.loads(TEXT)
    assert LineNumbers(TEXT).line_of(path) == line


def test_what_is_not_there_is_on_the_line_of_what_would_hold_it():
    lines = LineNumbers(TEXT)
    assert lines.line_of(("query", "rows_at_most")) == 3
    assert lines.line_of(("query", "features", 0, "upper")) == 7
    assert lines.line_of(("privacy", "epsilon")) is None
    assert LineNumbers("").line_of(("query",)) is None


keys = st.one_of(st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True), st.just('"a b.[c]"'), st.just("'x = 1'"))
values = st.recursive(
    st.sampled_from(['"a"', "'#'", "1", "2026-11-22", '"""\n]\n"""', "'''\n}'''", r'"\"]"', "true", "inf"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: "[ # list\n" + ",\n".join(parts) + "\n]"),
        st.dictionaries(keys, inner, max_size=3).map(
            lambda pairs: "{ " + ", ".join(f"{key} = {value}" for key, value in pairs.items()) + " }"
        ),
    ),
    max_leaves=6,
)


@given(st.dictionaries(keys, values, min_size=1, max_size=4), st.lists(keys, max_size=3, unique=True))
def test_every_path_of_any_text_is_found_on_a_line_that_holds_its_key(pairs, tables):
    body = "\n".join(f"{key} = {value}" for key, value in pairs.items())
    text = body + "".join(f"\n\n[[table_of_its_own]]\n{key} = 1 # [[x]]" for key in tables)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # a line break within an inline table, or a key twice
    lines, written = LineNumbers(text), text.splitlines()

    def check(value, path):
        if path and isinstance(path[-1], str):
            line = lines._lines[path]
            assert path[-1] in written[line - 1]
        parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, part in parts:
            check(part, (*path, key))

    check(tree, ())


def test_lines_are_looked_for_only_where_something_is_wrong(tmp_path, monkeypatch):
    """Those of an ingest of many columns take as long as its parsing."""
    file, right, wrong = tmp_path / "deployments.toml", "[alerts]\nnotify = []\n", "[alerts]\n\nnotify = 1\n"
    file.write_text(wrong)
    with pytest.raises(ConfigError, match="line 3"):
        parse_deployments(tomllib.loads(wrong), file.name, file)
    monkeypatch.setattr(toml_lines, "LineNumbers", lambda _: pytest.fail("the lines of a file that is right"))
    file.write_text(right)
    assert parse_deployments(tomllib.loads(right), file.name, file).alerts.notify == ()
