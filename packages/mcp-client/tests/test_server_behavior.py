"""Optional behavior of servers that a client accepts, and actions that no server can make a client take."""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import NoReturn

import pytest
import trio
import trio.testing

from mcp_client import Change, ChangeKind, Client, Deadlines, Handlers, open_stdio
from mcp_client.testing import ScriptedPeer, Transcript, open_in_memory, scripted
from mcp_core.errors import ConnectionEnded, LocalProtocolError, RequestFailed, RequestTimeout
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import LEGACY, MODERN, R2026_07_28
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    Root,
    TextContent,
    ToolUseContent,
)

OK: JsonObject = {"content": [], "resultType": "complete"}
UNCACHED: JsonObject = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
TEXT: JsonObject = {"type": "text", "text": "2+2?"}
CALL: JsonObject = {"type": "tool_use", "id": "a", "name": "add", "input": {}}
RESULT: JsonObject = {"type": "tool_result", "toolUseId": "a", "content": []}
ERAS = pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])


async def handshake(peer: ScriptedPeer, modern: bool, **capabilities: JsonValue) -> JsonObject:
    return await (peer.discover(**capabilities) if modern else peer.initialize(**capabilities))


def sent_lines(transcript: Transcript) -> list[bytes]:
    return [line for direction, line in transcript.lines if direction == ">"]


# --- lists -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "pagination.empty-cursor-valid",
    "pagination.cursor-opaque",
    "pagination.no-page-size-assumption",
    "pagination.missing-cursor-ends",
    "pagination.both-flows",
    "pagination.opaque-format",
    "pagination.opaque-unmodified",
    "pagination.no-fixed-page-size",
)
@ERAS
async def test_list_any_cursor_and_empty_page_accepted(modern: bool, autojump_clock: trio.testing.MockClock) -> None:
    cursors = [" a b\n", "é/%00", "2" * 3_000, *([""] if modern else [])]

    async def script(peer: ScriptedPeer) -> None:
        await handshake(peer, modern, prompts={})
        request = await peer.receive("prompts/list")
        for size, cursor in enumerate(cursors):
            page: list[JsonValue] = [{"name": f"p{size}"}] * size
            await peer.answer(request, {"prompts": page, "nextCursor": cursor, **UNCACHED})
            request = await peer.receive("prompts/list")
            assert isinstance(request["params"], dict)
            assert request["params"]["cursor"] == cursor
        await peer.answer(request, {"prompts": [], **UNCACHED})

    async with open_in_memory(scripted(script)) as client:
        assert len(await client.list_prompts()) == sum(range(len(cursors)))


@pytest.mark.spec("resources.file-inode-mime", "resources.file-xdg-mime", "tools.list-may-be-empty")
@pytest.mark.spec("prompts.list-may-be-empty", "resources.list-may-be-empty", "caching.ttl-without-list-changed")
async def test_list_empty_or_with_directory_accepted(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={}, prompts={}, resources={})
        cached: JsonObject = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
        await peer.answer(await peer.receive("tools/list"), {"tools": [], **cached})
        await peer.answer(await peer.receive("prompts/list"), {"prompts": [], **cached})
        await peer.answer(await peer.receive("resources/templates/list"), {"resourceTemplates": [], **cached})
        directory: JsonObject = {"uri": "file:///srv", "name": "srv", "mimeType": "inode/directory"}
        await peer.answer(await peer.receive("resources/list"), {"resources": [directory], **cached})

    async with open_in_memory(scripted(script)) as client:
        for _ in range(2):
            assert not await client.list_tools()
            assert not await client.list_prompts()
            assert not await client.list_resource_templates()
            assert [each.mime_type for each in await client.list_resources()] == ["inode/directory"]


# --- server info and notifications -------------------------------------------------------------------------------------


