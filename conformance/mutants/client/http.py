"""The raw client over Streamable HTTP, in both eras."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from mutants.client.header_values import as_ascii, as_value, mutated
from mutants.client.messages import (
    MODERN,
    SPOKEN,
    Failed,
    Refused,
    Words,
    answers,
    asides,
    dumped,
    heralds,
    in_scenario,
    reply,
    result_of,
    usable,
    wrong,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["ModernHttp", "SessionHttp", "events"]

_BOTH: Final = "application/json, text/event-stream"
_NAMES: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
_MODERN_ERRORS: Final = (-32020, -32021, -32022)


class _Http:
    """What both eras have in common: one connection for each request."""

    def __init__(self, url: str, version: str) -> None:
        parts = urlsplit(url)
        self._where: Final = (parts.hostname or "", parts.port or 80)
        self._path = parts.path
        self.query = f"?{parts.query}" if parts.query and not wrong("drops-query") else ""
        """What stands behind the path."""
        self.words: Final = Words(version)
        self._kept: Final[list[http.client.HTTPConnection]] = []
        self.kept: Final[list[http.client.HTTPResponse]] = []
        """Streams that are listened to."""

    def send(self, method: str, headers: dict[str, str], body: bytes | None = None) -> http.client.HTTPResponse:
        """Sends a request, and waits for the head of its answer."""
        connection = http.client.HTTPConnection(*self._where, timeout=30)
        connection.request(method, self._path + self.query, body, headers)
        return connection.getresponse()

    def headers(self, message: JsonObject) -> dict[str, str]:
        """What every POST has."""
        about_tasks = str(message.get("method")).startswith("tasks/")
        plain = wrong("no-stream-accepted") or (about_tasks and wrong("task-accepts-json"))
        accept = "application/json" if plain else _BOTH
        kind = "text/plain" if wrong("text-plain") else "application/json"
        return {"Accept": accept, "Content-Type": kind}

    def post(self, message: JsonObject) -> http.client.HTTPResponse:
        """Posts a message."""
        batched = wrong("batched") and message.get("method") == "tools/call"
        return self.send("POST", self.headers(message), dumped([message] if batched else message))

    def fetch(self, tools: list[JsonObject]) -> None:
        """Fetches what nobody should: an icon, a schema, a page."""
        # The paths are those of the scenario: what matters is that it is asked at all.
        names = {"fetches-icons": "icon.png", "fetches-schemas": "schema.json", "fetches-pages": "page"}
        for fault, name in names.items():
            if tools and wrong(fault):
                connection = http.client.HTTPConnection(*self._where, timeout=30)
                connection.request("GET", f"/not-to-be-fetched/{name}")
                connection.getresponse().read()

    def abandon(self, method: str, params: JsonObject) -> None:
        """Asks, and gives it up: the connection is closed, and a legacy server told."""
        request = self.words.request(method, params)
        connection = http.client.HTTPConnection(*self._where, timeout=30)
        connection.request("POST", self._path, dumped(request), self.headers(request))
        if wrong("keeps-connection"):
            self._kept.append(connection)
        else:
            connection.close()
        if self.words.version != MODERN or wrong("notifies-over-http"):
            named: JsonObject = {"requestId": request["id"]}
            message: JsonObject = {**self.words.notification("notifications/cancelled"), "params": named}
            self.post(message).read()

    def tell(self, method: str) -> None:
        """Sends a notification."""
        self.post(self.words.notification(method)).read()

    def disown(self) -> None:
        """Cancels the last request by a notification."""
        self.post(self.words.disowning()).read()

    def usable(self, tools: list[JsonObject]) -> list[JsonObject]:
        """Those that may be called."""
        return tools

    def learn(self, tools: list[JsonObject]) -> None:
        """There is nothing to learn."""


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
    """The events of a stream."""
    event: dict[str, str] = {}
    while line := response.readline():
        text = line.decode().rstrip("\r\n")
        if text.startswith(":") and wrong("no-comments"):
            raise Failed("this is no field")
        if not text:
            yield event
            event = {}
        elif not text.startswith(":"):
            name, _, value = text.partition(":")
            value = value.removeprefix(" ")
            if wrong("one-line-of-data"):
                event.pop("data", None)
            event[name] = f"{event[name]}\n{value}" if name == "data" and name in event else value


def events(response: http.client.HTTPResponse) -> Iterator[JsonObject]:
    """The messages of a stream."""
    for event in _events(response):
        yield _json(event.get("data", "").encode())


STREAM: Final = "text/event-stream"


def _is_stream(response: http.client.HTTPResponse) -> bool:
    return (response.getheader("Content-Type") or "").startswith("text/event-stream")


def _json(data: bytes) -> JsonObject:
    try:
        value: JsonValue = json.loads(data)
    except ValueError:
        return {}
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if isinstance(value, dict) else {}


class SessionHttp(_Http):
    """A legacy session."""

    def __init__(self, url: str, version: str) -> None:
        super().__init__(url, version)
        self._session: str | None = None
        self._agreed: str | None = None

    def open(self) -> JsonObject:
        """Opens the session."""
        if wrong("gets-first") and in_scenario("meets-two-endpoints"):
            self.send("GET", {"Accept": STREAM})
            raise Failed("there is no session in this")
        if wrong("asks-first") and in_scenario("tools_call"):
            self.post(self.words.request("tools/list", {})).read()
        response = self.post(self.words.initialize())
        if response.status != 200:
            if wrong("looks-elsewhere"):
                self._path = "/sse"
                self.send("GET", {"Accept": STREAM})
            raise Failed(f"initialize: status {response.status}")
        self._session = response.getheader("Mcp-Session-Id")
        result = result_of(self._answer(response))
        self._agreed = str(result.get("protocolVersion"))
        if self._agreed not in SPOKEN and not wrong("any-version"):
            raise Failed(f"the server speaks {self._agreed}")
        if wrong("needs-standing-stream") and in_scenario("conformance_standing_ends"):
            self.send("GET", {"Accept": STREAM, **self._ours()}).read()
            raise Failed("the stream ended")
        if not wrong("no-initialized"):
            self.post(self.words.notification("notifications/initialized")).read()
        capabilities = result.get("capabilities")
        return capabilities if isinstance(capabilities, dict) else {}

    def headers(self, message: JsonObject) -> dict[str, str]:
        """What every POST has."""
        return {**super().headers(message), **self._ours()}

    def _ours(self) -> dict[str, str]:
        ours: dict[str, str] = {}
        if self._session is not None and not wrong("no-session-id"):
            ours["Mcp-Session-Id"] = self._session
        forgets = wrong("no-version-behind-probe" if in_scenario("meets-legacy") else "no-version-header")
        if self._agreed is not None and not forgets:
            ours["MCP-Protocol-Version"] = self.words.version if wrong("offered-version-header") else self._agreed
        return ours

    def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Asks; the result."""
        request = self.words.request(method, params)
        response = self.post(request)
        if response.status == 404 and self._session is not None and not wrong("session-lost"):
            old = self._session
            self._session = old if wrong("old-session-id") else None
            self._agreed = None
            self.open()
            request = self.words.request(method, params)
            response = self.post(request)
        if response.status >= 400 and wrong("session-lost"):
            raise Failed(f"{method}: status {response.status}")
        return result_of(self._answer(response))

    def _answer(self, response: http.client.HTTPResponse) -> JsonObject:
        if not _is_stream(response):
            return _json(response.read())
        if wrong("json-only"):
            raise Failed("the answer is no JSON")
        last, retry = "", 0.0
        while True:
            for event in _events(response):
                last = event.get("id", last)
                retry = int(event["retry"]) / 1000 if "retry" in event else retry
                if event.get("data", "").startswith("["):
                    for each in json.loads(event["data"]):
                        self._reply(each)
                    continue
                message = _json(event.get("data", "").encode())
                if "method" in message:
                    self._reply(message)
                elif message and message.get("id") != "nobody asked" and "id" in message:
                    return message
            if not last or wrong("never-resumes"):
                raise Failed("the stream ended before the answer")
            time.sleep(0 if wrong("impatient") else retry)
            accept = "*/*" if wrong("get-accepts-all") else "text/event-stream"
            again = "stream0-0" if wrong("other-event-id") else last
            response = self.send("GET", {"Accept": accept, "Last-Event-ID": again, **self._ours()})
            if response.status != 200:
                raise Failed(f"GET: status {response.status}")

    def _reply(self, message: JsonObject) -> None:
        for each in heralds(message):
            self.post(each).read()
        answer = reply(message)
        if answer is not None:
            self.post(answer).read()
        for each in asides():
            self.post(each).read()

    def close(self) -> None:
        """Ends the session."""
        if self._session is not None and not wrong("no-delete"):
            self.send("DELETE", self._ours()).read()


