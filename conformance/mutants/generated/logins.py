"""Operators on clients that log in: what they send to the authorization server and to the protected server.

The operators change the parameters of authorization, token and registration requests, the place of the token, the URLs
of metadata, DPoP proofs and client assertions. Others change what the client receives, so that the client as a whole
makes the mistake: a wrong issuer is replaced by the right one, as if the client had not compared it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import attrs
from joserfc import jws
from joserfc.jwk import ECKey, OctKey

from mutants.generated.fault import Leg, Operator, Recording, Target
from mutants.generated.login_proxy import LoginMutation, context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.generated.login_proxy import Fields, LoginReply, LoginRequest

__all__ = ["LOGIN", "LOGIN_OPERATORS"]

LOGIN: Final = "login"
"""The transport of the legs of clients that log in, which is HTTP with an authorization server."""
_FIRST: Final = "2025-03-26"
_MODERN: Final = "2026-07-28"
_LEGACY: Final = ("2025-03-26", "2025-06-18", "2025-11-25")
_OLD: Final = ("2025-03-26", "2025-06-18")


class _RequestMutation(LoginMutation):
    """A change of the requests of one kind.

    Args:
        kind: The kind.
        change: Returns the request in place of one; the same one if it is not concerned.
    """

    def __init__(self, kind: str, change: Callable[[LoginRequest], LoginRequest]) -> None:
        self._kind: Final = kind
        self._change: Final = change

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Return the changed request."""
        return self._change(request) if request.kind == self._kind else None


# --- parameters -------------------------------------------------------------------------------------------------------


def _mapped(change: Callable[[str], str]) -> Callable[[str, str], Fields]:
    return lambda name, value: [(name, change(value))]


_FIELD_CHANGES: Final[Mapping[str, tuple[str, Callable[[str, str], Fields]]]] = {
    "absent": ("is absent", lambda _, __: []),
    "empty": ("is empty", _mapped(lambda _: "")),
    "twice": ("occurs twice", lambda name, value: [(name, value), (name, value)]),
    "name-case": ("has a name in another case", lambda name, value: [(name.upper(), value)]),
    "case": ("is in another case", _mapped(str.swapcase)),
    "cut": ("lacks its last character", _mapped(lambda value: value[:-1])),
    "other": ("has another value", _mapped(lambda value: f"{value}-other")),
    "plain": ("is `plain`", _mapped(lambda _: "plain")),
    "token": ("is `token`", _mapped(lambda _: "token")),
    "short": ("is short", _mapped(lambda _: "x")),
    "below": ("is a path below", _mapped(lambda value: f"{value}/other")),
    "slash": ("has a trailing slash", _mapped(lambda value: f"{value}/")),
    "fragment": ("has a fragment", _mapped(lambda value: f"{value}#part")),
    "origin": ("is only the origin", _mapped(lambda value: "{0.scheme}://{0.netloc}".format(urlsplit(value)))),
    "relative": ("is only the path", _mapped(lambda value: urlsplit(value).path)),
    "foreign": ("is another server", _mapped(lambda _: "https://elsewhere.example/mcp")),
}
"""The changes of a parameter."""

_NAMED: Final = ("absent", "other", "case", "twice", "name-case")
_RESOURCE: Final = ("absent", "empty", "fragment", "origin", "relative", "foreign", "below", "slash", "twice")

_FIELDS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("authorize", "response_type"): (*_NAMED, "token"),
    ("authorize", "client_id"): _NAMED,
    # It may be absent if the client has registered only one.
    ("authorize", "redirect_uri"): ("below", "case", "twice"),
    ("authorize", "code_challenge"): ("absent", "empty", "cut", "other", "case", "twice"),
    ("authorize", "code_challenge_method"): ("absent", "case", "plain", "other", "twice"),
    ("authorize", "state"): ("absent", "empty", "short", "twice"),
    ("authorize", "resource"): _RESOURCE,
    ("authorize", "scope"): ("absent", "case", "cut", "other", "twice"),
    ("token", "grant_type"): _NAMED,
    ("token", "code"): ("absent", "cut", "case", "twice"),
    ("token", "redirect_uri"): ("below", "twice"),
    ("token", "code_verifier"): ("absent", "empty", "cut", "case", "other", "twice"),
    ("token", "client_id"): _NAMED,
    ("token", "resource"): _RESOURCE,
    ("token", "assertion"): ("absent", "cut", "case", "twice"),
    ("token", "client_assertion"): ("absent", "cut", "twice"),
    ("token", "client_assertion_type"): _NAMED,
    ("exchange", "grant_type"): _NAMED,
    ("exchange", "requested_token_type"): _NAMED,
    ("exchange", "audience"): ("absent", "slash", "other", "twice"),
    ("exchange", "resource"): ("absent", "origin", "fragment", "below", "twice"),
    ("exchange", "subject_token"): ("absent", "cut", "twice"),
    ("exchange", "subject_token_type"): _NAMED,
    ("exchange", "client_id"): _NAMED,
}
"""By kind of request and parameter, the changes that are wrong."""


def _field(name: str, change: Callable[[str, str], Fields], request: LoginRequest) -> LoginRequest:
    changed: Fields = []
    for each in request.fields:
        changed += change(*each) if each[0] == name else [each]
    return request.with_fields(changed)