@pytest.mark.spec("discover.server-info-not-behavioral", "discover.server-info-not-security")
@ERAS
async def test_server_info_does_not_change_behavior(modern: bool, autojump_clock: trio.testing.MockClock) -> None:
    async def conversation(info: JsonObject) -> list[bytes]:
        async def script(peer: ScriptedPeer) -> None:
            request = await peer.receive("server/discover")
            if modern:
                known: JsonObject = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **UNCACHED}
                meta: JsonObject = {"io.modelcontextprotocol/serverInfo": info}
                await peer.answer(request, {**known, "_meta": meta})
            else:
                await peer.refuse(request, -32601)
                request = await peer.receive("initialize")
                opened: JsonObject = {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": info,
                }
                await peer.answer(request, opened)
                await peer.receive("notifications/initialized")
            await peer.answer(await peer.receive("tools/call"), OK)
            await peer.answer(await peer.receive("tools/list"), {"tools": [], **UNCACHED})

        transcript = Transcript()
        async with open_in_memory(scripted(script), transcript=transcript) as client:
            await client.call_tool("a", {"b": 1})
            await client.list_tools()
        return sent_lines(transcript)

    plain = await conversation({"name": "weather", "version": "1"})
    for info in ({"name": "bank of trust", "version": "99", "title": "Admin"}, {"name": "", "version": ""}):
        assert await conversation({**info}) == plain


@pytest.mark.spec("progress.optional", "progress.server-may-send", "progress.total-optional")
@pytest.mark.spec("logging.client-tolerates-notifications")
@ERAS
async def test_progress_and_log_messages_optional(modern: bool, autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await handshake(peer, modern, tools={})
        await peer.answer(await peer.receive("tools/call"), OK)
        request = await peer.receive("tools/call")
        assert isinstance(request["params"], dict)
        assert isinstance(request["params"]["_meta"], dict)
        params: JsonObject = {"progressToken": request["params"]["_meta"]["progressToken"], "progress": 0.5}
        await peer.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        logged: JsonObject = {"level": "info", "data": None}
        await peer.send({"jsonrpc": "2.0", "method": "notifications/message", "params": logged})
        await trio.sleep(1)
        await peer.answer(request, OK)

    shown: list[tuple[float, float | None]] = []
    async with open_in_memory(scripted(script)) as client:
        await client.call_tool("a", on_progress=lambda progress, total, _message: shown.append((progress, total)))
        assert shown == []
        await client.call_tool("a", on_progress=lambda progress, total, _message: shown.append((progress, total)))
    assert shown == [(0.5, None)]


@pytest.mark.spec("subscription.ack-interleaving-stdio", "stdio.correlate-subscription-id")
async def test_messages_before_subscription_acknowledgment_delivered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    key = "io.modelcontextprotocol/subscriptionId"

    def notification(method: str, id: JsonValue, **params: JsonValue) -> JsonObject:
        return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {**params, "_meta": {key: id}}}

    changes_received = trio.Event()

    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={"listChanged": True}, prompts={"listChanged": True})
        first = (await peer.receive("subscriptions/listen"))["id"]
        await peer.send(notification("subscriptions/acknowledged", first, notifications={"toolsListChanged": True}))
        call = await peer.receive("tools/call")
        second = (await peer.receive("subscriptions/listen"))["id"]
        await peer.send(notification("tools/list_changed", first))
        await peer.answer(call, OK)
        await peer.send(notification("subscriptions/acknowledged", second, notifications={"promptsListChanged": True}))
        await peer.send(notification("prompts/list_changed", second))
        await changes_received.wait()

    async with open_in_memory(scripted(script)) as client, client.listen(tools=True) as tools:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "a")
            await trio.testing.wait_all_tasks_blocked()
            async with client.listen(prompts=True) as prompts:
                assert await anext(prompts) == Change(ChangeKind.PROMPTS)
                assert await anext(tools) == Change(ChangeKind.TOOLS)
        changes_received.set()


