"""These tests start services, which take minutes on a busy machine, and seconds on another."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    """Give services time."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))
