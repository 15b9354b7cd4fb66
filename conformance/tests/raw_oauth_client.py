"""An OAuth client that sends each request on its own, so that a test can make any step invalid."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

import attrs
from joserfc import jws
from joserfc.jwk import ECKey

from mcp_conformance.oauth_testbed.client_jwts import s256
from mcp_conformance.oauth_testbed.http_messages import Request, Response, json_object, origin_of
from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
from mcp_core.jsonrpc.messages import JsonObject, JsonValue

NOW: Final = 1_800_000_000.0
REDIRECT: Final = "http://127.0.0.1:49152/callback"
VERIFIER: Final = "verifier-" * 5
KEY: Final = ECKey.import_key(
    {
        "kty": "EC",
        "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
        "d": "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI",
    }
)
"""The key of RFC 7515 appendix A.3."""
PUBLIC: Final[JsonObject] = {name: str(value) for name, value in KEY.as_dict(private=False).items() if name != "kid"}

Changes = Mapping[str, str | None]
"""Fields that differ from the default; `None` leaves a field out."""


def with_changes(fields: Mapping[str, str], changes: Changes) -> dict[str, str]:
    merged: dict[str, str | None] = {**fields, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def jwt(claims: JsonObject, header: JsonObject | None = None, key: ECKey = KEY) -> str:
    merged: JsonObject = {"alg": "ES256", **(header or {})}
    members = {name: value for name, value in merged.items() if value is not None}
    return jws.serialize_compact(members, json.dumps(claims), key)


def basic(name: str, secret: str) -> tuple[str, str]:
    return ("Authorization", f"Basic {base64.b64encode(f'{quote_plus(name)}:{quote_plus(secret)}'.encode()).decode()}")


def document(response: Response | None) -> JsonObject:
    assert response is not None
    body = json_object(response.body)
    assert body is not None, response
    return body


@attrs.define
class RawOAuthClient:
    """An OAuth client, and what it received so far."""

    testbed: OAuthTestbed
    client_id: str = ""
    secret: str | None = None
    code: str = ""
    access: str = ""
    refresh: str = ""
    nonces: dict[str, str] = attrs.field(factory=dict)
    """The latest nonce of each origin."""
    now: float = NOW
    verifier: str = ""
    """The verifier of the last authorization request."""
    _count: int = 0
    _logins: int = 0

    def send(self, method: str, url: str, *headers: tuple[str, str], body: bytes = b"") -> Response | None:
        response = self.testbed.answer(Request(method=method, url=url, headers=headers, body=body), self.now)
        if response is not None and (nonce := response.header("dpop-nonce")) is not None:
            self.nonces[origin_of(url)] = nonce
        return response

    def call(self, method: str = "tools/call", *headers: tuple[str, str], query: str = "") -> Response:
        """Send a request to the MCP server with these headers and a content type, and return the response."""
        message: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
        url = self.testbed.places.resource + query
        response = self.send(
            "POST", url, ("Content-Type", "application/json"), *headers, body=json.dumps(message).encode()
        )
        assert response is not None
        return response

    def bearer(self) -> tuple[str, str]:
        return ("Authorization", f"Bearer {self.access}")

    def discover(self) -> JsonObject:
        """Fetch the metadata of the resource and of the authorization server."""
        self.call()
        self.send("GET", self.testbed.places.prm)
        return document(self.send("GET", f"{self.testbed.places.server}/.well-known/oauth-authorization-server"))

    def register(self, media_type: str = "application/json", **changes: JsonValue) -> JsonObject:
        metadata: JsonObject = {
            "client_name": "By hand",
            "redirect_uris": [REDIRECT],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "application_type": "native",
            **changes,
        }
        sent: JsonObject = {name: value for name, value in metadata.items() if value is not None}
        url = f"{self.testbed.places.server}/register"
        response = document(self.send("POST", url, ("Content-Type", media_type), body=json.dumps(sent).encode()))
        self.client_id = str(response.get("client_id", ""))
        secret = response.get("client_secret")
        self.secret = secret if isinstance(secret, str) else None
        return response

    def authorize(self, more: str = "", state: str = "state-of-this-request", **changes: str | None) -> list[str]:
        """Open the authorization URL in the browser and return the URLs of its redirects."""
        self.verifier = VERIFIER + "x" * self._logins
        self._logins += 1
        fields = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": REDIRECT,
            "code_challenge": s256(self.verifier),
            "code_challenge_method": "S256",
            "state": state,
            "resource": self.testbed.places.resource,
            "scope": "notes:read",
        }
        query = urlencode(with_changes(fields, changes))
        back = self.testbed.browse(f"{self.testbed.places.server}/authorize?{query}{more}", self.now)
        if back:
            self.code = dict(parse_qsl(urlsplit(back[-1]).query)).get("code", "")
        return back

    def token(
        self, *headers: tuple[str, str], more: str = "", method: str = "POST", query: str = "", **changes: str | None
    ) -> Response:
        fields = {
            "grant_type": "authorization_code",
            "code": self.code,
            "redirect_uri": REDIRECT,
            "code_verifier": self.verifier,
            "client_id": self.client_id,
            "resource": self.testbed.places.resource,
        }
        return self.post(with_changes(fields, changes), *headers, more=more, method=method, query=query)

    def refresh_tokens(self, *headers: tuple[str, str], **changes: str | None) -> Response:
        fields = {
            "grant_type": "refresh_token",
            "refresh_token": self.refresh,
            "client_id": self.client_id,
            "resource": self.testbed.places.resource,
        }
        return self.post(with_changes(fields, changes), *headers)

    def post(
        self,
        fields: Mapping[str, str],
        *headers: tuple[str, str],
        more: str = "",
        method: str = "POST",
        query: str = "",
        url: str | None = None,
    ) -> Response:
        typed = () if any(name == "Content-Type" for name, _ in headers) else _FORM
        target = f"{self.testbed.places.server}/token{query}" if url is None else url
        response = self.send(method, target, *typed, *headers, body=(urlencode(fields) + more).encode())
        assert response is not None
        body = json_object(response.body) or {}
        self.access = str(body.get("access_token", self.access))
        self.refresh = str(body.get("refresh_token", self.refresh))
        return response

    def proof(
        self,
        method: str = "POST",
        url: str | None = None,
        header: JsonObject | None = None,
        key: ECKey = KEY,
        **changes: JsonValue,
    ) -> tuple[str, str]:
        """Return a header with a DPoP proof."""
        self._count += 1
        target = url or f"{self.testbed.places.server}/token"
        claims: JsonObject = {
            "jti": f"proof-number-{self._count}",
            "htm": method,
            "htu": target,
            "iat": int(self.now),
            "nonce": self.nonces.get(origin_of(target)),
        }
        merged: JsonObject = {**claims, **changes}
        members: JsonObject = {name: value for name, value in merged.items() if value is not None}
        return ("DPoP", jwt(members, {"typ": "dpop+jwt", "jwk": {**PUBLIC}, **(header or {})}, key))

    def run_flow(self) -> None:
        """Obtain a token and send a request with it."""
        self.discover()
        self.register()
        self.authorize()
        self.token()
        self.call("tools/call", self.bearer())


_FORM: Final = (("Content-Type", "application/x-www-form-urlencoded"),)