@pytest.mark.spec("stdio.resubscribe-after-restart")
async def test_new_connection_subscribes_again(autojump_clock: trio.testing.MockClock) -> None:
    listen_ids: list[JsonValue] = []

    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={"listChanged": True})
        request = await peer.receive("subscriptions/listen")
        listen_ids.append(request["id"])
        meta: JsonObject = {"io.modelcontextprotocol/subscriptionId": request["id"]}
        params: JsonObject = {"notifications": {"toolsListChanged": True}, "_meta": meta}
        await peer.send({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params})
        await peer.aclose()

    for _ in range(2):
        async with open_in_memory(scripted(script)) as client, client.listen(tools=True) as changes:
            with pytest.raises(ConnectionEnded):
                await anext(changes)
    assert len(listen_ids) == 2


# --- ping ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("ping.timeout-is-failure", "ping.timeout-appropriate", "ping.not-excessive")
async def test_ping_times_out_and_is_never_automatic(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize()
        await peer.receive("ping")
        await peer.receive("notifications/cancelled")

    transcript = Transcript()
    async with open_in_memory(scripted(script), deadlines=Deadlines(idle=3), transcript=transcript) as client:
        await trio.sleep(3_600)
        assert b"ping" not in b"".join(sent_lines(transcript))
        with pytest.raises(RequestTimeout, match="idle deadline of 3 s"):
            await client.ping()


# --- client requests -------------------------------------------------------------------------------------------------


def input_required(method: str, params: JsonObject) -> JsonObject:
    return {"resultType": "input_required", "inputRequests": {"q": {"method": method, "params": params}}}


async def failing(*_: object) -> NoReturn:
    raise ZeroDivisionError


FAILING = Handlers(elicit=failing, elicit_url=failing, sample=failing, roots=failing)


@pytest.mark.spec("mrtr.error-needs-no-replay", "roots.error-no-replay", "mrtr.client-no-initial-fields")
@pytest.mark.parametrize("method", ["roots/list", "sampling/createMessage"])
async def test_mrtr_handler_failure_sends_no_retry(method: str, autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={})
        params: JsonObject = {} if method == "roots/list" else {"messages": [], "maxTokens": 5}
        request = await peer.receive("tools/call")
        assert isinstance(request["params"], dict)
        assert not request["params"].keys() & {"inputResponses", "requestState"}
        await peer.answer(request, input_required(method, params))

    transcript = Transcript()
    async with open_in_memory(scripted(script), handlers=FAILING, transcript=transcript) as client:
        with pytest.raises(ZeroDivisionError):
            await client.call_tool("a")
    assert len([line for line in sent_lines(transcript) if b"tools/call" in line]) == 1


async def response_or_error(
    modern: bool, method: str, params: JsonObject, handlers: Handlers, caplog: pytest.LogCaptureFixture
) -> str:
    """Return the server's view of the response to a client request, or the error or log on this side."""
    answers: list[JsonObject] = []

    async def script(peer: ScriptedPeer) -> None:
        await handshake(peer, modern, tools={})
        request = await peer.receive("tools/call")
        if modern:
            await peer.answer(request, input_required(method, params))
            line = await peer.receive_line()
            if line is None:
                return
            request = json.loads(line)
            answers.append(request)
        else:
            await peer.send({"jsonrpc": "2.0", "id": "q", "method": method, "params": params})
            answers.append(await peer.receive())
        await peer.answer(request, OK)

    async with open_in_memory(scripted(script), handlers=handlers, revisions=[*MODERN] if modern else LEGACY) as client:
        try:
            # With the deadline, a request that is wrongly accepted fails the test instead of blocking it.
            await client.call_tool("a", deadlines=Deadlines(idle=5))
        except (RequestFailed, LocalProtocolError) as error:
            return str(error)
    return f"{answers} {caplog.text}"


@ERAS
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([[TEXT, CALL]], "no message with the result of the tool call 'a'"),
        ([[CALL], [RESULT, TEXT]], "messages[1] has tool results beside other content"),
        ([[CALL], [TEXT]], "messages[1] lacks the result of the tool call 'a'"),
    ],
)
@pytest.mark.spec("sampling.missing-tool-result-error", "sampling.mixed-tool-result-error")
@pytest.mark.spec("sampling.client-rejects-unbalanced", "sampling.validate-content")
async def test_sampling_without_tool_results_rejected(
    modern: bool,
    content: list[JsonValue],
    problem: str,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: trio.testing.MockClock,
) -> None:
    roles = ("assistant", "user")
    messages: list[JsonValue] = [{"role": role, "content": each} for role, each in zip(roles, content, strict=False)]
    outcome = await response_or_error(
        modern,
        "sampling/createMessage",
        {"messages": messages, "maxTokens": 5, "tools": []},
        Handlers(sample=failing, sample_tools=True),
        caplog,
    )
    assert problem in outcome
    assert "-32602" in outcome


