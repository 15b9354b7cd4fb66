"""An authorization server: metadata, client registration, and the authorization endpoint with automatic consent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

import attrs

from mcp_conformance.oauth_testbed.client_jwts import NonceIssuer, ProofChecks
from mcp_conformance.oauth_testbed.http_messages import Request, Response, json_object, json_response, single
from mcp_conformance.oauth_testbed.metadata_documents import (
    changed,
    flaws,
    is_among,
    is_offered,
    listed,
    server_metadata,
    usable_resources,
)
from mcp_conformance.oauth_testbed.quirks import Part, Well
from mcp_conformance.oauth_testbed.registered_clients import Client, Clients, is_loopback, redirect_matches
from mcp_conformance.oauth_testbed.revocation_endpoint import RevocationEndpoint
from mcp_conformance.oauth_testbed.token_endpoint import Code, TokenEndpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp_conformance.oauth_testbed.http_messages import Pairs
    from mcp_conformance.oauth_testbed.metadata_documents import TestbedUrls
    from mcp_conformance.oauth_testbed.quirks import Quirks
    from mcp_conformance.oauth_testbed.violations import ViolationRecorder
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["AuthorizationServer", "Demands"]

_ENDPOINTS: Final = {
    "/authorize": ("authorization_endpoint", Part.AUTHORIZATION),
    "/token": ("token_endpoint", Part.TOKEN),
    "/register": ("registration_endpoint", Part.REGISTRATION),
}
"""The default path of each endpoint, and the member of the metadata that may name a URL whose path ends with it."""
_SECRETS: Final = ("client_secret_basic", "client_secret_post")
_MOST_REQUESTS: Final = 6
"""The limit of authorization requests for one set of scopes. The specification recommends a few at most."""


@attrs.define
class Demands:
    """The scopes that the MCP server required and accepted, as known to the client, and those that the client requested."""

    challenged: tuple[str, ...] = ()
    """The scopes of the last challenge."""
    supported: tuple[str, ...] = ()
    """The scopes in the resource metadata."""
    insufficient: bool = False
    """Whether the last challenge stated insufficient scopes."""
    accepted: bool = False
    """Whether the MCP server has accepted a token."""
    requested: set[str] = attrs.field(factory=set)
    """All scopes requested so far."""
    granted: set[str] = attrs.field(factory=set)
    """All scopes of issued tokens, requested or not."""
    times: dict[frozenset[str], int] = attrs.field(factory=dict)
    """The number of requests for each set of scopes."""


@attrs.define(kw_only=True)
class AuthorizationServer:
    """An authorization server."""

    quirks: Quirks
    """The deviations from the default behavior."""
    places: TestbedUrls
    """The URLs of all servers."""
    recorder: ViolationRecorder
    """The recorded violations."""
    demands: Demands
    """The required and the requested scopes."""
    documents: Mapping[str, JsonObject] = attrs.field(factory=dict)
    """Client ID metadata documents, by URL."""
    assertions: dict[str, str] = attrs.field(factory=dict)
    """The trusted JWTs."""
    configured_issuers: Sequence[str] = ()
    """Issuers that the user configured in the client."""
    known_elsewhere: Callable[[str], bool] = attrs.field(default=lambda _: False, repr=False)
    """Returns whether another authorization server issued a client id."""
    strays: list[str] = attrs.field(factory=list)
    """The URLs of forged authorization responses, to which the browser is sent before the right one."""
    looked_up: bool = attrs.field(default=False, init=False)
    """Whether the metadata were requested."""
    retired: bool = False
    """Whether the MCP server has moved to another authorization server."""
    _registrations: int = attrs.field(default=0, init=False)
    _states: set[str] = attrs.field(factory=set, init=False)
    _challenges: set[str] = attrs.field(factory=set, init=False)
    clients: Clients = attrs.field(init=False)
    """The registered clients."""
    tokens: TokenEndpoint = attrs.field(init=False)
    """The token endpoint."""
    revocation: RevocationEndpoint = attrs.field(init=False)
    """The revocation endpoint."""
    _parts: dict[str, Part] = attrs.field(init=False)
    _authorization_query: Pairs = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        metadata = server_metadata(self.quirks, self.places) if self.quirks.server_metadata_at else {}
        self._parts = {self._endpoint(metadata, name, path): part for path, (name, part) in _ENDPOINTS.items()}
        self._authorization_query = Request(method="GET", url=str(metadata.get("authorization_endpoint", ""))).query
        self.clients = Clients(
            issuer=self.places.issuer,
            recorder=self.recorder,
            documents=self.documents,
            takes_documents=self.quirks.documents,
        )
        self.tokens = TokenEndpoint(
            quirks=self.quirks,
            places=self.places,
            recorder=self.recorder,
            clients=self.clients,
            proofs=ProofChecks(self.recorder),
            nonces=NonceIssuer(
                recorder=self.recorder,
                name="nonce-of-issuer",
                requirement="dpop.client-as-nonce",
                wanted=Part.TOKEN in self.quirks.nonce_at,
                how=self.quirks.nonces,
            ),
            resources=usable_resources(self.quirks, self.places),
            assertions=self.assertions,
            has_accepted=lambda: self.demands.accepted,
        )
        self.revocation = RevocationEndpoint(
            url=self._revocation_url(), recorder=self.recorder, clients=self.clients, tokens=self.tokens
        )

    def _endpoint(self, metadata: JsonObject, name: str, path: str) -> str:
        """Return the URL of an endpoint: that in the metadata without its query, if it is at this server."""
        named = str(metadata.get(name)).partition("?")[0]
        moved = named.startswith(f"{self.places.server}/") and named.endswith(path)
        return named if moved else f"{self.places.server}{path}"

    def _revocation_url(self) -> str | None:
        """Return the URL of the revocation endpoint, if it is at this server and a client can know it."""
        url = server_metadata(self.quirks, self.places).get("revocation_endpoint")
        known = is_offered(self.quirks, self.places, self.configured_issuers)
        return url if known and isinstance(url, str) and url.startswith(f"{self.places.server}/") else None

    def part(self, request: Request) -> Part | None:
        """Return the part that a request concerns; `None` for an unknown URL."""
        part = Part.REVOCATION if request.place == self.revocation.url else self._parts.get(request.place)
        if part is None and any(request.url == well.url(self.places.issuer) for well in Well):
            return Part.SERVER_METADATA
        return part

    def exposes_refresh_token(self, request: Request, head: str) -> bool:
        """Return whether a request has a refresh token of this server elsewhere than in a body for this server.

        Args:
            request: The request.
            head: Its URL and the values of its headers, also decoded.
        """
        confidential = request.method == "POST" and self.part(request) in (Part.TOKEN, Part.REVOCATION)
        shown = head if confidential else f"{head} {request.body.decode('latin-1')}"
        return any(text in shown for text in self.tokens.refresh_texts)

    def answer(self, request: Request, part: Part, now: float) -> Response:
        """Respond to a request."""
        if part is Part.SERVER_METADATA:
            return self._metadata(request)
        self._check_flaws(part)
        match part:
            case Part.REGISTRATION:
                return self._register(request)
            case Part.AUTHORIZATION:
                return self._authorize(request)
            case Part.REVOCATION:
                return self.revocation.answer(request, now)
        answer = self.tokens.answer(request, now)
        if answer.status != 200 and single(request.form).get("grant_type") == "refresh_token":
            # A login without a challenge may follow, and the client may have forgotten an older challenge.
            self.demands.challenged, self.demands.insufficient = (), False
        self.demands.granted.update(*(token.scopes for token in self.tokens.issued.values()))
        return answer

    def _metadata(self, request: Request) -> Response:
        self.recorder.expect(
            request.header("authorization") is None,
            "auth.client-only-own-as-tokens",
            "a request for metadata carries a token",
        )
        if not any(request.url == well.url(self.places.issuer) for well in self.quirks.server_metadata_at):
            return Response(status=404)
        return json_response(server_metadata(self.quirks, self.places))

    def _check_flaws(self, part: Part) -> None:
        for flaw in flaws(self.quirks, self.places, self.configured_issuers):
            if part in flaw.parts:
                self.recorder.note(flaw.requirement, f"a request for {part.value}, although {flaw.sentence}")
        if part in (Part.TOKEN, Part.REVOCATION):
            return
        sentence = f"a request for {part.value} at the former authorization server"
        self.recorder.expect(not self.retired, "auth.as-change-reregister", sentence)
        if is_offered(self.quirks, self.places, self.configured_issuers):
            sentence = f"a request for {part.value} by a client that never requested the metadata"
            self.recorder.expect(self.looked_up, "auth.client-both-as-metadata", sentence)

    def _register(self, request: Request) -> Response:
        document = json_object(request.body)
        if not self.quirks.registers or document is None:
            return json_response({"error": "invalid_client_metadata"}, 400)
        if not self.clients.check_registration(request, document):
            return json_response({"error": "invalid_client_metadata"}, 400)
        self._registrations += 1
        at = self.places.server.partition("://")[2].replace("/", "-")
        # The response contains all registered metadata (RFC 7591, section 3.2.1), also the default method.
        default: JsonObject = {"token_endpoint_auth_method": _SECRETS[0]}
        answer: JsonObject = {**default, **document, "client_id": f"client-{self._registrations}-at-{at}"}
        if answer["token_endpoint_auth_method"] in _SECRETS:
            answer["client_secret"] = self.recorder.new("client", self.places.server)
            answer["client_secret_expires_at"] = 0
        answer = changed(answer, self.quirks.registration, self.places)
        client = Client.of(answer)
        if client.secret is not None:
            self.recorder.secrets.setdefault(client.secret, self.places.server)
        self.clients.registered[client.client_id] = client
        return json_response(answer, 201)

    def _authorize(self, request: Request) -> Response:
        fields, expect = single(request.query), self.recorder.expect
        client = self.clients.find(fields.get("client_id", ""))
        uri = fields.get("redirect_uri", "")
        if client is None:
            self._check_unknown(fields.get("client_id", ""))
            return Response(status=400, body=b"unknown client")
        known = client.redirect_uris
        registered = any(redirect_matches(each, uri) for each in known) if known else True
        safe = uri.startswith("https://") or (uri.startswith("http://") and is_loopback(uri))
        expect(safe, "auth.redirect-https-or-localhost", f"the redirect URI is {uri!a}")
        if (
            not expect(registered, "auth.redirect-registered", f"the redirect URI {uri!a} is not registered")
            or not safe
        ):
            return Response(status=400, body=b"unknown redirect URI")
        self._check_request(request, fields)
        self._check_scopes(frozenset(fields.get("scope", "").split()))
        code = Code(
            client_id=fields.get("client_id", ""),
            redirect_uri=uri,
            challenge=fields.get("code_challenge", ""),
            # The default of OAuth 2.1, section 4.1.1.
            challenge_method=fields.get("code_challenge_method", "plain"),
            resource=fields.get("resource", ""),
            scopes=tuple(fields.get("scope", "").split()),
        )
        location = self._back(code, fields.get("state", ""))
        return Response(status=302, headers=(("Location", location),))

    def _check_unknown(self, client_id: str) -> None:
        """Record why a client id is unknown. The misuse of an id of another server is recorded elsewhere."""
        if "://" in client_id:
            taken = self.quirks.documents
            self.recorder.expect(taken, "auth.cimd-client-checks", "the client id is a URL, which is not supported")
        elif client_id not in self.clients.forgotten and not self.known_elsewhere(client_id):
            self.recorder.note("auth.registration-obtained", "the client id of a request was never known")

    def _check_request(self, request: Request, fields: dict[str, str]) -> None:
        expect, names = self.recorder.expect, [name for name, _ in request.query]
        state, resource = fields.get("state", ""), fields.get("resource", "")
        expect(request.method == "GET", "auth.oauth21-security", "the browser does not use GET")
        expect(len(names) == len(set(names)), "auth.oauth21-security", "an authorization request has a field twice")
        kept = set(self._authorization_query) <= set(request.query)
        expect(kept, "auth.oauth21-security", "the query of the authorization endpoint is not in its request")
        expect(fields.get("response_type") == "code", "auth.oauth21-security", "the response_type is not code")
        # A plain challenge is the verifier itself.
        longest = 128 if fields.get("code_challenge_method", "plain") == "plain" else 43
        challenge = fields.get("code_challenge", "")
        right = 43 <= len(challenge) <= longest
        expect(right, "auth.pkce", "code_challenge is neither a SHA-256 hash nor a plain verifier")
        # A client makes a verifier for each authorization request (RFC 7636, section 4.1).
        expect(
            challenge not in self._challenges, "auth.pkce", "two authorization requests have the same code_challenge"
        )
        self._challenges.add(challenge)
        expect("client_secret" not in fields, "auth.oauth21-security", "a client secret is in an authorization request")
        expect(fields.get("code_challenge_method") == "S256", "auth.pkce-s256", "the PKCE method is not S256")
        expect(len(state) >= 16 and state not in self._states, "auth.state", "state is missing, short, or not new")
        expect("resource" in fields, "auth.resource-in-authorization", "an authorization request has no resource")
        expect(not urlsplit(resource).fragment, "auth.resource-canonical-uri", "the resource has a fragment")
        expect(
            is_among(resource, self.tokens.resources) or "resource" not in fields,
            "auth.resource-identifies-server",
            f"the resource is {resource!a}",
        )
        self._states.add(state)

    def _check_scopes(self, requested: frozenset[str]) -> None:
        demands, expect = self.demands, self.recorder.expect
        offered = listed(server_metadata(self.quirks, self.places), "scopes_supported")
        lacking = sorted(set(demands.challenged) - requested)
        expect(not lacking, "auth.challenge-authoritative", f"challenged scopes are not requested: {' '.join(lacking)}")
        if demands.insufficient:
            lost = sorted(demands.requested - requested)
            expect(not lost, "auth.step-up-union", f"earlier scopes are not requested: {' '.join(lost)}")
        elif not demands.challenged:
            missing = sorted(set(demands.supported) - requested - {"offline_access"})
            expect(not missing, "auth.scope-priority-supported", f"{' '.join(missing)} are supported but not requested")
            fine = bool(demands.supported) or not requested - demands.requested - demands.granted - {"offline_access"}
            expect(fine, "auth.scope-omitted", "scopes are requested that neither challenge nor metadata name")
        if "offline_access" in requested and "offline_access" not in {*offered, *demands.challenged}:
            self.recorder.note(
                "auth.refresh-offline-access-not-otherwise", "offline_access is requested but not listed"
            )
        demands.requested |= requested
        demands.times[requested] = demands.times.get(requested, 0) + 1
        expect(
            demands.times[requested] <= _MOST_REQUESTS,
            "auth.step-up-retry-limit",
            "the user is sent to the authorization endpoint too often",
        )

    def _back(self, code: Code, state: str) -> str:
        """Return the redirect URL, and record the forged ones before it."""
        offered = is_offered(self.quirks, self.places, self.configured_issuers)
        metadata = server_metadata(self.quirks, self.places) if offered else {}
        advertised = metadata.get("authorization_response_iss_parameter_supported") is True
        right = {"code": self._new_code(code), "state": state, "iss": self.places.issuer}
        later = self.quirks.authorization_later if self.demands.accepted else {}
        params = changed(dict(right), {**self.quirks.authorization, **later}, self.places)
        fields = {name: str(value) for name, value in params.items()}
        code.poison = self._poison(fields, state, advertised=advertised)
        for stray in self.quirks.strays:
            given = {name: self.places.fill(value).replace("{state}", state) for name, value in stray.items()}
            bad = attrs.evolve(code, poison=self._poison(given, state, advertised=advertised) or "auth.state")
            if given.get("code") == "{code}":
                given["code"] = self._new_code(bad)
            self.strays.append(f"{code.redirect_uri}?{urlencode(given)}")
        joint = "&" if urlsplit(code.redirect_uri).query else "?"
        return f"{code.redirect_uri}{joint}{urlencode(fields)}"

    def _new_code(self, code: Code) -> str:
        text = self.recorder.new("code", self.places.server) + ("/+ %2F&=" if self.quirks.strange_texts else "")
        self.tokens.codes[text] = code
        return text

    def _poison(self, fields: dict[str, str], state: str, *, advertised: bool) -> str | None:
        """Return the requirement that a client breaks if it accepts a response; `None` if the response is valid."""
        if fields.get("state") != state:
            return "auth.state"
        if "iss" not in fields:
            return "auth.iss-advertised-absent" if advertised else None
        if fields["iss"] != self.places.issuer:
            return "auth.iss-advertised-present" if advertised else "auth.iss-unadvertised-present"
        return "auth.oauth21-security" if "error" in fields else None