def _setting(part: str, **values: object) -> Callable[[JsonObject, JsonObject, str], None]:
    """Set members of the header or the claims of a JWT; `None` removes one."""

    def changed(header: JsonObject, claims: JsonObject, _: str) -> None:
        held = header if part == "header" else claims
        for name, value in values.items():
            if value is None:
                held.pop(name, None)
            else:
                held[name] = value  # type: ignore[assignment]  # the rows below have JSON values

    return changed


def _changes(**values: object) -> Callable[[JsonObject], None]:
    """Set members of a JSON object; `None` removes one."""
    return lambda claims: _setting("claims", **values)({}, claims, "")


_REGISTERED: Final[Mapping[str, tuple[str, Callable[[JsonObject], None]]]] = {
    "redirects-absent": ("no redirect URI is registered", _changes(redirect_uris=None)),
    "redirects-plain": (
        "a redirect URI uses http on another machine",
        lambda held: held.update(redirect_uris=["http://192.0.2.1/callback"]),
    ),
    "type-absent": ("`application_type` is absent", _changes(application_type=None)),
    "type-case": ("`application_type` is in another case", lambda held: held.update(application_type="Native")),
    "type-web": (
        "a client on this machine registers as a web client",
        lambda held: held.update(application_type="web"),
    ),
    "grants-absent": ("`grant_types` is absent", _changes(grant_types=None)),
}
"""The changes of a registration."""


def _registration(change: Callable[[JsonObject], None], request: LoginRequest) -> LoginRequest:
    document = request.document
    change(document)
    return attrs.evolve(request, body=json.dumps(document).encode())


# --- the form of a request --------------------------------------------------------------------------------------------


def _as_get(request: LoginRequest) -> LoginRequest:
    url = f"{request.url}?{request.body.decode()}"
    return attrs.evolve(request.with_header("Content-Type"), method="GET", url=url, body=b"")


def _in_url(request: LoginRequest) -> LoginRequest:
    return attrs.evolve(request, url=f"{request.url}?{request.body.decode()}", body=b"")


def _as_json(request: LoginRequest) -> LoginRequest:
    body = json.dumps(dict(request.fields)).encode()
    return attrs.evolve(request.with_header("Content-Type", "application/json"), body=body)


def _as_text(request: LoginRequest) -> LoginRequest:
    return request.with_header("Content-Type", "text/plain")


def _secret_twice(request: LoginRequest) -> LoginRequest:
    scheme, _, credentials = (request.header("authorization") or "").partition(" ")
    if scheme != "Basic":
        return request
    secret = base64.b64decode(credentials).decode().partition(":")[2]
    return request.with_fields([*request.fields, ("client_secret", secret)])


def _secret_unencoded(request: LoginRequest) -> LoginRequest:
    held = context()
    if not (request.header("authorization") or "").startswith("Basic"):
        return request
    pair = f"{held['client_id']}:{held['client_secret']}"
    return request.with_header("Authorization", f"Basic {base64.b64encode(pair.encode()).decode()}")


def _without_redirect(request: LoginRequest) -> LoginRequest:
    return _field("redirect_uri", lambda _, __: [], request)


_FORMS: Final[tuple[tuple[str, str, str, Callable[[LoginRequest], LoginRequest], str], ...]] = (
    ("token-get", "token", "the token request is a GET", _as_get, ""),
    ("token-in-url", "token", "the parameters of the token request are in its URL", _in_url, ""),
    ("token-json", "token", "the token request is JSON", _as_json, ""),
    ("token-text", "token", "the token request has another content type", _as_text, ""),
    ("token-secret-twice", "token", "the client authenticates in two ways at once", _secret_twice, ""),
    ("register-text", "register", "the registration has another content type", _as_text, ""),
    (
        "token-secret-unencoded",
        "token",
        "the id and the secret are not encoded as a form before Base64",
        _secret_unencoded,
        "",
    ),
    (
        "token-without-redirect",
        "token",
        "the token request has no redirect URI",
        _without_redirect,
        "OAuth 2.1 has no redirect URI in the token request, other than OAuth 2.0.",
    ),
)


class _Again(LoginMutation):
    """The mutation that sends a token request twice."""

    def login_before(self, request: LoginRequest) -> list[LoginRequest]:
        """Return the first of the two requests."""
        return [request] if request.kind == "token" and "code" in dict(request.fields) else []


