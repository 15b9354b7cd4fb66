"""Output of a client to the server process that it started, and shutdown of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.checks.probes.recorded_values import params_of
from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.headers import BODY_CALLS, WITHOUT_HEADERS

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.stdio_host import Launch
    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonValue


@check(
    "stdio.client-lines",
    proves=(
        "stdio.newline-delimited",
        "stdio.client-stdin-clean",
        "stdio.one-message-per-line",
        "stdio.stdin-only-mcp",
        "stdio.no-header-layer",
        "stdio.client-support",
    ),
)
async def lines(client: ClientUnderTest) -> None:
    """The client writes only messages, one per line, each with a line feed at its end."""
    for evidence in client.all():
        for launch in evidence.launches:
            *whole, rest = bytes(launch.received).split(b"\n")
            for line, value in zip(whole, launch.values, strict=False):
                if value is None or not isinstance(value, dict | list):
                    raise Deviation("one message per line", repr(line[:200]))
            if rest:
                raise Deviation("a line feed after the last message", repr(rest[-200:]))


@check(
    "stdio.client-line-feed",
    proves=("stdio.newline-delimited", "stdio.one-message-per-line", "stdio.crlf-tolerated"),
)
async def line_feed(client: ClientUnderTest) -> None:
    """The lines of the client end with a line feed, without a carriage return."""
    for evidence in client.all():
        for launch in evidence.launches:
            for line in bytes(launch.received).split(b"\n")[:-1]:
                if line.endswith(b"\r"):
                    raise Deviation("a line feed without a carriage return", repr(line[-40:]))


@check("stdio.client-no-array", proves=("stdio.individual-messages", "stdio.no-batch"))
async def no_array(client: ClientUnderTest) -> None:
    """No line is an array of messages."""
    for evidence in client.all():
        for launch in evidence.launches:
            for value in launch.values:
                if isinstance(value, list) and not launch.session.revision.batching:
                    raise Deviation("one message per line", brief(value))


@check("stdio.client-arguments", proves=("stdio.no-header-layer",), needs=(f"scenario:{WITHOUT_HEADERS}",))
async def arguments(client: ClientUnderTest) -> None:
    """A call over stdio has all its arguments in the body, also those that HTTP repeats in headers."""
    evidence = client.run(WITHOUT_HEADERS)
    found: dict[JsonValue, JsonValue] = {}
    for message in evidence.sent("tools/call"):
        given = params_of(message).get("arguments")
        query = given.get("query") if isinstance(given, dict) else None
        if isinstance(query, str):
            found[query] = given
    expected = [each for each in BODY_CALLS if each["query"] in found]
    if not expected:
        raise NotTestable(f"the client did not make the calls of its context: {evidence.ending}")
    for call in expected:
        if found[call["query"]] != call:
            raise Deviation(f"the arguments {brief(call)}", brief(found[call["query"]]))


@check("stdio.client-closes-input", proves=("stdio.shutdown-close-stdin",), needs=("scenario:initialize",))
async def closes_input(client: ClientUnderTest) -> None:
    """The client shuts down its server by closing the server's input."""
    for launch in _launches(client, "initialize"):
        if launch.events[:1] != ["input-ended"]:
            raise Deviation("the end of input before any signal", ", ".join(launch.events) or "no event")


@check("stdio.client-waits", proves=("stdio.shutdown-sigterm",), needs=("scenario:stdio-deaf",))
async def terminates(client: ClientUnderTest) -> None:
    """A server that does not exit at the end of its input gets SIGTERM."""
    for launch in _launches_with_closed_input(client, "stdio-deaf"):
        if launch.events[1:2] != ["SIGTERM"]:
            raise Deviation("the end of input, then SIGTERM", ", ".join(launch.events))


@check(
    "stdio.client-kills",
    proves=("stdio.shutdown-sigkill", "stdio.shutdown-force-kill"),
    needs=("scenario:stdio-stubborn",),
)
async def kills(client: ClientUnderTest) -> None:
    """A server that does not exit after SIGTERM gets SIGKILL."""
    for launch in _launches_with_closed_input(client, "stdio-stubborn"):
        if launch.events[-1] != "killed":
            raise Deviation("SIGKILL as the last event", ", ".join(launch.events))


@check(
    "stdio.client-bears-stderr",
    proves=("stdio.stderr-not-error", "stdio.stderr-drained"),
    needs=("scenario:stdio-complains", "scenario:tools_call"),
)
async def accepts_stderr(client: ClientUnderTest) -> None:
    """Output of a server to standard error, even large or not UTF-8, is not an error, nor is the end of it."""
    client.control()
    evidence = client.run("stdio-complains")
    if evidence.status != 0 or not evidence.sent("tools/call"):
        raise Deviation("the client to behave as with a silent server", evidence.ending)


def _launches(client: ClientUnderTest, scenario: str) -> list[Launch]:
    launches = list(client.run(scenario).launches)
    if not launches:
        raise NotTestable("the client started no server")
    return launches


def _launches_with_closed_input(client: ClientUnderTest, scenario: str) -> list[Launch]:
    """Return the processes of a server that does not exit on its own.

    Raises:
        NotTestable: The client does not start with closing the input, so that the next step cannot be tested.
    """
    launches = _launches(client, scenario)
    for launch in launches:
        if launch.events[:1] != ["input-ended"]:
            raise NotTestable("the client does not shut down its server by closing the input")
    return launches
