"""A protected server in plain Python, in every revision.

    python -m mutants.raw_protected_server --port PORT --issuer URL --resource URL

It accepts the tokens of one authorization server. `--fault NAME` adds one fault.
"""

from __future__ import annotations

import argparse
import base64
import json
import secrets
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, unquote, urlsplit

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
_NONCE: Final = "nonce-of-the-server"
_MEETING: Final = 2.0
"""Seconds for which a request waits for another one."""
_ADMIN: Final = "mcp:admin"
_MESSAGES: Final = "/messages?session=1"
"""The endpoint for the messages of HTTP+SSE."""
_INCLUDES: Final = {"mcp:root": {"mcp", _ADMIN}}


class _AccessDenied(Exception):
    """A rejection: status, scheme, error, scope, and whether the token has expired."""

    def __init__(
        self,
        status: int,
        error: str | None = None,
        scheme: str = "Bearer",
        scope: str = "mcp",
        *,
        expired: bool = False,
    ) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.scheme = scheme
        self.scope = scope
        self.expired = expired


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
        self.validated: Final[dict[str, JsonObject]] = {}
        """The claims of valid tokens, for faults that keep them."""
        self.refused: Final[set[str]] = set()
        """The users whose scope was insufficient, for a fault that keeps them."""
        self.refused_token = False
        """Whether an invalid token was refused."""
        self._scopes: set[str] = set()
        """The scopes of the present request, for a fault that keeps them here."""
        self._scopes_widened: Final = threading.Event()

    def shared(self, scopes: set[str]) -> set[str]:
        """Keep the scopes of a request, and return those that are kept when a request with more has come meanwhile."""
        self._scopes = scopes
        if _ADMIN in scopes:
            self._scopes_widened.set()
        else:
            self._scopes_widened.clear()
            self._scopes_widened.wait(_MEETING)
        return self._scopes

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a connection that the client has closed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # typeshed declares narrower types


def _is_same(audience: JsonValue, resource: str) -> bool:
    """Return whether an audience is the resource. Scheme and host are case-insensitive."""
    if isinstance(audience, list):
        if wrong("audience-list-rejected"):
            return False
        if wrong("audience-first-only"):
            return _is_same(audience[0] if audience else None, resource)
        return wrong("audience-list-unchecked") or any(_is_same(each, resource) for each in audience)
    if wrong("exact-audience"):
        return audience == resource
    found, own = urlsplit(str(audience)), urlsplit(resource)
    if wrong("audience-by-beginning"):
        return str(audience).lower().startswith(resource)
    same = (found.scheme.lower(), found.netloc.lower()) == (own.scheme.lower(), own.netloc.lower())
    return same and (found[2:] == own[2:] or wrong("audience-by-origin"))


def _in_lower_case(url: JsonValue) -> str:
    """Return a URL with scheme and host in lower case."""
    parts = urlsplit(str(url))
    return parts._replace(scheme=parts.scheme.lower(), netloc=parts.netloc.lower()).geturl()


def _unverified(token: str) -> JsonObject:
    head = token.split(".")[1]
    found = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    return found if isinstance(found, dict) else {}


def _is_readable(token: str) -> bool:
    """Return whether the first two parts of a token are JSON objects."""
    try:
        return all(_unverified(f".{part}") for part in token.split(".")[:2])
    except ValueError:
        return False


def _algorithm(token: str) -> JsonValue:
    """Return the algorithm that a token declares."""
    return _unverified(f".{token.partition('.')[0]}").get("alg")


def _verified(server: ProtectedServer, token: str) -> JsonObject:
    """Return the claims of a token whose signature is valid. Raise `JoseError` or `ValueError`."""
    keys, algorithms = server.keys, ["RS256"]
    if wrong("unknown-key-by-500") and jws.extract_compact(token.encode()).headers().get("kid", "suite") != "suite":
        raise _AccessDenied(500)
    own = jws.extract_compact(token.encode()).headers().get("jwk") if wrong("key-in-header") else None
    if isinstance(own, dict):
        keys, algorithms = KeySet([import_key(own)]), ["RS256", "ES256"]
    found = json.loads(jws.deserialize_compact(token, keys, algorithms=algorithms).payload)
    return found if isinstance(found, dict) else {}


