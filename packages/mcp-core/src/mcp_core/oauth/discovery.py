"""From the URL of an MCP server to the metadata of its authorization server: which URLs, in which order.

*The resource.* The URL in the challenge, if there is one; else, or if there is nothing, the well-known URL with the path of
the server, then the one at the root. A document that names the server itself is taken. One that names a resource above it
is taken only from that resource's own well-known URL, which is asked then: otherwise whoever has a part of a host could
have tokens issued for the whole of it. One that names anything else ends the discovery.

*The authorization server.* Well-known URLs of the first issuer of the list, in the order of the specification; the first
document that is of this issuer, octet by octet, is taken. Without one the next issuer is asked, three at most.

*Before 2025-06-18* the server was its own authorization server, with metadata at the root of its origin or, without any,
default paths there. That is tried when the server has no metadata as a resource, and every question was answered: while
one was not, nothing follows from its failure.

Spec: basic/authorization#authorization-server-discovery of each revision
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from mcp_core.errors import Attempt, DiscoveryFailed, InvalidValue, IssuerMismatch, UnsafeUrl
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
    "Discovered",
    "Discovery",
    "authorization_server_urls",
    "default_endpoints",
    "protected_resource_url",
    "protected_resource_urls",
]

_RESOURCE: Final = "/.well-known/oauth-protected-resource"
_OAUTH: Final = "/.well-known/oauth-authorization-server"
_OPENID: Final = "/.well-known/openid-configuration"

_CANDIDATES: Final = 3
"""Authorization servers of one list that are asked. Real lists have one entry; a hostile one could have thousands."""


@attrs.frozen(kw_only=True)
class Discovered:
    """What was found."""

    resource: str
    """What access tokens are to be asked for: the identifier in the server's own words, else its canonical URL."""
    server: AuthorizationServerMetadata
    """The authorization server."""
    protected_resource: ProtectedResourceMetadata | None
    """What the server says of itself; `None` when it has no such document."""


def protected_resource_url(resource: Url) -> str:
    """Where the document of a resource is: the well-known path is put before its own. Spec: RFC 9728 section 3.1"""
    path = "" if resource.path == "/" else resource.path
    query = "" if resource.query is None else f"?{resource.query}"
    return f"{resource.origin}{_RESOURCE}{path}{query}"


def protected_resource_urls(server: Url) -> tuple[str, ...]:
    """Where the document of an MCP server may be, without a challenge: with its path, then at the root."""
    return tuple(dict.fromkeys((protected_resource_url(server), f"{server.origin}{_RESOURCE}")))


def authorization_server_urls(issuer: Url) -> tuple[str, ...]:
    """Where the metadata of an authorization server may be, in the order of the specification.

    With a path there is a last one that the specification does not know and some servers have: RFC 8414's name behind
    the path.
    """
    path = issuer.path.rstrip("/")
    inserted = [f"{issuer.origin}{_OAUTH}{path}", f"{issuer.origin}{_OPENID}{path}"]
    appended = [f"{issuer.origin}{path}{_OPENID}", f"{issuer.origin}{path}{_OAUTH}"]
    return tuple(dict.fromkeys([*inserted, *appended]))


def default_endpoints(server: Url) -> AuthorizationServerMetadata:
    """What holds for a server of 2025-03-26 without metadata. Spec: basic/authorization#fallbacks (2025-03-26)"""
    return AuthorizationServerMetadata(
        issuer=server.origin,
        authorization_endpoint=f"{server.origin}/authorize",
        token_endpoint=f"{server.origin}/token",
        registration_endpoint=f"{server.origin}/register",
        response_types_supported=("code",),
        # PKCE is required of every server of that revision; there is no place where it could say so.
        code_challenge_methods_supported=(METHOD,),
        notes=("the server has no metadata: default paths of 2025-03-26",),
    )


_T = TypeVar("_T")


def _networks(server: Url, authorization_server: str | None) -> frozenset[AddressClass]:
    """Those of the two URLs that are the user's own word."""
    own = networks_of(server)
    if authorization_server is None:
        return own
    return own | networks_of(check_browser_url(authorization_server, what="authorization_server"))


