"""The evidence of the runs of a client, which checks judge."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.model.verdict import NotApplicable, NotTestable
from mcp_conformance.wire.excerpt import last_lines
from mcp_core.revisions import MODERN, Era
from mcp_core.types.meta import PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mcp_conformance.drivers.client.fake_server import FakeServer
    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.drivers.client.stdio_host import Launch
    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.model.check import Transport
    from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
    from mcp_conformance.scenarios.scenario import Scenario
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

__all__ = ["STREAMS", "ClientUnderTest", "Evidence"]

STREAMS: Final = "all-in-streams"
"""The scenario in which every response over HTTP is a stream."""


@attrs.frozen(kw_only=True, eq=False)
class Evidence:
    """One run of a client."""

    scenario: Scenario
    """The scenario."""
    revision: Revision
    """The revision that the client was instructed to use."""
    transport: Transport
    """The transport."""
    transcript: Transcript
    """The messages of all connections, in order."""
    server: FakeServer
    """The fake server in its state after the run."""
    exchanges: Sequence[HttpExchange] = ()
    """The HTTP requests, in order; empty over stdio."""
    launches: Sequence[Launch] = ()
    """The starts of the server; empty over HTTP."""
    notes: Mapping[str, JsonValue] = attrs.field(factory=dict)
    """The data that the scenario left for its checks."""
    testbed: OAuthTestbed | None = None
    """The OAuth testbed; `None` for scenarios without OAuth."""
    status: int | None
    """The exit status; `None` if the client did not exit and was killed."""
    log: str
    """The last part of standard error."""

    @property
    def messages(self) -> list[JsonValue]:
        """All messages that the client sent, in order; those of a batch one by one. Without `probes`."""
        return [each for each in self.transcript.messages(sent=False) if id(each) not in self.probes]

    @cached_property
    def probes(self) -> frozenset[int]:
        """The identities of the modern requests before the `initialize` of a connection, in a legacy revision.

        A client of both eras learns with them which one a server has. It may do so even if it is instructed which
        revision to use.
        """
        if self.revision.era is not Era.LEGACY:
            return frozenset()
        found: list[int] = []
        waiting: list[int] = []
        for message, opened in self._messages_of_connections():
            if isinstance(message, dict) and message.get("method") == "initialize":
                found += waiting
                waiting.clear()
            elif not opened and _is_modern(message):
                waiting.append(id(message))
        return frozenset(found)

    def _messages_of_connections(self) -> Iterator[tuple[JsonValue, bool]]:
        """Yield the messages of all connections, each with whether it follows the `initialize` of its connection."""
        if not self.launches and not self.exchanges:
            opened = False
            for message in self.transcript.messages(sent=False):
                yield message, opened
                opened = opened or (isinstance(message, dict) and message.get("method") == "initialize")
        for launch in self.launches:
            opened = False
            for value in launch.values:
                yield value, opened
                opened = opened or (isinstance(value, dict) and value.get("method") == "initialize")
        begun = False
        for exchange in self.exchanges:
            # After the first session, a request without a session id may begin another connection.
            yield exchange.value, begun and exchange.header("mcp-session-id") is not None
            begun = begun or exchange.message.get("method") == "initialize"

    def sent(self, method: str) -> list[JsonObject]:
        """Return the requests or notifications with a method, in order."""
        return [each for each in self.messages if isinstance(each, dict) and each.get("method") == method]

    def taken(self, method: str) -> list[JsonObject]:
        """Return the messages with a method that reached the server, so that the transport did not reject them."""
        return [each for each in self.server.received if each.get("method") == method]

    @property
    def unread(self) -> JsonObject | None:
        """The first error response without an id, which the suite sends for an unreadable message; `None` if absent."""
        errors = [each for each in self.transcript.messages(sent=True) if isinstance(each, dict) and "error" in each]
        return next((each for each in errors if each.get("id") is None), None)

    @property
    def agreed(self) -> Revision:
        """The revision of the server, which a client that may not use any revision has to accept."""
        return self.server.speaks[0]

    @property
    def requests(self) -> list[JsonObject]:
        """The requests of the client, in order."""
        return [each for each in self.messages if isinstance(each, dict) and "method" in each and "id" in each]

    @property
    def responses(self) -> list[JsonObject]:
        """The responses of the client, in order."""
        return [each for each in self.messages if isinstance(each, dict) and "method" not in each]

    @property
    def conversations(self) -> list[list[JsonObject]]:
        """The messages by connection: by session over HTTP, by start over stdio, in one list in the modern era."""
        if self.launches:
            return [self._without_probes(launch.values) for launch in self.launches]
        by_session: dict[int, list[JsonObject]] = {}
        opened = False
        for exchange in self.exchanges:
            opened = opened or exchange.known is not None
            if exchange.known is None and (exchange.status in (404, 405) or opened):
                # A probe for the endpoints of 2024-11-05 without a match, or a request that lacks the session id.
                continue
            key = -1 if exchange.known is None else exchange.known.number
            by_session.setdefault(key, []).extend(self._without_probes([exchange.value]))
        return [messages for _, messages in sorted(by_session.items())]

    def _without_probes(self, values: Sequence[JsonValue]) -> list[JsonObject]:
        """Return the messages among received values, including those of batches."""
        flat = [each for value in values for each in (value if isinstance(value, list) else [value])]
        return [each for each in flat if isinstance(each, dict) and id(each) not in self.probes]

    @property
    def ending(self) -> str:
        """How the run ended, for use in a sentence."""
        if self.status is None:
            return "it did not end, and was ended"
        line = last_lines(self.log).rpartition("\n")[2]
        return f"it ended with status {self.status}{f': {line}' if line else ''}"


def _is_modern(message: JsonValue) -> bool:
    """Return whether a request declares a modern revision."""
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and meta.get(PROTOCOL_VERSION) in {each.name for each in MODERN}


@attrs.define(kw_only=True, eq=False)
class ClientUnderTest:
    """A client in one revision over one transport."""

    revision: Revision
    """The revision that the client was instructed to use."""
    transport: Transport
    """The transport."""
    settings: Settings
    """The settings."""
    runs: Mapping[str, Evidence]
    """The evidence of each scenario."""
    looked_at: Evidence | None = None
    """The run that was used last; shown with a failure."""

    def run(self, name: str) -> Evidence:
        """Return the evidence of a scenario.

        Raises:
            NotApplicable: The scenario does not run in this revision over this transport.
            NotTestable: The client sent nothing.
            AssertionError: The suite itself failed.
        """
        evidence = self.runs.get(name)
        if evidence is None:
            raise NotApplicable(f"the scenario {name} is not for {self.revision} over {self.transport.value}")
        self.looked_at = evidence
        if evidence.server.faults:
            raise AssertionError(f"in the scenario {name}: {evidence.server.faults[0]}")
        if not evidence.exchanges and not evidence.launches:
            raise NotTestable(f"the client sent nothing in the scenario {name}: {evidence.ending}")
        return evidence

    def control(self, name: str = "tools_call") -> Evidence:
        """Return the evidence of a run with a correct server. Other runs prove nothing if it failed.

        Raises:
            NotTestable: The run failed, or the client called no tool.
        """
        evidence = self.run(name)
        if evidence.status != 0:
            raise NotTestable(f"the control failed: in the scenario {name} {evidence.ending}")
        if not evidence.sent("tools/call"):
            raise NotTestable(f"the control failed: in the scenario {name} the client called no tool")
        return evidence

    def control_streams(self) -> None:
        """Check that the client reads streams, which carry notifications over HTTP. Raises `NotTestable`."""
        if STREAMS in self.runs:
            self.control(STREAMS)

    def all(self, *, instructed: bool = False) -> Iterator[Evidence]:
        """Yield the evidence of every run in which the client sent something.

        Args:
            instructed: Whether to omit runs in which the client may use any revision.
        """
        for name, evidence in self.runs.items():
            if instructed and evidence.scenario.free:
                continue
            if evidence.exchanges or evidence.launches:
                yield self.run(name)
