"""Logging in at another authorization server: ours is its client, in place of a form for a password.

What that server says is believed if it is meant for us, and for this login: its issuer, in metadata, in the answer through
the browser and in the ID token; the audience; the nonce; the signature by a key that it publishes. Its tokens end here. They
are neither kept nor handed on: our tokens say who the person is, and nothing more.

Spec: OpenID Connect Core 1.0 section 3.1; basic/security_best_practices#confused-deputy-problem, #token-passthrough
"""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import attrs

from mcp_core.errors import AuthorizationError, AuthorizationRefused, InvalidValue, McpError, UnsafeUrl
from mcp_core.oauth.authorization_endpoint import AuthorizationRequest
from mcp_core.oauth.discovery import authorization_server_urls
from mcp_core.oauth.metadata import check_issuer, check_issuer_url, read_authorization_server
from mcp_core.oauth.pkce import METHOD, Pkce
from mcp_core.oauth.records import ClientRecord
from mcp_core.oauth.signatures import VERIFIED_ALGORITHMS, read_signed
from mcp_core.oauth.tokens import authenticate, choose_auth_method, read_token_answer, secrets_of
from mcp_core.oauth.urls import check_browser_url, with_query
from mcp_server.auth.fetch import OWN_NETWORKS, FetchRefused, fetch, networks_named_by
from mcp_server.auth.keys import JoseVerifier, choose, public_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.oauth.metadata import AuthorizationServerMetadata
    from mcp_core.oauth.steps import HttpAnswer
    from mcp_server.auth.authorization_server.pages.flows import Departure, Journey

__all__ = ["Delegation", "DelegationFailed", "Person"]

_SKEW: Final = 60.0
"""Seconds by which clocks may differ."""
_NAMES: Final = ("preferred_username", "email", "name")
_DENIED: Final = "access_denied"
_BROKEN: Final = "server_error"


class DelegationFailed(McpError):
    """Nobody was logged in. The sentence is for the log; the client learns the error alone."""

    def __init__(self, message: str, *, error: str = _BROKEN) -> None:
        super().__init__(message)
        self.error: str = error
        """What the client is told: `access_denied` or `server_error`."""


@attrs.frozen(kw_only=True)
class Person:
    """Who logged in."""

    subject: str
    """Issuer and subject, with a number sign between: one person, whatever other server there is."""
    shown: str
    """What the person is called there."""
    auth_time: float
    """When, in seconds since the epoch."""


@attrs.frozen(kw_only=True)
class _Provider:
    metadata: AuthorizationServerMetadata
    token_endpoint: str


