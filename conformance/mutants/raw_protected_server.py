"""A protected server in plain Python, in every revision.

    python -m mutants.raw_protected_server --port PORT --issuer URL --resource URL

It accepts the tokens of one authorization server. `--fault NAME` adds one fault.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, import_key

from mcp_conformance.oauth_testbed.client_jwts import s256
from mutants.client.messages import wrong

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["ProtectedServer", "main"]

_PRM: Final = "/.well-known/oauth-protected-resource"
_INFO: Final[JsonObject] = {"name": "raw-protected", "version": "1"}
_MODERN: Final = "2026-07-28"
_HOUR: Final = 3600
_WINDOW: Final = 300
_INCLUDES: Final = {"mcp:root": {"mcp", "mcp:admin"}}


class _AccessDenied(Exception):
    """A rejection: status, scheme, error and scope."""

    def __init__(self, status: int, error: str | None = None, scheme: str = "Bearer", scope: str = "mcp") -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.scheme = scheme
        self.scope = scope


class ProtectedServer(ThreadingHTTPServer):
    """A protected server.

    Args:
        address: The host and the port; `None`: it listens nowhere, and gets its connections from the caller.
        issuer: The authorization server.
        resource: The URL of the server.
        keys: The keys of the authorization server.
    """

    # As in `RawHttpServer`.
    request_queue_size = 128

    def __init__(self, address: tuple[str, int] | None, issuer: str, resource: str, keys: KeySet) -> None:
        super().__init__(address or ("localhost", 0), _Handler, bind_and_activate=address is not None)
        self.issuer: Final = issuer
        self.resource: Final = resource
        self.keys: Final = keys
        self.sessions: Final[dict[str, str]] = {}

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a connection that the client has closed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # the types of any socket server


def _is_same(audience: JsonValue, resource: str) -> bool:
    """Return whether an audience is the resource. Scheme and host are case-insensitive."""
    if wrong("exact-audience"):
        return audience == resource
    found, own = urlsplit(str(audience)), urlsplit(resource)
    if wrong("audience-by-beginning"):
        return str(audience).lower().startswith(resource)
    same = (found.scheme.lower(), found.netloc.lower()) == (own.scheme.lower(), own.netloc.lower())
    return same and found[2:] == own[2:]


def _claims(server: ProtectedServer, token: str) -> JsonObject:
    """Return the claims of a token, or raise `_AccessDenied`."""
    try:
        unsigned = wrong("takes-unsigned") and token.endswith(".")
        if wrong("takes-any-key") or unsigned:
            head = token.split(".")[1]
            found = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
        else:
            found = json.loads(jws.deserialize_compact(token, server.keys, algorithms=["RS256"]).payload)
    except (JoseError, ValueError, IndexError):
        raise _AccessDenied(401, "invalid_token") from None
    audience = found.get("aud")
    foreign = not _is_same(audience, server.resource)
    if audience is None:
        foreign = not wrong("takes-no-audience")
    elif wrong("takes-any-audience"):
        foreign = False
    if wrong("takes-bound-for-others") and "cnf" in found:
        foreign = False
    old = found.get("exp", 0) < time.time() and not wrong("takes-expired")
    strange = (
        found.get("iss") != server.issuer
        and not (wrong("issuer-by-beginning") and str(found.get("iss")).startswith(server.issuer))
        and not wrong("takes-any-issuer")
    )
    if foreign or old or strange:
        raise _AccessDenied(401, "invalid_token")
    return found if isinstance(found, dict) else {}


_YEAR: Final = 365 * 24 * 3600
"""A year, in seconds."""


def _check_proof(handler: _Handler, token: str, thumbprint: str) -> None:
    """Check the proof of a request, or raise `_AccessDenied`."""
    bad = _AccessDenied(401, None if wrong("proof-error-untold") else "invalid_dpop_proof", "DPoP")
    given = handler.headers.get_all("DPoP") or []
    if not given and wrong("proof-not-needed"):
        return
    if len(given) != 1 and not (wrong("takes-two-proofs") and given):
        raise bad
    try:
        header = jws.extract_compact(given[0].encode()).headers()
        key = import_key(dict(header["jwk"]))
        if wrong("proof-unverified"):
            found = json.loads(jws.extract_compact(given[0].encode()).payload)
        else:
            algorithms = ["ES256", "HS256"] if wrong("takes-symmetric") else ["RS256" if wrong("no-es256") else "ES256"]
            found = json.loads(jws.deserialize_compact(given[0], key, algorithms=algorithms).payload)
    except (JoseError, ValueError, KeyError, TypeError):
        raise bad from None
    issued = found.get("iat")
    late = time.time() - issued if isinstance(issued, int | float) else 0.0
    good = {
        "proof-any-type": header.get("typ") == "dpop+jwt",
        "proof-any-method": found.get("htm") == "POST",
        "proof-any-url": found.get("htu") == handler.server.resource
        or (wrong("url-by-beginning") and str(found.get("htu")).startswith(handler.server.resource)),
        "proof-any-token": found.get("ath") == s256(token) or (wrong("proof-ath-optional") and "ath" not in found),
        "proof-any-key": key.thumbprint() == thumbprint or (wrong("takes-symmetric") and key.key_type == "oct"),
        "proof-without-id": "jti" in found,
        "proof-untimed": issued is not None,
        "proof-time-as-text": not isinstance(issued, str),
        # Each fault has its own part of the time.
        "proof-any-old": late < _WINDOW or late > _YEAR,
        "proof-any-future": late > -_WINDOW or late < -_YEAR,
        "proof-time-far": abs(late) < _YEAR,
    }
    if not all(right or wrong(fault) for fault, right in good.items()):
        raise bad


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ProtectedServer
    admitted = False
    """Whether a request on this connection had a valid token."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        path = urlsplit(self.server.resource).path
        if self.path in (_PRM, _PRM + path) and not wrong("no-metadata"):
            document: JsonObject = {
                "resource": f"{self.server.resource}/" if wrong("metadata-slash") else self.server.resource,
                "authorization_servers": [] if wrong("no-servers") else [self.server.issuer],
                "scopes_supported": ["mcp", "mcp:admin", *(["offline_access"] if wrong("offline") else [])],
            }
            if wrong("metadata-of-another"):
                document["resource"] = "https://elsewhere.example/mcp"
            self._send(200, document)
        elif self.path != path:
            self._send(404, None)
        elif wrong("streams-for-anyone") or self._admit({}) is not None:
            # The stream ends at once: the server has nothing to send.
            streams = (self.headers.get("Mcp-Session-Id") or "") in self.server.sessions
            self._send(200 if streams else 405, None, {"Content-Type": "text/event-stream"} if streams else None)

    def do_DELETE(self) -> None:
        if wrong("ends-for-anyone") or self._admit({}) is not None:
            self.server.sessions.pop(self.headers.get("Mcp-Session-Id") or "", None)
            self._send(204, None)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        subject = self._admit(message)
        if subject is not None:
            self._answer(message, subject)

    def _admit(self, message: JsonObject) -> str | None:
        """Return the user of a request, or refuse it."""
        if wrong("notifications-are-free") and "method" in message and "id" not in message:
            return "ada"
        try:
            return self._authorize(message)
        except _AccessDenied as refused:
            self._refuse(refused, message)
            return None

    def _authorize(self, message: JsonObject) -> str:
        method, session = str(message.get("method")), self.headers.get("Mcp-Session-Id") or ""
        if wrong("lists-are-free") and method == "tools/list":
            return "ada"
        if wrong("session-is-enough") and session in self.server.sessions:
            return self.server.sessions[session]
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        if not token and wrong("connection-is-enough") and self.admitted:
            return "ada"
        if not token or (scheme.lower() not in ("bearer", "dpop") and not wrong("takes-any-scheme")):
            raise _AccessDenied(403 if wrong("missing-by-403") else 401)
        claims = _claims(self.server, token)
        bound = claims.get("cnf")
        if isinstance(bound, dict):
            if scheme.lower() != "dpop" and not wrong("downgrades"):
                raise _AccessDenied(401, "invalid_token", "DPoP")
            if scheme.lower() == "dpop":
                _check_proof(self, token, str(bound.get("jkt")))
        scopes = set(str(claims.get("scope")).split())
        if not wrong("flat-scopes"):
            scopes |= {inner for scope in scopes for inner in _INCLUDES.get(scope, ())}
        params = message.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        if wrong("scope-by-beginning"):
            scopes |= {"mcp:admin" for scope in scopes if scope.startswith("mcp:admin")}
        if method == "tools/call" and name == "test_admin" and "mcp:admin" not in scopes and not wrong("any-scope"):
            raise _AccessDenied(401 if wrong("scope-by-401") else 403, "insufficient_scope", scope="mcp mcp:admin")
        subject = str(claims.get("sub"))
        self.admitted = True
        if self.server.sessions.get(session, subject) != subject and not wrong("any-session"):
            raise _AccessDenied(403, "invalid_token")
        return subject

    def _refuse(self, refused: _AccessDenied, message: JsonObject) -> None:
        parts = [f'error="{refused.error}"'] if refused.error and not wrong("error-untold") else []
        if not (wrong("scope-untold") and refused.status == 403) and not (
            wrong("challenge-without-scope") and refused.status == 401
        ):
            parts.append(f'scope="{refused.scope}"')
        if not wrong("metadata-untold") and not (wrong("metadata-untold-at-403") and refused.status == 403):
            origin = "{0.scheme}://{0.netloc}".format(urlsplit(self.server.resource))
            parts.append(f'resource_metadata="{origin}{_PRM}{urlsplit(self.server.resource).path}"')
        scheme = "Basic" if wrong("basic-challenge") else refused.scheme
        headers = {} if wrong("no-challenge") else {"WWW-Authenticate": f"{scheme} {', '.join(parts)}"}
        body: JsonObject = {"error": "no"}
        if wrong("answers-all-the-same"):
            body = {"jsonrpc": "2.0", "id": message.get("id"), "result": {"tools": []}}
        self._send(refused.status, body, headers)

    def _answer(self, message: JsonObject, subject: str) -> None:
        if "id" not in message:
            self._send(202, None)
            return
        method, params = message.get("method"), message.get("params")
        given = params if isinstance(params, dict) else {}
        modern = self.headers.get("MCP-Protocol-Version") == _MODERN
        cache: JsonObject = {"ttlMs": 0, "cacheScope": "private"} if modern else {}
        headers: dict[str, str] = {}
        result: JsonObject = {}
        if method == "initialize":
            id = f"session-{len(self.server.sessions)}-of-{subject}"
            self.server.sessions[id] = subject
            headers["Mcp-Session-Id"] = id
            version = given.get("protocolVersion")
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": _INFO}
        elif method == "server/discover":
            result = {"supportedVersions": [_MODERN], "capabilities": {"tools": {}}, **cache}
        elif method == "tools/list":
            tool: JsonObject = {"name": "test_admin", "description": "Admin", "inputSchema": {"type": "object"}}
            other: JsonObject = {"name": "conformance_upstream", "inputSchema": {"type": "object"}}
            result = {"tools": [tool, other], **cache}
        elif method == "tools/call" and given.get("name") == "conformance_upstream":
            self._request_upstream(given.get("arguments"))
            result = {"content": [{"type": "text", "text": "requested"}]}
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": "done"}]}
        if modern:
            result = {**result, "resultType": "complete"}
        self._send(200, {"jsonrpc": "2.0", "id": message["id"], "result": result}, headers)

    def _request_upstream(self, arguments: JsonValue) -> None:
        url = str(arguments.get("url")) if isinstance(arguments, dict) else ""
        own = self.headers.get("Authorization") or ""
        headers = {"Authorization": own} if wrong("token-passed-upstream") else {}
        try:
            urllib.request.urlopen(urllib.request.Request(url, None, headers)).close()  # noqa: S310  the URL comes from the suite
        except urllib.error.URLError:
            return  # the other party may reject the request

    def _send(self, status: int, document: JsonValue, headers: dict[str, str] | None = None) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> int:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--issuer", required=True)
    parser.add_argument("--resource", required=True)
    given = parser.parse_args()
    with urllib.request.urlopen(f"{given.issuer}/jwks") as answer:  # noqa: S310  the URL comes from the suite
        keys = KeySet.import_key_set(json.load(answer))
    ProtectedServer(("localhost", given.port), given.issuer, given.resource, keys).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
