"""What tests of the pipeline share."""

import tempfile
from pathlib import Path

import pytest

from blockveil.pipeline.report import halves, markup, site_index


@pytest.fixture
def pictures_in_words(monkeypatch):
    """Pages with what pictures say in place of them: to draw them takes longer than all else of a small release."""

    def in_words(picture, caption=""):
        return f'<img alt="{markup.as_html(picture.text)}">{caption}'

    monkeypatch.setattr(markup, "figure", in_words)
    for module in (halves, site_index):
        monkeypatch.setattr(module, "figure", in_words)


@pytest.fixture
def open_to_all():
    """A folder that every account may look into."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        for path in [Path(name), *Path(name).rglob("*")]:
            path.chmod(0o755)
