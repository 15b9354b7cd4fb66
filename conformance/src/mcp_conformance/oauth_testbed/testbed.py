"""All servers that a client can meet, as one object that responds to requests and judges them.

There are the MCP server, its authorization server, another authorization server, an identity provider, and an attacker
that no request should reach. A request to any other server is a violation.

The testbed is sans-I/O: it has no sockets and no clock. `mcp_conformance.oauth_testbed.loopback` serves it on the
network.
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

import attrs

from mcp_conformance.oauth_testbed.authorization_server import AuthorizationServer, Demands
from mcp_conformance.oauth_testbed.discovery_order import DiscoveryOrder
from mcp_conformance.oauth_testbed.http_messages import Request, Response, origin_of, single
from mcp_conformance.oauth_testbed.identity_provider import IdentityProvider
from mcp_conformance.oauth_testbed.metadata_documents import TestbedUrls, is_published, usable_resources
from mcp_conformance.oauth_testbed.protected_resource import ProtectedResource
from mcp_conformance.oauth_testbed.quirks import Changes, Part, Quirks, Reply
from mcp_conformance.oauth_testbed.registered_clients import Client, Clients
from mcp_conformance.oauth_testbed.violations import Violation, ViolationRecorder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["OAuthTestbed"]

_NAMED_URL: Final = re.compile(r'(?:^|[\s,])resource_metadata[ \t]*=[ \t]*"?([^",\s]+)')
_PRIVATE: Final = re.compile(
    r"https?://(?:127\.|10\.|169\.254\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|0|\[|localhost)"
)


class OAuthTestbed:
    """The OAuth testbed.

    Args:
        quirks: The deviations from the default behavior.
        resource: The URL of the MCP server.
        server: The origin of its authorization server.
        other: The origin of another authorization server.
        evil: The origin of an attacker.
        idp: The origin of the identity provider.
        clients: Metadata (RFC 7591) of clients that are registered at the authorization server beforehand.
        documents: Client ID metadata documents, by URL.
        configured_issuers: Issuers that the user configured in the client, which needs no discovery for them.
    """

    def __init__(
        self,
        quirks: Quirks | None = None,
        *,
        resource: str = "https://mcp.example/mcp",
        server: str = "https://as.example",
        other: str = "https://other.example",
        evil: str = "https://evil.example",
        idp: str = "https://idp.example",
        clients: Sequence[JsonObject] = (),
        documents: Mapping[str, JsonObject] | None = None,
        configured_issuers: Sequence[str] = (),
    ) -> None:
        self.quirks: Final = Quirks() if quirks is None else quirks
        """The deviations from the default behavior."""
        other = f"{server}/tenant2" if self.quirks.one_host else other
        self.places: Final = TestbedUrls.of(self.quirks, resource=resource, server=server, other=other, evil=evil)
        """The URLs of all servers."""
        self.requests: Final[list[Request]] = []
        """All requests, in order."""
        self.answers: Final[list[Response | None]] = []
        """The response to each request; `None` where no server was."""
        self.recorder: Final = ViolationRecorder()
        """The recorded violations."""
        self.demands: Final = Demands()
        """The required and the requested scopes."""
        assertions: dict[str, str] = {}
        self._documents: Final[Mapping[str, JsonObject]] = documents or {}
        self.server: Final = self._server(self.quirks, self.places, assertions, configured_issuers)
        """The authorization server of the MCP server."""
        away = self.quirks.other or Quirks()
        named: Changes = {**self.quirks.resource_metadata, "authorization_servers": [other], **away.resource_metadata}
        self.other: Final = self._server(
            attrs.evolve(away, resource_metadata=named, scopes=self.quirks.scopes),
            attrs.evolve(self.places, server=other, issuer=other),
            {},
        )
        """Another authorization server."""
        self.resource: Final = ProtectedResource(
            quirks=self.quirks,
            places=self.places,
            recorder=self.recorder,
            demands=self.demands,
            servers=(self.server, self.other),
        )
        """The MCP server."""
        self.workload: str = self.recorder.new("workload", self.places.server)
        """A JWT that a platform issued to a workload. The authorization server trusts it, unless a scenario replaces it."""
        assertions[self.workload] = "wif.client-assertion"
        self.id_token: Final = self.recorder.new("id-token", idp)
        """An ID token of an employee."""
        self.idp: Final = self._identity_provider(idp, assertions)
        """The identity provider."""
        self._idp_origin: Final = idp
        self.watch: Callable[[Request, Response | None], None] | None = None
        """Receives each request with its response before the response is sent, and may change the testbed."""
        self._order: Final = DiscoveryOrder(places=self.places, recorder=self.recorder)
        self._replied: Final[dict[Part, int]] = {}
        self._forbidden: Final[set[str]] = set()
        for document in clients:
            self.register(document)

    def _server(
        self, quirks: Quirks, places: TestbedUrls, assertions: dict[str, str], configured_issuers: Sequence[str] = ()
    ) -> AuthorizationServer:
        return AuthorizationServer(
            quirks=quirks,
            places=places,
            recorder=self.recorder,
            demands=self.demands,
            documents=self._documents,
            assertions=assertions,
            configured_issuers=configured_issuers,
            known_elsewhere=self._is_client,
        )

    def _is_client(self, client_id: str) -> bool:
        """Return whether an authorization server of the testbed registered a client."""
        return any(client_id in each.clients.registered for each in (self.server, self.other))

    def _identity_provider(self, origin: str, assertions: dict[str, str]) -> IdentityProvider:
        clients = Clients(issuer=origin, recorder=self.recorder, documents=self._documents, takes_documents=False)
        return IdentityProvider(
            audience=self.places.issuer,
            resources=usable_resources(self.quirks, self.places),
            server=self.places.server,
            recorder=self.recorder,
            clients=clients,
            assertions=assertions,
            id_token=self.id_token,
        )

    @property
    def violations(self) -> Sequence[Violation]:
        """The violations of the client so far."""
        return self.recorder.violations

    @property
    def secrets(self) -> Sequence[str]:
        """Values that must not appear elsewhere: codes, tokens, client secrets, verifiers, assertions."""
        return tuple(self.recorder.secrets)

    def register(self, document: JsonObject, *, at_idp: bool = False) -> Client:
        """Register a client at the authorization server or at the identity provider."""
        client = Client.of(document, default="none")
        clients = self.idp.clients if at_idp else self.server.clients
        clients.registered[client.client_id] = client
        if client.secret is not None:
            self.recorder.secrets[client.secret] = self._idp_origin if at_idp else self.places.server
        return client

    def migrate(self) -> None:
        """Move the MCP server to the other authorization server.

        Raises:
            ValueError: The server has no metadata that could name the other one.
        """
        if not is_published(self.quirks):
            raise ValueError("without resource metadata the server cannot name another authorization server")
        self.server.retired = True
        # Earlier requests asked the other server for scopes.
        self.demands.requested.clear()

    def restart(self) -> None:
        """Make the authorization server forget all clients and tokens, like a restart without a store."""
        self.server.clients.forget()
        self.server.tokens.revoke()

    def answer(self, request: Request, now: float) -> Response | None:
        """Judge a request and return its response.

        Args:
            request: The request.
            now: Seconds since the epoch.

        Returns:
            The response; `None` where no server is.
        """
        self.recorder.begin(request)
        self.requests.append(request)
        self._check_secrets(request)
        forbidden = request.url in self._forbidden
        self.recorder.expect(
            not forbidden, "security.redirect-targets-validated", f"the client follows a redirect to {request.origin}"
        )
        self._order.see(request)
        answer = self._answer(request, now)
        if answer is not None:
            self._look_at(request, answer)
        self.answers.append(answer)
        if self.watch is not None:
            self.watch(request, answer)
        return answer

    def browse(self, url: str, now: float) -> list[str]:
        """Open a URL in a simulated browser whose user consents.

        Args:
            url: The URL to open.
            now: Seconds since the epoch.

        Returns:
            The URLs to which the browser is redirected. Those that an attacker injects precede the right one.
        """
        if not url.startswith(("https://", "http://")):
            self.recorder.note("security.authorization-url-schemes", f"the client opens the browser at {url[:40]!a}")
            return []
        answer = self.answer(Request(method="GET", url=url), now)
        found = [*self.server.strays, *self.other.strays]
        self.server.strays.clear()
        self.other.strays.clear()
        location = None if answer is None or answer.status not in (302, 303) else answer.header("location")
        return found if location is None else [*found, location]

    def _answer(self, request: Request, now: float) -> Response | None:
        for side in (self.resource, self.server, self.other):
            at = side.places.origin if side is self.resource else origin_of(side.places.server)
            part = side.part(request) if request.origin == at else None
            if part is None:
                continue
            if isinstance(side, AuthorizationServer) and part is Part.SERVER_METADATA:
                side.looked_up = True
            reply = self._reply(part) if side is not self.other else None
            if reply is not None and reply.status is not None:
                headers = tuple((name, self.places.fill(value)) for name, value in reply.headers)
                return Response(status=reply.status, headers=headers, body=reply.body, delay=reply.delay)
            answer = self._typed(side.answer(request, part, now), part)
            answer = self._appended(answer, part, quirky=side is not self.other)
            return answer if reply is None else attrs.evolve(answer, delay=reply.delay)
        if request.origin == self._idp_origin:
            return self.idp.answer(request, now)
        if request.origin in (self.places.origin, self.places.server, self.places.other):
            return Response(status=404)
        return self._astray(request)

    def _astray(self, request: Request) -> Response | None:
        token = (request.header("authorization") or "").partition(" ")[2].strip()
        shown = any(token in server.tokens.texts for server in (self.server, self.other))
        self.recorder.expect(
            not shown, "auth.client-only-own-as-tokens", f"a token of {self.places.origin} is sent to {request.origin}"
        )
        if request.origin == self.places.evil:
            harmless = request.method == "GET" and "code_challenge" not in request.url
            self.recorder.expect(
                harmless, "security.sanitize-urls", "an attacker receives more than a request for a document"
            )
            return Response(status=404)
        private = _PRIVATE.match(request.url) is not None
        requirement = "security.block-private-ranges" if private else "security.sanitize-urls"
        self.recorder.note(requirement, f"a request to an unknown server: {request.url[:200]!a}")
        return None

    def _reply(self, part: Part) -> Reply | None:
        reply = self.quirks.replies_later.get(part) if self.resource.accepted else None
        reply = reply or self.quirks.replies.get(part)
        count = self._replied[part] = self._replied.get(part, 0) + 1
        return reply if reply is not None and (reply.times is None or count <= reply.times) else None

    def _typed(self, answer: Response, part: Part) -> Response:
        if part is Part.MCP or answer.header("content-type") != "application/json":
            return answer
        others = [(name, value) for name, value in answer.headers if name.lower() != "content-type"]
        return attrs.evolve(answer, headers=(("Content-Type", self.quirks.json_type), *others))

    def _appended(self, answer: Response, part: Part, *, quirky: bool) -> Response:
        text = self.quirks.appended.get(part)
        if text is None or not quirky or not answer.body.endswith(b"}"):
            return answer
        return attrs.evolve(answer, body=answer.body[:-1] + b", " + self.places.fill(text).encode() + b"}")

    def _look_at(self, request: Request, answer: Response) -> None:
        """Record what the response implies for later requests."""
        location = answer.header("location")
        in_browser = any(server.part(request) is Part.AUTHORIZATION for server in (self.server, self.other))
        if location is not None and answer.status in (301, 302, 303, 307, 308) and not in_browser:
            target = urljoin(request.url, location)
            posted = request.method != "GET"
            if posted or origin_of(target) != request.origin:
                self._forbidden.add(target)
        if answer.status == 401 and self.resource.part(request) is Part.MCP:
            lines = [value for name, value in answer.headers if name.lower() == "www-authenticate"]
            named = [found[1] for found in map(_NAMED_URL.search, lines) if found]
            self._order.challenged_url = named[0] if named else None

    def _reached(self, request: Request) -> str:
        """Return the origin that receives a request, or the URL of the tenant there."""
        tenant = self.places.other
        mine = self.other.part(request) is not None or request.place.startswith(f"{tenant}/")
        return tenant if mine else request.origin

    def _check_secrets(self, request: Request) -> None:
        reached = self._reached(request)
        client_id = single(request.form).get("client_id") or single(request.query).get("client_id") or ""
        for server, away in ((self.server, self.other), (self.other, self.server)):
            if reached == away.places.server and server.places.server != away.places.server:
                foreign = client_id in server.clients.registered
                self.recorder.expect(not foreign, "auth.as-change-no-reuse", "a client id of another server is used")
        head = " ".join([request.url, *(value for _, value in request.headers)])
        head += _unbasic(request.header("authorization") or "")
        body = request.body.decode("latin-1")
        for server in (self.server, self.other):
            if reached == server.places.server:
                body = server.revocation.shown_by(request)
            self.recorder.expect(
                not server.exposes_refresh_token(request, head),
                "auth.refresh-confidential",
                f"a refresh token of {server.places.server} is in a request to {request.place}",
            )
        shown = f"{head} {body}"
        for secret, origin in self.recorder.secrets.items():
            if secret in shown and reached != origin:
                sentence = f"{secret.partition('-')[0]} of {origin} is sent to {reached}"
                self.recorder.note("auth.no-cross-as-credentials", sentence)


def _unbasic(header: str) -> str:
    """Return the decoded credentials of a Basic Authorization header."""
    scheme, _, credentials = header.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(credentials).decode("latin-1")
    except ValueError:
        return ""
