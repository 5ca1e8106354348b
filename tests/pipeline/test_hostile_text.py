"""Texts, numbers and paths of a config that would steer a terminal or page, or that no file system could hold."""

import html
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blockveil.engine.guarantees.guarantee import Neighbours
from blockveil.pipeline.base.errors import BlockveilError, ConfigError, StoreError
from blockveil.pipeline.base.printable import as_code, as_html, as_markdown, is_hidden, one_line, printable, short
from blockveil.pipeline.budget.event_files import read_events
from blockveil.pipeline.config import load_config
from blockveil.pipeline.config.deployments_file import load_deployments
from blockveil.pipeline.config.ingest_file import load_ingest
from blockveil.pipeline.config.toml import parse_toml
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.report import write_report
from blockveil.pipeline.report.markdown import text_of
from tests.house import support
from tests.pipeline.data.ingest import ingest_support as people
from tests.pipeline.releases import test_release as releases

HOSTILE = "](javascript:alert(1)) <img src=x onerror=alert(1)> `x` | $\\frac{ ![a](http://x) &lt; *b* # $"
"""A privacy unit that would be a link, an image, code, a cell and a formula."""

STEERING = ["\x1b[31mred", "\x9b31m", "a\x08b", "a\rb", "\u202egpj.exe", "\u2066hidden\u2069", "\x7f", "a\u200bb"]


def refused(read, *args):
    with pytest.raises(BlockveilError) as caught:
        read(*args)
    message = str(caught.value)
    assert len(message) < 400
    assert not any(map(is_hidden, message.replace("\n", "")))
    return caught.value


@pytest.fixture
def config(tmp_path):
    return support.write_config(tmp_path)


class TestNumbers:
    """A whole number that Python or 64 bits cannot hold is named, not met as a ValueError."""

    @pytest.mark.parametrize("number", ["9" * 5000, "0x" + "f" * 5000, "1_000" * 2000, str(2**63), str(-(2**63) - 1)])
    def test_a_number_of_too_many_digits_is_refused_in_every_file(self, tmp_path, config, number):
        config.write_text(config.read_text().replace("10_000", number))
        (tmp_path / "deployments.toml").write_text(f"late = {number}\n")
        for read, file in (
            (load_config, config),
            (load_ingest, config),
            (read_events, config),
            (load_deployments, tmp_path),
        ):
            assert "number" in refused(read, file).value

    def test_a_number_of_too_many_digits_is_refused_in_an_override(self, config):
        assert "override" in refused(load_config, config, {"query.rows_at_most": "9" * 5000}).value

    def test_deep_tables_are_refused(self, config):
        config.write_text("a" + ".a" * 40 + " = 1\n")
        assert "deep" in refused(load_config, config).value
        config.write_text("a = " + "[" * 100_000)
        assert "deep" in refused(load_config, config).value


class TestText:
    """Control characters never come from a config to a terminal, a log or a page."""

    @pytest.mark.parametrize("text", STEERING)
    @pytest.mark.parametrize("place", ["unit = ", "root = ", "added = ", "store = "])
    def test_a_value_that_steers_is_refused_by_its_key(self, config, place, text):
        lines = [
            f"{place}{json.dumps(text)}" if line.startswith(place) else line for line in config.read_text().splitlines()
        ]
        config.write_text("\n".join(lines) if place != "added = " else config.read_text() + place + json.dumps(text))
        assert "control character" in refused(load_config, config).value

    @pytest.mark.parametrize("text", STEERING)
    def test_a_key_that_steers_is_refused(self, config, text):
        config.write_text(config.read_text() + f"{json.dumps(text)} = 1\n")
        assert "control character" in refused(load_config, config).value

    @pytest.mark.parametrize("text", ["a\nb", "a\tb"])
    def test_a_path_has_no_line_break_or_tab(self, config, text):
        config.write_text(config.read_text().replace('"releases"', json.dumps(text)))
        assert "output.root" in refused(load_config, config).value

    def test_a_character_between_fields_may_be_any(self):
        assert parse_toml(b'[source]\ndelimiter = "\\u0001"', "x")["source"]["delimiter"] == "\x01"

    def test_an_error_shows_no_control_character_and_no_endless_word(self):
        error = StoreError("\x1b[31m" + "x" * 5000, "a\u202eb", "c\x9b")
        assert "\\u001b[31m" in str(error)
        assert not any(map(is_hidden, str(error).replace("\n", "")))
        assert len(str(error)) < 200