@ERAS
@pytest.mark.parametrize(("mode", "calls"), [("required", False), ("none", True)])
@pytest.mark.spec("sampling.tool-choice-required", "sampling.tool-choice-none", "sampling.validate-content")
async def test_sampling_result_against_tool_choice_not_sent(
    mode: str,
    calls: bool,
    modern: bool,
    caplog: pytest.LogCaptureFixture,
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def sample(_: CreateMessageRequestParams) -> CreateMessageResult:
        content = ToolUseContent(id="a", name="x", input={}) if calls else TextContent(text="4")
        return CreateMessageResult(role="assistant", content=content, model="m")

    params: JsonObject = {"messages": [], "maxTokens": 5, "tools": [], "toolChoice": {"mode": mode}}
    outcome = await response_or_error(
        modern, "sampling/createMessage", params, Handlers(sample=sample, sample_tools=True), caplog
    )
    assert "`Handlers.sample` returned an invalid result: the model called" in outcome


@ERAS
@pytest.mark.spec("elicitation.client-validates", "elicitation.client-validates-content")
@pytest.mark.spec("elicitation.accept-content", "elicitation.accept-form-content")
async def test_elicitation_content_invalid_not_sent(
    modern: bool, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    async def elicit(_: ElicitRequestFormParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"age": "old"})

    form: JsonObject = {"type": "object", "properties": {"age": {"type": "integer"}}}
    outcome = await response_or_error(
        modern, "elicitation/create", {"message": "?", "requestedSchema": form}, Handlers(elicit=elicit), caplog
    )
    assert "the elicitation result is invalid: age must be a number" in outcome
    assert "'old'" not in outcome


@ERAS
@pytest.mark.spec("elicitation.no-prefetch", "elicitation.url-no-prefetch")
async def test_elicitation_url_not_requested_by_client(modern: bool, caplog: pytest.LogCaptureFixture) -> None:
    connections: list[object] = []
    shown: list[str] = []

    async def elicit_url(params: ElicitRequestURLParams) -> ElicitResult:
        shown.append(params.url)
        return ElicitResult(action="accept")

    async def record_connection(stream: trio.SocketStream) -> None:
        connections.append(stream)

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, record_connection, 0, host="127.0.0.1"))
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/"
        params: JsonObject = {"mode": "url", "message": "Go.", "url": url, "elicitationId": "1"}
        await response_or_error(modern, "elicitation/create", params, Handlers(elicit_url=elicit_url), caplog)
        assert shown == [url]
        # The listener does record connections.
        async with await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1]) as stream:
            assert await stream.receive_some() == b""
        assert len(connections) == 1
        nursery.cancel_scope.cancel()


