"""Scenarios of results of every kind. The client reports the outcome of each by calling the tool `report`.

The reports put on the wire what is otherwise not visible: whether the client accepted a result, and what it read from
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.features import text_result, tool
from mcp_conformance.drivers.client.http_exchange import STREAM
from mcp_conformance.drivers.client.http_host import PostSink
from mcp_conformance.drivers.client.scripted_request import (
    ErrorReply,
    NoReply,
    RawReply,
    encoded,
    notification,
)
from mcp_conformance.drivers.client.sse_host import SessionEvents
from mcp_conformance.drivers.client.stdio_host import Launch
from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.extension_tasks import declares_tasks
from mcp_conformance.scenarios.scenario import Scenario
from mcp_conformance.scenarios.task_script import ScriptedTask, TaskScript
from mcp_core.revisions import R2025_06_18, R2025_11_25, Era, between
from mcp_core.types import LOGGING_LEVELS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp_conformance.drivers.client.features import Offers
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

    Run = Callable[[ScriptedRequest], Awaitable[JsonObject]]

__all__ = [
    "ANONYMOUS_CODE",
    "EMPTY",
    "EMPTY_TYPE",
    "ERROR_CODES",
    "FAILURE_OF_SCHEMA",
    "LARGE",
    "ODD_RESOURCE",
    "POSITIVE_CODE",
    "POSITIVE_ERROR",
    "RESULTS",
    "RESULT_SCENARIOS",
    "STREAMED",
    "STRUCTURED",
    "UNDECLARED_TASK",
    "UNFIT_LATER",
    "UNICODE",
    "add_report",
]

RESULTS: Final = "conformance_results"
"""The name of the scenario."""
UNICODE: Final = '\u00fc \u6771\u4eac \u2028\u2029\u0085 \U0001f9ea \u0000 \\ " /'
"""A text with characters of every kind."""
LARGE: Final = 100_000
"""The length of a text that exceeds a pipe, in characters of three bytes: some are at the boundary of two reads."""
STREAMED: Final = "gestr\u00f6mt \u2028\u2029\u0085 \U0001f9ea"
"""The text of the result in an event stream, with characters that end lines elsewhere."""
UNDECLARED_TASK: Final = "gives_task"
"""The tool that returns a task, and the note that it was called by a client that declares no tasks."""
EMPTY: Final = "gives_nothing"
"""The tool whose result has an empty content."""
EMPTY_TYPE: Final = "gives_empty_type"
"""The tool whose result has a `resultType` that is the empty string."""
FAILURE_OF_SCHEMA: Final = "gives_failure_of_schema"
"""The tool with an output schema that fails, without structured content."""
UNFIT_LATER: Final = "gives_unfit_later"
"""The tool whose second result, after one that requires a retry, violates its output schema."""
ODD_RESOURCE: Final = "test://odd-type"
"""The resource whose contents have an unknown `resultType`."""
STRUCTURED: Final[Mapping[str, JsonValue]] = {
    "gives_array": [1, "two", None],
    "gives_text": "just text",
    "gives_number": 1.5,
    "gives_null": None,
}
"""Structured content that is not an object, by tool."""
ERROR_CODES: Final[Mapping[str, int]] = {
    "gives_error": -32010,
    "gives_error_0": -32000,
    "gives_error_1": -32001,
    "gives_error_3": -32003,
    "gives_error_4": -32004,
}
"""Error codes without a meaning, by tool. Some implementations use -32000 and -32001 for closed connections and timeouts.