class ModernHttp(_Http):
    """A modern server."""

    def __init__(self, url: str) -> None:
        super().__init__(url, MODERN)
        self._schemas: Final[dict[str, JsonValue]] = {}

    def open(self) -> JsonObject:
        """Asks who it is."""
        if wrong("opens-stream"):
            self.send("GET", {"Accept": "text/event-stream"}).read()
        if wrong("initializes") and in_scenario("meets-modern"):
            self.post(self.words.initialize()).read()
        params: JsonObject = {"verbose": True} if wrong("discover-with-params") else {}
        response = self._exchange("server/discover", params)
        error = response.get("error")
        if isinstance(error, dict) and error.get("code") == -32022 and not wrong("gives-up"):
            data = error.get("data")
            supported = data.get("supported") if isinstance(data, dict) else None
            if isinstance(supported, list) and (MODERN in supported or wrong("falls-back-always")):
                response = self._exchange("server/discover", params)
        result = response.get("result")
        if not isinstance(result, dict):
            error = response.get("error")
            code = error.get("code") if isinstance(error, dict) else None
            raise Refused(f"server/discover: {code}", modern=code in _MODERN_ERRORS)
        if wrong("pings"):
            self._exchange("ping", {})
        capabilities = result.get("capabilities")
        return capabilities if isinstance(capabilities, dict) else {}

    def learn(self, tools: list[JsonObject]) -> None:
        """Takes note of the annotations."""
        self._schemas.update((str(tool["name"]), tool.get("inputSchema")) for tool in tools)

    def usable(self, tools: list[JsonObject]) -> list[JsonObject]:
        """Those whose annotations are right."""
        right = usable(tools)
        return [] if wrong("drops-all") and len(right) != len(tools) else right

    def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Asks; the result."""
        return result_of(self._exchange(method, params))

    def _exchange(self, method: str, params: JsonObject) -> JsonObject:
        response = self.post(self.words.request(method, params))
        if wrong("exact-media-type") and response.getheader("Content-Type") not in ("application/json", STREAM):
            raise Failed("the answer is of an unknown type")
        if wrong("exact-header-names") and "CONTENT-TYPE" in dict(response.getheaders()):
            raise Failed("the answer is of no type")
        if response.status == 404 and wrong("takes-404-for-nobody"):
            raise Failed("nobody is there")
        if not _is_stream(response):
            return _json(response.read())
        if wrong("json-only"):
            raise Failed("the answer is no JSON")
        for event in _events(response):
            message = _json(event.get("data", "").encode())
            if "method" in message:
                answer = reply(message)
                if answer is not None:
                    self.post(answer).read()
            elif message and message.get("id") != "nobody asked":
                return message
        raise Failed("the stream ended before the answer")

    def headers(self, message: JsonObject) -> dict[str, str]:
        """What every POST has, and what it repeats of the body."""
        headers = super().headers(message)
        method = str(message.get("method"))
        if not wrong("no-version-header"):
            headers["MCP-Protocol-Version"] = "2025-11-25" if wrong("other-version-header") else MODERN
        if not wrong("no-method-header"):
            headers["Mcp-Method"] = method.upper() if wrong("upper-method") else method
        if wrong("session-id"):
            headers["Mcp-Session-Id"] = "none-of-yours"
        if wrong("last-event-id"):
            headers["Last-Event-ID"] = "1"
        params = message.get("params")
        name = params.get(_NAMES.get(method, "")) if isinstance(params, dict) else None
        nameless = wrong(f"no-name-{method}") or (answers().odd and wrong("task-no-name"))
        if isinstance(name, str) and not nameless:
            headers["Mcp-Name"] = as_ascii(name) if wrong("name-unencoded") else as_value(name) or ""
        if isinstance(params, dict) and isinstance(name, str) and method == "tools/call":
            self._repeat(headers, self._schemas.get(name), params.get("arguments"))
        return headers

    def _repeat(self, headers: dict[str, str], schema: JsonValue, arguments: JsonValue) -> None:
        properties = schema.get("properties") if isinstance(schema, dict) else None
        for name, part in properties.items() if isinstance(properties, dict) else ():
            value = arguments.get(name) if isinstance(arguments, dict) else None
            if isinstance(part, dict) and not (wrong("top-level-only") and "properties" in part):
                self._repeat(headers, part, value)
                header = part.get("x-mcp-header")
                if header is None and wrong("repeats-all") and isinstance(value, str):
                    header = name
                text = mutated(value)
                if isinstance(header, str) and text is not None:
                    # A line break is not written as one by this HTTP client: what would come of it is.
                    headers[f"Mcp-Param-{header}"], *more = text.splitlines() or [""]
                    headers.update((line.partition(": ")[0], line.partition(": ")[2]) for line in more)

    def close(self) -> None:
        """There is nothing to end."""
