"""Every handle that the server gives out, in the hands of somebody else: it looks like one that does not exist.

Somebody else differs by the issuer, the subject or the client alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from asgi_host import Client, Reply, as_object, hosted
from http_gate import Gate
from resource_world import OTHER_ISSUER, Table, access, protected
from task_server import WITH_TASKS, ToolControl, make_server

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.oauth.principal import Principal
from mcp_core.revisions import R2024_11_05, R2025_11_25, R2026_07_28, Revision
from mcp_server import Context, Server, SqliteStore, TaskPolicy
from mcp_server.stores.sqlite.tasks import SqliteTaskStore

FOREIGN = {
    "issuer": access(issuer=OTHER_ISSUER),
    "subject": access("bert"),
    "client": access(client_id="c2"),
    "none": access(client_id=""),
}
ELSE = pytest.mark.parametrize("other", list(FOREIGN))
BOTH = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)


def table() -> Table:
    # Two tokens of one principal: a handle outlives the token that it was got with.
    return Table(own=access(), renewed=access(scopes="more"), **FOREIGN)


def act(client: Client, who: str) -> None:
    client.headers["authorization"] = f"Bearer {who}"


async def said(reply: Reply) -> tuple[int, dict[str, str], bytes]:
    """All of a response."""
    body = await reply.body()
    return reply.status, reply.headers, body


async def same(client: Client, other: str, ask: Callable[[str], Reply], handle: str, unknown: str) -> None:
    """Somebody else gets what he gets for a handle that was never given out; the owner does not."""
    act(client, other)
    foreign, nobody = await said(ask(handle)), await said(ask(unknown))
    assert (foreign[0], foreign[1], foreign[2].replace(handle.encode(), unknown.encode())) == nobody
    act(client, "own")
    owner = ask(handle)
    with trio.move_on_after(1) as waiting:
        await owner.body()
    assert waiting.cancelled_caught or (owner.status, b"".join(owner.chunks)) != (nobody[0], nobody[2])


@ELSE
@pytest.mark.spec(
    "security.session-bound-to-user",
    "security.handle-bound-to-user",
    "security.no-session-authentication",
    "security.handle-not-authentication",
    "elicitation.bind-user",
)
@pytest.mark.parametrize("kind", ["POST", "GET", "resume", "notify", "DELETE"])
async def test_a_session_is_its_principals(other: str, kind: str, autojump_clock: trio.testing.MockClock) -> None:
    async with hosted(protected(table()), R2025_11_25) as client:
        act(client, "own")
        await client.open()
        session = client.session
        assert session is not None

        def ask(id: str) -> Reply:
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

        act(client, "renewed")
        assert (await client.ask("ping"))["result"] == {}
        await same(client, other, ask, session, "never-issued")


@ELSE
async def test_a_session_that_is_kept_is_its_principals_after_a_restart(other: str, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.sqlite")
    async with hosted(protected(table(), store=store), R2025_11_25) as client:
        act(client, "own")
        await client.open()
        session = str(client.session)
    async with hosted(protected(table(), store=store), R2025_11_25) as client:

        def ask(id: str) -> Reply:
            client.session = id
            return client.post(client.request("tools/list", id=7))

        await same(client, other, ask, session, "never-issued")
    record = await store.load(session)
    assert record is not None
    assert record.principal == access().principal.key
    await store.aclose()


@ELSE
async def test_a_session_of_2024_is_its_principals(other: str) -> None:
    async with hosted(protected(table()), R2024_11_05) as client:
        act(client, "own")
        client.path = "/sse"
        stream = client.get()
        client.path, _, query = (await stream.event()).data.decode().partition("?")
        session = query.removeprefix("session=")

        def ask(id: str) -> Reply:
            client.query = f"session={id}"
            return client.post(client.request("ping", id=7))

        act(client, other)
        assert await said(ask(session)) == await said(ask("never-issued"))
        act(client, "renewed")
        assert (await said(ask(session)))[0] == 202


@ELSE
@BOTH
async def test_a_cursor_is_its_principals(other: str, revision: Revision) -> None:
    server = Server("pages", version="0", limits=Limits(page_items=1))
    for name in ("a", "b"):
        server.add_tool(_nothing, name=name)
    async with hosted(protected(table(), server=server), revision) as client:
        act(client, "own")
        if revision is R2025_11_25:
            await client.open()
        cursor = str(as_object((await client.ask("tools/list"))["result"])["nextCursor"])
        act(client, other)
        if revision is R2025_11_25:
            client.session = None
            await client.open()

        def ask(given: str) -> Reply:
            return client.post(client.request("tools/list", {"cursor": given}, id=7))

        foreign, nobody = await said(ask(cursor)), await said(ask("never-issued"))
        assert foreign == nobody
        assert b"error" in foreign[2]


async def _nothing() -> str:
    return ""


@ELSE
@pytest.mark.spec("mrtr.state-bind-principal", "elicitation.state-associated-with-user", "elicitation.bind-identity")
async def test_the_state_of_a_request_is_its_principals(other: str) -> None:
    async with hosted(protected(table(), server=Gate().server), R2026_07_28) as client:
        act(client, "own")
        first = as_object((await client.post(client.call("look")).json())["result"])
        (key,) = as_object(first["inputRequests"])

        def ask(state: str) -> Reply:
            message = client.call("look", id=7)
            answers: JsonObject = {key: {"roots": []}}
            as_object(message["params"]).update(requestState=state, inputResponses=answers)
            return client.post(message)

        await same(client, other, ask, str(first["requestState"]), "never-issued")


@ELSE
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
async def test_a_task_is_its_principals(
    other: str, revision: Revision, method: str, autojump_clock: trio.testing.MockClock
) -> None:
    control = ToolControl()
    server = make_server(control)
    async with server.running(), hosted(protected(table(), server=server), revision) as client:
        task = await begun(client)
        if revision is R2025_11_25:
            act(client, other)
            sessions = {"own": client.session}
            client.session = None
            await client.open()
            sessions[other] = client.session

        def ask(id: str) -> Reply:
            if revision is R2025_11_25:
                client.session = sessions[str(client.headers["authorization"]).removeprefix("Bearer ")]
            more: JsonObject = {"inputResponses": {}} if method == "tasks/update" else {}
            return client.post(client.request(method, {"taskId": id, **more}, id=7))

        await same(client, other, ask, task, "never-issued")


async def begun(client: Client) -> str:
    """A task of the owner."""
    client.capabilities = WITH_TASKS
    act(client, "own")
    params: JsonObject = {"name": "work", "arguments": {}}
    if client.revision is R2025_11_25:
        await client.open()
        params["task"] = {}
    result = as_object((await client.ask("tools/call", params))["result"])
    task = result if client.revision is R2026_07_28 else as_object(result["task"])
    return str(task["taskId"])


@ELSE
async def test_tasks_of_others_are_neither_listed_nor_watched(other: str) -> None:
    server = make_server(ToolControl())
    app = protected(table(), server=server)
    async with server.running(), hosted(app, R2025_11_25) as client, hosted(app, R2026_07_28) as modern:
        task = await begun(client)
        listed = as_object((await client.ask("tasks/list"))["result"])["tasks"]
        assert isinstance(listed, list)
        assert [as_object(each)["taskId"] for each in listed] == [task]
        act(client, other)
        client.session = None
        await client.open()
        assert as_object((await client.ask("tasks/list"))["result"])["tasks"] == []
        modern.capabilities = WITH_TASKS
        for who, granted in (("own", [task]), (other, [])):
            act(modern, who)
            wanted: JsonObject = {"notifications": {"taskIds": [task, "never-issued"]}}
            reply = modern.post(modern.request("subscriptions/listen", wanted))
            acknowledged = as_object((await reply.message())["params"])
            assert as_object(acknowledged["notifications"]).get("taskIds", []) == granted


async def test_a_task_knows_whose_it_is_in_the_next_process(tmp_path: Path) -> None:
    seen: list[tuple[Principal | None, frozenset[str]]] = []

    def make(tasks: TaskPolicy) -> Server:
        server = Server("tasks", version="0", tasks=tasks)

        @server.tool(task="required", resumable=True)
        async def work(context: Context) -> str:
            seen.append((context.principal, context.scopes))
            if len(seen) == 1:
                await trio.sleep_forever()
            return "done"

        return server

    for _ in range(2):
        store = SqliteTaskStore(tmp_path / "tasks.sqlite")
        server = make(TaskPolicy(store=store))
        with trio.CancelScope() as scope:
            async with server.running(), hosted(protected(table(), server=server), R2026_07_28) as client:
                if not seen:
                    act(client, "renewed")
                    client.capabilities = WITH_TASKS
                    await client.ask("tools/call", {"name": "work", "arguments": {}})
                while len(seen) == _:
                    await trio.testing.wait_all_tasks_blocked(0.01)
                scope.cancel()
        await store.aclose()
    assert seen == [(access().principal, frozenset({"more"})), (access().principal, frozenset())]


async def test_nothing_of_the_key_is_told_to_clients() -> None:
    async with hosted(protected(table()), R2025_11_25) as client:
        act(client, "own")
        answer = await client.open()
        assert "anna" not in json.dumps(answer)
        values: list[JsonValue] = [client.session]
        assert "anna" not in json.dumps(values)