Drafts of the revision had the last three for what is -32020, -32021 and -32022 now.
"""
_ERROR_DATA: Final[Mapping[int, JsonObject]] = {
    -32003: {"requiredCapabilities": {"sampling": {}}},
    -32004: {"supported": ["2025-11-25"], "requested": "2026-07-28"},
}
"""The data of those codes in the drafts."""
POSITIVE_ERROR: Final = "gives_positive_error"
"""The tool that responds with an error whose code is positive and whose data is no object."""
POSITIVE_CODE: Final = 1
"""The code of that error."""
ANONYMOUS_CODE: Final = -32600
"""The code of an error response without an id."""
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_ODD_NOTE: Final = "conformance/nobody-asked"
_LOGGED: Final[tuple[JsonValue, ...]] = ("a text", None, 0, False, [], {}, 1.5, {"a": [1, None]})
"""The data of the log messages, one for each level: JSON of every kind."""


def _message(request: ScriptedRequest, result: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": request.message["id"], "result": result}


def _whole(request: ScriptedRequest, result: JsonObject) -> bytes:
    """Return a response with the members that the revision requires."""
    more: JsonObject = {"resultType": "complete", "_meta": {}} if request.revision.result_type else {}
    return encoded(_message(request, {**more, **result}))


async def _plain(_: ScriptedRequest) -> JsonObject:
    return text_result("plain")


async def _fails(_: ScriptedRequest) -> JsonObject:
    return {**text_result("it failed"), "isError": True}


async def _silent(_: ScriptedRequest) -> JsonObject:
    return {"content": []}


async def _unicode(_: ScriptedRequest) -> JsonObject:
    return text_result(UNICODE)


async def _large(_: ScriptedRequest) -> JsonObject:
    return text_result("\u6771" * LARGE)


async def _large_event(request: ScriptedRequest) -> JsonObject:
    if isinstance(request.sink, PostSink):
        await request.sink.open()
    return text_result("\u6771" * LARGE)


async def _structured(_: ScriptedRequest) -> JsonObject:
    return {**text_result('{"n": 1}'), "structuredContent": {"n": 1}}


async def _unfit(_: ScriptedRequest) -> JsonObject:
    return {**text_result('{"n": "one"}'), "structuredContent": {"n": "one"}}


async def _unfit_later(request: ScriptedRequest) -> JsonObject:
    """Require a retry, without input, before the result."""
    if "requestState" in request.params:
        return await _unfit(request)
    return {"resultType": "input_required", "requestState": "the result follows"}


async def _error(request: ScriptedRequest) -> JsonObject:
    if isinstance(request.sink, PostSink) and request.revision.era is Era.LEGACY:
        await request.sink.open()
    raise ErrorReply(ERROR_CODES["gives_error"], "an error without a special meaning", {"why": "because"})


async def _positive_error(_: ScriptedRequest) -> JsonObject:
    raise ErrorReply(POSITIVE_CODE, "an error of an application", ["because", 1, None])


def _fails_with(code: int) -> Run:
    """Return a tool that responds with an error."""

    async def fail(_: ScriptedRequest) -> JsonObject:
        raise ErrorReply(code, "an error without a special meaning", _ERROR_DATA.get(code))

    return fail


async def _bad_request(_: ScriptedRequest) -> JsonObject:
    raise ErrorReply(-32602, "these arguments are not accepted", status=400)


async def _anonymous_error(request: ScriptedRequest) -> JsonObject:
    sink = request.sink
    if isinstance(sink, PostSink):
        error: JsonObject = {"code": ANONYMOUS_CODE, "message": "this request is not accepted"}
        kind = [("Content-Type", "application/json")]
        await sink.exchange.respond(400, kind, encoded({"jsonrpc": "2.0", "error": error}))
        raise NoReply("the response was sent already")
    return text_result("anonymous")


async def _unknown_method(_: ScriptedRequest) -> JsonObject:
    raise ErrorReply(-32601, "unknown method", status=404)


async def _noisy(request: ScriptedRequest) -> JsonObject:
    """Send notifications first: progress with fractions, without a total, with an unknown token; log messages of all levels."""
    await request.progress(0.5)
    await request.progress(0.75, 1.5)
    odd: JsonObject = {"progressToken": _ODD_NOTE, "progress": 1}
    await request.notify("notifications/progress", odd, deviant="progress for an unknown token")
    for number, (level, data) in enumerate(zip(LOGGING_LEVELS, _LOGGED, strict=True)):
        log: JsonObject = {"level": level, "data": data}
        # A message may lack its logger.
        log |= {"logger": "conformance"} if number % 2 else {}
        await request.notify("notifications/message", log, deviant="a log message below the requested level")
    return text_result("noisy")


async def _stray(request: ScriptedRequest) -> JsonObject:
    """Send an unmatched response first."""
    stray: JsonObject = {"jsonrpc": "2.0", "id": "unsolicited", "result": {}}
    await request.sink.send(encoded(stray), deviant="a response to an unknown request")
    return text_result("stray")


async def _crlf(request: ScriptedRequest) -> JsonObject:
    # Everything else in the line is valid.
    raise RawReply(_whole(request, text_result("crlf")) + b"\r", "a line that ends with CR LF")


async def _together(request: ScriptedRequest) -> JsonObject:
    """Send a log message and the result at once."""
    log: JsonObject = {"level": "info", "data": "the result follows"}
    result = text_result("together")
    if isinstance(request.sink, Launch):
        first = notification("notifications/message", log, request.revision, "")
        deviant = "" if request.revision.era is Era.LEGACY else "a log message that was not requested"
        await request.sink.send_together((encoded(first), deviant), (_whole(request, result), ""))
        raise NoReply("the response was sent already")
    return result


async def _odd_type(request: ScriptedRequest) -> JsonObject:
    odd = {**text_result("odd"), "resultType": "com.example/unheard-of", "_meta": {}}
    raise RawReply(encoded(_message(request, odd)), "an unknown resultType")


async def _empty_type(request: ScriptedRequest) -> JsonObject:
    odd = {**text_result("odd"), "resultType": "", "_meta": {}}
    raise RawReply(encoded(_message(request, odd)), "an empty resultType")


def _undeclared_task(setup: ScenarioSetup) -> Run:
    """Return a tool that returns a task to a client that does not declare the extension of tasks."""

    async def give(request: ScriptedRequest) -> JsonObject:
        if declares_tasks(request.session):
            return text_result("not sent: the client declares tasks")
        setup.notes[UNDECLARED_TASK] = True
        task = ScriptedTask(script=TaskScript(name=UNDECLARED_TASK)).shown("working", modern=True)
        odd = {**text_result("odd"), **task, "resultType": "task", "_meta": {}}
        raise RawReply(encoded(_message(request, odd)), "a task, although no tasks are declared")

    return give


async def _no_type(request: ScriptedRequest) -> JsonObject:
    raise RawReply(encoded(_message(request, text_result("untyped"))), "a result without resultType")


async def _stream_of_all_kinds(request: ScriptedRequest) -> JsonObject:
    """Send an event with comments, unknown fields and every kind of line end, in pieces."""
    sink = request.sink
    result: JsonObject = text_result(STREAMED)
    whole = _whole(request, result)
    first, second = whole.index(b'"id"'), whole.index(b'"result"')
    # Within a character.
    within = whole.index(STREAMED[-1].encode()) + 2
    # JSON permits a line break between two tokens; the data is split into three lines there.
    parts = (
        b":\n",
        b": a comment\r",
        b"com.example: 1\n",
        b"com.example\n",
        b"retry: 5\r\n",
        b"data: " + whole[:first],
        b"\rdata:" + whole[first:second] + b"\r",
        b"\ndata:" + whole[second:within],
        whole[within:] + b"\r",
        b"\r: the end\n",
    )
    if isinstance(sink, SessionEvents):
        await sink.chunks(parts)
    elif isinstance(sink, PostSink):
        exchange = sink.exchange
        await exchange.start(200, STREAM)
        for part in parts:
            await exchange.chunk(part)
        await exchange.finish()
    else:
        return result
    raise NoReply("the response was sent already")


async def _marked_stream(request: ScriptedRequest) -> JsonObject:
    """Begin a stream with a byte order mark, which is no part of the first field."""
    sink = request.sink
    result = text_result("marked")
    if isinstance(sink, PostSink):
        exchange = sink.exchange
        await exchange.start(200, STREAM)
        await exchange.chunk(_BYTE_ORDER_MARK + b"data: " + _whole(request, result) + b"\n\n")
        await exchange.finish()
        raise NoReply("the response was sent already")
    return result


async def _other_event(request: ScriptedRequest) -> JsonObject:
    """Send an event of another type, whose data is no message, before the event of the result, which states its type."""
    sink = request.sink
    result = text_result("behind another event")
    if isinstance(sink, PostSink):
        exchange = sink.exchange
        await exchange.start(200, STREAM)
        # By the standard, a client that listens only to messages ignores it.
        await exchange.chunk(b"event: com.example.alive\ndata: still here\n\n", deviant="an event without a message")
        await exchange.named_event("message", _whole(request, result))
        await exchange.finish()
        raise NoReply("the response was sent already")
    return result


async def _media_type(request: ScriptedRequest) -> JsonObject:
    sink = request.sink
    result = text_result("typed")
    if isinstance(sink, PostSink):
        kind = 'Application/JSON; charset="utf-8"'
        await sink.exchange.respond(200, [("Content-Type", kind)], _whole(request, result))
        raise NoReply("the response was sent already")
    return result


async def _stream_type(request: ScriptedRequest) -> JsonObject:
    sink = request.sink
    result = text_result("typed stream")
    if isinstance(sink, PostSink):
        await sink.exchange.start(200, [("Content-Type", "Text/Event-Stream;charset=UTF-8")])
        await sink.exchange.event(_whole(request, result))
        await sink.exchange.finish()
        raise NoReply("the response was sent already")
    return result


async def _upper_headers(request: ScriptedRequest) -> JsonObject:
    sink = request.sink
    result = text_result("upper")
    if isinstance(sink, PostSink):
        headers = [("CONTENT-TYPE", "application/json"), ("cache-CONTROL", "no-store")]
        await sink.exchange.respond(200, headers, _whole(request, result))
        raise NoReply("the response was sent already")
    return result


async def _gives(request: ScriptedRequest) -> JsonObject:
    value = STRUCTURED[request.text("name")]
    return {**text_result("structured"), "structuredContent": value}


async def _report(_: ScriptedRequest) -> JsonObject:
    return text_result("noted")


_REPORT: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "of": {"type": "string", "description": "The tool that was called, or the URI that was read"},
        "outcome": {"enum": ["result", "failed", "error", "not found", "invalid"]},
        "code": {"type": "integer", "description": "The code of an error"},
        "text": {"type": "string", "description": "The first text of the content, cut after 1000 characters"},
        "length": {"type": "integer", "description": "The length of that text, in characters"},
        "structured": {"description": "The structured content"},
    },
    "required": ["of", "outcome"],
}
_NUMBERED: Final[JsonObject] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

_EVERYWHERE: Final[tuple[tuple[str, Run], ...]] = (
    ("gives_plain", _plain),
    ("gives_failure", _fails),
    (EMPTY, _silent),
    ("gives_unicode", _unicode),
    ("gives_large", _large),
    ("gives_error", _error),
    (POSITIVE_ERROR, _positive_error),
    ("gives_noise", _noisy),
    ("gives_stray", _stray),
)
_MODERN: Final[tuple[tuple[str, Run], ...]] = (
    *((name, _fails_with(code)) for name, code in ERROR_CODES.items() if name != "gives_error"),
    ("gives_odd_type", _odd_type),
    (EMPTY_TYPE, _empty_type),
    ("gives_no_type", _no_type),
    ("gives_bad_request", _bad_request),
    ("gives_anonymous_error", _anonymous_error),
    ("gives_upper_headers", _upper_headers),
    ("gives_unknown_method", _unknown_method),
    *((name, _gives) for name in STRUCTURED),
)


def _results(setup: ScenarioSetup) -> None:
    offers, revision = setup.server.offers, setup.revision
    offers.tools.clear()
    offers.calls.clear()
    rows = list(_EVERYWHERE)
    if revision.era is Era.MODERN:
        rows += [*_MODERN, (UNDECLARED_TASK, _undeclared_task(setup))]
        setup.server.handlers["resources/read"] = _no_longer
        offers.resources.append({"uri": ODD_RESOURCE, "name": "odd-type"})
        listed = setup.server.handlers["resources/list"]

        async def untyped(request: ScriptedRequest) -> JsonObject:
            # Only resultType is missing: a client may reject a list without the other required members.
            result: JsonObject = {"ttlMs": 0, "cacheScope": "private", **await listed(request)}
            raise RawReply(encoded(_message(request, result)), "a result without resultType")

        setup.server.handlers["resources/list"] = untyped
    if setup.transport is not Transport.STDIO:
        rows.append(("gives_stream", _stream_of_all_kinds))
    if setup.transport is Transport.HTTP:
        rows += [
            ("gives_large_event", _large_event),
            ("gives_media_type", _media_type),
            ("gives_stream_type", _stream_type),
            ("gives_marked_stream", _marked_stream),
            ("gives_other_event", _other_event),
        ]
    if setup.transport is Transport.STDIO:
        rows += [("gives_crlf", _crlf), ("gives_together", _together)]
    for name, run in rows:
        offers.add_tool(name, "Returns a special kind of result", run)
    if revision in between(R2025_06_18):
        structured: list[tuple[str, Run]] = [("gives_structured", _structured), ("gives_unfit", _unfit)]
        if revision in between(R2025_11_25):
            # Earlier revisions do not say whether a failure needs structured content.
            structured.append((FAILURE_OF_SCHEMA, _fails))
        if revision.era is Era.MODERN:
            structured.append((UNFIT_LATER, _unfit_later))
        for name, run in structured:
            offers.tools.append({**tool(name, "Returns structured content"), "outputSchema": _NUMBERED})
            offers.calls[name] = run
    add_report(offers)


def add_report(offers: Offers) -> None:
    """Add the tool `report`, which receives the outcome of a call."""
    offers.add_tool("report", "Receives the outcome of a call", _report, _REPORT)


async def _no_longer(request: ScriptedRequest) -> JsonObject:
    if request.params.get("uri") == ODD_RESOURCE:
        contents: list[JsonValue] = [{"uri": ODD_RESOURCE, "mimeType": "text/plain", "text": "odd"}]
        cached: JsonObject = {"ttlMs": 0, "cacheScope": "private", "_meta": {}}
        odd: JsonObject = {"resultType": "com.example/unheard-of", "contents": contents, **cached}
        raise RawReply(encoded(_message(request, odd)), "an unknown resultType")
    error: JsonObject = {"code": -32002, "message": "Resource not found", "data": {"uri": request.params.get("uri")}}
    whole: JsonObject = {"jsonrpc": "2.0", "id": request.message["id"], "error": error}
    raise RawReply(encoded(whole), "the error code of earlier revisions for an unknown resource")


RESULT_SCENARIOS: Final = (
    Scenario(
        name=RESULTS,
        title="Tools with results of every kind; the client reports the outcome of each by the tool `report`.",
        prepare=_results,
    ),
)
"""The scenarios, in order."""
