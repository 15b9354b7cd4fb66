"""One login: the steps of a flow from the server's rejection of a request to stored tokens.

This module alone does what the flow requires: the guarded fetch sends requests, the user agent opens the browser, and
the store loads and saves records. A cancellation cannot separate the request to a token endpoint from the storage of
its result. Otherwise the client would lose the new refresh token while the old one is already used up.
"""

from __future__ import annotations

import hashlib
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import attrs
import trio

from mcp_client.auth.fetch import FetchContext, open_fetch, surroundings
from mcp_core.errors import AuthorizationError, AuthorizationRefused, McpError
from mcp_core.field_methods import FieldValue
from mcp_core.oauth.flow import Flow
from mcp_core.oauth.grants import AuthorizationCode
from mcp_core.oauth.records import Registration
from mcp_core.oauth.settings import FlowSettings
from mcp_core.oauth.steps import (
    AskClient,
    AwaitRedirect,
    BrowserOpened,
    ClientFound,
    FetchJson,
    FindClient,
    FlowDone,
    FlowFailed,
    OpenBrowser,
    PostForm,
    RedirectReceived,
    Register,
)
from mcp_core.oauth.urls import check_browser_url, networks_of, parse_url
from mcp_core.revisions import R2025_03_26, preferred
from mcp_core.trio.async_library import call_in, caller_library

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_client.auth.stores.protocol import CredentialStore
    from mcp_client.auth.user_agents import Receiver, UserAgent
    from mcp_client.transports.http.authorizer import ConnectionTarget
    from mcp_core.oauth.addresses import AddressClass
    from mcp_core.oauth.challenge import Challenge
    from mcp_core.oauth.client_metadata import ClientSettings
    from mcp_core.oauth.dpop import Proof
    from mcp_core.oauth.grants import Grant
    from mcp_core.oauth.jws import Signer
    from mcp_core.oauth.records import ClientRecord, TokenRecord
    from mcp_core.oauth.scopes import StepUps
    from mcp_core.oauth.steps import Step, StepResult
    from mcp_core.trio.guarded_fetch import GuardedFetch

    _Other: TypeAlias = FetchJson | Register | FindClient | AskClient | OpenBrowser | AwaitRedirect
    GrantGiven: TypeAlias = Grant | Callable[[], Awaitable[Grant]]

__all__ = ["Login", "LoginOptions", "LoginRequest"]

_log: Final = logging.getLogger("mcp_client")

_PERSON_SECONDS: Final = 600.0
"""Time to wait for the user, in seconds. Authorization servers time out earlier."""

_SAVE_SECONDS: Final = 10.0
"""Time to store the tokens after a cancellation, in seconds."""

_KEPT: Final = frozenset({Registration.DYNAMIC, Registration.USER_PROVIDED})
"""Registration methods whose client ids must be stored, because they are known from no other source."""

_EPHEMERAL: Final = (49_152, 16_384)
"""The first dynamic port (RFC 6335), and the number of these ports."""


_T = TypeVar("_T")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LoginOptions(FieldValue):
    """The settings of an `OAuth`."""

    client: ClientSettings
    """The settings of the client."""
    grant: GrantGiven | None
    """The grant; `None` for a login of the user in a browser."""
    store: CredentialStore
    """The store for tokens and clients."""
    user_agent: UserAgent
    """The interaction with the user."""
    credentials: tuple[ClientRecord, ...]
    """Clients that were registered manually."""
    scopes: tuple[str, ...] | None
    """The scopes to request if the server does not name any."""
    authorization_server: str | None
    """The issuer to use instead of the one that the server names."""
    signer: Signer | None
    """The client's key."""
    proof: Proof | None
    """The key that tokens are bound to."""
    networks: frozenset[AddressClass] | None
    """The networks that URLs from peers may refer to; `None` to derive them from the addresses of the server."""
    step_ups: StepUps
    """The count of requests for more scopes."""
    clock: Callable[[], float]
    """A function that returns the time, in seconds since the epoch."""
    random_bytes: Callable[[int], bytes]
    """A function that returns a number of unpredictable bytes."""

    @property
    def needs_user(self) -> bool:
        """Whether a new token requires the user."""
        return self.grant is None or (not callable(self.grant) and self.grant.redirect_uri is not None)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LoginRequest(FieldValue):
    """The reason for a login."""

    challenge: Challenge | None
    """The challenge of the server."""
    operation: str
    """The operation that the server rejected."""
    tokens: TokenRecord | None
    """The present tokens."""


