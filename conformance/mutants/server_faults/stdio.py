"""Faults of batches, of reading lines in stdio, and of ids that are not random."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, MODERN, REVISIONS, RpcError, strict
from mutants.server_faults.lists import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest
    from mutants.server.subscriptions import SubscriptionRegistry

__all__: list[str] = []

_PIPES: Final = ("stdio",)
_BATCHES: Final = LEGACY[1:2]
_SHORT: Final = 100
"""The size in bytes of the pieces that the server reads as lines."""
_PORTION: Final = 64 * 1024
_LARGE: Final = 250_000

# --- batches ---------------------------------------------------------------------------------------------------------


def _batch(
    name: str,
    *caught_by: str,
    change: Callable[[list[JsonValue], JsonValue, int], tuple[JsonValue, int]],
    transports: tuple[str, ...] = ("stdio", "http"),
) -> None:
    """Add a fault of the answer to a batch."""

    class _Batch(Fault):
        def batch(self, batch: list[JsonValue], answer: JsonValue, status: int) -> tuple[JsonValue, int]:
            return change(batch, answer, status)

    fault(name, *caught_by, revisions=_BATCHES, transports=transports)(_Batch)


_NOTIFICATION: Final[JsonObject] = {
    "jsonrpc": "2.0",
    "method": "notifications/message",
    "params": {"level": "emergency", "data": "a batch came"},
}
_UNKNOWN: Final[JsonObject] = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {"code": -32601, "message": "unknown notification"},
}
_batch("batch-of-one-unanswered", "batch.one", change=lambda batch, answer, status:
       (None, 202) if len(batch) == 1 else (answer, status))  # fmt: skip
_batch("batch-of-both-kinds", "batch.element-kinds", change=lambda _, answer, status:
       ([*answer, _NOTIFICATION], status) if isinstance(answer, list) else (answer, status))  # fmt: skip
_batch("batch-on-stream-cut", "batch.requests", change=lambda batch, answer, status:
       (answer[:1], status) if isinstance(answer, list) and "progressToken" in str(batch) else (answer, status))  # fmt: skip
_batch("batch-empty-array", "batch.empty", transports=_PIPES, change=lambda batch, answer, status:
       (answer, status) if batch else ([answer], status))  # fmt: skip
_batch("batch-empty-taken", "batch.empty", transports=("http",), change=lambda batch, answer, status:
       (answer, status) if batch else (answer, 200))  # fmt: skip
_batch("unknown-in-batch-rejected", "batch.requests", "schema.error-id", transports=("http",), change=lambda batch, answer, status:
       ([*answer, dict(_UNKNOWN)], status) if isinstance(answer, list) and "conformance-unknown" in str(batch) else (answer, status))  # fmt: skip
_batch("unknown-rejected-alone", "batch.not-answered", transports=_PIPES, change=lambda batch, answer, status:
       ([dict(_UNKNOWN)], 200) if answer is None and "conformance-unknown" in str(batch) else (answer, status))  # fmt: skip
_batch("batch-answered-empty", "batch.http-202", "batch.not-answered", "batch.element-kinds", change=lambda _, answer, status:
       ([], 200) if answer is None else (answer, status))  # fmt: skip
_batch("batch-with-a-notification-unanswered", "batch.requests", transports=_PIPES, change=lambda batch, answer, status:
       (answer, status) if all(not isinstance(each, dict) or "id" in each for each in batch) else (None, 202))  # fmt: skip


@fault("responses-in-batch-dropped", "batch.responses", revisions=_BATCHES)
class _ResponsesDropped(Fault):
    def elements(self, batch: list[JsonValue]) -> list[JsonValue]:
        return [each for each in batch if not isinstance(each, dict) or "method" in each or "result" not in each]


@fault("batches-kept", "batch.no-array", "stdio.no-batch", revisions=LEGACY[2:], transports=_PIPES)
class _BatchesKept(Fault):
    """A server that still answers batches as in the revision before."""

    def batch(self, batch: list[JsonValue], answer: JsonValue, status: int) -> tuple[JsonValue, int]:
        ids = [each["id"] for each in batch if isinstance(each, dict) and "id" in each]
        return ([{"jsonrpc": "2.0", "id": id, "result": {}} for id in ids] if ids else answer), status


@fault(
    "batch-error-with-another-id",
    "batch.error-id",
    "jsonrpc.response-ids",
    revisions=LEGACY[2:],
    transports=("http",),
)
class _BatchErrorId(Fault):
    """A server that makes up the id of the error for an array."""

    def batch(self, batch: list[JsonValue], answer: JsonValue, status: int) -> tuple[JsonValue, int]:  # noqa: ARG002
        return ({**answer, "id": "made-up"} if isinstance(answer, dict) else answer), status


@fault("tokens-twice", "progress.own-token-once", revisions=_BATCHES, transports=_PIPES)
class _TokensTwice(Fault):
    """A server that uses one progress token for two client requests; both are in one batch."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "test_simple_text":
            meta: JsonObject = {"_meta": {"progressToken": "mine"}}
            number = next(inbound.session.numbers)
            inbound.send(
                [
                    {"jsonrpc": "2.0", "id": f"{which}{number}", "method": "ping", "params": meta}
                    for which in ("first", "second")
                ]
            )
        return result


