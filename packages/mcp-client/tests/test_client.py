from __future__ import annotations

import logging
from typing import cast

import pytest
import trio
import trio.testing

from mcp_client import Change, ChangeKind, Client, ClientOptions, Deadlines, Handlers, InvalidToolOutput
from mcp_client.testing import ScriptedPeer, Transcript, open_in_memory, scripted
from mcp_core.errors import (
    ConnectionEnded,
    ErrorCode,
    HeaderMismatch,
    LimitExceeded,
    LocalProtocolError,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
    ResourceNotFound,
)
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import LEGACY, R2025_06_18, R2026_07_28
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    LoggingMessageNotificationParams,
    PromptReference,
    ResourceTemplateReference,
    Root,
    TextContent,
)

OK: JsonObject = {"content": [{"type": "text", "text": "ok"}], "resultType": "complete"}
FORM: JsonObject = {
    "mode": "form",
    "message": "Your name?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}
URL: JsonObject = {"mode": "url", "message": "Sign in", "url": "https://example.com/", "elicitationId": "1"}
SAMPLE: JsonObject = {"messages": [{"role": "user", "content": {"type": "text", "text": "2+2?"}}], "maxTokens": 5}


def member(message: JsonObject, *path: str) -> JsonValue:
    value: JsonValue = message
    for name in path:
        assert isinstance(value, dict), message
        value = value[name]
    return value


async def elicit(params: ElicitRequestFormParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


async def elicit_url(params: ElicitRequestURLParams) -> ElicitResult:
    return ElicitResult(action="accept")


async def sample(params: CreateMessageRequestParams) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text="4"), model="abacus")


async def roots() -> list[Root]:
    return [Root(uri="file:///")]


HANDLERS = Handlers(elicit=elicit, elicit_url=elicit_url, sample=sample, roots=roots)
ANSWERS: dict[str, tuple[JsonObject | None, JsonObject]] = {
    "elicitation/create": (FORM, {"action": "accept", "content": {"name": "Ada"}}),
    "elicitation/create by url": (URL, {"action": "accept"}),
    "sampling/createMessage": (
        SAMPLE,
        {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "abacus"},
    ),
    "roots/list": (None, {"roots": [{"uri": "file:///"}]}),
}


# --- lists -----------------------------------------------------------------------------------------------------------

LISTS: dict[str, tuple[str, JsonObject]] = {
    "tools": ("tools/list", {"name": "a", "inputSchema": {"type": "object"}}),
    "prompts": ("prompts/list", {"name": "a"}),
    "resources": ("resources/list", {"name": "a", "uri": "a:b"}),
    "resourceTemplates": ("resources/templates/list", {"name": "a", "uriTemplate": "a:{b}"}),
}


async def listed(client: Client, kind: str) -> int:
    if kind == "tools":
        return len(await client.list_tools())
    if kind == "prompts":
        return len(await client.list_prompts())
    if kind == "resources":
        return len(await client.list_resources())
    return len(await client.list_resource_templates())


@pytest.mark.spec(
    "prompts.client-pagination",
    "pagination.no-fixed-page-size",
    "pagination.missing-next-cursor-ends",
    "pagination.both-flows",
    "pagination.opaque-format",
    "pagination.opaque-unmodified",
    "pagination.cursor-opaque",
    "pagination.no-page-size-assumption",
    "pagination.missing-cursor-ends",
    "pagination.not-across-sessions",
)
@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("last", [{}, {"nextCursor": None}, {"nextCursor": ""}])
async def test_list_returns_every_page(kind: str, last: JsonObject, autojump_clock: trio.testing.MockClock) -> None:
    method, item = LISTS[kind]

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={}, prompts={}, resources={})
        assert "cursor" not in await params_of(await peer.receive(method))
        for cursor in ("a", "b"):
            await peer.answer(request[0], {kind: [item, item], "nextCursor": cursor})
            assert (await params_of(await peer.receive(method)))["cursor"] == cursor
        await peer.answer(request[0], {kind: [item], **last})

    request: list[JsonObject] = []

    async def params_of(message: JsonObject) -> JsonObject:
        request[:] = [message]
        params = message.get("params", {})
        assert isinstance(params, dict)
        return params

    async with open_in_memory(scripted(script)) as client:
        assert await listed(client, kind) == 5


