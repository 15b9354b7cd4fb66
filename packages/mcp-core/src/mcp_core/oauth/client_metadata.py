"""What a client says of itself: one description, written as a document under its own URL or as a registration request.

A *client id metadata document* is a file that the client's maker puts on the web; its URL is the client id. What it says
has to be what the client really does, above all its redirect URIs: a document that was written by hand and differs leaves
people on an error page. So it is generated from the same settings that the flow runs with, and the flow refuses a redirect
URI that is not in them.

Spec: basic/authorization#client-id-metadata-documents; draft-ietf-oauth-client-id-metadata-document, RFC 7591 section 2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import LocalProtocolError, RegistrationFailed, UnsafeUrl
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
    """Makes sure that a redirect URI is one that this client may use: https, or this machine.

    Raises:
        LocalProtocolError: It is not. Spec: basic/authorization#communication-security
    """
    try:
        url = parse_url(uri, what="redirect URI")
    except UnsafeUrl as unsafe:
        raise LocalProtocolError(unsafe.message) from None
    if url.fragment is not None or (url.scheme != "https" and not url.is_loopback):
        raise LocalProtocolError(
            f"redirect URI {uri!a} has to be https, or on the loopback interface; without fragment"
        )


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
        sentence = "has to be https, with a path, without fragment and dot segments"
        raise LocalProtocolError(f"metadata_url {text!a} {sentence}: it is a client id")


@attrs.frozen(kw_only=True)
class ClientSettings:
    """The client, as its maker knows it. The names are those of RFC 7591 section 2.

    Raises:
        LocalProtocolError: A URL is none that may be used.
    """

    client_name: str
    """For the person who is asked for consent."""
    redirect_uris: tuple[str, ...] = attrs.field(default=(), validator=_redirect_uris)
    """Where the browser may come back to: https, or loopback. Of the latter the port may differ in use."""
    metadata_url: str | None = attrs.field(default=None, validator=_metadata_url)
    """Where `metadata_document()` is published; it is the client id wherever that is supported."""
    client_uri: str | None = None
    """A page about the client."""
    logo_uri: str | None = None
    """A picture for the page of consent."""
    software_id: str | None = None
    """The same for all installations."""
    software_version: str | None = None
    """Its version."""
    jwks_uri: str | None = None
    """Where the client's public keys are; without it, a client that signs has its key in the document."""
    dpop_bound_access_tokens: bool = False
    """Whether it uses tokens only with DPoP."""

    @property
    def application_type(self) -> str:
        """`native` where a redirect URI is this machine, else `web`. Spec: basic/authorization#application-type"""
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
    """The body of a registration request. Spec: RFC 7591 section 3.1

    Args:
        settings: The client.
        redirect_uri: The one that is about to be used, with its port.
        method: How the client wants to authenticate.
        signer: Its key.
    """
    return _description(settings, redirect_uris=[redirect_uri], method=method, signer=signer)


def metadata_document(settings: ClientSettings, *, signer: Signer | None = None) -> JsonObject:
    """The document to be published at `ClientSettings.metadata_url`, as `application/json`.

    Args:
        settings: The client.
        signer: Its key; with one it authenticates by `private_key_jwt`, without it is a public client.

    Raises:
        LocalProtocolError: The settings have no `metadata_url`, or no redirect URI.
    """
    if settings.metadata_url is None or not settings.redirect_uris:
        raise LocalProtocolError("a client id metadata document needs metadata_url and redirect_uris")
    method = AuthMethod.NONE if signer is None else AuthMethod.PRIVATE_KEY_JWT
    described = _description(settings, redirect_uris=settings.redirect_uris, method=method, signer=signer)
    return {"client_id": settings.metadata_url, **described}


def check_metadata_document(document: JsonObject, *, url: str, redirect_uri: str) -> None:
    """Holds a document that is published against what the client is about to do.

    Args:
        document: What is at the URL.
        url: The client id.
        redirect_uri: What will be used.

    Raises:
        RegistrationFailed: An authorization server would refuse: it says why.
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
