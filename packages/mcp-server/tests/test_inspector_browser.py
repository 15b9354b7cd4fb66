"""The inspector of `mcp-server dev` in a real browser."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import attrs
import pytest
from dev_command import TIMEOUT, DevCommand, run_dev

from documentation.chromium import chromium
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(600)]

SOURCE: Final = (Path(__file__).parent / "inspected_server.py").read_text()
ELICITING: Final = ("2025-06-18", "2025-11-25", "2026-07-28")


@attrs.frozen
class InspectorTestbed:
    """The command and a page of its inspector, without errors on the console so far."""

    command: DevCommand
    url: str
    page: Page
    console: list[str]

    def connect(self, revision: str = "2026-07-28") -> Page:
        """Open the page and connect in a revision."""
        self.page.goto(self.url)
        self.status("Connected")
        if revision != "2026-07-28":
            self.page.get_by_label("Revision").select_option(revision)
            self.page.get_by_text(f"connecting, revision {revision}").wait_for()
            self.status("Connected")
        return self.page

    def status(self, text: str) -> None:
        self.page.locator("#status-text").filter(has_text=text).wait_for()

    def open_tool(self, name: str) -> Page:
        self.page.locator(".entry", has=self.page.get_by_text(name, exact=True)).click()
        return self.page

    def call(self) -> None:
        self.page.get_by_role("button", name="Call", exact=True).click()

    @property
    def result(self) -> Locator:
        return self.page.get_by_role("region", name="Result", exact=True)

    def wait_for_result(self, text: str) -> None:
        self.result.get_by_text(text).first.wait_for()

    def messages(self) -> list[dict[str, object]]:
        """Return the messages that the page shows."""
        texts: list[str] = self.page.locator("#panel-messages pre").evaluate_all("all => all.map(e => e.textContent)")
        return [json.loads(text) for text in texts]

    def resize(self, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": 800})


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def shared_command(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DevCommand, str]]:
    """A command for the tests that do not change the file."""
    with run_dev(tmp_path_factory.mktemp("dev"), SOURCE) as command:
        url = command.wait_for("inspector: (.*)")[1]
        command.wait_for("weather 1.0 is served")
        yield command, url


@pytest.fixture
def testbed(browser: Browser, shared_command: tuple[DevCommand, str]) -> Iterator[InspectorTestbed]:
    yield from open_testbed(browser, *shared_command)


@pytest.fixture
def own_testbed(browser: Browser, tmp_path: Path) -> Iterator[InspectorTestbed]:
    """A command for a test that changes the file."""
    with run_dev(tmp_path, SOURCE) as command:
        url = command.wait_for("inspector: (.*)")[1]
        yield from open_testbed(browser, command, url)


def open_testbed(browser: Browser, command: DevCommand, url: str) -> Iterator[InspectorTestbed]:
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(TIMEOUT * 1_000)
    console: list[str] = []
    page.on("console", lambda message: console.append(message.text))
    page.on("pageerror", lambda error: console.append(str(error)))
    yield InspectorTestbed(command, url, page, console)
    context.close()


# --- lists and calls --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
def test_inspector_lists_and_calls_in_each_revision(testbed: InspectorTestbed, revision: str) -> None:
    page = testbed.connect(revision)
    assert page.get_by_role("heading", level=1).inner_text() == "weather 1.0"
    testbed.open_tool("forecast")
    page.get_by_label("city").fill("Ghent")
    testbed.call()
    testbed.wait_for_result("Ghent: 3 days of sun")

    page.get_by_role("tab", name="Resources").click()
    testbed.open_tool("weather://units")
    page.get_by_role("button", name="Read").click()
    testbed.wait_for_result('{"temperature":"C"}')
    testbed.open_tool("weather://stations/{id}")
    page.get_by_label("id", exact=True).fill("a b")
    page.get_by_role("button", name="Read").click()
    testbed.wait_for_result("station a b")

    page.get_by_role("tab", name="Prompts").click()
    testbed.open_tool("travel")
    page.get_by_label("city").fill("Ghent")
    page.get_by_role("button", name="Get").click()
    testbed.wait_for_result("Plan a trip to Ghent in summer.")

    sent = [message for message in testbed.messages() if message.get("method") == "tools/call"]
    assert len(sent) == 1
    handshakes = [each["params"] for each in testbed.messages() if each.get("method") == "initialize"]
    spoken = [each["protocolVersion"] for each in handshakes if isinstance(each, dict)]
    assert spoken[-1:] == ([] if revision == "2026-07-28" else [revision])
    assert testbed.console == []


def test_inspector_form_sends_nested_arguments_and_reports_what_is_missing(testbed: InspectorTestbed) -> None:
    page = testbed.connect()
    testbed.open_tool("plan")
    testbed.call()
    city = page.get_by_label("city")
    assert city.get_attribute("aria-invalid") == "true"
    assert city.evaluate("field => field === document.activeElement")
    assert page.locator(".problem:visible").all_inner_texts() == ["Enter a value.", "Enter a value."]
    city.fill("Ghent")
    page.get_by_label("kind").select_option("bicycle")
    page.get_by_label("days").fill("two")
    testbed.call()
    assert page.locator(".problem:visible").all_inner_texts() == ["Enter a number."]
    page.get_by_label("days").fill("2")
    page.get_by_label("stops").fill('["Aalst"]')
    testbed.call()
    testbed.wait_for_result("Done in")
    (sent,) = [message for message in testbed.messages() if message.get("method") == "tools/call"]
    assert isinstance(sent["params"], dict)
    trip = {"city": "Ghent", "kind": "bicycle", "days": 2, "stops": ["Aalst"]}
    assert sent["params"]["arguments"] == {"trip": trip}
    assert page.get_by_role("region", name="Structured content").count() == 1


def test_inspector_json_editor_sends_arguments_that_the_server_rejects(testbed: InspectorTestbed) -> None:
    page = testbed.connect()
    testbed.open_tool("forecast")
    page.get_by_label("city").fill("Ghent")
    page.get_by_role("button", name="Edit as JSON").click()
    editor = page.get_by_label("Arguments, as JSON")
    assert json.loads(editor.input_value()) == {"city": "Ghent", "days": 3}
    editor.fill('{"city": ')
    testbed.call()
    page.get_by_text("This is not JSON").wait_for()
    editor.fill('{"city": "Ghent", "days": "many"}')
    editor.press("Control+Enter")
    testbed.wait_for_result("The tool failed")
    assert "days" in testbed.result.inner_text()
    editor.fill('{"city": "Turin", "days": 1}')
    page.get_by_role("button", name="Edit as JSON").click()
    assert page.get_by_label("city").input_value() == "Turin"


def test_inspector_text_arguments_are_completed(testbed: InspectorTestbed) -> None:
    page = testbed.connect()
    page.get_by_role("tab", name="Prompts").click()
    testbed.open_tool("travel")
    page.get_by_label("city").press_sequentially("G")
    page.locator("datalist option[value=Geneva]").wait_for(state="attached")
    values = page.locator("datalist option").evaluate_all("all => all.map(each => each.value)")
    assert values == ["Ghent", "Geneva"]


def test_inspector_call_is_cancelled(testbed: InspectorTestbed) -> None:
    for revision in ("2025-11-25", "2026-07-28"):
        page = testbed.connect(revision)
        testbed.open_tool("wait")
        testbed.call()
        page.get_by_role("button", name="Cancel the request").click()
        testbed.wait_for_result("Cancelled.")
        # The connection still works.
        testbed.open_tool("forecast")
        page.get_by_label("city").fill("Ghent")
        testbed.call()
        testbed.wait_for_result("Ghent: 3 days of sun")


# --- requests of the server -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ELICITING)
def test_inspector_answers_elicitation_by_form(testbed: InspectorTestbed, revision: str) -> None:
    page = testbed.connect(revision)
    for answer, result in (("Accept", "booked Turin"), ("Decline", "nothing booked")):
        testbed.open_tool("book")
        testbed.call()
        request = page.get_by_role("region", name="The server asks for input")
        request.wait_for()
        assert request.get_by_role("heading").evaluate("heading => heading === document.activeElement")
        request.get_by_text("Which trip do you want?").wait_for()
        if answer == "Accept":
            request.get_by_role("button", name="Accept").click()
            assert request.locator(".problem:visible").count() == 2
            request.get_by_label("city").fill("Turin")
            request.get_by_label("kind").select_option("train")
        request.get_by_role("button", name=answer).click()
        testbed.wait_for_result(result)


@pytest.mark.parametrize("revision", ELICITING[1:])
def test_inspector_answers_elicitation_by_url(testbed: InspectorTestbed, revision: str) -> None:
    page = testbed.connect(revision)
    testbed.open_tool("pay")
    testbed.call()
    request = page.get_by_role("region", name="The server asks you to open a page")
    request.get_by_text("https://pay.example/1").wait_for()
    assert request.get_by_role("button", name="Open in a new tab").is_visible()
    request.get_by_role("button", name="Accept").click()
    testbed.wait_for_result("paid")


@pytest.mark.parametrize("revision", REVISIONS)
def test_inspector_answers_sampling(testbed: InspectorTestbed, revision: str) -> None:
    page = testbed.connect(revision)
    testbed.open_tool("describe")
    page.get_by_label("city").fill("Turin")
    testbed.call()
    request = page.get_by_role("region", name="The server asks for a message of a model")
    request.get_by_text("Describe Turin.").wait_for()
    request.get_by_label("Message of the model").fill("A city at the Po.")
    request.get_by_role("button", name="Send").click()
    testbed.wait_for_result("A city at the Po.")


# --- activity ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_inspector_shows_log_progress_and_changes(testbed: InspectorTestbed, revision: str) -> None:
    page = testbed.connect(revision)
    testbed.open_tool("forecast")
    page.get_by_label("city").fill("Ghent")
    testbed.call()
    page.get_by_role("tab", name="Notifications").click()
    shown = page.locator("#panel-notifications li")
    shown.filter(has_text="stations: the station is offline").wait_for()
    shown.filter(has_text="3 of 3: day 3").wait_for()
    page.get_by_role("tab", name="Resources").click()
    testbed.open_tool("weather://units")
    page.get_by_role("button", name="Subscribe to changes").click()
    page.locator("[aria-pressed=true]", has_text="Subscribe to changes").wait_for()
    page.get_by_role("tab", name="Tools").click()
    testbed.open_tool("warm")
    page.get_by_label("station").fill(f"s{revision[:4]}")
    testbed.call()
    shown.filter(has_text="weather://units").last.wait_for()
    page.locator(".entry", has_text=f"heat_s{revision[:4]}").get_by_text("new").wait_for()


def test_inspector_log_level_is_applied(testbed: InspectorTestbed) -> None:
    for revision in ("2025-11-25", "2026-07-28"):
        page = testbed.connect(revision)
        page.get_by_label("Log level").select_option("error")
        testbed.open_tool("forecast")
        page.get_by_label("city").fill("Ghent")
        testbed.call()
        testbed.wait_for_result("3 days of sun")
        page.get_by_role("tab", name="Notifications").click()
        assert page.locator("#panel-notifications li", has_text="station is offline").count() == 0
        page.get_by_label("Log level").select_option("debug")


def test_inspector_messages_show_both_directions_and_open(testbed: InspectorTestbed) -> None:
    page = testbed.connect()
    received = page.locator("details.message", has_text="result of tools/list")
    received.wait_for()
    assert received.get_by_text("← received").is_visible()
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}", received.locator("time").inner_text())
    assert page.locator("details.message", has_text="server/discover").first.get_by_text("→ sent").is_visible()
    received.locator("summary").click()
    assert '\n  "jsonrpc": "2.0",\n' in received.locator("pre").inner_text()
    page.get_by_role("button", name="Clear").click()
    assert page.locator("details.message").count() == 0


def test_inspector_keeps_a_bounded_number_of_messages(testbed: InspectorTestbed) -> None:
    page = testbed.connect()
    testbed.open_tool("forecast")
    page.get_by_label("city").fill("Ghent")
    page.evaluate(
        """async () => {
            const { Activity } = await import("./activity.js");
            const activity = new Activity();
            for (let n = 0; n < 600; n++) activity.message("received", `{"n": ${n}}`);
        }"""
    )
    assert page.locator("details.message").count() == 500
    assert "older entries were removed" in page.locator("#panel-messages .older").inner_text()


def test_inspector_json_is_indented_without_changing_numbers(testbed: InspectorTestbed) -> None:
    page = testbed.connect()
    shown = page.evaluate(
        """async () => (await import("./dom.js")).indented('{"a":[],"b":[1.50,{}],"c":12345678901234567890,"d":"x,{\\\\"y"}')"""
    )
    assert (
        shown == '{\n  "a": [],\n  "b": [\n    1.50,\n    {}\n  ],\n  "c": 12345678901234567890,\n  "d": "x,{\\"y"\n}'
    )


# --- reloading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_inspector_after_reload_shows_changes_and_keeps_the_form(own_testbed: InspectorTestbed, revision: str) -> None:
    page = own_testbed.connect(revision)
    own_testbed.open_tool("forecast")
    page.get_by_label("city").fill("Ghent")
    changed = SOURCE.replace('"""Return the weather forecast."""', '"""Look into the future."""').replace("1.0", "2.0")
    own_testbed.command.write(changed.replace("def pay(", "def settle("))
    page.get_by_text("weather 2.0").wait_for()
    own_testbed.status("Connected, 1 new, 1 changed")
    page.get_by_role("main").get_by_text("Look into the future.", exact=True).wait_for()
    assert page.get_by_label("city").input_value() == "Ghent"
    assert page.locator(".entry", has_text="pay").count() == 0
    own_testbed.call()
    own_testbed.wait_for_result("Ghent: 3 days of sun")
    assert page.get_by_label("Revision").input_value() == revision


def test_inspector_broken_file_shows_the_error_until_it_is_repaired(own_testbed: InspectorTestbed) -> None:
    page = own_testbed.connect()
    own_testbed.open_tool("forecast")
    own_testbed.command.write(SOURCE + "\nundefined + 1\n")
    alert = page.get_by_role("alert")
    alert.get_by_text("NameError: name 'undefined' is not defined").first.wait_for()
    line = SOURCE.count("\n") + 2
    assert alert.locator(".place").inner_text().endswith(f"app.py:{line}")
    own_testbed.status("Not served")
    page.get_by_label("city").fill("Ghent")
    own_testbed.call()
    own_testbed.wait_for_result("The server is not connected.")
    own_testbed.command.write(SOURCE)
    own_testbed.status("Connected")
    assert not alert.is_visible()
    own_testbed.call()
    own_testbed.wait_for_result("Ghent: 3 days of sun")


def test_inspector_command_ends_is_reported(own_testbed: InspectorTestbed) -> None:
    own_testbed.connect()
    assert own_testbed.command.stop() == 130
    own_testbed.status("mcp-server dev does not respond")


# --- access -----------------------------------------------------------------------------------------------------------


def request(url: str, path: str, **headers: str) -> tuple[int, str]:
    """Return the status and the text of a response. A header with the value of an empty text is not sent."""
    address = urlsplit(url)
    assert address.hostname is not None
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=TIMEOUT)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_inspector_without_token_says_what_to_do(testbed: InspectorTestbed) -> None:
    token = urlsplit(testbed.url).path
    other = "y" if token[-2] == "x" else "x"
    for path in ("/", "/x/", f"{token[:-2]}{other}/", f"/x{token}", f"/{token}", "/events", f"{token[:-1]}%00/"):
        status, text = request(testbed.url, path)
        assert (path, status) == (path, 403)
        assert "Open the URL after <code>inspector:</code> in the terminal" in text
    testbed.page.goto(testbed.url.replace(token, "/wrong/"))
    assert testbed.page.get_by_role("heading").inner_text() == "Access denied"
    # The one message is of the browser, about the status. None is about the policy.
    assert [text for text in testbed.console if "Content Security Policy" in text] == []
    assert request(testbed.url, f"{token}missing.js")[0] == 404
    assert request(testbed.url, f"{token}..%2Fcommand.py")[0] == 404


def test_inspector_foreign_host_or_origin_is_rejected(testbed: InspectorTestbed) -> None:
    path, port = urlsplit(testbed.url).path, urlsplit(testbed.url).port
    assert request(testbed.url, path)[0] == 200
    for name, value in (
        ("Host", "evil.example"),
        ("Host", f"evil.example:{port}"),
        ("Host", "127.0.0.1:1"),
        ("Host", f"localhost:{port}"),
        ("Origin", "https://evil.example"),
        ("Origin", "http://127.0.0.1:1"),
        ("Origin", "null"),
        ("Sec-Fetch-Site", "cross-site"),
    ):
        for each in (path, f"{path}events", f"{path}inspector.js"):
            assert (name, value, request(testbed.url, each, **{name: value})[0]) == (name, value, 403)


def test_inspector_endpoint_rejects_pages_of_other_origins(testbed: InspectorTestbed) -> None:
    testbed.connect()
    endpoint = next(line for line in testbed.command.output if "is served at" in line).rpartition(" ")[2]
    assert request(endpoint, "/mcp", Origin="http://127.0.0.1:1")[0] == 403


def test_inspector_page_has_no_inline_code_and_a_strict_policy(testbed: InspectorTestbed) -> None:
    policies: list[str] = []
    testbed.page.on("response", lambda answer: policies.append(answer.headers.get("content-security-policy", "")))
    testbed.connect()
    assert policies[0].startswith("default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; ")
    assert "script-src 'self'; style-src 'self'" in policies[0]
    assert "unsafe" not in policies[0]
    assert testbed.page.locator("script:not([src]), style, [style], [onclick]").count() == 0


# --- keyboard and layout ---------------------------------------------------------------------------------------------


def test_inspector_is_usable_by_keyboard(testbed: InspectorTestbed) -> None:
    page = testbed.connect()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_role("tab", name="Tools").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Resources").get_attribute("aria-selected") == "true"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent") == "forecast"
    page.keyboard.press("Tab")
    page.keyboard.type("Ghent")
    page.keyboard.press("Control+Enter")
    testbed.wait_for_result("Ghent: 3 days of sun")


@pytest.mark.parametrize("width", [1280, 800, 390, 320])
def test_inspector_fits_its_width_and_labels_each_control(testbed: InspectorTestbed, width: int) -> None:
    testbed.resize(width)
    page = testbed.connect()
    testbed.open_tool("plan")
    page.get_by_label("city").fill("a" * 200)
    testbed.open_tool("book")
    testbed.call()
    page.get_by_role("region", name="The server asks for input").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    unnamed = page.evaluate(
        """[...document.querySelectorAll("input, select, textarea")]
            .filter(each => !each.labels?.length && !each.getAttribute("aria-label")).length"""
    )
    assert unnamed == 0
