"""Handles of the server, used by another principal: they look like unknown handles.

The other principal differs only by issuer, subject or client.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from asgi_host import Client, Reply, as_object, hosted
from controlled_server import ControlledServer
from resource_world import OTHER_ISSUER, Table, access, protected
from task_server import WITH_TASKS, ToolControl, make_server

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.oauth.principal import Principal
from mcp_core.revisions import R2024_11_05, R2025_11_25, R2026_07_28, Revision
from mcp_server import Context, Server, TaskPolicy
from mcp_server.stores import SqliteStore
from mcp_server.stores.sqlite.tasks import SqliteTaskStore

FOREIGN = {
    "issuer": access(issuer=OTHER_ISSUER),
    "subject": access("bert"),
    "client": access(client_id="c2"),
    "none": access(client_id=""),
}
OTHERS = pytest.mark.parametrize("other", list(FOREIGN))
BOTH = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)


def table() -> Table:
    # Two tokens of one principal: a handle outlives the token with which it was issued.
    return Table(own=access(), renewed=access(scopes="more"), **FOREIGN)


def use_token(client: Client, who: str) -> None:
    client.headers["authorization"] = f"Bearer {who}"


async def response_of(reply: Reply) -> tuple[int, dict[str, str], bytes]:
    """Return the status, the headers and the body."""
    body = await reply.body()
    return reply.status, reply.headers, body


async def check_bound(client: Client, other: str, send: Callable[[str], Reply], handle: str, unknown: str) -> None:
    """Check that the other principal gets the same response as for an unknown handle, and that the owner does not."""
    use_token(client, other)
    foreign, missing = await response_of(send(handle)), await response_of(send(unknown))
    assert (foreign[0], foreign[1], foreign[2].replace(handle.encode(), unknown.encode())) == missing
    use_token(client, "own")
    owner = send(handle)
    with trio.move_on_after(1) as waiting:
        await owner.body()
    assert waiting.cancelled_caught or (owner.status, b"".join(owner.chunks)) != (missing[0], missing[2])


@OTHERS
@pytest.mark.spec(
    "security.session-bound-to-user",
    "security.handle-bound-to-user",
    "security.no-session-authentication",
    "security.handle-not-authentication",
    "elicitation.bind-user",
)
@pytest.mark.parametrize("kind", ["POST", "GET", "resume", "notify", "DELETE"])
async def test_session_bound_to_principal(other: str, kind: str, autojump_clock: trio.testing.MockClock) -> None:
    async with hosted(protected(table()), R2025_11_25) as client:
        use_token(client, "own")
        await client.open()
        session = client.session
        assert session is not None

        def send(id: str) -> Reply:
            client.session = id
            match kind:
                case "POST":
                    return client.post(client.request("tools/list", id=7))
                case "GET":
                    return client.get()
                case "resume":
                    return client.get("1-0")
                case "notify":
                    return client.post(
                        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
                    )
            return client.start("DELETE")

        use_token(client, "renewed")
        assert (await client.ask("ping"))["result"] == {}
        await check_bound(client, other, send, session, "never-issued")


@OTHERS
async def test_stored_session_bound_to_principal_after_restart(other: str, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.sqlite")
    async with hosted(protected(table(), store=store), R2025_11_25) as client:
        use_token(client, "own")
        await client.open()
        session = str(client.session)
    async with hosted(protected(table(), store=store), R2025_11_25) as client:

        def send(id: str) -> Reply:
            client.session = id
            return client.post(client.request("tools/list", id=7))

        await check_bound(client, other, send, session, "never-issued")
    record = await store.load(session)
    assert record is not None
    assert record.principal == access().principal.key
    await store.aclose()


@OTHERS
async def test_http_sse_session_bound_to_principal(other: str) -> None:
    async with hosted(protected(table()), R2024_11_05) as client:
        use_token(client, "own")
        client.path = "/sse"
        stream = client.get()
        client.path, _, query = (await stream.event()).data.decode().partition("?")
        session = query.removeprefix("session=")

        def send(id: str) -> Reply:
            client.query = f"session={id}"
            return client.post(client.request("ping", id=7))

        use_token(client, other)
        assert await response_of(send(session)) == await response_of(send("never-issued"))
        use_token(client, "renewed")
        assert (await response_of(send(session)))[0] == 202


@OTHERS
@BOTH
async def test_cursor_bound_to_principal(other: str, revision: Revision) -> None:
    server = Server("pages", version="0", limits=Limits(page_items=1))
    for name in ("a", "b"):
        server.add_tool(_nothing, name=name)
    async with hosted(protected(table(), server=server), revision) as client:
        use_token(client, "own")
        if revision is R2025_11_25:
            await client.open()
        cursor = str(as_object((await client.ask("tools/list"))["result"])["nextCursor"])
        use_token(client, other)
        if revision is R2025_11_25:
            client.session = None
            await client.open()

        def send(given: str) -> Reply:
            return client.post(client.request("tools/list", {"cursor": given}, id=7))

        foreign, missing = await response_of(send(cursor)), await response_of(send("never-issued"))
        assert foreign == missing
        assert b"error" in foreign[2]


async def _nothing() -> str:
    return ""


@OTHERS
@pytest.mark.spec("mrtr.state-bind-principal", "elicitation.state-associated-with-user", "elicitation.bind-identity")
async def test_request_state_bound_to_principal(other: str) -> None:
    async with hosted(protected(table(), server=ControlledServer().server), R2026_07_28) as client:
        use_token(client, "own")
        first = as_object((await client.post(client.call("look")).json())["result"])
        (key,) = as_object(first["inputRequests"])

        def send(state: str) -> Reply:
            message = client.call("look", id=7)
            answers: JsonObject = {key: {"roots": []}}
            as_object(message["params"]).update(requestState=state, inputResponses=answers)
            return client.post(message)

        await check_bound(client, other, send, str(first["requestState"]), "never-issued")


@OTHERS
@pytest.mark.parametrize(
    ("revision", "method"),
    [
        (R2025_11_25, "tasks/get"),
        (R2025_11_25, "tasks/result"),
        (R2025_11_25, "tasks/cancel"),
        (R2026_07_28, "tasks/get"),
        (R2026_07_28, "tasks/cancel"),
        (R2026_07_28, "tasks/update"),
    ],
    ids=str,
)
async def test_task_bound_to_principal(
    other: str, revision: Revision, method: str, autojump_clock: trio.testing.MockClock
) -> None:
    control = ToolControl()
    server = make_server(control)
    async with server.running(), hosted(protected(table(), server=server), revision) as client:
        task = await start_task(client)
        if revision is R2025_11_25:
            use_token(client, other)
            sessions = {"own": client.session}
            client.session = None
            await client.open()
            sessions[other] = client.session

        def send(id: str) -> Reply:
            if revision is R2025_11_25:
                client.session = sessions[str(client.headers["authorization"]).removeprefix("Bearer ")]
            more: JsonObject = {"inputResponses": {}} if method == "tasks/update" else {}
            return client.post(client.request(method, {"taskId": id, **more}, id=7))

        await check_bound(client, other, send, task, "never-issued")


async def start_task(client: Client) -> str:
    """Start a task of the owner and return its id."""
    client.capabilities = WITH_TASKS
    use_token(client, "own")
    params: JsonObject = {"name": "work", "arguments": {}}
    if client.revision is R2025_11_25:
        await client.open()
        params["task"] = {}
    result = as_object((await client.ask("tools/call", params))["result"])
    task = result if client.revision is R2026_07_28 else as_object(result["task"])
    return str(task["taskId"])


@OTHERS
async def test_tasks_of_other_principal_neither_listed_nor_subscribed(other: str) -> None:
    server = make_server(ToolControl())
    app = protected(table(), server=server)
    async with server.running(), hosted(app, R2025_11_25) as client, hosted(app, R2026_07_28) as modern:
        task = await start_task(client)
        listed = as_object((await client.ask("tasks/list"))["result"])["tasks"]
        assert isinstance(listed, list)
        assert [as_object(each)["taskId"] for each in listed] == [task]
        use_token(client, other)
        client.session = None
        await client.open()
        assert as_object((await client.ask("tasks/list"))["result"])["tasks"] == []
        modern.capabilities = WITH_TASKS
        for who, granted in (("own", [task]), (other, [])):
            use_token(modern, who)
            filter_: JsonObject = {"notifications": {"taskIds": [task, "never-issued"]}}
            reply = modern.post(modern.request("subscriptions/listen", filter_))
            acknowledged = as_object((await reply.message())["params"])
            assert as_object(acknowledged["notifications"]).get("taskIds", []) == granted


async def test_resumed_task_keeps_principal_without_scopes(tmp_path: Path) -> None:
    runs: list[tuple[Principal | None, frozenset[str]]] = []

    def make(tasks: TaskPolicy) -> Server:
        server = Server("tasks", version="0", tasks=tasks)

        @server.tool(task="required", resumable=True)
        async def work(context: Context) -> str:
            runs.append((context.principal, context.scopes))
            if len(runs) == 1:
                await trio.sleep_forever()
            return "done"

        return server

    for _ in range(2):
        store = SqliteTaskStore(tmp_path / "tasks.sqlite")
        server = make(TaskPolicy(store=store))
        with trio.CancelScope() as scope:
            async with server.running(), hosted(protected(table(), server=server), R2026_07_28) as client:
                if not runs:
                    use_token(client, "renewed")
                    client.capabilities = WITH_TASKS
                    await client.ask("tools/call", {"name": "work", "arguments": {}})
                while len(runs) == _:
                    await trio.testing.wait_all_tasks_blocked(0.01)
                scope.cancel()
        await store.aclose()
    assert runs == [(access().principal, frozenset({"more"})), (access().principal, frozenset())]


async def test_principal_not_disclosed_to_client() -> None:
    async with hosted(protected(table()), R2025_11_25) as client:
        use_token(client, "own")
        answer = await client.open()
        assert "anna" not in json.dumps(answer)
        values: list[JsonValue] = [client.session]
        assert "anna" not in json.dumps(values)
