"""Discovery: from the URL of an MCP server to the metadata of its authorization server.

*Resource.* Discovery reads the URL in the challenge, if there is one. Without one, or without a document there, it
reads the well-known URL with the path of the server, then the one at the root. A document that names the server is
accepted. A document that names a resource above the server is accepted only from that resource's own well-known URL,
which is read next. Otherwise the operator of a part of a host could have tokens issued for the whole host. A document
that names any other resource ends the discovery.

*Authorization server.* Discovery reads the well-known URLs of the first issuer of the list, in the order of the
specification. It accepts the first document of this issuer, compared octet by octet. Without one it tries the next
issuer, up to three.

*Before 2025-06-18* the server was its own authorization server, with metadata at the root of its origin or, without
metadata, default paths there. Discovery tries this if the server has no metadata as a resource, and all requests had a
response. A request without a response proves nothing about the metadata.

Spec: basic/authorization#authorization-server-discovery of each revision
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from mcp_core.errors import Attempt, DiscoveryFailed, InvalidValue, IssuerMismatch, UnsafeUrl
from mcp_core.field_methods import FieldValue
from mcp_core.oauth.documents import one_line, read_json
from mcp_core.oauth.metadata import (
    AuthorizationServerMetadata,
    ProtectedResourceMetadata,
    ResourceMatch,
    check_issuer,
    check_issuer_url,
    match_resource,
    read_authorization_server,
    read_protected_resource,
)
from mcp_core.oauth.pkce import METHOD
from mcp_core.oauth.steps import FetchJson, Unreachable, requested
from mcp_core.oauth.urls import canonical_resource, check_browser_url, check_peer_url, networks_of, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.addresses import AddressClass
    from mcp_core.oauth.challenge import Challenge
    from mcp_core.oauth.steps import Pairs, Running
    from mcp_core.oauth.urls import Url

__all__ = [
    "Discovery",
    "DiscoveryResult",
    "authorization_server_urls",
    "default_endpoints",
    "protected_resource_url",
    "protected_resource_urls",
]

_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"

_CANDIDATES: Final = 3
"""The maximum number of authorization servers that are tried. Real lists have one entry; a hostile list may have
thousands."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class DiscoveryResult(FieldValue):
    """The result of discovery."""

    resource: str
    """The resource for which tokens are requested: the identifier from the server's metadata, or its canonical URL."""
    server: AuthorizationServerMetadata
    """The authorization server."""
    protected_resource: ProtectedResourceMetadata | None
    """The metadata of the protected resource; `None` if the server has no such document."""


def protected_resource_url(resource: Url) -> str:
    """Return the metadata URL of a resource: the well-known path, then its own path (RFC 9728 section 3.1)."""
    path = "" if resource.path == "/" else resource.path
    query = "" if resource.query is None else f"?{resource.query}"
    return f"{resource.origin}{_RESOURCE}{path}{query}"


def protected_resource_urls(server: Url) -> tuple[str, ...]:
    """Return the possible metadata URLs of an MCP server without a challenge: with its path, then at the root."""
    return tuple(dict.fromkeys((protected_resource_url(server), f"{server.origin}{_RESOURCE}")))


def authorization_server_urls(issuer: Url) -> tuple[str, ...]:
    """Return the possible metadata URLs of an authorization server, in the order of the specification.

    For an issuer with a path, the last URL is not in the specification but used by some servers: the well-known name of
    RFC 8414 after the path.
    """
    path = issuer.path.rstrip("/")
    inserted = [f"{issuer.origin}{_OAUTH}{path}", f"{issuer.origin}{_OPENID}{path}"]
    appended = [f"{issuer.origin}{path}{_OPENID}", f"{issuer.origin}{path}{_OAUTH}"]
    return tuple(dict.fromkeys([*inserted, *appended]))


