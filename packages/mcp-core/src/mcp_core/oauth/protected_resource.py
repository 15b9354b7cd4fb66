"""What a protected resource tells: which challenge goes with which refusal, and the document that describes it.

A client has to find out from a refusal what to do next: get a token (and where), get another one, ask for more scopes,
repeat the request with a nonce. So each refusal has the URL of the metadata, and the scopes that the request needs: all of
them, not only those that are missing, so that the answer to one question is the same each time.

Spec: basic/authorization; RFC 6750 section 3.1, RFC 9728 section 5.1, RFC 9449 section 7.1
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import attrs

from mcp_core.oauth.challenge import write_challenge
from mcp_core.oauth.discovery import protected_resource_url
from mcp_core.oauth.dpop import DPOP
from mcp_core.oauth.dpop_verification import NonceWanted
from mcp_core.oauth.metadata import ProtectedResourceMetadata
from mcp_core.oauth.scopes import OFFLINE_ACCESS
from mcp_core.oauth.urls import check_browser_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcp_core.oauth.access_token import InvalidToken
    from mcp_core.oauth.dpop_verification import InvalidProof
    from mcp_core.oauth.steps import Pairs

__all__ = ["BEARER", "Credentials", "Denial", "DpopUse", "ProtectedResource", "bearer_token", "check_scopes"]

DpopUse: TypeAlias = Literal["accepted", "required", "off"]
"""Whether tokens that are bound to a key by DPoP are taken; whether only those are."""

BEARER: Final = "Bearer"
"""The scheme by which a token is sent that is bound to no key."""

_UNAVAILABLE_RETRY: Final = "5"
"""Seconds."""

_TOKEN: Final = re.compile(r"[!-~]+")
"""More than RFC 6750 section 2.1 has, for what authorization servers make."""


@attrs.frozen(kw_only=True)
class Denial:
    """A request that is not let in, and what its client is told."""

    status: int
    """The HTTP status."""
    message: str
    """Why, in one sentence, which the client gets too."""
    headers: Pairs = ()
    """The headers that say more: challenges, a nonce."""


@attrs.frozen(kw_only=True)
class Credentials:
    """What an Authorization header has."""

    scheme: str
    """`Bearer` or `DPoP`."""
    token: str = attrs.field(repr=False)
    """The token."""


class ProtectedResource:
    """One protected resource.

    Args:
        resource: Its identifier: the URL of the MCP endpoint, as clients know it.
        authorization_servers: The issuers that it trusts; at least one.
        scopes: What every request needs.
        dpop: Whether tokens that are bound to a key are taken.
        algorithms: Those of proofs that are verified.
        name: For people.
        documentation: A page for developers.

    Raises:
        ValueError: There is no authorization server, or a scope is none.
        UnsafeUrl: The identifier or an issuer is no URL that secrets can be sent to.
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
        """Its identifier, taken apart."""
        if self.url.fragment is not None:
            raise ValueError(f"the identifier of a resource has no fragment: {resource!a}")
        self.resource: Final = resource
        """Its identifier."""
        self.authorization_servers: Final = tuple(authorization_servers)
        """The issuers that it trusts."""
        if not self.authorization_servers:
            raise ValueError("a protected resource needs the issuer of at least one authorization server")
        for issuer in self.authorization_servers:
            check_browser_url(issuer, what="authorization server")
        self.scopes: Final = tuple(dict.fromkeys(scope for each in scopes for scope in each.split()))
        """What every request needs."""
        check_scopes(self.scopes)
        self.dpop: Final = dpop
        """Whether tokens that are bound to a key are taken."""
        self.metadata_url: Final = protected_resource_url(self.url)
        """Where its document is to be found."""
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
        """The document that describes it."""

    @property
    def metadata_paths(self) -> tuple[str, ...]:
        """Paths at which the document is served, the first being that of `metadata_url`."""
        own, root = (
            protected_resource_url(self.url),
            protected_resource_url(attrs.evolve(self.url, path="", query=None)),
        )
        paths = (each.removeprefix(self.url.origin).partition("?")[0] for each in (own, root))
        return tuple(dict.fromkeys(path.rstrip("/") for path in paths))

    @property
    def schemes(self) -> tuple[str, ...]:
        """The schemes of the Authorization header that are taken."""
        return {"accepted": (BEARER, DPOP), "required": (DPOP,), "off": (BEARER,)}[self.dpop]

    # --- refusals --------------------------------------------------------------------------------------------------

    def token_missing(self) -> Denial:
        """401: there is no token."""
        return self._denied(401, "an access token is needed", self.schemes, {}, self.scopes)

    def token_invalid(self, scheme: str, why: InvalidToken) -> Denial:
        """401: the token is none, not for us, or has ended.

        Args:
            scheme: By which it came.
            why: What is wrong.
        """
        # One that was bound to a key, and came without it, has to be sent by the other scheme.
        schemes = (scheme,) if scheme in self.schemes else self.schemes
        return self._denied(401, why.message, schemes, {"error": "invalid_token"}, self.scopes)

    def proof_invalid(self, why: InvalidProof) -> Denial:
        """401: the proof proves nothing, or lacks the nonce.

        Args:
            why: What is wrong.
        """
        if not isinstance(why, NonceWanted):
            return self._denied(401, why.message, (DPOP,), {"error": "invalid_dpop_proof"}, self.scopes)
        denial = self._denied(401, why.message, (DPOP,), {"error": "use_dpop_nonce"}, self.scopes)
        return attrs.evolve(denial, headers=(*denial.headers, ("dpop-nonce", why.nonce)))

    def request_invalid(self, why: str) -> Denial:
        """400: the request has credentials in a way that nobody can read.

        Args:
            why: What is wrong.
        """
        return self._denied(400, why, self.schemes, {"error": "invalid_request"}, ())

    def scope_insufficient(self, scheme: str, needed: Iterable[str]) -> Denial:
        """403: the token is good, and does not suffice.

        Args:
            scheme: By which it came.
            needed: The scopes that the request needs besides those of every request.
        """
        scopes = tuple(dict.fromkeys((*self.scopes, *needed)))
        sentence = f"the access token does not suffice: {' '.join(scopes)} is needed"
        return self._denied(403, sentence, (scheme,), {"error": "insufficient_scope"}, scopes)

    def unavailable(self) -> Denial:
        """503: nobody can say at present whether the token is good."""
        return Denial(
            status=503,
            message="access tokens cannot be checked at present",
            headers=(("retry-after", _UNAVAILABLE_RETRY),),
        )

    def _denied(
        self, status: int, message: str, schemes: Sequence[str], error: Mapping[str, str], scopes: Sequence[str]
    ) -> Denial:
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
        return Denial(status=status, message=message, headers=tuple(("www-authenticate", each) for each in challenges))


