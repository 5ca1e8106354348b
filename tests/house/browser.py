"""Chromium for tests that look at pages: skipped where there is none, unless BLOCKVEIL_REQUIRE_BROWSER is set."""

import os
import shutil
from contextlib import contextmanager

import pytest

PATH = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

needed = pytest.mark.skipif(
    PATH is None and not os.environ.get("BLOCKVEIL_REQUIRE_BROWSER"),
    reason="there is no Chromium on the PATH; tests download none",
)


@contextmanager
def chromium():
    """A headless browser without its own sandbox, which root may not use."""
    from playwright.sync_api import sync_playwright

    if PATH is None:
        pytest.fail("BLOCKVEIL_REQUIRE_BROWSER is set and there is no Chromium on the PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PATH, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
