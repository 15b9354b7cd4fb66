"""The metadata documents of the servers, changed by quirks, and the defects in them that must stop a client."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import attrs

from mcp_conformance.oauth_testbed.http_messages import origin_of
from mcp_conformance.oauth_testbed.quirks import Absent, Part, Well

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mcp_conformance.oauth_testbed.quirks import Changes, Quirks
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "Flaw",
    "TestbedUrls",
    "changed",
    "flaws",
    "is_among",
    "is_offered",
    "is_published",
    "listed",
    "resource_metadata",
    "server_metadata",
    "usable_resources",
]

_PRM = "/.well-known/oauth-protected-resource"
_METHODS = ("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
_ALGORITHMS = ("ES256", "RS256")


@attrs.frozen(kw_only=True)
class TestbedUrls:
    """The URLs of all servers, and the values of the placeholders in `Quirks`."""

    resource: str
    """The URL of the MCP server."""
    server: str
    """The origin of the authorization server."""
    issuer: str
    """The issuer of the authorization server."""
    other: str
    """The issuer of another authorization server: its origin, or a path at the origin of the first one."""
    evil: str
    """The origin of an attacker, which no request should reach."""
    prm: str
    """The URL of the resource metadata."""

    @classmethod
    def of(cls, quirks: Quirks, *, resource: str, server: str, other: str, evil: str) -> TestbedUrls:
        """Return the URLs for these quirks."""
        path = urlsplit(resource).path.rstrip("/")
        wells = {"path": f"{_PRM}{path}", "root": _PRM, "elsewhere": "/meta/resource.json", "nowhere": f"{_PRM}{path}"}
        prm = origin_of(resource) + wells[quirks.resource_metadata_at]
        own = origin_of(resource) if quirks.same_origin else server
        bare = cls(resource=resource, server=own, issuer="", other=other, evil=evil, prm=prm)
        return attrs.evolve(bare, issuer=bare.fill(quirks.issuer))

    @property
    def origin(self) -> str:
        """The origin of the MCP server."""
        return origin_of(self.resource)

    @property
    def endpoint(self) -> str:
        """The URL of the MCP server without its query."""
        return self.resource.partition("?")[0]

    @property
    def prm_candidates(self) -> tuple[str, ...]:
        """The well-known URLs of the resource metadata, in the order in which a client tries them."""
        path = urlsplit(self.resource).path.rstrip("/")
        return tuple(dict.fromkeys((f"{self.origin}{_PRM}{path}", f"{self.origin}{_PRM}")))

    @property
    def shouted(self) -> str:
        """The URL of the MCP server with its scheme and host in upper case, which is the same resource."""
        return self.origin.upper() + self.resource.removeprefix(self.origin)

    @property
    def shouted_issuer(self) -> str:
        """The issuer with its scheme and host in upper case, which is another issuer."""
        return origin_of(self.issuer).upper() + self.issuer.removeprefix(origin_of(self.issuer))

    def fill(self, text: str) -> str:
        """Replace the placeholders in a string."""
        for name in ("resource", "server", "issuer", "other", "evil", "prm", "origin", "shouted", "shouted_issuer"):
            value: str = getattr(self, name)
            text = text.replace(f"{{{name}}}", value)
        return text

    def filled(self, value: JsonValue) -> JsonValue:
        """Replace the placeholders in all strings of a value."""
        if isinstance(value, str):
            return self.fill(value)
        if isinstance(value, list):
            return [self.filled(each) for each in value]
        if isinstance(value, dict):
            return {name: self.filled(each) for name, each in value.items()}
        return value


def changed(document: JsonObject, changes: Changes, places: TestbedUrls) -> JsonObject:
    """Return a document with changes."""
    document = dict(document)
    for name, value in changes.items():
        if isinstance(value, Absent):
            document.pop(name, None)
        else:
            document[name] = places.filled(value)
    return document


def resource_metadata(quirks: Quirks, places: TestbedUrls) -> JsonObject:
    """Return the resource metadata of the MCP server (RFC 9728)."""
    document: JsonObject = {
        "resource": places.resource,
        "authorization_servers": [places.issuer],
        "bearer_methods_supported": ["header"],
        "scopes_supported": [*quirks.scopes, *(scope for scopes in quirks.scopes_of.values() for scope in scopes)],
    }
    if quirks.dpop != "off":
        document["dpop_signing_alg_values_supported"] = ["ES256"]
        document["dpop_bound_access_tokens_required"] = quirks.dpop == "required"
    return changed(document, quirks.resource_metadata, places)


def server_metadata(quirks: Quirks, places: TestbedUrls) -> JsonObject:
    """Return the authorization server metadata (RFC 8414)."""
    document: JsonObject = {
        "issuer": places.issuer,
        "authorization_endpoint": f"{places.server}/authorize",
        "token_endpoint": f"{places.server}/token",
        "revocation_endpoint": f"{places.server}/revoke",
        "jwks_uri": f"{places.server}/jwks",
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": [
            "authorization_code",
            "refresh_token",
            "client_credentials",
            "urn:ietf:params:oauth:grant-type:jwt-bearer",
        ],
        "token_endpoint_auth_methods_supported": [*_METHODS],
        "token_endpoint_auth_signing_alg_values_supported": [*_ALGORITHMS],
        "revocation_endpoint_auth_methods_supported": [*_METHODS],
        "revocation_endpoint_auth_signing_alg_values_supported": [*_ALGORITHMS],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "authorization_grant_profiles_supported": ["urn:ietf:params:oauth:grant-profile:id-jag"],
    }
    if quirks.registers:
        document["registration_endpoint"] = f"{places.server}/register"
    if quirks.documents:
        document["client_id_metadata_document_supported"] = True
    if quirks.dpop != "off":
        document["dpop_signing_alg_values_supported"] = ["ES256"]
    return changed(document, quirks.server_metadata, places)


def listed(document: JsonObject, name: str) -> tuple[str, ...]:
    """Return the strings of a list in a document. Some servers write one string with spaces instead."""
    value = document.get(name)
    if isinstance(value, str):
        return tuple(value.split())
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


@attrs.frozen
class Flaw:
    """A defect in a document that must stop a client."""

    requirement: str
    """The id of the requirement."""
    sentence: str
    """A description of the defect."""
    parts: frozenset[Part]
    """The parts that the client must not request."""


_ALL = frozenset({Part.REGISTRATION, Part.AUTHORIZATION, Part.TOKEN})
_WEB = frozenset({Part.AUTHORIZATION})


def usable_resources(quirks: Quirks, places: TestbedUrls) -> frozenset[str]:
    """Return the resources that a client may request: the server's URL and the name in its metadata, without a slash.

    The URL may lack its query, which a resource should not have (RFC 8707, section 2).
    """
    named = resource_metadata(quirks, places).get("resource")
    all_names = {places.resource, places.endpoint} | ({named} if isinstance(named, str) else set())
    return frozenset(all_names | {name.removesuffix("/") for name in all_names})


def is_among(resource: str, names: Collection[str]) -> bool:
    """Return whether a resource is among these. Other rules concern a trailing slash and a fragment."""
    return resource.partition("#")[0].removesuffix("/") in names


def _is_above(resource: JsonValue, places: TestbedUrls) -> bool:
    """Return whether the resource in the metadata is the server, or a parent of its path."""
    if not isinstance(resource, str) or origin_of(resource) != places.origin:
        return False
    above = [part for part in urlsplit(resource).path.split("/") if part]
    path = [part for part in urlsplit(places.resource).path.split("/") if part]
    return path[: len(above)] == above


def _is_covered(quirks: Quirks, part: Part) -> bool:
    """Return whether a reply always replaces the right response."""
    reply = quirks.replies.get(part)
    return reply is not None and reply.status is not None and reply.times is None


def is_published(quirks: Quirks) -> bool:
    """Return whether the resource metadata can be found and parsed."""
    if quirks.resource_metadata_at == "elsewhere" and not any("{prm}" in line for line in quirks.challenge):
        return False
    return quirks.resource_metadata_at != "nowhere" and not _is_covered(quirks, Part.RESOURCE_METADATA)


def is_offered(quirks: Quirks, places: TestbedUrls, configured_issuers: Sequence[str] = ()) -> bool:
    """Return whether a client finds metadata of the authorization server. The arguments are those of `flaws`."""
    known = is_published(quirks) or bool(configured_issuers)
    there = bool(quirks.server_metadata_at) and not _is_covered(quirks, Part.SERVER_METADATA)
    return there and (known or places.issuer.removesuffix("/") == places.origin)


def flaws(quirks: Quirks, places: TestbedUrls, configured_issuers: Sequence[str] = ()) -> list[Flaw]:
    """Return all defects in the documents that must stop a client.

    Args:
        quirks: The deviations of the servers.
        places: The URLs of all servers.
        configured_issuers: Issuers that the user configured in the client, which may trust them despite the resource metadata.
    """
    found: list[Flaw] = []
    resource, server = resource_metadata(quirks, places), server_metadata(quirks, places)
    published = is_published(quirks)
    if published and "resource" in resource and not _is_above(resource["resource"], places):
        found.append(Flaw("auth.prm-resource-mismatch-rejected", "the metadata are those of another resource", _ALL))
    named = listed(resource, "authorization_servers") if published else ()
    # Without resource metadata a client tries the root of the origin, and may continue without valid metadata.
    expected = (
        (*named, *configured_issuers)
        if published or configured_issuers
        else (places.origin, f"{places.origin}/", "", None)
    )
    if is_offered(quirks, places, configured_issuers) and server.get("issuer") not in expected:
        found.append(Flaw("auth.as-metadata-mismatch-not-used", "the metadata are those of another issuer", _ALL))
    methods = server.get("code_challenge_methods_supported")
    if (
        is_offered(quirks, places, configured_issuers)
        and server.get("issuer")
        and not (isinstance(methods, list) and "S256" in methods)
    ):
        openid = Well.OAUTH not in quirks.server_metadata_at
        requirement = "auth.pkce-refuse-oidc" if openid else "auth.pkce-refuse-rfc8414"
        found.append(Flaw(requirement, "the metadata do not list S256 as a PKCE method", _WEB))
    return found
