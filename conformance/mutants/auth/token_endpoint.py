"""The token endpoint of the raw authorization server: codes, refresh tokens, proofs, and its faults."""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import attrs

from mcp_conformance.oauth_testbed.client_jwts import read_jwt, s256

if TYPE_CHECKING:
    from mcp_conformance.wire.http_server import ServerExchange
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["RawTokens"]

_LIFETIME: Final = 600


@attrs.define(kw_only=True)
class _Grant:
    """The grant of a code or refresh token."""

    client: str
    challenge: str
    used: bool = False


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

    def code(self, client: str, challenge: str) -> str:
        """Issue a code to a client."""
        code = secrets.token_urlsafe(16)
        self._codes[code] = _Grant(client=client, challenge=challenge)
        return code

    async def answer(self, incoming: ServerExchange) -> None:
        """Answer a token request."""
        fields = dict(parse_qsl(incoming.body.decode()))
        try:
            key = self._key(incoming, fields)
            grant = self._by_refresh(fields) if fields.get("grant_type") == "refresh_token" else self._by_code(fields)
        except _TokenError as why:
            await incoming.respond(400, (), json.dumps({"error": str(why)}).encode())
            return
        stored = () if self._fault == "tokens-stored" else (("Cache-Control", "no-store"),)
        await incoming.respond(200, stored, json.dumps(self._tokens(grant, key, fields)).encode())

    def _key(self, incoming: ServerExchange, fields: dict[str, str]) -> str | None:
        """Return the thumbprint of the proof's key, or `None` without a proof."""
        proof = incoming.header("dpop")
        if proof is None:
            if fields.get("client_id") in self.bound and self._fault != "binding-optional":
                raise _TokenError("invalid_dpop_proof")
            return None
        read = read_jwt(proof)
        if read is None and self._fault != "any-proof":
            raise _TokenError("invalid_dpop_proof")
        return "" if read is None else read.thumbprint

    def _by_code(self, fields: dict[str, str]) -> _Grant:
        grant, verifier, fault = self._codes.get(fields.get("code", "")), fields.get("code_verifier"), self._fault
        if grant is None or (grant.used and fault != "code-again"):
            raise _TokenError("invalid_grant")
        if fields.get("client_id") != grant.client and fault != "code-of-anybody":
            raise _TokenError("invalid_grant")
        verified = fault == "verifier-optional" if verifier is None else s256(verifier) == grant.challenge
        if not verified and not (verifier is not None and fault == "any-verifier"):
            raise _TokenError("invalid_grant")
        grant.used = True
        return attrs.evolve(grant, used=False)

    def _by_refresh(self, fields: dict[str, str]) -> _Grant:
        grant = self._refreshes.get(fields.get("refresh_token", ""))
        if grant is None or (grant.used and self._fault not in ("refresh-kept", "refresh-again")):
            raise _TokenError("invalid_grant")
        grant.used = True
        return attrs.evolve(grant, used=False)

    def _tokens(self, grant: _Grant, key: str | None, fields: dict[str, str]) -> JsonObject:
        confirmed: JsonObject = {} if key is None or self._fault == "key-untold" else {"cnf": {"jkt": key}}
        parts: tuple[JsonObject, ...] = ({"alg": "none"}, {"sub": "ada", **confirmed}, {})
        shown = ".".join(urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in parts)
        refresh = fields.get("refresh_token") if self._fault == "refresh-kept" else None
        refresh = refresh or secrets.token_urlsafe(16)
        self._refreshes[refresh] = grant
        tokens: JsonObject = {
            "access_token": shown,
            "token_type": "Bearer" if key is None or self._fault == "always-bearer" else "DPoP",
            "expires_in": _LIFETIME,
            "refresh_token": refresh,
        }
        if self._fault == "endless":
            del tokens["expires_in"]
        return tokens