@pytest.mark.spec("elicitation.complete-unknown-ignored", "elicitation.complete-optional")
async def test_elicitation_complete_unknown_ignored(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        request = await peer.receive("tools/call")
        for params in ({"elicitationId": "never"}, {"elicitationId": "never"}, {}):
            await peer.send({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {**params}})
        await peer.answer(request, OK)

    async def elicit_url(_: ElicitRequestURLParams) -> ElicitResult:
        return ElicitResult(action="accept")

    async with open_in_memory(scripted(script), handlers=Handlers(elicit_url=elicit_url)) as client:
        assert not (await client.call_tool("a")).is_error


# --- roots -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("roots.list-changed", "roots.no-list-changed")
@ERAS
async def test_roots_changed_sent_only_when_declared(modern: bool, autojump_clock: trio.testing.MockClock) -> None:
    declared: list[str] = []
    done = trio.Event()

    async def script(peer: ScriptedPeer) -> None:
        declared.append(str(await handshake(peer, modern, tools={})))
        if not modern:
            await peer.receive("notifications/roots/list_changed")
        await peer.answer(await peer.receive("tools/call"), OK)
        done.set()

    async with open_in_memory(scripted(script), handlers=Handlers(roots=[Root(uri="file:///")])) as client:
        await client.roots_changed()
        await client.call_tool("a")
        await done.wait()
    assert ("listChanged" in declared[0]) == (not modern)
    assert "'roots'" in declared[0]


# --- processes -------------------------------------------------------------------------------------------------------

ECHOING = """
import json, sys
for line in sys.stdin.buffer:
    print(line.decode(), end="", file=sys.stderr, flush=True)
    message = json.loads(line)
    if message.get("method") == "server/discover":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        result.update(resultType="complete", ttlMs=0, cacheScope="private")
    elif message.get("method") == "initialize":
        info = {"name": "small", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    elif "id" in message:
        result = {"content": [], "resultType": "complete"}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.mark.spec("stdio.client-stdin-clean", "stdio.stdin-only-mcp", "stdio.stderr-not-error")
@pytest.mark.parametrize("revision", [LEGACY[-1], R2026_07_28], ids=str)
async def test_stdio_server_reads_only_messages(revision: object) -> None:
    stderr_lines: list[str] = []
    revisions = [each for each in (*LEGACY, *MODERN) if each is revision]
    with trio.fail_after(60):
        async with open_stdio(
            [sys.executable, "-I", "-S", "-c", ECHOING], revisions=revisions, on_stderr=stderr_lines.append
        ) as client:
            await use_client(client)
    assert len(stderr_lines) >= 3
    for line in stderr_lines:
        assert line.startswith('{"jsonrpc":"2.0",'), line
        assert '"method"' in line


async def use_client(client: Client) -> None:
    assert not (await client.call_tool("a", {"text": "two\nlines"})).is_error
    with trio.move_on_after(0):
        await client.call_tool("a")
    assert not (await client.call_tool("a")).is_error


@pytest.mark.spec("tasks.related-task-meta", "tasks.no-related-meta-in-answers")
async def test_client_response_keeps_related_task(autojump_clock: trio.testing.MockClock) -> None:
    related: JsonObject = {"io.modelcontextprotocol/related-task": {"taskId": "17"}}
    form: JsonObject = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
    answers: list[JsonValue] = []
    done = trio.Event()

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        sample_params: JsonObject = {"messages": [{"role": "user", "content": TEXT}], "maxTokens": 1, "_meta": related}
        requests: list[JsonObject] = [
            {**form, "_meta": related},
            form,
            {**form, "_meta": related, "task": {}},
            sample_params,
        ]
        for params in requests:
            method = "elicitation/create" if "message" in params else "sampling/createMessage"
            await peer.send({"jsonrpc": "2.0", "id": len(answers), "method": method, "params": params})
            response = await peer.receive()
            while "result" not in response:
                response = await peer.receive()
            answers.append(response["result"])
        task = answers[2]
        assert isinstance(task, dict)
        assert isinstance(task["task"], dict)
        task_params: JsonObject = {"taskId": task["task"]["taskId"], "_meta": related}
        await peer.send({"jsonrpc": "2.0", "id": 9, "method": "tasks/get", "params": task_params})
        response = await peer.receive()
        while "result" not in response:
            response = await peer.receive()
        answers.append(response["result"])
        done.set()

    async def elicit(_: ElicitRequestFormParams) -> ElicitResult:
        return ElicitResult(action="accept", content={}, meta={"mine": 1})

    async def sample(_: CreateMessageRequestParams) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=TextContent(text="4"), model="m")

    handlers = Handlers(elicit=elicit, sample=sample, accept_tasks=True)
    async with open_in_memory(scripted(script), handlers=handlers):
        await done.wait()
    metas = [each.get("_meta") if isinstance(each, dict) else None for each in answers]
    assert metas == [{"mine": 1, **related}, {"mine": 1}, related, related, None]
