"""Servers that require a token: near misses of valid tokens and proofs, and each method of HTTP.

A comparison by beginning, by end or of a part accepts what another comparison of the suite, with an unlike value, does not
show.
"""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mcp_conformance.checks.auth.resource_servers.bound_tokens import (
    BoundToken,
    bound_token,
    known_bound_token,
    send_invalid,
)
from mcp_conformance.checks.auth.resource_servers.requests import (
    ADMIN_TOOL,
    UNANSWERED,
    UNRELATED,
    bearer,
    called,
    challenge,
    exchanged,
    has_result,
    http_peer,
    issuer_of,
    post_unanswered,
    probe,
    send_each,
    sent,
    without_token,
)
from mcp_conformance.checks.probes.http_requests import on_one_connection
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.oauth_testbed.changed_members import OMITTED
from mcp_conformance.oauth_testbed.token_issuer import ADMIN, BASE
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.revisions import REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.checks.auth.resource_servers.requests import Headers
    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.oauth_testbed.changed_members import Changes
    from mcp_conformance.wire.http_client import HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_HTTP: Final = (Transport.HTTP,)
_LEGACY: Final = tuple(name for name, revision in REVISIONS.items() if revision.era is Era.LEGACY)
_VALIDATES: Final = ("auth.validate-token", "auth.invalid-token-401", "auth.server-validates-token")
_REFUSED: Final = (401, 403)
_HOUR: Final = 3600
_OK: Final = 300
"""The first status that is no success."""
_NO_ALGORITHM: Final = ("none", "None", "NONE", None)
"""The values of `alg` of unsigned tokens: the right one, other cases of it, and no name at all."""
_TIMES: Final = 12
"""The number of calls at the same time: each falls between the two steps of another request by chance only."""


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


def _require_refusals(answers: list[tuple[str, HttpResponse]]) -> None:
    for what, answer in answers:
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
        accepted = await known_bound_token(server, peer)
        near: list[JsonValue] = [*_near_urls(issuer.resource)]
        # A list of audiences is another type than a single one, which a server may not compare.
        for audience in (*near, near[:1], near, []):
            changes: Changes = {"aud": audience}
            what = f"a token for {audience}"
            _require_refusals(await send_invalid(server, peer, accepted, [changes], deviant=what))


@check("auth.server-token-issuer-near", proves=_VALIDATES, transports=_HTTP, subject=CheckScope.PROCESS)
async def issuer_near(server: ServerUnderTest) -> None:
    """A token of another issuer whose URL resembles the one of the authorization server is rejected."""
    issuer = issuer_of(server)
    async with http_peer(server) as peer:
        accepted = await known_bound_token(server, peer)
        near: list[JsonValue] = [
            f"{issuer.url}/other",
            f"{issuer.url}.elsewhere.example",
            f"https://elsewhere.example/{issuer.url}",
            [issuer.url, "https://elsewhere.example"],
        ]
        for each in near:
            changes: Changes = {"iss": each}
            what = f"a token of the issuer {each}"
            _require_refusals(await send_invalid(server, peer, accepted, [changes], deviant=what))


def _unsigned(token: str) -> Iterator[str]:
    """Yield a token without a valid signature: declared as unsigned, without one, with another one, and with other claims."""
    head, claims, signature = token.split(".")
    decoded: JsonObject = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    # Names of algorithms are case-sensitive (RFC 7515, section 4.1.1), and not every server compares them so.
    unsigned_heads: tuple[JsonObject, ...] = tuple({"alg": each, "typ": "at+jwt"} for each in _NO_ALGORITHM)
    *nones, other = (
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode()
        for each in (*unsigned_heads, {**decoded, "sub": "eve"})
    )
    for none in nones:
        yield f"{none}.{claims}."
    yield f"{head}.{claims}."
    yield f"{head}.{claims}.{signature[::-1]}"
    yield f"{head}.{other}.{signature}"


