"""What arrives at the endpoints, and what leaves them: forms read strictly, answers and errors in one form.

Spec: RFC 6749 sections 3.1, 3.2, 4.1.2.1, 5.2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

import attrs
from authlib.oauth2 import OAuth2Error

from mcp_core.oauth.urls import parse_url, with_query

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.steps import Pairs

__all__ = ["NO_STORE", "Answer", "Refused", "answer_url", "described", "read_form", "refusal"]

NO_STORE: Final[Pairs] = (("Cache-Control", "no-store"), ("Pragma", "no-cache"))
"""For everything that holds a token, or says whether one is good."""

_FIELDS: Final = 64

_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "access_denied": "The request was denied.",
    "invalid_client": "The client is unknown, or did not authenticate in the way that is registered for it.",
    "invalid_grant": "What was presented is unknown, expired, revoked, used already, or was issued to another client.",
    "invalid_request": "The request lacks something, or has it twice, or in a form that is not understood.",
    "invalid_scope": "A scope is unknown, or may not be asked for here.",
    "invalid_target": "The resource is not one that tokens are issued for here.",
    "login_required": "A person has to log in, and the request says that none may be asked.",
    "server_error": "The request could not be dealt with.",
    "temporarily_unavailable": "There are too many requests. Try again later.",
    "unauthorized_client": "The client may not use this grant or response type.",
    "unsupported_grant_type": "The grant type is none of those that the metadata list.",
    "unsupported_response_type": "The response type is none of those that the metadata list.",
    "unsupported_token_type": "The kind of token is not known here.",
    "invalid_dpop_proof": "The DPoP proof is missing, is not valid, or was used already.",
    "use_dpop_nonce": "The DPoP proof needs the nonce of this answer.",
}
"""What is said of an error when whoever found it says nothing better. Nothing of the request is in it."""


class Refused(OAuth2Error):
    """A request is refused, with words of our own.

    Args:
        error: The code.
        sentence: Why, where more can be said than the code does.
        redirect_uri: Where the browser may bring it.
    """

    def __init__(self, error: str, sentence: str | None = None, *, redirect_uri: str | None = None) -> None:
        # Not by authlib's own check: what is said may quote a URL, and is written where all of it may stand.
        super().__init__(error=error, redirect_uri=redirect_uri)
        self.code: str = error
        """The code."""
        self.sentence: str = sentence or described(error)
        """Why."""

    @classmethod
    def of(cls, error: OAuth2Error) -> Refused:
        """One of authlib's, in our words: some of its own quote the request."""
        return error if isinstance(error, cls) else cls(str(error.error), redirect_uri=error.redirect_uri)


def described(error: str) -> str:
    """A sentence on an error."""
    return _DESCRIPTIONS.get(error, "The request is refused.")


@attrs.frozen(kw_only=True)
class Answer:
    """What an endpoint answers."""

    status: int
    """The status."""
    body: JsonObject | None = None
    """JSON; `None`: nothing."""
    headers: Pairs = ()
    """Besides those of all answers."""


def refusal(error: OAuth2Error, *, basic: bool) -> Answer:
    """The answer to a request that is refused.

    Args:
        error: Why.
        basic: The client tried to authenticate by the Authorization header.
    """
    refused = Refused.of(error)
    unauthorized = refused.code == "invalid_client"
    challenge = (("WWW-Authenticate", 'Basic realm="token", charset="UTF-8"'),) if unauthorized and basic else ()
    return Answer(
        status=401 if unauthorized else 400,
        body={"error": refused.code, "error_description": refused.sentence},
        headers=(*NO_STORE, *challenge),
    )


def read_form(text: str) -> tuple[dict[str, str], frozenset[str]]:
    """Reads a form or a query.

    Returns:
        The parameters, and the names of those that came more than once. Empty ones count as absent.

    Raises:
        Refused: It is none.
    """
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_FIELDS)
    except ValueError:
        raise Refused("invalid_request", "The parameters cannot be read.") from None
    parameters: dict[str, str] = {}
    repeated: set[str] = set()
    for name, value in pairs:
        if name in parameters:
            repeated.add(name)
        parameters[name] = value
    return {name: value for name, value in parameters.items() if value}, frozenset(repeated)


def answer_url(redirect_uri: str, parameters: Mapping[str, str | None], *, issuer: str) -> str:
    """The URL by which a browser brings an answer to the client, with `iss`. Spec: RFC 9207 section 2"""
    given = [(name, value) for name, value in parameters.items() if value is not None]
    return with_query(parse_url(redirect_uri, what="redirect URI"), [*given, ("iss", issuer)], what="redirect URI")
