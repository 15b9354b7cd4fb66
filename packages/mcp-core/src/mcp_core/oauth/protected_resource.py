"""Protected resource: the challenges of its rejections, and its metadata document.

From a rejection a client must learn the next step: get a token (and where), get another token, request more scopes, or
repeat the request with a nonce. Therefore each rejection has the URL of the metadata and the scopes that the request
requires: all of them, not only the missing ones, so that the same request has the same challenge each time.

Spec: basic/authorization; RFC 6750 section 3.1, RFC 9728 section 5.1, RFC 9449 section 7.1
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from mcp_core.field_methods import FieldValue
from mcp_core.oauth.challenge import write_challenge
from mcp_core.oauth.discovery import protected_resource_url
from mcp_core.oauth.dpop import DPOP
from mcp_core.oauth.dpop_verification import NonceRequired
from mcp_core.oauth.metadata import ProtectedResourceMetadata
from mcp_core.oauth.scopes import OFFLINE_ACCESS
from mcp_core.oauth.urls import check_browser_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp_core.oauth.access_token import InvalidToken
    from mcp_core.oauth.dpop_verification import InvalidProof
    from mcp_core.oauth.steps import Pairs

__all__ = ["BEARER", "AccessDenial", "Credentials", "DpopUse", "ProtectedResource", "bearer_token", "check_scopes"]

DpopUse: TypeAlias = Literal["accepted", "required", "off"]
"""Whether tokens that are bound to a key with DPoP are accepted, required, or rejected."""

BEARER: Final = "Bearer"
"""The scheme for a token that is not bound to a key."""

_UNAVAILABLE_RETRY: Final = "5"
"""In seconds."""

_TOKEN: Final = re.compile(r"[!-~]+")
"""More characters than in RFC 6750 section 2.1, because authorization servers issue such tokens."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AccessDenial(FieldValue):
    """The rejection of a request that is not authorized."""

    status: int
    """The HTTP status."""
    message: str
    """The reason in one sentence, which the client receives too."""
    headers: Pairs = ()
    """Further headers: challenges, a nonce."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Credentials(FieldValue):
    """The contents of an Authorization header."""

    scheme: str
    """`Bearer` or `DPoP`."""
    token: str = attrs.field(repr=False)
    """The token."""


class ProtectedResource:
    """A protected resource.

    Args:
        resource: The identifier: the URL of the MCP endpoint, as known to clients.
        authorization_servers: The trusted issuers; at least one.
        scopes: The scopes that every request requires.
        dpop: Whether tokens that are bound to a key are accepted.
        algorithms: The algorithms of proofs that are verified.
        name: The name, shown to users.
        documentation: The URL of a page for developers.

    Raises:
        ValueError: There is no authorization server, or a scope is invalid.
        UnsafeUrl: Secrets must not be sent to the URL of the resource or of an issuer.
    """

    def __init__(
        self,
        resource: str,
        *,
        authorization_servers: Iterable[str],
        scopes: Iterable[str] = (),
        dpop: DpopUse = "accepted",
        algorithms: Sequence[str] = (),
        name: str | None = None,
        documentation: str | None = None,
    ) -> None:
        self.url: Final = check_browser_url(resource, what="resource")
        """The parsed identifier."""
        if self.url.fragment is not None:
            raise ValueError(f"the identifier of a resource must not have a fragment: {resource!a}")
        self.resource: Final = resource
        """The identifier."""
        self.authorization_servers: Final = tuple(authorization_servers)
        """The trusted issuers."""
        if not self.authorization_servers:
            raise ValueError("a protected resource requires the issuer of at least one authorization server")
        for issuer in self.authorization_servers:
            check_browser_url(issuer, what="authorization server")
        self.scopes: Final = tuple(dict.fromkeys(scope for each in scopes for scope in each.split()))
        """The scopes that every request requires."""
        check_scopes(self.scopes)
        self.dpop: Final = dpop
        """Whether tokens that are bound to a key are accepted."""
        self.metadata_url: Final = protected_resource_url(self.url)
        """The URL of the metadata document."""
        self._algorithms: Final = tuple(algorithms)
        self.metadata: Final = ProtectedResourceMetadata(
            resource=resource,
            authorization_servers=self.authorization_servers,
            scopes_supported=self.scopes or None,
            bearer_methods_supported=("header",),
            resource_name=name,
            resource_documentation=documentation,
            dpop_signing_alg_values_supported=None if dpop == "off" else self._algorithms,
            dpop_bound_access_tokens_required=dpop == "required",
        )
        """The metadata document."""

    @property
    def metadata_paths(self) -> tuple[str, ...]:
        """Paths at which the document is served, beginning with that of `metadata_url`."""
        own, root = (
            protected_resource_url(self.url),
            protected_resource_url(attrs.evolve(self.url, path="", query=None)),
        )
        paths = (each.removeprefix(self.url.origin).partition("?")[0] for each in (own, root))
        return tuple(dict.fromkeys(path.rstrip("/") for path in paths))

    @property
    def schemes(self) -> tuple[str, ...]:
        """The accepted schemes of the Authorization header."""
        return {"accepted": (BEARER, DPOP), "required": (DPOP,), "off": (BEARER,)}[self.dpop]

    # --- rejections ------------------------------------------------------------------------------------------------

    def token_missing(self) -> AccessDenial:
        """Reject a request without a token, with status 401."""
        return self._denied(401, "an access token is required", self.schemes, {}, self.scopes)

    def token_invalid(self, scheme: str, why: InvalidToken) -> AccessDenial:
        """Reject an invalid token, with status 401: malformed, for another resource, or expired.

        Args:
            scheme: The scheme of the request.
            why: The reason.
        """
        # A token that is bound to a key but was sent as Bearer must be sent with the other scheme.
        schemes = (scheme,) if scheme in self.schemes else self.schemes
        return self._denied(401, why.message, schemes, {"error": "invalid_token"}, self.scopes)

    def proof_invalid(self, why: InvalidProof) -> AccessDenial:
        """Reject an invalid proof, or a proof without the nonce, with status 401.

        Args:
            why: The reason.
        """
        if not isinstance(why, NonceRequired):
            return self._denied(401, why.message, (DPOP,), {"error": "invalid_dpop_proof"}, self.scopes)
        denial = self._denied(401, why.message, (DPOP,), {"error": "use_dpop_nonce"}, self.scopes)
        return attrs.evolve(denial, headers=(*denial.headers, ("dpop-nonce", why.nonce)))

    def request_invalid(self, why: str) -> AccessDenial:
        """Reject unreadable credentials, with status 400.

        Args:
            why: The reason.
        """
        return self._denied(400, why, self.schemes, {"error": "invalid_request"}, ())

    def scope_insufficient(self, scheme: str, needed: Iterable[str]) -> AccessDenial:
        """Reject a valid token with insufficient scope, with status 403.

        Args:
            scheme: The scheme of the request.
            needed: The scopes that the request requires in addition to those of every request.
        """
        scopes = tuple(dict.fromkeys((*self.scopes, *needed)))
        sentence = f"the access token has insufficient scope: {' '.join(scopes)} is required"
        return self._denied(403, sentence, (scheme,), {"error": "insufficient_scope"}, scopes)

    def unavailable(self) -> AccessDenial:
        """Reject a request because the token cannot be verified at present, with status 503."""
        return AccessDenial(
            status=503,
            message="access tokens cannot be verified at present: try again later",
            headers=(("retry-after", _UNAVAILABLE_RETRY),),
        )

    def _denied(
        self, status: int, message: str, schemes: Sequence[str], error: Mapping[str, str], scopes: Sequence[str]
    ) -> AccessDenial:
        parameters = dict(error)
        if error:
            parameters["error_description"] = _described(message)
        if scopes:
            parameters["scope"] = " ".join(scopes)
        parameters["resource_metadata"] = self.metadata_url
        challenges = [
            write_challenge(
                scheme, {**parameters, "algs": " ".join(self._algorithms)} if scheme == DPOP else parameters
            )
            for scheme in schemes
        ]
        return AccessDenial(
            status=status, message=message, headers=tuple(("www-authenticate", each) for each in challenges)
        )


def check_scopes(scopes: Iterable[str]) -> None:
    """Check the syntax of scopes when they are configured, before the first client requests them.

    Raises:
        ValueError: A scope is invalid, or has no meaning at a resource.
    """
    for scope in scopes:
        write_challenge(BEARER, {"scope": scope})
        if scope == OFFLINE_ACCESS:
            raise ValueError(
                f"scope {scope} concerns only a client and its authorization server: a resource must not require it"
            )


def _described(message: str) -> str:
    """Return a description as required by RFC 6750 section 3: without quotes and backslashes."""
    return message.replace("\\", "/").replace('"', "'")


def bearer_token(values: Sequence[str]) -> Credentials | None:
    """Return the token of a request.

    Args:
        values: The values of all `Authorization` headers.

    Returns:
        `None` without a header, or with another scheme than `Bearer` and `DPoP`.

    Raises:
        ValueError: There are several headers, or there is no token after the scheme. The message may be sent to the
            client.
    """
    if not values:
        return None
    if len(values) > 1:
        raise ValueError("the Authorization header is repeated")
    scheme, _, token = values[0].strip().partition(" ")
    known = next((each for each in (BEARER, DPOP) if each.lower() == scheme.lower()), None)
    if known is None:
        return None
    token = token.strip()
    if not _TOKEN.fullmatch(token):
        raise ValueError("the Authorization header has no access token after its scheme")
    return Credentials(scheme=known, token=token)
