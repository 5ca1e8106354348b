"""Examples in docstrings, which people copy, print what they say."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ("engine", "pipeline", "flows")
WITH_EXAMPLES = [
    path.relative_to(ROOT).with_suffix("")
    for layer in LAYERS
    for path in sorted((ROOT / layer).rglob("*.py"))
    if ">>> " in path.read_text()
]


def test_there_are_examples():
    assert len(WITH_EXAMPLES) >= 3


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=str)
def test_examples_print_what_they_say(path):
    module = importlib.import_module(f"blockveil.{'.'.join(path.parts)}")
    done = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert done.attempted > 0
    assert done.failed == 0
