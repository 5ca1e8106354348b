"""What tests of the pipeline share."""

import tempfile
from pathlib import Path

import pytest

from blockveil.pipeline.report.papers import Picture


@pytest.fixture
def pictures_in_words(monkeypatch):
    """Pages with what pictures say in place of them: to draw them takes longer than all else of a small release."""
    monkeypatch.setattr(Picture, "address", lambda picture, theme: "data:,")


@pytest.fixture
def open_to_all():
    """A folder that every account may look into."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        for path in [Path(name), *Path(name).rglob("*")]:
            path.chmod(0o755)
