"""`mcp-client diagnose-auth URL`: what a login at this server would do, told without doing it.

The server is asked as it always is, without a token. What it says goes into the same flow as a login's. Documents are really
fetched; where the client would be registered, the flow is told that it was; and where the person would be sent to
a browser, it ends. So what comes out is what a login would come to, and no token is asked for, nothing is registered, nobody is
disturbed, nothing is kept.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final

import attrs
import orjson
import trio

from mcp_client.auth.fetch import GuardedFetch, surroundings
from mcp_client.cli.login import NAME
from mcp_core.errors import McpError
from mcp_core.oauth.challenge import choose_challenge, read_challenges
from mcp_core.oauth.client_metadata import ClientSettings
from mcp_core.oauth.flow import Flow
from mcp_core.oauth.grants import AuthorizationCode
from mcp_core.oauth.settings import FlowSettings
from mcp_core.oauth.steps import (
    AskClient,
    ClientAnswer,
    Failed,
    FetchJson,
    FindClient,
    HttpAnswer,
    OpenBrowser,
    Register,
)
from mcp_core.revisions import R2025_03_26, preferred

if TYPE_CHECKING:
    from mcp_client.auth.stores.protocol import CredentialStore
    from mcp_client.transports.http.authorizer import Answered, Site
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.challenge import Challenge
    from mcp_core.oauth.discovery import Discovered
    from mcp_core.oauth.steps import Pairs, Step

__all__ = ["Diagnosis"]

_REDIRECT_URI: Final = "http://127.0.0.1/callback"


class Diagnosis:
    """Stands where an `OAuth` would: takes notice of what the server answers, and shows no credentials.

    Args:
        store: Where a login would look for an earlier registration.
    """

    def __init__(self, store: CredentialStore) -> None:
        self.answers: Final[list[tuple[str, int]]] = []
        """What was asked for, and the status of the answer."""
        self.refused = False
        """Whether the server wanted a token."""
        self.challenge: Challenge | None = None
        """What it said then."""
        self.statuses: Final[dict[str, int]] = {}
        """By URL, the status of each document that was fetched."""
        self.registration: str | None = None
        """How the client would come to its id."""
        self.client_id: str | None = None
        """Which that is, where it is known."""
        self.sent_to: str | None = None
        """The URL that the person would be sent to."""
        self.error: McpError | None = None
        """What a login would fail with, or why none was tried."""
        self.flow: Flow | None = None
        """The login that was not."""
        self._store: Final = store
        self._site: Site | None = None

    @property
    def extensions(self) -> tuple[str, ...]:
        """None: it gets no token."""
        return ()

    def authorizer(self, site: Site) -> Diagnosis:
        """See `Authorization`."""
        self._site = site
        return self

    async def headers(self, method: str, url: str) -> Pairs:  # noqa: ARG002  # there are none
        """See `Authorizer`."""
        await trio.lowlevel.checkpoint()
        return ()

    async def identity(self) -> str | None:
        """See `Authorizer`."""
        await trio.lowlevel.checkpoint()
        return None

    def answered(self, answer: Answered) -> bool:
        """See `Authorizer`. Nothing is done about a refusal."""
        self.answers.append((answer.operation, answer.status))
        if answer.status in (401, 403) and not self.refused:
            self.refused = True
            values = [value for name, value in answer.headers if name == "www-authenticate"]
            self.challenge = choose_challenge(read_challenges(values), schemes=("Bearer", "DPoP"))
        return False

    async def renew(self, answer: Answered) -> None:
        """See `Authorizer`. Is not called."""
        raise AssertionError(answer)

    @property
    def found(self) -> Discovered | None:
        """The authorization server, as far as it was found."""
        return None if self.flow is None else self.flow.found

    async def run(self) -> None:
        """Goes through a login up to the browser. Raises nothing: see `error`."""
        assert self._site is not None  # noqa: S101  # there was a connection, or an attempt at one
        site, newest = self._site, preferred(self._site.revisions)
        around = await surroundings(site)
        fetch = GuardedFetch(site, around.networks, addresses=around.addresses)
        try:
            self.flow = flow = Flow(
                FlowSettings(
                    server_url=site.url,
                    grant=AuthorizationCode(redirect_uri=_REDIRECT_URI),
                    client=ClientSettings(client_name=NAME, redirect_uris=(_REDIRECT_URI,)),
                    protocol_version=None if newest is None else newest.name,
                    # Default paths are no sign that the server wants a token.
                    legacy=self.refused and R2025_03_26 in site.revisions,
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
        """Does a step, or says what it would be; `None` at the end."""
        now = time.time()
        match step:
            case FetchJson():
                answer = await fetch.ask(step)
                if isinstance(answer, HttpAnswer):
                    self.statuses[step.url] = answer.status
                return flow.receive(answer, now)
            case FindClient():
                kept = await self._store.load_client(step.issuer)
                if kept is not None:
                    self.registration, self.client_id = f"kept from before ({kept.registration.value})", kept.client_id
                    # A login would use its port again.
                    kept = attrs.evolve(kept, redirect_uris=())
                return flow.receive(ClientAnswer(client=kept), now)
            case Register():
                self.registration = f"dynamic, at {step.url}; it was not asked"
                made: JsonObject = {"client_id": "diagnosis", "redirect_uris": [_REDIRECT_URI]}
                return flow.receive(HttpAnswer(status=201, body=orjson.dumps(made)), now)
            case AskClient():
                self.registration = "none: a person would be asked for a client id"
                return flow.receive(ClientAnswer(client=None), now)
            case OpenBrowser():
                self.sent_to = step.url
                return None
            case Failed():
                self.error = step.error
                return None
        raise AssertionError(step)
