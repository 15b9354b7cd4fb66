"""Servers that require a token: near misses of valid tokens and proofs, and each method of HTTP.

A comparison by beginning, by end or of a part accepts what another comparison of the suite, with an unlike value, does not
show.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mcp_conformance.checks.auth.resource_servers.dpop import bound_token
from mcp_conformance.checks.auth.resource_servers.requests import (
    bearer,
    called,
    challenge,
    exchanged,
    http_peer,
    issuer_of,
    probe,
)
from mcp_conformance.checks.probes.http_requests import on_one_connection
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.oauth_testbed.token_issuer import ADMIN, BASE
from mcp_core.revisions import REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.checks.auth.resource_servers.requests import Headers
    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_HTTP: Final = (Transport.HTTP,)
_LEGACY: Final = tuple(name for name, revision in REVISIONS.items() if revision.era is Era.LEGACY)
_VALIDATES: Final = ("auth.validate-token", "auth.invalid-token-401", "auth.server-validates-token")
_ADMIN_TOOL: Final = "test_admin"
_REFUSED: Final = (401, 403)
_OK: Final = 300
"""The first status that is no success."""


def _near_urls(url: str) -> Iterator[str]:
    """Yield URLs of other resources that resemble a URL.

    Its own origin, another case and a trailing slash are not among them: servers may take them for their own.
    """
    parts = urlsplit(url)
    origin = f"{parts.scheme}://{parts.netloc}"
    yield f"{url}-other"
    yield f"{url}/other"
    yield f"{origin}/other"
    yield f"{parts.scheme}://{parts.netloc}.elsewhere.example{parts.path}"
    yield f"{parts.scheme}://elsewhere.{parts.netloc}{parts.path}"
    yield f"{parts.scheme}://{parts.hostname}:1{parts.path}"
    yield f"{parts.scheme}://{parts.netloc}@elsewhere.example{parts.path}"
    yield f"https://elsewhere.example/?resource={url}"


async def _refused(peer: HttpConnection, headers: Headers, what: str) -> None:
    answer = await probe(peer, headers, deviant=what)
    if answer.status not in _REFUSED:
        raise Deviation(f"HTTP 401 for {what}", f"HTTP {answer.status}")


@check(
    "auth.server-token-audience-near",
    proves=("auth.audience", "auth.no-other-tokens", "auth.server-validates-audience", "auth.server-no-other-tokens"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def audience_near(server: ServerUnderTest) -> None:
    """A token for another resource whose URL resembles the one of the server is rejected."""
    issuer = issuer_of(server)
    async with http_peer(server) as peer:
        for audience in _near_urls(issuer.resource):
            await _refused(peer, bearer(issuer.token(changes={"aud": audience})), f"a token for {audience}")


@check("auth.server-token-issuer-near", proves=_VALIDATES, transports=_HTTP, subject=CheckScope.PROCESS)
async def issuer_near(server: ServerUnderTest) -> None:
    """A token of another issuer whose URL resembles the one of the authorization server is rejected."""
    issuer = issuer_of(server)
    async with http_peer(server) as peer:
        for near in (
            f"{issuer.url}/other",
            f"{issuer.url}.elsewhere.example",
            f"https://elsewhere.example/{issuer.url}",
        ):
            await _refused(peer, bearer(issuer.token(changes={"iss": near})), f"a token of the issuer {near}")


def _unsigned(token: str) -> Iterator[str]:
    """Yield a token without a valid signature: declared as unsigned, without a signature, and with other claims."""
    head, claims, signature = token.split(".")
    decoded: JsonObject = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    none, other = (
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode()
        for each in ({"alg": "none", "typ": "at+jwt"}, {**decoded, "sub": "eve"})
    )
    yield f"{none}.{claims}."
    yield f"{head}.{claims}."
    yield f"{head}.{other}.{signature}"


@check("auth.server-token-unsigned", proves=_VALIDATES, transports=_HTTP, subject=CheckScope.PROCESS)
async def unsigned(server: ServerUnderTest) -> None:
    """A token without a signature, or with the one of other claims, is rejected."""
    async with http_peer(server) as peer:
        for token in _unsigned(issuer_of(server).token()):
            await _refused(peer, bearer(token), "a token without a valid signature")


@check(
    "auth.server-token-elsewhere",
    proves=("auth.missing-token-401", "auth.server-401-invalid", "auth.every-request-authenticated"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def elsewhere(server: ServerUnderTest) -> None:
    """A token with the scheme Basic, or only in a cookie, is no authorization."""
    async with http_peer(server) as peer:
        token = issuer_of(server).token()
        await _refused(peer, (("Authorization", f"Basic {token}"),), "a token with the scheme Basic")
        await _refused(peer, (("Cookie", f"access_token={token}"),), "a token in a cookie")


@check(
    "auth.server-scope-near",
    proves=("auth.status-codes", "auth.error-statuses"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def scope_near(server: ServerUnderTest) -> None:
    """A scope that only resembles the required one is not sufficient."""
    issuer = issuer_of(server)
    name, _ = server.tool(_ADMIN_TOOL)
    async with http_peer(server) as peer:
        for scope, is_enough in ((ADMIN, True), (f"{ADMIN}-other", False), (ADMIN[:-1], False), (ADMIN.upper(), False)):
            answer = await called(peer, name, bearer(issuer.token(changes={"scope": f"{BASE} {scope}"})))
            if is_enough and answer.status != 200:
                raise NotTestable(f"the control request failed: {name} with {ADMIN} gets HTTP {answer.status}")
            if not is_enough and answer.status not in _REFUSED:
                raise Deviation(f"HTTP 403 for a call that needs {ADMIN} with {scope}", f"HTTP {answer.status}")


def _without_token(peer: HttpConnection, message: JsonObject) -> list[tuple[str, str]]:
    """Return the headers of a message, without the token."""
    return [each for each in peer.headers(message) if each[0].lower() != "authorization"]


@check(
    "auth.server-every-message",
    proves=("auth.missing-token-401", "auth.every-request-authenticated", "security.verify-all-requests"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def every_message(server: ServerUnderTest) -> None:
    """A notification needs the token too."""
    async with http_peer(server) as peer:
        message: JsonObject = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "none"}}
        answer = await exchanged(peer, "POST", _without_token(peer, message), encoded(message))
        if answer.status < _OK:
            raise Deviation("HTTP 401 for a notification without a token", f"HTTP {answer.status}")


@check(
    "auth.server-same-connection",
    proves=("auth.missing-token-401", "auth.every-request-authenticated", "security.verify-all-requests"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def same_connection(server: ServerUnderTest) -> None:
    """A request needs the token also on an HTTP connection on which an earlier request had one."""
    async with http_peer(server) as peer:
        first, then = peer.message("tools/list", {}), peer.message("tools/list", {})
        answer, second = await on_one_connection(
            peer, first, then, deviant="no token", headers=_without_token(peer, then)
        )
        if answer.status >= _OK:
            raise NotTestable(f"the control request failed: a request with a valid token gets HTTP {answer.status}")
        if second.status < _OK:
            raise Deviation("HTTP 401 for a second request without a token", f"HTTP {second.status}")


@check(
    "auth.server-every-method",
    proves=("auth.missing-token-401", "security.verify-all-requests"),
    revisions=_LEGACY,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def every_method(server: ServerUnderTest) -> None:
    """GET and DELETE need the token too."""
    async with http_peer(server) as peer:
        lines = [
            each for each in peer.headers({}) if each[0].lower() not in ("authorization", "accept", "content-type")
        ]
        for method in ("GET", "DELETE"):
            accept = [("Accept", "text/event-stream")] if method == "GET" else []
            answer = await exchanged(peer, method, [*lines, *accept], None)
            # A server may reject the method itself.
            if answer.status < _OK:
                raise Deviation(f"HTTP 401 for {method} without a token", f"HTTP {answer.status}")


@check(
    "dpop.server-proof-near",
    proves=("dpop.server-validates-proof", "dpop.server-reject-401"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def proof_near(server: ServerUnderTest) -> None:
    """A proof whose URL, method or type only resembles the right one is rejected."""
    async with http_peer(server) as peer:
        bound = await bound_token(server, peer)
        near = [
            *(bound.key.proof(bound.url, bound.token, changes={"htu": url}) for url in _near_urls(bound.url)),
            bound.key.proof(bound.url, bound.token, changes={"htm": "POSTS"}),
            bound.key.proof(bound.url, bound.token, header={"typ": "dpop+jwt-other"}),
        ]
        for proof in near:
            answer = await bound.send(proof, deviant="a proof that only resembles the right one")
            if answer.status != 401:
                raise Deviation("HTTP 401 for a proof that only resembles the right one", f"HTTP {answer.status}")
            if challenge(answer, "dpop") is None:
                raise Deviation("a DPoP challenge in the 401 response", "no such challenge")
