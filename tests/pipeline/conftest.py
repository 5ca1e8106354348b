"""What tests of the pipeline share."""

import pytest

from blockveil.pipeline.report import page


@pytest.fixture
def pictures_in_words(monkeypatch):
    """Pages with what pictures say in place of them: to draw them takes longer than all else of a small release."""
    monkeypatch.setattr(page, "figure", lambda picture: f'<img alt="{page.as_html(picture.text)}">')
