"""Which tests are taken for a file: those that import it, the nearest first, for so long as they take little."""

from pathlib import Path

import pytest

from tests.house import reach


def test_the_tests_of_a_file_come_before_those_that_reach_it_by_others():
    steps = reach.reached_by(Path("engine/estimates/shortening.py"))
    assert steps[Path("tests/engine/estimates/test_shortening.py")] == 1
    assert steps[Path("tests/pipeline/releases/test_learning_stages.py")] > 1
    taken, reaching = reach.nearest(Path("engine/estimates/shortening.py"))
    assert taken[0] == Path("tests/engine/estimates/test_shortening.py")
    assert len(taken) <= reaching == len(steps)


def test_a_file_of_tests_is_its_own_and_a_helper_is_that_of_those_who_take_it():
    assert reach.nearest(Path("tests/test_reach.py")) == ([Path("tests/test_reach.py")], 1)
    assert Path("tests/test_reach.py") in reach.nearest(Path("tests/house/reach.py"))[0]


def test_they_take_no_more_time_together_than_there_is_and_one_is_taken_whatever_it_takes():
    file = Path("engine/records/geometry.py")
    taken, reaching = reach.nearest(file, 1.0)
    assert 0 < len(taken) < reaching
    assert sum(map(reach.cost_of, taken)) <= 1.0
    assert len(reach.nearest(file, 0.0)[0]) == 1


def test_imports_are_found_in_brackets_within_functions_and_in_texts(tmp_path, monkeypatch):
    known = {f"blockveil.{name}": Path(name) for name in ("a", "a.b", "c", "d", "e", "f")}
    (tmp_path / "file.py").write_text(
        "from blockveil.a import (\n    b,\n    Other,\n)\nfrom blockveil.c import one, two\nimport blockveil.d\n\n"
        'def later():\n    from blockveil import e  # late\n\nWHERE = "blockveil.f:function"\n'
    )
    monkeypatch.setattr(reach, "ROOT", tmp_path)
    assert {*reach.imports(Path("file.py"), known)} >= known.keys()


@pytest.mark.parametrize("name", ["README.md", "engine/none.py", "/etc/passwd"])
def test_what_is_no_module_of_the_project_is_refused(name):
    with pytest.raises(SystemExit, match="is no module"):
        reach.main(name)
