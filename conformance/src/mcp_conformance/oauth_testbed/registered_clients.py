"""The clients of an authorization server: registration, and authentication at the token endpoint."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_plus, urlsplit

import attrs

from mcp_conformance.oauth_testbed.client_jwts import check_assertion
from mcp_conformance.oauth_testbed.http_messages import single

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.oauth_testbed.http_messages import Request
    from mcp_conformance.oauth_testbed.violations import ViolationRecorder
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["ANY_SECRET_METHOD", "Client", "Clients", "is_loopback", "redirect_matches"]

ANY_SECRET_METHOD: Final = "client_secret"
"""In place of a method: the secret in the header or in the body, because the client was not given a method."""
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


def is_loopback(uri: str) -> bool:
    """Return whether a URI has a loopback host."""
    host = urlsplit(uri).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def redirect_matches(registered: str, used: str) -> bool:
    """Return whether a redirect URI equals a registered one, except for the port of a loopback URI (RFC 8252)."""
    if registered == used:
        return True
    one, other = urlsplit(registered), urlsplit(used)
    same = (one.scheme, one.hostname, one.path, one.query) == (other.scheme, other.hostname, other.path, other.query)
    return same and is_loopback(registered)


def _texts(value: JsonValue) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _first_key(jwks: JsonValue) -> JsonObject | None:
    keys = jwks.get("keys") if isinstance(jwks, dict) else None
    first = keys[0] if isinstance(keys, list) and keys else None
    return first if isinstance(first, dict) else None


@attrs.frozen(kw_only=True)
class Client:
    """A client."""

    client_id: str
    """The client id."""
    method: str = "none"
    """The authentication method (RFC 7591)."""
    secret: str | None = attrs.field(default=None, repr=False)
    """The client secret."""
    redirect_uris: tuple[str, ...] = ()
    """The redirect URIs."""
    key: JsonObject | None = None
    """The public key."""

    @classmethod
    def of(cls, document: JsonObject, *, default: str = "client_secret_basic") -> Client:
        """Return the client with these metadata, with the default method of RFC 7591."""
        secret, method = document.get("client_secret"), document.get("token_endpoint_auth_method")
        return cls(
            client_id=str(document.get("client_id")),
            method=method if isinstance(method, str) else default,
            secret=secret if isinstance(secret, str) else None,
            redirect_uris=_texts(document.get("redirect_uris")),
            key=_first_key(document.get("jwks")),
        )


def _basic(header: str) -> tuple[str, str] | None:
    scheme, _, credentials = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, secret = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (unquote_plus(name), unquote_plus(secret)) if colon else None


@attrs.define(kw_only=True)
class Clients:
    """The clients of one authorization server."""

    issuer: str
    """The required audience of assertions."""
    recorder: ViolationRecorder
    """The recorded violations."""
    documents: Mapping[str, JsonObject]
    """Client ID metadata documents, by URL. A document that is not listed is taken as valid."""
    takes_documents: bool
    """Whether the URL of a document is accepted as client id."""
    registered: dict[str, Client] = attrs.field(factory=dict)
    """The registered clients, by id."""
    forgotten: set[str] = attrs.field(factory=set, init=False)
    """The ids of forgotten clients. Their use is not a violation."""
    _assertions: set[str] = attrs.field(factory=set, init=False)

    def find(self, client_id: str) -> Client | None:
        """Find a client by id."""
        known = self.registered.get(client_id)
        if known is not None or not self.takes_documents or "://" not in client_id:
            return known
        url, expect = urlsplit(client_id), self.recorder.expect
        form = url.scheme == "https" and url.path not in ("", "/") and not url.fragment
        if not expect(form, "auth.cimd-client-id-form", f"the client id {client_id} is not an https URL with a path"):
            return None
        document = self.documents.get(client_id)
        if document is None:
            return Client(client_id=client_id)
        whole = all(document.get(name) for name in ("client_name", "redirect_uris"))
        same = document.get("client_id") == client_id
        expect(whole, "auth.cimd-document-fields", "the document has no client_name, or no redirect_uris")
        expect(same, "auth.cimd-document-client-id", "the client_id of the document is not its URL")
        return Client.of(document, default="none") if same and whole else None

    def forget(self, client_id: str | None = None) -> None:
        """Forget one client, or all for `None`."""
        for each in [*self.registered] if client_id is None else [client_id]:
            self.registered.pop(each, None)
            self.forgotten.add(each)

    def check_registration(self, request: Request, document: JsonObject) -> bool:
        """Record the violations in a registration request, and return whether it is one."""
        expect, uris = self.recorder.expect, _texts(document.get("redirect_uris"))
        typed = request.media_type == "application/json"
        expect(typed, "auth.dcr-client", "the content type of a registration request is not application/json")
        safe = all(uri.startswith("https://") or (uri.startswith("http://") and is_loopback(uri)) for uri in uris)
        expect(safe, "auth.redirect-https-or-localhost", f"redirect URIs are neither https nor loopback: {uris}")
        kind = document.get("application_type")
        expect(kind in ("native", "web"), "auth.dcr-application-type", f"the application_type is {kind!a}")
        if any(is_loopback(uri) for uri in uris):
            expect(kind == "native", "auth.dcr-native", f"a client on this machine registers itself as {kind!a}")
        grants = _texts(document.get("grant_types"))
        if "authorization_code" in grants or not grants:
            expect(uris, "auth.redirect-registered", "no redirect URI is registered")
            expect("refresh_token" in grants, "auth.refresh-grant-type", "grant_types have no refresh_token")
        return typed

    def authenticate(self, request: Request, *, now: float, needed: bool) -> tuple[Client | None, bool]:
        """Authenticate the client of a token request.

        Args:
            request: The request.
            now: Seconds since the epoch.
            needed: Whether the grant requires a client.

        Returns:
            The client, and whether the request may continue. Without a client id it may, if the grant requires none.
        """
        form, basic = single(request.form), _basic(request.header("authorization") or "")
        ways: list[str] = [name for name in ("client_secret", "client_assertion") if name in form]
        ways += ["Authorization"] if request.header("authorization") is not None else []
        self.recorder.expect(
            len(ways) < 2, "auth.oauth21-security", f"a client authenticates with {' and '.join(ways)}"
        )
        client_id = basic[0] if basic is not None else form.get("client_id")
        if client_id is None:
            self.recorder.expect(not needed, "auth.registration-obtained", "a token request names no client")
            return None, not needed
        client = self.find(client_id)
        return client, client is not None and self._proves(client, form, basic, now)

    def _proves(self, client: Client, form: dict[str, str], basic: tuple[str, str] | None, now: float) -> bool:
        match client.method:
            case "none":
                return basic is None and "client_assertion" not in form
            case "client_secret_basic":
                return basic is not None and basic[1] == client.secret
            case "client_secret_post":
                return client.secret is not None and form.get("client_secret") == client.secret
            case "client_secret":  # ANY_SECRET_METHOD
                given = basic[1] if basic is not None else form.get("client_secret")
                return client.secret is not None and given == client.secret
            case "private_key_jwt":
                typed = form.get("client_assertion_type") == _ASSERTION
                self.recorder.expect(
                    typed, "client-credentials.jwt-assertion-type", "the type of an assertion is missing"
                )
                return typed and check_assertion(
                    form.get("client_assertion", ""),
                    client_id=client.client_id,
                    key=client.key,
                    issuer=self.issuer,
                    now=now,
                    seen=self._assertions,
                    recorder=self.recorder,
                )
        return False
