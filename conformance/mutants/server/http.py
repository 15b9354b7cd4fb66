"""A raw server over HTTP: Streamable HTTP in both eras, and HTTP+SSE.

The endpoint is `/mcp`; the stream of HTTP+SSE is `/sse`, and its messages are posted to `/messages`.
"""

from __future__ import annotations

import json
import secrets
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

from mutants.server.http_responses import Answering, RawHttpServer
from mutants.server.pages import answer_page, is_page
from mutants.server.protocol import LEGACY, META, MODERN, strict
from mutants.server.request_headers import mismatch
from mutants.server.server import RawServer
from mutants.server.streams import AccessInfo, HttpSession, ListenStream, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import BufferedIOBase

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["http_server", "serve_http"]

_LOCAL: Final = ("localhost", "127.0.0.1", "[::1]")


class _Handler(Answering):
    """A connection."""

    # --- access control -----------------------------------------------------------------------------------------------

    def _header(self, name: str) -> str | None:
        """Return the value of a header."""
        if self.fault.keeps(f"names-any-case {name}"):
            return self.headers.get(name)
        return dict(self.headers.items()).get(name)

    def _admitted(self, kind: str) -> bool:
        host = self.headers.get("Host", "")
        origin = self._header("Origin")
        name, _, port = (None, "", "") if origin is None else origin.partition("://")[2].rpartition(":")
        content_type = self.headers.get("Content-Type", "")
        info = AccessInfo(kind=kind, host=host, origin=origin, content_type=content_type, kept=self.kept)
        local = host.rpartition(":")[0] in _LOCAL and (name is None or (name in _LOCAL and port.isdecimal()))
        if not self.fault.admits(info, admitted=local):
            if kind == "request" and not self.fault.keeps("foreign-without-effect"):
                self._run_anyway()
            self.refuse("origin", 403, -32600, "Host or Origin is not allowed")
            return False
        known = self.server.key is None or self._user in self._users
        if self.headers.get("Last-Event-ID") and not self.fault.keeps("credentials-of-resumption"):
            known = known or self.headers.get("Mcp-Session-Id") in self.server.sessions
        if not self.fault.knows(self.headers.get("Mcp-Session-Id"), known=known):
            self.respond(401, {"WWW-Authenticate": "Bearer"})
            return False
        return True

    def _run_anyway(self) -> None:
        """Run the posted call, which is rejected all the same."""
        if isinstance(self.posted, dict) and self.posted.get("method") == "tools/call":
            session = self.server.sessions.get(self.headers.get("Mcp-Session-Id", "")) or HttpSession("", self._user)
            self.server.raw.receive(self.posted, session, lambda _: None)

    @property
    def _version(self) -> str | None:
        """The value of MCP-Protocol-Version."""
        value = self._header("MCP-Protocol-Version")
        return value if value is None else value.strip(" \t")

    @property
    def _users(self) -> tuple[str, str]:
        """The two known users."""
        return f"Bearer {self.server.key}", f"Bearer other-{self.server.key}"

    @property
    def _user(self) -> str:
        """The user of the request: one of two, with a key each."""
        return self.headers.get("Authorization", "")

    def _session(self, kind: str) -> HttpSession | None:
        id = self._header("Mcp-Session-Id")
        forgiven = (id is None and not self.fault.keeps(f"session of {kind}")) or (
            id == "" and not self.fault.keeps(f"empty session of {kind}")
        )
        if forgiven:
            last = self.headers.get("Last-Event-ID")
            every = self.server.sessions.values()
            return next((each for each in every if last is None or each.has_event(last)), None)
        session = None if id is None else self.server.sessions.get(id)
        if session is None and id in self.server.ended and not self.fault.keeps(f"ended {kind}"):
            session = self.server.ended[id]
        if session is None:
            self.refuse("ended" if id else "no-session", 404 if id else 400, -32600, "unknown session")
            return None
        if not self._spoken(kind):
            return None
        return session

    def _spoken(self, kind: str) -> bool:
        version = self._version
        absent = version is None and self.fault.keeps("version-absent") and self.fault.keeps(f"version-absent {kind}")
        if absent or not self.fault.keeps(f"version of {kind}"):
            return True
        known = version in LEGACY or (version is not None and not self.fault.keeps("version-unknown"))
        if self.fault.speaks(version, speaks=known):
            return True
        self.refuse("version", 400, -32600, "unsupported protocol version")
        return False

    # --- methods ------------------------------------------------------------------------------------------------------

    def do_OPTIONS(self) -> None:  # noqa: N802  its name in http.server
        """Reject the preflight request."""
        self.respond(405, {"Allow": "GET, POST, DELETE"})

    def do_GET(self) -> None:  # noqa: N802  its name in http.server
        """Open a stream: the standalone stream, a resumed stream, or that of HTTP+SSE. Or show a page."""
        if is_page(self.path):
            visitor = self._user if self._user in self._users else ""
            status, headers = answer_page(self.server.raw, self.path, visitor, self.headers.get("Host", ""))
            self.respond(status, headers)
            return
        last = self.headers.get("Last-Event-ID")
        kind = "GET" if last is None else "resumption"
        if not self._admitted(kind):
            return
        if self.path == "/sse":
            self._sse()
            return
        if self.server.modern_only or self._version in MODERN:
            if self.fault.keeps("no-resumption") and self.fault.keeps(f"no-resumption {last}"):
                self.respond(405, {"Allow": "POST"})
            else:
                self.start_stream()
                self.end_stream()
            return
        session = self._session(kind)
        if session is None:
            return
        if last is None:
            self._open_standalone(session)
        else:
            self._resume(session, last)

    def do_DELETE(self) -> None:  # noqa: N802  its name in http.server
        """End a session."""
        if not self._admitted("DELETE"):
            return
        if self.server.modern_only or self._version in MODERN:
            self.respond(405, {"Allow": "POST"})
            return
        session = self._session("DELETE")
        if session is not None:
            last = [] if self.fault.keeps("ends-one") else list(self.server.sessions)[-1:]
            if not self.fault.keeps("ended-by-next-end"):
                self.server.restore_ended()
            kept = {session.id} if session.listen_streams and not self.fault.keeps("ended-with-stream") else set()
            for id in ({session.id, *last} - kept) & self.server.sessions.keys():
                self.server.ended[id] = self.server.sessions.pop(id)
                self.server.ended[id].end()
            self.respond(204, {})

    def do_POST(self) -> None:  # noqa: N802  its name in http.server
        """Receive a message."""
        if "Transfer-Encoding" in self.headers and not self.fault.keeps("length-optional"):
            self.close_connection = True
            self.respond(411, {})
            return
        with nullcontext() if self.fault.keeps("reads-apart") else self.server.reading:
            if "Transfer-Encoding" in self.headers and self.fault.keeps("chunks"):
                body = b"".join(_chunks(self.rfile))
            else:
                body = self.fault.posted_body(self.rfile, int(self.headers.get("Content-Length") or 0))
        try:
            message: JsonValue = strict(body)
        except (ValueError, RecursionError):
            message = None
        kind = _kind(message)
        self.posted = message
        if not self.fault.exempts(message) and not self._admitted(kind):
            return
        plain = self.headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json"
        if not self.fault.understands(self.headers.get("Accept", ""), self.headers.get("Content-Type", "")):
            id = message.get("id") if isinstance(message, dict) else None
            self.refuse("types", 406, -32600, "the types are not supported", id)
        elif plain and self.fault.keeps("content-type"):
            self.refuse("content-type", 415, -32600, "the content is not application/json")
        elif message is None:
            error: JsonValue = {"code": -32700, "message": "invalid JSON"}
            self.json(400, self.fault.unreadable({"jsonrpc": "2.0", "id": None, "error": error}))
        elif self.path.startswith("/messages"):
            self._sse_message(message)
        else:
            self._message(message)

    def _message(self, message: JsonValue) -> None:
        if not self.fault.serves_era(self.kept, modern=_is_modern(message)):
            self.refuse("era", 400, -32600, "the connection is of the other era")
            return
        version = self._version
        opening = isinstance(message, dict) and message.get("method") == "initialize" and version not in MODERN
        if opening and version is None and isinstance(message, dict) and not self.fault.keeps("bare initialize"):
            self.refuse("initialize", 400, -32020, "MCP-Protocol-Version is missing", message.get("id"))
        elif opening and isinstance(message, dict) and not self.server.modern_only:
            self._open(message)
        elif (
            not self.server.modern_only
            and version not in MODERN
            and (version in LEGACY or self.headers.get("Mcp-Session-Id"))
            and not (version in LEGACY and _is_modern(message) and self.fault.keeps("era-of-body"))
        ):
            session = self._session(_kind(message))
            if session is not None:
                self._answer(message, session)
        elif not self.server.modern_only and version is None:
            self.refuse("no-session", 400, -32600, "there is neither a session nor a version")
        else:
            self._modern(message)

    def _open(self, message: JsonObject) -> None:
        if not self.fault.keeps("ended-by-next-session"):
            self.server.restore_ended()
        id = self.fault.session_id(secrets.token_hex(16), len(self.server.sessions))
        session = HttpSession(id, self._user)
        self.server.sessions[session.id] = session
        message = self.fault.opens_with(message, self._version)
        response, status = self.server.raw.receive(message, session, lambda _: None)
        if session.revision is None:
            del self.server.sessions[session.id]
        if response is None:
            # It has no id, so that it is a notification.
            self.respond(self.fault.accepted_status(message), {}, self.fault.accepted())
            return
        self.json(status, response, {"Mcp-Session-Id": session.id} if session.revision else {})

    def _modern(self, message: JsonValue) -> None:
        if not isinstance(message, dict) or "method" not in message:
            answer = isinstance(message, dict) and ("result" in message or "error" in message)
            if self.fault.keeps("array" if isinstance(message, list) else "response" if answer else "request"):
                self.refuse("array", 400, -32600, "neither a request nor a notification")
            else:
                self.respond(202, {})
            return
        message = self.fault.completed(self.kept, message)
        message = self.fault.beside(self.server.sessions.get(self.headers.get("Mcp-Session-Id", "")), message)
        if "id" in message:
            wrong = self.fault.flaw(self.kept, message, mismatch(self.fault, self.headers.items(), message))
            if wrong is not None:
                if not self.fault.keeps("mismatched-without-effect"):
                    self._run_anyway()
                why = "initialize" if message["method"] == "initialize" else "mismatch"
                wrong = f"{wrong}: spoken is {MODERN[0]}"
                self.refuse(why, 400, -32020, wrong, message["id"])
                return
        removed = message["method"] == "initialize" and self.fault.keeps("removed-initialize")
        if self.server.modern_only and removed:
            self.refuse("initialize", 404, -32601, f"unknown method: spoken is {MODERN[0]}", message.get("id"))
            return
        for ignored in ("Mcp-Session-Id", "Last-Event-ID"):
            if self.headers.get(ignored) is not None and not self.fault.keeps(f"ignores {ignored}"):
                self.refuse("ignored", 404, -32600, f"unknown {ignored}", message.get("id"))
                return
        if message.get("method") == "subscriptions/listen" and "id" in message:
            self._listen(message)
            return
        session = HttpSession("", self._user)
        session.server = self.server
        self._answer(message, session)

    def _answer(self, message: JsonValue, session: HttpSession) -> None:
        """Respond with JSON, or with a stream that begins with the first message before the response."""
        session.server = self.server
        session.host = self.headers.get("Host", "")
        stream = Stream(session, self.fault)
        if isinstance(message, dict):
            id = json.dumps(message.get("id"))  # the requests 1 and "1" may be in progress together
            session.hung_up[id] = self.fault.disconnection(id, self.gone)
        open_here = threading.Event()

        def event(value: JsonValue) -> None:
            if session.revision is not None and self.fault.strays(message, value):
                session.announce(value)
                return
            if not open_here.is_set():
                open_here.set()
                session.keep(stream)
                self.start_stream()
                if self.fault.primes(session.revision):
                    self._frame(stream, None)
            for each in self.fault.on_stream(stream, value):
                self._frame(stream, each)
            if session.revision is None and self.fault.overheard(value, gone=self.gone()):
                self.server.elsewhere(value)
            rule = _rule_of_stream(value)
            if session.revision is not None and _is_message(value) and not self.fault.keeps(rule):
                session.announce(value)

        closing = isinstance(message, dict) and _tool(message) == "test_reconnection" and session.revision in LEGACY
        if closing and isinstance(message, dict):
            open_here.set()
            self._close_early(message, stream, event)
            return
        had_stream = bool(session.listen_streams)
        response, status = self.server.raw.receive(message, session, event)
        if not self.fault.keeps("ended-by-late-response") and session.id in self.server.ended:
            self.server.sessions[session.id] = self.server.ended.pop(session.id)
        if session.revision is not None and not self.fault.keeps("no-orphan-on-get") and self.gone():
            session.announce(response)
        if open_here.is_set():
            if not self.fault.keeps("calls-after-get") and had_stream and not _has_stream(session):
                stream.lost = True
            elif not self.fault.keeps("response-at-once"):
                stream.add(response)
            elif self.fault.keeps("response-in-stream"):
                event(response)
                for late in self.fault.following(message) if isinstance(message, dict) else ():
                    event(late)
            if not self.fault.keeps("get-no-response"):
                session.announce(response)
            stream.done.set()
            self.end_stream()
        elif response is None:
            self.respond(self.fault.accepted_status(message), {}, self.fault.accepted())
        else:
            self._answer_alone(stream, response, status)

    def _close_early(self, message: JsonObject, stream: Stream, event: Callable[[JsonValue], None]) -> None:
        """End the stream of a request before its response, which a resumed stream contains."""
        stream.session.keep(stream)
        self.start_stream()
        self._frame(stream, None, retry=100)
        response, _ = self.server.raw.receive(message, stream.session, event)
        stream.add(response)
        stream.done.set()
        self.end_stream()

    def _answer_alone(self, stream: Stream, response: JsonValue, status: int) -> None:
        """Send a response without messages before it."""
        error = response.get("error") if isinstance(response, dict) else None
        code = error.get("code") if isinstance(error, dict) else None
        if code == -32601 and stream.session.revision is not None and not self.fault.keeps("end-of-error-stream"):
            self.start_stream()
            self._frame(stream, response)
            self.gone(wait=None)
        else:
            self.json(self.fault.error_status(code, status), response)

    def _frame(self, stream: Stream, value: JsonValue, *, retry: int | None = None) -> None:
        try:
            self.write_frame(stream.add(value, retry=retry))
        except OSError:
            # The client has disconnected; in a session the stream is kept for it.
            stream.lost = True

    # --- streams by GET -----------------------------------------------------------------------------------------------

    def _open_standalone(self, session: HttpSession) -> None:
        if not self.fault.keeps("several-streams") and _has_stream(session):
            self.refuse("conflict", 409, -32600, "the session has a stream")
            return
        others = [each for each in self.server.sessions.values() if each is not session]
        if not self.fault.keeps("streams-of-several-sessions") and any(_has_stream(each) for each in others):
            self.refuse("conflict", 409, -32600, "another session has a stream")
            return
        if not self.fault.keeps("next-stream") and session.had_standalone_stream:
            self.refuse("conflict", 400, -32600, "the session had a stream")
            return
        stream = Stream(session, self.fault, standalone=True)
        session.keep(stream)
        if not self.fault.keeps("own-ids-of-get"):
            # The ids of all standalone streams begin alike.
            stream.number = -1
        listen_streams = ListenStream(stream)
        session.listen_streams.append(listen_streams)
        session.had_standalone_stream = True
        for early in self.fault.greeting(session):
            listen_streams.put(early)
        self.start_stream()
        try:
            while not session.over.is_set() and not self.gone():
                for frame in listen_streams.take(0.02):
                    self.write_frame(frame)
            for frame in listen_streams.take(0):
                self.write_frame(frame)
        finally:
            session.listen_streams.remove(listen_streams)
            stream.done.set()
        self.end_stream()

    def _resume(self, session: HttpSession, last: str) -> None:
        found = self.fault.resumed(self.server.every(), session, last)
        if found is None:
            self.refuse("event-id", 400, -32600, "unknown event")
            return
        self.start_stream()
        for frame in found:
            self.write_frame(frame)
        self.end_stream()

    def _listen(self, message: JsonObject) -> None:
        session = HttpSession("", self._user)
        listen_streams = ListenStream(Stream(session, self.fault), id=message["id"])
        response, status = self.server.raw.receive(message, session, listen_streams.put)
        if response is not None:
            self.json(status, response)
            return
        self.server.listeners.append(listen_streams)
        self.start_stream(listens=True)
        try:
            while not self.gone():
                for frame in listen_streams.take(0.02):
                    self.write_frame(frame)
        finally:
            self.server.listeners.remove(listen_streams)
            self.server.raw.listeners.hung_up(session)
        self.close_connection = True

    # --- HTTP+SSE -----------------------------------------------------------------------------------------------------

    def _sse(self) -> None:
        session = HttpSession(secrets.token_hex(16), self._user)
        session.server = self.server
        listen_streams = ListenStream(Stream(session, self.fault), event="message")
        session.listen_streams.append(listen_streams)
        self.server.sse[session.id] = session
        self.start_stream()
        endpoint = self.fault.frame("sse", {"event": "endpoint", "data": f"/messages?session={session.id}"})
        self.write_frame(Stream.text(endpoint))
        while not self.gone():
            for frame in listen_streams.take(0.02):
                self.write_frame(frame)
        del self.server.sse[session.id]
        self.close_connection = True

    def _sse_message(self, message: JsonValue) -> None:
        named = self.server.sse.get(self.path.partition("session=")[2])
        session = self.fault.addressed(list(self.server.sse.values()), named)
        if session is None:
            self.respond(404, {})
            return
        self.fault.posted(session, message)

        def send(value: JsonValue) -> None:
            for each in self.fault.sse_targets(list(self.server.sse.values()), session, value):
                each.listen_streams[0].put(value)

        def work() -> None:
            response, _ = self.server.raw.receive(message, session, send)
            if response is not None:
                send(response)
                for late in self.fault.following(message) if isinstance(message, dict) else ():
                    send(late)

        if _kind(message) == "request":
            self.respond(202, {})
            threading.Thread(target=work, daemon=True).start()
        else:
            # What follows on another connection comes after it.
            work()
            self.respond(202, {})