async def test_list_endless_pages_raises(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={}, prompts={})
        for cursor in ("a", "b", "a"):
            await peer.answer(await peer.receive("tools/list"), {"tools": [], "nextCursor": cursor})
        for number in range(1000):
            await peer.answer(await peer.receive("prompts/list"), {"prompts": [], "nextCursor": str(number)})

    async with open_in_memory(scripted(script)) as client:
        with pytest.raises(
            RemoteProtocolError, match=r"the server sent the cursor 'a' twice .*method tools/list, peer the server"
        ):
            await client.list_tools()
        with pytest.raises(RemoteProtocolError, match="more than 1000 pages"):
            await client.list_prompts()


@pytest.mark.spec("pagination.cursor-opaque")
async def test_list_repeated_cursor_of_modern_server_continues(autojump_clock: trio.testing.MockClock) -> None:
    _, tool = LISTS["tools"]

    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={}, prompts={})
        for _ in range(3):
            await peer.answer(await peer.receive("tools/list"), {"tools": [tool], "nextCursor": "a"})
        await peer.answer(await peer.receive("tools/list"), {"tools": [tool]})
        for _ in range(1000):
            await peer.answer(await peer.receive("prompts/list"), {"prompts": [], "nextCursor": "a"})

    async with open_in_memory(scripted(script)) as client:
        assert len(await client.list_tools()) == 4
        with pytest.raises(RemoteProtocolError, match="more than 1000 pages"):
            await client.list_prompts()


