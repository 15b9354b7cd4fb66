"""What a client writes to the server that it started, and how it ends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.stdio_host import Launch
    from mcp_conformance.scenarios.evidence import ClientUnderTest


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
    """All that the client writes is messages, one a line, each with a line feed behind it."""
    for evidence in client.all():
        for launch in evidence.launches:
            *whole, rest = bytes(launch.received).split(b"\n")
            for line, value in zip(whole, launch.values, strict=False):
                if value is None or not isinstance(value, dict | list):
                    raise Deviation("a message in each line", repr(line[:200]))
            if rest:
                raise Deviation("a line feed behind the last message", repr(rest[-200:]))


@check("stdio.client-no-array", proves=("stdio.individual-messages", "stdio.no-batch"))
async def no_array(client: ClientUnderTest) -> None:
    """No line is an array of messages."""
    for evidence in client.all():
        for launch in evidence.launches:
            for value in launch.values:
                if isinstance(value, list):
                    raise Deviation("one message in each line", brief(value))


@check("stdio.client-closes-input", proves=("stdio.shutdown-close-stdin",), needs=("scenario:initialize",))
async def closes_input(client: ClientUnderTest) -> None:
    """The client ends its server by closing its input."""
    for launch in _launches(client, "initialize"):
        if launch.events[:1] != ["input-ended"]:
            raise Deviation("the end of input before all else", ", ".join(launch.events) or "nothing")


@check("stdio.client-waits", proves=("stdio.shutdown-sigterm",), needs=("scenario:stdio-deaf",))
async def terminates(client: ClientUnderTest) -> None:
    """A server that does not end when its input ends is asked to by SIGTERM."""
    for launch in _patient(client, "stdio-deaf"):
        if launch.events[1:2] != ["SIGTERM"]:
            raise Deviation("the end of input, then SIGTERM", ", ".join(launch.events))


@check(
    "stdio.client-kills",
    proves=("stdio.shutdown-sigkill", "stdio.shutdown-force-kill"),
    needs=("scenario:stdio-stubborn",),
)
async def kills(client: ClientUnderTest) -> None:
    """A server that does not end by SIGTERM is ended by SIGKILL."""
    for launch in _patient(client, "stdio-stubborn"):
        if launch.events[-1] != "killed":
            raise Deviation("SIGKILL in the end", ", ".join(launch.events))


@check(
    "stdio.client-bears-stderr",
    proves=("stdio.stderr-not-error", "stdio.stderr-drained"),
    needs=("scenario:stdio-complains", "scenario:tools_call"),
)
async def bears_stderr(client: ClientUnderTest) -> None:
    """What a server writes to standard error, be it much and no UTF-8, is no sign that anything is wrong."""
    client.control()
    evidence = client.run("stdio-complains")
    if evidence.status != 0 or not evidence.sent("tools/call"):
        raise Deviation("the client to do as with a silent server", evidence.ending)


def _launches(client: ClientUnderTest, scenario: str) -> list[Launch]:
    launches = list(client.run(scenario).launches)
    if not launches:
        raise NotTestable("the client started no server")
    return launches


def _patient(client: ClientUnderTest, scenario: str) -> list[Launch]:
    """The starts of a server that does not end by itself.

    Raises:
        NotTestable: The client does not begin by closing the input, so that it cannot be seen what follows on that.
    """
    launches = _launches(client, scenario)
    for launch in launches:
        if launch.events[:1] != ["input-ended"]:
            raise NotTestable("the client does not end its server by closing the input")
    return launches