def default_endpoints(server: Url) -> AuthorizationServerMetadata:
    """Return the default metadata for a server of 2025-03-26. Spec: basic/authorization#fallbacks (2025-03-26)"""
    return AuthorizationServerMetadata(
        issuer=server.origin,
        authorization_endpoint=f"{server.origin}/authorize",
        token_endpoint=f"{server.origin}/token",
        registration_endpoint=f"{server.origin}/register",
        response_types_supported=("code",),
        # Servers of that revision must support PKCE, but without metadata they cannot declare it.
        code_challenge_methods_supported=(METHOD,),
        notes=("the server has no metadata: default paths of 2025-03-26",),
    )


_T = TypeVar("_T")


def _networks(server: Url, authorization_server: str | None) -> frozenset[AddressClass]:
    """Return the classes of the two URLs that the user configured."""
    own = networks_of(server)
    if authorization_server is None:
        return own
    return own | networks_of(check_browser_url(authorization_server, what="authorization_server"))


class Discovery:
    """One discovery. `run` yields URLs to fetch and receives the responses.

    Args:
        server_url: The URL of the MCP server.
        networks: The classes of addresses that are allowed for URLs from peers. Default: those of the user's own URLs.
        authorization_server: The issuer to use instead of those that the server names: for servers that name no issuer,
            or spell it in another way than the authorization server itself.
        preferred: Issuers for which the client has credentials. They come first if the server names several.
        protocol_version: The value of `MCP-Protocol-Version`, which 2025-03-26 requires on these requests.
        legacy: Whether to try the rules of 2025-03-26, for a client that supports that revision.

    Raises:
        UnsafeUrl: Secrets must not be sent to the URL of the server or of the authorization server.
    """

    def __init__(
        self,
        server_url: str,
        *,
        networks: frozenset[AddressClass] | None = None,
        authorization_server: str | None = None,
        preferred: Sequence[str] = (),
        protocol_version: str | None = None,
        legacy: bool = True,
    ) -> None:
        self.server: Final = check_browser_url(server_url, what="server URL")
        """The URL of the MCP server."""
        self.networks: Final = _networks(self.server, authorization_server) if networks is None else networks
        """The classes of addresses that are allowed for URLs from peers."""
        self.attempts: Final[list[Attempt]] = []
        """All URLs tried so far, with the outcome of each."""
        self._given: Final = authorization_server
        self._preferred: Final = tuple(preferred)
        self._legacy: Final = legacy
        version: Pairs = () if protocol_version is None else (("MCP-Protocol-Version", protocol_version),)
        self._headers: Final = (("Accept", "application/json"), *version)
        self._mismatch: IssuerMismatch | None = None
        self._all_answered = True

    def note(self, url: str, why: str, verdict: str) -> None:
        """Record the outcome of a URL."""
        # The URL may be arbitrary text of a peer, and it is shown to users.
        self.attempts.append(Attempt(one_line(url), why, verdict))

    def run(self, challenge: Challenge | None = None) -> Running[DiscoveryResult]:
        """Run the whole discovery.

        Args:
            challenge: The challenge of the server, if there is one.

        Raises:
            DiscoveryFailed: No authorization server was found, or none of them is allowed.
            IssuerMismatch: All metadata that was found belongs to another issuer.
        """
        resource = yield from self._resource(challenge)
        issuers = self._issuers(resource)
        if resource is None and not issuers:
            return (yield from self._before_2025_06())
        named = canonical_resource(self.server) if resource is None else resource.resource
        for issuer in issuers[:_CANDIDATES]:
            metadata = yield from self._authorization_server(issuer, exact=True)
            if metadata is not None:
                return DiscoveryResult(resource=named, server=metadata, protected_resource=resource)
        tried = " or ".join(one_line(issuer) for issuer in issuers[:_CANDIDATES])
        raise self._not_found(f"no metadata of {tried} is usable")

    def _not_found(self, sentence: str) -> DiscoveryFailed | IssuerMismatch:
        if self._mismatch is not None:
            return self._mismatch
        return DiscoveryFailed(f"{sentence}; if the issuer is known, set authorization_server")

    def _issuers(self, resource: ProtectedResourceMetadata | None) -> list[str]:
        if self._given is not None:
            return [self._given]
        named = [] if resource is None else list(resource.authorization_servers or ())
        if resource is not None and not named:
            raise self._not_found(f"the metadata of {resource.resource} names no authorization server")
        return sorted(named, key=lambda issuer: issuer not in self._preferred)

    def _resource(self, challenge: Challenge | None) -> Running[ProtectedResourceMetadata | None]:
        """Return the metadata of the resource; `None` without metadata."""
        pending = list(protected_resource_urls(self.server))
        if challenge is not None and challenge.resource_metadata is not None:
            pending.insert(0, challenge.resource_metadata)
        seen: set[str] = set()
        doubt = ""
        while pending:
            url = pending.pop(0)
            if url in seen:
                continue
            seen.add(url)
            found = yield from self._fetch(url, "resource_metadata", read_protected_resource)
            if found is None:
                continue
            match = match_resource(found.resource, self.server)
            own = (
                ""
                if match is ResourceMatch.OTHER
                else protected_resource_url(parse_url(found.resource, what="resource"))
            )
            if match is ResourceMatch.SAME or own == url:
                self.note(url, "resource_metadata", f"metadata of {found.resource}")
                return found
            self.note(url, "resource_metadata", f"metadata of another resource, {found.resource[:200]!a}")
            doubt = f"the metadata at {url} describes {found.resource[:200]!a}, not {self.server.text}"
            # Only metadata at the own URL of a resource above the server count.
            pending = [own] if own else []
        if doubt:
            raise DiscoveryFailed(f"{doubt}: the client does not request tokens for another resource")
        return None

    def _authorization_server(self, issuer: str, *, exact: bool) -> Running[AuthorizationServerMetadata | None]:
        """Return the metadata of one authorization server; `None` if no metadata is usable."""
        try:
            base = check_issuer_url(issuer, networks=self.networks)
        except UnsafeUrl as unsafe:
            self.note(issuer, "issuer", unsafe.reason)
            return None
        for url in authorization_server_urls(base):
            metadata = yield from self._fetch(url, "authorization server metadata", read_authorization_server)
            if metadata is None:
                continue
            try:
                # Without metadata of the resource the spelling of the issuer is unknown: a root URL has two spellings.
                check_issuer(metadata, metadata.issuer if not exact and metadata.issuer == f"{issuer}/" else issuer)
            except IssuerMismatch as mismatch:
                self._mismatch = mismatch
                self.note(url, "authorization server metadata", mismatch.message)
            else:
                self.note(url, "authorization server metadata", f"metadata of {metadata.issuer}")
                return metadata
        return None

    def _before_2025_06(self) -> Running[DiscoveryResult]:
        """Treat the server as its own authorization server."""
        if not self._legacy or not self._all_answered:
            raise self._not_found(f"{self.server.text} has no metadata that names its authorization server")
        metadata = yield from self._authorization_server(self.server.origin, exact=False)
        if metadata is None and (self._mismatch is not None or not self._all_answered):
            raise self._not_found(f"no metadata of {self.server.origin} is usable")
        return DiscoveryResult(
            resource=canonical_resource(self.server),
            server=metadata or default_endpoints(self.server),
            protected_resource=None,
        )

    def _fetch(self, url: str, why: str, read: Callable[[JsonObject], _T]) -> Running[_T | None]:
        """Fetch and read a document; `None` if it is unusable. The reason was recorded."""
        try:
            check_peer_url(url, what=why, networks=self.networks)
        except UnsafeUrl as unsafe:
            self.note(url, why, unsafe.reason)
            return None
        answer = yield from requested(FetchJson(url=url, why=why, headers=self._headers))
        if isinstance(answer, Unreachable):
            self._all_answered = False
            self.note(url, why, f"no response: {one_line(answer.reason)}")
            return None
        if answer.status != 200:
            self._all_answered = self._all_answered and answer.status < 500 and answer.status != 429
            self.note(url, why, f"status {answer.status}")
            return None
        try:
            return read(read_json(answer.body))
        except InvalidValue as bad:
            self.note(url, why, bad.message)
            return None
