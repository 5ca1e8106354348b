"""Texts divide records by a declared list: two spellings of one record are never two parts that are charged once."""

import json
import os

import pyarrow as pa
import pytest

from blockveil.engine.guarantees.guarantee import Loss, Neighbours
from blockveil.pipeline.base.errors import BudgetExhausted, ConfigError, DataError, LedgerError
from blockveil.pipeline.base.printable import visible
from blockveil.pipeline.base.spelling import alike, is_canonical
from blockveil.pipeline.budget.filter import Ticks
from blockveil.pipeline.budget.parts import Part, Tally
from blockveil.pipeline.ledger import Ledger
from blockveil.pipeline.ledger.statement import _note
from tests.pipeline.budget.test_parts import DATES, UNIT, keep, load, release, status
from tests.pipeline.data.ingest import ingest_support as people

WARDS = ["emergency", "surgery"]
CONFUSABLE = [
    "emergency\ufe0f", "emergency\u034f", "emer\u3164gency", "\u2800emergency", "\u0301emergency", "emergency\u00ad",
    "Emergency", "EMERGENCY", "еmergency", "emergenсy", "ｅmergency", "emergency ",
    "emerg\u200dency", "emergency\U000e0100",
]  # fmt: skip
"""Texts that a reader takes for the first ward, or may."""


@pytest.mark.parametrize("text", CONFUSABLE)
def test_two_texts_of_a_list_that_a_reader_may_take_for_one_are_refused(tmp_path, text):
    for values in ([*WARDS, text], [text, *WARDS]):
        with pytest.raises(ConfigError, match=r"ingest\.partition") as refused:
            keep(tmp_path, "surgery", "ward", kind="text", values=values)
        assert text not in str(refused.value) or is_canonical(text.strip(), "text")


@pytest.mark.parametrize("pair", [("a b", "a  b"), ("Ä", "ä"), ("ﬁ", "fi"), ("A", "А"), ("Ο", "O"), ("e", "e")])
def test_letters_of_two_alphabets_cases_and_blanks_are_confusable(tmp_path, pair):
    assert alike(pair[0]) == alike(pair[1])
    with pytest.raises(ConfigError, match="take one for the other"):
        keep(tmp_path, pair[0], "ward", kind="text", values=pair)


@pytest.mark.parametrize(
    "only",
    [
        {"type": "text", "equals": "emergency"},
        {"type": "text", "equals": "emergency", "values": []},
        {"type": "text", "equals": "Emergency", "values": WARDS},
        {"type": "text", "equals": "emergency\ufe0f", "values": WARDS},
        {"type": "whole", "equals": 7, "values": ["7"]},
        {"type": "date", "equals": "2026-11-20", "values": ["2026-11-20"]},
    ],
)
def test_a_text_is_one_of_a_declared_list_and_other_types_have_none(tmp_path, only):
    with pytest.raises(ConfigError, match=r"ingest\.partition"):
        people.configure(tmp_path, people.COLUMNS[:2], partition={"column": "ward", **only})


def table(ward, more=0):
    visits = people.visits(200)
    rows = pa.table({"cost": visits["cost"], "stay": visits["stay"], "ward": [ward] * visits.num_rows})
    return pa.concat_tables([rows, rows.slice(0, more)])


@pytest.fixture
def wards(tmp_path):
    loaded = load(tmp_path, partition_by=', partition_by = "ward"')
    Ledger(loaded.ledger_url).set_budget("people", 1.0, 1e-9, Neighbours.ADD_REMOVE, UNIT)
    return tmp_path, loaded


