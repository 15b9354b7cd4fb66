"""Authorization servers that must not send the browser to a redirect URI that is not registered."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlsplit

import attrs

from mcp_conformance.checks.auth.authorization_servers.endpoints import NEED, REDIRECT, ask, known_metadata, register
from mcp_conformance.checks.auth.authorization_servers.login_attempts import (
    authorization_form,
    authorization_url,
    client_of,
    registers,
    trial_of,
)
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.oauth_testbed.changed_members import OMITTED
from mcp_conformance.oauth_testbed.client_jwts import s256

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.checks.auth.authorization_servers.login_attempts import Fields
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
    # A comparison of parsed URLs ignores these.
    yield f"{registered}#fragment"
    yield f"{registered}?"
    yield f"{url.scheme.upper()}://{url.netloc}{url.path}"
    yield f"{url.scheme}://localhost:{url.port}{url.path}"
    yield f"{url.scheme}://{url.netloc}\\@elsewhere.example{url.path}"
    yield f"https://{url.netloc}{url.path}"
    yield f"{url.scheme}://{url.netloc}@elsewhere.example{url.path}"
    yield f"{url.scheme}://127.0.0.1.elsewhere.example:{url.port}{url.path}"


_WEB: Final = "https://client.example/callback"
"""The redirect URI of a client on the web. Only for a loopback address may the port differ (RFC 8252 section 7.3)."""
_NEAR_WEB: Final = (
    "https://client.example:8443/callback",
    "https://client.example:443/callback",
    "http://client.example/callback",
    "https://client.example/callback/more",
    "https://client.example/callback?more=1",
    "https://client.example/Callback",
    "https://CLIENT.example/callback",
    "https://client.example/callback#fragment",
    "https://client.example/callback?",
    "https://client.example/",
    "https://www.client.example/callback",
    "https://client.example@elsewhere.example/callback",
    "https://client.example.elsewhere.example/callback",
)


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
    posts: bool
    """Whether the authorization endpoint accepts POST too (OAuth 2.1 section 3.1)."""

    def repetitions(self, *others: str) -> Iterator[Fields]:
        """Yield the fields of requests that repeat a field: with the registered redirect URI and another, in both orders."""
        for uri in others:
            yield {"redirect_uri": (self.registered, uri)}
            yield {"redirect_uri": (uri, self.registered)}
        yield {"redirect_uri": ELSEWHERE, "client_id": (self.client_id, "unknown")}
        yield {"redirect_uri": ELSEWHERE, "client_id": ("unknown", self.client_id)}

    async def require_rejections(self, *requests: Fields) -> None:
        """Require that requests are neither redirected to an unregistered URI nor get a code.

        The authorization server may show a page with an error, with any status. If the redirect URI is repeated, it may
        also use the registered one.

        Args:
            requests: The fields of each request: its redirect URI, and other values of further fields; `None` omits one,
                and several values repeat it.

        Raises:
            Deviation: A request is redirected.
            NotTestable: There is a page that may be one with an error, or the next step of the login.
        """
        unclear = [fields["redirect_uri"] for fields in requests if not await self._is_rejected(fields)]
        for fields in requests if self.posts else ():
            _, _, answer = await _sent(
                self.server, self.metadata, {"client_id": self.client_id, **fields}, method="POST"
            )
            self._require_no_redirect(fields, answer, "POST with ")
        if unclear:
            raise NotTestable(
                f"whether {unclear[0]} is rejected after a login is seen only with a user login: --browser names a "
                "command for it"
            )

    def _require_no_redirect(self, fields: Fields, answer: HttpResponse, method: str = "") -> str:
        """Return what is required of a request. Raise `Deviation` if it is redirected."""
        given = fields["redirect_uri"]
        foreign = [uri for uri in given if uri != self.registered] if isinstance(given, tuple) else [str(given)]
        location = answer.header("location") or ""
        shown = (
            f"{name} {' and '.join(value) if isinstance(value, tuple) else value}" for name, value in fields.items()
        )
        what = f"a rejection of {method}{', '.join(shown)}"
        at_own = location.startswith(self.registered) and _has_code(location) and not isinstance(given, tuple)
        if location.startswith(tuple(foreign)) or at_own:
            raise Deviation(what, f"HTTP {answer.status} {location}")
        return what

    async def _is_rejected(self, fields: Fields) -> bool:
        """Return whether a request is rejected; `False` if that is unknown. Raise `Deviation` if it is not."""
        given = fields["redirect_uri"]
        url, state, answer = await _sent(self.server, self.metadata, {"client_id": self.client_id, **fields})
        what = self._require_no_redirect(fields, answer)
        uris = given if isinstance(given, tuple) else (str(given),)
        own = urlsplit(self.registered).netloc
        # At another host, the suite would not see the code.
        if answer.status >= 400 or any(urlsplit(uri).netloc != own for uri in uris):
            return True
        login = self.server.settings.login
        if login is None:
            # With the registered redirect URI, the next step is allowed.
            return isinstance(given, tuple) or _page(answer) != _page(self.good)
        await trial_of(self.server, "plain")
        has_code = "code" in await login.visit_rejected(url, state)
        if has_code and not (isinstance(given, tuple) and login.arrived == urlsplit(self.registered).path):
            raise Deviation(what, "a code")
        return True


def _has_code(location: str) -> bool:
    return "code" in dict(parse_qsl(urlsplit(location).query))


def _page(answer: HttpResponse) -> tuple[int, str]:
    return answer.status, (answer.header("location") or "").partition("?")[0]


async def _sent(
    server: ServerUnderTest, metadata: JsonObject, fields: Fields, *, method: str = "GET"
) -> tuple[str, str, HttpResponse]:
    """Send an authorization request, and return its URL, its state and the response."""
    state = secrets.token_hex(16)
    challenge = s256(secrets.token_urlsafe(32))
    login, whole = server.settings.login, {"code_challenge": challenge, "state": state, **fields}
    url = authorization_url(login, metadata, whole)
    if method == "GET":
        return url, state, await ask(server, "GET", url, (("Accept", "text/html"),))
    endpoint, form = authorization_form(login, metadata, whole)
    typed = (("Accept", "text/html"), ("Content-Type", "application/x-www-form-urlencoded"))
    return url, state, await ask(server, method, endpoint, typed, form.encode())


async def open_attempts(server: ServerUnderTest, client_id: str, registered: str) -> RedirectAttempts:
    """Return the attempts of a client.

    Raises:
        NotTestable: A request with the registered redirect URI is rejected.
    """
    metadata = await known_metadata(server)
    right: Fields = {"client_id": client_id, "redirect_uri": registered}
    _, _, good = await _sent(server, metadata, right)
    if good.status >= 400:
        raise NotTestable(f"the control request failed: HTTP {good.status} for the registered redirect URI")
    _, _, posted = await _sent(server, metadata, right, method="POST")
    return RedirectAttempts(
        server=server,
        metadata=metadata,
        client_id=client_id,
        registered=registered,
        good=good,
        posts=posted.status < 400,
    )


async def _require_no_redirect_of_bare_client(server: ServerUnderTest) -> None:
    """Require that a client without redirect URIs cannot be registered, or is redirected nowhere (OAuth 2.1, section 2.3.1).

    Raises:
        Deviation: It is redirected.
    """
    try:
        client = await client_of(server, "bare", redirect_uris=OMITTED)
    except (Deviation, NotTestable):
        return
    metadata = await known_metadata(server)
    for uri in (REDIRECT, ELSEWHERE):
        fields: Fields = {"client_id": str(client["client_id"]), "redirect_uri": uri}
        _, _, answer = await _sent(server, metadata, fields)
        location = answer.header("location") or ""
        if location.startswith(uri):
            raise Deviation("no redirect of a client without redirect URIs", f"HTTP {answer.status} {location}")


async def _web_client(server: ServerUnderTest) -> str | None:
    """Register a client with a redirect URI on the web, and return its id; `None` if that fails."""
    try:
        if server.settings.login is None:
            return await register(server, _WEB, application_type="web")
        client = await client_of(server, "web", redirect_uris=[_WEB], application_type="web")
    except (Deviation, NotTestable):
        # Authorization servers may limit the hosts of clients, and how many register.
        return None
    return str(client["client_id"])


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
        web = await _web_client(server)
    else:
        client_id = str((await client_of(server))["client_id"])
        web = None
        if await registers(server):
            await client_of(server, "elsewhere", redirect_uris=[others])
            web = await _web_client(server)
            await _require_no_redirect_of_bare_client(server)
    attempts = await open_attempts(server, client_id, registered)
    await attempts.require_rejections(
        *({"redirect_uri": uri} for uri in (ELSEWHERE, others, *near_misses(registered))),
        *({"redirect_uri": ELSEWHERE, **fields} for fields in _INVALID),
        *({"redirect_uri": uri, "client_id": id} for id in _UNKNOWN for uri in (registered, ELSEWHERE)),
        *attempts.repetitions(ELSEWHERE, others),
    )
    if web is not None:
        on_web = await open_attempts(server, web, _WEB)
        await on_web.require_rejections(*({"redirect_uri": uri} for uri in (ELSEWHERE, *_NEAR_WEB)))
