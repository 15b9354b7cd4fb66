"""A minimal MCP server that requires a token. Any client can complete a session with it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.oauth_testbed.client_jwts import NonceIssuer, ProofChecks
from mcp_conformance.oauth_testbed.http_messages import Response, json_object, json_response
from mcp_conformance.oauth_testbed.metadata_documents import changed, listed, resource_metadata
from mcp_conformance.oauth_testbed.quirks import Part
from mcp_core.revisions import LATEST_LEGACY, MODERN, REVISIONS
from mcp_core.types.meta import SUBSCRIPTION_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_conformance.oauth_testbed.authorization_server import AuthorizationServer, Demands
    from mcp_conformance.oauth_testbed.http_messages import Pairs, Request
    from mcp_conformance.oauth_testbed.metadata_documents import TestbedUrls
    from mcp_conformance.oauth_testbed.quirks import Quirks
    from mcp_conformance.oauth_testbed.token_endpoint import Token
    from mcp_conformance.oauth_testbed.violations import ViolationRecorder
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["ProtectedResource"]

_SCOPE: Final = re.compile(r'(?:^|[\s,])scope=(?:"([^"]*)"|([^\s,"]+)(?=[\s,]|$))', re.IGNORECASE)
"""The scope of a challenge. Other places where a challenge contains `scope=` are behind a letter, or before a quotation mark."""
_MOST_REFUSALS: Final = 2
_STREAM: Final = (("Content-Type", "text/event-stream"),)
_EVENT: Final = "held-1"
"""The id of the only event of the stream that ends early."""
_MOVED: Final = "/meta/moved.json"
"""The path of metadata that have moved."""
_INFO: Final[JsonObject] = {"name": "protected", "version": "1"}
_CACHE: Final[JsonObject] = {"ttlMs": 0, "cacheScope": "private"}
_META: Final[JsonObject] = {"io.modelcontextprotocol/serverInfo": _INFO}
_SESSION: Final = ("Mcp-Session-Id", "session-1")
"""The header with which a legacy session begins. Whether the client names it later does not matter here."""


def _result(method: str, params: JsonObject) -> JsonObject | None:
    """Return the result of a method; `None` for an unknown method."""
    match method:
        case "initialize":
            version: JsonValue = params.get("protocolVersion", LATEST_LEGACY.name)
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": _INFO}
        case "server/discover":
            return {"supportedVersions": [each.name for each in MODERN], "capabilities": {"tools": {}}, **_CACHE}
        case "tools/list":
            tool: JsonObject = {"name": "read", "description": "Reads the note.", "inputSchema": {"type": "object"}}
            return {"tools": [tool], **_CACHE}
        case "tools/call":
            return {"content": [{"type": "text", "text": "the note"}]}
        case "ping":
            return {}
    return None


def _subscribed(params: JsonObject, id: JsonValue) -> Response:
    """Return a stream that acknowledges a subscription, and ends it with a result."""
    wanted, meta = params.get("notifications"), {SUBSCRIPTION_ID: id}
    tools = isinstance(wanted, dict) and wanted.get("toolsListChanged") is True
    granted: JsonObject = {"toolsListChanged": True} if tools else {}
    acknowledged: JsonObject = {
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"notifications": granted, "_meta": meta},
    }
    ended: JsonObject = {"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", "_meta": {**_META, **meta}}}
    events = (f"data: {json.dumps(each)}\n\n" for each in (acknowledged, ended))
    return Response(status=200, headers=_STREAM, body="".join(events).encode())


def _speak(message: JsonObject, *, modern: bool, listens: bool = False) -> Response:
    """Return the response of a correct server."""
    method, params, id = message.get("method"), message.get("params"), message.get("id")
    if id is None:
        return Response(status=202)
    given = params if isinstance(params, dict) else {}
    if listens and method == "subscriptions/listen":
        return _subscribed(given, id)
    result = _result(str(method), given)
    if result is not None and listens and method == "server/discover":
        result = {**result, "capabilities": {"tools": {"listChanged": True}}}
    if result is None:
        error: JsonObject = {"code": -32601, "message": "unknown method"}
        return json_response({"jsonrpc": "2.0", "id": id, "error": error}, 404 if modern else 200)
    more: JsonObject = {"resultType": "complete", "_meta": _META} if modern else {}
    response = json_response({"jsonrpc": "2.0", "id": id, "result": {**result, **more}})
    return attrs.evolve(response, headers=(*response.headers, _SESSION)) if method == "initialize" else response


@attrs.define(kw_only=True)
class ProtectedResource:
    """The MCP server."""

    quirks: Quirks
    """The deviations from the default behavior."""
    places: TestbedUrls
    """The URLs of all servers."""
    recorder: ViolationRecorder
    """The recorded violations."""
    demands: Demands
    """The required and the requested scopes."""
    servers: Sequence[AuthorizationServer]
    """All authorization servers; the first one that is not retired is the current one."""
    accepted: int = 0
    """The number of requests with a valid token."""
    _refusals: int = attrs.field(default=0, init=False)
    _held: bytes = attrs.field(default=b"", init=False)
    """The response that the resumed stream contains."""
    _proofs: ProofChecks = attrs.field(init=False)
    _nonces: NonceIssuer = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._proofs = ProofChecks(self.recorder)
        self._nonces = NonceIssuer(
            recorder=self.recorder,
            name="nonce-of-resource",
            requirement="dpop.client-rs-nonce",
            wanted=Part.MCP in self.quirks.nonce_at,
            how=self.quirks.nonces,
        )

    @property
    def own(self) -> AuthorizationServer:
        """The current authorization server."""
        return next(server for server in self.servers if not server.retired)

    @property
    def _prm(self) -> str:
        """The present URL of the metadata."""
        moved = self.quirks.resource_metadata_moves and self.accepted
        return f"{self.places.origin}{_MOVED}" if moved else self.places.prm

    def part(self, request: Request) -> Part | None:
        """Return the part that a request concerns; `None` for an unknown URL."""
        if request.url in (*self.places.prm_candidates, self.places.prm, self._prm):
            return Part.RESOURCE_METADATA
        return Part.MCP if request.place == self.places.endpoint else None

    def answer(self, request: Request, part: Part, now: float) -> Response:
        """Respond to a request."""
        if part is Part.RESOURCE_METADATA:
            return self._metadata(request)
        names = [name for name, _ in request.query]
        shown = any(text in request.url for server in self.servers for text in server.tokens.texts)
        self.recorder.expect(
            "access_token" not in names and not shown, "auth.token-not-in-query", "the URL contains a token"
        )
        message = json_object(request.body)
        if request.method == "POST" and message is None:
            return Response(status=400)
        method = str(message.get("method")) if message is not None else request.method
        refusal = self._refusal(request, method, now)
        if refusal is not None:
            return refusal
        if message is None:
            if self._held and request.header("last-event-id") == _EVENT:
                return Response(status=200, headers=_STREAM, body=b"data: " + self._held + b"\n\n")
            return Response(status=405, headers=(("Allow", "POST"),))
        revision = REVISIONS.get(request.header("mcp-protocol-version") or "")
        modern = revision in MODERN
        answer = _speak(message, modern=modern, listens=modern and self.quirks.listens)
        if self.quirks.resumes and method == "tools/call" and revision is not None and revision.priming_event:
            self._held = answer.body
            return Response(status=200, headers=_STREAM, body=f"id: {_EVENT}\nretry: 10\ndata:\n\n".encode())
        return attrs.evolve(answer, headers=(*answer.headers, *self._nonces.headers()))

    def _metadata(self, request: Request) -> Response:
        bare = request.header("authorization") is None
        self.recorder.expect(bare, "auth.client-only-own-as-tokens", "a request for metadata carries a token")
        if self.quirks.resource_metadata_at == "nowhere" or request.url not in (self.places.prm, self._prm):
            return Response(status=404)
        document = resource_metadata(self.quirks, self.places)
        if self.own.places.issuer != self.places.issuer:
            document = changed(document, self.own.quirks.resource_metadata, self.places)
        self.demands.supported = listed(document, "scopes_supported")
        return json_response(document)

    def _refusal(self, request: Request, method: str, now: float) -> Response | None:
        given = request.header("authorization")
        if given is None:
            usable = any(token.expires_at > now for token in self.own.tokens.issued.values())
            if self.accepted and usable:
                self.recorder.note("auth.bearer-every-request", f"{method} is sent without the available token")
            if self.quirks.guarded and method not in self.quirks.guarded:
                return None
            return self._challenge(401, self.quirks.challenge, self.quirks.scopes)
        self.recorder.expect(
            len(request.all("authorization")) == 1,
            "dpop.client-scheme" if self.quirks.dpop == "required" else "auth.bearer-header",
            "a request has more than one Authorization header",
        )
        issued = next((server.tokens.issued[given] for server in self.servers if given in server.tokens.issued), None)
        if issued is not None:
            requirement = "auth.bearer-header" if issued.kind == "Bearer" else "dpop.client-scheme"
            self.recorder.note(requirement, "a token is sent without a scheme")
            return self._challenge(401, self.quirks.challenge_invalid, self.quirks.scopes)
        scheme, _, text = given.partition(" ")
        # One or more spaces follow the scheme (RFC 6750, section 2.1).
        token = self._token(text.lstrip(" "))
        if token is None or token.expires_at <= now:
            return self._challenge(401, self.quirks.challenge_invalid, self.quirks.scopes)
        # RFC 6749, section 7.1.
        self.recorder.expect(
            token.is_known, "auth.oauth21-security", "an access token is used whose token_type is unknown"
        )
        right = scheme.lower() == token.kind.lower()
        requirement = "auth.bearer-header" if token.kind == "Bearer" else "dpop.client-scheme"
        if not right:
            self.recorder.expect(
                not token.said, requirement, f"a token of type {token.kind} is sent with the scheme {scheme[:20]!a}"
            )
            return self._challenge(401, self.quirks.challenge_invalid, self.quirks.scopes)
        if token.thumbprint is not None and (refusal := self._unproved(request, token, now)) is not None:
            return refusal
        return self._lacking(token, method)

    def _token(self, text: str) -> Token | None:
        """Find the token, if it was issued by an authorization server that this server names."""
        named = listed(resource_metadata(self.quirks, self.places), "authorization_servers")
        for server in self.servers:
            found = server.tokens.issued.get(text)
            if found is not None:
                own = server is self.own or (server.places.issuer in named and not server.retired)
                foreign = "a token of another authorization server is sent"
                self.recorder.expect(own or server.retired, "auth.client-only-own-as-tokens", foreign)
                return found if own else None
        issued = any(text in server.tokens.texts for server in self.servers)
        self.recorder.expect(
            issued, "auth.client-only-own-as-tokens", f"{text[:20]!a} is sent as a token, which no server issued"
        )
        return None

    def _unproved(self, request: Request, token: Token, now: float) -> Response | None:
        proof = self._proofs.check(request, now, access_token=token.text)
        self.recorder.expect(
            proof is None or proof.thumbprint == token.thumbprint, "dpop.client-fresh-proof", "a proof has another key"
        )
        if proof is None or proof.thumbprint != token.thumbprint:
            if request.header("dpop") is None:
                self.recorder.note("dpop.client-fresh-proof", "a request with a bound token has no proof")
            return self._dpop_error("invalid_dpop_proof")
        return None if self._nonces.accept(proof) else self._dpop_error("use_dpop_nonce")

    def _dpop_error(self, error: str) -> Response:
        challenge = ("WWW-Authenticate", f'DPoP error="{error}", algs="ES256"')
        return Response(status=401, headers=(challenge, *self._nonces.headers()))

    def _lacking(self, token: Token, method: str) -> Response | None:
        more = self.quirks.scopes_of.get(method, ())
        needed = (*self.quirks.scopes, *more)
        if more and self.quirks.insatiable:
            self._refusals += 1
            more = (*more, f"more:{self._refusals}")
            needed = (*self.quirks.scopes, *more)
        if set(needed) <= token.scopes:
            self.accepted += 1
            self.demands.accepted = True
            return None
        answer = self._challenge(403, self.quirks.challenge_scope, needed, more=more)
        said = any("insufficient_scope" in line for line in self.quirks.challenge_scope)
        self.demands.insufficient = said and self._refusals <= _MOST_REFUSALS
        return answer

    def _challenge(
        self, status: int, lines: Sequence[str], scopes: Sequence[str], *, more: Sequence[str] = ()
    ) -> Response:
        named = " ".join(scopes)
        self.demands.insufficient = False
        headers: Pairs = ()
        for line in lines:
            filled = line if named else line.replace(', scope="{scope}"', "")
            if self.quirks.dpop == "required":
                filled = filled.replace("Bearer ", 'DPoP algs="ES256", ')
            places = attrs.evolve(self.places, prm=self._prm)
            filled = places.fill(filled).replace("{scope}", named).replace("{more}", " ".join(more or scopes))
            headers = (*headers, ("WWW-Authenticate", filled))
        named_scopes = [
            found[1] or found[2] or "" for _, value in headers if (found := _SCOPE.search(value)) is not None
        ]
        # A client that asked the user twice in vain may start over without the required scopes.
        self.demands.challenged = tuple(" ".join(named_scopes).split()) if self._refusals <= _MOST_REFUSALS else ()
        return Response(status=status, headers=(*headers, *self._nonces.headers()))
