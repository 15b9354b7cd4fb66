"""Attacks on a server with default settings, on real sockets. docs/topics/threat-model.md lists these and all others."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import attrs
import pytest
import trio
from http_hosts import RawHttp, RawResponse

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.methods import methods
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_server import Context, ElicitationAccepted, Server, serve_http
from mcp_server.auth import AccessToken, InvalidToken, ResourceServer

RESOURCE: Final = "https://mcp.example/mcp"
ISSUER: Final = "https://as.example"
METADATA: Final = "/.well-known/oauth-protected-resource/mcp"
META: Final[JsonObject] = {
    "io.modelcontextprotocol/protocolVersion": R2026_07_28.name,
    "io.modelcontextprotocol/clientCapabilities": {
        "elicitation": {"form": {}},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    },
}
TYPED: Final = {"content_type": "application/json", "accept": "application/json, text/event-stream"}


@attrs.frozen
class Name:
    """A name."""

    name: str


@attrs.define
class AttackedServer:
    """A server, and the effects of its tools."""

    url: str = ""
    changes: int = 0
    context_values: list[str] = attrs.field(factory=list)
    go: trio.Event = attrs.field(factory=trio.Event)
    opened: list[RawHttp] = attrs.field(factory=list)

    async def connect(self) -> RawHttp:
        """Open a connection that is closed at the end of the test."""
        raw = await RawHttp.to(self.url.removesuffix("/mcp"))
        self.opened.append(raw)
        return raw

    def server(self) -> Server:
        server = Server("attacked", version="0")

        @server.tool
        async def touch(context: Context) -> str:
            """Record an effect and all values of the context."""
            self.changes += 1
            self.context_values += [repr(getattr(context, name)) for name in dir(context) if not name.startswith("_")]
            return f"touched for {context.principal}"

        @server.tool
        async def echo(text: str) -> str:
            """Return the text."""
            await trio.lowlevel.checkpoint()
            return text

        @server.tool
        async def ask(context: Context) -> str:
            """Request the user's name."""
            answer = await context.elicit(Name, "Who?")
            return f"hello {answer.value.name}" if isinstance(answer, ElicitationAccepted) else "no name"

        @server.tool(task="optional")
        async def work() -> str:
            """Wait for an event."""
            await self.go.wait()
            return "worked"

        return server


class Tokens:
    """A verifier of tokens of the form `USER at AUDIENCE ...`."""

    async def verify(self, token: str) -> AccessToken:
        await trio.lowlevel.checkpoint()
        user, found, audience = token.partition("+at+")
        if not found:
            raise InvalidToken("the access token is unknown")
        return AccessToken(
            issuer=ISSUER,
            subject=user,
            client_id="c1",
            audience=tuple(audience.split("+")) if audience else (),
            scopes=frozenset({"use"}),
            expires_at=None,
        )


def token(user: str) -> str:
    return f"{user}+at+{RESOURCE}"


@asynccontextmanager
async def open_target(*, protected: bool = False) -> AsyncIterator[AttackedServer]:
    """Serve with default settings on a real socket."""
    target = AttackedServer()
    auth = ResourceServer(RESOURCE, authorization_servers=[ISSUER], tokens=Tokens()) if protected else None
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            urls: tuple[str, ...] = await nursery.start(partial(serve_http, target.server(), "127.0.0.1:0", auth=auth))
            target.url = urls[0]
            yield target
            target.go.set()
            for raw in target.opened:
                await raw.aclose()
            nursery.cancel_scope.cancel()


