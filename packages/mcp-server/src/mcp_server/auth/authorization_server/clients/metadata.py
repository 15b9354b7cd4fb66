"""What a client says of itself, read with suspicion: in a registration request, or in its metadata document.

Spec: RFC 7591 sections 2 and 3.2.2; draft-ietf-oauth-client-id-metadata-document; basic/authorization#client-id-metadata-documents
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
"""Characters of a name. A longer one would push what matters out of sight."""
_TEXT: Final = 2_000
_URIS: Final = 20
_KEYS: Final = 16
_GRANTS: Final = GRANT_TYPES[:2]
"""What a client may ask for by itself. One that acts for itself has to be configured."""
_BLANKS: Final = re.compile(r"\s+")


class Unacceptable(McpError):
    """A client cannot be registered as it is described.

    Args:
        sentence: Why. It may be shown to people: nothing of the description is in it.
        error: The code of RFC 7591 section 3.2.2.
        about: What of the description, for whoever wrote it.
    """

    def __init__(self, sentence: str, error: str = "invalid_client_metadata", *, about: str | None = None) -> None:
        super().__init__(sentence if about is None else f"{sentence}: {about[:200]!a}")
        self.error: str = error
        """The code."""
        self.sentence: str = sentence
        """Why."""


def shown(text: str) -> str:
    """A stranger's word as it may stand on a page: one line, cut, without characters that are invisible or turn text around."""
    kept = "".join(" " if each.isspace() else each for each in unicodedata.normalize("NFC", text[:_TEXT]))
    visible = "".join(each for each in kept if unicodedata.category(each)[0] != "C")
    return _BLANKS.sub(" ", visible).strip()[:_NAME]


def read_description(
    document: JsonObject, *, client_id: str, kind: RegistrationKind, default: AuthMethod, issued_at: float
) -> Client:
    """Reads what a client says of itself. What is not known is passed over. Its secret, if it gets one, comes later.

    Args:
        document: What it says.
        client_id: Its id.
        kind: How it comes to be known.
        default: How it authenticates when it does not say.
        issued_at: When, in seconds since the epoch.

    Raises:
        Unacceptable: It cannot be registered so.
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
    # What else it would like (implicit, device) it does not get, as the answer tells it.
    if _GRANTS[0] not in taken or not uris:
        raise Unacceptable(
            "a client needs the grant authorization_code and a redirect URI; one that acts for itself is not registered here",
            "invalid_client_metadata" if uris else "invalid_redirect_uri",
        )
    return Client(
        client_id=client_id,
        name=shown(_text(document, "client_name") or "") or "A client without a name",
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
        raise Unacceptable(f"token_endpoint_auth_method has to be one of {supported}") from None


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
            raise Unacceptable(f"the jwks_uri cannot be used: {unsafe.reason}") from None
        return None, uri
    keys = jwks.get("keys") if isinstance(jwks, dict) else None
    if not isinstance(keys, list) or not 0 < len(keys) <= _KEYS or not all(isinstance(each, dict) for each in keys):
        raise Unacceptable(f"jwks has to be a JWK set of 1 to {_KEYS} keys")
    if any(isinstance(each, dict) and ("d" in each or each.get("kty") == "oct") for each in keys):
        raise Unacceptable("jwks has a key that nobody else must know")
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
        raise Unacceptable(f"{name} has to be a string of at most {_TEXT} characters")
    return value


def _texts(document: JsonObject, name: str) -> tuple[str, ...] | None:
    value: JsonValue = document.get(name)
    if value is None:
        return None
    texts = [each for each in value if isinstance(each, str) and each] if isinstance(value, list) else []
    if not isinstance(value, list) or len(texts) < len(value) or len(value) > _URIS:
        raise Unacceptable(
            f"{name} has to be a list of at most {_URIS} strings",
            "invalid_redirect_uri" if name == "redirect_uris" else "invalid_client_metadata",
        )
    return tuple(dict.fromkeys(texts))


# --- metadata documents ----------------------------------------------------------------------------------------------


def looks_like_document_id(client_id: str) -> bool:
    """Whether a client id is meant for the URL of a document."""
    return "://" in client_id


def check_document_id(client_id: str) -> None:
    """Makes sure that a client id is such a URL.

    Raises:
        Unacceptable: It is not. Spec: basic/authorization#client-id-metadata-documents
    """
    try:
        url = parse_url(client_id, what="client_id")
    except UnsafeUrl as unsafe:
        raise Unacceptable(f"the client_id cannot be used: {unsafe.reason}") from None
    dots = any(segment in (".", "..") for segment in url.path.lower().replace("%2e", ".").split("/"))
    if url.scheme != "https" or not url.segments or url.fragment is not None or dots:
        raise Unacceptable("a client_id that is a URL has to be https, with a path, without fragment and dot segments")


_SECRETS: Final[Collection[AuthMethod]] = (AuthMethod.SECRET_BASIC, AuthMethod.SECRET_POST)


def read_document(document: JsonObject, *, client_id: str, issued_at: float) -> Client:
    """Reads what is published at the URL that is a client's id.

    Raises:
        Unacceptable: It is not about this client, or the client cannot be known so.
    """
    # Octet by octet: two spellings would be two clients.
    if document.get("client_id") != client_id:
        raise Unacceptable("the document at the client_id has another client_id")
    if _text(document, "client_name") is None:
        raise Unacceptable("the document at the client_id has no client_name")
    if "client_secret" in document:
        raise Unacceptable("the document at the client_id has a secret, which everybody can read")
    default = AuthMethod.PRIVATE_KEY_JWT if "jwks" in document or "jwks_uri" in document else AuthMethod.NONE
    client = read_description(
        document, client_id=client_id, kind=RegistrationKind.METADATA_DOCUMENT, default=default, issued_at=issued_at
    )
    if client.method in _SECRETS:
        raise Unacceptable("a client with a metadata document cannot have a secret")
    return client
