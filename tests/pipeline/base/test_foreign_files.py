"""Files of strangers: what is no plain file is refused at once, and what two readers would understand differently."""

import os
import resource

import pytest

from blockveil.pipeline.base.foreign_files import NotPlain, parse_json, read_regular, regular_below


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_regular_file_is_refused_without_waiting(make, tmp_path):
    make(tmp_path / "file")
    with pytest.raises(NotPlain):
        read_regular(tmp_path / "file", 100)


def test_a_link_to_a_regular_file_is_refused(tmp_path):
    (tmp_path / "there").write_bytes(b"1")
    (tmp_path / "file").symlink_to("there")
    with pytest.raises(NotPlain):
        read_regular(tmp_path / "file", 100)
    with pytest.raises(NotPlain):
        list(regular_below(tmp_path))


def test_a_file_is_read_up_to_its_limit_and_no_further(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * 100)
    assert read_regular(tmp_path / "file", 100) == b"x" * 100
    with pytest.raises(NotPlain, match="more than 99 bytes"):
        read_regular(tmp_path / "file", 99)
    os.truncate(tmp_path / "file", 2**40)  # sparse: nothing of it is stored
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(NotPlain):
        read_regular(tmp_path / "file", 99)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**16


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b"[" * 65 + b"]" * 65,
        b"9" * 5_000,
        b'{"a": 1e999}',
        b'{"a": -Infinity}',
        b'{"a": NaN}',
        b'{"a": 1, "a": 2}',
        b'{"b": [{"a": 1, "\\u0061": 1}]}',
        b"{",
        b"\xff",
    ],
)
def test_a_text_that_readers_would_not_all_understand_alike_is_refused(text):
    with pytest.raises(ValueError, match=r"nested|digits|finite|twice|Expecting|decode"):
        parse_json(text)


def test_what_a_release_states_is_read_as_it_is():
    assert parse_json(b'{"a": [1, 2.5, -0.0, null, true, "\\u00fc"], "b": {"a": {}}}') == {
        "a": [1, 2.5, 0.0, None, True, "ü"],
        "b": {"a": {}},
    }