class _FixedState(LoginMutation):
    """The mutation that sends the same state in each authorization request."""

    def __init__(self) -> None:
        self._own = ""

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Return the request with the fixed state."""
        if request.kind != "authorize":
            return None
        self._own = dict(request.fields).get("state", "")
        return _field("state", lambda name, _: [(name, "the-same-state-each-time")], request)

    def login_reply(self, request: LoginRequest, reply: LoginReply) -> LoginReply | None:
        """Return the response with the state of the client."""
        return _with_answer(reply, state=self._own) if request.kind == "authorize" else None


# --- the token --------------------------------------------------------------------------------------------------------


def _token(request: LoginRequest) -> str:
    return (request.header("authorization") or "").partition(" ")[2]


def _authorization(change: Callable[[str, str], tuple[str, ...]]) -> Callable[[LoginRequest], LoginRequest]:
    """Change the authorization of requests that have one."""

    def changed(request: LoginRequest) -> LoginRequest:
        held = request.header("authorization")
        if held is None:
            return request
        scheme, _, token = held.partition(" ")
        return request.with_header("Authorization", *change(scheme, token))

    return changed


def _without_on(applies: Callable[[LoginRequest], bool]) -> Callable[[LoginRequest], LoginRequest]:
    bare = _authorization(lambda _, __: ())
    return lambda request: bare(request) if applies(request) else request


def _method(request: LoginRequest) -> str:
    return str(request.document.get("method"))


def _in_query(request: LoginRequest) -> LoginRequest:
    token = _token(request)
    joint = "&" if "?" in request.url else "?"
    return attrs.evolve(request, url=f"{request.url}{joint}{urlencode({'access_token': token})}") if token else request


def _in_cookie(request: LoginRequest) -> LoginRequest:
    token = _token(request)
    return request.with_header("Authorization").with_header("Cookie", f"token={token}") if token else request


_PLACES: Final[tuple[tuple[str, str, Callable[[LoginRequest], LoginRequest], str], ...]] = (
    ("scheme-other", "another scheme", _authorization(lambda _, token: (f"Token {token}",)), ""),
    ("scheme-basic", "the scheme Basic", _authorization(lambda _, token: (f"Basic {token}",)), ""),
    ("scheme-absent", "no scheme", _authorization(lambda _, token: (token,)), ""),
    ("in-query-too", "also in the URL", _in_query, ""),
    ("in-query-only", "only in the URL", lambda request: _in_query(request).with_header("Authorization"), ""),
    ("in-cookie", "in a cookie", _in_cookie, ""),
    ("quoted", "in quotation marks", _authorization(lambda scheme, token: (f'{scheme} "{token}"',)), ""),
    ("cut", "without its last character", _authorization(lambda scheme, token: (f"{scheme} {token[:-1]}",)), ""),
    ("lower", "in lower case", _authorization(lambda scheme, token: (f"{scheme} {token.swapcase()}",)), ""),
    ("absent-call", "missing in calls", _without_on(lambda request: _method(request) == "tools/call"), ""),
    ("absent-list", "missing in lists", _without_on(lambda request: _method(request) == "tools/list"), ""),
    (
        "absent-notification",
        "missing in notifications",
        _without_on(lambda request: _method(request).startswith("notifications/")),
        "",
    ),
    ("absent-end", "missing in DELETE", _without_on(lambda request: request.method == "DELETE"), ""),
    (
        "scheme-case",
        "with the scheme in another case",
        _authorization(lambda scheme, token: (f"{scheme.lower()} {token}",)),
        "Authentication schemes are case-insensitive (RFC 9110, section 11.1).",
    ),
    (
        "scheme-spaces",
        "after two spaces",
        _authorization(lambda scheme, token: (f"{scheme}  {token}",)),
        "One or more spaces are between the scheme and the token (RFC 6750, section 2.1).",
    ),
)
"""Where and how a request to the MCP server has its token."""


class _Spread(LoginMutation):
    """The mutation that sends the token to requests of another kind.

    Args:
        kind: The kind.
        put: Puts the token into a request.
    """

    def __init__(self, kind: str, put: Callable[[LoginRequest, str], LoginRequest]) -> None:
        self._kind: Final = kind
        self._put: Final = put
        self._held = ""

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Remember the token, or return the request with it."""
        if request.kind == "mcp":
            self._held = _token(request) or self._held
        return self._put(request, self._held) if request.kind == self._kind and self._held else None


class _Elsewhere(LoginMutation):
    """The mutation that sends a secret of the client to a server that it does not belong to.

    Args:
        at: The kind of request that has the secret.
        secret: Returns the secret.
    """

    def __init__(self, at: str, secret: Callable[[LoginRequest], str]) -> None:
        self._at: Final = at
        self._secret: Final = secret
        self._mcp = ""
        self._server = ""

    def login_before(self, request: LoginRequest) -> list[LoginRequest]:
        """Return the request to the other server."""
        if request.kind == "mcp":
            self._mcp = request.url
        if request.kind in ("authorize", "token"):
            self._server = request.origin
        secret = self._secret(request) if request.kind == self._at else ""
        other = self._server if self._at == "mcp" else self._mcp
        if not secret or not other:
            return []
        return [attrs.evolve(request, method="GET", url=other, headers=(("X-Debug", secret),), body=b"")]


# --- metadata ---------------------------------------------------------------------------------------------------------

_PRM: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"


def _moved(change: Callable[[str], str]) -> Callable[[LoginRequest], LoginRequest]:
    """Change the path of a request."""

    def changed(request: LoginRequest) -> LoginRequest:
        path = urlsplit(request.url).path
        return attrs.evolve(request, url=request.url.replace(path, change(path), 1))

    return changed


def _appended(well: str) -> Callable[[str], str]:
    """Put the well-known part behind the path, where it is inserted before."""
    return lambda path: f"{path.removeprefix(well)}{well}" if path.startswith(well) and path != well else path


