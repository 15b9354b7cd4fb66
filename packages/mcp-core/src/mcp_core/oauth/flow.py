"""The client's way to a token, from whatever the server said to a record that can be kept: one machine without I/O.

A `Flow` is for one attempt. `start` hands out the first step; each step is done by the driver and answered by `receive`,
which hands out the next one, until `Done` or `Failed`. `Flow.client` is the client that is used, as soon as it is known:
to be kept by its issuer when it was registered, whatever becomes of the flow.

What `start` is given decides the course:

=================================  ==============================================================================
given                              course
=================================  ==============================================================================
no challenge, no tokens            discovery, client, grant
no challenge, tokens               refresh where they came from; else as below
a challenge, tokens                discovery; refresh if the authorization server is still the same and no scope is
                                   missing; else client, grant
`insufficient_scope`, tokens       discovery, client, grant, with all scopes of before: a refresh cannot widen them
=================================  ==============================================================================

A refresh that is refused leads to the grant; a client that is unknown all of a sudden is registered anew, once. That two
flows do not refresh with the same token at the same time is the driver's care.

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
from mcp_core.oauth.steps import Done, Failed
from mcp_core.oauth.token_endpoint import TokenEndpoint
from mcp_core.oauth.token_presentation import BEARER
from mcp_core.oauth.tokens import can_authenticate, choose_auth_method, refresh_form
from mcp_core.oauth.urls import check_peer_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.oauth.challenge import Challenge
    from mcp_core.oauth.discovery import Discovered
    from mcp_core.oauth.dpop import Proof
    from mcp_core.oauth.records import AuthMethod, ClientRecord
    from mcp_core.oauth.settings import FlowSettings
    from mcp_core.oauth.steps import Answer, Running, Step
    from mcp_core.oauth.tokens import TokenAnswer

__all__ = ["Flow"]

_CLIENT_UNKNOWN: Final = frozenset({"invalid_client", "unauthorized_client"})
"""What a token endpoint says to a client that it has forgotten."""


class Flow:
    """One attempt to get a token.

    Args:
        settings: What stays the same.
        random_bytes: Gives so many unpredictable bytes, as `secrets.token_bytes`.
        step_ups: Counts how often more scopes are asked for; to be shared by all flows of a client.
        operation: What the token is wanted for, as `tools/call forecast`; counted by `step_ups`.

    Raises:
        UnsafeUrl: The URL of the server is none that tokens can be sent to.
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
        """What it runs with."""
        self.client: ClientRecord | None = None
        """The client at the authorization server, as soon as it is known."""
        self.found: Discovered | None = None
        """The authorization server and what the server says of itself, as soon as they are known."""
        self.discovery: Final = Discovery(
            settings.server_url,
            networks=settings.networks,
            authorization_server=settings.authorization_server,
            preferred=[client.issuer for client in settings.credentials if client.issuer is not None],
            protocol_version=settings.protocol_version,
            legacy=settings.legacy,
        )
        """What was tried so far: `discovery.attempts`."""
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
        """Begins.

        Args:
            now: Seconds since the epoch.
            challenge: What the server said, see `mcp_core.oauth.challenge.choose_challenge`.
            tokens: What was kept for this server.

        Returns:
            The first step.

        Raises:
            LocalProtocolError: The flow has begun already, or the tokens are for another server.
        """
        if self._step is not None:
            raise LocalProtocolError("a flow is for one attempt; this one has begun already")
        if tokens is not None and tokens.server_url != self.settings.server_url:
            raise LocalProtocolError(f"tokens for {tokens.server_url} are no use at {self.settings.server_url}")
        self._now = now
        self._bound = challenge is not None and challenge.is_scheme(DPOP)
        self._running = self._run(challenge, tokens)
        return self._advance(None)

    def receive(self, answer: Answer, now: float) -> Step:
        """Takes the answer to the last step.

        Args:
            answer: Of the kind that the step is answered by.
            now: Seconds since the epoch.

        Returns:
            The next step.

        Raises:
            LocalProtocolError: There is no step that it could be the answer to. The flow goes on.
        """
        if self._step is None or not isinstance(answer, self._step.answered_by):
            step = "no step" if self._step is None else type(self._step).__name__
            raise LocalProtocolError(f"{type(answer).__name__} is no answer to {step}")
        self._now = now
        return self._advance(answer)

    def _advance(self, answer: Answer | None) -> Step:
        assert self._running is not None  # noqa: S101  # there is a step, so it runs
        try:
            # A generator that has not begun takes nothing.
            step: Step = next(self._running) if answer is None else self._running.send(answer)
        except StopIteration as end:
            tokens: TokenRecord = end.value
            step = Done(tokens=tokens)
        except AuthorizationError as error:
            return self._failed(error)
        self._step = step
        return step

    def abandon(self, reason: str) -> Failed:
        """Ends the flow from outside: nobody is there to consent, a deadline passed.

        Args:
            reason: Why, in a sentence for people.

        Returns:
            The last step, with `AuthorizationRefused`, or `InsufficientScope` where more scopes were about to be asked for.

        Raises:
            LocalProtocolError: The flow has not begun, or is over.
        """
        if self._running is None or self._step is None or not self._step.answered_by:
            raise LocalProtocolError("there is nothing to abandon: the flow has not begun, or is over")
        self._running.close()
        error = AuthorizationRefused(reason) if self._lacking is None else self._lacking(reason)
        return self._failed(error)

    def _failed(self, error: AuthorizationError) -> Failed:
        error.attempts = tuple(self.discovery.attempts)
        if isinstance(error, InsufficientScope):
            error.authorization_url = self._authorization_url
        self._step = failed = Failed(error=error, forget=self._void)
        return failed

    def _run(self, challenge: Challenge | None, tokens: TokenRecord | None) -> Running[TokenRecord]:
        """The course, see the head of the module."""
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
        """A new token without the person; `None` when that cannot be, or is refused for good."""
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
                # Nothing is known of the token. Nobody is to be bothered for a network that fails.
                raise
            self._void = tokens
            self._forget_client(refused)
            return None
        return attrs.evolve(
            tokens,
            access_token=answer.access_token,
            token_type=answer.token_type,
            expires_at=self._end(answer),
            # Without another one the old one stays good.
            refresh_token=answer.refresh_token or tokens.refresh_token,
            scopes=tokens.scopes if answer.scopes is None else answer.scopes,
            client=client,
        )

    def _refreshing_client(self, tokens: TokenRecord) -> ClientRecord | None:
        """Who got the tokens; with the secret of today, where it is configured."""
        client = tokens.client
        for configured in self.settings.credentials:
            same = client is not None and configured.client_id == client.client_id
            if client is not None and same and configured.issuer in (None, tokens.issuer):
                return attrs.evolve(client, client_secret=configured.client_secret)
        return client

    def _granted(self, found: Discovered, scopes: tuple[str, ...], before: str | None) -> Running[TokenRecord]:
        """A new token by the grant. A registration that was kept and is void leads to a second round."""
        self.settings.grant.check(found)
        server = found.server
        if server.token_endpoint is None:
            raise DiscoveryFailed(f"the metadata of {server.issuer} have no token_endpoint")
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

    def _identify(self, found: Discovered, before: str | None) -> Running[AuthMethod | None]:
        """Finds the client, and how it authenticates."""
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

    def _context(self, found: Discovered, scopes: tuple[str, ...], proof: Proof | None) -> GrantContext:
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
        """Whether the authorization server has lost a registration, so that another one is worth a try. Once."""
        client = self.client
        if client is None or client.registration is not Registration.DYNAMIC or self._refused:
            return False
        if refused.error not in _CLIENT_UNKNOWN:
            return False
        self._refused = frozenset({client.client_id})
        return True

    def _proof(self, found: Discovered) -> tuple[Proof | None, bool]:
        """The proof, if tokens of this authorization server are to be bound to a key, and whether they have to be."""
        proof, resource = self.settings.proof, found.protected_resource
        required = self._bound or (resource is not None and resource.dpop_bound_access_tokens_required)
        listed = found.server.dpop_signing_alg_values_supported
        if proof is not None and (required if listed is None else proof.algorithm in listed):
            return proof, required
        if required:
            lacking = "there is no key" if proof is None else f"{found.server.issuer} does not know {proof.algorithm}"
            raise DiscoveryFailed(f"{found.resource} takes only tokens that are bound to a key by DPoP, and {lacking}")
        return None, False

    def _end(self, answer: TokenAnswer) -> float | None:
        return None if answer.expires_in is None else self._now + answer.expires_in

    def _record(self, found: Discovered, answer: TokenAnswer, scopes: tuple[str, ...]) -> TokenRecord:
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


def _check_type(answer: TokenAnswer, proof: Proof | None, *, required: bool) -> None:
    """Whether we can use a token of this type.

    Raises:
        TokenRefused: We cannot.
    """
    if answer.token_type == BEARER and not required:
        return
    if proof is None or answer.token_type != proof.token_type:
        wanted = BEARER if proof is None else proof.token_type
        sentence = f"the token that came is of type {answer.token_type[:100]!a}; one of type {wanted} was wanted"
        raise TokenRefused(sentence, status=200)
