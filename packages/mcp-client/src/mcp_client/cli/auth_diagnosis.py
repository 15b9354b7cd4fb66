"""`mcp-client diagnose-auth URL`: report what a login at this server would do, without performing it.

The diagnosis connects to the server without a token and passes the server's challenge to the flow that a login uses. It
fetches the documents. It gives the flow a placeholder instead of registering the client, and ends where the login would
open a browser. Therefore it reports the result of a login without requesting a token, registering a client, prompting
the user or storing data.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

import attrs
import orjson
import trio

from mcp_client.auth.fetch import open_fetch, surroundings
from mcp_client.cli.login import NAME
from mcp_core.errors import McpError
from mcp_core.oauth.challenge import choose_challenge, read_challenges
from mcp_core.oauth.client_metadata import ClientSettings
from mcp_core.oauth.flow import Flow
from mcp_core.oauth.grants import AuthorizationCode
from mcp_core.oauth.settings import FlowSettings
from mcp_core.oauth.steps import (
    AskClient,
    ClientFound,
    FetchedResponse,
    FetchJson,
    FindClient,
    FlowFailed,
    OpenBrowser,
    Register,
)
from mcp_core.revisions import R2025_03_26, preferred

if TYPE_CHECKING:
    from mcp_client.auth.stores.protocol import CredentialStore
    from mcp_client.transports.http.authorizer import ConnectionTarget, ObservedResponse
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.challenge import Challenge
    from mcp_core.oauth.discovery import DiscoveryResult
    from mcp_core.oauth.steps import Pairs, Step
    from mcp_core.trio.guarded_fetch import GuardedFetch

__all__ = ["Diagnosis"]

_REDIRECT_URI: Final = "http://127.0.0.1/callback"


class Diagnosis:
    """A replacement for `OAuth` that records the server's responses and sends no credentials.

    Args:
        store: The store in which a login would search for an earlier registration.
    """

    def __init__(self, store: CredentialStore) -> None:
        self.answers: Final[list[tuple[str, int]]] = []
        """The operations, with the status of each response."""
        self.refused: bool = False
        """Whether the server required a token."""
        self.challenge: Challenge | None = None
        """The challenge of the server."""
        self.statuses: Final[dict[str, int]] = {}
        """The status of each fetched document, by URL."""
        self.registration: str | None = None
        """How the client would obtain its id."""
        self.client_id: str | None = None
        """The client id, if it is known."""
        self.sent_to: str | None = None
        """The authorization URL that the browser would open."""
        self.error: McpError | None = None
        """The error of a login, or the reason why the diagnosis did not start."""
        self.flow: Flow | None = None
        """The flow of the diagnosed login."""
        self._store: Final = store
        self._target: ConnectionTarget | None = None

    @property
    def extensions(self) -> tuple[str, ...]:
        """Empty: a diagnosis does not obtain tokens."""
        return ()

    def authorizer(self, target: ConnectionTarget) -> Diagnosis:
        """Record the connection, and return the diagnosis itself."""
        self._target = target
        return self

    async def headers(self, method: str, url: str) -> Pairs:  # noqa: ARG002  # there are no credentials
        """Return no headers."""
        await trio.lowlevel.checkpoint()
        return ()

    async def identity(self) -> str | None:
        """Return `None`: the requests have no credentials."""
        await trio.lowlevel.checkpoint()
        return None

    def answered(self, answer: ObservedResponse) -> bool:
        """Record the response. Return false, because the diagnosis does not handle rejections."""
        self.answers.append((answer.operation, answer.status))
        if answer.status in (401, 403) and not self.refused:
            self.refused = True
            values = [value for name, value in answer.headers if name == "www-authenticate"]
            self.challenge = choose_challenge(read_challenges(values), schemes=("Bearer", "DPoP"))
        return False

    async def renew(self, answer: ObservedResponse) -> None:
        """Raise `AssertionError`: `answered` never requests a renewal."""
        raise AssertionError(answer)

    @property
    def found(self) -> DiscoveryResult | None:
        """The authorization server, if discovery found it."""
        return None if self.flow is None else self.flow.found

    async def run(self) -> None:
        """Run a login up to the browser. Errors are recorded in `error`, not raised."""
        assert self._target is not None  # noqa: S101  # there was a connection, or an attempt at one
        target, newest = self._target, preferred(self._target.revisions)
        around = await surroundings(target)
        fetch = open_fetch(target, around)
        try:
            self.flow = flow = Flow(
                FlowSettings(
                    server_url=target.url,
                    grant=AuthorizationCode(redirect_uri=_REDIRECT_URI),
                    client=ClientSettings(client_name=NAME, redirect_uris=(_REDIRECT_URI,)),
                    protocol_version=None if newest is None else newest.name,
                    # The default paths do not indicate that the server requires a token.
                    legacy=self.refused and R2025_03_26 in target.revisions,
                    networks=fetch.networks,
                ),
                random_bytes=secrets.token_bytes,
            )
            step: Step | None = flow.start(time.time(), challenge=self.challenge)
            while step is not None:
                step = await self._next(step, flow, fetch)
        except McpError as error:
            self.error = error
        finally:
            with trio.CancelScope(shield=True):
                await fetch.aclose()

    async def _next(self, step: Step, flow: Flow, fetch: GuardedFetch) -> Step | None:
        """Perform a step, or record what it would do. Return `None` at the end."""
        now = time.time()
        match step:
            case FetchJson():
                answer = await fetch.perform(step)
                if isinstance(answer, FetchedResponse):
                    self.statuses[step.url] = answer.status
                return flow.receive(answer, now)
            case FindClient():
                kept = await self._store.load_client(step.issuer)
                if kept is not None:
                    self.registration, self.client_id = f"stored earlier ({kept.registration.value})", kept.client_id
                    # A login would reuse the port of the stored registration.
                    kept = attrs.evolve(kept, redirect_uris=())
                return flow.receive(ClientFound(client=kept), now)
            case Register():
                self.registration = f"dynamic, at {step.url}; not performed"
                made: JsonObject = {"client_id": "diagnosis", "redirect_uris": [_REDIRECT_URI]}
                return flow.receive(FetchedResponse(status=201, body=orjson.dumps(made)), now)
            case AskClient():
                self.registration = "none: the user would have to enter a client id"
                return flow.receive(ClientFound(client=None), now)
            case OpenBrowser():
                self.sent_to = step.url
                return None
            case FlowFailed():
                self.error = step.error
                return None
        raise AssertionError(step)
