"""A client and its driver on real sockets, among peers with every oddity that there is."""

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


def quick(rows: tuple[Row, ...]) -> list[Row]:
    """Those for which nobody has to wait, and where this machine is no strange place: the others are tried without sockets."""
    slow = [row for row in rows if any(reply.delay for reply in row.quirks.replies.values())]
    return [row for row in rows if row not in slow and not row.name.startswith("authorization_endpoint-loopback")]


class Browser:
    """A person who consents at once."""

    def __init__(self, world: OAuthTestbed) -> None:
        self.world: Final = world
        self.opened: list[str] = []

    @asynccontextmanager
    async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
        yield Back(self, 49_152 if port is None else port)

    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:
        await trio.lowlevel.checkpoint()
        return None


class Back:
    def __init__(self, browser: Browser, port: int) -> None:
        self._browser: Final = browser
        self._came: list[str] = []
        self.redirect_uri: Final = f"http://127.0.0.1:{port}/callback"

    async def open(self, url: str) -> None:
        await trio.lowlevel.checkpoint()
        self._browser.opened.append(url)
        self._came = self._browser.world.browse(url, 0.0)

    async def redirected(self) -> str:
        await trio.lowlevel.checkpoint()
        if not self._came:
            raise AuthorizationRefused("nobody came back")
        return self._came.pop(0)


async def session(world: OAuthTestbed, oauth: OAuth) -> None:
    async with open_http(world.places.resource, auth=oauth) as client:
        await client.list_tools()
        await client.call_tool("read", {})


def names(rows: list[Row]) -> list[str]:
    return [row.name for row in rows]


@pytest.mark.parametrize("row", quick(TOLERATED), ids=names(quick(TOLERATED)))
async def test_what_is_odd_is_survived(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_testbed(row.quirks) as world:
        await session(world, OAuth(settings=SETTINGS, user_agent=Browser(world)))
    assert [str(violation) for violation in world.violations] == []
    assert [secret for secret in world.secrets if secret in caplog.text] == []


@pytest.mark.parametrize("row", quick(REFUSED), ids=names(quick(REFUSED)))
async def test_what_is_hostile_gets_nothing_and_is_told(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_testbed(row.quirks) as world:
        browser = Browser(world)
        with pytest.raises((AuthorizationError, AccessDenied)) as caught:
            await session(world, OAuth(settings=SETTINGS, user_agent=browser))
    assert [str(violation) for violation in world.violations] == []
    told = f"{caplog.text} {caught.value} {caught.value!r}"
    assert [secret for secret in world.secrets if secret in told] == []
    assert not any(each in told for each in ("\x1b", "\x9b", "\u202e", "a" * 1_000))
    assert not any(request.origin == world.places.evil for request in world.requests)
    assert all(url.startswith(f"{world.places.server}/authorize?") for url in browser.opened)


@pytest.mark.parametrize("nonces", ["kept", "renewed"])
@pytest.mark.parametrize("at", [set(), {Part.TOKEN, Part.MCP}], ids=len)
async def test_a_key_is_proved_with_the_nonces_of_both_servers(at: set[Part], nonces: str) -> None:
    quirks = Quirks(dpop="required", nonce_at=frozenset(at), nonces="kept" if nonces == "kept" else "renewed")
    proof = Dpop(PrivateKey.generate("ES256"), secrets.token_bytes)
    async with open_testbed(quirks) as world:
        await session(world, OAuth(settings=SETTINGS, user_agent=Browser(world), proof=proof))
    assert [str(violation) for violation in world.violations] == []
