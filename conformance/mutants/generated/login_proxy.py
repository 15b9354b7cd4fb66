"""A proxy in the process of a client that logs in: between the client and all servers, by the kind of each request."""

# ruff: noqa: ARG002  # all hooks have the parameters that their callers pass

from __future__ import annotations

import http.client
import json
import os
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

import attrs

from mutants.generated.proxy import Mutation

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.generated.proxy import Observer

__all__ = ["Fields", "LoginMutation", "LoginReply", "LoginRequest", "install"]

Fields = list[tuple[str, str]]
"""The parameters of a query or a form, in order."""

_FORM: Final = "application/x-www-form-urlencoded"
_KINDS: Final[Mapping[str, str]] = {
    "/mcp": "mcp",
    "/authorize": "authorize",
    "/token": "token",
    "/register": "register",
    "/meta/resource.json": "resource-metadata",
}
"""The kinds of requests, by the paths of the OAuth testbed, or the ends of longer ones."""
_UNAUTHORIZED: Final = (401, 403)


@attrs.frozen(kw_only=True)
class LoginRequest:
    """A request of the client."""

    method: str
    """The HTTP method."""
    url: str
    """The URL."""
    headers: tuple[tuple[str, str], ...]
    """The headers."""
    body: bytes
    """The body."""

    @property
    def kind(self) -> str:
        """What the request is for: `mcp`, an endpoint of the authorization server, `refresh`, or a kind of metadata."""
        if self.url == context().get("idp_token_endpoint"):
            return "exchange"
        path = urlsplit(self.url).path
        end = f"/{path.rpartition('/')[2]}"
        if end == "/token" and ("grant_type", "refresh_token") in self.fields:
            return "refresh"
        if "/.well-known/" not in path:
            return _KINDS.get(path) or _KINDS.get(end, "other")
        return "resource-metadata" if "oauth-protected-resource" in path else "server-metadata"

    @property
    def origin(self) -> str:
        """The origin of the server."""
        return "{0.scheme}://{0.netloc}".format(urlsplit(self.url))

    @property
    def fields(self) -> Fields:
        """The parameters: of the form, or of the query for another body."""
        text = self.body.decode() if self.header("content-type") == _FORM else urlsplit(self.url).query
        return parse_qsl(text, keep_blank_values=True)

    @property
    def document(self) -> JsonObject:
        """The JSON object in the body; empty for another body."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def header(self, name: str) -> str | None:
        """Return the first header with a name; `None` if absent."""
        return next((value for each, value in self.headers if each.lower() == name.lower()), None)

    def with_header(self, name: str, *values: str) -> LoginRequest:
        """Return the request with other values of a header; without values: without the header."""
        kept = [each for each in self.headers if each[0].lower() != name.lower()]
        return attrs.evolve(self, headers=(*kept, *((name, value) for value in values)))

    def with_fields(self, fields: Fields) -> LoginRequest:
        """Return the request with other parameters."""
        text = urlencode(fields)
        if self.header("content-type") == _FORM:
            return attrs.evolve(self, body=text.encode())
        return attrs.evolve(self, url=f"{self.url.partition('?')[0]}?{text}")

    def noted(self) -> JsonValue:
        """Return what a recording keeps of the request."""
        headers: JsonObject = {name.lower(): value for name, value in self.headers}
        fields: JsonObject = dict(self.fields) if self.kind != "mcp" else {}
        return {"fields": {**fields, **(self.document if self.kind != "mcp" else {})}, "headers": headers}


@attrs.frozen(kw_only=True)
class LoginReply:
    """A response to the client."""

    status: int
    """The status."""
    headers: tuple[tuple[str, str], ...]
    """The headers."""
    body: bytes
    """The body."""

    def header(self, name: str) -> str:
        """Return the first header with a name; empty if absent."""
        return next((value for each, value in self.headers if each.lower() == name.lower()), "")

    def with_header(self, name: str, *values: str) -> LoginReply:
        """Return the response with other values of a header."""
        kept = [each for each in self.headers if each[0].lower() != name.lower()]
        return attrs.evolve(self, headers=(*kept, *((name, value) for value in values)))

    # The client reads a response as one of `http.client`.

    def getheaders(self) -> list[tuple[str, str]]:
        """Return the headers."""
        return list(self.headers)

    def getheader(self, name: str, default: str | None = None) -> str | None:
        """Return the first header with a name."""
        return self.header(name) or default

    def read(self) -> bytes:
        """Return the body."""
        return self.body


class LoginMutation(Mutation):
    """The change of a login. By default none: `None` stands for the unchanged request or response."""

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Return the request that is sent in place of one of the client."""
        return None

    def login_before(self, request: LoginRequest) -> list[LoginRequest]:
        """Return requests that are sent before one of the client, and whose responses are ignored."""
        return []

    def login_reply(self, request: LoginRequest, reply: LoginReply) -> LoginReply | None:
        """Return the response that the client receives in place of another one, except results of the MCP server."""
        return None


def context() -> JsonObject:
    """Return the data that the suite gave to the client."""
    found = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    return found if isinstance(found, dict) else {}


def _sent(connection: http.client.HTTPConnection, request: LoginRequest) -> None:
    parts = urlsplit(request.url)
    connection.putrequest(
        request.method, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), skip_accept_encoding=True
    )
    for name, value in request.headers:
        connection.putheader(name, value)
    if request.body or request.method == "POST":
        connection.putheader("Content-Length", str(len(request.body)))
    connection.endheaders(request.body or None)


def install(mutation: Mutation, observer: Observer) -> None:
    """Put the proxy between this process and all servers.

    Args:
        mutation: The mutation.
        observer: Receives the requests of the client and the number of changes.
    """
    plain: Final = http.client.HTTPConnection
    change = mutation if isinstance(mutation, LoginMutation) else LoginMutation()

    class FaultyConnection(plain):  # type: ignore[misc,valid-type]  # the class is replaced in this process only
        """A connection whose requests and responses pass the mutation."""

        def request(
            self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
        ) -> None:
            """Send a request."""
            self.own = LoginRequest(
                method=method,
                url=f"http://{self.host}:{self.port}{url}",
                headers=tuple((headers or {}).items()),
                body=body or b"",
            )
            observer.noted(f"{self.own.kind} login", self.own.noted())
            if self.own.header("dpop") is not None:
                observer.noted("proof login", self.own.noted())
            for each in change.login_before(self.own):
                observer.hit()
                parts = urlsplit(each.url)
                further = plain(parts.hostname or "", parts.port or 80, timeout=30)
                _sent(further, each)
                further.getresponse().read()
            changed = change.login_request(self.own)
            if changed is None or changed == self.own:
                if "\n" in url:
                    # The client has disabled the validation of the path.
                    super().request(method, url, body, headers or {})
                else:
                    _sent(self, self.own)
                return
            observer.hit()
            _sent(self, changed)

        def getresponse(self) -> LoginReply | http.client.HTTPResponse:
            """Return the response."""
            response: http.client.HTTPResponse = super().getresponse()
            if self.own.kind == "mcp" and response.status not in _UNAUTHORIZED:
                return response
            reply = LoginReply(status=response.status, headers=tuple(response.getheaders()), body=response.read())
            changed = change.login_reply(self.own, reply)
            if changed is None or changed == reply:
                return reply
            observer.hit()
            return changed

    replace: Callable[[object], None] = lambda found: setattr(http.client, "HTTPConnection", found)  # noqa: E731  mypy rejects the assignment of a class
    replace(FaultyConnection)
