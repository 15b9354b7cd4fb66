"""The token endpoint of the raw authorization server: codes, refresh tokens, proofs, and its faults."""

from __future__ import annotations

import json
import secrets
import time
from base64 import b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote_plus

import attrs
import trio

from mcp_conformance.oauth_testbed.client_jwts import read_jwt, s256

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.wire.http_server import ServerExchange
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["RawTokens"]

_LIFETIME: Final = 600
_WINDOW: Final = 300
"""The greatest age of a proof, in seconds."""
_LONG: Final = 10.0 * _WINDOW
_SHORTEST: Final = 43
"""The length of the shortest verifier (RFC 7636 section 4.1)."""
_MEETING: Final = 2.0
"""Seconds for which a request with a code waits for another one."""


@attrs.define(kw_only=True)
class _Grant:
    """The grant of a code or refresh token."""

    client: str
    challenge: str
    resource: str | None = None
    used: bool = False
    key: str | None = None
    """The thumbprint of the key to which the refresh token is bound."""
    rotated: bool = False
    """Whether the refresh token replaced another."""
    _met: trio.Event | None = attrs.field(default=None, init=False)

    async def meet(self) -> None:
        """Wait for another request with the code."""
        if self._met is None:
            self._met = trio.Event()
            await self._met.wait()
        else:
            self._met.set()


_JSON: Final = (("Content-Type", "application/json"),)
_OTHER_ERRORS: Final[Mapping[str, tuple[str, tuple[str, ...], str]]] = {
    "invalid-request-for-codes": ("invalid_grant", ("authorization_code",), "invalid_request"),
    "invalid-request-for-refresh-tokens": ("invalid_grant", ("refresh_token",), "invalid_request"),
    "invalid-grant-for-grant-types": ("unsupported_grant_type", (), "invalid_grant"),
    "invalid-request-for-proofs": ("invalid_dpop_proof", (), "invalid_request"),
    "unauthorized-client-for-secrets": ("invalid_client", (), "unauthorized_client"),
}
"""The error that a fault replaces, the grant types for which it does (none: all), and the other error."""


class _TokenError(Exception):
    """An error response; the only argument is the error code."""


