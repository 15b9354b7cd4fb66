"""The stdio transport: one message per line, no other output, and an exit at the end of the input."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs
import trio

from mcp_conformance.checks.probes.message_pairs import key_of
from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.probes.repetition import each_time
from mcp_conformance.checks.probes.subscription_stream import LISTEN
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.stdio_connection import StdioConnection
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.timeouts import WaitKind
from mcp_conformance.wire.transcript import Kind
from mcp_core.revisions import R2025_11_25, REVISIONS, Era

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_INVALID: Final = b'{"jsonrpc":"2.0","id":1,"method":'
"""A truncated message, which is not JSON."""
_LARGE: Final = 300_000
_TO_END: Final = 1.0
"""Seconds from the exit of a process to the end of its output."""
_LINES: Final = ("stdio.newline-delimited", "stdio.one-message-per-line")
_MODERN: Final = tuple(name for name, revision in REVISIONS.items() if revision.era is Era.MODERN)
_REMOVED: Final = "a removed method"
_NO_META: Final = "a request without _meta"
_FIRST: Final = {"ping": _REMOVED, "tools/list": _NO_META}
"""The first requests of a process, none of which a server serves: by method, what they are."""
_PROGRESS_TOOL: Final = "test_tool_with_progress"
_LISTS_CHANGED: Final = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}
"""The members of a filter, and the capability of each."""
_PROMPT: Final = "test_prompt_with_arguments"
_SAMPLING: Final = "sampling/createMessage"
_SPLIT: Final = "\u65e5"
"""A character of three bytes in UTF-8."""
_TEXT: Final = "Grüße, 日本語, 🎉, \u2028 and \u2029, \u0085"


@check(
    "stdio.stdout-only-messages",
    proves=("stdio.server-stdout-clean", "stdio.stdout-only-mcp", *_LINES),
    subject=CheckScope.EVIDENCE,
)
async def stdout_only_messages(server: ServerUnderTest) -> None:
    """Every line of standard output is a complete message: no banner, no log, no empty line."""
    for transcript in server.evidence:
        for entry in transcript:
            if entry.sent or entry.kind not in (Kind.BYTES, Kind.MESSAGE):
                continue
            if entry.kind is Kind.BYTES or not isinstance(entry.value, dict | list):
                raise Deviation("one JSON-RPC message per line", str(entry) if entry.raw else "an empty line")


@check("stdio.line-feed", proves=(*_LINES, "stdio.crlf-tolerated"), subject=CheckScope.EVIDENCE)
async def line_feed(server: ServerUnderTest) -> None:
    """The lines of the server end with a line feed, without a carriage return."""
    for transcript in server.evidence:
        for entry in transcript:
            if not entry.sent and entry.raw.endswith(b"\r"):
                raise Deviation("a line feed without a carriage return", repr(entry.raw[-40:]))


@attrs.frozen(kw_only=True)
class _Process:
    """The behavior of a process of the server, from its first message to its end."""

    answers: tuple[JsonRpcResponse | Deviation, ...]
    """The responses to the first requests, which are those of `_FIRST`; empty in legacy revisions."""
    failure: Deviation | None
    """Why it did not exit when its input ended; `None` if it did."""


async def _first_requests_to_exit(server: ServerUnderTest) -> _Process:
    """Start a process, send it the first requests and a call, and end its input during the call."""

    async def converse() -> _Process:
        answers: list[JsonRpcResponse | Deviation] = []
        async with server.open() as peer:
            if server.revision.era is Era.MODERN:
                for method, rule in _FIRST.items():
                    message = peer.message(method)
                    if rule == _NO_META:
                        del message["params"]
                    try:
                        answers.append(await peer.exchange(message, deviant=rule))
                    except Deviation as deviation:
                        answers.append(deviation)
            failure = None
            try:
                await _exit_during_a_call(server, peer)
            except Deviation as deviation:
                failure = deviation
            return _Process(answers=tuple(answers), failure=failure)
        raise AssertionError("the block returns")

    return await server.once("a process from its first requests to its exit", converse)


async def _exit_during_a_call(server: ServerUnderTest, peer: SuiteConnection) -> None:
    # A server may give its calls a moment to end. How it exits depends on the era at most, so that one is enough.
    with suppress(NotTestable):
        if server.revision is R2025_11_25:
            await _await_client(server, peer)
        elif server.revision.era is Era.MODERN:
            await _listen(server, peer)
            name, arguments = server.tool("conformance_wait", {"key": f"exit-{peer.next_id()}"})
            await peer.post(peer.message("tools/call", {"name": name, "arguments": arguments}))
            await peer.fence()
    await _exit(server, _pipes(peer))


async def _listen(server: ServerUnderTest, peer: SuiteConnection) -> None:
    """Open a subscription, if the server has any."""
    wanted: JsonObject = {
        name: True for name, kind in _LISTS_CHANGED.items() if server.inventory.has(f"{kind}.listChanged")
    }
    if wanted:
        await peer.post(peer.message(LISTEN, {"notifications": wanted}))


@check("stdio.exit", proves=("stdio.server-exit-on-eof", "stdio.server-exits-on-eof"), subject=CheckScope.PROCESS)
async def exits(server: ServerUnderTest) -> None:
    """The server exits when its standard input ends, although a call is in progress, which may wait for its client, and a subscription."""
    process = await _first_requests_to_exit(server)
    if process.failure is not None:
        raise process.failure


@check(
    "jsonrpc.removed-at-first",
    proves=("jsonrpc.method-not-found-code",),
    transports=(Transport.STDIO,),
    revisions=_MODERN,
    subject=CheckScope.PROCESS,
)
async def removed_at_first(server: ServerUnderTest) -> None:
    """A modern request for `ping`, which the revision does not have, gets an error also as the first message of a process."""
    await _require_error(server, _REMOVED)


@check(
    "meta.missing-at-first",
    proves=("meta.missing-meta-32602",),
    transports=(Transport.STDIO,),
    revisions=_MODERN,
    subject=CheckScope.PROCESS,
)
async def missing_at_first(server: ServerUnderTest) -> None:
    """A request without _meta gets an error before the first request that the server serves."""
    await _require_error(server, _NO_META)


async def _require_error(server: ServerUnderTest, rule: str) -> None:
    """Require that one of the first requests of a process gets an error. A server of both eras may have one of either."""
    process = await _first_requests_to_exit(server)
    answer = process.answers[[*_FIRST.values()].index(rule)]
    if isinstance(answer, Deviation):
        raise answer
    answer.error(what=f"{rule} among the first requests of a process")


async def _await_client(server: ServerUnderTest, peer: SuiteConnection) -> None:
    """Call a tool that sends a client request, which gets no response.

    Raises:
        NotTestable: The server has no such tool, or sends no request.
    """
    name, arguments = server.tool("test_sampling", {"prompt": "Say yes."})
    peer.unanswered.add(_SAMPLING)
    known = len(peer.strays)
    await peer.post(peer.message("tools/call", {"name": name, "arguments": arguments}))

    def waits() -> bool:
        # A server that sends no request responds instead.
        return any(each.get("method") == _SAMPLING for each in peer.inbox) or len(peer.strays) > known

    try:
        await peer.until(waits, _SAMPLING)
    except Deviation as deviation:
        raise NotTestable(f"the control condition failed: {name} sends no request") from deviation


@check("stdio.exit-early", proves=("stdio.server-exit-on-eof", "stdio.server-exits-on-eof"), subject=CheckScope.PROCESS)
async def exits_early(server: ServerUnderTest) -> None:
    """The server exits when its standard input ends before the first message."""
    async with server.open(handshake=False) as peer:
        await _exit(server, _pipes(peer))


async def _exit(server: ServerUnderTest, peer: StdioConnection) -> None:
    """End the input of a server, wait until it exits, and read its output to the end."""
    # What a server writes while it stops is evidence for the checks of its output.
    server.evidence.append(peer.transcript)
    await peer.process.close_input()
    async with peer.within("the process to exit at the end of its input", kind=WaitKind.EXIT):
        await peer.process.wait()
    # A process that the server started may keep the output open.
    with trio.move_on_after(_TO_END):
        await peer.until(lambda: peer.ended, "the end of the output")
    if peer.ended and peer.unread:
        peer.transcript.message(peer.unread, sent=False)


def _pipes(peer: object) -> StdioConnection:
    if not isinstance(peer, StdioConnection):
        raise TypeError("the requirement is about stdio")
    return peer


@check("stdio.unicode", proves=("stdio.unicode", "jsonrpc.utf8"), subject=CheckScope.RECOVERING)
async def unicode(server: ServerUnderTest) -> None:
    """Text beyond ASCII is transferred unchanged in both directions, also U+2028 and U+2029."""
    peer = server.peer
    answer = await peer.request("ping" if peer.handshake else "server/discover", id=_TEXT)
    if answer.message.get("id") != _TEXT:
        raise Deviation(f"the id {brief(_TEXT)}", str(answer))
    # A server may keep what it has sent once, and its errors may repeat a name.
    prompt = server.manifest.find("prompts", _PROMPT)
    for _ in range(2):
        if server.inventory.has("tools"):
            await peer.request("tools/call", {"name": f"conformance-{_TEXT}", "arguments": {}})
        if server.inventory.find("prompts", prompt.name) is not None and prompt.arguments is None:
            given: JsonObject = {"name": prompt.name, "arguments": {"arg1": _TEXT, "arg2": _TEXT}}
            found = await peer.request("prompts/get", given)
            if not found.is_error and _TEXT.encode() not in encoded(found.message):
                raise Deviation(f"the argument {brief(_TEXT)} in the prompt", str(found))


@check("stdio.large-message", proves=("stdio.large-message", *_LINES), subject=CheckScope.RECOVERING)
async def large_message(server: ServerUnderTest) -> None:
    """A line of 300 kB is one message, and is read like any other. What the server writes is one line, too, however long."""
    peer = server.peer
    params: JsonObject = {"_meta": {"com.example/filler": "x" * _LARGE}}
    known = len(peer.strays)
    answer = await peer.request("ping" if peer.handshake else "server/discover", params)
    await peer.fence()
    if len(peer.strays) > known:
        raise Deviation("one response to one line", brief(peer.strays[known]))
    # The legacy revisions state no size up to which a message must be served, unlike how it is delimited.
    if server.revision.era is Era.MODERN:
        answer.result()
    prompt = server.manifest.find("prompts", _PROMPT)
    if server.inventory.find("prompts", prompt.name) is not None and prompt.arguments is None:
        # A server may reject an argument of this length.
        given: JsonObject = {"name": prompt.name, "arguments": {"arg1": "x" * _LARGE, "arg2": "y"}}
        await peer.request("prompts/get", given)


@check(
    "stdio.pieces",
    proves=(*_LINES, "stdio.unicode", "jsonrpc.utf8"),
    transports=(Transport.STDIO,),
    subject=CheckScope.RECOVERING,
)
async def pieces(server: ServerUnderTest) -> None:
    """A line that arrives in pieces, even of a character, is one message, and two lines that arrive together are two."""
    peer = _pipes(server.peer)
    await peer.fence()
    method = "ping" if peer.handshake else "server/discover"
    ids = ("before it", f"in pieces: {_SPLIT}", "behind it")
    first, line, last = (encoded(peer.message(method, id=id)) for id in ids)
    at = line.index(_SPLIT.encode()) + 1
    known = len(peer.strays)

    def found() -> list[str]:
        return sorted(str(each.get("id")) for each in peer.strays[known:] if "result" in each)

    # The response to the first line shows that the piece after it was read.
    for each in (first, line, last):
        peer.transcript.message(each, sent=True)
    await peer.process.send(first + b"\n" + line[:at])
    await peer.until(lambda: "before it" in found(), "a result for a line that is followed by a piece of the next one")
    await peer.process.send(line[at:] + b"\n" + last + b"\n")
    await peer.fence()
    if found() != sorted(ids):
        raise Deviation("a result for each of the three lines", brief(list(peer.strays[known:])))


@check(
    "stdio.behind-invalid-line",
    proves=_LINES,
    transports=(Transport.STDIO,),
    subject=CheckScope.RECOVERING,
)
async def behind_invalid_line(server: ServerUnderTest) -> None:
    """A request that arrives together with a line that is not JSON, behind it, gets its response."""
    peer = _pipes(server.peer)
    # Unlike the line, it shows the era, also to a server of both.
    await peer.request("tools/list")
    method, id = "ping" if peer.handshake else "server/discover", "behind a line that is not JSON"
    line = encoded(peer.message(method, id=id))
    peer.transcript.message(_INVALID, sent=True, deviant="a line that is not JSON")
    peer.transcript.message(line, sent=True)
    await peer.process.send(_INVALID + b"\n" + line + b"\n")
    await peer.until(
        lambda: any(each.get("id") == id for each in peer.strays),
        f"a response to {method}, which arrives together with a line that is not JSON",
    )


@check(
    "stdio.cancelled-silent",
    proves=("stdio.cancel-no-more-messages", "stdio.cancel-server-stops"),
    subject=CheckScope.LEAVING,
)
async def cancelled_silent(server: ServerUnderTest) -> None:
    """After the cancellation of a request no further message is sent for it."""
    name, arguments = server.tool(_PROGRESS_TOOL)
    unused = [_pipes(server.peer)]

    async def late() -> str | None:
        if unused:
            return await _late_message(server, unused.pop(), name, arguments)
        # A cancelled request has no response, so that its id cannot be used again on the same connection.
        async with server.open() as peer:
            return await _late_message(server, _pipes(peer), name, arguments)

    if (observed := await each_time(late)) is not None:
        raise Deviation("no further message for the cancelled requests", observed)


async def _late_message(server: ServerUnderTest, peer: StdioConnection, name: str, arguments: JsonObject) -> str | None:
    """Cancel concurrent calls with ids of all kinds, and return a message for one of them that follows."""

    def call(id: JsonValue, tool: str = name, given: JsonObject = arguments) -> JsonObject:
        params: JsonObject = {"name": tool, "arguments": given, "_meta": {"progressToken": token_of(id)}}
        return peer.message("tools/call", params, id=id)

    def token_of(id: JsonValue) -> str:
        return f"to be cancelled, {brief(id)}"

    def progress(id: JsonValue) -> list[JsonObject]:
        return [each for each in peer.inbox if member(each, "params", "progressToken") == token_of(id)]

    def messages(id: JsonValue) -> list[JsonObject]:
        return progress(id) + [each for each in peer.strays if key_of(each.get("id")) == key_of(id)]

    ids: tuple[JsonValue, ...] = ("to be cancelled", peer.next_id())
    falsy: tuple[JsonValue, ...] = (0, "")
    waiting: dict[JsonValue, tuple[str, JsonObject]] = {}
    released: list[tuple[str, JsonObject]] = []
    with suppress(NotTestable):  # a server without these tools has others to cancel
        for id in falsy:
            key: JsonObject = {"key": f"silent-{server.revision}-{peer.next_id()}"}
            waiting[id] = server.tool("conformance_wait", key)
            released.append(server.tool("conformance_release", key))
    if not released:
        ids = (*ids, *falsy)
        waiting.clear()
    for id in ids:
        await peer.post(call(id))
    await peer.until(lambda: all(map(messages, ids)), f"progress of {_PROGRESS_TOOL}")
    if not any(map(progress, ids)):
        # A server may send no progress; then it is unknown when the calls run.
        raise NotTestable(f"the control condition failed: {_PROGRESS_TOOL} reports no progress")
    for id, (tool, given) in waiting.items():
        await peer.post(call(id, tool, given))
    ids = (*ids, *waiting)
    for id in ids:
        await peer.notify("notifications/cancelled", {"requestId": id})
    await peer.fence()  # the server has read the cancellations before this
    # A response was sent before that if its call ended earlier than the cancellation arrived.
    known = [each for id in ids for each in messages(id)]
    for tool, given in released:
        # A call that works on after its cancellation ends now.
        await peer.request("tools/call", {"name": tool, "arguments": given})
    # This call takes longer than the remainder of the cancelled ones.
    await peer.exchange(call("to the end"))
    late = [each for id in ids for each in messages(id) if all(each is not old for old in known)]
    return brief(late[0]) if late else None
