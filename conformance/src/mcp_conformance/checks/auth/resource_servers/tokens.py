"""Servers that require a token: their challenges and metadata, and the validation of tokens."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import trio

from mcp_conformance.checks.auth.resource_servers.bound_tokens import BoundToken, known_bound_token, send_invalid
from mcp_conformance.checks.auth.resource_servers.requests import (
    ADMIN_TOOL,
    OPENING,
    UNRELATED,
    bearer,
    called,
    challenge,
    exchanged,
    flaw_of_challenges,
    has_result,
    http_peer,
    issuer_of,
    metadata_of,
    probe,
    send_each,
    sent,
    without_token,
)
from mcp_conformance.checks.probes.third_party import UPSTREAM_TOOL, open_third_party
from mcp_conformance.checks.probes.unknown_methods import UNKNOWN_METHOD
from mcp_conformance.checks.registry.server import SERVER_CHECKS, check
from mcp_conformance.drivers.server.sse_connection import SseConnection
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.drivers.server.targets import UrlTarget
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.oauth_testbed.changed_members import OMITTED
from mcp_conformance.oauth_testbed.http_messages import json_object
from mcp_conformance.oauth_testbed.metadata_types import flaw_of_metadata
from mcp_conformance.oauth_testbed.token_issuer import ADMIN, BASE, ROOT
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.http_client import IncompleteResponse
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_conformance.checks.auth.resource_servers.requests import Headers
    from mcp_conformance.drivers.server.http_connection import HttpConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.oauth_testbed.changed_members import Changes
    from mcp_conformance.wire.http_client import Endpoint, HttpResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_HTTP: Final = (Transport.HTTP,)


def _expect(answer: HttpResponse, status: int, what: str) -> None:
    if answer.status != status:
        raise Deviation(f"HTTP {status} for {what}", f"HTTP {answer.status}, {answer.body[:120]!r}")


def _challenged(answer: HttpResponse, what: str) -> dict[str, str]:
    """Return the parameters of the challenge in a rejection."""
    found = challenge(answer)
    if found is None:
        raise Deviation(f"a WWW-Authenticate challenge for {what}", f"HTTP {answer.status} without a challenge")
    return found


async def _documents(peer: HttpConnection) -> tuple[JsonObject, ...]:
    """Return the protected resource metadata from each place, before and after the rejection of a token.

    Raises:
        NotTestable: They are missing.
    """
    try:
        found = await metadata_of(peer)
    except Deviation as deviation:
        raise NotTestable(f"the server has no metadata: {deviation.observed}") from deviation
    # A server may build the documents from what its last rejection left, or name others in the challenge of this one.
    with suppress(Deviation):
        found += await metadata_of(peer, bearer("no-such-token"))
    return found


_OPAQUE: Final = "with an opaque token"
_PAST: Final = 20 * 60
"""Twenty minutes, in seconds, which exceed any leeway: it is usually a few minutes at most (RFC 7519, section 4.1.4)."""


def _expired() -> JsonObject:
    """Return the claims of an expired token."""
    now = int(time.time())
    return {"exp": now - _PAST, "iat": now - 2 * _PAST}


def _never_valid() -> tuple[Changes, ...]:
    """Return the claims of tokens that have expired, or have no valid time of expiry."""
    expired = _expired()
    ended = now if isinstance(now := expired["exp"], int) else 0
    return (
        expired,
        {**expired, "exp": ended + 0.5},
        {**expired, "exp": str(ended)},
        {**expired, "exp": 0},
        # A server has to ensure that a token has not expired (OAuth 2.1, section 5.2).
        {"exp": OMITTED},
        {"exp": None},
        # With 403, a client would request more scope for a token that it has to renew.
        {**expired, "scope": BASE},
    )


async def _rejections(server: ServerUnderTest, peer: HttpConnection) -> list[tuple[str, HttpResponse]]:
    """Return the rejections of messages without a valid token, with what was sent."""
    issuer = issuer_of(server)
    found: list[tuple[str, HttpResponse]] = []
    for what, headers in (("without a token", ()), (_OPAQUE, bearer("no-such-token"))):
        answers = await send_each(peer, lambda: headers, deviant=what)  # noqa: B023  called in the loop
        found += [(f"{message} {what}", answer) for message, answer in answers]
    requests = {
        "a request with an expired token": bearer(issuer.token(changes=_expired())),
        "a request with a token of another key": bearer(issuer.token(foreign_key=True)),
        "a request with a token for another resource": bearer(issuer.token(changes={"aud": _ANOTHER})),
    }
    found += [(what, await probe(peer, headers, deviant=what)) for what, headers in requests.items()]
    if peer.revision.era is Era.LEGACY:
        lines = [each for each in without_token(peer, {}) if each[0].lower() != "content-type"]
        for method in ("GET", "DELETE"):
            found.append((f"{method} without a token", await peer.look(method, headers=lines)))
    # Other checks cover the status of those that a server may wrongly accept.
    return [(what, answer) for what, answer in found if answer.status == 401 or what.startswith(OPENING)]


# --- challenges and metadata
# --------------------------------------------------------------------------------------------


@check(
    "auth.server-token-missing",
    proves=("auth.missing-token-401", "auth.server-401-invalid", "auth.http-conform", "auth.http-should-conform"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def token_missing(server: ServerUnderTest) -> None:
    """A request without a token is answered with 401."""
    async with http_peer(server) as peer:
        _expect(await probe(peer), 401, "a request without a token")


@check(
    "auth.server-challenge",
    proves=("auth.validation-failure", "auth.server-401-www-authenticate"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def challenges(server: ServerUnderTest) -> None:
    """A 401 response has a Bearer challenge with valid syntax, and with an `error` if the token is invalid."""
    async with http_peer(server) as peer:
        for what, answer in await _rejections(server, peer):
            parameters = challenge(answer, "bearer")
            if parameters is None:
                raise Deviation(f"a Bearer challenge in the 401 response to {what}", "no challenge")
            if (flaw := flaw_of_challenges(answer)) is not None:
                raise Deviation(f"challenges with valid syntax in the 401 response to {what}", flaw)
            # Another check covers the error for a request without a token.
            if "without a token" not in what and parameters.get("error") != "invalid_token":
                raise Deviation(f'error="invalid_token" in the 401 response to {what}', str(parameters))


@check(
    "auth.server-challenge-no-error",
    proves=("auth.http-conform", "auth.http-should-conform"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def challenge_no_error(server: ServerUnderTest) -> None:
    """The challenge for a request without a token has no error, by which a client may discard or refresh a token."""
    async with http_peer(server) as peer:
        answer = await probe(peer)
        parameters = challenge(answer, "bearer")
        if answer.status != 401 or parameters is None:
            raise NotTestable("the server sends no Bearer challenge for a request without a token")
        # OAuth 2.1, section 5.3, and RFC 6750, section 3.1: there is no credential that could be wrong.
        if "error" in parameters:
            raise Deviation("no error in the challenge for a request without a token", str(parameters))


@check(
    "auth.server-metadata-named",
    proves=("auth.www-authenticate-resource-metadata",),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def metadata_named(server: ServerUnderTest) -> None:
    """The challenge of a 401 response has the URL of the protected resource metadata."""
    async with http_peer(server) as peer:
        for what, answer in await _rejections(server, peer):
            url = _challenged(answer, what).get("resource_metadata", "")
            if urlsplit(url).scheme not in ("http", "https"):
                raise Deviation(f"resource_metadata with a URL in the challenge for {what}", f"{url!a}")


@check(
    "auth.server-metadata",
    proves=("auth.prm-server", "auth.prm-discovery-one-of", "auth.prm-implemented", "auth.prm-mechanism"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def metadata(server: ServerUnderTest) -> None:
    """The protected resource metadata are at the URL in the challenge, or at the well-known URI, and have valid members."""
    async with http_peer(server) as peer:
        for document in await metadata_of(peer):
            if (flaw := flaw_of_metadata(document)) is not None:
                raise Deviation("members with the types of RFC 9728", flaw)


@check(
    "auth.server-metadata-servers",
    proves=("auth.prm-authorization-servers",),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def metadata_servers(server: ServerUnderTest) -> None:
    """The metadata list the issuer of the authorization server whose tokens the server accepts."""
    issuer = issuer_of(server).url
    async with http_peer(server) as peer:
        is_legacy = peer.revision.era is Era.LEGACY
        for document in await _documents(peer):
            listed = document.get("authorization_servers")
            if not isinstance(listed, list) or not listed or not all(isinstance(each, str) and each for each in listed):
                raise Deviation("authorization_servers with at least one issuer in each document", brief(listed))
            # From 2026-07-28 on, clients compare the issuer exactly with the one in its own metadata.
            if issuer not in listed and not (is_legacy and f"{issuer}/" in listed):
                raise Deviation(f"the issuer {issuer} in authorization_servers of each document", brief(listed))


@check(
    "auth.server-metadata-resource",
    proves=("auth.prm-resource-matches", "auth.prm-server"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def metadata_resource(server: ServerUnderTest) -> None:
    """The metadata name the URL of the server as their resource."""
    own = urlsplit(issuer_of(server).resource)
    # Before 2026-07-28 the resource may be the whole origin.
    whole = f"{own.scheme}://{own.netloc}"
    async with http_peer(server) as peer:
        is_legacy = peer.revision.era is Era.LEGACY
        for document in await _documents(peer):
            named = document.get("resource")
            # Another check covers a trailing slash.
            if named != own.geturl() and not (is_legacy and str(named).rstrip("/") in (own.geturl(), whole)):
                raise Deviation(f"resource {own.geturl()} in each document", brief(named))


@check(
    "auth.server-metadata-no-slash",
    proves=("auth.resource-no-trailing-slash",),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def metadata_no_slash(server: ServerUnderTest) -> None:
    """The resource in the metadata has no trailing slash."""
    async with http_peer(server) as peer:
        for document in await _documents(peer):
            named = document.get("resource")
            if isinstance(named, str) and named.endswith("/"):
                raise Deviation("a resource without a trailing slash", brief(named))


@check("auth.server-challenge-scope", proves=("auth.challenge-scope",), transports=_HTTP, subject=CheckScope.PROCESS)
async def challenge_scope(server: ServerUnderTest) -> None:
    """The challenge of a 401 response has the required scopes."""
    async with http_peer(server) as peer:
        if not _challenged(await probe(peer), "a request without a token").get("scope"):
            raise Deviation("scope in the challenge", "no scope")


@check(
    "auth.server-no-offline-access",
    proves=("auth.server-no-offline-access",),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def no_offline_access(server: ServerUnderTest) -> None:
    """Neither the challenge nor the metadata have the scope offline_access."""
    async with http_peer(server) as peer:
        parameters = _challenged(await probe(peer), "a request without a token").get("scope", "")
        for document in await _documents(peer):
            listed = document.get("scopes_supported")
            if "offline_access" in (*parameters.split(), *(listed if isinstance(listed, list) else ())):
                raise Deviation(
                    "no offline_access in the challenge and the metadata", f"scope {parameters!a}, {brief(listed)}"
                )


# --- validation of tokens
# -----------------------------------------------------------------------------------------------

_VALIDATES: Final = (
    "auth.validate-token",
    "auth.invalid-token-401",
    "auth.server-validates-token",
    "auth.server-401-invalid",
    "wif.server-validates-token",
)
_AUDIENCE: Final = (
    "auth.audience",
    "auth.server-own-resources",
    "auth.no-other-tokens",
    "auth.server-validates-audience",
    "auth.server-no-other-tokens",
)
_ANOTHER: Final = "https://elsewhere.example/mcp"

_BAD: Final[Mapping[str, tuple[str, tuple[Changes, ...], tuple[str, ...]]]] = {
    "key": ("A token that is signed with another key, or names one, is rejected with 401.", ({},), _VALIDATES),
    "expired": ("An expired token is rejected with 401, also one without a time of expiry.", (), _VALIDATES),
    "issuer": (
        "A token of another issuer, or of none, is rejected with 401.",
        ({"iss": "https://elsewhere.example"}, {"iss": OMITTED}, {"iss": None}, {"iss": ""}),
        (*_VALIDATES, "auth.no-other-tokens", "auth.server-no-other-tokens"),
    ),
    "audience": ("A token for another resource is rejected with 401.", ({"aud": _ANOTHER},), _AUDIENCE),
    "no-audience": (
        "A token without an audience is rejected with 401.",
        ({"aud": OMITTED}, {"aud": None}, {"aud": ""}),
        _AUDIENCE,
    ),
}
"""The title, the changed claims of each token, and the requirements, by the error in the tokens."""


def _add_bad(name: str) -> None:
    title, variants, proves = _BAD[name]

    async def run(server: ServerUnderTest) -> None:
        async with http_peer(server) as peer:
            sent_ = await send_invalid(
                server,
                peer,
                await known_bound_token(server, peer),
                variants or _never_valid(),
                foreign_key=name == "key",
                deviant=f"a token with an invalid {name}",
            )
            if name == "key":
                token, what = issuer_of(server).token(foreign_key=True, key_id="conformance-none"), "an unknown key id"
                sent_ += [(f"a request with {what}", await probe(peer, bearer(token), deviant=what))]
            for what, answer in sent_:
                _expect(answer, 401, what)

    SERVER_CHECKS.add(
        f"auth.server-token-{name}", run, title=title, proves=proves, transports=_HTTP, subject=CheckScope.PROCESS
    )


for _name in _BAD:
    _add_bad(_name)


@check(
    "auth.server-token-early",
    proves=("auth.http-conform", "auth.http-should-conform"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def token_early(server: ServerUnderTest) -> None:
    """A token that is not valid yet is rejected with 401."""
    async with http_peer(server) as peer:
        early: Changes = {"nbf": int(time.time()) + _PAST}
        accepted = await known_bound_token(server, peer)
        for what, answer in await send_invalid(
            server, peer, accepted, [early], deviant="a token that is not valid yet"
        ):
            _expect(answer, 401, what)


@check(
    "auth.server-token-expires",
    proves=("auth.server-validates-token", "auth.server-401-invalid", "auth.every-request-authenticated"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def token_expires(server: ServerUnderTest) -> None:
    """A token that the server has accepted is rejected after its expiry."""
    issuer = issuer_of(server)
    async with http_peer(server) as peer:

        async def accepts(token: str) -> bool:
            answer = await probe(peer, bearer(token), deviant="a token that may have expired")
            return answer.status == 200

        if await accepts(issuer.token(changes={"exp": int(time.time()) - 2})):
            raise NotApplicable("the server accepts tokens for some time after their expiry")
        end = int(time.time()) + 2
        token, bound = issuer.token(changes={"exp": end}), BoundToken(server, peer, {"exp": end})
        if not await accepts(token):
            raise NotTestable("the control request failed: the server rejects a token that expires soon")
        takes_bound = (await bound.send_valid()).status == 200
        for later in (0.1, 1.1):
            # Only time makes a token expire. A server may count whole seconds.
            await trio.sleep(max(end + later - time.time(), 0))
            if not await accepts(issuer.token(changes={"exp": end})):
                break
        else:
            raise NotApplicable("the server accepts tokens for some time after their expiry")
        _expect(await probe(peer, bearer(token), deviant="an expired token"), 401, "an expired token that was valid")
        if takes_bound:
            answer = await bound.send(bound.proof(), deviant="an expired token")
            _expect(answer, 401, "an expired token that was valid, and is bound to a key")


@check(
    "auth.server-before-processing",
    proves=("auth.server-validates-before-processing", "auth.validate-token"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def before_processing(server: ServerUnderTest) -> None:
    """A request without a valid token has no effect, and its response no result."""
    async with http_peer(server) as peer:
        for headers in ((), bearer("no-such-token")):
            answer = await sent(peer, "tools/list", {}, headers)
            if "result" in (json_object(answer.body) or {}) or b'"tools"' in answer.body:
                raise Deviation("no data for a request without a valid token", f"{answer.body[:120]!r}")
        with suppress(NotTestable):
            name, _ = server.tool(UPSTREAM_TOOL)
            async with open_third_party(server) as third_party:
                call: JsonObject = {"name": name, "arguments": {"url": f"{third_party.url}/upstream"}}
                for headers in ((), bearer("no-such-token")):
                    await sent(peer, "tools/call", call, headers)
            if third_party.received:
                raise Deviation(f"no effect of {name} without a valid token", third_party.received[0][:120])


_REQUESTS: Final[tuple[tuple[str, JsonObject], ...]] = (
    (UNKNOWN_METHOD, {}),
    ("tools/list", {}),
    ("tools/call", {"name": ADMIN_TOOL, "arguments": {}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "test://conformance/private"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "conformance_private_prompt", "arguments": {"word": "a"}}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "conformance_private_prompt"},
            "argument": {"name": "word", "value": ""},
        },
    ),
)
"""Requests of each revision, and one that no server has. A server may have a list of the methods that need a token, or of
those that need none."""
_LEGACY_REQUESTS: Final[tuple[tuple[str, JsonObject], ...]] = (
    ("ping", {}),
    ("logging/setLevel", {"level": "error"}),
    ("resources/subscribe", {"uri": "test://conformance/private"}),
)
_MODERN_REQUESTS: Final[tuple[tuple[str, JsonObject], ...]] = (
    ("server/discover", {}),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
)


def _equivalent_paths(path: str) -> Iterator[str]:
    """Yield other forms of a path, which a server may route as this path but not protect."""
    last = path.rpartition("/")[2]
    if last:
        yield f"{path.removesuffix(last)}%{ord(last[0]):x}{last[1:]}"
    yield f"{path};x=1"
    yield f"/conformance/..{path}"
    yield f"/.{path}"


@check(
    "auth.server-every-request",
    proves=("auth.missing-token-401", "auth.every-request-authenticated", "security.verify-all-requests"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def every_request(server: ServerUnderTest) -> None:
    """Each request needs the token, regardless of its method, of earlier requests and of the form of its URL."""
    async with http_peer(server) as peer:
        modern = peer.revision.era is Era.MODERN

        async def send(method: str, params: JsonObject) -> None:
            _expect(await sent(peer, method, params, ()), 401, f"{method} without a token")

        async with open_nursery() as nursery:
            for method, params in (*(_MODERN_REQUESTS if modern else _LEGACY_REQUESTS), *_REQUESTS):
                nursery.start_soon(send, method, params)
        path, _, query = peer.endpoint.target.partition("?")
        for target in (f"{path}?{query}&x=1", f"{path}/", f"/{path}", path.upper(), *_equivalent_paths(path)):
            answer = await sent(peer, "tools/list", {}, (), target=target, deviant="no token")
            # A server may reject such a URL in another way, or have a page there.
            if has_result(answer):
                raise Deviation(f"no data for tools/list without a token at {target}", f"{answer.body[:120]!r}")
        if isinstance(server.target, UrlTarget) and server.target.sse is not None:
            await _require_token_for_stream(peer, server.target.sse)
            await _require_token_for_messages(server.target, peer)
        if peer.revision.batching:
            batch: list[JsonValue] = [peer.message("ping"), peer.message("tools/list")]
            for what, headers in (("without a token", ()), (_OPAQUE, bearer("no-such-token"))):
                lines = (*without_token(peer, batch), *headers)
                answer = await exchanged(peer, "POST", lines, encoded(batch), deviant=what)
                _expect(answer, 401, f"a batch {what}")


async def _require_token_for_stream(peer: HttpConnection, stream: Endpoint) -> None:
    """Require that the stream of HTTP+SSE, which a server may offer beside its endpoint, needs the token too."""
    what = f"a response to GET {stream.url}"
    try:
        async with (
            peer.within(what),
            stream.exchange(peer.transcript, "GET", (("Accept", "text/event-stream"),), deviant="no token") as exchange,
        ):
            status = exchange.status
    except IncompleteResponse as ended:
        raise Deviation(what, str(ended)) from ended
    if status < 300:
        raise Deviation(f"HTTP 401 for GET {stream.url} without a token", f"HTTP {status}")


async def _require_token_for_messages(target: UrlTarget, peer: HttpConnection) -> None:
    """Require that a POST to the endpoint that the stream of HTTP+SSE names needs the token too."""
    try:
        async with target.open(peer.revision, Transport.HTTP_SSE, handshake=False) as old:
            if not isinstance(old, SseConnection):
                return
            endpoint = await old.opened()
            typed = (("Content-Type", "application/json"),)
            body, what = encoded(peer.message("ping")), "no token"
            answer = await exchanged(peer, "POST", typed, body, target=endpoint, endpoint=old.endpoint, deviant=what)
    except Deviation:
        # Other checks cover the stream.
        return
    if answer.status < 300:
        raise Deviation(f"HTTP 401 for POST {endpoint} without a token", f"HTTP {answer.status}")


@check(
    "security.session-is-no-token",
    proves=("security.no-session-authentication", "security.verify-all-requests"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def session_is_no_token(server: ServerUnderTest) -> None:
    """A session id does not replace a token."""
    async with http_peer(server) as peer:
        _require_session(peer)
        _expect(await probe(peer, in_session=True), 401, "a session id without a token")


@check(
    "security.session-of-another",
    proves=("security.session-bound-to-user",),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def session_of_another(server: ServerUnderTest) -> None:
    """A user has no access to the session of another user, with any message and method, and cannot end it."""
    async with http_peer(server) as peer:
        _require_session(peer)
        own, eve = (bearer(issuer_of(server).token(changes={"sub": sub})) for sub in ("ada", "eve"))
        _expect_control(await probe(peer, own, in_session=True))
        what = "the session of another user"
        answers = [("ping", await probe(peer, eve, in_session=True, deviant=what))]
        answers += [(each, await sent(peer, each, {}, eve, deviant=what)) for each in ("tools/list", "resources/list")]
        lines = [each for each in without_token(peer, {}) if each[0].lower() not in ("accept", "content-type")]
        for method, accept in (("GET", (("Accept", "text/event-stream"),)), ("DELETE", ())):
            answer = await peer.look(method, headers=[*lines, *accept, *eve], deviant=what)
            # A server may reject the method itself.
            if answer.status != 405:
                answers.append((method, answer))
        for message, answer in answers:
            if answer.status not in (400, 401, 403, 404):
                raise Deviation(f"a rejection of {message} of eve in the session of ada", f"HTTP {answer.status}")
        if (await probe(peer, own, in_session=True)).status != 200:
            raise Deviation("a session of ada that eve cannot end", "the session has ended")


def _expect_control(answer: HttpResponse) -> None:
    if answer.status != 200:
        raise NotTestable(f"the control request failed: a request in its own session gets HTTP {answer.status}")


def _require_session(peer: HttpConnection) -> None:
    if peer.session_id is None:
        raise NotTestable("the server issues no session id")


@check(
    "auth.server-resource-upper-case",
    proves=("auth.resource-accept-uppercase", "auth.resource-uppercase-accepted"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def upper_case(server: ServerUnderTest) -> None:
    """A token for the server's URL with scheme and host in upper case is accepted."""
    issuer = issuer_of(server)
    parts = urlsplit(issuer.resource)
    upper = f"{parts.scheme.upper()}://{parts.netloc.upper()}{parts.path}"
    async with http_peer(server) as peer:
        _expect(await probe(peer, bearer(issuer.token(changes={"aud": upper}))), 200, f"a token for {upper}")


