"""Authorization servers that must not send the browser to a redirect URI that is not registered."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

import attrs

from mcp_conformance.checks.auth.authorization_servers.endpoints import NEED, REDIRECT, ask, known_metadata, register
from mcp_conformance.checks.auth.authorization_servers.login_attempts import (
    authorization_url,
    client_of,
    registers,
    trial_of,
)
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.oauth_testbed.client_jwts import s256

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["ELSEWHERE", "RedirectAttempts", "near_misses", "open_attempts"]

ELSEWHERE: Final = "https://elsewhere.example/callback"
"""A redirect URI that no client has registered."""


def near_misses(registered: str) -> Iterator[str]:
    """Yield redirect URIs that are almost a registered one, at http://127.0.0.1:PORT/callback."""
    url = urlsplit(registered)
    yield f"{registered}/more"
    yield f"{registered}?more=1"
    yield f"{registered}/"
    yield f"{url.scheme}://{url.netloc}{url.path.upper()}"
    yield f"{url.scheme}://{url.netloc}/%{ord(url.path[1]):x}{url.path[2:]}"
    yield f"{url.scheme}://{url.netloc}/more/..{url.path}"
    yield f"https://{url.netloc}{url.path}"
    yield f"{url.scheme}://{url.netloc}@elsewhere.example{url.path}"
    yield f"{url.scheme}://127.0.0.1.elsewhere.example:{url.port}{url.path}"


_INVALID: Final = (
    {"response_type": "none-that-there-is"},
    {"code_challenge": None, "code_challenge_method": None},
    {"scope": "none-that-there-is"},
)
"""Fields of invalid requests, whose errors are sent to registered redirect URIs."""

_UNKNOWN: Final = (f"unknown-{secrets.token_hex(8)}", "", None)
"""Ids of no client."""


@attrs.frozen(kw_only=True)
class RedirectAttempts:
    """Authorization requests of one client with redirect URIs that it has not registered. Made by `open_attempts`."""

    server: ServerUnderTest
    """The authorization server."""
    metadata: JsonObject
    """Its metadata."""
    client_id: str
    """The client."""
    registered: str
    """The redirect URI of the client."""
    good: HttpResponse
    """The response to a request with the registered redirect URI."""

    async def require_rejections(self, *requests: Mapping[str, str | None]) -> None:
        """Require that requests are neither redirected to an unregistered URI nor get a code.

        The authorization server may show a page with an error, with any status.

        Args:
            requests: The fields of each request: its redirect URI, and other values of further fields; `None` omits one.

        Raises:
            Deviation: A request is redirected.
            NotTestable: There is a page that may be one with an error, or the next step of the login.
        """
        unclear = [fields["redirect_uri"] for fields in requests if not await self._is_rejected(fields)]
        if unclear:
            raise NotTestable(
                f"whether {unclear[0]} is rejected after a login is seen only with a user login: --browser names a "
                "command for it"
            )

    async def _is_rejected(self, fields: Mapping[str, str | None]) -> bool:
        """Return whether a request is rejected; `False` if that is unknown. Raise `Deviation` if it is not."""
        uri = str(fields["redirect_uri"])
        url, state, answer = await _sent(self.server, self.metadata, {"client_id": self.client_id, **fields})
        location = answer.header("location") or ""
        what = f"a rejection of {', '.join(f'{name} {value}' for name, value in fields.items())}"
        if location.startswith(uri) or (location.startswith(self.registered) and _has_code(location)):
            raise Deviation(what, f"HTTP {answer.status} {location}")
        # At another host, the suite would not see the code.
        if answer.status >= 400 or urlsplit(uri).netloc != urlsplit(self.registered).netloc:
            return True
        login = self.server.settings.login
        if login is None:
            return _page(answer) != _page(self.good)
        await trial_of(self.server, "plain")
        if "code" in await login.visit_rejected(url, state):
            raise Deviation(what, "a code")
        return True


def _has_code(location: str) -> bool:
    return "code" in dict(parse_qsl(urlsplit(location).query))


def _page(answer: HttpResponse) -> tuple[int, str]:
    return answer.status, (answer.header("location") or "").partition("?")[0]


async def _sent(
    server: ServerUnderTest, metadata: JsonObject, fields: dict[str, str | None]
) -> tuple[str, str, HttpResponse]:
    """Send an authorization request, and return its URL, its state and the response."""
    state = secrets.token_hex(16)
    challenge = s256(secrets.token_urlsafe(32))
    url = authorization_url(server.settings.login, metadata, {"code_challenge": challenge, "state": state, **fields})
    return url, state, await ask(server, "GET", url, (("Accept", "text/html"),))


async def open_attempts(server: ServerUnderTest, client_id: str, registered: str) -> RedirectAttempts:
    """Return the attempts of a client.

    Raises:
        NotTestable: A request with the registered redirect URI is rejected.
    """
    metadata = await known_metadata(server)
    _, _, good = await _sent(server, metadata, {"client_id": client_id, "redirect_uri": registered})
    if good.status >= 400:
        raise NotTestable(f"the control request failed: HTTP {good.status} for the registered redirect URI")
    return RedirectAttempts(server=server, metadata=metadata, client_id=client_id, registered=registered, good=good)


@check(
    "auth.as-redirect-exact",
    proves=(
        "auth.redirect-exact-match",
        "auth.as-redirect-exact",
        "auth.as-untrusted-redirects",
        "auth.as-no-untrusted-redirect",
        "auth.as-automatic-redirect",
        "auth.as-auto-redirect-trusted",
        "auth.redirect-uri-validate-server",
    ),
    needs=(NEED,),
    transports=(Transport.HTTP,),
    subject=CheckScope.PROCESS,
)
async def redirect_exact(server: ServerUnderTest) -> None:
    """A redirect URI that is not exactly one of the client is rejected, without a redirect, as are unknown clients."""
    login = server.settings.login
    registered = REDIRECT if login is None else login.redirect_uri
    others = registered.replace("/callback", "/callback-of-another-client")
    if login is None:
        client_id = await register(server, registered)
        await register(server, others)
    else:
        client_id = str((await client_of(server))["client_id"])
        if await registers(server):
            await client_of(server, "elsewhere", redirect_uris=[others])
    attempts = await open_attempts(server, client_id, registered)
    await attempts.require_rejections(
        *({"redirect_uri": uri} for uri in (ELSEWHERE, others, *near_misses(registered))),
        *({"redirect_uri": ELSEWHERE, **fields} for fields in _INVALID),
        *({"redirect_uri": uri, "client_id": id} for id in _UNKNOWN for uri in (registered, ELSEWHERE)),
    )