class Discovery:
    """One discovery: `run` hands out URLs and takes what is there.

    Args:
        server_url: The URL of the MCP server.
        networks: Classes of addresses that URLs from peers may lead to. Default: what the user's own URLs tell.
        authorization_server: The issuer to use in place of those that the server names: for servers that name none, or
            spell it in another way than the authorization server itself.
        preferred: Issuers that the client has credentials for; they go first where the server names several.
        protocol_version: Sent as `MCP-Protocol-Version`, which 2025-03-26 wants on these requests.
        legacy: Whether to try what 2025-03-26 had: for a client that speaks it.

    Raises:
        UnsafeUrl: The URL of the server, or of the authorization server, is none that secrets can be sent to.
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
        """The MCP server."""
        self.networks: Final = _networks(self.server, authorization_server) if networks is None else networks
        """Classes of addresses that URLs from peers may lead to."""
        self.attempts: Final[list[Attempt]] = []
        """Every URL that was tried so far, with what came of it."""
        self._given: Final = authorization_server
        self._preferred: Final = tuple(preferred)
        self._legacy: Final = legacy
        version: Pairs = () if protocol_version is None else (("MCP-Protocol-Version", protocol_version),)
        self._headers: Final = (("Accept", "application/json"), *version)
        self._mismatch: IssuerMismatch | None = None
        self._all_answered = True

    def note(self, url: str, why: str, verdict: str) -> None:
        """Writes down what came of a URL."""
        # The URL may be anything that a stranger wrote, and this is shown to people.
        self.attempts.append(Attempt(one_line(url), why, verdict))

    def run(self, challenge: Challenge | None = None) -> Running[Discovered]:
        """The whole discovery.

        Args:
            challenge: That of the server, if it gave one.

        Raises:
            DiscoveryFailed: There is no authorization server to be found, or none that may be used.
            IssuerMismatch: All that was found is of another issuer.
        """
        resource = yield from self._resource(challenge)
        issuers = self._issuers(resource)
        if resource is None and not issuers:
            return (yield from self._before_2025_06())
        named = canonical_resource(self.server) if resource is None else resource.resource
        for issuer in issuers[:_CANDIDATES]:
            metadata = yield from self._authorization_server(issuer, exact=True)
            if metadata is not None:
                return Discovered(resource=named, server=metadata, protected_resource=resource)
        asked = " or ".join(one_line(issuer) for issuer in issuers[:_CANDIDATES])
        raise self._not_found(f"no metadata of {asked} can be used")

    def _not_found(self, sentence: str) -> DiscoveryFailed | IssuerMismatch:
        if self._mismatch is not None:
            return self._mismatch
        return DiscoveryFailed(f"{sentence}; if it is known, the authorization_server can be set")

    def _issuers(self, resource: ProtectedResourceMetadata | None) -> list[str]:
        if self._given is not None:
            return [self._given]
        named = [] if resource is None else list(resource.authorization_servers or ())
        if resource is not None and not named:
            raise self._not_found(f"the metadata of {resource.resource} name no authorization server")
        return sorted(named, key=lambda issuer: issuer not in self._preferred)

    def _resource(self, challenge: Challenge | None) -> Running[ProtectedResourceMetadata | None]:
        """The document about the server; `None` when there is none."""
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
                self.note(url, "resource_metadata", f"describe {found.resource}")
                return found
            self.note(url, "resource_metadata", f"are about {found.resource[:200]!a}")
            doubt = f"the metadata at {url} are about {found.resource[:200]!a}, not about {self.server.text}"
            # A resource above the server has to say so itself.
            pending = [own] if own else []
        if doubt:
            raise DiscoveryFailed(f"{doubt}: tokens for another resource are not asked for")
        return None

    def _authorization_server(self, issuer: str, *, exact: bool) -> Running[AuthorizationServerMetadata | None]:
        """The metadata of one authorization server; `None` when there are none that can be used."""
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
                # Without metadata of the resource nobody said how the issuer is spelt: at the root there are two ways.
                check_issuer(metadata, metadata.issuer if not exact and metadata.issuer == f"{issuer}/" else issuer)
            except IssuerMismatch as mismatch:
                self._mismatch = mismatch
                self.note(url, "authorization server metadata", mismatch.message)
            else:
                self.note(url, "authorization server metadata", f"is of {metadata.issuer}")
                return metadata
        return None

    def _before_2025_06(self) -> Running[Discovered]:
        """The server as its own authorization server."""
        if not self._legacy or not self._all_answered:
            raise self._not_found(f"{self.server.text} has no metadata that name its authorization server")
        metadata = yield from self._authorization_server(self.server.origin, exact=False)
        if metadata is None and (self._mismatch is not None or not self._all_answered):
            raise self._not_found(f"no metadata of {self.server.origin} can be used")
        return Discovered(
            resource=canonical_resource(self.server),
            server=metadata or default_endpoints(self.server),
            protected_resource=None,
        )

    def _fetch(self, url: str, why: str, read: Callable[[JsonObject], _T]) -> Running[_T | None]:
        """What is at a URL; `None` for nothing of use, of which a verdict was noted."""
        try:
            check_peer_url(url, what=why, networks=self.networks)
        except UnsafeUrl as unsafe:
            self.note(url, why, unsafe.reason)
            return None
        answer = yield from requested(FetchJson(url=url, why=why, headers=self._headers))
        if isinstance(answer, Unreachable):
            self._all_answered = False
            self.note(url, why, f"no answer: {one_line(answer.reason)}")
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
