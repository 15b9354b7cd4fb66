"""The raw client over stdio with a server that it starts, and over HTTP+SSE of 2024-11-05."""

from __future__ import annotations

import http.client
import json
import re
import select
import subprocess
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final
from urllib.parse import urljoin, urlsplit

from mutants.client.http import events_of
from mutants.client.messages import (
    MODERN,
    SPOKEN,
    ClientError,
    MessageFactory,
    UnsupportedRevision,
    dumped,
    in_scenario,
    late_notifications,
    progress_before,
    reply,
    require_order,
    result_of,
    wrong,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["EventStream", "Pipes"]

_GRACE: Final = 0.5
"""Seconds between two steps of the shutdown."""
_ACCEPTED: Final = 202
_PORTION: Final = 65536
"""Bytes of a read."""
_WRITTEN: Final = re.compile(rb'"data": ?"[^"]*"')
"""A member with base64 in a line."""


class _Lines(ABC):
    """The common part of both transports: successive messages."""

    def __init__(self, version: str, *, used: int = 0) -> None:
        self.messages: Final = MessageFactory(version, used=used)
        self.notified: Final[list[JsonObject]] = []
        """The notifications of the server."""
        self._annotated: Final[set[str]] = set()
        """The names of the annotated arguments, for a fault that takes them for headers."""

    @abstractmethod
    def send(self, message: JsonObject) -> None:
        """Send a message."""

    @abstractmethod
    def receive(self) -> JsonObject:
        """Return the next message."""

    def _response(self, request: JsonObject) -> JsonObject:
        self.send(request)
        if request["method"] == "initialize" and wrong("initialized-early"):
            self.send(self.messages.notification("notifications/initialized"))
        mistakes = in_scenario("server-asks") and wrong("id-before-method")
        taken = ["unsolicited"] if wrong("takes-next-response") else []
        behind: list[JsonObject] = []
        while True:
            message = self.receive()
            _take_cancellation(message, request)
            if "method" in message and not (message.get("id") == request["id"] and mistakes):
                self.notified.append(message)
                if wrong("no-early-pong") and request["method"] == "initialize":
                    continue
                for each in progress_before(message):
                    self.send(each)
                answer = reply(message)
                late = message["method"] == "ping" and in_scenario("server-asks") and wrong("pongs-behind-calls")
                if answer is not None and late:
                    behind.append(answer)
                elif answer is not None:
                    self._send_answer(answer)
                for each in late_notifications():
                    self.send(each)
            elif message.get("id") == "unsolicited" and wrong("dies-of-stray"):
                raise ClientError("response to an unknown request")
            elif _refuses_anonymously(message):
                return message
            elif "id" in message and message["id"] in (request["id"], None, *taken):
                for each in behind:
                    self.send(each)
                return message

    def _send_answer(self, answer: JsonObject) -> None:
        self.send(answer)
        decided = answer.get("result")
        if isinstance(decided, dict) and decided.get("action") == "decline" and wrong("declines-and-cancels"):
            named: JsonObject = {"requestId": answer["id"]}
            self.send({**self.messages.notification("notifications/cancelled"), "params": named})
        if wrong("answers-twice"):
            self.send(answer)

    def call(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request and return the result."""
        if method.endswith("/list") and in_scenario("meets-legacy") and wrong("probes-again"):
            self._response(self.messages.request("server/discover", {}))
        arguments = params.get("arguments")
        if self._annotated and isinstance(arguments, dict):
            kept = {name: value for name, value in arguments.items() if value or name not in self._annotated}
            params = {**params, "arguments": kept}
        return result_of(self._response(self.messages.request(method, params)))

    def call_at_once(self, method: str, each_params: list[JsonObject]) -> list[JsonObject]:
        """Send several requests before the first response, and return the results."""
        requests = [self.messages.request(method, params) for params in each_params]
        for request in requests:
            self.send(request)
        found: dict[JsonValue, JsonObject] = {}
        while len(found) < len(requests):
            message = self.receive()
            if "method" not in message:
                found[message.get("id")] = result_of(message)
        return [found[request["id"]] for request in requests]

    def abandon(self, method: str, params: JsonObject) -> None:
        """Send a request and abandon it."""
        request = self.messages.request(method, params)
        self.send(request)
        named: list[JsonObject] = [{"requestId": request["id"], "reason": "it takes too long"}]
        # The invalid notification is sent in addition to the valid one.
        if wrong("cancels-by-text"):
            named = [{"requestId": str(request["id"])}]
        if wrong("cancels-without-id"):
            named.append({"reason": 7})
        if wrong("cancels-others"):
            named.append({"requestId": 4711})
        a_call = method == "tools/call"
        if wrong("never-cancels") or wrong("calls-again-after-timeout") or (wrong("cancels-calls-only") and not a_call):
            named.clear()
        if wrong("calls-again-after-timeout"):
            self.send(self.messages.request(method, params))
        for each in named:
            self.send({**self.messages.notification("notifications/cancelled"), "params": each})
        if a_call and (wrong("dies-of-late-response") or wrong("dies-of-late-error")):
            while (late := self.receive()).get("id") != request["id"]:
                pass
            if "error" in late or wrong("dies-of-late-response"):
                raise ClientError("the response is too late")

    def notify(self, method: str) -> None:
        """Send a notification."""
        self.send(self.messages.notification(method))

    def cancel_last(self) -> None:
        """Cancel the last request by a notification."""
        self.send(self.messages.cancellation_of_last())

    def initialize(self) -> JsonObject:
        """Open a legacy connection."""
        if wrong("asks-first") and in_scenario("tools_call"):
            self.send(self.messages.request("tools/list", {}))
        request = self.messages.initialize()
        result = result_of(self._response(request))
        if "error" in result and wrong("goes-on-after-rejection"):
            self.call("tools/list", {})
        info = result.get("serverInfo")
        if isinstance(info, dict) and info.get("version") == "0" and wrong("no-version-zero"):
            raise ClientError("the server has no version")
        agreed = result.get("protocolVersion")
        newer = str(agreed) > SPOKEN[-1] and wrong("any-newer-version")
        if agreed not in SPOKEN and not wrong("any-version") and not newer:
            raise ClientError(f"unsupported version {agreed}")
        self.messages.agreed = str(agreed)
        if not wrong("no-initialized") and not wrong("initialized-early"):
            self.send(self.messages.notification("notifications/initialized"))
        if in_scenario("tools_call") and wrong("cancels-initialize"):
            named: JsonObject = {"requestId": request["id"]}
            self.send({**self.messages.notification("notifications/cancelled"), "params": named})
        capabilities = result.get("capabilities")
        return capabilities if isinstance(capabilities, dict) else {}

    def fetch(self, tools: list[JsonObject]) -> None:  # noqa: B027  optional to override
        """Do nothing: only HTTP servers have URLs to fetch."""

    def learn(self, tools: list[JsonObject]) -> None:
        """Do nothing, as there are no headers over this transport, unless the fault treats some arguments as headers."""
        for tool in tools if wrong("falsy-arguments-in-headers") else ():
            schema = tool.get("inputSchema")
            properties = schema.get("properties") if isinstance(schema, dict) else None
            listed = properties if isinstance(properties, dict) else {}
            self._annotated.update(name for name, part in listed.items() if "x-mcp-header" in str(part))

    def usable(self, tools: list[JsonObject]) -> list[JsonObject]:
        """Return all tools."""
        return tools


def _take_cancellation(message: JsonObject, request: JsonObject) -> None:
    """Raise `ClientError` if the client takes a cancellation by the server for that of its own request with the same id."""
    params = message.get("params")
    id = params.get("requestId") if isinstance(params, dict) else None
    if message.get("method") == "notifications/cancelled" and id == request["id"] and wrong("cancels-own-request"):
        raise ClientError("the request was cancelled")


def _refuses_anonymously(message: JsonObject) -> bool:
    """Return whether an error without an id belongs to the only request of the client."""
    probed = in_scenario("meets-legacy-without-id")
    if "id" not in message and wrong("dies-of-anonymous-refusal" if probed else "dies-without-id"):
        raise ClientError("response without an id")
    return probed and "error" in message and "id" not in message


def _taken(batch: list[JsonValue]) -> int:
    """Return how many members of a batch are read."""
    return 1 if wrong("one-of-batch") else len(batch)


def _part(line: bytes, start: int) -> bytes:
    """Decode a part of a line without regard to its boundaries."""
    return line[start : start + _PORTION].decode(errors="replace").encode()


class Pipes(_Lines):
    """A server process and its pipes."""

    def __init__(self, command: Sequence[str], version: str) -> None:
        super().__init__(version)
        reads = wrong("takes-stderr-for-failure") or wrong("ends-with-stderr")
        errors = subprocess.PIPE if reads else subprocess.DEVNULL
        self._process: Final = subprocess.Popen(  # noqa: S603  a client over stdio starts its server
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
        )

    def send(self, message: JsonObject) -> None:
        """Write a line."""
        batched = wrong("batched") and message.get("method") == "tools/call"
        self._write(dumped([message] if batched else message) + (b"\r\n" if wrong("crlf") else b"\n"))
        if wrong("chatty") and message.get("method") == "tools/call":
            self._write(b"calling a tool now\n")

    def _write(self, data: bytes) -> None:
        stdin = self._process.stdin
        if stdin is None:
            raise ClientError("it was started without pipes")
        stdin.write(data)
        stdin.flush()

    def receive(self) -> JsonObject:
        """Read a line."""
        stdout = self._process.stdout
        line = stdout.readline() if stdout is not None else b""
        if not line:
            raise ClientError("the server ended")
        if wrong("no-crlf") and line.endswith(b"\r\n"):
            raise ClientError("invalid line")
        if wrong("one-message-a-read") and b"the result follows" in line and in_scenario("conformance_results"):
            # Another message is in the same read.
            raise ClientError("invalid message")
        if wrong("splits-characters"):
            line = b"".join(_part(line, start) for start in range(0, len(line), _PORTION))
        value = self._parsed(line)
        if value == [] and wrong("dies-of-empty-batch"):
            raise ClientError("there is no first message")
        if isinstance(value, list):
            if wrong("all-of-batch-valid") and not all(isinstance(each, dict) for each in value):
                return self.receive()
            if any(isinstance(each, dict) and "method" not in each for each in value) and wrong("no-batched-response"):
                return self.receive()
            if not any(isinstance(each, dict) and "id" in each for each in value) and wrong("answers-noted-batch"):
                self._write(b"[]\n")
            skips = wrong("no-batches") or wrong("responses-of-batch-only")
            for each in [] if skips else value[1:] if wrong("first-of-batch") else value[: _taken(value)]:
                answer = reply(each) if isinstance(each, dict) and "method" in each else None
                if answer is not None:
                    self.send(answer)
            first = value[0] if value else None
            return first if isinstance(first, dict) and "method" not in first else self.receive()
        return value if isinstance(value, dict) else {}

    def _parsed(self, line: bytes) -> JsonValue:
        """Return the value of a line; an empty object, which is ignored, for one that is not JSON."""
        if wrong("splits-at-separators") and in_scenario("conformance_results") and len(line.decode().splitlines()) > 1:
            raise ClientError("a line is not JSON")
        if wrong("base64-as-written"):
            line = _WRITTEN.sub(lambda found: found[0].replace(rb"\/", rb"\\/"), line)
        try:
            value: JsonValue = json.loads(line)
        except ValueError:
            if wrong("dies-of-no-json"):
                raise ClientError("a line is not JSON") from None
            if wrong("answers-no-json"):
                self._write(b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "parse error"}}\n')
            return {}
        require_order(value)
        return value

    def open(self) -> JsonObject:
        """Open the connection."""
        try:
            return self._open()
        except UnsupportedRevision as refused:
            if refused.modern or not wrong("probe-id-again"):
                raise
            # The same process, and the id of the probe.
            self.messages.forget()
            self.messages.version = self.messages.agreed = SPOKEN[-1]
            return self.initialize()

    def _take_complaints(self) -> None:
        """Take standard error for a failure, if that is the fault: its output, or its end."""
        errors = self._process.stderr
        if errors is None:
            return
        if wrong("ends-with-stderr"):
            # Only there does it end before the process.
            if in_scenario("stdio-complains"):
                errors.read()
                raise ClientError("standard error has ended")
        elif select.select([errors], [], [], _GRACE)[0]:
            raise ClientError("the server complains")

    def _open(self) -> JsonObject:
        self._take_complaints()
        if self.messages.version != MODERN:
            return self.initialize()
        if wrong("no-probe") and in_scenario("tools_call"):
            self.call("tools/list", {})
        probe = self.messages.request("server/discover", {})
        if in_scenario("meets-silent"):
            self._probe_or_leave(probe)
        try:
            response = self._response(probe)
        except ClientError:
            if not in_scenario("meets-legacy-abrupt"):
                raise
            raise UnsupportedRevision("server/discover: exit", modern=wrong("gives-up-at-exit")) from None
        error = response.get("error")
        if isinstance(error, dict) and error.get("code") == -32022:
            data = error.get("data")
            supported = data.get("supported") if isinstance(data, dict) else None
            if isinstance(supported, list) and MODERN in supported:
                self.messages.take_version(supported)
                response = self._response(self.messages.request("server/discover", {}))
        result = response.get("result")
        if not isinstance(result, dict):
            error = response.get("error")
            code = error.get("code") if isinstance(error, dict) else None
            one = wrong("one-code-only") and code != -32600
            raise UnsupportedRevision(f"server/discover: {code}", modern=one or code in (-32020, -32021, -32022))
        if "serverInfo" not in json.dumps(result) and wrong("needs-server-info"):
            raise ClientError("the server has no name")
        if in_scenario("meets-modern"):
            self.messages.take_version(result.get("supportedVersions"))
        capabilities = result.get("capabilities")
        return capabilities if isinstance(capabilities, dict) else {}

    def initialize(self) -> JsonObject:
        """Open a legacy connection."""
        try:
            return super().initialize()
        except ClientError:
            if in_scenario("initialize-rejected") and wrong("frames-by-length"):
                again = dumped(self.messages.initialize())
                self._write(b"Content-Length: %d\r\n\r\n" % len(again) + again)
            raise

    def _probe_or_leave(self, probe: JsonObject) -> None:
        """Raise `UnsupportedRevision` when the probe has no response in time."""
        self.send(probe)
        stdout = self._process.stdout
        if stdout is None or not select.select([stdout], [], [], _GRACE)[0]:
            raise UnsupportedRevision("server/discover: no response", modern=wrong("gives-up-in-silence"))

    def close(self) -> None:
        """Close the input, then terminate and kill the process."""
        process = self._process
        if wrong("unfinished-line") and process.stdin is not None:
            process.stdin.write(b" ")
            process.stdin.flush()
        if (wrong("kills-at-once") or wrong("terminates-at-once")) and not in_scenario("version-unknown"):
            # The server has read all earlier messages when it answers this one.
            self.call("ping", {})
            (process.kill if wrong("kills-at-once") else process.terminate)()
        elif process.stdin is not None:
            process.stdin.close()
        for step in (process.terminate, process.kill):
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                if wrong("leaves-it-running") or (wrong("only-terminates") and step == process.kill):
                    break
                (process.kill if wrong("never-terminates") else step)()
        if not wrong("leaves-it-running") and not wrong("only-terminates"):
            process.wait()


class EventStream(_Lines):
    """The two endpoints of HTTP+SSE.

    Args:
        url: The URL of the stream.
        used: The number of ids that were used for the same server.
    """

    _paths: ClassVar[list[str]] = []
    """The endpoint of each connection."""

    def __init__(self, url: str, *, used: int = 0) -> None:
        super().__init__(SPOKEN[0], used=used)
        parts = urlsplit(url)
        self._where: Final = (parts.hostname or "", parts.port or 80)
        self._stream: Final = http.client.HTTPConnection(*self._where, timeout=30)
        self._stream.request("GET", parts.path, headers={"Accept": "text/event-stream"})
        self._events: Final = self._stream.getresponse()
        self._stream_path: Final = parts.path
        self._path = parts.path
        self._incoming: Final = events_of(self._events)
        if wrong("endpoint-in-first-line") and not self._events.peek().startswith(b"event:"):
            raise ClientError("the stream does not begin with an event")
        endpoint = self._event()
        if not wrong("posts-elsewhere") or not in_scenario("tools_call"):
            base = urljoin(url, "/") if wrong("endpoint-below-root") else url
            whole = urlsplit(urljoin(base, endpoint))
            self._path = endpoint if wrong("endpoint-as-path") else f"{whole.path}?{whole.query}"
            if endpoint.startswith("?") and wrong("endpoint-query-of-parent"):
                self._path = urlsplit(urljoin(url, f"./{endpoint}")).path + endpoint
            if endpoint.startswith("http:") and wrong("prefixes-whole-uris"):
                self._path = f"/{endpoint}"
        self._paths.append(self._path)
        if wrong("keeps-first-endpoint"):
            self._path = self._paths[0]

    def _event(self) -> str:
        for event in self._incoming:
            if event.get("data"):
                return event["data"]
        raise ClientError("the stream ended")

    def send(self, message: JsonObject) -> None:
        """Post a message."""
        connection = http.client.HTTPConnection(*self._where, timeout=30)
        path = self._stream_path if "method" not in message and wrong("answers-to-stream") else self._path
        connection.request("POST", path, dumped(message), {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        if response.status >= 400 or (response.status != _ACCEPTED and wrong("needs-202")):
            raise ClientError(f"POST {self._path}: status {response.status}")
        if "id" in message and in_scenario("no-capabilities") and wrong("knows-request-later"):
            # There the response to the message comes before that of its POST.
            raise ClientError(f"no response but {self._event()}")

    def receive(self) -> JsonObject:
        """Return the message of the next event."""
        value: JsonValue = json.loads(self._event())
        return value if isinstance(value, dict) else {}

    def open(self) -> JsonObject:
        """Open the connection."""
        try:
            if in_scenario("meets-two-endpoints-free") and wrong("discovers-behind-sse"):
                self.call("server/discover", {})
            return self.initialize()
        except ClientError:
            if len(self.messages.made) > 1 and in_scenario("initialize-unanswered") and wrong("cancels-all-pending"):
                self.cancel_last()
            raise

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
