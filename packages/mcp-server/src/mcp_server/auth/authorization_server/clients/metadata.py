"""Client metadata: validation of registration requests and of client ID metadata documents.

Spec: RFC 7591 sections 2 and 3.2.2; draft-ietf-oauth-client-id-metadata-document;
basic/authorization#client-id-metadata-documents
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final

from mcp_core.errors import McpError, UnsafeUrl
from mcp_core.oauth.records import AuthMethod
from mcp_core.oauth.urls import parse_url
from mcp_server.auth.authorization_server.model.client import GRANT_TYPES, Client
from mcp_server.auth.authorization_server.model.interaction import RegistrationKind
from mcp_server.auth.authorization_server.model.redirect_uris import redirect_uri_problem

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["Unacceptable", "check_document_id", "looks_like_document_id", "read_description", "read_document", "shown"]

_NAME: Final = 80
"""The maximum length of a name, in characters. A longer name would hide important text on a page."""
_TEXT: Final = 2_000
_URIS: Final = 20
_KEYS: Final = 16
_GRANTS: Final = GRANT_TYPES[:2]
"""The grant types for clients that register themselves. A client that acts for itself must be configured."""
_BLANKS: Final = re.compile(r"\s+")


class Unacceptable(McpError):
    """The metadata of a client is not acceptable.

    Args:
        sentence: The reason. It contains nothing from the metadata, so it may be shown to users.
        error: The error code of RFC 7591 section 3.2.2.
        about: The invalid value from the metadata, for the author of the client.
    """

    def __init__(self, sentence: str, error: str = "invalid_client_metadata", *, about: str | None = None) -> None:
        super().__init__(sentence if about is None else f"{sentence}: {about[:200]!a}")
        self.error: str = error
        """The error code."""
        self.sentence: str = sentence
        """The reason."""


def shown(text: str) -> str:
    """Return untrusted text for display: one line of limited length, without invisible and bidirectional characters."""
    kept = "".join(" " if each.isspace() else each for each in unicodedata.normalize("NFC", text[:_TEXT]))
    visible = "".join(each for each in kept if unicodedata.category(each)[0] != "C")
    return _BLANKS.sub(" ", visible).strip()[:_NAME]


def read_description(
    document: JsonObject, *, client_id: str, kind: RegistrationKind, default: AuthMethod, issued_at: float
) -> Client:
    """Read the metadata of a client. Unknown members are ignored. A client secret, if any, is created later.

    Args:
        document: The metadata.
        client_id: The client id.
        kind: How the client is registered.
        default: The authentication method if the metadata contains none.
        issued_at: The time of registration, in seconds since the epoch.

    Raises:
        Unacceptable: The metadata is not acceptable.
    """
    uris = _texts(document, "redirect_uris") or ()
    for uri in uris:
        problem = redirect_uri_problem(uri, application_type=_text(document, "application_type"))
        if problem is not None:
            raise Unacceptable(f"a redirect URI {problem}", "invalid_redirect_uri", about=uri)
    grants = _texts(document, "grant_types") or _GRANTS[:1]
    method = _method(document, default)
    jwks, jwks_uri = _keys(document, method)
    taken = tuple(each for each in _GRANTS if each in grants)
    # Other requested grant types (implicit, device) are left out, as the response shows.
    if _GRANTS[0] not in taken or not uris:
        raise Unacceptable(
            "a client needs the grant type authorization_code and a redirect URI; only configured clients can do without",
            "invalid_client_metadata" if uris else "invalid_redirect_uri",
        )
    return Client(
        client_id=client_id,
        name=shown(_text(document, "client_name") or "") or "An application without a name",
        kind=kind,
        method=method,
        redirect_uris=uris,
        grant_types=taken,
        jwks=jwks,
        jwks_uri=jwks_uri,
        bound=document.get("dpop_bound_access_tokens") is True,
        client_uri=_page(document),
        issued_at=issued_at,
    )


def _method(document: JsonObject, default: AuthMethod) -> AuthMethod:
    named = _text(document, "token_endpoint_auth_method")
    try:
        return default if named is None else AuthMethod(named)
    except ValueError:
        supported = ", ".join(each.value for each in AuthMethod)
        raise Unacceptable(f"token_endpoint_auth_method must be one of {supported}") from None


def _keys(document: JsonObject, method: AuthMethod) -> tuple[JsonObject | None, str | None]:
    if method is not AuthMethod.PRIVATE_KEY_JWT:
        return None, None
    jwks, uri = document.get("jwks"), _text(document, "jwks_uri")
    if (jwks is None) == (uri is None):
        raise Unacceptable("private_key_jwt needs either jwks or jwks_uri")
    if uri is not None:
        try:
            parse_url(uri, what="jwks_uri")
        except UnsafeUrl as unsafe:
            raise Unacceptable(f"the jwks_uri is invalid: {unsafe.reason}") from None
        return None, uri
    keys = jwks.get("keys") if isinstance(jwks, dict) else None
    if not isinstance(keys, list) or not 0 < len(keys) <= _KEYS or not all(isinstance(each, dict) for each in keys):
        raise Unacceptable(f"jwks must be a JWK set of 1 to {_KEYS} keys")
    if any(isinstance(each, dict) and ("d" in each or each.get("kty") == "oct") for each in keys):
        raise Unacceptable("jwks contains a private or symmetric key: publish only public keys")
    return {"keys": keys}, None


def _page(document: JsonObject) -> str | None:
    text = _text(document, "client_uri")
    try:
        url = None if text is None else parse_url(text, what="client_uri")
    except UnsafeUrl:
        return None
    return None if url is None or url.scheme != "https" else url.text


def _text(document: JsonObject, name: str) -> str | None:
    value = document.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > _TEXT:
        raise Unacceptable(f"{name} must be a string of at most {_TEXT} characters")
    return value


def _texts(document: JsonObject, name: str) -> tuple[str, ...] | None:
    value: JsonValue = document.get(name)
    if value is None:
        return None
    texts = [each for each in value if isinstance(each, str) and each] if isinstance(value, list) else []
    if not isinstance(value, list) or len(texts) < len(value) or len(value) > _URIS:
        raise Unacceptable(
            f"{name} must be a list of at most {_URIS} strings",
            "invalid_redirect_uri" if name == "redirect_uris" else "invalid_client_metadata",
        )
    return tuple(dict.fromkeys(texts))


# --- metadata documents ----------------------------------------------------------------------------------------------


def looks_like_document_id(client_id: str) -> bool:
    """Return whether a client id is a URL, and so the address of a metadata document."""
    return "://" in client_id


def check_document_id(client_id: str) -> None:
    """Check that a client id is a valid URL of a metadata document.

    Raises:
        Unacceptable: The URL is not allowed. Spec: basic/authorization#client-id-metadata-documents
    """
    try:
        url = parse_url(client_id, what="client_id")
    except UnsafeUrl as unsafe:
        raise Unacceptable(f"the client_id is not a valid URL: {unsafe.reason}") from None
    dots = any(segment in (".", "..") for segment in url.path.lower().replace("%2e", ".").split("/"))
    if url.scheme != "https" or not url.segments or url.fragment is not None or dots:
        raise Unacceptable("a client_id that is a URL must be https, with a path, without fragment and dot segments")


_SECRETS: Final[Collection[AuthMethod]] = (AuthMethod.SECRET_BASIC, AuthMethod.SECRET_POST)


def read_document(document: JsonObject, *, client_id: str, issued_at: float) -> Client:
    """Read the metadata document at the URL that is a client id.

    Raises:
        Unacceptable: The document describes another client, or its metadata is not acceptable.
    """
    # Compare exactly: two spellings of a URL are two clients.
    if document.get("client_id") != client_id:
        raise Unacceptable("the document at the client_id has another client_id")
    if _text(document, "client_name") is None:
        raise Unacceptable("the document at the client_id has no client_name")
    if "client_secret" in document:
        raise Unacceptable("the document at the client_id contains a client_secret, although it is public")
    default = AuthMethod.PRIVATE_KEY_JWT if "jwks" in document or "jwks_uri" in document else AuthMethod.NONE
    client = read_description(
        document, client_id=client_id, kind=RegistrationKind.METADATA_DOCUMENT, default=default, issued_at=issued_at
    )
    if client.method in _SECRETS:
        raise Unacceptable("a client with a metadata document cannot authenticate with a secret")
    return client