_URLS_OF_METADATA: Final[tuple[tuple[str, str, str, Callable[[LoginRequest], LoginRequest], tuple[str, ...]], ...]] = (
    (
        "resource-root",
        "resource-metadata",
        "the resource metadata are requested only at the root",
        _moved(lambda path: _PRM if path.startswith(_PRM) else path),
        (_FIRST,),
    ),
    (
        "resource-appended",
        "resource-metadata",
        "the path of the server comes before the well-known path",
        _moved(_appended(_PRM)),
        (_FIRST,),
    ),
    (
        "resource-slash",
        "resource-metadata",
        "the well-known URL has a trailing slash",
        _moved(lambda path: f"{path}/"),
        (_FIRST,),
    ),
    (
        "server-root",
        "server-metadata",
        "the path of the issuer is dropped",
        _moved(lambda path: next((well for well in (_OAUTH, _OPENID) if well in path), path)),
        _OLD,
    ),
    (
        "server-appended",
        "server-metadata",
        "the path of the issuer comes before the well-known path",
        _moved(_appended(_OAUTH)),
        _OLD,
    ),
    (
        "server-openid-only",
        "server-metadata",
        "only OpenID Connect metadata are requested",
        _moved(lambda path: path.replace(_OAUTH, _OPENID)),
        (),
    ),
    (
        "server-oauth-only",
        "server-metadata",
        "only RFC 8414 metadata are requested",
        _moved(lambda path: path.replace(_OPENID, _OAUTH)),
        _OLD,
    ),
    (
        "version-absent",
        "server-metadata",
        "the request has no MCP-Protocol-Version",
        lambda request: request.with_header("MCP-Protocol-Version"),
        ("2025-06-18", "2025-11-25", _MODERN),
    ),
    (
        "version-other",
        "server-metadata",
        "the request has another MCP-Protocol-Version",
        lambda request: request.with_header("MCP-Protocol-Version", "2024-11-05"),
        ("2025-06-18", "2025-11-25", _MODERN),
    ),
)
"""Where metadata are requested, and the revisions that do not define it."""


class _Early(LoginMutation):
    """The mutation that requests metadata at another URL first.

    Args:
        kind: The kind of metadata.
        change: Returns the other path.
    """

    def __init__(self, kind: str, change: Callable[[str], str]) -> None:
        self._kind: Final = kind
        self._change: Final = change

    def login_before(self, request: LoginRequest) -> list[LoginRequest]:
        """Return the request that comes first."""
        changed = _moved(self._change)(request)
        return [changed] if request.kind == self._kind and changed != request else []


# --- what the client receives -----------------------------------------------------------------------------------------


