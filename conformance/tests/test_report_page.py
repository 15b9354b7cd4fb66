"""Tests of the HTML report in a browser: its filters, its links, and its layout on a small screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from playwright.sync_api import expect
from scored_runs import IDS, RECOMMENDED, RULES, run_of, verdict

from documentation.chromium import chromium
from mcp_conformance.model.verdict import Outcome
from mcp_conformance.reports.html.page import html
from mcp_conformance.scoring.score import score

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Page

LONG = "x" * 3000
VERDICTS = (
    verdict(Outcome.FAILED, "first words", "ping.empty-result"),
    verdict(Outcome.FAILED, LONG, IDS[1]),
    verdict(Outcome.FAILED, "a warning", RECOMMENDED[0]),
    verdict(Outcome.NOT_TESTABLE, "untested", IDS[2]),
    verdict(Outcome.PASSED, check="jsonrpc.unknown-method"),
    # Many columns, so that the table is wider than a small screen.
    *(
        verdict(Outcome.NOT_APPLICABLE, check=IDS[2], revision=revision, transport=transport)
        for revision in ("2024-11-05", "2025-03-26", "2025-11-25")
        for transport in ("http", "stdio")
    ),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    run = attrs.evolve(run_of(*VERDICTS, target=LONG), implementation=f"weather {LONG}")
    path.write_text(html(score(run, RULES)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser_page() -> Iterator[Page]:
    with chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(60_000)
        expect.set_options(timeout=60_000)
        yield page


@pytest.fixture
def page(browser_page: Page, path: Path) -> Page:
    browser_page.set_viewport_size({"width": 1280, "height": 900})
    browser_page.goto("about:blank")
    browser_page.goto(path.as_uri())
    return browser_page


def shown(page: Page) -> list[str]:
    rows = page.locator("tr.check:visible summary > code")
    return rows.all_inner_texts()


@pytest.mark.parametrize(
    ("name", "value", "checks", "failures"),
    [
        ("status", "warning", [RECOMMENDED[0]], 1),
        ("status", "passed", ["jsonrpc.unknown-method"], 0),
        ("level", "should", [RECOMMENDED[0]], 1),
        ("area", "ping", ["ping.empty-result"], 1),
    ],
)
def test_filter_shows_matching_checks(page: Page, name: str, value: str, checks: list[str], failures: int) -> None:
    page.locator(f"select[name={name}]").select_option(value)
    assert shown(page) == checks
    assert page.locator("article:visible").count() == failures
    expect(page.locator("#shown")).to_have_text(f"{len(checks)} of 5 checks")
    assert page.locator("#no-failures").is_visible() == (not failures)
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#shown")).to_have_text("5 of 5 checks")
    assert len(shown(page)) == 5


def test_text_filter_finds_words_of_messages(page: Page) -> None:
    page.locator("input[name=text]").fill("WORDS first")
    assert page.locator("article:visible h3").all_inner_texts() == ["MUST ping.empty-result"]
    page.locator("input[name=text]").fill("ping.empty")
    assert shown(page) == ["ping.empty-result"]


def test_link_to_hidden_failure_shows_it(page: Page) -> None:
    page.locator("select[name=status]").select_option("passed")
    assert not page.locator("#f1").is_visible()
    page.evaluate("location.hash = '#f1-1'")
    expect(page.locator("#f1")).to_be_visible()
    expect(page.locator("#shown")).to_have_text("5 of 5 checks")


@pytest.mark.parametrize("width", [390, 1280])
def test_page_fits_the_screen(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_page_without_scripts_shows_everything(browser_page: Page, path: Path) -> None:
    browser = browser_page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert page.locator("tr.check:visible").count() == 5
    assert not page.locator("#filters").is_visible()
    context.close()
