"""What is known of a client after it ran: the ground on which checks judge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.model.verdict import NotApplicable, NotTestable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mcp_conformance.drivers.client.fake_server import FakeServer
    from mcp_conformance.drivers.client.http_exchange import Exchange
    from mcp_conformance.drivers.client.stdio_host import Launch
    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.model.check import Transport
    from mcp_conformance.oauth_testbed.testbed import World
    from mcp_conformance.scenarios.scenario import Scenario
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["STREAMS", "ClientUnderTest", "Evidence"]

STREAMS: Final = "all-in-streams"
"""The scenario in which every response comes in a stream, over HTTP."""


@attrs.frozen(kw_only=True, eq=False)
class Evidence:
    """One run of a client."""

    scenario: Scenario
    """What it met."""
    revision: Revision
    """What it was told to speak."""
    transport: Transport
    """Over what."""
    transcript: Transcript
    """What went over the wire, of all connections, in order."""
    server: FakeServer
    """The server that it met, as it was left."""
    exchanges: Sequence[Exchange] = ()
    """Its HTTP requests, in order; none over stdio."""
    launches: Sequence[Launch] = ()
    """Its starts of the server; none over HTTP."""
    notes: Mapping[str, JsonValue] = attrs.field(factory=dict)
    """What the scenario wants its checks to know."""
    world: World | None = None
    """The world of OAuth that it was in; `None`: none."""
    status: int | None
    """The exit status; `None`: it did not end, and was ended."""
    log: str
    """The end of what it wrote to standard error."""

    @property
    def messages(self) -> list[JsonValue]:
        """All that it sent, in order; what came in an array one by one."""
        return self.transcript.messages(sent=False)

    def sent(self, method: str) -> list[JsonObject]:
        """Its requests or notifications of a method, in order."""
        return [each for each in self.messages if isinstance(each, dict) and each.get("method") == method]

    def taken(self, method: str) -> list[JsonObject]:
        """As `sent`, without what never came as far as the server: a request that breaks a rule of the transport is refused."""
        return [each for each in self.server.received if each.get("method") == method]

    @property
    def unread(self) -> JsonObject | None:
        """The first error without an id: the answer to what could not be read. Who takes it for another one goes astray."""
        told = [each for each in self.transcript.messages(sent=True) if isinstance(each, dict) and "error" in each]
        return next((each for each in told if each.get("id") is None), None)

    @property
    def requests(self) -> list[JsonObject]:
        """Its requests, in order."""
        return [each for each in self.messages if isinstance(each, dict) and "method" in each and "id" in each]

    @property
    def responses(self) -> list[JsonObject]:
        """Its responses, in order."""
        return [each for each in self.messages if isinstance(each, dict) and "method" not in each]

    @property
    def conversations(self) -> list[list[JsonObject]]:
        """Its messages by connection: the sessions over HTTP, the starts of the server over stdio; modern: all in one."""
        if self.launches:
            return [_objects(launch.values) for launch in self.launches]
        by_session: dict[int, list[JsonObject]] = {}
        opened = False
        for exchange in self.exchanges:
            opened = opened or exchange.known is not None
            if exchange.known is None and (exchange.status in (404, 405) or opened):
                # Nobody is there: so a client finds out where the endpoints of 2024-11-05 are. Or it lacks the session id.
                continue
            key = -1 if exchange.known is None else exchange.known.number
            by_session.setdefault(key, []).extend(_objects([exchange.value]))
        return [messages for _, messages in sorted(by_session.items())]

    @property
    def ending(self) -> str:
        """How it ended, for a sentence."""
        if self.status is None:
            return "it did not end, and was ended"
        lines = self.log.strip().splitlines()
        return f"it ended with status {self.status}{f': {lines[-1]}' if lines else ''}"


def _objects(values: Sequence[JsonValue]) -> list[JsonObject]:
    """The messages among what came, those of arrays too."""
    flat = [each for value in values for each in (value if isinstance(value, list) else [value])]
    return [each for each in flat if isinstance(each, dict)]


@attrs.define(kw_only=True, eq=False)
class ClientUnderTest:
    """A client, in one revision over one transport."""

    revision: Revision
    """What it was told to speak."""
    transport: Transport
    """Over what."""
    settings: Settings
    """The bounds."""
    runs: Mapping[str, Evidence]
    """What it did, by scenario."""
    looked_at: Evidence | None = None
    """The run that was looked at last: the place to show when something is wrong."""

    def run(self, name: str) -> Evidence:
        """What it did in a scenario.

        Raises:
            NotApplicable: There is no such scenario in this revision over this transport.
            NotTestable: It did nothing at all.
            AssertionError: The suite itself went wrong in it.
        """
        evidence = self.runs.get(name)
        if evidence is None:
            raise NotApplicable(f"the scenario {name} is not for {self.revision} over {self.transport.value}")
        self.looked_at = evidence
        if evidence.server.faults:
            raise AssertionError(f"in the scenario {name}: {evidence.server.faults[0]}")
        if not evidence.exchanges and not evidence.launches:
            raise NotTestable(f"the client never turned up in the scenario {name}: {evidence.ending}")
        return evidence

    def control(self, name: str = "tools_call") -> Evidence:
        """A run in which nothing is odd, and which has to have gone well for others to prove anything.

        Raises:
            NotTestable: It did not go well, or no tool was called in it.
        """
        evidence = self.run(name)
        if evidence.status != 0:
            raise NotTestable(f"the control failed: in the scenario {name} {evidence.ending}")
        if not evidence.sent("tools/call"):
            raise NotTestable(f"the control failed: in the scenario {name} no tool was called")
        return evidence

    def control_streams(self) -> None:
        """Over HTTP what is told before a result comes in a stream: the client has to take one. Raises `NotTestable`."""
        if STREAMS in self.runs:
            self.control(STREAMS)

    def all(self, *, told: bool = False) -> Iterator[Evidence]:
        """Every run in which it turned up, one after another.

        Args:
            told: Only those in which it was told what to speak.
        """
        for name, evidence in self.runs.items():
            if told and evidence.scenario.free:
                continue
            if evidence.exchanges or evidence.launches:
                yield self.run(name)
