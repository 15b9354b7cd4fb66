"""The token endpoint, with the grants for codes, refresh tokens, client credentials and assertions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import attrs

from mcp_conformance.oauth_testbed.client_jwts import s256
from mcp_conformance.oauth_testbed.http_messages import Response, json_response, single
from mcp_conformance.oauth_testbed.metadata_documents import changed, is_among, is_published
from mcp_conformance.oauth_testbed.registered_clients import ANY_SECRET_METHOD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from mcp_conformance.oauth_testbed.client_jwts import NonceIssuer, ProofChecks
    from mcp_conformance.oauth_testbed.http_messages import Pairs, Request
    from mcp_conformance.oauth_testbed.metadata_documents import TestbedUrls
    from mcp_conformance.oauth_testbed.quirks import Quirks
    from mcp_conformance.oauth_testbed.registered_clients import Client, Clients
    from mcp_conformance.oauth_testbed.violations import ViolationRecorder
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Code", "Token", "TokenEndpoint"]

_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")


@attrs.define(kw_only=True)
class Code:
    """The authorization behind a code."""

    client_id: str
    """The client."""
    redirect_uri: str
    """The redirect URI."""
    challenge: str
    """The code challenge."""
    challenge_method: str
    """The method of the challenge."""
    resource: str
    """The resource of the token."""
    scopes: tuple[str, ...]
    """The scopes of the token."""
    poison: str | None = None
    """The requirement that a client breaks if it redeems the code."""
    used: bool = False
    """Whether the code was redeemed."""


@attrs.define(kw_only=True)
class Token:
    """An access token."""

    text: str = attrs.field(repr=False)
    """The token itself."""
    kind: str
    """`Bearer` or `DPoP`."""
    client_id: str | None
    """The client."""
    resource: str
    """The resource."""
    scopes: frozenset[str]
    """The scopes."""
    expires_at: float
    """The time of expiry, in seconds since the epoch."""
    thumbprint: str | None
    """The thumbprint of the key to which the token is bound."""
    family: int
    """The number of the authorization from which the token was derived."""
    said: bool = True
    """Whether the token response stated its type."""
    is_known: bool = True
    """Whether the token response stated no type, or one that clients know."""


@attrs.define
class _Refresh:
    token: Token
    used: bool = False


@attrs.define
class _TokenError(Exception):
    """The response is an error."""

    error: str
    status: int = 400
    headers: Pairs = ()


@attrs.define(kw_only=True)
class TokenEndpoint:
    """The token endpoint of one authorization server."""

    quirks: Quirks
    """The deviations from the default behavior."""
    places: TestbedUrls
    """The URLs of all servers."""
    recorder: ViolationRecorder
    """The recorded violations."""
    clients: Clients
    """The registered clients."""
    proofs: ProofChecks
    """The verification of proofs."""
    nonces: NonceIssuer
    """The nonces that proofs require."""
    resources: AbstractSet[str]
    """The resources that tokens can be issued for."""
    assertions: Mapping[str, str]
    """The trusted JWTs, with the requirement that each tests."""
    has_accepted: Callable[[], bool] = attrs.field(default=lambda: False, repr=False)
    """Returns whether the MCP server has accepted a token."""
    codes: dict[str, Code] = attrs.field(factory=dict, repr=False)
    """The issued codes."""
    issued: dict[str, Token] = attrs.field(factory=dict, repr=False)
    """The issued access tokens that are not revoked. They may have expired."""
    texts: set[str] = attrs.field(factory=set, init=False, repr=False)
    """All access tokens issued so far, also those that are revoked."""
    refresh_texts: set[str] = attrs.field(factory=set, init=False, repr=False)
    """All refresh tokens issued so far, also those that are used or revoked."""
    _refreshes: dict[str, _Refresh] = attrs.field(factory=dict, init=False, repr=False)
    _resources: dict[str, str] = attrs.field(factory=dict, init=False, repr=False)
    """The resource of each refresh token issued so far, also of those that are used or revoked."""
    _families: int = attrs.field(default=0, init=False)
    _forgotten: int = attrs.field(default=0, init=False)
    _refused: set[tuple[bytes, str | None]] = attrs.field(factory=set, init=False, repr=False)

    def answer(self, request: Request, now: float) -> Response:
        """Respond to a token request."""
        expect, form = self.recorder.expect, request.form
        names = [name for name, _ in form]
        expect(request.method == "POST", "auth.oauth21-security", "a token request is not a POST")
        expect(
            request.media_type == "application/x-www-form-urlencoded",
            "auth.oauth21-security",
            "a token request is not a form",
        )
        expect(len(names) == len(set(names)), "auth.oauth21-security", "a token request has a field twice")
        expect(not request.query, "auth.oauth21-security", "a token request has fields in its URL")
        for name in ("code_verifier", "client_assertion"):
            if value := single(form).get(name):
                self.recorder.secrets.setdefault(value, self.places.server)
        try:
            return self._granted(request, single(form), now)
        except _TokenError as error:
            headers = (*self.nonces.headers(), *error.headers)
            return json_response({"error": error.error}, error.status, headers)

    def _granted(self, request: Request, form: dict[str, str], now: float) -> Response:
        kind = form.get("grant_type")
        self.recorder.expect(kind is not None, "auth.oauth21-security", "a token request has no grant_type")
        client, proved = self.clients.authenticate(request, now=now, needed=kind != _JWT_BEARER)
        redeems = kind == "authorization_code"
        if client is not None and redeems and self._forgotten < self.quirks.forgets:
            self._forgotten += 1
            self.clients.forget(client.client_id)
            proved = False
        if not proved:
            self._check_repetition(request, form)
            # The authentication for other grants, and that of a client that was given a secret, have checks of their own.
            code = self.codes.get(form.get("code", ""))
            owner = None if code is None else self.clients.find(code.client_id)
            judged = kind == "refresh_token" or (owner is not None and owner.method not in ("none", ANY_SECRET_METHOD))
            self.recorder.expect(
                bool(self.clients.forgotten) or not judged,
                "auth.oauth21-security",
                f"a request with the grant type {kind} does not authenticate its client as it is registered",
            )
            raise _TokenError("invalid_client", 401)
        thumbprint = self._bound(request, now)
        resource = form.get("resource", "")
        self.recorder.expect("resource" in form, "auth.resource-in-token", "a token request has no resource")
        known = is_among(resource, self.resources) or "resource" not in form
        self.recorder.expect(known, "auth.resource-identifies-server", f"a token for {resource!a} is requested")
        requested = frozenset(form.get("scope", "").split())
        match kind:
            case "authorization_code":
                token = self._by_code(form, client)
            case "refresh_token":
                token = self._by_refresh(form, client, requested, thumbprint)
            case "client_credentials" if client is not None and client.method != "none":
                token = self._fresh(client, resource, requested)
            case "urn:ietf:params:oauth:grant-type:jwt-bearer":
                token = self._by_assertion(form, client, resource, requested)
            case _:
                refreshing = kind is not None and "refresh_token" in form
                self.recorder.expect(
                    not refreshing, "auth.oauth21-security", f"a refresh request has the grant_type {kind!a}"
                )
                raise _TokenError("unsupported_grant_type")
        token.thumbprint, token.kind = thumbprint, "Bearer" if thumbprint is None else "DPoP"
        kinds = ("authorization_code", *(() if self.quirks.refresh == "issued once" else ("refresh_token",)))
        return self._answer(token, now, refreshable=kind in kinds and self.quirks.refresh != "never")

    def _check_repetition(self, request: Request, form: dict[str, str]) -> None:
        """Record a code that is sent again although its client was refused, unless the client authenticates in another way."""
        if form.get("code") not in self.codes:
            return
        sent = (request.body, request.header("authorization"))
        self.recorder.expect(
            sent not in self._refused, "auth.oauth21-security", "a code is sent again after the client was refused"
        )
        self._refused.add(sent)

    def _bound(self, request: Request, now: float) -> str | None:
        """Return the thumbprint of the key to which the token will be bound."""
        if self.quirks.dpop == "off":
            return None
        proof = self.proofs.check(request, now)
        if proof is None:
            if request.header("dpop") is None and self.quirks.dpop == "accepted":
                return None
            # A client without metadata cannot know that a proof is required.
            known = bool(self.quirks.server_metadata_at) and is_published(self.quirks)
            if request.header("dpop") is None and known:
                self.recorder.note("dpop.client-token-request-proof", "a token request has no proof")
            raise _TokenError("invalid_dpop_proof")
        if not self.nonces.accept(proof):
            raise _TokenError("use_dpop_nonce")
        return proof.thumbprint

    def _by_code(self, form: dict[str, str], client: Client | None) -> Token:
        expect = self.recorder.expect
        code = self.codes.get(form.get("code", ""))
        expect(code is not None, "auth.oauth21-security", "a token request has no code of the server")
        if code is None or client is None:
            raise _TokenError("invalid_grant")
        if code.poison is not None:
            self.recorder.note(code.poison, "a code of a response that had to be dropped is redeemed")
            raise _TokenError("invalid_grant")
        verifier = form.get("code_verifier", "")
        verified = _VERIFIER.fullmatch(verifier) is not None and _challenge(verifier, code) == code.challenge
        good = [
            expect(not code.used, "auth.oauth21-security", "a code is redeemed twice"),
            expect(code.client_id == client.client_id, "auth.oauth21-security", "a code is redeemed by another client"),
            expect(
                # OAuth 2.1 does not have this field any more, and a client may still send it.
                form.get("redirect_uri", code.redirect_uri) == code.redirect_uri,
                "auth.oauth21-security",
                "the redirect URI is not that of the authorization request",
            ),
            expect(verified, "auth.pkce", "the verifier does not match the challenge"),
            expect(
                not code.resource or form.get("resource", code.resource) == code.resource,
                "auth.resource-identifies-server",
                "the resource of the token request is not that of the authorization request",
            ),
        ]
        code.used = True
        if not all(good):
            raise _TokenError("invalid_grant")
        return self._fresh(client, code.resource, frozenset(code.scopes))

    def _by_refresh(
        self, form: dict[str, str], client: Client | None, requested: frozenset[str], thumbprint: str | None
    ) -> Token:
        text, expect = form.get("refresh_token", ""), self.recorder.expect
        expect(
            text in self.refresh_texts, "auth.oauth21-security", "a refresh request has no refresh token of the server"
        )
        kept, resource = self._refreshes.get(text), self._resources.get(text)
        same = expect(
            not resource or form.get("resource", resource) == resource,
            "auth.resource-identifies-server",
            "the resource of a refresh request is not that of the authorization request",
        )
        if kept is None or client is None or kept.token.client_id != client.client_id:
            raise _TokenError("invalid_grant")
        if kept.used and self.quirks.refresh == "rotates":
            self.recorder.note("auth.oauth21-security", "a refresh token is used twice, although it was rotated")
            self.revoke(kept.token.family)
            raise _TokenError("invalid_grant")
        wider = requested - kept.token.scopes
        expect(not wider, "auth.oauth21-security", f"a refresh request adds scopes: {' '.join(sorted(wider))}")
        if not same:
            raise _TokenError("invalid_target")
        # Refresh tokens of public clients are bound to the key, too (RFC 9449, section 5).
        if client.method == "none" and not self.recorder.expect(
            kept.token.thumbprint in (None, thumbprint),
            "dpop.client-token-request-proof",
            "a refresh request has a proof with another key than that of the token",
        ):
            raise _TokenError("invalid_grant")
        kept.used = True
        scopes = kept.token.scopes & requested if requested else kept.token.scopes
        token = self._fresh(client, kept.token.resource, scopes)
        token.family = kept.token.family
        return token

    def _by_assertion(
        self, form: dict[str, str], client: Client | None, resource: str, requested: frozenset[str]
    ) -> Token:
        if form.get("assertion") not in self.assertions:
            raise _TokenError("invalid_grant")
        return self._fresh(client, resource, requested)

    def _fresh(self, client: Client | None, resource: str, scopes: frozenset[str]) -> Token:
        self._families += 1
        return Token(
            text=self.recorder.new("access", self.places.origin) + ("._~+/==" if self.quirks.strange_texts else ""),
            kind="Bearer",
            client_id=None if client is None else client.client_id,
            resource=resource,
            scopes=scopes,
            expires_at=0.0,
            thumbprint=None,
            family=self._families,
        )

    def find(self, text: str) -> Token | None:
        """Return the access token with this text, or the one that was issued with this refresh token."""
        kept = self._refreshes.get(text)
        return self.issued.get(text) if kept is None else kept.token

    def _answer(self, token: Token, now: float, *, refreshable: bool) -> Response:
        token.expires_at = now + self.quirks.lifetime
        document: JsonObject = {"access_token": token.text, "token_type": token.kind}
        if self.quirks.lifetime != float("inf"):
            document["expires_in"] = int(self.quirks.lifetime)
        if token.scopes:
            document["scope"] = " ".join(sorted(token.scopes))
        if refreshable:
            refresh = self.recorder.new("refresh", self.places.server)
            refresh += "/+ %2F&=" if self.quirks.strange_texts else ""
            self._refreshes[refresh] = _Refresh(token)
            self.refresh_texts.add(refresh)
            self._resources[refresh] = token.resource
            document["refresh_token"] = refresh
        later = self.quirks.token_later if self.has_accepted() else {}
        document = changed(document, {**self.quirks.token, **later}, self.places)
        token.scopes = _scopes(document.get("scope"), token.scopes)
        token_type = document.get("token_type")
        token.said = isinstance(token_type, str) and token_type.lower() == token.kind.lower()
        token.is_known = not isinstance(token_type, str) or token_type.lower() in ("bearer", "dpop")
        self.issued[token.text] = token
        self.texts.add(token.text)
        headers = self.nonces.headers()
        if not self.quirks.token_as_form:
            return json_response(document, headers=headers)
        typed = (("Content-Type", "application/x-www-form-urlencoded"), *headers)
        return Response(status=200, headers=typed, body=urlencode({n: str(v) for n, v in document.items()}).encode())

    def revoke(self, family: int | None = None) -> None:
        """Revoke all tokens of one authorization, or of all for `None`."""
        self.issued = {text: each for text, each in self.issued.items() if family not in (None, each.family)}
        self._refreshes = {
            text: each for text, each in self._refreshes.items() if family not in (None, each.token.family)
        }

    def expire(self) -> None:
        """Expire all access tokens. Refresh tokens stay valid."""
        self.issued.clear()


def _challenge(verifier: str, code: Code) -> str | None:
    """Return the challenge of a verifier by the method of the code; `None` for an unknown method."""
    return {"S256": s256(verifier), "plain": verifier}.get(code.challenge_method)


def _scopes(value: JsonValue, requested: frozenset[str]) -> frozenset[str]:
    """Return the granted scopes as the token response states them."""
    if isinstance(value, str):
        return frozenset(value.split())
    if isinstance(value, list):
        return frozenset(each for each in value if isinstance(each, str))
    return requested