class Login:
    """One attempt to obtain tokens for one server.

    Args:
        options: The settings.
        site: A connection to the server.
        attended: Returns whether a caller waits that permits prompting the user.
        keep: Receives the new tokens before they are stored, and whether they result from a refresh.
    """

    def __init__(
        self,
        options: LoginOptions,
        target: ConnectionTarget,
        *,
        attended: Callable[[], bool],
        keep: Callable[[TokenRecord, bool], None],
    ) -> None:
        self._options: Final = options
        self._target: Final = target
        self._attended: Final = attended
        self._keep: Final = keep
        self._receiver: Receiver | None = None
        self._client: ClientRecord | None = None
        self.lacked_user: bool = False
        """Whether the login ended because it required the user and no caller waited that permits this."""
        self.unsaved: bool = False
        """Whether new tokens could not be stored."""
        self.void: bool = False
        """Whether the authorization server declared the present tokens invalid."""

    async def run(self, request: LoginRequest) -> None:
        """Obtain tokens.

        Raises:
            McpError: The login failed. The stored tokens are unchanged, unless the authorization server declared them
                invalid.
        """
        around = await self._surroundings()
        fetch = open_fetch(self._target, around)
        try:
            # Raised here, because a nursery around the block of the user agent would wrap the error in a group.
            failed = await self._with_browser(request, fetch)
        finally:
            with trio.CancelScope(shield=True):
                await fetch.aclose()
        if failed is not None:
            await self._forget(failed)
            raise failed.error

    async def _surroundings(self) -> FetchContext:
        options = self._options
        if options.networks is not None:
            return FetchContext(networks=options.networks)
        around = await surroundings(self._target)
        if options.authorization_server is None:
            return around
        named = networks_of(check_browser_url(options.authorization_server, what="authorization_server"))
        return attrs.evolve(around, networks=around.networks | named)

    async def _with_browser(self, request: LoginRequest, fetch: GuardedFetch) -> FlowFailed | None:
        options = self._options
        grant = options.grant
        if grant is not None and callable(grant):
            grant = await call_in(caller_library(), grant)
        async with AsyncExitStack() as stack:
            if grant is None or grant.redirect_uri is not None:
                port = _port_for(self._target.url, options.client.client_name, request.tokens)
                try:
                    self._receiver = await stack.enter_async_context(options.user_agent.receive(port))
                except OSError as error:
                    raise AuthorizationError(f"cannot listen for the redirect of the browser: {error}") from error
                grant = grant or AuthorizationCode(redirect_uri=self._receiver.redirect_uri)
            flow = Flow(
                self._settings(grant, fetch.networks),
                random_bytes=options.random_bytes,
                step_ups=options.step_ups,
                operation=request.operation,
            )
            first = flow.start(options.clock(), challenge=request.challenge, tokens=request.tokens)
            return await self._walk(flow, first, fetch)
        # The user agent ended its own block, for example by a deadline.
        raise AuthorizationRefused("the user agent cancelled the login")

    def _settings(self, grant: Grant, networks: frozenset[AddressClass]) -> FlowSettings:
        options, revisions = self._options, self._target.revisions
        newest = preferred(revisions)
        return FlowSettings(
            server_url=self._target.url,
            grant=grant,
            client=options.client,
            credentials=options.credentials,
            authorization_server=options.authorization_server,
            scopes=options.scopes,
            protocol_version=None if newest is None else newest.name,
            legacy=R2025_03_26 in revisions,
            networks=networks,
            signer=options.signer,
            proof=options.proof,
        )

    # --- the steps -------------------------------------------------------------------------------------------------

    async def _walk(self, flow: Flow, step: Step, fetch: GuardedFetch) -> FlowFailed | None:
        """Run the steps. Return `None` when tokens were obtained; they are then stored if the store works."""
        while not isinstance(step, FlowDone | FlowFailed):
            if isinstance(step, PostForm):
                step = await self._post(flow, step, fetch)
                continue
            try:
                answer = await self._answer(step, fetch)
            except _LoginAbandoned as abandoned:
                failed = flow.abandon(abandoned.reason)
                failed.error.__cause__ = abandoned.__cause__
                return failed
            step = flow.receive(answer, self._options.clock())
            await self._keep_client(flow)
        return step if isinstance(step, FlowFailed) else None

    async def _answer(self, step: _Other, fetch: GuardedFetch) -> StepResult:
        match step:
            case FetchJson() | Register():
                return await fetch.perform(step)
            case FindClient():
                self._client = await self._kept_client(step.issuer)
                return ClientFound(client=self._client)
            case AskClient():
                self._check_attended()
                agent = self._options.user_agent
                return ClientFound(client=await _from_user(lambda: agent.ask_client(step.issuer, step.reason)))
            case OpenBrowser():
                self._check_attended()
                receiver, url = self._waiting, step.url
                await _from_user(lambda: receiver.open(url))
                return BrowserOpened()
            case AwaitRedirect():
                return RedirectReceived(url=await _from_user(self._waiting.redirected))

    async def _kept_client(self, issuer: str) -> ClientRecord | None:
        try:
            return await self._options.store.load_client(issuer)
        except McpError as error:
            raise _LoginAbandoned(error.message) from error

    @property
    def _waiting(self) -> Receiver:
        if self._receiver is None:
            raise _LoginAbandoned("the grant requires a browser but has no redirect URI")
        return self._receiver

    def _check_attended(self) -> None:
        if not self._attended():
            self.lacked_user = True
            raise _LoginAbandoned("the user would have to log in, but only a background stream waits for the login")

    async def _post(self, flow: Flow, step: PostForm, fetch: GuardedFetch) -> Step:
        """Send a request to a token endpoint and store its result. A cancellation takes effect after the end."""
        with trio.CancelScope(shield=True):
            # The fetch has its own time limit.
            answer = await fetch.perform(step)
        following = flow.receive(answer, self._options.clock())
        if isinstance(following, FlowDone):
            self._keep(following.tokens, step.why == "refresh")
            await self._save(following.tokens)
        return following

    async def _save(self, tokens: TokenRecord) -> None:
        url, self.unsaved = self._target.url, True
        try:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + _SAVE_SECONDS) as scope:
                await self._options.store.save_tokens(url, tokens)
                self.unsaved = False
            if scope.cancelled_caught:
                _log.warning("tokens not stored, but used: server=%s error=the store timed out", url)
        except McpError as error:
            _log.warning("tokens not stored, but used: server=%s error=%s", url, error)

    async def _keep_client(self, flow: Flow) -> None:
        client = flow.client
        if client is None or client.issuer is None or client == self._client or client.registration not in _KEPT:
            return
        self._client = client
        try:
            await self._options.store.save_client(client.issuer, client)
        except McpError as error:
            _log.warning("client id not stored, but used: issuer=%s error=%s", client.issuer, error)

    async def _forget(self, failed: FlowFailed) -> None:
        """Delete the stored tokens that the authorization server declared invalid, unless they were replaced."""
        if failed.forget is None:
            return
        self.void = True
        store, url = self._options.store, self._target.url
        kept = await store.load_tokens(url)
        if kept is not None and kept.refresh_token == failed.forget.refresh_token:
            await store.save_tokens(url, None)