class RawTokens:
    """The token endpoint.

    Args:
        fault: The fault, or `None`.
    """

    def __init__(self, fault: str | None) -> None:
        self._fault: Final = fault
        self._codes: Final[dict[str, _Grant]] = {}
        self._refreshes: Final[dict[str, _Grant]] = {}
        self.bound: Final[set[str]] = set()
        """The clients whose tokens must be bound to a key."""
        self.secrets: Final[dict[str, str]] = {}
        """The secrets of clients that have one."""
        self.granted = False
        """Whether a code or refresh token got tokens."""
        self.refused = False
        """Whether a request was refused."""

    def code(self, client: str, challenge: str, resource: str | None) -> str:
        """Issue a code to a client."""
        code = f"code-{len(self._codes)}" if self._fault == "sequential-codes" else secrets.token_urlsafe(16)
        self._codes[code] = _Grant(client=client, challenge=challenge, resource=resource)
        return code

    async def answer(self, incoming: ServerExchange) -> None:
        """Answer a token request."""
        fields = dict(parse_qsl(incoming.body.decode(), keep_blank_values=True))
        try:
            self._authenticate(incoming, fields)
            key = self._key(incoming, fields)
            grant = self._granted(fields, key)
            if fields.get("resource", grant.resource) != grant.resource and self._fault != "code-for-any-resource":
                raise _TokenError("invalid_target")
        except _TokenError as why:
            self.refused = True
            await self._refuse(incoming, str(why), fields.get("grant_type"))
            return
        self.granted = True
        if self._fault == "code-at-once":
            # Two requests at once both find the code unused.
            with trio.move_on_after(_MEETING):
                await grant.meet()
        grant.used = True
        issued = attrs.evolve(grant, used=False, key=key, rotated=fields.get("grant_type") == "refresh_token")
        is_stored = self._fault == "tokens-stored" or (self._fault == "refreshed-tokens-stored" and issued.rotated)
        kept = () if is_stored else (("Cache-Control", "no-store"),)
        stored = (*kept, *(() if self._fault == "tokens-untyped" else _JSON))
        same = self._keeps(grant) or (self._fault == "rotates-once" and grant.rotated)
        refresh = fields.get("refresh_token") if same else None
        resource = None if self._fault == "refresh-for-no-resource" and issued.rotated else fields.get("resource")
        tokens = self._tokens(issued, key, refresh, resource)
        if self._fault == "refresh-any-scope" and issued.rotated and "scope" in fields:
            tokens["scope"] = fields["scope"]
        await incoming.respond(200, stored, json.dumps(tokens).encode())

    async def _refuse(self, incoming: ServerExchange, error: str, kind: str | None) -> None:
        """Answer a request of a grant type with an error."""
        replaced, kinds, other = _OTHER_ERRORS.get(self._fault or "", ("", (), ""))
        body: JsonObject = {"error": other if error == replaced and (not kinds or kind in kinds) else error}
        if self._fault == "error-without-code":
            body = {"message": "the request is rejected"}
        by_401 = error == "invalid_client" or (self._fault == "unknown-codes-by-401" and error == "invalid_grant")
        status = 403 if self._fault == "errors-by-403" else 401 if by_401 else 400
        text = error if self._fault == "errors-as-text" else json.dumps(body)
        await incoming.respond(status, _JSON, text.encode())

    def _authenticate(self, incoming: ServerExchange, fields: dict[str, str]) -> None:
        """Compare the secret of a client that has one, in the form or in a header."""
        scheme, _, pair = (incoming.header("authorization") or "").partition(" ")
        if scheme.lower() == "basic" and self._fault != "header-unread":
            id, _, secret = b64decode(pair).decode().partition(":")
            fields |= {"client_id": unquote_plus(id), "client_secret": unquote_plus(secret)}
            if self._fault == "any-secret-by-header":
                return
        own, given, fault = self.secrets.get(fields.get("client_id", "")), fields.get("client_secret"), self._fault
        refreshes = fault == "refresh-without-secret" and fields.get("grant_type") == "refresh_token"
        if own is None or given == own or fault == "any-secret" or refreshes:
            return
        if fault == "secret-by-beginning" and given and own.startswith(given):
            return
        if given is not None or fault != "secret-optional":
            raise _TokenError("invalid_client")

    def _keeps(self, grant: _Grant) -> bool:
        """Return whether a refresh token stays valid."""
        by_document = grant.client.startswith("https:")
        return self._fault == "refresh-kept" or (self._fault == "refresh-kept-by-document" and by_document)

    def _key(self, incoming: ServerExchange, fields: dict[str, str]) -> str | None:
        """Return the thumbprint of the proof's key, or `None` without a proof."""
        try:
            return self._proved_key(incoming, fields)
        except _TokenError:
            if self._fault != "bad-proofs-unbound" or fields.get("client_id") in self.bound:
                raise
            return None

    def _proved_key(self, incoming: ServerExchange, fields: dict[str, str]) -> str | None:
        fault, proofs = self._fault, incoming.all("dpop")
        if not proofs:
            refreshes = fields.get("grant_type") == "refresh_token"
            required = fields.get("client_id") in self.bound and fault != "binding-optional"
            if required and not (refreshes and fault == "refresh-unbound"):
                raise _TokenError("invalid_dpop_proof")
            return None
        read = read_jwt(proofs[0].partition(",")[0] if fault == "joined-proofs" else proofs[0])
        if fault == "any-proof":
            return "" if read is None else read.thumbprint
        if read is None or (len(proofs) > 1 and fault != "first-of-two-proofs"):
            raise _TokenError("invalid_dpop_proof")
        header, claims = read.header, read.claims
        url, issued, jwk = f"http://{incoming.header('host')}{incoming.path}", claims.get("iat"), header.get("jwk")
        late = time.time() - issued if isinstance(issued, int) else _LONG
        good = {
            "proof-any-url": claims.get("htu") == url
            or (fault == "proof-url-by-beginning" and str(claims.get("htu")).startswith(url))
            or (fault == "proof-url-optional" and "htu" not in claims),
            "proof-any-method": claims.get("htm") == "POST"
            or (fault == "proof-method-optional" and claims.get("htm") is None),
            "proof-any-type": header.get("typ") == "dpop+jwt"
            or (fault == "proof-type-optional" and "typ" not in header),
            "proof-any-old": late < _WINDOW,
            "proof-any-future": late > -_WINDOW,
            "proof-without-id": isinstance(claims.get("jti"), str),
            "proof-with-private-key": isinstance(jwk, dict) and "d" not in jwk,
        }
        if fault == "refresh-proof-any-type" and fields.get("grant_type") == "refresh_token":
            good["proof-any-type"] = True
        if not all(right or fault == name for name, right in good.items()):
            raise _TokenError("invalid_dpop_proof")
        return read.thumbprint

    def _granted(self, fields: dict[str, str], key: str | None) -> _Grant:
        """Return the grant of a code or refresh token."""
        kind = fields.get("grant_type")
        if kind == "refresh_token":
            return self._by_refresh(fields, key)
        right = kind == "authorization_code" or (not kind and self._fault == "grant-type-optional")
        if not right and self._fault != "any-grant-type":
            raise _TokenError("invalid_request" if not kind else "unsupported_grant_type")
        return self._by_code(fields)

    def _by_code(self, fields: dict[str, str]) -> _Grant:
        grant, verifier, fault = self._codes.get(fields.get("code", "")), fields.get("code_verifier"), self._fault
        again = fault == "code-again" or (
            fault == "code-again-by-document" and fields.get("client_id", "").startswith("https:")
        )
        if grant is None or (grant.used and not again):
            raise _TokenError("invalid_grant")
        if fields.get("client_id") != grant.client and fault != "code-of-anybody":
            raise _TokenError("invalid_grant")
        unchecked = fault == "any-verifier-by-document" and grant.client.startswith("https:")
        if not unchecked and not self._is_verified(grant.challenge, verifier):
            raise _TokenError("invalid_grant")
        return grant

    def _is_verified(self, challenge: str, verifier: str | None) -> bool:
        """Return whether a verifier is the one of a challenge."""
        fault = self._fault
        if verifier is None:
            return fault == "verifier-optional"
        return s256(verifier) == challenge or {
            "any-verifier": True,
            "verifier-empty": not verifier,
            "verifier-cut": s256(verifier[:_SHORTEST]) == challenge,
            "challenge-as-verifier": verifier == challenge,
            "challenge-without-method-ignored": not challenge,
        }.get(fault or "", False)

    def _by_refresh(self, fields: dict[str, str], key: str | None) -> _Grant:
        grant, fault = self._refreshes.get(fields.get("refresh_token", "")), self._fault
        if grant is None or (grant.used and not self._keeps(grant) and fault not in ("refresh-again", "rotates-once")):
            raise _TokenError("invalid_grant")
        if fields.get("client_id") != grant.client and fault != "refresh-of-anybody":
            raise _TokenError("invalid_grant")
        free = fault == "refresh-unbound-by-choice" and key is None and grant.client not in self.bound
        if grant.key not in (None, key) and fault not in ("refresh-any-key", "refresh-unbound") and not free:
            raise _TokenError("invalid_dpop_proof")
        return grant

    def _tokens(self, grant: _Grant, key: str | None, refresh: str | None, resource: str | None) -> JsonObject:
        unconfirmed = self._fault == "key-not-confirmed" or (
            self._fault == "key-not-confirmed-after-refresh" and grant.rotated
        )
        confirmed: JsonObject = {} if key is None or unconfirmed else {"cnf": {"jkt": key}}
        parts: tuple[JsonObject, ...] = ({"alg": "none"}, {"sub": "ada", "aud": resource, **confirmed}, {})
        shown = ".".join(urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in parts)
        refresh = refresh or secrets.token_urlsafe(6 if self._fault == "short-refresh-tokens" else 16)
        self._refreshes[refresh] = grant
        tokens: JsonObject = {
            "access_token": shown,
            "token_type": "Bearer" if key is None or self._fault == "always-bearer" else "DPoP",
            "expires_in": _LIFETIME * (1000 if self._fault == "expires-in-milliseconds" else 1),
            "refresh_token": refresh,
        }
        if self._fault == "endless" or (self._fault == "endless-after-refresh" and grant.rotated):
            del tokens["expires_in"]
        if self._fault == "expires-in-as-text":
            tokens["expires_in"] = str(_LIFETIME)
        if self._fault == "null-scope":
            tokens["scope"] = None
        untyped = self._fault == "token-type-missing-after-refresh" and grant.rotated
        if self._fault == "token-type-missing" or untyped:
            del tokens["token_type"]
        return tokens