def test_records_that_are_exported_in_two_spellings_are_released_once(wards):
    """The second export has one record more, so no fingerprint tells that the others are the same."""
    folder, loaded = wards
    people.write_parquet(folder, table("emergency"))
    keep(folder, "emergency", "ward", kind="text", values=WARDS)
    release(loaded, DATES[0])
    people.write_parquet(folder, table("emergency\ufe0f", more=1))
    with pytest.raises(DataError, match="holds another spelling"):
        keep(folder, "emergency", "ward", kind="text", values=WARDS)
    for other in ("Emergency", "еmergency"):
        people.write_parquet(folder, table(other, more=1))
        with pytest.raises(ConfigError, match="take one for the other"):
            keep(folder, other, "ward", kind="text", values=[*WARDS, other])
        # Under a list of its own it is a part of another column, whose charge adds up.
        keep(folder, other, "ward", kind="text", values=[other])
        with pytest.raises(BudgetExhausted):
            release(loaded, DATES[1])
    assert status(loaded).charges == 1


def test_the_store_and_the_ledger_pin_the_list_whatever_its_order(wards):
    folder, loaded = wards
    people.write_parquet(folder, pa.concat_tables([table("emergency"), table("surgery", more=1)]))
    keep(folder, "emergency", "ward", kind="text", values=WARDS)
    release(loaded, DATES[0])
    keep(folder, "surgery", "ward", kind="text", values=WARDS[::-1])
    release(loaded, DATES[1])
    assert status(loaded).spent_epsilon == pytest.approx(1.0), "one of each ward"
    first, second = (one for one in Ledger(loaded.ledger_url).history() if one.kind == "RESERVED")
    assert first.of_part.listed == second.of_part.listed
    assert first.payload["spec"]["data"]["listed"] == first.of_part.listed
    assert json.loads(first.part)[2:4] == ["emergency", "text"]


def test_parts_of_two_lists_are_parts_of_two_columns():
    tally, one = Tally(), Ticks.of(Loss(0.1, 0.0, 0.0))
    tally.add(one, Part("d", "ward", "a", "text", "1" * 64))
    tally.add(one, Part("d", "ward", "b", "text", "1" * 64))
    assert tally.total.ticks == one
    tally.add(one, Part("d", "ward", "a", "text", "2" * 64))
    assert tally.total.ticks == one + one


@pytest.mark.parametrize(
    "fields", [["d", "w", "a", "text"], ["d", "w", "7", "whole", "1"], ["d", "w", "a\ufe0f", "text", "1"]]
)
def test_a_part_that_nobody_can_have_charged_stands_for_all_records(fields):
    assert Part.read(json.dumps(fields, separators=(",", ":"))) is None


@pytest.mark.parametrize("text", [text for text in CONFUSABLE if text.casefold() != "emergency" and text.isprintable()])
def test_what_nobody_sees_is_shown_as_an_escape(text):
    if any(sign in "еｅс" for sign in text) or text.strip() != text:
        return  # these are seen
    assert "\\u" in visible(text)
    assert "\\u" in Part("d", "ward", text, "text", "1").words


def test_the_statement_of_a_ledger_shows_what_is_invisible(wards):
    folder, loaded = wards
    people.write_parquet(folder, table("emergency").rename_columns(["cost", "stay", "wa\u00a0rd"]))
    keep(folder, "emergency", "wa\u00a0rd", kind="text", values=WARDS)
    release(load(folder, partition_by=', partition_by = "wa\u00a0rd"'), DATES[0])
    notes = [_note(entry) for entry in Ledger(loaded.ledger_url).history() if entry.kind == "RESERVED"]
    assert notes == ["of wa\\u00a0rd = emergency"]


