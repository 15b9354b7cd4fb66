"""The raw client over Streamable HTTP, in both eras."""

from __future__ import annotations

import abc
import codecs
import http.client
import json
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from mutants.client.header_values import as_ascii, as_value, mutated
from mutants.client.icons import fetch_icons
from mutants.client.messages import (
    MODERN,
    SPOKEN,
    ClientError,
    MessageFactory,
    SessionLost,
    UnsupportedRevision,
    answers,
    dumped,
    in_scenario,
    late_notifications,
    progress_before,
    reply,
    require_order,
    result_of,
    usable,
    wrong,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["ModernHttp", "SessionHttp", "events", "events_of"]

_BOTH: Final = "application/json, text/event-stream"
_NAMES: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
_FIELDS: Final = ("data", "event", "id")
"""The fields of an event that each client knows."""
_LONG: Final = 65536
"""Characters of a line that some readers cannot exceed."""
_HOUR: Final = 3_600_000
"""The `ttlMs` of a list that stays fresh."""
_UNAVAILABLE: Final = 503
_MODERN_ERRORS: Final = (-32020, -32021, -32022)


class _Http(abc.ABC):
    """The common part of both eras: one connection for each request."""

    def __init__(self, url: str, version: str) -> None:
        parts = urlsplit(url)
        self._where: Final = (parts.hostname or "", parts.port or 80)
        self._path = parts.path
        self.query = f"?{parts.query}" if parts.query and not wrong("drops-query") else ""
        """The query of the URL."""
        self.messages: Final = MessageFactory(version)
        self._kept: Final[list[http.client.HTTPConnection]] = []
        self.kept: Final[list[http.client.HTTPResponse]] = []
        """The open subscription streams."""
        self._refused: Final[list[JsonObject]] = []
        """The message to send again, for a fault that sends it together with the next one."""
        self.server_info: JsonValue = None
        """The `serverInfo` of the server."""

    def send(self, method: str, headers: dict[str, str], body: bytes | None = None) -> http.client.HTTPResponse:
        """Send a request and wait for the head of the response."""
        return self._begin(method, headers, body).getresponse()

    def _begin(self, method: str, headers: dict[str, str], body: bytes | None = None) -> http.client.HTTPConnection:
        """Send a request."""
        connection = http.client.HTTPConnection(*self._where, timeout=30)
        query = "" if method == "DELETE" and wrong("deletes-without-query") else self.query
        if wrong("two-version-headers") and "MCP-Protocol-Version" in headers:
            connection.putrequest(method, self._path + query)
            for name, value in {**headers, "Content-Length": str(len(body or b""))}.items():
                connection.putheader(name, value)
            connection.putheader("MCP-Protocol-Version", SPOKEN[0])
            connection.endheaders(body)
        else:
            connection.request(method, self._path + query, body, headers)
        return connection

    def headers(self, message: JsonObject) -> dict[str, str]:
        """Return the headers of a POST."""
        about_tasks = str(message.get("method")).startswith("tasks/")
        plain = wrong("no-stream-accepted") or (about_tasks and wrong("task-accepts-json"))
        accept = "application/json" if plain else _BOTH
        kind = "text/plain" if wrong("text-plain") else "application/json"
        return {"Accept": accept, "Content-Type": kind}

    def post(self, message: JsonObject) -> http.client.HTTPResponse:
        """Post a message."""
        batched = wrong("batched") and message.get("method") == "tools/call"
        value: JsonValue = [*self._refused, message] if self._refused else [message] if batched else message
        response = self.send("POST", self.headers(message), dumped(value))
        self._refused.clear()
        if response.status == _UNAVAILABLE and wrong("batches-after-503"):
            self._refused.append(message)
        return response

    def call_at_once(self, method: str, each_params: list[JsonObject]) -> list[JsonObject]:
        """Send several requests before the first response, and return the results."""
        requests = [self.messages.request(method, params) for params in each_params]
        connections = [self._begin("POST", self.headers(each), dumped(each)) for each in requests]
        return [result_of(self._answer(each.getresponse())) for each in connections]

    @abc.abstractmethod
    def _answer(self, response: http.client.HTTPResponse) -> JsonObject:
        """Return the JSON-RPC response in the body of an HTTP response."""

    def fetch(self, tools: list[JsonObject]) -> None:
        """Fetch what a client must not fetch: an icon, a schema, a page."""
        fetch_icons(tools, self.server_info)
        # The paths are those of the scenario; only the request itself matters.
        names = {"fetches-schemas": "schema.json", "fetches-pages": "page"}
        for fault, name in names.items():
            if tools and wrong(fault):
                connection = http.client.HTTPConnection(*self._where, timeout=30)
                connection.request("GET", f"/not-to-be-fetched/{name}")
                connection.getresponse().read()

    def abandon(self, method: str, params: JsonObject) -> None:
        """Send a request and abandon it: close the connection, and notify a legacy server."""
        request = self.messages.request(method, params)
        connection = http.client.HTTPConnection(*self._where, timeout=30)
        body = dumped(request)
        if wrong("cancels-while-sending") and method != "tools/call":
            connection.request(
                "POST", self._path, body[:-1], {**self.headers(request), "Content-Length": str(len(body))}
            )
        else:
            connection.request("POST", self._path, body, self.headers(request))
        if wrong("keeps-connection"):
            self._kept.append(connection)
        else:
            connection.close()
        if self.messages.version != MODERN or wrong("notifies-over-http"):
            named: JsonObject = {"requestId": request["id"]}
            message: JsonObject = {**self.messages.notification("notifications/cancelled"), "params": named}
            self.post(message).read()

    def notify(self, method: str) -> None:
        """Send a notification."""
        self.post(self.messages.notification(method)).read()

    def cancel_last(self) -> None:
        """Cancel the last request by a notification."""
        self.post(self.messages.cancellation_of_last()).read()

    def cancel_last_of_session(self, request: JsonObject) -> None:
        """Cancel a request of a lost session in the new one."""
        named: JsonObject = {"requestId": request["id"]}
        self.post({**self.messages.notification("notifications/cancelled"), "params": named}).read()

    def usable(self, tools: list[JsonObject]) -> list[JsonObject]:
        """Return the tools that may be called."""
        return tools

    def learn(self, tools: list[JsonObject]) -> None:  # noqa: B027  one of the subclasses has nothing to learn
        """Do nothing: only modern servers annotate tools."""


def _lines(response: http.client.HTTPResponse) -> Iterator[str]:
    """Yield the lines of a stream, each of which ends with CR, LF or both."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    text, behind_cr = "", False
    begun = False
    while chunk := response.read1(65536):
        behind_cr = behind_cr and not wrong("halves-line-ends")
        text += chunk.decode(errors="replace") if wrong("splits-characters") else decoder.decode(chunk)
        if text and not begun:
            begun, text = True, text if wrong("keeps-byte-order-mark") else text.removeprefix("\ufeff")
        while True:
            if behind_cr and text:
                text, behind_cr = text.removeprefix("\n"), False
            marks = "\n" if wrong("no-cr") else "\r\n"
            if wrong("splits-at-separators") and in_scenario("conformance_results"):
                marks += "\u2028\u2029\u0085"
            ends = [at for at in map(text.find, marks) if at >= 0]
            if not ends:
                break
            end = min(ends)
            behind_cr = text[end] == "\r"
            line, text = text[:end], text[end + 1 :]
            yield line.rstrip("\r")


def _lines_of_complete_events(response: http.client.HTTPResponse) -> Iterator[str]:
    """Yield the lines of a stream, and an empty line when its connection breaks."""
    try:
        yield from _lines(response)
    except (http.client.HTTPException, OSError):
        yield ""
        raise


def events_of(response: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
    """Yield the events of a stream."""
    event: dict[str, str] = {}
    for text in _lines_of_complete_events(response) if wrong("takes-unfinished-events") else _lines(response):
        if text.startswith(":") and wrong("no-comments"):
            raise ClientError("invalid field of an event")
        if not text:
            if "id" in event and not event.get("data") and wrong("needs-event-data"):
                raise ClientError("the data of an event is not JSON")
            if "event" in event and event["event"] != "message" and wrong("reads-each-event"):
                raise ClientError("the data of an event is not JSON")
            yield event
            event = {}
        elif not text.startswith(":"):
            name, colon, value = text.partition(":")
            if not colon and wrong("fields-need-colon"):
                raise ClientError("invalid field of an event")
            if name not in _FIELDS and wrong("known-fields-only"):
                raise ClientError("unknown field of an event")
            if len(value) > _LONG and wrong("short-events-only"):
                raise ClientError("the event is too long")
            if name == "data" and value[:1] != " " and wrong("needs-data-space"):
                continue
            value = value.removeprefix(" ")
            if wrong("one-line-of-data"):
                event.pop("data", None)
            event[name] = f"{event[name]}\n{value}" if name == "data" and name in event else value


def _whole_events(response: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
    """Yield the events of a stream until it ends or breaks."""
    try:
        yield from events_of(response)
    except (http.client.HTTPException, OSError):
        if wrong("broken-for-ever"):
            raise


def events(response: http.client.HTTPResponse) -> Iterator[JsonObject]:
    """Yield the messages of a stream."""
    for event in events_of(response):
        yield _json(event.get("data", "").encode())


STREAM: Final = "text/event-stream"


def _is_stream(response: http.client.HTTPResponse) -> bool:
    kind = response.getheader("Content-Type") or ""
    if wrong("exact-media-type") and kind not in ("application/json", STREAM):
        raise ClientError("unknown media type")
    return kind == STREAM if wrong("exact-stream-type") else kind.lower().startswith(STREAM)


def _body(response: http.client.HTTPResponse) -> JsonObject:
    """Return the message in the body of a response that is no stream."""
    data = response.read()
    is_misread = wrong("latin-1-json") and in_scenario("conformance_results")
    return _json(data.decode("latin-1").encode() if is_misread else data)


def _json(data: bytes) -> JsonObject:
    try:
        value: JsonValue = json.loads(data)
    except ValueError:
        return {}
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    require_order(value)
    return value if isinstance(value, dict) else {}


def _at_path(value: JsonValue, path: list[str]) -> JsonValue:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _retry(value: str, before: float) -> float:
    """Return the seconds to wait after a `retry` field; those before it if it is not a number."""
    digits = value.partition("ms")[0] if wrong("retry-with-unit") else value
    return int(digits) / 1000 if digits.isdecimal() else before


class SessionHttp(_Http):
    """A legacy session."""

    def __init__(self, url: str, version: str) -> None:
        super().__init__(url, version)
        self._session: str | None = None
        self._agreed: str | None = None
        self._losses = 0
        self._first_resumed = ""
        """The id with which a stream was resumed first, for a fault that resumes each stream with it."""
        self._last_event = ""
        """The id of the last event, for faults that use it in other requests."""

    def open(self) -> JsonObject:
        """Open the session."""
        if wrong("gets-first") and in_scenario("meets-two-endpoints"):
            self.send("GET", {"Accept": STREAM})
            raise ClientError("this revision has no sessions")
        if wrong("asks-first") and in_scenario("tools_call"):
            self.post(self.messages.request("tools/list", {})).read()
        if wrong("opens-stream-first") and in_scenario("tools_call"):
            self.send("GET", {"Accept": STREAM}).close()
        response = self.post(self.messages.initialize())
        if response.status != 200:
            if wrong("looks-elsewhere"):
                self._path = "/sse"
                self.send("GET", {"Accept": STREAM})
            raise ClientError(f"initialize: status {response.status}")
        self._session = response.getheader("Mcp-Session-Id")
        if wrong("exact-session-header"):
            self._session = dict(response.getheaders()).get("Mcp-Session-Id")
        if self._session is None and wrong("needs-session-id"):
            raise ClientError("there is no session id")
        if self._session is not None and in_scenario("tools_call") and wrong("lowers-session-id"):
            self._session = self._session.lower()
        if self._session is not None and in_scenario("tools_call") and wrong("session-id-to-comma"):
            self._session = self._session.partition(",")[0]
        result = result_of(self._answer(response))
        self.server_info = result.get("serverInfo")
        first = self._agreed if wrong("keeps-first-version") else None
        self._agreed = first or str(result.get("protocolVersion"))
        if self._agreed not in SPOKEN and not wrong("any-version"):
            raise ClientError(f"unsupported version {self._agreed}")
        if wrong("needs-standing-stream") and in_scenario("conformance_standing_ends"):
            self.send("GET", {"Accept": STREAM, **self._session_headers()}).read()
            raise ClientError("the stream ended")
        forgets = _is_stream(response) and wrong("no-initialized-after-stream")
        if not forgets and not wrong("no-initialized") and not (self._losses and wrong("no-initialized-again")):
            self.post(self.messages.notification("notifications/initialized")).read()
        self._open_standalone_streams()
        capabilities = result.get("capabilities")
        return capabilities if isinstance(capabilities, dict) else {}

    def _open_standalone_streams(self) -> None:
        """Open streams by GET, for the faults that concern them."""
        headers = {"Accept": STREAM, **self._session_headers()}
        if in_scenario("without-standing-stream") and wrong("stream-must-open"):
            response = self.send("GET", headers)
            if response.status != 200:
                raise ClientError(f"GET: status {response.status}")
        if in_scenario("version-older") and wrong("stream-in-offered-version"):
            self.kept.append(self.send("GET", {**headers, "MCP-Protocol-Version": self.messages.version}))
        if in_scenario("conformance_standing_ends") and wrong("reopens-at-once"):
            self.send("GET", headers).read()
            self.kept.append(self.send("GET", headers))
        if wrong("exact-standalone-type") and (in_scenario("server-asks") or in_scenario("conformance_pages")):
            response = self.send("GET", headers)
            if response.getheader("Content-Type") == STREAM:
                self.kept.append(response)
            else:
                response.close()
        silent = in_scenario("server-asks") and wrong("never-reads-standalone")
        confused = wrong("last-id-of-any-stream") or wrong("standing-id-of-call") or wrong("keeps-emptied-id")
        rereads = wrong("reads-first-page-again") or wrong("reads-pages-again")
        if silent or (in_scenario("conformance_pages") and rereads) or (in_scenario("sse-retry") and confused):
            self.kept.append(self.send("GET", headers))

    def headers(self, message: JsonObject) -> dict[str, str]:
        """Return the headers of a POST."""
        ours = self._session_headers()
        if "method" not in message and in_scenario("server-asks") and wrong("answers-without-session"):
            ours.pop("Mcp-Session-Id", None)
        if self._last_event and wrong("event-id-on-posts"):
            ours["Last-Event-ID"] = self._last_event
        return {**super().headers(message), **ours}

    def _session_headers(self) -> dict[str, str]:
        ours: dict[str, str] = {}
        if self._session is not None and not wrong("no-session-id"):
            ours["Mcp-Session-Id"] = self._session
        forgets = wrong("no-version-behind-probe" if in_scenario("meets-legacy") else "no-version-header")
        if self._agreed is not None and not forgets:
            ours["MCP-Protocol-Version"] = self.messages.version if wrong("offered-version-header") else self._agreed
        return ours

    def call(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request and return the result."""
        if method == "tools/call" and in_scenario("all-in-streams") and wrong("resumes-in-place-of-calls"):
            return result_of(self._answer(self._resume(self._last_event, 0)))
        request = self.messages.request(method, params)
        response = self.post(request)
        if response.status == 404 and self._session is not None and not wrong("session-lost"):
            if wrong("looks-elsewhere-after-404"):
                self.send("GET", {"Accept": STREAM}).close()
                raise ClientError(f"{method}: there is no endpoint event")
            if wrong("needs-json-404") and not _json(response.read()):
                raise ClientError(f"{method}: the body is not JSON")
            if self._losses > 0 and wrong("reinitializes-once"):
                raise ClientError(f"{method}: status 404")
            self._open_again()
            if wrong("cancels-in-new-session"):
                self.cancel_last_of_session(request)
            if "cursor" in params and not wrong("cursor-of-lost-session"):
                raise SessionLost("the cursor is not valid in another session")
            request = self.messages.request(method, params)
            response = self.post(request)
        if response.status >= 400 and wrong("session-lost"):
            raise ClientError(f"{method}: status {response.status}")
        try:
            return result_of(self._answer(response))
        except SessionLost:
            if not wrong("takes-404-for-no-stream"):
                self._open_again()
            return {"error": {"code": 0, "message": "the session is lost"}}

    def _open_again(self) -> None:
        """Open another session in place of a lost one."""
        self._losses += 1
        old = self._session
        self._session = old if wrong("old-session-id") else None
        if not wrong("keeps-first-version"):
            self._agreed = None
        self.open()
        if self._session is None and wrong("keeps-lost-id"):
            self._session = old

    def _answer(self, response: http.client.HTTPResponse) -> JsonObject:
        if not _is_stream(response):
            return _body(response)
        if wrong("json-only"):
            raise ClientError("the response is not valid JSON")
        last, retry, pauses = "", 0.0, 0
        while True:
            last = "" if wrong("forgets-last-id") else last
            for event in _whole_events(response):
                last = (last if wrong("resumes-from-first") else "") or event.get("id", last)
                self._last_event = last
                bare = not event.get("data") and wrong("retry-needs-data")
                if "retry" in event and not bare and not (retry and wrong("keeps-first-retry")):
                    retry = _retry(event["retry"], retry)
                if event.get("data", "").startswith("["):
                    found = self._take_batch(json.loads(event["data"]))
                    if found is not None:
                        return found
                    continue
                message = _json(event.get("data", "").encode())
                if "method" in message:
                    self._reply(message, resumed=pauses > 0)
                elif message and message.get("id") != "unsolicited" and "id" in message:
                    if pauses and wrong("ignores-resumed-response"):
                        raise ClientError("a response in a stream that was opened by GET")
                    return message
            if pauses and not last and wrong("forgets-last-id"):
                self.send("GET", {"Accept": STREAM, **self._session_headers()}).close()
            if not last or wrong("never-resumes") or (pauses > 1 and wrong("resumes-twice")):
                raise ClientError("the stream ended before the response")
            time.sleep(0 if wrong("impatient") or (pauses and wrong("waits-once")) else retry)
            pauses += 1
            response = self._resume(last, pauses)

    def _resume(self, last: str, pauses: int) -> http.client.HTTPResponse:
        """Continue a stream behind its last event."""
        if self.kept:
            self._continue_standalone_stream(last, pauses)
        accept = "*/*" if wrong("get-accepts-all") else STREAM
        self._first_resumed = self._first_resumed or last
        if in_scenario("conformance_called_twice") and wrong("one-id-for-all-streams"):
            last = self._first_resumed
        again = "stream0-0" if wrong("other-event-id") else quote(last) if wrong("encodes-event-ids") else last
        ours = self._session_headers()
        if wrong("resumes-without-version"):
            del ours["MCP-Protocol-Version"]
        resumed = {} if wrong("event-id-on-posts") else {"Last-Event-ID": again}
        response = self.send("GET", {"Accept": accept, **resumed, **ours})
        if response.status == 404:
            raise SessionLost("the stream is lost with its session")
        if response.status != 200:
            raise ClientError(f"GET: status {response.status}")
        return response

    def _continue_standalone_stream(self, last: str, pauses: int) -> None:
        """Open the standalone stream again, which ends before that of a call does, and confuse the ids of both."""
        headers = {"Accept": STREAM, **self._session_headers()}
        if pauses > 2:
            if wrong("last-id-of-any-stream"):
                other = next(each["id"] for each in events_of(self.kept.pop()) if each.get("data"))
                self.send("GET", {**headers, "Last-Event-ID": other}).close()
            return
        ids = [each["id"] for each in _whole_events(self.kept.pop()) if "id" in each]
        if pauses == 1 and wrong("keeps-emptied-id"):
            headers["Last-Event-ID"] = next(each for each in reversed(ids) if each)
        elif pauses > 1 and wrong("standing-id-of-call"):
            headers["Last-Event-ID"] = last
            # The stream of the call continues in these responses: in the first one to its third end.
            self.send("GET", headers).read()
        elif ids[-1]:
            headers["Last-Event-ID"] = ids[-1]
        response = self.send("GET", headers)
        if response.status >= 400:
            del headers["Last-Event-ID"]
            response = self.send("GET", headers)
        self.kept.append(response)

    def _take_batch(self, members: list[JsonValue]) -> JsonObject | None:
        """Answer the requests of a batch, and return the first response in it; `None` without one."""
        valid = [each for each in members if isinstance(each, dict)]
        if wrong("all-of-batch-valid") and valid != members:
            return None
        for each in valid:
            if "method" in each:
                self._reply(each)
        if not any("id" in each for each in valid) and wrong("answers-noted-batch"):
            self.send("POST", self.headers({}), b"[]").read()
        responses = [] if wrong("no-batched-response") else [each for each in valid if "method" not in each]
        return responses[0] if responses else None

    def _reply(self, message: JsonObject, *, resumed: bool = False) -> None:
        if resumed and wrong("only-responses-when-resumed"):
            return
        for each in progress_before(message):
            self.post(each).read()
        answer = reply(message)
        if answer is not None and message["method"] == "elicitation/create" and wrong("notifies-of-answers"):
            outcome: JsonObject = {"elicitationId": answer["id"], "result": answer.get("result")}
            answer = {"jsonrpc": "2.0", "method": "elicitation/response", "params": outcome}
        if answer is not None:
            self.post(answer).read()
        for each in late_notifications():
            self.post(each).read()

    def close(self) -> None:
        """End the session."""
        if self._session is not None and not wrong("no-delete"):
            headers = self._session_headers()
            if wrong("deletes-in-another-version"):
                headers["MCP-Protocol-Version"] = "2025-06-18"
            if wrong("deletes-without-version"):
                del headers["MCP-Protocol-Version"]
            response = self.send("DELETE", headers)
            response.read()
            if response.status >= 400 and wrong("delete-must-succeed"):
                raise ClientError(f"DELETE: status {response.status}")


class ModernHttp(_Http):
    """A modern server."""

    def __init__(self, url: str) -> None:
        super().__init__(url, MODERN)
        self.token: str | None = None
        """The access token; `None` for none."""
        self._schemas: Final[dict[str, JsonValue]] = {}
        self._first_values: Final[dict[str, str]] = {}
        """The first value of each parameter header, for a fault that repeats it."""
        self._session: str | None = None
        """The session id in a response, for a fault that repeats it."""
        self._expired = False
        """Whether the list of tools must not be cached, for a fault that forgets the annotations with it."""
        self._rejected: Final[set[str]] = set()
        """The names of the tools with invalid annotations, for a fault that never accepts them."""
        self._fresh: Final[dict[str, JsonObject]] = {}
        """The newest list that may be cached, by method, for the fault of a cache that ignores cursors."""
        self._shared: dict[str, str] = {}
        """The headers of the request that was begun first, for a fault that sends them with the next one, too."""

    def open(self) -> JsonObject:
        """Send `server/discover`."""
        if wrong("opens-stream"):
            self.send("GET", {"Accept": "text/event-stream"}).read()
        if wrong("initializes") and in_scenario("meets-modern"):
            self.post(self.messages.initialize()).read()
        params: JsonObject = {"verbose": True} if wrong("discover-with-params") else {}
        response = self._exchange("server/discover", params)
        error = response.get("error")
        unknown = response.get("id") is None and wrong("errors-need-id")
        if isinstance(error, dict) and error.get("code") == -32022 and not unknown and not wrong("gives-up"):
            data = error.get("data")
            supported = data.get("supported") if isinstance(data, dict) else None
            if isinstance(supported, list) and (MODERN in supported or wrong("falls-back-always")):
                response = self._exchange("server/discover", params)
        result = response.get("result")
        if in_scenario("meets-legacy-abrupt") and wrong("needs-id-at-400"):
            raise ClientError("a response without an id")
        if not isinstance(result, dict):
            error = response.get("error")
            code = error.get("code") if isinstance(error, dict) else None
            raise UnsupportedRevision(f"server/discover: {code}", modern=code in _MODERN_ERRORS and not unknown)
        meta = result.get("_meta")
        self.server_info = meta.get("io.modelcontextprotocol/serverInfo") if isinstance(meta, dict) else None
        if self.server_info is None and wrong("needs-server-info"):
            raise ClientError("the server has no name")
        if wrong("pings"):
            self._exchange("ping", {})
        if wrong("initialized-to-modern") and in_scenario("meets-modern"):
            self.notify("notifications/initialized")
        capabilities = result.get("capabilities")
        return capabilities if isinstance(capabilities, dict) else {}

    def abandon_beside(self, other: str, method: str, params: JsonObject) -> None:
        """Call another tool, send a request and abandon it, and receive the result of the tool."""
        call = self.messages.request("tools/call", {"name": other, "arguments": {}})
        connection = self._begin("POST", self.headers(call), dumped(call))
        if wrong("closes-all-connections"):
            request = self.messages.request(method, params)
            abandoned = self._begin("POST", self.headers(request), dumped(request))
            # After this response, the server has received both requests.
            self.call("tools/list", {})
            connection.close()
            abandoned.close()
            return
        self._shared = self.headers(call) if wrong("shares-headers") else {}
        self.abandon(method, params)
        self._shared = {}
        self._answer(connection.getresponse())

    def learn(self, tools: list[JsonObject]) -> None:
        """Record the header annotations of the tools."""
        self._schemas.update((str(tool["name"]), tool.get("inputSchema")) for tool in tools)

    def usable(self, tools: list[JsonObject]) -> list[JsonObject]:
        """Return the tools with valid header annotations."""
        right = usable(tools)
        self._rejected.update(str(each["name"]) for each in tools if each not in right)
        if wrong("rejects-for-ever"):
            right = [each for each in right if each["name"] not in self._rejected]
        return [] if wrong("drops-all") and len(right) != len(tools) else right

    def call(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request and return the result."""
        if "cursor" in params and method in self._fresh and wrong("caches-without-cursor"):
            # Without its cursor, so that the list ends.
            return {name: value for name, value in self._fresh[method].items() if name != "nextCursor"}
        others = self._fresh.get("resources/list", {})
        if method == "resources/templates/list" and others.get("ttlMs") == _HOUR and wrong("one-key-for-resources"):
            return others
        result = result_of(self._exchange(method, params))
        answers().failed = answers().failed or "error" in result
        if method == "tools/list":
            self._expired = not result.get("ttlMs")
        if result.get("ttlMs"):
            self._fresh[method] = result
        return result

    def _exchange(self, method: str, params: JsonObject) -> JsonObject:
        response = self.post(self.messages.request(method, params))
        self._session = response.getheader("Mcp-Session-Id") or self._session
        return self._answer(response)

    def _answer(self, response: http.client.HTTPResponse) -> JsonObject:
        if response.status == 400 and in_scenario("conformance_header_moves") and wrong("initializes-at-mismatch"):
            self.post(self.messages.initialize()).read()
        if wrong("exact-header-names") and "CONTENT-TYPE" in dict(response.getheaders()):
            raise ClientError("resultType is missing")
        if response.status == 404 and wrong("takes-404-for-nobody"):
            raise ClientError("no server")
        if response.status == 404 and wrong("initializes-after-404"):
            self.post(self.messages.initialize()).read()
        if not _is_stream(response):
            return _body(response)
        if wrong("json-only"):
            raise ClientError("the response is not valid JSON")
        for event in events_of(response):
            message = _json(event.get("data", "").encode())
            if "method" in message:
                answer = reply(message)
                if answer is not None:
                    self.post(answer).read()
            elif message and message.get("id") != "unsolicited":
                return message
        raise ClientError("the stream ended before the response")

    def headers(self, message: JsonObject) -> dict[str, str]:
        """Return the headers of a POST, with those that repeat the body."""
        if self._shared:
            return self._shared
        headers = super().headers(message)
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        method = str(message.get("method"))
        if not wrong("no-version-header"):
            headers["MCP-Protocol-Version"] = "2025-11-25" if wrong("other-version-header") else MODERN
        if not wrong("no-method-header"):
            headers["Mcp-Method"] = method.upper() if wrong("upper-method") else method
        if wrong("session-id"):
            headers["Mcp-Session-Id"] = "none-of-yours"
        if self._session is not None and wrong("repeats-session-id"):
            headers["Mcp-Session-Id"] = self._session
        if wrong("last-event-id"):
            headers["Last-Event-ID"] = "1"
        params = message.get("params")
        name = params.get(_NAMES.get(method, "")) if isinstance(params, dict) else None
        nameless = wrong(f"no-name-{method}") or (method == "tasks/get" and answers().odd and wrong("task-no-name"))
        if isinstance(name, str) and not nameless:
            plain = wrong("name-unencoded") or (method == "prompts/get" and wrong("prompt-names-unencoded"))
            marked = name.startswith("=?base64?") and method == "prompts/get"
            plain = plain or (marked and wrong("prompt-sentinels-plain"))
            headers["Mcp-Name"] = as_ascii(name) if plain else as_value(name) or ""
        if isinstance(params, dict) and isinstance(name, str) and method == "tools/call":
            retried = "inputResponses" in params or "requestState" in params
            expired = self._expired and wrong("annotations-expire")
            if not expired and not (retried and wrong("no-param-headers-again")):
                self._repeat(headers, self._schemas.get(name), params.get("arguments"))
        return headers

    def _repeat(
        self, headers: dict[str, str], schema: JsonValue, arguments: JsonValue, above: JsonValue = None
    ) -> None:
        properties = schema.get("properties") if isinstance(schema, dict) else None
        for name, part in properties.items() if isinstance(properties, dict) else ():
            value = arguments.get(name) if isinstance(arguments, dict) else None
            if "." in name and wrong("dots-are-paths"):
                value = _at_path(arguments, name.split("."))
            if isinstance(above, dict) and isinstance(above.get(name), str) and wrong("takes-namesakes"):
                value = above[name]
            deep = "properties" in part if isinstance(part, dict) else False
            deeper = deep and wrong("one-level-only") and name == "map"
            if isinstance(part, dict) and not (wrong("top-level-only") and deep) and not deeper:
                self._repeat(headers, part, value, arguments)
                header = part.get("x-mcp-header")
                if header is None and wrong("repeats-all") and isinstance(value, str):
                    header = name
                text = mutated(value)
                if isinstance(value, bool) and answers().odd and wrong("python-booleans-again"):
                    text = str(value)
                if isinstance(header, str) and text is not None and wrong("first-argument-stays"):
                    text = self._first_values.setdefault(header, text)
                if isinstance(header, str) and text is not None:
                    # http.client cannot send a raw line break; the header that a server would read is sent instead.
                    headers[f"Mcp-Param-{header}"], *more = text.splitlines() or [""]
                    headers.update((line.partition(": ")[0], line.partition(": ")[2]) for line in more)

    def close(self) -> None:
        """Do nothing: there is no session."""