class Client:
    """A connection of one user."""

    def __init__(self, raw: RawHttp, revision: Revision, user: str | None) -> None:
        self.raw: Final = raw
        self.revision: Final = revision
        self.headers: Final[dict[str, str]] = dict(TYPED)
        if user is not None:
            self.headers["authorization"] = f"Bearer {token(user)}"

    @classmethod
    async def to(cls, target: AttackedServer, revision: Revision = R2026_07_28, user: str | None = None) -> Client:
        client = cls(await target.connect(), revision, user)
        if revision.sessions:
            params: JsonObject = {
                "protocolVersion": revision.name,
                "capabilities": {},
                "clientInfo": {"name": "raw", "version": "0"},
            }
            opened = await client.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
            client.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
            await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return client

    async def post(self, last_message: JsonValue, **more: str) -> RawResponse:
        return await self.raw.exchange("POST", "/mcp", json.dumps(last_message).encode(), **{**self.headers, **more})

    async def ask(self, method: str, params: JsonObject | None = None, id: JsonValue = 1) -> RawResponse:
        """Send one valid request."""
        headers_of_hosts: JsonObject = {} if self.revision.sessions else {"_meta": META}
        full_params: JsonObject = {**(params or {}), **headers_of_hosts}
        more: dict[str, str] = {}
        if not self.revision.sessions:
            more = {"mcp-protocol-version": self.revision.name, "mcp-method": method}
            name = full_params.get("name") or full_params.get("taskId") or full_params.get("uri")
            if isinstance(name, str):
                more["mcp-name"] = name
        return await self.post({"jsonrpc": "2.0", "id": id, "method": method, "params": full_params}, **more)

    async def call(self, tool: str, id: JsonValue = 1, **more: JsonValue) -> RawResponse:
        return await self.ask("tools/call", {"name": tool, "arguments": {}, **more}, id)


def last_message(answer: RawResponse) -> JsonObject:
    """Return the last message of a response, which may be an event stream."""
    lines = [line for line in answer.body.replace(b"\r", b"").split(b"\n") if line.startswith((b"data:", b"{"))]
    found: JsonObject = json.loads(lines[-1].removeprefix(b"data:"))
    return found


def member(value: JsonValue, *names: str) -> JsonValue:
    for name in names:
        assert isinstance(value, dict), value
        value = value[name]
    return value


WRONG: Final[tuple[JsonValue, ...]] = (None, [], ["x"], "x", 7, {}, {"name": 7}, {"uri": []}, {"extra": {"deep": [1]}})


@pytest.mark.spec("jsonrpc.invalid-params-code", "jsonrpc.invalid-params-error")
@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_invalid_params_do_not_break_connection(revision: Revision) -> None:
    async with open_target() as target:
        client = await Client.to(target, revision)
        count = 0
        for name in methods(revision):
            for params in (*WRONG, ...):
                sent: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": name}
                if params is not ...:
                    sent["params"] = params
                answer = await client.post(sent)
                assert answer.status < 500, (name, params)
                listed = last_message(await client.ask("tools/list"))
                assert len(listed["result"]["tools"]) == 4, (name, params)  # type: ignore[index,arg-type,call-overload]  # JSON
                count += 1
        assert count > 100


HOSTS: Final = (
    "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "", "0.0.0.0", "169.254.169.254",
    "localhost@evil.example", "127.0.0.1, evil.example", "[::ffff:169.254.169.254]", "localhost:1#@evil.example",
)  # fmt: skip
ORIGINS: Final = (
    "https://evil.example",
    "null",
    "http://localhost:1",
    "http://127.0.0.1.evil.example",
    "file://",
    "https://localhost",
)
ROUTES: Final = (
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("OPTIONS", "/mcp"),
    ("GET", METADATA),
    ("GET", "/x"),
)