@fault("tokens-as-fractions", "progress.own-token-type", revisions=LEGACY)
class _TokensAsFractions(Fault):
    def client_request_params(self, inbound: InboundRequest, method: str, params: JsonObject) -> JsonObject:  # noqa: ARG002
        return {**params, "_meta": {"progressToken": 1.5}} if method == "sampling/createMessage" else params


# --- stdio -----------------------------------------------------------------------------------------------------------


@fault("long-lines-dropped", "stdio.large-message", revisions=MODERN, transports=_PIPES)
class _LongDropped(Fault):
    def lines(self, pipe: BinaryIO) -> Iterable[bytes]:
        return (line for line in pipe if len(line) < _LARGE)


@fault("lines-of-64-kib", "stdio.large-message", transports=_PIPES)
class _LinesCut(Fault):
    def lines(self, pipe: BinaryIO) -> Iterator[bytes]:
        while line := pipe.readline(_PORTION):
            yield line


@fault("output-of-64-kib", "stdio.large-message", "stdio.stdout-only-messages", transports=_PIPES)
class _OutputCut(Fault):
    """A server that writes its messages in portions, each with a line feed."""

    def line(self, line: bytes) -> bytes:
        return b"".join(line[start : start + _PORTION].rstrip(b"\n") + b"\n" for start in range(0, len(line), _PORTION))


@fault("lines-end-at-next-line", "stdio.unicode", transports=_PIPES)
class _EndAtNextLine(Fault):
    """A server for which the control character U+0085 ends a line of its input, too."""

    def lines(self, pipe: BinaryIO) -> Iterator[bytes]:
        for line in pipe:
            yield from line.split("\u0085".encode())


@fault(
    "no-json-kept",
    "jsonrpc.parse-error",
    *(f"jsonrpc.no-json-{each}" for each in ("bad-utf8", "nan", "two-values", "deep", "cut")),
    transports=_PIPES,
)
class _NoJsonKept(Fault):
    """A server that puts a line that is not JSON before the next one."""

    def lines(self, pipe: BinaryIO) -> Iterator[bytes]:
        kept = b""
        for line in pipe:
            yield kept + line
            kept = b"" if kept or _is_json(line) else line


def _is_json(line: bytes) -> bool:
    try:
        strict(line)
    except (ValueError, RecursionError):
        return False
    return True


@fault("lines-behind-no-json-dropped", "stdio.behind-invalid-line", transports=_PIPES)
class _BehindNoJsonDropped(Fault):
    """A server that drops the rest of a portion of its input behind a line that is not JSON."""

    def lines(self, pipe: BinaryIO) -> Iterator[bytes]:
        kept = b""
        while data := os.read(pipe.fileno(), _PORTION):
            *lines, kept = (kept + data).split(b"\n")
            dropping = False
            for line in lines:
                # Other lines may arrive in one portion by chance.
                if not (dropping and b'"behind a line' in line):
                    yield line
                dropping = dropping or not _is_json(line)


