"""Attacks on a client as it is when nothing was set, on real sockets. docs/topics/threat-model.md lists these and all others."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
import trio
from zoo import OK, Asked, modern, question, serving
from zoo import Reply as Answering
from zoo import legacy as old

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
"""No authorization server on this machine is there, and everywhere else nobody is sent."""
PAGES: Final = {kind: url for kind, url in STRANGE_URLS.items() if not url.startswith(("http://", "https://"))}
"""What is left out is a page of the web, if not a good one: that is for the user to say, who is shown where it leads."""


def recorder(folder: Path) -> tuple[str, Path]:
    """A browser that writes down that it was started, as the words of a variable; and where."""
    program, written = folder / "browser.py", folder / "started"
    program.write_text(f"open({str(written)!r}, 'a').write('x')\n")
    return f"{sys.executable} {program}", written


@pytest.mark.spec("security.authorization-url-schemes", "security.no-shell-open", "security.sanitize-urls")
@pytest.mark.parametrize("url", ENDPOINTS.values(), ids=ENDPOINTS)
async def test_no_program_is_started_for_a_page_that_is_none(url: str, tmp_path: Path) -> None:
    browser, written = recorder(tmp_path)
    told: list[str] = []
    async with open_testbed(Quirks(server_metadata={"authorization_endpoint": url})) as world:
        agent = SystemBrowser(environment={"BROWSER": browser}, show_message=told.append)
        with pytest.raises(AuthorizationError):
            async with open_http(world.places.resource, auth=OAuth("App", user_agent=agent)):
                pass
        assert [str(violation) for violation in world.violations] == []
    assert not written.exists()
    assert told == []


@pytest.mark.spec("security.sanitize-urls")
@pytest.mark.parametrize("url", PAGES.values(), ids=PAGES)
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_an_application_is_not_sent_to_a_page_that_is_none(era: str, url: str) -> None:
    visited: list[str] = []
    answered = trio.Event()
    answers: list[JsonObject] = []
    params: JsonObject = {"mode": "url", "message": "Pay.", "url": url}

    async def visit(asked: ElicitRequestURLParams) -> ElicitResult:
        visited.append(asked.url)
        return ElicitResult(action="accept")

    async def calls(asked: Asked, reply: Answering) -> None:
        if era == "legacy" and asked.rpc == "tools/call":
            await reply.stream()
            await reply.event(question(7, params={**params, "elicitationId": "1"}))
            await answered.wait()
            await reply.event_result(OK)
            await reply.end()
        else:
            asking: JsonObject = {"method": "elicitation/create", "params": params}
            await reply.result({"resultType": "input_required", "inputRequests": {"q": asking}})

    server = modern(calls) if era == "modern" else old(calls)

    async def answer(asked: Asked, reply: Answering) -> None:
        if asked.body and asked.rpc == "response":
            answers.append(asked.message)
            answered.set()
        await server(asked, reply)

    async with serving(answer) as served, open_http(served.url, handlers=Handlers(elicit_url=visit)) as client:
        if era == "modern":
            with pytest.raises(RequestFailed, match="the user can only be sent to an http or https URL"):
                await client.call_tool("pay")
        else:
            await client.call_tool("pay")
    assert visited == []
    if era == "legacy":
        (told,) = answers
        assert "error" in told


@pytest.mark.spec("auth.client-only-own-as-tokens", "security.redirect-targets-validated")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_server_cannot_send_a_token_on_to_a_stranger(status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    away = Reply(status=status, headers=(("Location", "{evil}/mcp"),))
    async with open_testbed(Quirks(replies={Part.MCP: away})) as world:
        token = world.recorder.new("access", world.places.origin)
        headers = {"Authorization": f"Bearer {token}"}
        with pytest.raises(McpError) as caught:
            async with open_http(world.places.resource, headers=headers) as client:
                await client.list_tools()
        assert world.requests
        assert not any(request.origin == world.places.evil for request in world.requests)
    assert token not in f"{caught.value} {caplog.text}"