class Delegation:
    """People log in at another authorization server, which has to be an OpenID provider. Stands where users stand.

    Args:
        issuer: Its issuer, exactly.
        client_id: Our id there. The redirect URI to register is our issuer with `/delegation/callback` behind it.
        client_secret: Our secret there; `None`: we are a public client.
        scopes: What we ask for; `openid` is added.

    Raises:
        UnsafeUrl: The issuer is none.
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
        """Its issuer."""
        self.host: Final = self._url.origin.partition("://")[2]
        """What people are shown of it."""
        self._client: Final = ClientRecord(client_id=client_id, client_secret=client_secret, issuer=issuer)
        self._scopes: Final = tuple(dict.fromkeys(("openid", *scopes)))

    def __repr__(self) -> str:
        return f"<Delegation {self.issuer}>"

    async def start(self, departure: Departure, *, redirect_uri: str, anew: bool) -> str:
        """Where a person is sent.

        Args:
            departure: What is sent along.
            redirect_uri: Where the browser comes back to.
            anew: Whether the person has to log in even if logged in there.

        Raises:
            DelegationFailed: It cannot be found.
        """
        metadata = (await self._provider()).metadata
        endpoint = metadata.authorization_endpoint
        if endpoint is None:
            raise DelegationFailed(f"the metadata of {self.issuer} have no authorization_endpoint")
        parameters = [
            ("response_type", "code"),
            ("client_id", self._client.client_id),
            ("redirect_uri", redirect_uri),
            ("scope", " ".join(self._scopes)),
            ("state", departure.state),
            ("nonce", departure.nonce),
            ("code_challenge", departure.pkce.challenge),
            ("code_challenge_method", METHOD),
        ]
        if anew:
            parameters += [("prompt", "login"), ("max_age", "0")]
        try:
            url = check_browser_url(endpoint, what="authorization_endpoint")
            return with_query(url, parameters, what="authorization_endpoint")
        except UnsafeUrl as unsafe:
            raise DelegationFailed(unsafe.message) from unsafe

    async def finish(
        self,
        journey: Journey,
        fields: Mapping[str, Sequence[str]],
        *,
        state: str,
        redirect_uri: str,
        now: float,
        since: float | None,
    ) -> Person:
        """Who came back.

        Args:
            journey: What was written down when the person left.
            fields: What the browser brought, the values of each field.
            state: What it was found by.
            redirect_uri: Where the browser came back to.
            now: Seconds since the epoch.
            since: When the person has to have logged in at the earliest, likewise; `None`: at any time.

        Raises:
            DelegationFailed: Nobody, or nobody knows who.
        """
        provider = await self._provider()
        request = AuthorizationRequest(
            url="",
            state=state,
            pkce=Pkce(verifier=journey.verifier, challenge=""),
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
        token = await self._id_token(provider, code or "", journey.verifier, redirect_uri)
        claims = await self._verified(provider.metadata, token)
        return self._person(claims, journey.nonce, now=now, since=since)

    async def _provider(self) -> _Provider:
        """Its metadata. They are got anew for each login: people do not log in often, and endpoints and keys may change."""
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
                raise DelegationFailed(f"the metadata of {self.issuer} have no token_endpoint")
            return _Provider(metadata=metadata, token_endpoint=metadata.token_endpoint)
        raise DelegationFailed(f"{self.issuer} has no metadata at any of its well-known URLs")

    async def _get(self, url: str) -> HttpAnswer:
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
            read_token_answer(answer, issuer=self.issuer, secrets=secrets_of(sent, self._client))
        except (AuthorizationError, FetchRefused) as refused:
            raise DelegationFailed(refused.message) from refused
        token = _document(answer, "answer of the token endpoint").get("id_token")
        if not isinstance(token, str):
            raise DelegationFailed(f"{self.issuer} gave no id_token: it is no OpenID provider")
        return token

    async def _verified(self, metadata: AuthorizationServerMetadata, token: str) -> JsonObject:
        """The claims of an ID token, whose signature is right."""
        if metadata.jwks_uri is None:
            raise DelegationFailed(f"the metadata of {self.issuer} have no jwks_uri")
        document = _document(await self._get(metadata.jwks_uri), "key set")
        try:
            signed = read_signed(token, algorithms=VERIFIED_ALGORITHMS)
        except InvalidValue as bad:
            raise DelegationFailed(f"the id_token of {self.issuer} cannot be used: {bad.message}") from bad
        key = choose(public_keys(document), signed)
        if key is None or not JoseVerifier().verify(key.jwk, signed.algorithm, signed.data, signed.signature):
            raise DelegationFailed(f"the id_token of {self.issuer} is not signed by a key that it publishes")
        return signed.claims

    def _person(self, claims: JsonObject, nonce: str, *, now: float, since: float | None) -> Person:
        subject, wrong = claims.get("sub"), self._wrong(claims, nonce, now, since)
        if wrong or not isinstance(subject, str) or not subject:
            raise DelegationFailed(f"the id_token of {self.issuer} {wrong or 'has no sub'}")
        when = _number(claims.get("auth_time"))
        named = (claims.get(name) for name in _NAMES)
        return Person(
            subject=f"{self.issuer}#{subject}",
            shown=next((name for name in named if isinstance(name, str) and name), subject),
            auth_time=now if when is None else min(when, now),
        )

    def _wrong(self, claims: JsonObject, nonce: str, now: float, since: float | None) -> str | None:
        """What is wrong with an ID token. Spec: OpenID Connect Core 1.0 section 3.1.3.7"""
        audience, party = claims.get("aud"), claims.get("azp")
        audiences = audience if isinstance(audience, list) else [audience]
        ours = self._client.client_id
        if claims.get("iss") != self.issuer:
            return "is of another issuer"
        if ours not in audiences or (party is None and len(audiences) > 1) or party not in (None, ours):
            return "is for another client"
        if claims.get("nonce") != nonce:
            return "is of another login: its nonce is not ours"
        ends, made, when = (_number(claims.get(name)) for name in ("exp", "iat", "auth_time"))
        if ends is None or ends <= now - _SKEW:
            return "has expired"
        if made is None or made > now + _SKEW:
            return "was made in the future"
        if since is not None and (when is None or when < since - _SKEW):
            return "does not say that the person has just logged in, as was asked for"
        return None


def _document(answer: HttpAnswer, what: str) -> JsonObject:
    try:
        document: JsonValue = json.loads(answer.body)
    except (ValueError, RecursionError) as wrong:
        raise DelegationFailed(f"the {what} is no JSON") from wrong
    if not isinstance(document, dict):
        raise DelegationFailed(f"the {what} is no object")
    return document


def _number(value: JsonValue | None) -> float | None:
    """A time, if it is one."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