@check("auth.server-token-unsigned", proves=_VALIDATES, transports=_HTTP, subject=CheckScope.PROCESS)
async def unsigned(server: ServerUnderTest) -> None:
    """A token is rejected whose signature is missing, of other claims, or of a key that the token itself names."""
    async with http_peer(server) as peer:
        issuer = issuer_of(server)
        valid = issuer.token()
        # A server may keep what it has validated by a part of the token.
        await probe(peer, bearer(valid))
        what = "a token without a valid signature"
        for token in (*_unsigned(valid), *issuer.forged_tokens()):
            answers = await send_each(peer, lambda: bearer(token), deviant=what)  # noqa: B023  called in the loop
            _require_refusals([(f"{message} with {what}", answer) for message, answer in answers])


@check("auth.server-token-malformed", proves=_VALIDATES, transports=_HTTP, subject=CheckScope.PROCESS)
async def malformed(server: ServerUnderTest) -> None:
    """A token that is no JWT, or only a part of one, is rejected with 401."""
    async with http_peer(server) as peer:
        valid = issuer_of(server).token()
        head, _, signature = valid.split(".")
        what = "a malformed token"
        # The parts of a token are decoded before its signature is verified.
        for token in (
            *("no-such-token", "a.b.c", "..", "0", f"{head}.{signature}", f"{head}..{signature}"),
            *(f"{head}.bm90LWpzb24.{signature}", f"bnVsbA.bnVsbA.{signature}", valid[:-9], f"{valid}.{signature}"),
        ):
            for message, answer in await send_each(peer, lambda: bearer(token), deviant=what):  # noqa: B023  called in the loop
                if answer.status != 401:
                    raise Deviation(f"HTTP 401 for {message} with the token {token[:40]}", f"HTTP {answer.status}")
        answer = await probe(peer, (("Authorization", "Bearer"),), deviant=what)
        # Without its token, the header itself is malformed (RFC 6750, section 3.1).
        if answer.status not in (400, 401):
            raise Deviation("HTTP 401 for the scheme Bearer without a token", f"HTTP {answer.status}")