class TestPaths:
    """A path that no file system can hold, or that leads in a circle, is refused in words wherever one is written."""

    KEYS = ("data.store", "output.root", "output.ledger", "output.keys", "output.lineage")

    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.parametrize("path", ["loop", "loop/below", "x" * 300, "é" * 130, "a/" * 2500, "\ud800"])
    def test_it_is_refused_when_the_config_is_read(self, tmp_path, config, key, path):
        (tmp_path / "loop").symlink_to("loop")
        if path == "\ud800":  # only a form can give it: TOML is UTF-8
            path = "x" * 256
        refusal = refused(load_config, config, {key: json.dumps(path)})
        assert isinstance(refusal, ConfigError)
        assert refusal.value.startswith(key)

    def test_a_config_or_folder_of_configs_may_be_such_a_path(self, tmp_path):
        (tmp_path / "loop.toml").symlink_to("loop.toml")
        for read in (load_config, load_ingest, load_deployments, read_events):
            for name in ("loop.toml", "x" * 300 + ".toml", "loop.toml/a.toml", "\0", "\ud800.toml"):
                refused(read, tmp_path / name)

    @pytest.mark.parametrize("name", ["loop", "x" * 300, "loop/a.db"])
    def test_a_ledger_may_be_such_a_path(self, tmp_path, name):
        (tmp_path / "loop").symlink_to("loop")
        budget = ("people", 1.0, 1e-6, Neighbours.ADD_REMOVE, "one person")
        refused(lambda: Ledger(f"sqlite:///{tmp_path / name}").set_budget(*budget))

    @pytest.mark.parametrize("kind", ["csv", "npy", "zarr"])
    @pytest.mark.parametrize("name", ["loop", "loop/x", "x" * 300])
    def test_a_source_may_be_such_a_path(self, tmp_path, kind, name):
        (tmp_path / "loop").symlink_to("loop")
        names = "" if kind == "csv" else '\nnames = ["cost"]'
        source = f'kind = "{kind}"\nfiles = ["{name}"]{names}'
        loaded = people.configure(tmp_path, [people.NUMBER], source)
        assert "source.files" in refused(people.run, loaded).value

    @pytest.mark.parametrize("name", ["loop", "loop/x", "x" * 300])
    def test_a_store_to_make_may_be_such_a_path(self, tmp_path, name):
        (tmp_path / "loop").symlink_to("loop")
        caught = refused(lambda: people.configure(tmp_path, [people.NUMBER], store=name))
        assert "ingest.store" in caught.value


class TestPages:
    """Free text is shown as it is, never as markup."""

    def test_a_hostile_unit_is_text_in_the_report_and_on_the_run_page(self, tmp_path):
        path = support.write_config(tmp_path)
        unit = json.dumps(HOSTILE)
        names = path.read_text().replace('"one person (one row)"', unit).replace('name = "debt"', f"name = {unit}")
        path.write_text(names)
        support.write_records(tmp_path, support.records())
        loaded = load_config(path)
        support.set_budget(loaded)
        outcome = releases.run(loaded)
        made = write_report(outcome.path)
        page = made.path.read_text()
        assert html.escape(HOSTILE) in page
        assert "<img src=x" not in page
        told = [text_of(each) for each in made.sections]
        for text in (made.summary, *told):
            assert not re.search(r"(?<!\\)(\]\(javascript|<img src|`x|!\[a|\*b|&lt;)", text)
        assert as_markdown(HOSTILE) in "".join(told)

    def test_markup_loses_its_meaning(self):
        assert as_markdown("[a](javascript:b)\n|`c`") == "\\[a\\](javascript:b) \\|\\`c\\`"
        assert as_html('<a href="x">\x1b') == "&lt;a href=&quot;x&quot;&gt;\\u001b"
        assert as_code("a`b\nc") == "`a'b\\u000ac`"


@pytest.mark.parametrize("code", [0x00, 0x1B, 0x7F, 0x9B, 0xAD, 0x200B, 0x2028, 0x2029, 0x202E, 0x2066, 0xD800, 0xFEFF])
def test_what_acts_on_a_terminal_or_on_text_around_it_is_written_out(code):
    assert one_line(f"a{chr(code)}b") == f"a\\u{code:04x}b"


@given(st.text())
def test_printable_text_keeps_what_can_be_seen_and_json_its_values(text):
    shown = one_line(text)
    assert not any(map(is_hidden, shown))
    assert "".join(sign for sign in text if not is_hidden(sign)) == shown or any(map(is_hidden, text))
    quoted = json.dumps(text, ensure_ascii=False)
    assert json.loads(printable(quoted)) == text


@given(st.text(), st.integers(10, 60))
def test_short_text_is_short_and_whole_where_it_fits(text, longest):
    assert len(short(text, longest)) <= longest
    assert short(text, max(longest, len(text))) == text
