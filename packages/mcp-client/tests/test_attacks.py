"""Attacks on a client with default settings, on real sockets. docs/topics/threat-model.md lists all attacks."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
import trio
from fake_http_server import OK, ReceivedRequest, client_request, modern, serving
from fake_http_server import Reply as Answering
from fake_http_server import legacy as old

from mcp_client import Handlers, open_http
from mcp_client.auth import OAuth, SystemBrowser
from mcp_conformance.oauth_testbed.loopback import open_testbed
from mcp_conformance.oauth_testbed.quirk_table import STRANGE_URLS
from mcp_conformance.oauth_testbed.quirks import Part, Quirks, Reply
from mcp_core.errors import AuthorizationError, McpError, RequestFailed
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.types import ElicitRequestURLParams, ElicitResult


def without(*kinds: str) -> Mapping[str, str]:
    return {kind: url for kind, url in STRANGE_URLS.items() if not kind.startswith(kinds)}


ENDPOINTS: Final = without("loopback")
"""URLs that no client opens in a browser. Loopback URLs are left out, since the testbed has such URLs itself."""
PAGES: Final = {kind: url for kind, url in STRANGE_URLS.items() if not url.startswith(("http://", "https://"))}
"""URLs that are not web pages. The application shows users where a web page leads, so users decide about those."""


def recording_browser(folder: Path) -> tuple[str, Path]:
    """Return the command of a browser that records its start, and the file of the record."""
    program, written = folder / "browser.py", folder / "started"
    program.write_text(f"open({str(written)!r}, 'a').write('x')\n")
    return f"{sys.executable} {program}", written


@pytest.mark.spec("security.authorization-url-schemes", "security.no-shell-open", "security.sanitize-urls")
@pytest.mark.parametrize("url", ENDPOINTS.values(), ids=ENDPOINTS)
async def test_authorization_endpoint_not_web_page_starts_no_browser(url: str, tmp_path: Path) -> None:
    browser, written = recording_browser(tmp_path)
    shown: list[str] = []
    async with open_testbed(Quirks(server_metadata={"authorization_endpoint": url})) as testbed:
        agent = SystemBrowser(environment={"BROWSER": browser}, show_message=shown.append)
        with pytest.raises(AuthorizationError):
            async with open_http(testbed.places.resource, auth=OAuth("App", user_agent=agent)):
                pass
        assert [str(violation) for violation in testbed.violations] == []
    assert not written.exists()
    assert shown == []


@pytest.mark.spec("security.sanitize-urls")
@pytest.mark.parametrize("url", PAGES.values(), ids=PAGES)
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_elicitation_url_not_web_page_rejected(era: str, url: str) -> None:
    visited: list[str] = []
    answered = trio.Event()
    answers: list[JsonObject] = []
    params: JsonObject = {"mode": "url", "message": "Pay.", "url": url}

    async def elicit_url(params_received: ElicitRequestURLParams) -> ElicitResult:
        visited.append(params_received.url)
        return ElicitResult(action="accept")

    async def call(request: ReceivedRequest, reply: Answering) -> None:
        if era == "legacy" and request.rpc == "tools/call":
            await reply.stream()
            await reply.event(client_request(7, params={**params, "elicitationId": "1"}))
            await answered.wait()
            await reply.event_result(OK)
            await reply.end()
        else:
            input_request: JsonObject = {"method": "elicitation/create", "params": params}
            await reply.result({"resultType": "input_required", "inputRequests": {"q": input_request}})

    server = modern(call) if era == "modern" else old(call)

    async def answer(request: ReceivedRequest, reply: Answering) -> None:
        if request.body and request.rpc == "response":
            answers.append(request.message)
            answered.set()
        await server(request, reply)

    async with serving(answer) as served, open_http(served.url, handlers=Handlers(elicit_url=elicit_url)) as client:
        if era == "modern":
            with pytest.raises(RequestFailed, match="the user can only be sent to an http or https URL"):
                await client.call_tool("pay")
        else:
            await client.call_tool("pay")
    assert visited == []
    if era == "legacy":
        (error_reply,) = answers
        assert "error" in error_reply


@pytest.mark.spec("auth.client-only-own-as-tokens", "security.redirect-targets-validated")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_to_other_origin_gets_no_token(status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    away = Reply(status=status, headers=(("Location", "{evil}/mcp"),))
    async with open_testbed(Quirks(replies={Part.MCP: away})) as testbed:
        token = testbed.recorder.new("access", testbed.places.origin)
        headers = {"Authorization": f"Bearer {token}"}
        with pytest.raises(McpError) as caught:
            async with open_http(testbed.places.resource, headers=headers) as client:
                await client.list_tools()
        assert testbed.requests
        assert not any(request.origin == testbed.places.evil for request in testbed.requests)
    assert token not in f"{caught.value} {caplog.text}"