def check_scopes(scopes: Iterable[str]) -> None:
    """Makes sure that scopes can be asked for: a mistake has to be found before the first client needs them.

    Raises:
        ValueError: One is no scope, or is of no use at a resource.
    """
    for scope in scopes:
        write_challenge(BEARER, {"scope": scope})
        if scope == OFFLINE_ACCESS:
            raise ValueError(
                f"scope {scope} is between a client and its authorization server: no request needs it here"
            )


def _described(message: str) -> str:
    """As RFC 6750 section 3 wants it: without quotes and backslashes."""
    return message.replace("\\", "/").replace('"', "'")


def bearer_token(values: Sequence[str]) -> Credentials | None:
    """The token of a request.

    Args:
        values: The values of all `Authorization` headers.

    Returns:
        `None` when there is none, or one of another scheme than `Bearer` and `DPoP`.

    Raises:
        ValueError: There are several, or there is no token behind the scheme. The sentence can be told.
    """
    if not values:
        return None
    if len(values) > 1:
        raise ValueError("the Authorization header came more than once")
    scheme, _, token = values[0].strip().partition(" ")
    known = next((each for each in (BEARER, DPOP) if each.lower() == scheme.lower()), None)
    if known is None:
        return None
    token = token.strip()
    if not _TOKEN.fullmatch(token):
        raise ValueError("the Authorization header has no access token behind its scheme")
    return Credentials(scheme=known, token=token)
