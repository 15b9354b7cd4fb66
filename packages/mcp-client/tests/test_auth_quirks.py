"""A client and its authorization on real sockets, against every quirk of the OAuth testbed."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
import trio

from mcp_client import open_http
from mcp_client.auth import OAuth, Receiver
from mcp_client.auth.keys import PrivateKey
from mcp_conformance.oauth_testbed.loopback import open_testbed
from mcp_conformance.oauth_testbed.quirk_table import Row
from mcp_conformance.oauth_testbed.quirks import Part, Quirks
from mcp_conformance.oauth_testbed.refused_quirks import REFUSED
from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
from mcp_conformance.oauth_testbed.tolerated_quirks import TOLERATED
from mcp_core.errors import AccessDenied, AuthorizationError, AuthorizationRefused
from mcp_core.oauth.client_metadata import ClientSettings
from mcp_core.oauth.dpop import Dpop
from mcp_core.oauth.records import ClientRecord

SETTINGS: Final = ClientSettings(
    client_name="App", redirect_uris=("http://127.0.0.1/callback",), metadata_url="https://app.example/client.json"
)


def runnable(rows: tuple[Row, ...]) -> list[Row]:
    """Return the quirks without delays and without endpoints on this machine; the others are tested without sockets."""
    slow = [row for row in rows if any(reply.delay for reply in row.quirks.replies.values())]
    return [row for row in rows if row not in slow and not row.name.startswith("authorization_endpoint-loopback")]


class Browser:
    """A user agent of a user who consents at once."""

    def __init__(self, testbed: OAuthTestbed) -> None:
        self.testbed: Final = testbed
        self.opened_urls: list[str] = []

    @asynccontextmanager
    async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
        yield BrowserReceiver(self, 49_152 if port is None else port)

    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:
        await trio.lowlevel.checkpoint()
        return None


class BrowserReceiver:
    def __init__(self, browser: Browser, port: int) -> None:
        self._browser: Final = browser
        self._redirects: list[str] = []
        self.redirect_uri: Final = f"http://127.0.0.1:{port}/callback"

    async def open(self, url: str) -> None:
        await trio.lowlevel.checkpoint()
        self._browser.opened_urls.append(url)
        self._redirects = self._browser.testbed.browse(url, 0.0)

    async def redirected(self) -> str:
        await trio.lowlevel.checkpoint()
        if not self._redirects:
            raise AuthorizationRefused("the authorization server did not redirect")
        return self._redirects.pop(0)


async def session(testbed: OAuthTestbed, oauth: OAuth) -> None:
    async with open_http(testbed.places.resource, auth=oauth) as client:
        await client.list_tools()
        await client.call_tool("read", {})


def names(rows: list[Row]) -> list[str]:
    return [row.name for row in rows]


@pytest.mark.parametrize("row", runnable(TOLERATED), ids=names(runnable(TOLERATED)))
async def test_quirk_tolerated(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_testbed(row.quirks) as testbed:
        await session(testbed, OAuth(settings=SETTINGS, user_agent=Browser(testbed)))
    assert [str(violation) for violation in testbed.violations] == []
    assert [secret for secret in testbed.secrets if secret in caplog.text] == []


@pytest.mark.parametrize("row", runnable(REFUSED), ids=names(runnable(REFUSED)))
async def test_quirk_hostile_raises_and_leaks_nothing(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_testbed(row.quirks) as testbed:
        browser = Browser(testbed)
        with pytest.raises((AuthorizationError, AccessDenied)) as caught:
            await session(testbed, OAuth(settings=SETTINGS, user_agent=browser))
    assert [str(violation) for violation in testbed.violations] == []
    report = f"{caplog.text} {caught.value} {caught.value!r}"
    assert [secret for secret in testbed.secrets if secret in report] == []
    assert not any(each in report for each in ("\x1b", "\x9b", "\u202e", "a" * 1_000))
    assert not any(request.origin == testbed.places.evil for request in testbed.requests)
    assert all(url.startswith(f"{testbed.places.server}/authorize?") for url in browser.opened_urls)


@pytest.mark.parametrize("nonces", ["kept", "renewed"])
@pytest.mark.parametrize("nonce_parts", [set(), {Part.TOKEN, Part.MCP}], ids=len)
async def test_dpop_nonces_of_both_servers_used(nonce_parts: set[Part], nonces: str) -> None:
    quirks = Quirks(dpop="required", nonce_at=frozenset(nonce_parts), nonces="kept" if nonces == "kept" else "renewed")
    proof = Dpop(PrivateKey.generate("ES256"), secrets.token_bytes)
    async with open_testbed(quirks) as testbed:
        await session(testbed, OAuth(settings=SETTINGS, user_agent=Browser(testbed), proof=proof))
    assert [str(violation) for violation in testbed.violations] == []