class _LoginAbandoned(Exception):
    """The flow cannot continue. The reason is a text for users."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason: Final = reason


async def _from_user(ask: Callable[[], Awaitable[_T]]) -> _T:
    """Run a function of the user agent, which belongs to the application. Any exception ends the login."""
    try:
        with trio.move_on_after(_PERSON_SECONDS):
            return await ask()
    except McpError as error:
        raise _LoginAbandoned(error.message) from error
    except Exception as error:  # the application's function, in a task that several callers wait for
        raise _LoginAbandoned(f"the user agent failed: {error!r}") from error
    raise _LoginAbandoned(f"login timed out: no redirect from the browser within {_PERSON_SECONDS:g} seconds")


def _port_for(server_url: str, client_name: str, tokens: TokenRecord | None) -> int:
    """Return the port of the redirect URI: that of the registration, or else one that is the same each time.

    A registration is valid only for its redirect URI, and some authorization servers require the same port.
    """
    client = None if tokens is None else tokens.client
    for uri in () if client is None else client.redirect_uris:
        url = parse_url(uri, what="redirect URI")
        if url.is_loopback:
            return url.port
    digest = hashlib.sha256(f"{server_url}\n{client_name}".encode()).digest()
    first, number = _EPHEMERAL
    return first + int.from_bytes(digest[:4], "big") % number