# --- scopes ---------------------------------------------------------------------------------------------------------------


async def _call_beyond(server: ServerUnderTest, peer: HttpConnection) -> HttpResponse:
    """Call a tool with a token of insufficient scope, after a control with sufficient scope."""
    name, _ = server.tool(ADMIN_TOOL)
    good = await called(peer, name, _with_scope(server, f"{BASE} {ADMIN}"))
    if good.status != 200:
        raise NotTestable(f"the control request failed: {name} with {ADMIN} gets HTTP {good.status}")
    return await called(peer, name, _with_scope(server, BASE))


async def _refused_call(server: ServerUnderTest, peer: HttpConnection) -> dict[str, str]:
    """Return the challenge in the rejection of such a call. Raise `NotTestable` when there is no challenge."""
    answer = await _call_beyond(server, peer)
    parameters = challenge(answer)
    if answer.status != 403 or parameters is None:
        raise NotTestable(f"a call that needs {ADMIN} with a token for {BASE} gets HTTP {answer.status}")
    return parameters


def _with_scope(server: ServerUnderTest, scope: str) -> Headers:
    return bearer(issuer_of(server).token(changes={"scope": scope}))


@check(
    "auth.server-scope",
    proves=("auth.status-codes", "auth.error-statuses", "auth.insufficient-scope-403"),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def scope(server: ServerUnderTest) -> None:
    """A call with insufficient scope gets 403 and `error="insufficient_scope"`; the same user may then use more scope."""
    async with http_peer(server) as peer:
        answer = await _call_beyond(server, peer)
        _expect(answer, 403, f"a call that needs {ADMIN} with a token for {BASE}")
        parameters = _challenged(answer, "a token with insufficient scope")
        if parameters.get("error") != "insufficient_scope":
            raise Deviation('error="insufficient_scope"', str(parameters))
        if (flaw := flaw_of_challenges(answer)) is not None:
            raise Deviation("challenges with valid syntax in the 403 response", flaw)
        name, _ = server.tool(ADMIN_TOOL)
        accepted = await known_bound_token(server, peer)
        if accepted is not None:
            narrow = BoundToken(server, peer, {"scope": BASE}, nonce=accepted.nonce)
            _expect(await narrow.call(name), 403, f"a call that needs {ADMIN} with a bound token for {BASE}")
        again = await called(peer, name, _with_scope(server, f"{BASE} {ADMIN}"))
        _expect(again, 200, f"a call that needs {ADMIN} with a token for it, after one without it")


@check(
    "auth.server-scope-named",
    proves=(
        "auth.insufficient-scope-lists-scopes",
        "auth.insufficient-scope-scope",
        "auth.insufficient-scope-all-at-once",
    ),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def scope_named(server: ServerUnderTest) -> None:
    """The challenge of a 403 response has all scopes that the call needs, so that a token with them is sufficient."""
    async with http_peer(server) as peer:
        named = (await _refused_call(server, peer)).get("scope", "")
        if ADMIN not in named.split():
            raise Deviation(f"scope with {ADMIN}", named)
        name, _ = server.tool(ADMIN_TOOL)
        if peer.revision.era is Era.MODERN:
            # The challenge may omit scopes of the token. Clients add them.
            answer = await called(peer, name, _with_scope(server, UNRELATED))
            named = (challenge(answer) or {}).get("scope", "") if answer.status == 403 else ""
            if not named:
                return
        answer = await called(peer, name, _with_scope(server, f"{UNRELATED} {named}"))
        if answer.status == 403:
            again = (challenge(answer) or {}).get("scope")
            raise Deviation(f"no further scopes than {named} for a call", f"HTTP 403 with scope {again!a}")


@check(
    "auth.server-scope-metadata",
    proves=("auth.insufficient-scope-resource-metadata",),
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def scope_metadata(server: ServerUnderTest) -> None:
    """The challenge of a 403 response has the URL of the metadata."""
    async with http_peer(server) as peer:
        parameters = await _refused_call(server, peer)
        if not parameters.get("resource_metadata"):
            raise Deviation("resource_metadata in the challenge", str(parameters))


@check("auth.server-scope-hierarchy", proves=("auth.scope-hierarchy",), transports=_HTTP, subject=CheckScope.PROCESS)
async def scope_hierarchy(server: ServerUnderTest) -> None:
    """A scope that includes the required one is sufficient."""
    async with http_peer(server) as peer:
        await _call_beyond(server, peer)
        name, _ = server.tool(ADMIN_TOOL)
        _expect(
            await called(peer, name, _with_scope(server, ROOT)),
            200,
            f"a call that needs {ADMIN} with a token for {ROOT}",
        )
