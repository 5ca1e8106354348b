"""These tests start services, which take minutes on a busy machine, and seconds on another."""

from pathlib import Path

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Give services time, and begin with the twelve nights, which are minutes apart."""
    for item in items:
        if Path(__file__).parent in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))
    nights = [item for item in items if item.path.name == "test_nights.py"]
    items[:] = [item for item in items if item not in nights]
    for place, item in enumerate(nights):
        items.insert(place * len(items) // 4, item)  # four workers get a quarter each at first
