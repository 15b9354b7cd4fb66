"""An OpenID provider where the user Grace is always logged in, and each part of which can be made faulty."""

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
    """The provider, an ASGI application. Its attributes select the faults."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.issuer = ""
        self.clock = clock
        self.key = jwk.ECKey.generate_key("P-256", {"kid": "k1", "use": "sig", "alg": "ES256"})
        self.published: list[Mapping[str, JsonValue]] = [json.loads(json.dumps(self.key.as_dict(private=False)))]
        self.header: dict[str, str] = {"alg": "ES256", "kid": "k1"}
        self.metadata: dict[str, JsonValue] = {}
        """Members of the metadata that replace the valid ones; `None` omits a member."""
        self.claims: dict[str, JsonValue] = {}
        """Claims of the ID token, in the same way."""
        self.redirect: dict[str, str | None] = {}
        """Parameters of the redirect to the client, in the same way."""
        self.answer: dict[str, JsonValue] = {}
        """Members of the token response, in the same way."""
        self.statuses: dict[str, int] = {}
        """The statuses of paths that do not respond with 200."""
        self.bodies: dict[str, bytes] = {}
        """The bodies of paths that have a special one."""
        self.requests: list[tuple[str, str, dict[str, str], dict[str, str]]] = []
        """The method, path, headers and form fields of each request."""
        self._codes: dict[str, dict[str, str]] = {}

    # --- responses ----------------------------------------------------------------------------------------------------

    def authorize(self, url: str) -> str:
        """Return the redirect target for a browser that requests this URL."""
        fields = dict(parse_qsl(urlsplit(url).query))
        self._codes["code-1"] = fields
        valid = {"code": "code-1", "state": fields["state"], "iss": self.issuer}
        pairs = {name: value for name, value in {**valid, **self.redirect}.items() if value is not None}
        return f"{fields['redirect_uri']}?{urlencode(pairs)}"

    def _metadata(self) -> JsonValue:
        valid: dict[str, JsonValue] = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "authorization_response_iss_parameter_supported": True,
        }
        return _with_changes(valid, self.metadata)

    def _token(self, fields: Mapping[str, str]) -> JsonValue:
        authorization = self._codes.pop(fields["code"])
        digest = hashlib.sha256(fields["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == authorization["code_challenge"]
        assert fields["redirect_uri"] == authorization["redirect_uri"]
        now = int(self.clock())
        valid: dict[str, JsonValue] = {
            "iss": self.issuer,
            "sub": "grace-7",
            "aud": authorization["client_id"],
            "exp": now + 300,
            "iat": now,
            "auth_time": now - 5,
            "nonce": authorization["nonce"],
            "preferred_username": "grace",
        }
        claims = _with_changes(valid, self.claims)
        assert isinstance(claims, dict)
        token = jwt.encode(dict(self.header), claims, self.key, algorithms=[self.header["alg"]])
        members: dict[str, JsonValue] = {"access_token": "upstream", "token_type": "Bearer", "id_token": token}
        return _with_changes(members, self.answer)

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
        pairs = cast("list[tuple[bytes, bytes]]", scope["headers"])  # the types of ASGI are broad
        headers = {name.decode(): value.decode() for name, value in pairs}
        self.requests.append((str(scope["method"]), path, headers, fields))
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


def _with_changes(valid: Mapping[str, JsonValue], changes: Mapping[str, JsonValue]) -> JsonValue:
    return {name: value for name, value in {**valid, **changes}.items() if value is not None}


@asynccontextmanager
async def provider(clock: Callable[[], float]) -> AsyncIterator[Provider]:
    """Run a provider on loopback."""
    made = Provider(clock)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    made.issuer = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            await nursery.start(HttpHost(made, limits=SERVER_LIMITS, timeouts=None).run, [listener])
            yield made
            nursery.cancel_scope.cancel()
