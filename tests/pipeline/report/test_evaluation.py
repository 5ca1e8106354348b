"""The table by the levels of NIST SP 800-226: answers name a source that is there, unknown ones are blanks."""

from pathlib import Path

from blockveil.pipeline.config.disclosure_file import Disclosure
from blockveil.pipeline.report import evaluation
from tests.house import support
from tests.pipeline.report.test_own_units import found, people

__all__ = ["found", "people"]
ROOT = Path(__file__).resolve().parents[3]


def names_a_source(source, attributes):
    """Whether a source is there: the ledger, a page of the project, a key of a disclosure or keys of the release."""
    if source == evaluation.LEDGER:
        return True
    if source.startswith(evaluation.PAGE):
        return (ROOT / source.removeprefix(evaluation.PAGE)).is_file()
    if source.startswith(evaluation.DISCLOSURE):
        return source.removeprefix(evaluation.DISCLOSURE) in Disclosure.model_fields
    for key in source.removesuffix(", if true").split(", "):
        table = {"computed_in_clear": False, **attributes}
        for part in key.split("."):
            if part not in table:
                return False
            table = table[part]
    return True


def test_each_answer_names_a_source_that_is_there(found):
    for each in evaluation.answers(found):
        assert each.answer, each.asked
        assert names_a_source(each.source, found.attributes), each.asked
    for absent in ("guarantee.absent", "page: docs/absent.md", "disclosure: absent", "absent"):
        assert not names_a_source(absent, found.attributes)


def test_what_only_a_curator_knows_is_a_blank_and_nothing_else_is(found):
    for each in evaluation.answers(found):
        assert (each.answer == evaluation.BLANK) == each.source.startswith(evaluation.DISCLOSURE)
        of_the_ledger = each.source == evaluation.LEDGER
        assert each.answer.startswith("blank") <= (each.source.startswith(evaluation.DISCLOSURE) or of_the_ledger)
    assert [each.level for each in evaluation.answers(found)] == sorted(
        (each.level for each in evaluation.answers(found)), key=["Guarantee", "Security", "Collection"].index
    )


def test_the_numbers_are_those_of_the_release(found, monkeypatch):
    promise = found.attributes["guarantee"]
    said = {each.asked: each.answer for each in evaluation.answers(found)}
    assert said["Privacy parameters"] == f"epsilon {promise['epsilon']:g} at delta {promise['delta']:g}"
    assert f"{promise['loss']['total_variation']:.2g}" in said["Implementation"]
    assert "encrypted" in said["Records on their way"]
    monkeypatch.setitem(found.attributes, "computed_in_clear", True)
    assert "not encrypted" in {each.asked: each.answer for each in evaluation.answers(found)}["Records on their way"]


def test_the_page_has_the_table(found):
    assert "Evaluation by the levels of NIST SP 800-226" in support.page_of(found, [], "folder")