def _claims(server: ProtectedServer, token: str, method: str, session: str) -> JsonObject:
    """Return the claims of a token, or raise `_AccessDenied`."""
    keeps = wrong("keeps-validated") or wrong("keeps-validated-bound")
    kept = token.rpartition(".")[0] if wrong("keeps-payload") else token if keeps else ""
    if kept in server.validated:
        return server.validated[kept]
    in_session = session in server.sessions
    opens = method in ("initialize", "server/discover")
    try:
        unsigned = (wrong("takes-unsigned") and token.endswith(".")) or (wrong("session-unsigned") and in_session)
        # A library may look the name up without regard to its case, after the comparison with "none".
        none = str(_algorithm(token)).lower() == "none" and _algorithm(token) != "none"
        unsigned = unsigned or (wrong("alg-none-in-one-case") and none)
        validates = not (wrong("validates-opening-only") and not opens)
        unverified = wrong("takes-any-key") or (wrong("takes-any-key-if-bound") and "cnf" in _unverified(token))
        found = _unverified(token) if unverified or unsigned or not validates else _verified(server, token)
    except (JoseError, ValueError, IndexError):
        unreadable = wrong("malformed-by-400") and token.count(".") != 2
        unreadable = unreadable or (wrong("malformed-by-500") and not _is_readable(token))
        status = 400 if wrong("malformed-by-400") else 500
        raise _AccessDenied(status if unreadable else 401, "invalid_token") from None
    if not validates:
        return found
    audience, bound = found.get("aud"), "cnf" in found
    foreign = not _is_same(audience, server.resource)
    if audience is None:
        foreign = not (wrong("takes-no-audience") or (wrong("takes-null-audience") and "aud" in found))
    elif wrong("takes-any-audience"):
        foreign = False
    if wrong("takes-bound-for-others") and bound:
        foreign = False
    expiry, start = (each if isinstance(each := found.get(name), int | float) else 0 for name in ("exp", "nbf"))
    leeway = _HOUR if wrong("leeway-hour") else 0
    old = expiry + leeway < time.time() and not wrong("takes-expired") and not (wrong("session-expired") and in_session)
    old = old or (wrong("expiry-whole") and isinstance(found.get("exp"), float))
    if (wrong("takes-expired-bound") and bound) or (wrong("takes-endless") and not found.get("exp")):
        old = False
    if (
        wrong("scope-before-expiry")
        and old
        and method == "tools/call"
        and _ADMIN not in str(found.get("scope")).split()
    ):
        raise _AccessDenied(403, "insufficient_scope", scope=f"mcp {_ADMIN}")
    early = start > time.time() and not wrong("takes-early")
    strange = (
        found.get("iss") != server.issuer
        and not (wrong("issuer-by-beginning") and str(found.get("iss")).startswith(server.issuer))
        and not wrong("takes-any-issuer")
        and not (wrong("takes-no-issuer") and not found.get("iss"))
        and not (wrong("takes-any-bound-issuer") and bound)
    )
    if foreign or old or early or strange:
        error = "token_expired" if old and wrong("expired-error") else "invalid_token"
        status = 403 if old and wrong("expired-by-403") else 401
        raise _AccessDenied(status, None if old and wrong("expiry-without-error") else error, expired=old)
    if kept and (bound or not wrong("keeps-validated-bound")):
        server.validated[kept] = found
    return found


_YEAR: Final = 365 * 24 * 3600
"""A year, in seconds."""