def _chunks(source: BufferedIOBase) -> Iterator[bytes]:
    """Yield the chunks of a body. Spec: RFC 9112, section 7.1"""
    while size := int(source.readline(), 16):
        yield source.read(size)
        source.readline()
    source.readline()


def _kind(message: JsonValue) -> str:
    """Return whether a posted message is a `request`, a `notification` or a `response`."""
    if not isinstance(message, dict):
        return "request"
    if "method" not in message and ("result" in message or "error" in message):
        return "response"
    return "request" if "id" in message else "notification"


def _is_modern(message: JsonValue) -> bool:
    """Return whether a message has the metadata of a modern request, which is served by the modern revision."""
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and f"{META}protocolVersion" in meta


def _has_stream(session: HttpSession) -> bool:
    """Return whether a session has a standalone stream whose client has not disconnected."""
    # The thread of a stream needs a moment to notice a disconnect.
    return all(session.listen_streams and not session.over.wait(0.02) for _ in range(20))


def _rule_of_stream(value: JsonValue) -> str:
    """Return the rule that a message is sent on the stream of its request only."""
    if isinstance(value, dict) and "id" in value:
        return "request-once"
    return "log-once" if isinstance(value, dict) and value.get("method") == "notifications/message" else "get-unrelated"


def _is_message(value: JsonValue) -> bool:
    """Return whether a value is a request or a notification."""
    return isinstance(value, dict) and "method" in value


def _tool(message: JsonObject) -> JsonValue:
    params = message.get("params")
    return params.get("name") if isinstance(params, dict) else None


def http_server(server: RawServer, port: int, key: str | None = None, *, modern_only: bool = False) -> RawHttpServer:
    """Return a server at a local port, which serves no connection yet."""
    address = (server.fault.address("127.0.0.1"), port)
    return RawHttpServer(address, _Handler, server, key, modern_only=modern_only)


def serve_http(server: RawServer, port: int, key: str | None = None, *, modern_only: bool = False) -> None:
    """Serve at a local port without end."""
    http_server(server, port, key, modern_only=modern_only).serve_forever()
