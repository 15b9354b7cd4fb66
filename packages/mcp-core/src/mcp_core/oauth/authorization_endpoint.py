"""Authorization request and response: the URL for the user's browser, and the check of the redirect.

Any web page can send a browser to the redirect URI. Therefore the check begins with `state`: a response with another
`state` is ignored. The second check is `iss`: a response in the name of another authorization server ends the flow
before any part of it is used or shown. Only then does the check distinguish a code from an error.

Spec: basic/authorization; RFC 6749 section 4.1, RFC 7636 section 4.3, RFC 8707 section 2.1, RFC 9207 section 2.4
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import attrs

from mcp_core.errors import AuthorizationRefused, DiscoveryFailed, IssuerMismatch
from mcp_core.field_methods import FieldValue
from mcp_core.oauth.documents import one_line
from mcp_core.oauth.jws import base64url
from mcp_core.oauth.pkce import METHOD, new_pkce
from mcp_core.oauth.urls import check_peer_url, with_query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp_core.oauth.addresses import AddressClass
    from mcp_core.oauth.metadata import AuthorizationServerMetadata
    from mcp_core.oauth.pkce import Pkce

__all__ = ["AuthorizationRequest", "new_authorization", "read_redirect"]

_STATE_BYTES: Final = 32
_FIELDS: Final = 100
_LONGEST: Final = 64 * 1024
_OURS: Final = frozenset({"code", "state", "iss", "error", "error_description", "error_uri"})


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AuthorizationRequest(FieldValue):
    """A pending authorization request with its secrets, created before the browser is opened."""

    url: str = attrs.field(repr=False)
    """The URL for the browser."""
    state: str = attrs.field(repr=False)
    """The value that identifies the response."""
    pkce: Pkce
    """The PKCE pair, whose verifier is sent to the token endpoint."""
    issuer: str
    """The authorization server of the request."""
    iss_required: bool
    """Whether the authorization server declares that all its responses have `iss`."""
    redirect_uri: str
    """The URI to which the browser is redirected."""

    def code(self, fields: Mapping[str, Sequence[str]]) -> str | None:
        """Return the authorization code in a response.

        Args:
            fields: The result of `read_redirect`.

        Returns:
            `None` if the response belongs to another request: keep waiting.

        Raises:
            IssuerMismatch: The response is not from the authorization server of the request.
            AuthorizationRefused: The response is an error, or has no code.
        """
        state = fields.get("state", ())
        if len(state) != 1 or not hmac.compare_digest(state[0].encode(), self.state.encode()):
            return None
        self._check_issuer(fields.get("iss", ()))
        repeated = sorted(name for name in _OURS if len(fields.get(name, ())) > 1)
        if repeated:
            raise AuthorizationRefused(f"the response of {self.issuer} repeats {', '.join(repeated)}")
        error = "".join(fields.get("error", ()))
        code = "".join(fields.get("code", ()))
        if error or not code:
            raise _refused(self.issuer, error, "".join(fields.get("error_description", ())))
        return code

    def _check_issuer(self, given: Sequence[str]) -> None:
        if not given and not self.iss_required:
            return
        received = given[0] if given else None
        if list(given) != [self.issuer]:
            named = "no issuer, though the metadata requires it" if received is None else f"{received[:200]!a}"
            sentence = f"the authorization response names {named}; expected: {self.issuer}"
            raise IssuerMismatch(sentence, expected=self.issuer, received=received)


def _refused(issuer: str, error: str, description: str) -> AuthorizationRefused:
    said, detail = one_line(error), one_line(description)
    if not said:
        return AuthorizationRefused(f"the redirect from {issuer} has neither a code nor an error")
    sentence = f"{issuer} denied the authorization: {said}" + (f" ({detail})" if detail else "")
    return AuthorizationRefused(sentence, error=said, description=detail or None)


def new_authorization(
    server: AuthorizationServerMetadata,
    *,
    client_id: str,
    redirect_uri: str,
    resource: str,
    scopes: Sequence[str],
    key_id: str | None = None,
    networks: frozenset[AddressClass],
    random_bytes: Callable[[int], bytes],
) -> AuthorizationRequest:
    """Create an authorization request.

    Args:
        server: The authorization server, whose issuer was validated.
        client_id: The id of the client.
        redirect_uri: The URI to which the browser is redirected.
        resource: The resource for which the token is requested.
        scopes: The requested scopes; if empty, the request has no `scope`.
        key_id: The thumbprint of the key to which the code is bound (RFC 9449 section 10).
        networks: The allowed classes of addresses; see `mcp_core.oauth.urls.check_peer_url`.
        random_bytes: Returns the given number of unpredictable bytes.

    Raises:
        DiscoveryFailed: There is no authorization endpoint.
        UnsafeUrl: The browser must not be sent to the authorization endpoint.
    """
    if server.authorization_endpoint is None:
        raise DiscoveryFailed(f"the metadata of {server.issuer} has no authorization_endpoint")
    endpoint = check_peer_url(server.authorization_endpoint, what="authorization_endpoint", networks=networks)
    state, pkce = base64url(random_bytes(_STATE_BYTES)), new_pkce(random_bytes)
    parameters = [
        ("response_type", "code"),
        ("client_id", client_id),
        ("redirect_uri", redirect_uri),
        ("code_challenge", pkce.challenge),
        ("code_challenge_method", METHOD),
        ("state", state),
        ("resource", resource),
    ]
    if scopes:
        parameters.append(("scope", " ".join(scopes)))
    if key_id is not None:
        parameters.append(("dpop_jkt", key_id))
    return AuthorizationRequest(
        url=with_query(endpoint, parameters, what="authorization_endpoint"),
        state=state,
        pkce=pkce,
        issuer=server.issuer,
        iss_required=server.authorization_response_iss_parameter_supported,
        redirect_uri=redirect_uri,
    )


def read_redirect(text: str) -> dict[str, list[str]]:
    """Read the fields of a redirect. Never raises: an unreadable redirect has no fields.

    Args:
        text: The whole URL, as pasted by a user, or the query of the request to the redirect URI.

    Returns:
        The values of each field.
    """
    text = text.strip()
    if len(text) > _LONGEST:
        return {}
    before, mark, behind = text.partition("?")
    if mark and "=" not in before:
        text = behind.partition("#")[0]
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS)
    except ValueError:
        return {}
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return fields