@fault("pieces-as-lines", "stdio.pieces", transports=_PIPES)
class _PiecesAsLines(Fault):
    def lines(self, pipe: BinaryIO) -> Iterator[bytes]:
        kept = b""
        while data := os.read(pipe.fileno(), _PORTION):
            *lines, kept = (kept + data).split(b"\n")
            yield from lines
            if kept and len(kept) < _SHORT:
                yield kept
                kept = b""


# The id of the response is one that no request has.
@fault("characters-in-pieces", "stdio.pieces", "jsonrpc.response-ids", transports=_PIPES)
class _CharactersInPieces(Fault):
    """A server that decodes each portion of its input, also one that ends within a character."""

    def lines(self, pipe: BinaryIO) -> Iterator[bytes]:
        kept = ""
        while data := os.read(pipe.fileno(), _PORTION):
            *lines, kept = (kept + data.decode("utf-8", "replace")).split("\n")
            yield from (line.encode() for line in lines)


@fault("cancelled-goes-on", "stdio.cancelled-silent", revisions=MODERN, transports=_PIPES)
class _CancelledGoesOn(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        token = inbound.meta.get("progressToken")
        if str(token).startswith("to be cancelled"):
            time.sleep(0.05)
            inbound.notify("notifications/progress", {"progressToken": token, "progress": 1000})
        return result


def _answered_in_the_end(name: str, tool: str, *checks: str, requests: int) -> None:
    """Add a server whose cancelled call of a tool reports no progress, but works on and has a response.

    Args:
        name: The name of the fault.
        tool: The tool.
        checks: The checks that must detect it.
        requests: The number of requests that the server reads until the response.
    """

    class _AnsweredInTheEnd(Fault):
        def __init__(self) -> None:
            self._done: set[str | None] = set()
            self._requests = 0
            self._more = threading.Condition()

        def reads(self, message: JsonValue) -> JsonValue:
            if isinstance(message, dict) and "method" in message and "id" in message:
                with self._more:
                    self._requests += 1
                    self._more.notify_all()
            return message

        def cancels(self, id: JsonValue) -> bool:
            return _key(id) not in self._done

        def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            if name_of(inbound) == tool and inbound.cancelled:
                with self._more:
                    enough = self._requests + requests
                    self._more.wait_for(lambda: self._requests >= enough)
                self._done.add(_key(inbound.request["id"]))
                return {"content": []}
            return result

    fault(name, *checks, revisions=MODERN, transports=_PIPES)(_AnsweredInTheEnd)


_answered_in_the_end("cancelled-answered-when-released", "conformance_wait", "stdio.cancelled-silent", requests=0)
# So late that the check which cancels the call has ended.
_answered_in_the_end("cancelled-answered-much-later", "conformance_slow", "cancellation.silent-to-the-end", requests=6)


class _Cancelling(Fault):
    """A server that reads cancellations wrongly."""

    def cancellation(self, params: JsonObject) -> JsonObject:
        """Return the params of a cancellation, as the server reads them."""
        return params

    def reads(self, message: JsonValue) -> JsonValue:
        if isinstance(message, dict) and message.get("method") == "notifications/cancelled":
            params = message.get("params")
            return {**message, "params": self.cancellation(params)} if isinstance(params, dict) else message
        return message


def _key(id: JsonValue) -> str | None:
    return json.dumps(id) if isinstance(id, str | int) else None


@fault("cancels-no-falsy-id", "stdio.cancelled-silent", revisions=MODERN, transports=_PIPES)
class _NoFalsyId(Fault):
    def cancels(self, id: JsonValue) -> bool:
        return bool(id)


@fault("cancels-once", "stdio.cancelled-silent", revisions=MODERN, transports=_PIPES)
class _CancelsOnce(Fault):
    """A server that stops one request only, if several are cancelled without a response in between."""

    def __init__(self) -> None:
        self._stopped: Final[dict[str | None, bool]] = {}
        self._has_stopped_one = False

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:  # noqa: ARG002
        self._has_stopped_one = False
        return response

    def cancels(self, id: JsonValue) -> bool:
        stops = self._stopped.setdefault(_key(id), not self._has_stopped_one)
        self._has_stopped_one = True
        return stops


def _cancelling(name: str, change: Callable[[str | int], str | int], *checks: str) -> None:
    """Add a server that takes the id of a cancellation for another one, which also these checks detect."""

    class _OtherId(_Cancelling):
        def cancellation(self, params: JsonObject) -> JsonObject:
            id = params.get("requestId")
            return {**params, "requestId": change(id)} if isinstance(id, str | int) else params

    fault(name, "cancellation.only-this-request", *checks, transports=_PIPES)(_OtherId)


_cancelling(
    "cancels-digits-as-number",
    lambda id: int(id) if isinstance(id, str) and id.isdecimal() else id,
    "subscription.cancelled",
)
_cancelling(
    "cancels-in-any-case", lambda id: id.capitalize() if isinstance(id, str) and id.startswith("conformance-") else id
)
_cancelling("cancels-by-prefix", lambda id: id.removesuffix("-cancelled") if isinstance(id, str) else id)


@fault("cancels-all", "cancellation.only-this-request", transports=_PIPES)
class _CancelsAll(_Cancelling):
    """A server whose cancellation of one request ends all that are in progress."""

    def __init__(self) -> None:
        self._count = 0
        self._begun: dict[str | None, int] = {}

    def cancellation(self, params: JsonObject) -> JsonObject:
        self._count += 1
        return params

    def reads(self, message: JsonValue) -> JsonValue:
        if isinstance(message, dict) and "id" in message:
            self._begun[_key(message["id"])] = self._count
        return super().reads(message)

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        cancelled = self._begun.get(_key(inbound.request["id"])) != self._count
        return None if cancelled and name_of(inbound) == "test_tool_with_progress" else response


@fault(
    "cancels-the-next", "cancellation.of-the-past", "cancellation.of-the-unknown", revisions=MODERN, transports=_PIPES
)
class _CancelsTheNext(_Cancelling):
    """A server that keeps the cancellation of a request that it does not know, and applies it to the next with that id."""

    def __init__(self) -> None:
        self._kept: set[str | None] = set()

    def cancellation(self, params: JsonObject) -> JsonObject:
        self._kept.add(_key(params.get("requestId")))
        return params

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        return None if _key(inbound.request["id"]) in self._kept else response


@fault("complains-of-repeated", "cancellation.of-the-past", "cancellation.only-this-request", transports=_PIPES)
class _ComplainsOfRepeated(Fault):
    def __init__(self) -> None:
        self._cancelled: set[str] = set()

    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        params = message.get("params")
        key = _key(params.get("requestId")) if isinstance(params, dict) else None
        if message["method"] != "notifications/cancelled" or key is None:
            return answer
        if key in self._cancelled:
            return {"jsonrpc": "2.0", "error": {"code": -32602, "message": "already cancelled"}}
        self._cancelled.add(key)
        return answer


@fault("requests-without-id-answered", "jsonrpc.notification-not-answered", transports=_PIPES)
class _WithoutIdAnswered(Fault):
    def notified(self, message: JsonObject, answer: JsonValue) -> JsonValue:
        if message["method"] == "tools/list":
            return {"jsonrpc": "2.0", "error": {"code": -32600, "message": "the id is missing"}}
        return answer


@fault("exit-after-responses", "stdio.exit", revisions=LEGACY[3:], transports=_PIPES)
class _ExitAfterResponses(Fault):
    """A server that does not exit before its client requests have their responses."""

    def __init__(self) -> None:
        self._waits = 0

    def before(self, message: JsonValue) -> JsonValue:
        self._waits += isinstance(message, dict) and "id" in message
        return message

    def reads(self, message: JsonValue) -> JsonValue:
        self._waits -= isinstance(message, dict) and "method" not in message
        return message

    def lines(self, pipe: BinaryIO) -> Iterator[bytes]:
        yield from pipe
        if self._waits > 0:
            threading.Event().wait()


@fault("exit-after-calls", "stdio.exit", revisions=MODERN, transports=_PIPES)
class _ExitAfterCalls(Fault):
    """A server that does not exit while a call is in progress."""

    def __init__(self) -> None:
        self._calls = 0

    def reads(self, message: JsonValue) -> JsonValue:
        self._calls += isinstance(message, dict) and message.get("method") == "tools/call"
        return message

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        self._calls -= inbound.request["method"] == "tools/call"
        return response

    def lines(self, pipe: BinaryIO) -> Iterator[bytes]:
        yield from pipe
        if self._calls > 0:
            threading.Event().wait()


@fault("exit-after-subscriptions", "stdio.exit", revisions=MODERN, transports=_PIPES)
class _ExitAfterSubscriptions(Fault):
    """A server that does not exit after it has ended a subscription with its input."""

    def __init__(self) -> None:
        self._registry: SubscriptionRegistry | None = None

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.request["method"] == "subscriptions/listen":
            self._registry = inbound.server.listeners
        return result

    def lines(self, pipe: BinaryIO) -> Iterator[bytes]:
        yield from pipe
        if self._registry is not None and self._registry.end():
            threading.Event().wait()


class _UntilServed(Fault):
    """A server that behaves differently until it has served a request."""

    def __init__(self) -> None:
        self._has_served = False

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:  # noqa: ARG002
        self._has_served = self._has_served or "result" in response
        return response


@fault("removed-served-at-first", "jsonrpc.removed-at-first", revisions=MODERN, transports=_PIPES)
class _RemovedAtFirst(_UntilServed):
    """A server that knows the era of its client when it has served a request."""

    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if not self._has_served and inbound.request["method"] in ("ping", "logging/setLevel", "resources/subscribe"):
            return {}
        raise error


@fault("incomplete-ignored-at-first", "meta.missing-at-first", revisions=MODERN, transports=_PIPES)
class _IncompleteAtFirst(_UntilServed):
    """A server that waits for a request with metadata."""

    def reads(self, message: JsonValue) -> JsonValue:
        if self._has_served or not isinstance(message, dict) or message.get("method") == "initialize":
            return message
        params = message.get("params")
        if isinstance(params, dict) and "_meta" in params:
            return message
        return {key: each for key, each in message.items() if key != "id"}


@fault("initializes-once", "lifecycle.initialize-after-rejection", revisions=LEGACY[3:], transports=_PIPES)
class _InitializesOnce(Fault):
    """A server that counts a rejected `initialize` as the one of its client."""

    def __init__(self) -> None:
        self._begun = False

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        if inbound.request["method"] != "initialize":
            return response
        begun, self._begun = self._begun, True
        if not begun or "error" in response:
            return response
        return {
            "jsonrpc": "2.0",
            "id": response["id"],
            "error": {"code": -32600, "message": "the connection is initialized"},
        }


@fault("farewell-on-stdout", "stdio.stdout-only-messages", transports=_PIPES)
class _Farewell(Fault):
    def lines(self, pipe: BinaryIO) -> Iterator[bytes]:
        yield from pipe
        sys.stdout.buffer.write(b"bye\n")
        sys.stdout.buffer.flush()


@fault("ping-after-a-slow-call", "ping.during-a-call", revisions=LEGACY, transports=_PIPES)
class _PingAfterSlowCall(Fault):
    """A server that reads no further during some tools, as one whose tools block its event loop."""

    def __init__(self) -> None:
        self._free = threading.Event()
        self._free.set()

    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        if isinstance(params, dict) and params.get("name") == "conformance_slow":
            self._free.clear()
        elif isinstance(message, dict) and message.get("method") == "ping":
            self._free.wait()
        return message

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "conformance_slow":
            self._free.set()
        return result


@fault("ping-after-the-call", "ping.during-a-call", revisions=LEGACY, transports=_PIPES)
class _PingAfterTheCall(Fault):
    """A server that answers a ping when no call is in progress."""

    def __init__(self) -> None:
        self._calls = 0
        self._held: list[JsonValue] = []

    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        if isinstance(params, dict) and params.get("name") == "conformance_wait":
            self._calls += 1
        return message

    def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
        if name_of(inbound) == "conformance_wait":
            self._calls -= 1
        if inbound.request["method"] != "ping" or not self._calls:
            return response
        self._held.append(response)
        return None

    def following(self, request: JsonObject) -> list[JsonValue]:  # noqa: ARG002
        held, self._held = ([], self._held) if self._calls else (self._held, [])
        return held


# --- ids -------------------------------------------------------------------------------------------------------------


@fault("tasks-counted", "tasks.ids", revisions=REVISIONS[3:])
class _TasksCounted(Fault):
    def task_id(self, id: str, number: int) -> str:  # noqa: ARG002
        return f"a-task-of-this-server-with-the-number-{number}"
