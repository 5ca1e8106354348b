"""The list of mechanisms names exactly what their files declare."""

from importlib import import_module
from pathlib import Path

import pytest

import blockveil.engine.mechanisms
from blockveil.engine.mechanisms import studied
from blockveil.engine.mechanisms.registry import FILES, declarations, declared

ROOM = Path(blockveil.engine.mechanisms.__file__).parent


def declaring():
    """Module below the room of every file that declares mechanisms."""
    files = [path for path in sorted(ROOM.rglob("*.py")) if "\nDECLARED = (" in path.read_text()]
    return [".".join(path.relative_to(ROOM).with_suffix("").parts) for path in files]


def test_every_file_that_declares_mechanisms_is_listed_and_every_listed_file_declares_them():
    assert set(declaring()) == set(FILES.values())


@pytest.mark.parametrize("module", declaring())
def test_a_file_declares_the_mechanisms_that_are_listed_for_it(module):
    found = import_module(f"{blockveil.engine.mechanisms.__name__}.{module}").DECLARED
    assert [each.name for each in found] == [name for name, file in FILES.items() if file == module]


@pytest.mark.parametrize("declaration", declarations(), ids=lambda each: each.name)
def test_what_a_config_may_name_says_how_it_is_made_and_how_it_is_audited(declaration):
    assert bool(declaration.audited) != bool(declaration.audit_cases)
    assert (declaration.entry.use == "release") == (declaration.mechanism is not None) == bool(declaration.form)
    if declaration.mechanism is not None:
        assert declaration.mechanism.name == declaration.name
        assert all(type(each) is declaration.mechanism for each in declaration.audited)
        assert all(parameter.key and parameter.values is not None for parameter in declaration.parameters)


def test_what_is_only_studied_cannot_be_made():
    assert all(each.mechanism is None for each in studied.DECLARED)
    with pytest.raises(TypeError, match="r1smg is not released; a config names another mechanism"):
        declared("r1smg").built()
    assert declared("no such mechanism") is None
