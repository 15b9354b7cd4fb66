"""Client metadata: one description of the client, as a client ID metadata document or as a registration request.

A *client ID metadata document* is a file that the author of the client publishes on the web. Its URL is the client id.
The document has to match the behavior of the client, above all its redirect URIs: if a document that was written by
hand differs, users end on an error page. Therefore this module generates the document from the settings of the flow,
and the flow rejects a redirect URI that the document does not list.

Spec: basic/authorization#client-id-metadata-documents; draft-ietf-oauth-client-id-metadata-document, RFC 7591 section 2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import LocalProtocolError, RegistrationFailed, UnsafeUrl
from mcp_core.field_methods import FieldValue
from mcp_core.oauth.jws import public_jwk
from mcp_core.oauth.records import AuthMethod
from mcp_core.oauth.urls import parse_url, redirect_uri_matches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.jws import Signer

__all__ = [
    "ClientSettings",
    "check_metadata_document",
    "check_redirect_uri",
    "metadata_document",
    "registration_document",
]


def check_redirect_uri(uri: str) -> None:
    """Check that this client may use a redirect URI: https, or on the loopback interface.

    Raises:
        LocalProtocolError: The URI is not allowed. Spec: basic/authorization#communication-security
    """
    try:
        url = parse_url(uri, what="redirect URI")
    except UnsafeUrl as unsafe:
        raise LocalProtocolError(unsafe.message) from None
    if url.fragment is not None or (url.scheme != "https" and not url.is_loopback):
        raise LocalProtocolError(f"redirect URI {uri!a} must use https or the loopback interface, without a fragment")


def _redirect_uris(_: ClientSettings, __: attrs.Attribute[tuple[str, ...]], uris: tuple[str, ...]) -> None:
    for uri in uris:
        check_redirect_uri(uri)


def _metadata_url(_: ClientSettings, __: attrs.Attribute[str | None], text: str | None) -> None:
    if text is None:
        return
    try:
        url = parse_url(text, what="metadata_url")
    except UnsafeUrl as unsafe:
        raise LocalProtocolError(unsafe.message) from None
    dots = any(segment in (".", "..") for segment in url.path.split("/"))
    if url.scheme != "https" or not url.segments or url.fragment is not None or dots:
        sentence = "must use https and have a path, without a fragment or dot segments"
        raise LocalProtocolError(f"metadata_url {text!a} {sentence}, because it is a client id")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ClientSettings(FieldValue):
    """The client, as known to its author. The names are those of RFC 7591 section 2.

    Raises:
        LocalProtocolError: A URL is not allowed.
    """

    client_name: str
    """The name of the client, shown to the user who is asked for consent."""
    redirect_uris: tuple[str, ...] = attrs.field(default=(), validator=_redirect_uris)
    """The allowed redirect URIs: https, or on the loopback interface. The port of a loopback URI may differ in use."""
    metadata_url: str | None = attrs.field(default=None, validator=_metadata_url)
    """The URL at which `metadata_document()` is published: the client id wherever the server supports it."""
    client_uri: str | None = None
    """The URL of a page about the client."""
    logo_uri: str | None = None
    """The URL of an image for the consent page."""
    software_id: str | None = None
    """An id of the software, the same for all installations."""
    software_version: str | None = None
    """The version of the software."""
    jwks_uri: str | None = None
    """The URL of the client's public keys. Without it, the document of a client that signs contains its key."""
    dpop_bound_access_tokens: bool = False
    """Whether the client uses tokens only with DPoP."""

    @property
    def application_type(self) -> str:
        """`native` if a redirect URI is on this machine, otherwise `web`. Spec: basic/authorization#application-type"""
        local = any(parse_url(uri, what="redirect URI").is_loopback for uri in self.redirect_uris)
        return "native" if local or not self.redirect_uris else "web"


_OPTIONAL: Final = ("client_uri", "logo_uri", "software_id", "software_version")


def _description(
    settings: ClientSettings, *, redirect_uris: Sequence[str], method: AuthMethod, signer: Signer | None
) -> JsonObject:
    document: JsonObject = {
        "client_name": settings.client_name,
        "redirect_uris": list(redirect_uris),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method.value,
        "application_type": settings.application_type,
    }
    for name in _OPTIONAL:
        value: str | None = getattr(settings, name)
        if value is not None:
            document[name] = value
    if method is AuthMethod.PRIVATE_KEY_JWT and settings.jwks_uri is not None:
        document["jwks_uri"] = settings.jwks_uri
    elif method is AuthMethod.PRIVATE_KEY_JWT and signer is not None:
        key_id = signer.jwk.get("kid")
        named: JsonObject = {} if key_id is None else {"kid": key_id}
        document["jwks"] = {"keys": [{**public_jwk(signer.jwk), **named, "use": "sig", "alg": signer.algorithm}]}
    if settings.dpop_bound_access_tokens:
        document["dpop_bound_access_tokens"] = True
    return document


def registration_document(
    settings: ClientSettings, *, redirect_uri: str, method: AuthMethod, signer: Signer | None = None
) -> JsonObject:
    """Return the body of a registration request. Spec: RFC 7591 section 3.1

    Args:
        settings: The client.
        redirect_uri: The redirect URI of the next flow, with its port.
        method: The requested authentication method of the client.
        signer: The key of the client.
    """
    return _description(settings, redirect_uris=[redirect_uri], method=method, signer=signer)


def metadata_document(settings: ClientSettings, *, signer: Signer | None = None) -> JsonObject:
    """Return the document to publish at `ClientSettings.metadata_url`, as `application/json`.

    Args:
        settings: The client.
        signer: The key of the client, for authentication with `private_key_jwt`. Without it the client is public.

    Raises:
        LocalProtocolError: The settings have no `metadata_url`, or no redirect URI.
    """
    if settings.metadata_url is None or not settings.redirect_uris:
        raise LocalProtocolError("a client ID metadata document requires metadata_url and redirect_uris")
    method = AuthMethod.NONE if signer is None else AuthMethod.PRIVATE_KEY_JWT
    described = _description(settings, redirect_uris=settings.redirect_uris, method=method, signer=signer)
    return {"client_id": settings.metadata_url, **described}


def check_metadata_document(document: JsonObject, *, url: str, redirect_uri: str) -> None:
    """Check that a published document allows the next flow of the client.

    Args:
        document: The published document.
        url: The client id.
        redirect_uri: The redirect URI of the flow.

    Raises:
        RegistrationFailed: An authorization server would reject the client. The message states the reason.
    """
    name, uris = document.get("client_name"), document.get("redirect_uris")
    listed = [each for each in uris if isinstance(each, str)] if isinstance(uris, list) else []
    if document.get("client_id") != url:
        raise RegistrationFailed(f"the document at {url} has another client_id: {document.get('client_id')!a:.200}")
    if not isinstance(name, str) or not name:
        raise RegistrationFailed(f"the document at {url} has no client_name")
    if not any(redirect_uri_matches(each, redirect_uri) for each in listed):
        raise RegistrationFailed(
            f"redirect URI {redirect_uri} is not in the document at {url}, which has {listed!a:.300}"
        )
