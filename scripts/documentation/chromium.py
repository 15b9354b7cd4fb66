"""The browser that tests and screenshots are made with: Chromium of the system, without a window.

Playwright drives it, and could bring one of its own; that would be a download of another kind than all others.
`scripts/install_browser` puts one there where there is none.
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
    """A browser, as long as the block runs; to be used in this thread alone.

    Raises:
        FileNotFoundError: There is none.
    """
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise FileNotFoundError("there is no Chromium: run scripts/install_browser")
    # Its sandbox needs what root in a container does not have.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