def head(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    given = [f"{method} {path} HTTP/1.1", *headers, "Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*given, "Connection: close", "", ""]).encode() + body


@pytest.mark.spec("http.origin-validated", "http.origin-invalid-403", "http.origin-403")
@pytest.mark.parametrize("protected", [False, True], ids=["open", "protected"])
async def test_dns_rebinding_rejected_on_every_route(protected: bool) -> None:
    async with open_target(protected=protected) as target:
        body = json.dumps(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "touch", "_meta": META}}
        )
        lines = [f"Mcp-Method: tools/call\r\nMcp-Name: touch\r\nMCP-Protocol-Version: {R2026_07_28.name}"]
        lines += [f"Authorization: Bearer {token('victim')}", "Accept: application/json, text/event-stream"]
        own_host = target.url.removeprefix("http://").removesuffix("/mcp")
        headers_of_hosts: list[tuple[str, ...]] = [(f"Host: {host}",) for host in HOSTS] + [
            (f"Host: {own_host}", "Host: evil.example")
        ]
        headers_of_hosts += [(f"Host: {own_host}", f"Origin: {origin}") for origin in ORIGINS]
        headers_of_hosts += [(f"Host: {own_host}", "Sec-Fetch-Site: cross-site"), ()]
        for method, path in ROUTES:
            for each in headers_of_hosts:
                answer = await once(target, head(method, path, *each, *lines, body=body.encode()))
                # The metadata are public: clients and pages that use the right name may read them without credentials.
                full_params = (
                    path == METADATA and protected and f"Host: {own_host}" in each and "Host: evil.example" not in each
                )
                assert answer.status in ((200,) if full_params else (400, 403, 404, 421)), (method, path, each)
                assert "access-control-allow-credentials" not in answer.headers, (method, path, each)
                assert ("access-control-allow-origin" in answer.headers) is full_params, (method, path, each)
                assert b"touched" not in answer.body
            absolute = head(method, f"http://evil.example{path}", f"Host: {own_host}", *lines, body=body.encode())
            assert (await once(target, absolute)).status in (400, 403, 404, 421)
        assert target.changes == 0
        # The same request with the right name has its effect.
        assert (await once(target, head("POST", "/mcp", f"Host: {own_host}", *lines, body=body.encode()))).status == 200
        assert target.changes == 1
        assert (await once(target, head("GET", METADATA, f"Host: {own_host}"))).status == (200 if protected else 404)


async def once(target: AttackedServer, data: bytes) -> RawResponse:
    raw = await target.connect()
    await raw.write(data)
    answer = await raw.answer(data.partition(b" ")[0].decode())
    await raw.aclose()
    return answer


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_concurrent_clients_with_same_ids_get_own_responses(revision: Revision) -> None:
    async with open_target() as target:
        wrong: list[object] = []

        async def run_client(number: int) -> None:
            client = await Client.to(target, revision)
            for id in range(1, 11):
                text = f"{number}-{id}"
                answer = last_message(await client.call("echo", id, arguments={"text": text}))
                if answer["id"] != id or text not in json.dumps(answer["result"]):
                    wrong.append(answer)

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(run_client, number)
        assert wrong == []


# --- tokens ---------------------------------------------------------------------------------------------------------


AUDIENCES: Final = (
    "", "https://other.example/mcp", "https://other.example/mcp+https://third.example", "https://mcp.example",
    "https://mcp.example/mcp2", "https://mcp.example/mc", "https://mcp.example/mcp/admin", "https://mcp.example/other",
    "http://mcp.example/mcp", "https://mcp.example:8443/mcp", "https://MCP.example.evil/mcp", "https://mcp.example@evil/mcp",
    "https://mcp.example/mcp/../admin", "https://mcp.example/mcp#x", "mcp", "*",
)  # fmt: skip


@pytest.mark.spec("auth.audience", "auth.server-validates-audience")
@pytest.mark.parametrize("audience", AUDIENCES)
async def test_token_for_other_audience_rejected_and_not_logged(
    audience: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_target(protected=True) as target:
        client = await Client.to(target)
        client.headers["authorization"] = f"Bearer secret-of-anna+at+{audience}"
        answer = await client.call("touch")
        assert answer.status == 401
        assert 'error="invalid_token"' in answer.headers["www-authenticate"]
        assert "secret-of-anna" not in f"{answer.headers} {answer.body!r} {caplog.text}"
        assert target.changes == 0
        client.headers["authorization"] = f"Bearer {token('secret-of-anna')}"
        assert (await client.call("touch")).status == 200


@pytest.mark.spec("auth.token-not-in-query")
async def test_token_outside_authorization_header_ignored() -> None:
    async with open_target(protected=True) as target:
        good = token("anna")
        for headers, path in (
            ({}, f"/mcp?access_token={good}"),
            ({"cookie": f"access_token={good}"}, "/mcp"),
            ({"x-authorization": f"Bearer {good}"}, "/mcp"),
            ({"authorization": good}, "/mcp"),
            ({"authorization": f"Basic {good}"}, "/mcp"),
        ):
            client = await Client.to(target)
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "access_token": good}).encode()
            answer = await client.raw.exchange("POST", path, body, **{**TYPED, **headers})
            assert answer.status in (400, 401), (headers, path)
            assert good.encode() not in answer.body
        raw = await target.connect()
        repeated = f"Authorization: Bearer {good}\r\nAuthorization: Bearer {good}"
        await raw.write(head("POST", "/mcp", "Host: 127.0.0.1", repeated, body=b"{}"))
        assert (await raw.answer("POST")).status in (400, 401)
        assert target.changes == 0