# --- other requests ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("completion.context-arguments", "completion.client-partial")
async def test_resources_prompts_and_completions_requested(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(resources={}, prompts={}, completions={})
        text: JsonObject = {"uri": "a:b", "text": "hello"}
        await peer.answer(await peer.receive("resources/read"), {"contents": [text]})
        await peer.refuse(await peer.receive("resources/read"), -32002, "not found", {"uri": "a:c"})
        request = await peer.receive("prompts/get")
        assert member(request, "params", "arguments") == {"x": "1"}
        await peer.answer(request, {"messages": [{"role": "user", "content": {"type": "text", "text": "do"}}]})
        request = await peer.receive("completion/complete")
        assert member(request, "params", "context") == {"arguments": {"country": "BE"}}
        assert member(request, "params", "argument") == {"name": "city", "value": "G"}
        await peer.answer(request, {"completion": {"values": ["Ghent"], "hasMore": False}})
        request = await peer.receive("completion/complete")
        assert "context" not in str(member(request, "params"))
        await peer.answer(request, {"completion": {"values": []}})

    async with open_in_memory(scripted(script)) as client:
        (contents,) = (await client.read_resource("a:b")).contents
        assert contents.uri == "a:b"
        with pytest.raises(ResourceNotFound):
            await client.read_resource("a:c")
        assert len((await client.get_prompt("p", {"x": "1"})).messages) == 1
        reference = ResourceTemplateReference(uri="city://{name}")
        completion = await client.complete(reference, "city", "G", known={"country": "BE"})
        assert completion.values == ("Ghent",)
        assert (await client.complete(PromptReference(name="p"), "city", "X")).values == ()


async def test_ping_is_legacy_only(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize()
        await peer.answer(await peer.receive("ping"), {})

    async with open_in_memory(scripted(script)) as client:
        await client.ping()
    async with open_in_memory(scripted(lambda peer: peer.discover())) as client:
        with pytest.raises(LocalProtocolError, match="ping"):
            await client.ping()
        assert client.capabilities.tools is None


# --- log messages ----------------------------------------------------------------------------------------------------


async def test_log_level_legacy_set_for_session(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(logging={})
        for level in ("debug", "error"):
            request = await peer.receive("logging/setLevel")
            assert member(request, "params", "level") == level
            await peer.answer(request, {})
        logged: JsonObject = {"level": "error", "data": {"a": 1}, "logger": "db"}
        await peer.send({"jsonrpc": "2.0", "method": "notifications/message", "params": logged})
        await peer.send({"jsonrpc": "2.0", "method": "$/logTrace", "params": {"message": "gone", "verbose": False}})
        await peer.send({"jsonrpc": "2.0", "method": "$/logTrace", "params": {"message": "a miss", "verbose": True}})

    messages: list[tuple[str, JsonValue]] = []

    def log(params: LoggingMessageNotificationParams) -> None:
        messages.append((params.level, params.data))
        raise ValueError

    async with open_in_memory(scripted(script), log_level="debug", handlers=Handlers(log=log)) as client:
        await client.set_log_level("error")
        await trio.testing.wait_all_tasks_blocked()
    assert messages == [("error", {"a": 1}), ("info", "gone"), ("debug", "a miss")]


async def test_log_level_modern_sent_with_each_request(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={}, logging={})
        for level in ("info", "error"):
            request = await peer.receive("tools/call")
            assert member(request, "params", "_meta", "io.modelcontextprotocol/logLevel") == level
            await peer.answer(request, OK)

    async with open_in_memory(scripted(script), log_level="info") as client:
        await client.call_tool("a")
        await client.set_log_level("error")
        await client.call_tool("a")


async def test_log_level_rejected_connection_stays_open(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(logging={})
        await peer.refuse(await peer.receive("logging/setLevel"), -32601)

    async with open_in_memory(scripted(script), log_level="info"):
        pass
    assert "setting the log level failed" in caplog.text


@pytest.mark.spec("logging.client-may-present")
async def test_log_message_without_handler_logged(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(logging={})
        params: JsonObject = {"level": "critical", "data": "no\nspace"}
        await peer.send({"jsonrpc": "2.0", "method": "notifications/message", "params": params})

    async with open_in_memory(scripted(script)):
        await trio.testing.wait_all_tasks_blocked()
    (record,) = [record for record in caplog.records if record.name == "mcp_client.server"]
    assert (record.levelno, record.getMessage()) == (logging.CRITICAL, r"server: 'no\nspace'")


# --- client requests -----------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "elicitation.accept-content",
    "elicitation.url-accept-no-content",
    "elicitation.id-opaque",
    "elicitation.complete-optional",
)
@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("request_kind", ANSWERS)
async def test_legacy_client_request_answered(
    revision: object, request_kind: str, autojump_clock: trio.testing.MockClock
) -> None:
    params, answer = ANSWERS[request_kind]
    method = request_kind.removesuffix(" by url")
    served = {
        "elicitation/create": str(revision) >= "2025-06-18",
        "elicitation/create by url": str(revision) >= "2025-11-25",
    }

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(str(revision), tools={})
        request: JsonObject = {"jsonrpc": "2.0", "id": "q", "method": method}
        await peer.send(request if params is None else {**request, "params": params})
        reply = await peer.receive()
        assert reply["id"] == "q"
        if served.get(request_kind, True):
            assert reply["result"] == answer
        else:
            assert "error" in reply

    async with open_in_memory(
        scripted(script), handlers=HANDLERS, revisions=[each for each in LEGACY if each is revision]
    ):
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.spec("roots.unsupported-error")
async def test_client_request_without_handler_rejected(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        request = await peer.initialize("2025-11-25")
        assert member(request, "params", "capabilities") == {}
        for request_kind, (params, _) in ANSWERS.items():
            method = request_kind.removesuffix(" by url")
            await peer.send({"jsonrpc": "2.0", "id": request_kind, "method": method, "params": params})
            assert member(await peer.receive(), "error", "code") == ErrorCode.METHOD_NOT_FOUND

    async with open_in_memory(scripted(script)):
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.spec(
    "elicitation.declare-capability",
    "elicitation.capability",
    "elicitation.at-least-one-mode",
    "sampling.declare-tools",
    "sampling.tools-capability",
    "sampling.declare-capability",
    "sampling.capability",
    "roots.declare-capability",
    "roots.capability",
)
def test_capabilities_follow_from_the_handlers() -> None:
    declared = HANDLERS.capabilities()
    assert declared.roots is not None
    assert declared.sampling is not None
    assert declared.sampling.tools is None
    assert declared.elicitation is not None
    assert (declared.elicitation.form, declared.elicitation.url) == ({}, {})
    with_tools = Handlers(sample=sample, sample_tools=True).capabilities().sampling
    assert with_tools is not None
    assert with_tools.tools == {}
    only_url = Handlers(elicit_url=elicit_url).capabilities().elicitation
    assert only_url is not None
    assert only_url.form is None


async def test_handler_error_reported_without_details(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing(_: ElicitRequestFormParams) -> ElicitResult:
        raise ValueError("the password is swordfish")

    async def refuses(_: CreateMessageRequestParams) -> CreateMessageResult:
        raise RequestFailed("the user said no", code=ErrorCode.USER_REJECTED)

    async def wrong() -> list[Root]:
        return [Root(uri="file:///\ud800")]

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-11-25")
        await peer.send({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": FORM})
        assert (await peer.receive())["error"] == {"code": -32603, "message": "Internal error"}
        await peer.send({"jsonrpc": "2.0", "id": 2, "method": "sampling/createMessage", "params": SAMPLE})
        assert (await peer.receive())["error"] == {"code": -1, "message": "the user said no"}
        await peer.send({"jsonrpc": "2.0", "id": 3, "method": "roots/list"})
        assert (await peer.receive())["error"] == {"code": -32603, "message": "Internal error"}

    handlers = Handlers(elicit=failing, sample=refuses, roots=wrong)
    async with open_in_memory(scripted(script), handlers=handlers):
        await trio.testing.wait_all_tasks_blocked()
    assert "swordfish" in caplog.text


async def test_handler_wrong_result_type_logged_and_rejected(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def wrong_result(_: ElicitRequestFormParams) -> ElicitResult:
        return "yes"  # type: ignore[return-value]  # an invalid result

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-11-25")
        await peer.send({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": FORM})
        assert member(await peer.receive(), "error", "code") == -32603

    async with open_in_memory(scripted(script), handlers=Handlers(elicit=wrong_result)):
        await trio.testing.wait_all_tasks_blocked()
    assert (
        "an elicitation handler must return ElicitationAccepted, ElicitationDeclined, ElicitationCancelled or a mapping, not str"
        in caplog.text
    )


@pytest.mark.spec("cancellation.no-response")
async def test_handler_cancelled_by_server_sends_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    cancelled = trio.Event()

    async def slow(_: ElicitRequestFormParams) -> ElicitResult:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-11-25", tools={})
        await peer.send({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": FORM})
        await trio.testing.wait_all_tasks_blocked()
        cancel: JsonObject = {"requestId": 1, "reason": "never mind"}
        await peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel})
        await cancelled.wait()
        await peer.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        assert (await peer.receive())["id"] == 2

    async with open_in_memory(scripted(script), handlers=Handlers(elicit=slow)):
        await cancelled.wait()
        await trio.testing.wait_all_tasks_blocked()


async def test_handler_result_after_cancellation_not_sent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    handler_started, done = trio.Event(), trio.Event()

    async def stubborn() -> list[Root]:
        with trio.CancelScope(shield=True):
            handler_started.set()
            await trio.sleep(5)
        return []

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize()
        await peer.send({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
        await handler_started.wait()
        await peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        await trio.sleep(10)
        await peer.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        assert (await peer.receive())["id"] == 2
        done.set()

    async with open_in_memory(scripted(script), handlers=Handlers(roots=stubborn)):
        await done.wait()


async def test_client_requests_over_limit_rejected(autojump_clock: trio.testing.MockClock) -> None:
    release = trio.Event()

    async def slow() -> list[Root]:
        await release.wait()
        return []

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize()
        for number in range(3):
            await peer.send({"jsonrpc": "2.0", "id": number, "method": "roots/list"})
        refused = await peer.receive()
        assert refused["id"] == 2
        assert member(refused, "error", "message") == "too many requests at once; the limit is 2"
        release.set()
        assert {(await peer.receive())["id"], (await peer.receive())["id"]} == {0, 1}

    async with open_in_memory(
        scripted(script), handlers=Handlers(roots=slow), options=ClientOptions(limits=Limits(running_requests=2))
    ):
        await release.wait()
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("shielded", [False, True])
async def test_handler_outliving_connection_logs_nothing(
    shielded: bool, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def stubborn() -> list[Root]:
        with trio.CancelScope(shield=shielded):
            await trio.sleep(5)
        return []

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-03-26")
        await peer.send([{"jsonrpc": "2.0", "id": 1, "method": "roots/list"}])
        await trio.testing.wait_all_tasks_blocked()
        await peer.aclose()

    async with open_in_memory(scripted(script), handlers=Handlers(roots=stubborn)) as client:
        await client.wait_ended()
    assert not caplog.records


async def test_batch_cancelled_member_left_out_of_reply(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slow(_: CreateMessageRequestParams) -> CreateMessageResult:
        await trio.sleep_forever()
        raise AssertionError

    done = trio.Event()

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-03-26")
        await peer.send(
            [
                {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": SAMPLE},
                {"jsonrpc": "2.0", "id": 2, "method": "ping"},
            ]
        )
        await trio.testing.wait_all_tasks_blocked()
        await peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        assert await peer.receive_line() == b'[{"jsonrpc":"2.0","id":2,"result":{}}]'
        done.set()

    async with open_in_memory(scripted(script), handlers=Handlers(sample=slow)):
        await done.wait()


# --- multi round-trip requests (2026-07-28) -----------------------------------------------------------------------------


def input_request(name: str) -> JsonObject:
    params, _ = ANSWERS[name]
    message: JsonObject = {"method": name.removesuffix(" by url")}
    return message if params is None else {**message, "params": params}


@pytest.mark.spec(
    "elicitation.accept-form-content",
    "elicitation.accept-url-no-content",
    "elicitation.server-may-elicit",
    "roots.result-shape",
    "sampling.result-shape",
    "mrtr.state-opaque",
)
async def test_mrtr_input_requests_answered_in_retry(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={}, prompts={}, resources={})
        read: JsonObject = {"resultType": "complete", "contents": [], "ttlMs": 0, "cacheScope": "private"}
        results: dict[str, JsonObject] = {
            "tools/call": OK,
            "prompts/get": {"resultType": "complete", "messages": []},
            "resources/read": read,
        }
        for method, result in results.items():
            request = await peer.receive(method)
            assert "inputResponses" not in str(member(request, "params"))
            input_requests: JsonObject = {name: input_request(name) for name in ANSWERS}
            await peer.answer(
                request, {"resultType": "input_required", "inputRequests": input_requests, "requestState": "sealed"}
            )
            retry = await peer.receive(method)
            assert retry["id"] != request["id"]
            assert member(retry, "params", "requestState") == "sealed"
            assert member(retry, "params", "inputResponses") == {name: answer for name, (_, answer) in ANSWERS.items()}
            await peer.answer(retry, {"resultType": "input_required", "requestState": "more"})
            last = await peer.receive(method)
            assert member(last, "params", "requestState") == "more"
            assert "inputResponses" not in str(member(last, "params"))
            await peer.answer(last, result)

    async with open_in_memory(scripted(script), handlers=HANDLERS) as client:
        await client.call_tool("a", {"x": 1})
        await client.get_prompt("a")
        await client.read_resource("a:b")


@pytest.mark.parametrize("name", ANSWERS)
async def test_mrtr_undeclared_input_request_raises(name: str, autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={})
        result: JsonObject = {"resultType": "input_required", "inputRequests": {"q": input_request(name)}}
        await peer.answer(await peer.receive("tools/call"), result)

    async with open_in_memory(scripted(script)) as client:
        with pytest.raises(RemoteProtocolError, match="did not declare") as caught:
            await client.call_tool("a")
        assert caught.value.context.method == "tools/call"


async def test_mrtr_round_trips_over_limit_raises(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={})
        while True:
            request = await peer.receive("tools/call")
            await peer.answer(request, {"resultType": "input_required", "requestState": "again"})
            if member(request, "id") == 18:
                break
        await peer.answer(await peer.receive("tools/call"), {"resultType": "input_required"})

    async with open_in_memory(scripted(script)) as client:
        with pytest.raises(LimitExceeded, match="round trips"):
            await client.call_tool("a")
        with pytest.raises(RemoteProtocolError, match="inputRequests"):
            await client.call_tool("a")


@pytest.mark.spec("mrtr.error-needs-no-replay")
async def test_mrtr_handler_error_fails_call(autojump_clock: trio.testing.MockClock) -> None:
    async def fails(_: ElicitRequestFormParams) -> ElicitResult:
        raise ZeroDivisionError

    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={})
        result: JsonObject = {
            "resultType": "input_required",
            "inputRequests": {"q": input_request("elicitation/create")},
        }
        await peer.answer(await peer.receive("tools/call"), result)

    async with open_in_memory(scripted(script), handlers=Handlers(elicit=fails)) as client:
        with pytest.raises(ZeroDivisionError):
            await client.call_tool("a")


# --- output schemas --------------------------------------------------------------------------------------------------


def tool(schema: JsonObject) -> JsonObject:
    return {"name": "a", "inputSchema": {"type": "object"}, "outputSchema": schema}


NUMBER: JsonObject = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}


async def tools_with_invalid_output(peer: ScriptedPeer) -> None:
    await peer.initialize("2025-06-18", tools={"listChanged": True})
    await peer.answer(await peer.receive("tools/list"), {"tools": [tool(NUMBER)]})
    wrong: JsonObject = {"content": [], "structuredContent": {"n": "one"}}
    await peer.answer(await peer.receive("tools/call"), wrong)
    await peer.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    await peer.answer(await peer.receive("tools/call"), wrong)


@pytest.mark.spec(
    "tools.output-schema-client-validates", "tools.client-validate-results", "tools.client-validates-results"
)
async def test_output_schema_violation_raises_when_configured(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_in_memory(
        scripted(tools_with_invalid_output), options=ClientOptions(validate_output="raise")
    ) as client:
        await client.list_tools()
        with pytest.raises(InvalidToolOutput, match=r"\$\.n: .*tools/call") as caught:
            await client.call_tool("a")
        assert caught.value.result.structured_content == {"n": "one"}
        # After the change the client does not know the output schema.
        await client.call_tool("a")


async def test_output_schema_violation_logged_by_default(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_in_memory(scripted(tools_with_invalid_output)) as client:
        await client.list_tools()
        assert (await client.call_tool("a")).structured_content == {"n": "one"}
        assert (await client.call_tool("a")).structured_content == {"n": "one"}
    assert "violates its output schema" in caplog.text


# --- changes ---------------------------------------------------------------------------------------------------------


def changed(notification: str, *, subscription: JsonValue = None, **params: JsonValue) -> JsonObject:
    if subscription is not None:
        params["_meta"] = {"io.modelcontextprotocol/subscriptionId": subscription}
    return {"jsonrpc": "2.0", "method": f"notifications/{notification}", "params": params}


TOOLS = "tools/list_changed"
PROMPTS = "prompts/list_changed"
RESOURCES = "resources/list_changed"
UPDATED = "resources/updated"
CAPABLE: JsonObject = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}


@pytest.mark.spec("resources.updated-sub-resource", "schema.resource-updated")
async def test_legacy_listen_yields_each_subscribed_change_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    sent = trio.Event()

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-06-18", **CAPABLE)
        request = await peer.receive("resources/subscribe")
        assert member(request, "params", "uri") == "a:b"
        await peer.answer(request, {})
        await peer.send(
            changed("message", level="info", data="not a change"),
            changed(PROMPTS),
            changed(TOOLS),
            changed(TOOLS),
            changed(UPDATED, uri="a:b"),
            changed(UPDATED, uri="a:b/below"),
            changed(UPDATED, uri="a:bc"),
            changed(TOOLS),
            changed("resources/changed", uri="a:b"),
        )
        await trio.testing.wait_all_tasks_blocked()
        sent.set()
        await peer.answer(await peer.receive("resources/unsubscribe"), {})

    changes_received: list[Change] = []
    async with open_in_memory(scripted(script)) as client:
        async with client.listen(tools=True, uris=["a:b", "a:b"]) as changes:
            assert changes.granted.tools_list_changed
            await sent.wait()
            async for change in changes:
                changes_received.append(change)
                if len(changes_received) == 3:
                    break
        with pytest.raises(StopAsyncIteration):
            await anext(changes)
    assert changes_received == [
        Change(ChangeKind.TOOLS),
        Change(ChangeKind.RESOURCE, "a:b"),
        Change(ChangeKind.RESOURCE, "a:b/below"),
    ]


@pytest.mark.parametrize("length", [1, 50])
async def test_changes_below_watched_resource_over_limit_merged(
    length: int, autojump_clock: trio.testing.MockClock
) -> None:
    sent = trio.Event()
    uris = ["a:b/" + "x" * length + str(number) for number in range(4)]

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-06-18", **CAPABLE)
        await peer.answer(await peer.receive("resources/subscribe"), {})
        await peer.send(*(changed(UPDATED, uri=uri) for uri in uris), changed(TOOLS))
        await trio.testing.wait_all_tasks_blocked()
        sent.set()
        await peer.answer(await peer.receive("resources/unsubscribe"), {})

    async with (
        open_in_memory(
            scripted(script), options=ClientOptions(limits=Limits(watched_resources=2, uri_chars=40))
        ) as client,
        client.listen(tools=True, uris=["a:b"]) as changes,
    ):
        await sent.wait()
        changes_received = [await anext(changes) for _ in range(2 if length > 40 else 4)]
    watched, tools = Change(ChangeKind.RESOURCE, "a:b"), Change(ChangeKind.TOOLS)
    own = [] if length > 40 else [Change(ChangeKind.RESOURCE, uri) for uri in uris[:2]]
    assert changes_received == [*own, watched, tools]


@pytest.mark.spec("header.xmcp-other-transport-ignored", "stdio.no-header-layer")
async def test_tool_invalid_header_parameter_kept_without_http(
    autojump_clock: trio.testing.MockClock,
) -> None:
    wrong: JsonObject = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": ""}}}
    listed: JsonObject = {"tools": [{"name": "a", "inputSchema": wrong}], "ttlMs": 0, "cacheScope": "private"}

    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(**CAPABLE)
        await peer.answer(await peer.receive("tools/list"), {"resultType": "complete", **listed})

    async with open_in_memory(scripted(script)) as client:
        assert [each.name for each in await client.list_tools()] == ["a"]


@pytest.mark.spec("resources.options-independent", "resources.subscribe-independent-flags")
async def test_legacy_listen_grants_declared_capabilities(autojump_clock: trio.testing.MockClock) -> None:
    async with open_in_memory(scripted(lambda peer: peer.initialize(tools={}, resources={}))) as client:  # noqa: SIM117  the outer one must end last
        async with client.listen(tools=True, prompts=True, resources=True, uris=["a:b"]) as changes:
            granted = changes.granted
    assert not granted.tools_list_changed
    assert not granted.prompts_list_changed
    assert not granted.resources_list_changed
    assert granted.resource_subscriptions is None


async def test_resource_unsubscribed_after_last_listener(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-06-18", **CAPABLE)
        await peer.answer(await peer.receive("resources/subscribe"), {})
        await peer.answer(await peer.receive("resources/subscribe"), {})
        await peer.refuse(await peer.receive("resources/subscribe"), -32002, "not found")
        await peer.answer(await peer.receive("tools/list"), {"tools": []})
        # A rejected unsubscribe request is no failure of the listener.
        await peer.refuse(await peer.receive("resources/unsubscribe"), -32603)

    async with open_in_memory(scripted(script)) as client, client.listen(uris=["a:b"]) as first:
        async with client.listen(uris=["a:b"]):
            pass
        with pytest.raises(RequestFailed, match="not found"):
            async with client.listen(uris=["a:c"]):
                raise AssertionError("the subscription was granted")
        await client.list_tools()
        assert first.error is None


async def test_unsubscribe_without_response_limited_to_one_second(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-06-18", **CAPABLE)
        for _ in range(3):
            await peer.answer(await peer.receive("resources/subscribe"), {})

    async with open_in_memory(scripted(script)) as client, client.listen(uris=["a:b", "a:c", "a:d"]):
        start = trio.current_time()
    assert trio.current_time() - start <= 3


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_listen_connection_lost_raises(era: str, autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        if era == "legacy":
            await peer.initialize(tools={"listChanged": True})
            await peer.answer(await peer.receive("tools/list"), {"tools": []})
            await peer.send(changed(TOOLS))
        else:
            await peer.discover(**CAPABLE)
            id = (await peer.receive("subscriptions/listen"))["id"]
            granted: JsonObject = {"toolsListChanged": True}
            await peer.send(changed("subscriptions/acknowledged", subscription=id, notifications=granted))
            await peer.answer(
                await peer.receive("tools/list"),
                {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"},
            )
            await peer.send(changed(TOOLS, subscription=id))
        await peer.aclose()

    async with open_in_memory(scripted(script)) as client:
        async with client.listen(tools=True) as changes:
            await client.list_tools()
            await client.wait_ended()
            # A change from before the loss is still delivered.
            assert await anext(changes) == Change(ChangeKind.TOOLS)
            for _ in range(2):
                with pytest.raises(ConnectionEnded):
                    await anext(changes)
        with pytest.raises(ConnectionEnded):
            async with client.listen(tools=True):
                raise AssertionError("the connection has ended")


@pytest.mark.spec("stdio.correlate-subscription-id")
async def test_modern_listen_yields_own_subscription_until_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(**CAPABLE)
        first = await peer.receive("subscriptions/listen")
        assert member(first, "params", "notifications") == {
            "toolsListChanged": True,
            "promptsListChanged": True,
            "resourceSubscriptions": ["a:b"],
        }
        granted: JsonObject = {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]}
        await peer.send(changed("subscriptions/acknowledged", subscription=str(first["id"]), notifications=granted))
        second = await peer.receive("subscriptions/listen")
        await peer.send(
            changed(
                "subscriptions/acknowledged", subscription=second["id"], notifications={"resourcesListChanged": True}
            )
        )
        await peer.send(
            changed(RESOURCES, subscription=second["id"]),
            changed(TOOLS),
            changed(UPDATED, subscription=first["id"], uri="a:b"),
        )
        done: JsonObject = {"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": first["id"]}}
        await peer.answer(first, done)
        cancelled = await peer.receive("notifications/cancelled")
        assert member(cancelled, "params", "requestId") == second["id"]

    transcript = Transcript()
    async with open_in_memory(scripted(script), transcript=transcript) as client:  # noqa: SIM117  the outer one must end last
        async with (
            client.listen(tools=True, prompts=True, uris=["a:b"]) as first,
            client.listen(resources=True) as second,
        ):
            assert not first.granted.prompts_list_changed
            assert [change async for change in first] == [Change(ChangeKind.RESOURCE, "a:b")]
            assert await anext(second) == Change(ChangeKind.RESOURCES)
    assert sum(b"notifications/cancelled" in line for _, line in transcript.lines) == 1


async def test_modern_listen_cancelled_by_server_ends(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(**CAPABLE)
        id = (await peer.receive("subscriptions/listen"))["id"]
        await peer.send(
            changed("subscriptions/acknowledged", subscription=id, notifications={"toolsListChanged": True}),
            changed("cancelled", requestId=id),
        )

    async with open_in_memory(scripted(script)) as client, client.listen(tools=True) as changes:
        assert [change async for change in changes] == []


async def test_modern_listen_rejected_or_unacknowledged_raises(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(**CAPABLE)
        await peer.refuse(await peer.receive("subscriptions/listen"), -32603, "too many")
        await peer.receive("subscriptions/listen")
        await peer.receive("notifications/cancelled")

    async with open_in_memory(scripted(script), deadlines=Deadlines(idle=7)) as client:
        with pytest.raises(RequestFailed, match="too many"):
            async with client.listen(tools=True):
                raise AssertionError("the subscription was rejected")
        with pytest.raises(RequestTimeout, match="idle deadline of 7 s") as caught:
            async with client.listen(tools=True):
                raise AssertionError("the subscription was not acknowledged")
        assert caught.value.context.request_id == 3
        assert trio.current_time() == 7


async def test_listen_two_tasks_share_changes(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-06-18", **CAPABLE)
        await peer.receive("ping")
        await peer.send(changed(TOOLS), changed(PROMPTS))

    kinds: set[ChangeKind] = set()
    async with open_in_memory(scripted(script), revisions=[R2025_06_18]) as client:  # noqa: SIM117  the outer one must end last
        async with client.listen(tools=True, prompts=True) as changes, trio.open_nursery() as nursery:

            async def take() -> None:
                kinds.add((await anext(changes)).kind)

            nursery.start_soon(take)
            nursery.start_soon(take)
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(1):
                await client.ping()
    assert kinds == {ChangeKind.TOOLS, ChangeKind.PROMPTS}


async def test_roots_changed_not_sent_to_modern_server(autojump_clock: trio.testing.MockClock) -> None:
    transcript = Transcript()
    async with open_in_memory(
        scripted(lambda peer: peer.discover()), handlers=HANDLERS, revisions=[R2026_07_28], transcript=transcript
    ) as client:
        await client.roots_changed()
    assert len([line for direction, line in transcript.lines if direction == ">"]) == 1


@pytest.mark.spec("tools.call-arguments-object")
@pytest.mark.parametrize("wrong", [[1], [("a", 1)], "ab", 5], ids=repr)
async def test_arguments_not_mapping_rejected_with_type(wrong: object, autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={}, prompts={}, completions={})

    values = cast("dict[str, str]", wrong)  # the invalid type under test
    prompt = PromptReference(name="a")
    async with open_in_memory(scripted(script)) as client:
        requirement = f"must be a mapping of names to values, not {type(wrong).__name__}$"
        with pytest.raises(LocalProtocolError, match=f"^the arguments of the tool 'x' {requirement}"):
            await client.call_tool("x", cast("JsonObject", wrong))  # the invalid type under test
        with pytest.raises(LocalProtocolError, match=f"^the arguments of the prompt 'x' {requirement}"):
            await client.get_prompt("x", values)
        with pytest.raises(LocalProtocolError, match=f"^the known arguments {requirement}"):
            await client.complete(prompt, "a", "", known=values)


async def test_header_mismatch_without_http_raises_without_retry(
    autojump_clock: trio.testing.MockClock,
) -> None:
    transcript = Transcript()

    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={})
        await peer.refuse(await peer.receive("tools/call"), -32020, "Mcp-Param-A is missing")

    async with open_in_memory(scripted(script), transcript=transcript) as client:
        with pytest.raises(HeaderMismatch):
            await client.call_tool("x")
    assert "tools/list" not in transcript.text()