class TestAListInAFile:
    """The same list is the same part, wherever it stands."""

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("wards.txt", b"surgery\nemergency\n"),
            ("wards.list", "\ufeffemergency\r\nsurgery\r\n\r\n".encode()),
            ("wards.csv", b"ward\nemergency\nsurgery\n"),
            ("wards.CSV", b'beds,ward\r\n7,"emergency"\r\n8,surgery\r\n'),
            ("wards.csv", b"name\nemergency\nsurgery"),
        ],
    )
    def test_it_is_charged_as_the_list_that_a_config_has(self, wards, name, content):
        folder, loaded = wards
        Ledger(loaded.ledger_url).set_budget("people", 3.0, 1e-9, Neighbours.ADD_REMOVE, UNIT)
        people.write_parquet(folder, table("emergency"))
        keep(folder, "emergency", "ward", kind="text", values=WARDS)
        release(loaded, DATES[0])
        (folder / "lists").mkdir()
        (folder / "lists" / name).write_bytes(content)
        keep(folder, "emergency", "ward", kind="text", values=f"lists/{name}")
        release(loaded, DATES[1])
        parts = {entry.part for entry in Ledger(loaded.ledger_url).history() if entry.kind == "RESERVED"}
        assert len(parts) == 1

    def test_a_file_that_changes_is_another_list(self, wards):
        folder, loaded = wards
        people.write_parquet(folder, table("emergency"))
        for number, content in enumerate(("emergency\nsurgery\n", "emergency\nsurgery\nother\n")):
            (folder / "wards.txt").write_text(content)
            keep(folder, "emergency", "ward", kind="text", values="wards.txt")
            if number == 0:
                release(loaded, DATES[0])
        with pytest.raises(LedgerError, match="were charged as ward = emergency"):
            release(loaded, DATES[1])

    def test_a_link_as_in_a_mounted_volume_is_followed(self, tmp_path):
        people.write_parquet(tmp_path, table("emergency"))
        (tmp_path / "..data").mkdir()
        (tmp_path / "..data" / "wards.txt").write_text("emergency\nsurgery\n")
        (tmp_path / "wards.txt").symlink_to("..data/wards.txt")
        keep(tmp_path, "emergency", "ward", kind="text", values="wards.txt")
        assert len(people.stored(tmp_path)) == 200

    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            ("gone.txt", None, "cannot be read"),
            ("a\u200bb", None, "a control character or a mark"),
            ("wards.txt", b"caf\xe9\n", "is not UTF-8"),
            ("wards.txt", b"", "values"),
            ("wards.txt", b"emergency\nsurgery \n", r"values\[1\] = \"surgery \""),
            ("wards.txt", b"emergency\nsurgery\rother\n", r"surgery\\rother"),
            ("wards.txt", "emergency\nsurg\u200bery\n".encode(), r"surg\\u200bery"),
            ("wards.txt", "emergency\nemergency\ufe0f\n".encode(), r"emergency\\ufe0f"),
            ("wards.txt", b"emergency\nemergency\n", "take one for the other"),
            ("wards.txt", b"surgery\n", "It is one of values"),
            ("wards.txt", b"\n".join(b"%d" % number for number in range(100_001)), "100000"),
            ("wards.txt", b"x" * (16 * 2**20 + 1), "more than 16,777,216 bytes"),
            ("wards.csv", b"a,b\nemergency,surgery\n", 'has no column "ward"'),
            ("wards.csv", b"", 'has no column "ward"'),
            ("wards.csv", b'ward\n"emergency', 'has no column "ward"'),
            ("wards.csv", b"ward,ward\nemergency,surgery\n", "is no table"),
            ("wards.csv", b"ward\nemergency\nsurgery,other\n", "is no table"),
        ],
    )
    def test_what_is_no_list_is_refused_in_words_with_invisible_signs_as_escapes(self, tmp_path, name, content, said):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match=said) as refused:
            people.configure(tmp_path, people.COLUMNS[:2], partition={**ONLY, "values": name})
        assert not {"\u200b", "\ufe0f"} & set(str(refused.value))

    def test_neither_a_pipe_nor_a_folder_is_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "wards.txt")
        (tmp_path / "folder").mkdir()
        for name in ("wards.txt", "folder", "/dev/zero"):
            with pytest.raises(ConfigError, match="cannot be read"):
                people.configure(tmp_path, people.COLUMNS[:2], partition={**ONLY, "values": name})


ONLY = {"column": "ward", "type": "text", "equals": "emergency"}