def _json(reply: LoginReply) -> JsonObject:
    try:
        found = json.loads(reply.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _with_json(reply: LoginReply, **members: object) -> LoginReply:
    held = {**_json(reply), **members}
    return attrs.evolve(
        reply, body=json.dumps({name: each for name, each in held.items() if each is not None}).encode()
    )


def _with_answer(reply: LoginReply, **fields: str) -> LoginReply:
    """Return an authorization response with other parameters."""
    place, _, query = reply.header("location").partition("?")
    return reply.with_header("Location", f"{place}?{urlencode({**dict(parse_qsl(query)), **fields})}")


_EQUALS: Final[tuple[tuple[str, str, Callable[[str, str], bool]], ...]] = (
    ("any", "any value is accepted", lambda _, __: True),
    ("slash", "a trailing slash is ignored", lambda text, own: text.rstrip("/") == own.rstrip("/")),
    ("case", "the case is ignored", lambda text, own: text.lower() == own.lower()),
    ("prefix", "a value that begins with the right one is accepted", lambda text, own: text.startswith(own)),
    ("host", "only the host is compared", lambda text, own: urlsplit(text).hostname == urlsplit(own).hostname),
    (
        "origin",
        "only the origin is compared",
        lambda text, own: (
            (urlsplit(text).scheme, urlsplit(text).netloc) == (urlsplit(own).scheme, urlsplit(own).netloc)
            and urlsplit(text).path not in ("", "/")
        ),
    ),
)
"""The comparisons that are too loose."""


class _ReplyMutation(LoginMutation):
    """A change of what the client receives, with the values that the client expects."""

    def __init__(self, change: Callable[[LoginRequest, LoginReply, _ClientState], LoginReply | None]) -> None:
        self._change: Final = change
        self._expected: Final = _ClientState()

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Remember what the client expects."""
        if request.kind == "mcp":
            self._expected.resource = request.url.partition("?")[0]
        if request.kind == "authorize":
            self._expected.state = dict(request.fields).get("state", "")
        return None

    def login_reply(self, request: LoginRequest, reply: LoginReply) -> LoginReply | None:
        """Return what the client receives."""
        changed = self._change(request, reply, self._expected)
        document = _json(reply)
        servers = document.get("authorization_servers")
        if request.kind == "resource-metadata" and isinstance(servers, list) and servers:
            self._expected.issuer = str(servers[0])
        return changed


@attrs.define
class _ClientState:
    """The values that the client compares: the URL of the server, the issuer, and the state."""

    resource: str = ""
    issuer: str = ""
    state: str = ""
    kept: JsonObject = attrs.field(factory=dict)


def _issuer(rule: Callable[[str, str], bool]) -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, expected: _ClientState) -> LoginReply | None:
        found = str(_json(reply).get("issuer"))
        near = request.kind == "server-metadata" and reply.status == 200 and found != expected.issuer
        return _with_json(reply, issuer=expected.issuer) if near and rule(found, expected.issuer) else None

    return _ReplyMutation(changed)


def _resource(rule: Callable[[str, str], bool]) -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, expected: _ClientState) -> LoginReply | None:
        found = str(_json(reply).get("resource"))
        near = request.kind == "resource-metadata" and reply.status == 200 and found != expected.resource
        return _with_json(reply, resource=expected.resource) if near and rule(found, expected.resource) else None

    return _ReplyMutation(changed)


def _iss(rule: Callable[[str, str], bool]) -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, expected: _ClientState) -> LoginReply | None:
        found = dict(parse_qsl(urlsplit(reply.header("location")).query)).get("iss")
        near = request.kind == "authorize" and found is not None and found != expected.issuer
        return _with_answer(reply, iss=expected.issuer) if near and rule(str(found), expected.issuer) else None

    return _ReplyMutation(changed)


def _answer(name: str, applies: Callable[[str | None], bool]) -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, expected: _ClientState) -> LoginReply | None:
        held = dict(parse_qsl(urlsplit(reply.header("location")).query))
        if request.kind != "authorize" or "code" not in held or not applies(held.get(name)):
            return None
        return _with_answer(reply, **{name: expected.state if name == "state" else expected.issuer})

    return _ReplyMutation(changed)


def _pkce() -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, _: _ClientState) -> LoginReply | None:
        if request.kind != "server-metadata" or reply.status != 200:
            return None
        return _with_json(reply, code_challenge_methods_supported=["S256"])

    return _ReplyMutation(changed)


def _challenge(change: Callable[[str], str]) -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, _: _ClientState) -> LoginReply | None:
        held = reply.header("www-authenticate")
        return reply.with_header("WWW-Authenticate", change(held)) if request.kind == "mcp" and held else None

    return _ReplyMutation(changed)


def _without_parameter(name: str) -> Callable[[str], str]:
    def changed(challenge: str) -> str:
        before, found, after = challenge.partition(f'{name}="')
        return f"{before}{after.partition(chr(34))[2].lstrip(', ')}".rstrip(", ") if found else challenge

    return changed


def _member(kind: str, **members: object) -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, _: _ClientState) -> LoginReply | None:
        return _with_json(reply, **members) if request.kind == kind and reply.status == 200 else None

    return _ReplyMutation(changed)


def _first_metadata() -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, expected: _ClientState) -> LoginReply | None:
        if request.kind != "resource-metadata" or reply.status != 200:
            return None
        if not expected.kept:
            expected.kept.update(_json(reply))
        return _with_json(reply, **expected.kept)

    return _ReplyMutation(changed)


def _without_nonce(kind: str) -> LoginMutation:
    def changed(request: LoginRequest, reply: LoginReply, _: _ClientState) -> LoginReply | None:
        return reply.with_header("DPoP-Nonce") if request.kind == kind else None

    return _ReplyMutation(changed)


# --- proofs and assertions --------------------------------------------------------------------------------------------


def _part(token: str, index: int) -> JsonObject:
    part = token.split(".")[index]
    found: JsonObject = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def _public(key: ECKey, *, private: bool = False) -> JsonObject:
    return {name: str(value) for name, value in key.as_dict(private=private).items()}


class _ProofMutation(LoginMutation):
    """A change of the DPoP proofs of a client, which are signed again, always with the same other key.

    Args:
        change: Changes the header and the claims of a proof; the third argument is the token, or the empty string.
        sign: Signs the header and the claims; `None`: with the own key.
        where: The kind of requests whose proofs are changed; empty: all.
    """

    def __init__(
        self,
        change: Callable[[JsonObject, JsonObject, str], None],
        sign: Callable[[JsonObject, JsonObject], str] | None = None,
        where: str = "",
    ) -> None:
        self._change: Final = change
        self._key: Final = ECKey.generate_key("P-256")
        self._sign: Final = sign or (
            lambda header, claims: jws.serialize_compact(header, json.dumps(claims), self._key)
        )
        self._where: Final = where

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Return the request with the changed proof."""
        held = request.header("dpop")
        if held is None:
            return None
        header, claims = _part(held, 0), _part(held, 1)
        header["jwk"] = {**_public(self._key)}
        if self._where not in ("", request.kind):
            return request.with_header("DPoP", jws.serialize_compact(header, json.dumps(claims), self._key))
        if request.kind == "mcp" or not self._where:
            self._change(header, claims, _token(request) if request.kind == "mcp" else "")
        if header.get("jwk") == "private":
            header["jwk"] = {**_public(self._key, private=True)}
        return request.with_header("DPoP", self._sign(header, claims))


def _claim(name: str, change: Callable[[str], object]) -> Callable[[JsonObject, JsonObject, str], None]:
    def changed(_: JsonObject, claims: JsonObject, __: str) -> None:
        if name in claims:
            claims[name] = change(str(claims[name]))  # type: ignore[assignment]  # the rows below have JSON values

    return changed


def _hash(change: Callable[[bytes], str]) -> Callable[[JsonObject, JsonObject, str], None]:
    def changed(_: JsonObject, claims: JsonObject, token: str) -> None:
        if token:
            claims["ath"] = change(hashlib.sha256(token.encode()).digest())

    return changed


def _unsigned(header: JsonObject, claims: JsonObject) -> str:
    parts = [json.dumps({**header, "alg": "none"}), json.dumps(claims)]
    return ".".join(base64.urlsafe_b64encode(each.encode()).decode().rstrip("=") for each in parts) + "."


def _symmetric(header: JsonObject, claims: JsonObject) -> str:
    key = OctKey.generate_key(256)
    return jws.serialize_compact({**header, "alg": "HS256"}, json.dumps(claims), key)


def _by_another(header: JsonObject, claims: JsonObject) -> str:
    """Sign with a key that is not the one in the header."""
    return jws.serialize_compact(header, json.dumps(claims), ECKey.generate_key("P-256"))


def _by_new_key(header: JsonObject, claims: JsonObject) -> str:
    key = ECKey.generate_key("P-256")
    return jws.serialize_compact({**header, "jwk": {**_public(key)}}, json.dumps(claims), key)


def _nothing(header: JsonObject, claims: JsonObject, token: str) -> None:
    """Change nothing."""


_PROOFS: Final[tuple[tuple[str, str, Callable[[JsonObject, JsonObject, str], None], str], ...]] = (
    ("jti-absent", "`jti` is absent", _setting("claims", jti=None), ""),
    ("jti-empty", "`jti` is empty", _setting("claims", jti=""), ""),
    ("jti-same", "all proofs have the same `jti`", _setting("claims", jti="the-same-identifier"), ""),
    ("jti-number", "`jti` is a number", _setting("claims", jti=12345678), ""),
    ("htm-absent", "`htm` is absent", _setting("claims", htm=None), ""),
    ("htm-lower", "`htm` is in lower case", _claim("htm", str.lower), ""),
    ("htm-other", "`htm` is another method", _setting("claims", htm="GET"), ""),
    ("htu-absent", "`htu` is absent", _setting("claims", htu=None), ""),
    ("htu-query", "`htu` has a query", _claim("htu", lambda url: f"{url}?a=b"), ""),
    ("htu-fragment", "`htu` has a fragment", _claim("htu", lambda url: f"{url}#a"), ""),
    (
        "htu-origin",
        "`htu` is only the origin",
        _claim("htu", lambda url: "{0.scheme}://{0.netloc}".format(urlsplit(url))),
        "",
    ),
    ("htu-path", "`htu` is only the path", _claim("htu", lambda url: urlsplit(url).path), ""),
    ("htu-below", "`htu` has another path", _claim("htu", lambda url: f"{url}/other"), ""),
    ("htu-host", "`htu` has another host", _claim("htu", lambda url: url.replace("://", "://other.", 1)), ""),
    ("iat-absent", "`iat` is absent", _setting("claims", iat=None), ""),
    ("iat-text", "`iat` is a text", _claim("iat", str), ""),
    ("iat-old", "`iat` is an hour ago", _claim("iat", lambda text: int(text) - 3600), ""),
    ("iat-future", "`iat` is in an hour", _claim("iat", lambda text: int(text) + 3600), ""),
    ("iat-milliseconds", "`iat` is in milliseconds", _claim("iat", lambda text: int(text) * 1000), ""),
    ("ath-absent", "`ath` is absent", _setting("claims", ath=None), ""),
    ("ath-hex", "`ath` is hexadecimal", _hash(bytes.hex), ""),
    ("ath-padded", "`ath` has padding", _hash(lambda found: base64.urlsafe_b64encode(found).decode()), ""),
    (
        "ath-token",
        "`ath` is the token",
        lambda _, claims, token: claims.update({"ath": token} if token else {}),
        "",
    ),
    ("typ-absent", "`typ` is absent", _setting("header", typ=None), ""),
    ("typ-jwt", "`typ` is JWT", _setting("header", typ="JWT"), ""),
    ("jwk-absent", "the header has no key", _setting("header", jwk=None), ""),
    ("jwk-private", "the header has the private key", _setting("header", jwk="private"), ""),
    ("nonce-other", "the nonce is another one", _claim("nonce", lambda text: f"{text}-other"), ""),
    ("nonce-absent", "the nonce is absent", _setting("claims", nonce=None), ""),
    (
        "iat-fraction",
        "`iat` has a fraction",
        _claim("iat", lambda text: int(text) + 0.5),
        "A NumericDate may be a non-integer value (RFC 7519).",
    ),
    (
        "claim-extra",
        "the proof has another claim",
        _setting("claims", extra={"a": 1}),
        "A proof may have other claims (RFC 9449, section 4.2).",
    ),
)
"""The changes of proofs."""

_SIGNATURES: Final[tuple[tuple[str, str, Callable[[JsonObject, JsonObject], str]], ...]] = (
    ("unsigned", "proofs are not signed", _unsigned),
    ("symmetric", "proofs are signed with a symmetric key", _symmetric),
    ("key-other", "proofs are signed with a key other than the one in the header", _by_another),
    ("key-new", "each proof has a new key", _by_new_key),
)


class _ProofHeader(LoginMutation):
    """A change of the headers with a proof, for one kind of request."""

    def __init__(self, kind: str, change: Callable[[LoginRequest], LoginRequest]) -> None:
        self._kind: Final = kind
        self._change: Final = change

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Return the changed request."""
        concerned = request.kind == self._kind and request.header("dpop") is not None
        return self._change(request) if concerned else None


class _AssertionMutation(LoginMutation):
    """A change of client assertions, signed with the key of the client."""

    def __init__(self, change: Callable[[JsonObject], None], *, key: ECKey | None = None) -> None:
        self._change: Final = change
        self._key: Final = key

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Return the request with the changed assertion."""
        held, pem = dict(request.fields).get("client_assertion"), context().get("private_key_pem")
        if request.kind != "token" or held is None or not isinstance(pem, str):
            return None
        header, claims = _part(held, 0), _part(held, 1)
        self._change(claims)
        changed = jws.serialize_compact(header, json.dumps(claims), self._key or ECKey.import_key(pem))
        return _field("client_assertion", lambda name, _: [(name, changed)], request)


_ASSERTIONS: Final[tuple[tuple[str, str, Callable[[JsonObject], None]], ...]] = (
    ("iss-absent", "`iss` is absent", _changes(iss=None)),
    ("iss-other", "`iss` is not the client id", _changes(iss="other")),
    ("sub-absent", "`sub` is absent", _changes(sub=None)),
    ("sub-other", "`sub` is not the client id", _changes(sub="other")),
    ("aud-absent", "`aud` is absent", _changes(aud=None)),
    ("aud-slash", "`aud` has a trailing slash", lambda claims: claims.update(aud=f"{claims['aud']}/")),
    ("aud-endpoint", "`aud` is the token endpoint", lambda claims: claims.update(aud=f"{claims['aud']}/token")),
    ("exp-absent", "`exp` is absent", _changes(exp=None)),
    ("exp-past", "the assertion has expired", lambda claims: claims.update(exp=int(time.time()) - 60)),
    ("exp-text", "`exp` is a text", lambda claims: claims.update(exp=str(claims["exp"]))),
)
"""The changes of client assertions."""


_UNBOUND: Final = (
    "Without a proof the client gets no bound token: it is a client without the extension, which is optional."
)


# --- the table --------------------------------------------------------------------------------------------------------


def _at(key: str, detail: str = "", *, without: tuple[str, ...] = ()) -> Callable[[Recording], Iterable[Target]]:
    """Return a target of clients that log in, if they send such a request, except in some revisions."""

    def targets(recording: Recording) -> Iterable[Target]:
        leg = recording.leg
        held = [each.get("fields") for each in recording.messages(f"{key} login") if leg.transport == LOGIN]
        found = any(not detail or (isinstance(each, dict) and detail in each) for each in held)
        return [Target(key=f"{key} login", detail=detail)] if found and leg.revision not in without else []

    return targets


def _operator(
    name: str,
    summary: str,
    targets: Callable[[Recording], Iterable[Target]],
    mutation: Callable[[], LoginMutation],
    *,
    invisible: str = "",
    provoked: bool = False,
) -> Operator:
    def made(target: Target, leg: Leg) -> LoginMutation:  # noqa: ARG001  one signature
        return mutation()

    return Operator(
        name=f"login-{name}",
        summary=summary,
        targets=targets,
        mutation=made,
        invisible=invisible,
        provoked=provoked,
    )


def _request_operators() -> Iterable[Operator]:
    for (kind, field), names in _FIELDS.items():
        for name in names:
            summary, change = _FIELD_CHANGES[name]
            yield _operator(
                f"{kind}-{field.replace('_', '-')}-{name}",
                f"`{field}` {summary}",
                # Resource indicators are required since 2025-06-18.
                _at(kind, field, without=(_FIRST,) if field == "resource" else ()),
                partial(_RequestMutation, kind, partial(_field, field, change)),
            )
    for name, (summary, register) in _REGISTERED.items():
        without = _LEGACY if name.startswith(("type-", "grants-")) else (_FIRST,) if name == "redirects-absent" else ()
        yield _operator(
            f"register-{name}",
            summary,
            _at("register", without=without),
            partial(_RequestMutation, "register", partial(_registration, register)),
        )
    for name, kind, summary, form, invisible in _FORMS:
        yield _operator(name, summary, _at(kind), partial(_RequestMutation, kind, form), invisible=invisible)
    yield _operator("token-twice", "a code is redeemed twice", _at("token", "code"), _Again)
    yield _operator(
        "state-fixed",
        "each authorization request has the same state",
        _at("authorize", without=(_FIRST,)),
        _FixedState,
    )


def _token_operators() -> Iterable[Operator]:
    for name, summary, place, invisible in _PLACES:
        yield _operator(
            f"bearer-{name}",
            f"the token is {summary}",
            _at("mcp"),
            partial(_RequestMutation, "mcp", place),
            invisible=invisible,
        )
    # Only the last revision keeps the token from the own authorization server.
    for kind in ("resource-metadata", "server-metadata", "register", "token"):
        yield _operator(
            f"bearer-at-{kind}",
            f"the token is also in requests of the kind {kind}",
            _at(kind, without=_LEGACY),
            partial(_Spread, kind, lambda request, token: request.with_header("Authorization", f"Bearer {token}")),
        )
    secrets: tuple[tuple[str, str, Callable[[LoginRequest], str], tuple[str, ...]], ...] = (
        ("access-token", "mcp", _token, _LEGACY),
        ("code", "token", lambda request: dict(request.fields).get("code", ""), _OLD),
        ("verifier", "token", lambda request: dict(request.fields).get("code_verifier", ""), _OLD),
    )
    for name, at, secret, without in secrets:
        yield _operator(
            f"shown-{name}",
            f"the {name} is sent to another server",
            _at(at, without=without),
            partial(_Elsewhere, at, secret),
        )


def _metadata_operators() -> Iterable[Operator]:
    for name, kind, summary, change, without in _URLS_OF_METADATA:
        yield _operator(
            f"metadata-{name}", summary, _at(kind, without=without), partial(_RequestMutation, kind, change)
        )
    early: tuple[tuple[str, str, str, Callable[[str], str], tuple[str, ...]], ...] = (
        ("resource-root-first", "resource-metadata", "the root is tried first", lambda _: _PRM, _OLD),
        (
            "server-openid-first",
            "server-metadata",
            "OpenID Connect metadata are tried first",
            lambda path: path.replace(_OAUTH, _OPENID),
            _OLD,
        ),
    )
    for name, kind, summary, earlier, without in early:
        yield _operator(f"metadata-{name}", summary, _at(kind, without=without), partial(_Early, kind, earlier))


def _received_operators() -> Iterable[Operator]:
    def received(
        name: str, summary: str, at: str, mutation: Callable[[], LoginMutation], *, without: tuple[str, ...] = _LEGACY
    ) -> Operator:
        return _operator(name, summary, _at(at, without=without), mutation, provoked=True)

    for name, summary, rule in _EQUALS:
        if name != "origin":
            yield received(
                f"issuer-{name}", f"the issuer of metadata: {summary}", "server-metadata", partial(_issuer, rule)
            )
            yield received(f"iss-{name}", f"the issuer of a response: {summary}", "authorize", partial(_iss, rule))
        if name not in ("case", "slash"):
            yield received(
                f"resource-{name}",
                f"the resource of metadata: {summary}",
                "resource-metadata",
                partial(_resource, rule),
            )
    yield received(
        "iss-absent",
        "a response without an issuer is accepted",
        "authorize",
        partial(_answer, "iss", lambda it: it is None),
    )
    yield received(
        "state-any",
        "any state is accepted",
        "authorize",
        partial(_answer, "state", lambda it: it is not None),
        without=(_FIRST,),
    )
    yield received(
        "state-unchecked",
        "a response without a state is accepted",
        "authorize",
        partial(_answer, "state", lambda it: it is None),
        without=(_FIRST,),
    )
    yield received("pkce-unchecked", "PKCE support is not verified", "server-metadata", _pkce, without=_OLD)
    for name in ("scope", "resource_metadata"):
        yield received(
            f"challenge-{name.partition('_')[0]}-ignored",
            f"`{name}` of a challenge is ignored",
            "mcp",
            partial(_challenge, _without_parameter(name)),
            without=_OLD,
        )
    yield received(
        "scopes-supported-ignored",
        "the scopes of the resource metadata are ignored",
        "resource-metadata",
        partial(_member, "resource-metadata", scopes_supported=None),
        without=_OLD,
    )
    yield received(
        "documents-ignored",
        "support of metadata documents is ignored",
        "server-metadata",
        partial(_member, "server-metadata", client_id_metadata_document_supported=None),
        without=_OLD,
    )
    yield received(
        "documents-assumed",
        "support of metadata documents is assumed",
        "server-metadata",
        partial(_member, "server-metadata", client_id_metadata_document_supported=True),
        without=_OLD,
    )
    yield received(
        "migration-ignored", "the first authorization server is never replaced", "resource-metadata", _first_metadata
    )
    for kind in ("token", "mcp"):
        yield received(
            f"nonce-ignored-{kind}", f"the nonce of {kind} responses is ignored", kind, partial(_without_nonce, kind)
        )


def _jwt_operators() -> Iterable[Operator]:
    targets = _at("proof")
    for name, summary, change, invisible in _PROOFS:
        yield _operator(f"proof-{name}", summary, targets, partial(_ProofMutation, change), invisible=invisible)
    for name, summary, sign in _SIGNATURES:
        yield _operator(f"proof-{name}", summary, targets, partial(_ProofMutation, _nothing, sign))
    absent: Callable[[LoginRequest], LoginRequest] = lambda request: request.with_header("DPoP")  # noqa: E731  a row
    for kind, invisible in (("token", _UNBOUND), ("mcp", "")):
        yield _operator(
            f"proof-absent-{kind}",
            f"{kind} requests have no proof",
            targets,
            partial(_ProofHeader, kind, absent),
            invisible=invisible,
        )
    yield _operator(
        "proof-twice",
        "a request has two proofs",
        targets,
        partial(
            _ProofHeader,
            "mcp",
            lambda request: request.with_header("DPoP", *([request.header("dpop") or ""] * 2)),
        ),
    )
    yield _operator(
        "proof-as-bearer",
        "a bound token has the scheme Bearer",
        targets,
        partial(_ProofHeader, "mcp", _authorization(lambda _, token: (f"Bearer {token}",))),
    )
    for name, summary, claims in _ASSERTIONS:
        yield _operator(
            f"assertion-{name}", summary, _at("token", "client_assertion"), partial(_AssertionMutation, claims)
        )
    yield _operator(
        "assertion-key-other",
        "the assertion is signed with another key",
        _at("token", "client_assertion"),
        partial(_AssertionMutation, lambda _: None, key=ECKey.generate_key("P-256")),
    )


LOGIN_OPERATORS: Final = (
    *_request_operators(),
    *_token_operators(),
    *_metadata_operators(),
    *_received_operators(),
    *_jwt_operators(),
)
"""The operators on clients that log in."""