@check(
    "auth.server-token-forms",
    proves=("auth.http-conform", "auth.http-should-conform"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def token_forms(server: ServerUnderTest) -> None:
    """A valid token is accepted in each valid form.

    These are the scheme in another case, the audience in a list, the expiry as a fraction, a further scope before the
    required one, and a proof whose URL has scheme and host in upper case.
    """
    issuer = issuer_of(server)
    async with http_peer(server) as peer:
        bound = await known_bound_token(server, peer)
        scopes = f"{UNRELATED} {BASE}"
        lists: tuple[list[JsonValue], ...] = ([issuer.resource], [f"{issuer.url}/userinfo", issuer.resource])
        fraction = issuer.token(changes={"exp": int(time.time()) + _HOUR + 0.5})
        for what, lines in (
            # RFC 9110, section 11.1.
            *((f"the scheme {scheme}", _with_scheme(scheme, issuer.token())) for scheme in ("bearer", "BEARER")),
            # RFC 7519, section 4.1.3.
            *((f"{brief(each)} as the audience", bearer(issuer.token(changes={"aud": each}))) for each in lists),
            # RFC 7519, section 2.
            ("a time of expiry that is no whole number", bearer(fraction)),
            # The order of scopes does not matter (RFC 6749, section 3.3).
            (f"the scope {scopes}", bearer(issuer.token(changes={"scope": scopes}))),
            *(() if bound is None else (("the scheme dpop", bound.headers(bound.proof(), scheme="dpop")),)),
        ):
            answer = await probe(peer, lines)
            if answer.status != 200:
                raise Deviation(f"HTTP 200 for a valid token with {what}", f"HTTP {answer.status}")
        if bound is not None:
            parts = urlsplit(bound.url)
            upper = parts._replace(scheme=parts.scheme.upper(), netloc=parts.netloc.upper()).geturl()
            answer = await bound.send_valid({"htu": upper})
            # A server normalizes the URL before it compares it (RFC 9449, section 4.3).
            if answer.status != 200:
                raise Deviation(f"HTTP 200 for a proof for the URL {upper}", f"HTTP {answer.status}")


def _with_scheme(scheme: str, token: str) -> Headers:
    return (("Authorization", f"{scheme} {token}"),)


@check(
    "auth.server-token-elsewhere",
    proves=("auth.missing-token-401", "auth.server-401-invalid", "auth.every-request-authenticated"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def elsewhere(server: ServerUnderTest) -> None:
    """A token with the scheme Basic, or only in a cookie or in the URL, is no authorization."""
    async with http_peer(server) as peer:
        token = issuer_of(server).token()
        for what, lines in (
            ("a token with the scheme Basic", (("Authorization", f"Basic {token}"),)),
            ("a token in a cookie", (("Cookie", f"access_token={token}"),)),
        ):
            answer = await probe(peer, lines, deviant=what)
            if answer.status not in _REFUSED:
                raise Deviation(f"HTTP 401 for {what}", f"HTTP {answer.status}")
        target = peer.endpoint.target
        queried = f"{target}{'&' if '?' in target else '?'}access_token={token}"
        answer = await sent(peer, "tools/list", {}, (), target=queried, deviant="a token in the URL")
        # A server may reject such a URL in another way.
        if answer.status < _OK:
            raise Deviation("HTTP 401 for a token in the URL", f"HTTP {answer.status}")


@check(
    "auth.server-scope-near",
    proves=("auth.status-codes", "auth.error-statuses"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def scope_near(server: ServerUnderTest) -> None:
    """A scope that only resembles the required one is not sufficient, nor is the absence of a scope."""
    issuer = issuer_of(server)
    name, _ = server.tool(ADMIN_TOOL)
    async with http_peer(server) as peer:
        good = await called(peer, name, bearer(issuer.token(changes={"scope": f"{BASE} {ADMIN}"})))
        if good.status != 200:
            raise NotTestable(f"the control request failed: {name} with {ADMIN} gets HTTP {good.status}")
        near: list[JsonValue] = [f"{BASE} {scope}" for scope in (f"{ADMIN}-other", ADMIN[:-1], ADMIN.upper())]
        for scope in (*near, "", None, OMITTED):
            answer = await called(peer, name, bearer(issuer.token(changes={"scope": scope})))
            if answer.status not in _REFUSED:
                raise Deviation(
                    f"HTTP 403 for a call that needs {ADMIN} with the scope {scope}", f"HTTP {answer.status}"
                )


@check(
    "auth.server-scope-beside",
    proves=("auth.status-codes", "auth.error-statuses"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def scope_beside(server: ServerUnderTest) -> None:
    """A call with insufficient scope has no result, whatever its headers and the messages beside it need."""
    issuer = issuer_of(server)
    name, _ = server.tool(ADMIN_TOOL)
    broad, narrow = (bearer(issuer.token(changes={"scope": scope})) for scope in (f"{BASE} {ADMIN}", BASE))
    async with http_peer(server) as peer:
        good = await called(peer, name, broad)
        if not has_result(good):
            raise NotTestable(f"the control request failed: {name} with {ADMIN} gets HTTP {good.status}")

        calls = _TIMES

        async def call() -> None:
            nonlocal calls
            answer = await called(peer, name, narrow)
            calls -= 1
            _require_no_result(answer, "beside requests with more scope")

        async def list_tools() -> None:
            while calls:
                await sent(peer, "tools/list", {}, broad)

        async with open_nursery() as nursery:
            nursery.start_soon(list_tools)
            for _ in range(_TIMES):
                nursery.start_soon(call)
        if peer.revision.era is Era.MODERN:
            await _call_with_other_headers(server, peer, name, narrow)
        if peer.revision.batching:
            batch = [peer.message("tools/list"), peer.message("tools/call", {"name": name, "arguments": {}})]
            for messages in (batch, [*reversed(batch)]):
                whole: list[JsonValue] = [*messages]
                lines = (*without_token(peer, whole), *narrow)
                answer = await exchanged(peer, "POST", lines, encoded(whole), deviant="too little scope")
                _require_no_result(answer, "in a batch", batch[1]["id"])


async def _call_with_other_headers(server: ServerUnderTest, peer: HttpConnection, name: str, token: Headers) -> None:
    """Send calls of a tool with the headers of a message that needs less scope."""
    tools = [str(tool.get("name")) for tool in server.inventory.lists.get("tools", ())]
    call = peer.message("tools/call", {"name": name, "arguments": {}})
    others = [peer.message("tools/call", {"name": tool, "arguments": {}}) for tool in tools if tool != name][:1]
    for other in (peer.message("tools/list"), *others):
        lines = (*without_token(peer, other), *token)
        answer = await exchanged(peer, "POST", lines, encoded(call), deviant="headers of another message")
        _require_no_result(answer, "with the headers of another message")


def _require_no_result(answer: HttpResponse, where: str, id: JsonValue = None) -> None:
    if has_result(answer, id):
        raise Deviation(
            f"HTTP 403 for a call that needs {ADMIN} with a token for {BASE}, {where}", f"HTTP {answer.status}"
        )


@check(
    "auth.server-every-message",
    proves=("auth.missing-token-401", "auth.every-request-authenticated", "security.verify-all-requests"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def every_message(server: ServerUnderTest) -> None:
    """A notification needs the token too, and a response to a request of the server, in a session and outside of it."""
    async with http_peer(server) as peer:
        for what in UNANSWERED:
            for session in (True, False):
                answer = await post_unanswered(peer, what, (), session=session, deviant="no token")
                if answer.status < _OK:
                    raise Deviation(f"HTTP 401 for {what} without a token", f"HTTP {answer.status}")


@check(
    "auth.server-same-connection",
    proves=("auth.missing-token-401", "auth.every-request-authenticated", "security.verify-all-requests"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def same_connection(server: ServerUnderTest) -> None:
    """A request needs a valid token also on an HTTP connection on which an earlier request had one."""
    async with http_peer(server) as peer:
        for what, token in (("without a token", ()), ("with an opaque token", bearer("no-such-token"))):
            first, then = peer.message("tools/list", {}), peer.message("tools/list", {})
            answer, second = await on_one_connection(
                peer, first, then, deviant=what, headers=[*without_token(peer, then), *token]
            )
            if answer.status >= _OK:
                raise NotTestable(f"the control request failed: a request with a valid token gets HTTP {answer.status}")
            if second.status < _OK:
                raise Deviation(f"HTTP 401 for a second request {what}", f"HTTP {second.status}")


@check(
    "auth.server-every-method",
    proves=("auth.missing-token-401", "auth.validate-token", "security.verify-all-requests"),
    revisions=_LEGACY,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def every_method(server: ServerUnderTest) -> None:
    """GET and DELETE need a valid token too, and a DELETE without one ends no session."""
    issuer = issuer_of(server)
    async with http_peer(server) as peer:
        lines = [each for each in without_token(peer, {}) if each[0].lower() not in ("accept", "content-type")]
        credentials: tuple[tuple[str, Headers], ...] = (
            ("without a token", ()),
            ("with an opaque token", bearer("no-such-token")),
            ("with an expired token", bearer(issuer.token(changes={"exp": 1}))),
            ("with a token of another key", bearer(issuer.token(foreign_key=True))),
            ("with a bound token without a proof", BoundToken(server, peer).headers()),
        )
        accepted = await known_bound_token(server, peer)
        if accepted is not None:
            # A server that does not know the claim takes the token for a bearer token.
            credentials += (("with a bound token as a bearer token", bearer(accepted.token)),)
        for method in ("GET", "DELETE"):
            accept = [("Accept", "text/event-stream")] if method == "GET" else []
            proven = () if accepted is None else accepted.headers(accepted.proof())
            for what, token in (*credentials, ("with a bound token and a proof for POST", proven)):
                answer = await peer.look(method, headers=[*lines, *accept, *token], deviant=what)
                # A server may reject the method itself.
                if answer.status < _OK:
                    raise Deviation(f"HTTP 401 for {method} {what}", f"HTTP {answer.status}")
        if peer.session_id is not None and (await probe(peer, bearer(issuer.token()), in_session=True)).status != 200:
            raise Deviation("a session that requests without a valid token cannot end", "the session has ended")


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
            *(bound.proof(changes={"htu": url}) for url in _near_urls(bound.url)),
            *(bound.proof(changes={"htm": method}) for method in ("POSTS", "post")),
            bound.proof(header={"typ": "dpop+jwt-other"}),
        ]
        for proof in near:
            answer = await bound.send(proof, deviant="a proof that only resembles the right one")
            if answer.status != 401:
                raise Deviation("HTTP 401 for a proof that only resembles the right one", f"HTTP {answer.status}")
            if challenge(answer, "dpop") is None:
                raise Deviation("a DPoP challenge in the 401 response", "no such challenge")
