"""The client's authorization flow, from a challenge or stored tokens to a new token: a state machine without I/O.

A `Flow` is one attempt. `start` returns the first step. The caller performs each step and passes the result to
`receive`, which returns the next step, until `FlowDone` or `FlowFailed`. `Flow.client` is the client of the flow, once it is
known. The caller must store a registered client by its issuer, whatever the outcome of the flow.

The arguments of `start` determine the course:

=================================  ==============================================================================
arguments                          course
=================================  ==============================================================================
no challenge, no tokens            discovery, client, grant
no challenge, tokens               refresh at the stored endpoint; if that fails, as below
a challenge, tokens                discovery; refresh if the authorization server is still the same and no scope is
                                   missing; otherwise client, grant
`insufficient_scope`, tokens       discovery, client, grant, with all previous scopes: a refresh cannot add scopes
=================================  ==============================================================================

A rejected refresh leads to the grant. A client that the server has forgotten is registered again, once. The caller must
ensure that two flows do not refresh with the same token at the same time.

Spec: basic/authorization
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.errors import (
    AuthorizationError,
    AuthorizationRefused,
    DiscoveryFailed,
    InsufficientScope,
    LocalProtocolError,
    TokenRefused,
)
from mcp_core.oauth.discovery import Discovery
from mcp_core.oauth.dpop import DPOP
from mcp_core.oauth.grants import GrantContext
from mcp_core.oauth.records import Registration, TokenRecord
from mcp_core.oauth.registration import Registrar
from mcp_core.oauth.scopes import StepUps, select_scopes
from mcp_core.oauth.steps import FlowDone, FlowFailed
from mcp_core.oauth.token_endpoint import TokenEndpoint
from mcp_core.oauth.token_presentation import BEARER
from mcp_core.oauth.tokens import can_authenticate, choose_auth_method, refresh_form
from mcp_core.oauth.urls import check_peer_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.oauth.challenge import Challenge
    from mcp_core.oauth.discovery import DiscoveryResult
    from mcp_core.oauth.dpop import Proof
    from mcp_core.oauth.records import AuthMethod, ClientRecord
    from mcp_core.oauth.settings import FlowSettings
    from mcp_core.oauth.steps import Running, Step, StepResult
    from mcp_core.oauth.tokens import TokenResponse

__all__ = ["Flow"]

_CLIENT_UNKNOWN: Final = frozenset({"invalid_client", "unauthorized_client"})
"""Errors of a token endpoint for a client that the server has forgotten."""


class Flow:
    """One attempt to obtain a token.

    Args:
        settings: The settings, which are the same for all flows of a client.
        random_bytes: Returns the given number of unpredictable bytes, like `secrets.token_bytes`.
        step_ups: Counts the requests for more scopes. Share it between all flows of a client.
        operation: The operation that requires the token, for example `tools/call forecast`. `step_ups` counts by it.

    Raises:
        UnsafeUrl: Tokens must not be sent to the URL of the server.
    """

    def __init__(
        self,
        settings: FlowSettings,
        *,
        random_bytes: Callable[[int], bytes],
        step_ups: StepUps | None = None,
        operation: str = "",
    ) -> None:
        self.settings: Final = settings
        """The settings of the flow."""
        self.client: ClientRecord | None = None
        """The client at the authorization server; `None` until it is known."""
        self.found: DiscoveryResult | None = None
        """The metadata of the authorization server and of the resource; `None` until they are known."""
        self.discovery: Final = Discovery(
            settings.server_url,
            networks=settings.networks,
            authorization_server=settings.authorization_server,
            preferred=[client.issuer for client in settings.credentials if client.issuer is not None],
            protocol_version=settings.protocol_version,
            legacy=settings.legacy,
        )
        """The discovery. `discovery.attempts` has all URLs tried so far."""
        self._random_bytes: Final = random_bytes
        self._step_ups: Final = StepUps() if step_ups is None else step_ups
        self._operation: Final = operation
        self._now = 0.0
        self._running: Running[TokenRecord] | None = None
        self._step: Step | None = None
        self._void: TokenRecord | None = None
        self._refused: frozenset[str] = frozenset()
        self._authorization_url: str | None = None
        self._lacking: Callable[[str], InsufficientScope] | None = None
        self._bound = False

    def start(self, now: float, *, challenge: Challenge | None = None, tokens: TokenRecord | None = None) -> Step:
        """Start the flow.

        Args:
            now: Seconds since the epoch.
            challenge: The challenge of the server, see `mcp_core.oauth.challenge.choose_challenge`.
            tokens: The stored tokens for this server.

        Returns:
            The first step.

        Raises:
            LocalProtocolError: The flow has started already, or the tokens belong to another server.
        """
        if self._step is not None:
            raise LocalProtocolError("the flow has started already: create a new Flow for each attempt")
        if tokens is not None and tokens.server_url != self.settings.server_url:
            raise LocalProtocolError(f"the tokens are for {tokens.server_url}, not for {self.settings.server_url}")
        self._now = now
        self._bound = challenge is not None and challenge.is_scheme(DPOP)
        self._running = self._run(challenge, tokens)
        return self._advance(None)

    def receive(self, answer: StepResult, now: float) -> Step:
        """Process the result of the last step.

        Args:
            answer: The result, of the class that the step expects.
            now: Seconds since the epoch.

        Returns:
            The next step.

        Raises:
            LocalProtocolError: No step is pending, or it expects a result of another class. The flow remains usable.
        """
        if self._step is None or not isinstance(answer, self._step.answered_by):
            step = "no step" if self._step is None else type(self._step).__name__
            raise LocalProtocolError(f"{type(answer).__name__} is not a result of {step}")
        self._now = now
        return self._advance(answer)

    def _advance(self, answer: StepResult | None) -> Step:
        assert self._running is not None  # noqa: S101  # there is a step, so the generator exists
        try:
            # A generator that has not started accepts no value.
            step: Step = next(self._running) if answer is None else self._running.send(answer)
        except StopIteration as end:
            tokens: TokenRecord = end.value
            step = FlowDone(tokens=tokens)
        except AuthorizationError as error:
            return self._failed(error)
        self._step = step
        return step

    def abandon(self, reason: str) -> FlowFailed:
        """End the flow early, for example because no user is available for consent, or because of a timeout.

        Args:
            reason: The reason, in one sentence for users.

        Returns:
            The last step, with `AuthorizationRefused`, or with `InsufficientScope` if the flow was requesting more
            scopes.

        Raises:
            LocalProtocolError: The flow has not started, or is over.
        """
        if self._running is None or self._step is None or not self._step.answered_by:
            raise LocalProtocolError("the flow cannot be abandoned: it has not started, or is over")
        self._running.close()
        error = AuthorizationRefused(reason) if self._lacking is None else self._lacking(reason)
        return self._failed(error)

    def _failed(self, error: AuthorizationError) -> FlowFailed:
        error.attempts = tuple(self.discovery.attempts)
        if isinstance(error, InsufficientScope):
            error.authorization_url = self._authorization_url
        self._step = failed = FlowFailed(error=error, forget=self._void)
        return failed

    def _run(self, challenge: Challenge | None, tokens: TokenRecord | None) -> Running[TokenRecord]:
        """Run the course in the docstring of the module."""
        if challenge is None and tokens is not None:
            refreshed = yield from self._refresh(tokens)
            if refreshed is not None:
                return refreshed
        found = self.found = yield from self.discovery.run(challenge)
        self._authorization_url = found.server.authorization_endpoint
        same = tokens is not None and (tokens.issuer, tokens.resource) == (found.server.issuer, found.resource)
        previous = tokens if same else None
        if challenge is not None and previous is not None:
            if challenge.wants_more_scope:
                self._step_up(previous, challenge.scopes)
            elif set(challenge.scopes) <= {*previous.requested_scopes, *previous.scopes}:
                refreshed = yield from self._refresh(previous)
                if refreshed is not None:
                    return refreshed
        scopes = select_scopes(
            found,
            challenge=challenge,
            configured=self.settings.scopes,
            previous=previous,
            refreshable=self.settings.grant.refreshable,
        )
        return (yield from self._granted(found, scopes, None if tokens is None else tokens.issuer))

    def _step_up(self, tokens: TokenRecord, required: tuple[str, ...]) -> None:
        self._step_ups.take(tokens, self._operation, required)
        self._lacking = lambda reason: InsufficientScope(reason, required=required, granted=tokens.scopes)

    def _refresh(self, tokens: TokenRecord) -> Running[TokenRecord | None]:
        """Refresh the token without the user; `None` if that is impossible, or the refresh token was rejected."""
        proof = self.settings.proof if tokens.token_type != BEARER else None
        client = self._refreshing_client(tokens)
        able = client is None or can_authenticate(client, has_key=self.settings.signer is not None)
        if tokens.refresh_token is None or (tokens.token_type != BEARER and proof is None) or not able:
            return None
        url = check_peer_url(tokens.token_endpoint, what="token_endpoint", networks=self.discovery.networks).text
        endpoint = self._endpoint(url, tokens.issuer, client, None if client is None else client.auth_method, proof)
        self.client = client
        try:
            answer = yield from endpoint.run(refresh_form(tokens.refresh_token, resource=tokens.resource), "refresh")
            _check_type(answer, proof, required=proof is not None)
        except TokenRefused as refused:
            if refused.status is None or refused.status >= 500 or refused.status == 429:
                # The state of the token is unknown. A network failure must not lead to a new login.
                raise
            self._void = tokens
            self._forget_client(refused)
            return None
        return attrs.evolve(
            tokens,
            access_token=answer.access_token,
            token_type=answer.token_type,
            expires_at=self._end(answer),
            # Without a new refresh token the previous one remains valid.
            refresh_token=answer.refresh_token or tokens.refresh_token,
            scopes=tokens.scopes if answer.scopes is None else answer.scopes,
            client=client,
        )

    def _refreshing_client(self, tokens: TokenRecord) -> ClientRecord | None:
        """Return the client that received the tokens, with its current configured secret if there is one."""
        client = tokens.client
        for configured in self.settings.credentials:
            same = client is not None and configured.client_id == client.client_id
            if client is not None and same and configured.issuer in (None, tokens.issuer):
                return attrs.evolve(client, client_secret=configured.client_secret)
        return client

    def _granted(self, found: DiscoveryResult, scopes: tuple[str, ...], before: str | None) -> Running[TokenRecord]:
        """Obtain a new token with the grant. If a stored registration is void, try again with a new registration."""
        self.settings.grant.check(found)
        server = found.server
        if server.token_endpoint is None:
            raise DiscoveryFailed(f"the metadata of {server.issuer} has no token_endpoint")
        url = check_peer_url(server.token_endpoint, what="token_endpoint", networks=self.discovery.networks).text
        proof, required = self._proof(found)
        while True:
            method = yield from self._identify(found, before)
            form = yield from self.settings.grant.form(self._context(found, scopes, proof))
            endpoint = self._endpoint(url, server.issuer, self.client, method, proof)
            try:
                answer = yield from endpoint.run(form, f"token by {form[0][1].rpartition(':')[2]}")
                _check_type(answer, proof, required=required)
            except TokenRefused as refused:
                if not self._forget_client(refused):
                    raise
            else:
                return self._record(found, answer, scopes)

    def _identify(self, found: DiscoveryResult, before: str | None) -> Running[AuthMethod | None]:
        """Determine the client, and its authentication method."""
        grant, settings = self.settings.grant, self.settings
        if not grant.ways:
            self.client = None
            return None
        registrar = Registrar(
            server=found.server,
            discovery=self.discovery,
            settings=settings.client,
            ways=grant.ways,
            configured=settings.credentials,
            redirect_uri=grant.redirect_uri,
            signer=settings.signer,
            previous_issuer=before,
            refused=self._refused,
            now=self._now,
        )
        client = yield from registrar.run()
        method = choose_auth_method(client, found.server, has_key=settings.signer is not None)
        self.client = attrs.evolve(client, auth_method=method)
        return method

    def _context(self, found: DiscoveryResult, scopes: tuple[str, ...], proof: Proof | None) -> GrantContext:
        return GrantContext(
            found=found,
            discovery=self.discovery,
            client=self.client,
            scopes=scopes,
            signer=self.settings.signer,
            key_id=None if proof is None else proof.key_id,
            random_bytes=self._random_bytes,
            clock=lambda: self._now,
        )

    def _endpoint(
        self, url: str, issuer: str, client: ClientRecord | None, method: AuthMethod | None, proof: Proof | None
    ) -> TokenEndpoint:
        return TokenEndpoint(
            url=url,
            issuer=issuer,
            discovery=self.discovery,
            client=client,
            method=method,
            signer=self.settings.signer,
            proof=proof,
            random_bytes=self._random_bytes,
            clock=lambda: self._now,
        )

    def _forget_client(self, refused: TokenRefused) -> bool:
        """Return whether the server has forgotten a registered client, so that the flow registers again (once)."""
        client = self.client
        if client is None or client.registration is not Registration.DYNAMIC or self._refused:
            return False
        if refused.error not in _CLIENT_UNKNOWN:
            return False
        self._refused = frozenset({client.client_id})
        return True

    def _proof(self, found: DiscoveryResult) -> tuple[Proof | None, bool]:
        """Return the proof to bind tokens to, or `None`, and whether the binding is required."""
        proof, resource = self.settings.proof, found.protected_resource
        required = self._bound or (resource is not None and resource.dpop_bound_access_tokens_required)
        listed = found.server.dpop_signing_alg_values_supported
        if proof is not None and (required if listed is None else proof.algorithm in listed):
            return proof, required
        if required:
            lacking = (
                "there is no key" if proof is None else f"{found.server.issuer} does not support {proof.algorithm}"
            )
            raise DiscoveryFailed(
                f"{found.resource} accepts only tokens that are bound to a key with DPoP, and {lacking}"
            )
        return None, False

    def _end(self, answer: TokenResponse) -> float | None:
        return None if answer.expires_in is None else self._now + answer.expires_in

    def _record(self, found: DiscoveryResult, answer: TokenResponse, scopes: tuple[str, ...]) -> TokenRecord:
        return TokenRecord(
            access_token=answer.access_token,
            token_type=answer.token_type,
            expires_at=self._end(answer),
            refresh_token=answer.refresh_token,
            scopes=scopes if answer.scopes is None else answer.scopes,
            requested_scopes=scopes,
            resource=found.resource,
            server_url=self.settings.server_url,
            token_endpoint=found.server.token_endpoint or "",
            issuer=found.server.issuer,
            client=self.client,
        )


def _check_type(answer: TokenResponse, proof: Proof | None, *, required: bool) -> None:
    """Check that the client can use a token of this type.

    Raises:
        TokenRefused: The client cannot use a token of this type.
    """
    if answer.token_type == BEARER and not required:
        return
    if proof is None or answer.token_type != proof.token_type:
        wanted = BEARER if proof is None else proof.token_type
        sentence = f"the token has the type {answer.token_type[:100]!a}; expected: {wanted}"
        raise TokenRefused(sentence, status=200)
