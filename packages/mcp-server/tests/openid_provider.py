"""An OpenID provider at which Grace is always logged in, and which can be made to do wrong in every single thing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final, cast
from urllib.parse import parse_qsl, urlencode, urlsplit

import trio
from joserfc import jwk, jwt

from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.limits import SERVER_LIMITS
from mcp_server.asgi import Receive, Scope, Send
from mcp_server.host.embedded import HttpHost

_JSON: Final = (b"content-type", b"application/json")


class Provider:
    """The provider, an ASGI application. Its attributes say what it does wrong."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.issuer = ""
        self.clock = clock
        self.key = jwk.ECKey.generate_key("P-256", {"kid": "k1", "use": "sig", "alg": "ES256"})
        self.published: list[Mapping[str, JsonValue]] = [json.loads(json.dumps(self.key.as_dict(private=False)))]
        self.header: dict[str, str] = {"alg": "ES256", "kid": "k1"}
        self.metadata: dict[str, JsonValue] = {}
        """Members of the metadata, instead of the right ones; `None`: left out."""
        self.claims: dict[str, JsonValue] = {}
        """Claims of the ID token, likewise."""
        self.redirect: dict[str, str | None] = {}
        """Parameters of the answer through the browser, likewise."""
        self.answer: dict[str, JsonValue] = {}
        """Members of the answer of the token endpoint, likewise."""
        self.statuses: dict[str, int] = {}
        """The status of each path that has another one than 200."""
        self.bodies: dict[str, bytes] = {}
        """The body of each path that has another one."""
        self.asked: list[tuple[str, str, dict[str, str], dict[str, str]]] = []
        """Method, path, headers and fields of each request."""
        self._codes: dict[str, dict[str, str]] = {}

    # --- what it says ----------------------------------------------------------------------------------------------

    def authorize(self, url: str) -> str:
        """Where a browser is sent that came with this URL."""
        fields = dict(parse_qsl(urlsplit(url).query))
        self._codes["code-1"] = fields
        right = {"code": "code-1", "state": fields["state"], "iss": self.issuer}
        pairs = {name: value for name, value in {**right, **self.redirect}.items() if value is not None}
        return f"{fields['redirect_uri']}?{urlencode(pairs)}"

    def _metadata(self) -> JsonValue:
        right: dict[str, JsonValue] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "authorization_response_iss_parameter_supported": True,
        }
        return _but(right, self.metadata)

    def _token(self, fields: Mapping[str, str]) -> JsonValue:
        asked = self._codes.pop(fields["code"])
        digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
        assert fields["redirect_uri"] == asked["redirect_uri"]
        now = int(self.clock())
        right: dict[str, JsonValue] = {
            "iss": self.issuer,
            "sub": "grace-7",
            "aud": asked["client_id"],
            "exp": now + 300,
            "iat": now,
            "auth_time": now - 5,
            "nonce": asked["nonce"],
            "preferred_username": "grace",
        }
        claims = _but(right, self.claims)
        assert isinstance(claims, dict)
        token = jwt.encode(dict(self.header), claims, self.key, algorithms=[self.header["alg"]])
        members: dict[str, JsonValue] = {"access_token": "upstream", "token_type": "Bearer", "id_token": token}
        return _but(members, self.answer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope["path"])
        body = b""
        while True:
            message = await receive()
            part = message.get("body", b"")
            assert isinstance(part, bytes)
            body += part
            if not message.get("more_body"):
                break
        fields = dict(parse_qsl(body.decode()))
        pairs = cast("list[tuple[bytes, bytes]]", scope["headers"])  # as ASGI says
        headers = {name.decode(): value.decode() for name, value in pairs}
        self.asked.append((str(scope["method"]), path, headers, fields))
        status = self.statuses.get(path, 200)
        document: JsonValue = {}
        more: list[tuple[bytes, bytes]] = []
        if path == "/authorize":
            target = self.authorize("?" + cast("bytes", scope["query_string"]).decode())
            status, more = 302, [(b"location", target.encode())]
        elif path.endswith("/.well-known/openid-configuration"):
            document = self._metadata()
        elif path == "/jwks":
            document = {"keys": [dict(each) for each in self.published]}
        elif path == "/token" and status == 200:
            document = self._token(fields)
        elif path != "/token":
            status = 404
        sent = self.bodies.get(path, json.dumps(document).encode())
        await send({"type": "http.response.start", "status": status, "headers": [_JSON, *more]})
        await send({"type": "http.response.body", "body": sent})


def _but(right: Mapping[str, JsonValue], wrong: Mapping[str, JsonValue]) -> JsonValue:
    return {name: value for name, value in {**right, **wrong}.items() if value is not None}


@asynccontextmanager
async def provider(clock: Callable[[], float]) -> AsyncIterator[Provider]:
    """One that runs, on loopback."""
    made = Provider(clock)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    made.issuer = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            await nursery.start(HttpHost(made, limits=SERVER_LIMITS, timeouts=None).run, [listener])
            yield made
            nursery.cancel_scope.cancel()
