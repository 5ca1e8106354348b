"""These tests start services, which take minutes on a busy machine, and seconds on another."""

from functools import cache
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items):
    """Give services time."""
    starts_services = cache(lambda path: Path(__file__).parent in path.parents)
    for item in items:
        if starts_services(item.path) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))
