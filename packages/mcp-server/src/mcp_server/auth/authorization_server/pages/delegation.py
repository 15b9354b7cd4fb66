"""Delegated login: users log in at another authorization server, of which this server is a client.

The other server's statements are accepted only if they are for this server and this login. Checked are the issuer (in
the metadata, in the authorization response and in the ID token), the audience, the nonce, and the signature with a
published key. Its tokens are neither stored nor forwarded. Tokens of this server contain only the identity of the user.

Spec: OpenID Connect Core 1.0 section 3.1; basic/security_best_practices#confused-deputy-problem, #token-passthrough
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import attrs

from mcp_core.errors import AuthorizationError, AuthorizationRefused, InvalidValue, McpError, UnsafeUrl
from mcp_core.field_methods import FieldValue
from mcp_core.oauth.authorization_endpoint import AuthorizationRequest
from mcp_core.oauth.discovery import authorization_server_urls
from mcp_core.oauth.metadata import check_issuer, check_issuer_url, read_authorization_server
from mcp_core.oauth.pkce import METHOD, Pkce
from mcp_core.oauth.records import ClientRecord
from mcp_core.oauth.signatures import VERIFIED_ALGORITHMS, read_signed_jwt
from mcp_core.oauth.tokens import authenticate, choose_auth_method, read_token_response, secrets_of
from mcp_core.oauth.urls import check_browser_url, with_query
from mcp_core.trio.async_library import allow_asyncio
from mcp_server.auth.fetch import OWN_NETWORKS, FetchRefused, fetch, networks_named_by
from mcp_server.auth.keys import JoseVerifier, choose, public_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.oauth.metadata import AuthorizationServerMetadata
    from mcp_core.oauth.steps import FetchedResponse
    from mcp_server.auth.authorization_server.pages.flows import AuthorizationFlow, FlowStart

__all__ = ["AuthenticatedUser", "Delegation", "DelegationFailed"]

_SKEW: Final = 60.0
"""The allowed clock difference, in seconds."""
_NAMES: Final = ("preferred_username", "email", "name")
_DENIED: Final = "access_denied"
_BROKEN: Final = "server_error"


class DelegationFailed(McpError):
    """A delegated login failed. The message is for the log only. The client receives only the error code."""

    def __init__(self, message: str, *, error: str = _BROKEN) -> None:
        super().__init__(message)
        self.error: str = error
        """The error code for the client: `access_denied` or `server_error`."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AuthenticatedUser(FieldValue):
    """A user who logged in at the other authorization server."""

    subject: str
    """The issuer and the subject, separated by a number sign: unique across all authorization servers."""
    shown: str
    """The name of the user there, for display."""
    auth_time: float
    """The time of the login, in seconds since the epoch."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Provider(FieldValue):
    metadata: AuthorizationServerMetadata
    token_endpoint: str


class Delegation:
    """Login at another authorization server, which must be an OpenID provider. Replaces `Users`.

    Args:
        issuer: The issuer identifier of the provider, exactly.
        client_id: The client id of this server at the provider. Register the redirect URI
            `<issuer of this server>/delegation/callback`.
        client_secret: The client secret of this server at the provider; `None` for a public client.
        scopes: The requested scopes; `openid` is added.

    Raises:
        UnsafeUrl: The issuer is not a valid issuer URL.
    """

    def __init__(
        self,
        issuer: str,
        *,
        client_id: str,
        client_secret: str | None = None,
        scopes: Sequence[str] = ("openid", "profile"),
    ) -> None:
        self._url: Final = check_issuer_url(issuer, networks=OWN_NETWORKS)
        self.issuer: Final = issuer
        """The issuer identifier of the provider."""
        self.host: Final = self._url.origin.partition("://")[2]
        """The host of the provider, for display to users."""
        self._client: Final = ClientRecord(client_id=client_id, client_secret=client_secret, issuer=issuer)
        self._scopes: Final = tuple(dict.fromkeys(("openid", *scopes)))

    def __repr__(self) -> str:
        return f"<Delegation {self.issuer}>"

    @allow_asyncio
    async def start(self, start: FlowStart, *, redirect_uri: str, force_login: bool) -> str:
        """Return the URL of the provider that the browser is redirected to.

        Args:
            start: The state, nonce and PKCE of the flow.
            redirect_uri: The redirect URI of this server.
            force_login: Whether the user must log in again, even with a session at the provider.

        Raises:
            DelegationFailed: The metadata of the provider cannot be fetched, or is invalid.
        """
        metadata = (await self._provider()).metadata
        endpoint = metadata.authorization_endpoint
        if endpoint is None:
            raise DelegationFailed(f"the metadata of {self.issuer} has no authorization_endpoint")
        parameters = [
            ("response_type", "code"),
            ("client_id", self._client.client_id),
            ("redirect_uri", redirect_uri),
            ("scope", " ".join(self._scopes)),
            ("state", start.state),
            ("nonce", start.nonce),
            ("code_challenge", start.pkce.challenge),
            ("code_challenge_method", METHOD),
        ]
        if force_login:
            parameters += [("prompt", "login"), ("max_age", "0")]
        try:
            url = check_browser_url(endpoint, what="authorization_endpoint")
            return with_query(url, parameters, what="authorization_endpoint")
        except UnsafeUrl as unsafe:
            raise DelegationFailed(unsafe.message) from unsafe

    @allow_asyncio
    async def finish(
        self,
        flow: AuthorizationFlow,
        fields: Mapping[str, Sequence[str]],
        *,
        state: str,
        redirect_uri: str,
        now: float,
        since: float | None,
    ) -> AuthenticatedUser:
        """Complete the flow, and return the user who logged in.

        Args:
            flow: The stored flow that the redirect to the provider started.
            fields: The fields of the authorization response, each with its values.
            state: The state that identified the flow.
            redirect_uri: The redirect URI of this server.
            now: The time in seconds since the epoch.
            since: The earliest allowed time of the login, in seconds since the epoch; `None`: any time.

        Raises:
            DelegationFailed: The provider reported an error, or a check of its statements failed.
        """
        provider = await self._provider()
        request = AuthorizationRequest(
            url="",
            state=state,
            pkce=Pkce(verifier=flow.verifier, challenge=""),
            issuer=self.issuer,
            iss_required=provider.metadata.authorization_response_iss_parameter_supported,
            redirect_uri=redirect_uri,
        )
        try:
            code = request.code(fields)
        except AuthorizationRefused as refused:
            raise DelegationFailed(refused.message, error=_DENIED if refused.error == _DENIED else _BROKEN) from refused
        except AuthorizationError as wrong:
            raise DelegationFailed(wrong.message) from wrong
        token = await self._id_token(provider, code or "", flow.verifier, redirect_uri)
        claims = await self._verified(provider.metadata, token)
        return self._user(claims, flow.nonce, now=now, since=since)

    async def _provider(self) -> _Provider:
        """Fetch the metadata. It is not cached: logins are rare, and endpoints and keys may change."""
        for url in authorization_server_urls(self._url):
            answer = await self._get(url)
            if answer.status != 200:
                continue
            try:
                metadata = read_authorization_server(_document(answer, "metadata"))
                check_issuer(metadata, self.issuer)
            except (AuthorizationError, InvalidValue) as wrong:
                raise DelegationFailed(f"{url}: {wrong.message}") from wrong
            if metadata.token_endpoint is None:
                raise DelegationFailed(f"the metadata of {self.issuer} has no token_endpoint")
            return _Provider(metadata=metadata, token_endpoint=metadata.token_endpoint)
        raise DelegationFailed(f"{self.issuer} has no metadata at any of its well-known URLs")

    async def _get(self, url: str) -> FetchedResponse:
        try:
            networks = await networks_named_by(self._url, url)
            return await fetch(url, headers=(("Accept", "application/json"),), networks=networks)
        except (AuthorizationError, FetchRefused) as refused:
            raise DelegationFailed(refused.message) from refused

    async def _id_token(self, provider: _Provider, code: str, verifier: str, redirect_uri: str) -> str:
        form = (
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_uri),
            ("code_verifier", verifier),
        )
        try:
            method = choose_auth_method(self._client, provider.metadata, has_key=False)
            headers, sent = authenticate(
                form,
                self._client,
                method,
                audience=self.issuer,
                signer=None,
                now=0.0,
                random_bytes=secrets.token_bytes,
            )
            answer = await fetch(
                provider.token_endpoint,
                method="POST",
                headers=(
                    ("Accept", "application/json"),
                    ("Content-Type", "application/x-www-form-urlencoded"),
                    *headers,
                ),
                body=urlencode(sent).encode(),
                networks=await networks_named_by(self._url, provider.token_endpoint),
            )
            read_token_response(answer, issuer=self.issuer, secrets=secrets_of(sent, self._client))
        except (AuthorizationError, FetchRefused) as refused:
            raise DelegationFailed(refused.message) from refused
        token = _document(answer, "response of the token endpoint").get("id_token")
        if not isinstance(token, str):
            raise DelegationFailed(f"{self.issuer} returned no id_token: it is not an OpenID provider")
        return token

    async def _verified(self, metadata: AuthorizationServerMetadata, token: str) -> JsonObject:
        """Return the claims of an ID token with a valid signature."""
        if metadata.jwks_uri is None:
            raise DelegationFailed(f"the metadata of {self.issuer} has no jwks_uri")
        document = _document(await self._get(metadata.jwks_uri), "key set")
        try:
            signed = read_signed_jwt(token, algorithms=VERIFIED_ALGORITHMS)
        except InvalidValue as bad:
            raise DelegationFailed(f"the id_token of {self.issuer} is invalid: {bad.message}") from bad
        key = choose(public_keys(document), signed)
        if key is None or not JoseVerifier().verify(key.jwk, signed.algorithm, signed.data, signed.signature):
            raise DelegationFailed(f"the id_token of {self.issuer} is not signed by a key that it publishes")
        return signed.claims

    def _user(self, claims: JsonObject, nonce: str, *, now: float, since: float | None) -> AuthenticatedUser:
        subject, wrong = claims.get("sub"), self._wrong(claims, nonce, now, since)
        if wrong or not isinstance(subject, str) or not subject:
            raise DelegationFailed(f"the id_token of {self.issuer} {wrong or 'has no sub'}")
        when = _number(claims.get("auth_time"))
        named = (claims.get(name) for name in _NAMES)
        return AuthenticatedUser(
            subject=f"{self.issuer}#{subject}",
            shown=next((name for name in named if isinstance(name, str) and name), subject),
            auth_time=now if when is None else min(when, now),
        )

    def _wrong(self, claims: JsonObject, nonce: str, now: float, since: float | None) -> str | None:
        """Return the problem of an ID token, or `None`. Spec: OpenID Connect Core 1.0 section 3.1.3.7"""
        audience, party = claims.get("aud"), claims.get("azp")
        audiences = audience if isinstance(audience, list) else [audience]
        ours = self._client.client_id
        if claims.get("iss") != self.issuer:
            return "has another issuer"
        if ours not in audiences or (party is None and len(audiences) > 1) or party not in (None, ours):
            return "is for another client"
        if claims.get("nonce") != nonce:
            return "belongs to another login: its nonce does not match"
        ends, made, when = (_number(claims.get(name)) for name in ("exp", "iat", "auth_time"))
        if ends is None or ends <= now - _SKEW:
            return "has expired"
        if made is None or made > now + _SKEW:
            return "was issued in the future"
        if since is not None and (when is None or when < since - _SKEW):
            return "does not confirm a new login of the user, although one was requested"
        return None


def _document(answer: FetchedResponse, what: str) -> JsonObject:
    try:
        document: JsonValue = json.loads(answer.body)
    except (ValueError, RecursionError) as wrong:
        raise DelegationFailed(f"the {what} is not JSON") from wrong
    if not isinstance(document, dict):
        raise DelegationFailed(f"the {what} is not a JSON object")
    return document


def _number(value: JsonValue | None) -> float | None:
    """Return a time as a number, or `None` if it is not a number."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