def _check_proof(handler: _Handler, token: str, thumbprint: str) -> None:
    """Check the proof of a request, or raise `_AccessDenied`."""
    scheme = "Bearer" if wrong("proof-refused-as-bearer") else "DPoP"
    bad = _AccessDenied(401, None if wrong("proof-error-untold") else "invalid_dpop_proof", scheme)
    given = handler.headers.get_all("DPoP") or []
    lower = (handler.headers.get("Authorization") or "").startswith("dpop ")
    if not given and (wrong("proof-not-needed") or (wrong("proof-not-needed-in-lower-case") and lower)):
        return
    if wrong("takes-joined-proofs"):
        given = [each.partition(",")[0] for each in given]
    if len(given) != 1 and not (wrong("takes-two-proofs") and given):
        raise bad
    try:
        header = jws.extract_compact(given[0].encode()).headers()
        if "d" in header["jwk"] and not wrong("proof-private-key"):
            raise bad
        key = import_key(dict(header["jwk"]))
        if wrong("proof-unverified") or (wrong("proof-unsigned") and given[0].endswith(".")):
            found = json.loads(jws.extract_compact(given[0].encode()).payload)
        else:
            algorithms = ["ES256", "HS256"] if wrong("takes-symmetric") else ["RS256" if wrong("no-es256") else "ES256"]
            found = json.loads(jws.deserialize_compact(given[0], key, algorithms=algorithms).payload)
    except (JoseError, ValueError, KeyError, TypeError):
        raise bad from None
    query = f"?{urlsplit(handler.path).query}" if "?" in handler.path else ""
    own_url = handler.server.resource + (query if wrong("url-with-query") else "")
    issued = found.get("iat")
    late = time.time() - issued if isinstance(issued, int | float) else 0.0
    good = {
        "proof-any-type": header.get("typ") == "dpop+jwt" or (wrong("proof-type-optional") and "typ" not in header),
        "proof-any-method": found.get("htm") == ("POST" if wrong("proof-for-post") else handler.command)
        or (wrong("proof-method-any-case") and str(found.get("htm")).upper() == handler.command)
        or (wrong("proof-method-optional") and found.get("htm") is None),
        "proof-any-url": found.get("htu") == own_url
        or (not wrong("proof-url-in-one-case") and _in_lower_case(found.get("htu")) == own_url)
        or (wrong("url-by-beginning") and str(found.get("htu")).startswith(handler.server.resource))
        or (wrong("url-by-path") and urlsplit(str(found.get("htu"))).path == urlsplit(own_url).path)
        or (wrong("url-by-origin") and urlsplit(str(found.get("htu")))[:2] == urlsplit(own_url)[:2])
        or (wrong("proof-url-optional") and "htu" not in found),
        "proof-any-token": found.get("ath") == s256(token) or (wrong("proof-ath-optional") and "ath" not in found),
        "proof-any-key": key.thumbprint() == thumbprint or (wrong("takes-symmetric") and key.key_type == "oct"),
        "proof-without-id": found.get("jti") is not None or (wrong("proof-null-id") and "jti" in found),
        "proof-untimed": issued is not None,
        "proof-time-as-text": not isinstance(issued, str),
        # Each fault has its own part of the time.
        "proof-any-old": late < (2 * _WINDOW if wrong("proof-window") else _WINDOW) or late > _YEAR,
        "proof-any-future": late > -_WINDOW or late < -_YEAR,
        "proof-time-far": abs(late) < _YEAR,
    }
    if not good["proof-any-token"] and wrong("proof-token-by-400"):
        raise _AccessDenied(400, "invalid_dpop_proof", "DPoP")
    if not all(right or wrong(fault) for fault, right in good.items()):
        raise bad
    nonce = found.get("nonce")
    other_nonce = nonce is None if wrong("nonce-any") else nonce != _NONCE
    if other_nonce and (wrong("nonce-required") or wrong("nonce-any") or (wrong("nonce-empty") and nonce != "")):
        raise _AccessDenied(401, "use_dpop_nonce", "DPoP")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ProtectedServer
    batch: list[JsonValue] | None = None
    """The responses of a batch; `None` outside of one."""
    admitted = False
    """Whether a request on this connection had a valid token."""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        path = urlsplit(self.server.resource).path
        places = ("/metadata?of=mcp",) if wrong("metadata-with-query") else (_PRM, _PRM + path)
        if self.path in places and not wrong("no-metadata"):
            document: JsonObject = {
                "resource": f"{self.server.resource}/" if wrong("metadata-slash") else self.server.resource,
                "authorization_servers": [self.server.issuer],
                "scopes_supported": ["mcp", "mcp:admin", *(["offline_access"] if wrong("offline") else [])],
            }
            if wrong("metadata-null"):
                document["jwks_uri"] = None
            if wrong("metadata-scopes-as-text"):
                document["scopes_supported"] = "mcp mcp:admin"
            if wrong("metadata-of-another-issuer"):
                document["authorization_servers"] = ["https://elsewhere.example"]
            if wrong("metadata-issuer-slash"):
                document["authorization_servers"] = [f"{self.server.issuer}/"]
            at_path = self.path == _PRM + path
            if wrong("no-servers") or (wrong("no-servers-at-path") and at_path):
                document["authorization_servers"] = []
            if wrong("metadata-of-host-after-refusal") and self.server.refused_token:
                document["resource"] = self.server.resource.removesuffix(path)
            if wrong("metadata-of-another") or (wrong("metadata-of-another-at-path") and at_path):
                document["resource"] = "https://elsewhere.example/mcp"
            self._send(200, document, {"Content-Type": "text/plain"} if wrong("metadata-as-text") else None)
        elif self.path == "/sse" and (wrong("old-stream-is-free") or self._admit({}) is not None):
            # The stream ends at once. The server has no response to the messages that follow.
            self._send_text(200, f"event: endpoint\ndata: {_MESSAGES}\n\n", "text/event-stream")
        elif self.path == "/sse":
            pass
        elif urlsplit(self.path).path != path:
            self._send(404, None)
        elif wrong("streams-for-anyone") or self._admit({}) is not None:
            # The stream ends at once: the server has nothing to send.
            streams = (self.headers.get("Mcp-Session-Id") or "") in self.server.sessions
            self._send(200 if streams else 405, None, {"Content-Type": "text/event-stream"} if streams else None)

    def do_DELETE(self) -> None:
        if wrong("ends-before-validation"):
            self.server.sessions.pop(self.headers.get("Mcp-Session-Id") or "", None)
        if wrong("ends-for-anyone") or self._admit({}) is not None:
            self.server.sessions.pop(self.headers.get("Mcp-Session-Id") or "", None)
            self._send(204, None)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        messages = message if isinstance(message, list) else [message]
        path = urlsplit(self.path).path
        path = unquote(path) if wrong("encoded-paths-are-free") else path
        path = path.rstrip("/") if wrong("slashed-paths-are-free") else path
        if self.path == _MESSAGES:
            if wrong("old-messages-are-free") or self._admit(message) is not None:
                self._send(202, None)
            return
        if path != urlsplit(self.server.resource).path:
            self._send(404, None)
            return
        if wrong("processes-before-validation") and "/upstream" in json.dumps(message):
            self._request_upstream(message["params"].get("arguments"))
        subject = ""
        for each in messages[:1] if wrong("scope-of-first") else messages:
            batched = each is not message and (self.headers.get("Authorization") or not wrong("batches-take-any-token"))
            free = wrong("batches-are-free") or wrong("batches-take-any-token")
            admitted = "ada" if free and batched else self._admit(each)
            if admitted is None:
                return
            subject = admitted
        session = self.headers.get("Mcp-Session-Id")
        if session is not None and session not in self.server.sessions:
            self._send(404, None)
            return
        if messages == [message]:
            self._answer(message, subject)
            return
        self.batch = []
        for each in messages:
            self._answer(each, subject)
        responses, self.batch = self.batch, None
        self._send(200 if responses else 202, responses or None)

    def _admit(self, message: JsonObject) -> str | None:
        """Return the user of a request, or refuse it."""
        if wrong("notifications-are-free") and "method" in message and "id" not in message:
            return "ada"
        if wrong("responses-are-free") and "id" in message and "method" not in message:
            return "ada"
        if wrong("unknown-methods-are-free") and str(message.get("method")).startswith("conformance/"):
            error: JsonObject = {"code": -32601, "message": "unknown method"}
            self._send(404, {"jsonrpc": "2.0", "id": message.get("id"), "error": error})
            return None
        try:
            return self._authorize(message)
        except _AccessDenied as refused:
            if wrong("scope-by-result") and refused.error == "insufficient_scope":
                result: JsonObject = {"content": [{"type": "text", "text": "forbidden"}], "isError": True}
                self._send(200, {"jsonrpc": "2.0", "id": message.get("id"), "result": result})
                return None
            self._refuse(refused, message)
            return None

    def _user_without_validation(self, method: str, session: str, token: str) -> str | None:
        """Return the user of a request whose token a fault does not validate; `None` without such a fault."""
        free = (
            (wrong("lists-are-free") and method == "tools/list")
            or (wrong("calls-are-free") and method == "tools/call" and not token)
            or (wrong("completions-are-free") and method == "completion/complete")
            or (wrong("subscriptions-are-free") and method == "subscriptions/listen")
            or (wrong("encoded-paths-are-free") and "%" in self.path)
            or (wrong("queries-are-free") and "?" in self.path)
            or (wrong("slashed-paths-are-free") and self.path.endswith("/"))
            or (wrong("pings-are-free") and method == "ping" and not token)
            or (wrong("takes-opaque") and bool(token) and "." not in token)
            or (wrong("connection-is-enough") and self.admitted and not token)
            or (wrong("connection-takes-any-token") and self.admitted and bool(token))
        )
        if free:
            return "ada"
        if wrong("session-is-enough") and session in self.server.sessions:
            return self.server.sessions[session]
        if wrong("methods-take-any-token") and self.command != "POST" and token:
            return self.server.sessions.get(session, "ada")
        return None

    def _authorize(self, message: JsonObject) -> str:
        method, session = str(message.get("method")), self.headers.get("Mcp-Session-Id") or ""
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        if not token and wrong("token-in-url"):
            scheme, token = "Bearer", parse_qs(urlsplit(self.path).query).get("access_token", [""])[0]
        user = self._user_without_validation(method, session, token)
        if user is not None:
            return user
        other_case = wrong("scheme-exact") and scheme not in ("Bearer", "DPoP")
        other_case = other_case or (wrong("dpop-scheme-exact") and scheme == "dpop")
        unknown = other_case or scheme.lower() not in ("bearer", "dpop")
        if scheme and not token and wrong("bare-scheme-by-403"):
            raise _AccessDenied(403)
        if not token or (unknown and not wrong("takes-any-scheme")):
            raise _AccessDenied(403 if wrong("missing-by-403") else 401)
        claims = _claims(self.server, token, method, session)
        bound = claims.get("cnf")
        if isinstance(bound, dict):
            lower = wrong("downgrades-in-lower-case") and scheme == "bearer"
            beside = wrong("downgrades-beside-a-proof") and "DPoP" in self.headers
            if beside:
                _check_proof(self, token, str(bound.get("jkt")))
            if scheme.lower() != "dpop" and not wrong("downgrades") and not lower and not beside:
                raise _AccessDenied(401, "invalid_token", "DPoP")
            if scheme.lower() == "dpop" and not (wrong("proves-opening-only") and method != "server/discover"):
                _check_proof(self, token, str(bound.get("jkt")))
        elif scheme.lower() == "dpop" and not wrong("unbound-by-dpop"):
            raise _AccessDenied(401, "invalid_token", "DPoP")
        if not (wrong("scope-at-opening") and session in self.server.sessions):
            self._check_scope(claims, message)
        subject = str(claims.get("sub"))
        self.admitted = True
        other_user = self.server.sessions.get(session, subject) != subject
        ignored = wrong("any-session-for-delete") and self.command == "DELETE"
        ignored = ignored or (wrong("any-session-for-get") and self.command == "GET")
        if other_user and not wrong("any-session") and not ignored:
            raise _AccessDenied(403, "invalid_token")
        return subject

    def _check_scope(self, claims: JsonObject, message: JsonObject) -> None:
        """Check that the scope of a token is sufficient for a message, or raise `_AccessDenied`."""
        method = str(message.get("method"))
        scopes = set(str(claims.get("scope")).split())
        if not wrong("flat-scopes"):
            scopes |= {inner for scope in scopes for inner in _INCLUDES.get(scope, ())}
        params = message.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        if wrong("scope-by-beginning"):
            scopes |= {"mcp:admin" for scope in scopes if scope.startswith("mcp:admin")}
        if wrong("scope-of-first-word"):
            scopes = set(str(claims.get("scope")).split()[:1])
            if "mcp" not in scopes:
                raise _AccessDenied(403, "insufficient_scope")
        if wrong("scope-in-text"):
            scopes |= {_ADMIN} if _ADMIN in str(claims.get("scope")) else set()
        if wrong("scope-by-header"):
            method, name = self.headers.get("Mcp-Method", method), self.headers.get("Mcp-Name", name)
        if wrong("scopes-shared"):
            scopes = self.server.shared(scopes)
        if method == "tools/call" and wrong("refusal-kept"):
            if "mcp:admin" not in scopes:
                self.server.refused.add(str(claims.get("sub")))
            scopes = set() if str(claims.get("sub")) in self.server.refused else scopes
        one_by_one = wrong("missing-scope-named") or wrong("scopes-one-by-one")
        if one_by_one and method == "tools/call" and "mcp" not in scopes:
            raise _AccessDenied(403, "insufficient_scope", scope="mcp")
        any_scope = wrong("any-scope") or (wrong("any-scope-if-bound") and "cnf" in claims)
        any_scope = any_scope or (wrong("scope-optional") and not claims.get("scope"))
        if method == "tools/call" and name == "test_admin" and "mcp:admin" not in scopes and not any_scope:
            missing = _ADMIN if wrong("missing-scope-named") else f"mcp {_ADMIN}"
            raise _AccessDenied(401 if wrong("scope-by-401") else 403, "insufficient_scope", scope=missing)

    def _refuse(self, refused: _AccessDenied, message: JsonObject) -> None:
        if wrong("expired-to-login-page") and refused.expired:
            self._send(307, None, {"Location": f"{self.server.issuer}/login"})
            return
        bare = wrong("error-untold") or (wrong("error-untold-at-403") and refused.status == 403)
        error = refused.error or ("invalid_token" if wrong("missing-as-invalid") and refused.status == 401 else None)
        parts = [f'error="{error}"'] if error and not bare else []
        if not (wrong("scope-untold") and refused.status == 403) and not (
            wrong("challenge-without-scope") and refused.status == 401
        ):
            named = "mcp" if wrong("scope-of-token-named") else refused.scope
            parts.append(f'scope="{named.replace(" ", ",") if wrong("scopes-by-commas") else named}"')
        untold = wrong("no-metadata-url-if-invalid") and refused.error == "invalid_token"
        if (
            not untold
            and not wrong("metadata-untold")
            and not (wrong("metadata-untold-at-403") and refused.status == 403)
        ):
            origin = "{0.scheme}://{0.netloc}".format(urlsplit(self.server.resource))
            place = f"{_PRM}{urlsplit(self.server.resource).path}"
            place = _PRM if wrong("no-servers-at-path") or wrong("metadata-of-another-at-path") else place
            place = "/metadata?of=mcp" if wrong("metadata-with-query") else place
            place += urlsplit(self.server.resource).path if wrong("metadata-url-doubled") else ""
            parts.append(f'resource_metadata="{"" if wrong("relative-metadata-url") else origin}{place}"')
        self.server.refused_token |= refused.error == "invalid_token"
        if wrong("description-quotes"):
            parts.append(r'error_description="the token \"no-such-token\" is invalid"')
        if wrong("realm-twice"):
            parts += ['realm="mcp"', 'realm="mcp"']
        scheme = "Basic" if wrong("basic-challenge") else refused.scheme
        if scheme == "DPoP":
            parts.append('algs="ES256 HS256"' if wrong("symmetric-offered") else 'algs="ES256"')
        opens = message.get("method") in ("initialize", "server/discover")
        silent = (
            wrong("no-challenge")
            or (wrong("invalid-unchallenged") and refused.error == "invalid_token")
            or (wrong("methods-unchallenged") and self.command != "POST")
            or (wrong("opening-challenged-only") and self.command == "POST" and refused.status == 401 and not opens)
        )
        separator = " " if wrong("challenge-without-commas") else ", "
        value = f"{scheme} {separator.join(parts)}"
        if wrong("challenge-unquoted"):
            value = value.replace('"', "")
        headers = {} if silent else {"WWW-Authenticate": value}
        if wrong("nonce-required") or wrong("nonce-any") or wrong("nonce-empty"):
            headers["DPoP-Nonce"] = _NONCE
        body: JsonObject = {"error": "no"}
        if wrong("answers-all-the-same"):
            body = {"jsonrpc": "2.0", "id": message.get("id"), "result": {"tools": []}}
        self._send(refused.status, body, headers)

    def _answer(self, message: JsonObject, subject: str) -> None:
        if "id" not in message or "method" not in message:
            if self.batch is None:
                self._send(202, None)
            return
        method, params = message.get("method"), message.get("params")
        given = params if isinstance(params, dict) else {}
        modern = self.headers.get("MCP-Protocol-Version") == _MODERN
        cache: JsonObject = {"ttlMs": 0, "cacheScope": "private"} if modern else {}
        headers: dict[str, str] = {}
        result: JsonObject = {}
        if method == "initialize":
            id = secrets.token_urlsafe(16)
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
        if self.batch is not None:
            self.batch.append({"jsonrpc": "2.0", "id": message["id"], "result": result})
            return
        self._send(200, {"jsonrpc": "2.0", "id": message["id"], "result": result}, headers)

    def _request_upstream(self, arguments: JsonValue) -> None:
        url = str(arguments.get("url")) if isinstance(arguments, dict) else ""
        own = self.headers.get("Authorization") or ""
        headers = {"Authorization": own} if wrong("token-passed-upstream") else {}
        try:
            urllib.request.urlopen(urllib.request.Request(url, None, headers)).close()  # noqa: S310  the URL comes from the suite
        except urllib.error.URLError:
            return  # the other party may reject the request

    def _send_text(self, status: int, text: str, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

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
