"""Messages of the endpoints: strict parsing of forms, and the format of responses and errors.

Spec: RFC 6749 sections 3.1, 3.2, 4.1.2.1, 5.2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import attrs
from authlib.oauth2 import OAuth2Error

from mcp_core.field_methods import FieldValue
from mcp_core.oauth.urls import parse_url, with_query

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.steps import Pairs

__all__ = ["NO_STORE", "Answer", "OAuthRequestRejected", "answer_url", "described", "read_form", "refusal"]

NO_STORE: Final[Pairs] = (("Cache-Control", "no-store"), ("Pragma", "no-cache"))
"""The header fields of responses that contain a token or state whether a token is valid."""

_FIELDS: Final = 64

_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "access_denied": "The request was denied.",
    "invalid_client": "The client is unknown, or did not use the authentication method registered for it.",
    "invalid_grant": "The code or token is unknown, expired, revoked, already used, or was issued to another client.",
    "invalid_request": "A parameter is missing, repeated or invalid.",
    "invalid_scope": "A scope is unknown, or not allowed for this client.",
    "invalid_target": "This server does not issue tokens for the resource.",
    "login_required": "The user has to log in, but the request does not allow interaction with the user.",
    "server_error": "The request could not be processed.",
    "temporarily_unavailable": "Too many requests. Try again later.",
    "unauthorized_client": "The client may not use this grant type or response type.",
    "unsupported_grant_type": "The grant type is not supported. The metadata lists the supported ones.",
    "unsupported_response_type": "The response type is not supported. The metadata lists the supported ones.",
    "unsupported_token_type": "The type of the token is not supported.",
    "invalid_dpop_proof": "The DPoP proof is missing, invalid or already used.",
    "use_dpop_nonce": "The DPoP proof must contain the nonce of this response.",
}
"""The descriptions of errors without a more specific one. They contain nothing from the request."""


class OAuthRequestRejected(OAuth2Error):
    """The rejection of a request, with a description of its own.

    Args:
        error: The OAuth error code.
        sentence: The description, if it is more specific than that of the code.
        redirect_uri: The redirect URI to which the browser may carry the error.
    """

    def __init__(self, error: str, sentence: str | None = None, *, redirect_uri: str | None = None) -> None:
        # authlib's check of the characters is skipped: the description may quote a URL, and is written only where any
        # text is valid.
        super().__init__(error=error, redirect_uri=redirect_uri)
        self.code: str = error
        """The OAuth error code."""
        self.sentence: str = sentence or described(error)
        """The description of the error."""

    @classmethod
    def of(cls, error: OAuth2Error) -> OAuthRequestRejected:
        """Return an error of authlib with this module's description: some of authlib's quote the request."""
        return error if isinstance(error, cls) else cls(str(error.error), redirect_uri=error.redirect_uri)


def described(error: str) -> str:
    """Return the description of an error code."""
    return _DESCRIPTIONS.get(error, "The request was rejected.")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Answer(FieldValue):
    """The response of an endpoint."""

    status: int
    """The HTTP status."""
    body: JsonObject | None = None
    """The JSON body; `None`: no body."""
    headers: Pairs = ()
    """Header fields in addition to those of all responses."""


def refusal(error: OAuth2Error, *, basic: bool) -> Answer:
    """Return the response that rejects a request.

    Args:
        error: The error.
        basic: Whether the client tried to authenticate with the Authorization header.
    """
    refused = OAuthRequestRejected.of(error)
    unauthorized = refused.code == "invalid_client"
    challenge = (("WWW-Authenticate", 'Basic realm="token", charset="UTF-8"'),) if unauthorized and basic else ()
    return Answer(
        status=401 if unauthorized else 400,
        body={"error": refused.code, "error_description": refused.sentence},
        headers=(*NO_STORE, *challenge),
    )


def read_form(text: str) -> tuple[dict[str, str], frozenset[str]]:
    """Parse a form or a query.

    Returns:
        The parameters, and the names of repeated parameters. Empty parameters count as absent.

    Raises:
        Refused: The text is not a valid form.
    """
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_FIELDS)
    except ValueError:
        raise OAuthRequestRejected("invalid_request", "The parameters cannot be parsed.") from None
    parameters: dict[str, str] = {}
    repeated: set[str] = set()
    for name, value in pairs:
        if name in parameters:
            repeated.add(name)
        parameters[name] = value
    return {name: value for name, value in parameters.items() if value}, frozenset(repeated)


def answer_url(redirect_uri: str, parameters: Mapping[str, str | None], *, issuer: str) -> str:
    """Return the URL by which a browser carries a response to the client, with `iss`. Spec: RFC 9207 section 2"""
    given = [(name, value) for name, value in parameters.items() if value is not None]
    return with_query(parse_url(redirect_uri, what="redirect URI"), [*given, ("iss", issuer)], what="redirect URI")
