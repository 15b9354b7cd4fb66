"""The browser for tests and screenshots: the system's Chromium, headless.

Playwright controls it. Its own browser would be a download from another source than all others; `scripts/install_browser`
installs the system's.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

__all__ = ["chromium"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a browser for the duration of the block; use it only in this thread.

    Raises:
        FileNotFoundError: Chromium is missing.
    """
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise FileNotFoundError("Chromium is missing: run scripts/install_browser")
    # Its sandbox needs privileges that root in a container does not have.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