@pytest.mark.spec("auth.no-token-passthrough", "auth.no-passthrough")
async def test_handler_context_and_log_have_no_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_target(protected=True) as target:
        answer = await (await Client.to(target, user="anna")).call("touch")
        assert answer.status == 200
        assert any("anna" in each for each in target.context_values)
        assert not any(RESOURCE in each and "+at+" in each for each in target.context_values)
        assert "+at+" not in caplog.text


# --- handles of other users -----------------------------------------------------------------------------------------


@pytest.mark.spec("tasks.bind-context", "security.handle-bound-to-user")
@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_task_of_other_principal_looks_unknown(revision: Revision) -> None:
    async with open_target(protected=True) as target:
        anna, bert = await Client.to(target, revision, "anna"), await Client.to(target, revision, "bert")
        task_params: dict[str, JsonValue] = {"task": {}} if revision.sessions else {}
        made = member(last_message(await anna.call("work", **task_params)), "result")
        id = member(made, "task", "taskId") if revision.sessions else member(made, "taskId")
        assert isinstance(id, str)
        assert len(id) >= 22, "128 bits take so many characters"
        unknown = "A" * len(id)
        task_methods = [name for name in methods(revision) if name.startswith("tasks/") and name != "tasks/list"]
        assert len(task_methods) == 3
        for name in task_methods:
            more: JsonObject = {"inputResponses": {}} if name == "tasks/update" else {}
            foreign = await bert.ask(name, {"taskId": id, **more})
            none = await bert.ask(name, {"taskId": unknown, **more})
            assert "error" in last_message(foreign), name
            assert (foreign.status, foreign.body.replace(id.encode(), b"")) == (
                none.status,
                none.body.replace(unknown.encode(), b""),
            )
        if "tasks/list" in methods(revision):
            assert id.encode() not in (await bert.ask("tasks/list")).body
            assert id.encode() in (await anna.ask("tasks/list")).body
        current = last_message(await anna.ask("tasks/get", {"taskId": id}))
        assert member(current, "result", "status") == "working"


@pytest.mark.spec("mrtr.state-bind-principal")
async def test_input_request_of_other_principal_cannot_be_answered() -> None:
    async with open_target(protected=True) as target:
        anna, bert = await Client.to(target, user="anna"), await Client.to(target, user="bert")
        input_required = member(last_message(await anna.call("ask")), "result")
        state, input_requests = member(input_required, "requestState"), member(input_required, "inputRequests")
        assert isinstance(input_requests, dict)
        answers: JsonObject = {key: {"action": "accept", "content": {"name": "eve"}} for key in input_requests}
        retry_params: dict[str, JsonValue] = {"requestState": state, "inputResponses": answers}
        refused = last_message(await bert.call("ask", **retry_params))
        assert "error" in refused
        assert b"hello" not in json.dumps(refused).encode()
        assert "anna" not in json.dumps(refused)
        assert "hello eve" in json.dumps(last_message(await anna.call("ask", **retry_params)))


@pytest.mark.spec("security.session-bound-to-user")
async def test_session_of_other_principal_looks_unknown() -> None:
    async with open_target(protected=True) as target:
        anna, bert = await Client.to(target, R2025_11_25, "anna"), await Client.to(target, R2025_11_25, "bert")
        own = anna.headers["mcp-session-id"]
        bert.headers["mcp-session-id"] = own
        stolen = await bert.ask("tools/list")
        bert.headers["mcp-session-id"] = "A" * len(own)
        assert (stolen.status, stolen.body) == ((none := await bert.ask("tools/list")).status, none.body)
        assert stolen.status == 404
        bert.headers["mcp-session-id"] = own
        assert (await bert.raw.exchange("DELETE", "/mcp", None, **bert.headers)).status == 404
        assert (await anna.ask("tools/list")).status == 200
