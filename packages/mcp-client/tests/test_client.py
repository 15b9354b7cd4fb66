from __future__ import annotations

import logging
from typing import cast

import pytest
import trio
import trio.testing

from mcp_client import Change, ChangeKind, Client, Deadlines, Handlers, InvalidToolOutput
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


async def listed(client: Client, what: str) -> int:
    if what == "tools":
        return len(await client.list_tools())
    if what == "prompts":
        return len(await client.list_prompts())
    if what == "resources":
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
@pytest.mark.parametrize("what", LISTS)
@pytest.mark.parametrize("last", [{}, {"nextCursor": None}, {"nextCursor": ""}])
async def test_a_list_has_all_of_its_pages(what: str, last: JsonObject, autojump_clock: trio.testing.MockClock) -> None:
    method, item = LISTS[what]

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={}, prompts={}, resources={})
        assert "cursor" not in await params_of(await peer.receive(method))
        for cursor in ("a", "b"):
            await peer.answer(request[0], {what: [item, item], "nextCursor": cursor})
            assert (await params_of(await peer.receive(method)))["cursor"] == cursor
        await peer.answer(request[0], {what: [item], **last})

    request: list[JsonObject] = []

    async def params_of(message: JsonObject) -> JsonObject:
        request[:] = [message]
        params = message.get("params", {})
        assert isinstance(params, dict)
        return params

    async with open_in_memory(scripted(script)) as client:
        assert await listed(client, what) == 5


async def test_pages_that_do_not_end_are_an_error_of_the_server(autojump_clock: trio.testing.MockClock) -> None:
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


# --- everything else that is asked -----------------------------------------------------------------------------------


@pytest.mark.spec("completion.context-arguments", "completion.client-partial")
async def test_resources_prompts_and_completions(autojump_clock: trio.testing.MockClock) -> None:
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


async def test_a_legacy_server_is_told_the_log_level_for_the_session(autojump_clock: trio.testing.MockClock) -> None:
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


async def test_a_modern_server_is_told_the_log_level_with_each_request(autojump_clock: trio.testing.MockClock) -> None:
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


async def test_a_server_that_refuses_the_log_level_is_used_all_the_same(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(logging={})
        await peer.refuse(await peer.receive("logging/setLevel"), -32601)

    async with open_in_memory(scripted(script), log_level="info"):
        pass
    assert "setting the log level failed" in caplog.text


@pytest.mark.spec("logging.client-may-present")
async def test_log_messages_go_to_a_logger_when_nobody_takes_them(
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


# --- what servers ask ------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "elicitation.accept-content",
    "elicitation.url-accept-no-content",
    "elicitation.id-opaque",
    "elicitation.complete-optional",
)
@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("question", ANSWERS)
async def test_a_legacy_server_asks_by_request(
    revision: object, question: str, autojump_clock: trio.testing.MockClock
) -> None:
    params, answer = ANSWERS[question]
    method = question.removesuffix(" by url")
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
        if served.get(question, True):
            assert reply["result"] == answer
        else:
            assert "error" in reply

    async with open_in_memory(
        scripted(script), handlers=HANDLERS, revisions=[each for each in LEGACY if each is revision]
    ):
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.spec("roots.unsupported-error")
async def test_what_has_no_handler_is_not_declared_and_refused(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        request = await peer.initialize("2025-11-25")
        assert member(request, "params", "capabilities") == {}
        for question, (params, _) in ANSWERS.items():
            method = question.removesuffix(" by url")
            await peer.send({"jsonrpc": "2.0", "id": question, "method": method, "params": params})
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


async def test_a_handler_that_fails_tells_the_server_no_more_than_that(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def secretive(_: ElicitRequestFormParams) -> ElicitResult:
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

    handlers = Handlers(elicit=secretive, sample=refuses, roots=wrong)
    async with open_in_memory(scripted(script), handlers=handlers):
        await trio.testing.wait_all_tasks_blocked()
    assert "swordfish" in caplog.text


async def test_a_handler_that_gives_something_else_is_reported_and_refused(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def confused(_: ElicitRequestFormParams) -> ElicitResult:
        return "yes"  # type: ignore[return-value]  # what a careless application gives

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-11-25")
        await peer.send({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": FORM})
        assert member(await peer.receive(), "error", "code") == -32603

    async with open_in_memory(scripted(script), handlers=Handlers(elicit=confused)):
        await trio.testing.wait_all_tasks_blocked()
    assert "a handler must return ElicitResult, not str" in caplog.text


@pytest.mark.spec("cancellation.no-response")
async def test_a_handler_is_cancelled_by_the_server_and_nothing_is_sent(
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


async def test_what_a_handler_gives_after_it_was_cancelled_is_not_sent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    asked, done = trio.Event(), trio.Event()

    async def stubborn() -> list[Root]:
        with trio.CancelScope(shield=True):
            asked.set()
            await trio.sleep(5)
        return []

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize()
        await peer.send({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
        await asked.wait()
        await peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        await trio.sleep(10)
        await peer.send({"jsonrpc": "2.0", "id": 2, "method": "ping"})
        assert (await peer.receive())["id"] == 2
        done.set()

    async with open_in_memory(scripted(script), handlers=Handlers(roots=stubborn)):
        await done.wait()


async def test_too_many_questions_at_once_are_refused(autojump_clock: trio.testing.MockClock) -> None:
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

    async with open_in_memory(scripted(script), handlers=Handlers(roots=slow), limits=Limits(running_requests=2)):
        await release.wait()
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("shielded", [False, True])
async def test_a_handler_that_outlives_the_connection_harms_nobody(
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


async def test_a_cancelled_member_of_a_batch_is_left_out_of_the_reply(
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


# --- input rounds (2026-07-28) ---------------------------------------------------------------------------------------


def question(name: str) -> JsonObject:
    params, _ = ANSWERS[name]
    asked: JsonObject = {"method": name.removesuffix(" by url")}
    return asked if params is None else {**asked, "params": params}


@pytest.mark.spec(
    "elicitation.accept-form-content",
    "elicitation.accept-url-no-content",
    "elicitation.server-may-elicit",
    "roots.result-shape",
    "sampling.result-shape",
    "mrtr.state-opaque",
)
async def test_a_modern_server_asks_in_its_result_and_is_asked_again(autojump_clock: trio.testing.MockClock) -> None:
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
            asked: JsonObject = {name: question(name) for name in ANSWERS}
            await peer.answer(
                request, {"resultType": "input_required", "inputRequests": asked, "requestState": "sealed"}
            )
            again = await peer.receive(method)
            assert again["id"] != request["id"]
            assert member(again, "params", "requestState") == "sealed"
            assert member(again, "params", "inputResponses") == {name: answer for name, (_, answer) in ANSWERS.items()}
            await peer.answer(again, {"resultType": "input_required", "requestState": "more"})
            last = await peer.receive(method)
            assert member(last, "params", "requestState") == "more"
            assert "inputResponses" not in str(member(last, "params"))
            await peer.answer(last, result)

    async with open_in_memory(scripted(script), handlers=HANDLERS) as client:
        await client.call_tool("a", {"x": 1})
        await client.get_prompt("a")
        await client.read_resource("a:b")


@pytest.mark.parametrize("name", ANSWERS)
async def test_a_modern_server_may_not_ask_for_what_was_not_declared(
    name: str, autojump_clock: trio.testing.MockClock
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={})
        asked: JsonObject = {"resultType": "input_required", "inputRequests": {"q": question(name)}}
        await peer.answer(await peer.receive("tools/call"), asked)

    async with open_in_memory(scripted(script)) as client:
        with pytest.raises(RemoteProtocolError, match="did not declare") as caught:
            await client.call_tool("a")
        assert caught.value.context.method == "tools/call"


async def test_a_server_that_never_has_enough_input_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
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
async def test_a_handler_that_fails_in_a_round_fails_the_call(autojump_clock: trio.testing.MockClock) -> None:
    async def fails(_: ElicitRequestFormParams) -> ElicitResult:
        raise ZeroDivisionError

    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(tools={})
        asked: JsonObject = {"resultType": "input_required", "inputRequests": {"q": question("elicitation/create")}}
        await peer.answer(await peer.receive("tools/call"), asked)

    async with open_in_memory(scripted(script), handlers=Handlers(elicit=fails)) as client:
        with pytest.raises(ZeroDivisionError):
            await client.call_tool("a")


# --- output schemas --------------------------------------------------------------------------------------------------


def tool(schema: JsonObject) -> JsonObject:
    return {"name": "a", "inputSchema": {"type": "object"}, "outputSchema": schema}


NUMBER: JsonObject = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}


async def asked_and_listed(peer: ScriptedPeer) -> None:
    await peer.initialize("2025-06-18", tools={"listChanged": True})
    await peer.answer(await peer.receive("tools/list"), {"tools": [tool(NUMBER)]})
    wrong: JsonObject = {"content": [], "structuredContent": {"n": "one"}}
    await peer.answer(await peer.receive("tools/call"), wrong)
    await peer.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    await peer.answer(await peer.receive("tools/call"), wrong)


@pytest.mark.spec(
    "tools.output-schema-client-validates", "tools.client-validate-results", "tools.client-validates-results"
)
async def test_a_result_that_breaks_its_schema_is_raised_if_that_is_wanted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_in_memory(scripted(asked_and_listed), validate_output="raise") as client:
        await client.list_tools()
        with pytest.raises(InvalidToolOutput, match=r"\$\.n: .*tools/call") as caught:
            await client.call_tool("a")
        assert caught.value.result.structured_content == {"n": "one"}
        # The tools have changed, so nothing is known of the schema.
        await client.call_tool("a")


async def test_a_result_that_breaks_its_schema_is_warned_of_by_default(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_in_memory(scripted(asked_and_listed)) as client:
        await client.list_tools()
        assert (await client.call_tool("a")).structured_content == {"n": "one"}
        assert (await client.call_tool("a")).structured_content == {"n": "one"}
    assert "violates its output schema" in caplog.text


# --- changes ---------------------------------------------------------------------------------------------------------


def changed(what: str, *, subscription: JsonValue = None, **params: JsonValue) -> JsonObject:
    if subscription is not None:
        params["_meta"] = {"io.modelcontextprotocol/subscriptionId": subscription}
    return {"jsonrpc": "2.0", "method": f"notifications/{what}", "params": params}


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
async def test_changes_in_a_session_are_those_asked_for_and_each_is_told_once(
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

    seen: list[Change] = []
    async with open_in_memory(scripted(script)) as client:
        async with client.listen(tools=True, uris=["a:b", "a:b"]) as changes:
            assert changes.granted.tools_list_changed
            await sent.wait()
            async for change in changes:
                seen.append(change)
                if len(seen) == 3:
                    break
        with pytest.raises(StopAsyncIteration):
            await anext(changes)
    assert seen == [
        Change(ChangeKind.TOOLS),
        Change(ChangeKind.RESOURCE, "a:b"),
        Change(ChangeKind.RESOURCE, "a:b/below"),
    ]


@pytest.mark.parametrize("length", [1, 50])
async def test_changes_below_watched_resource_beyond_bound_become_change_of_watched_resource(
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
        open_in_memory(scripted(script), limits=Limits(watched_resources=2, uri_chars=40)) as client,
        client.listen(tools=True, uris=["a:b"]) as changes,
    ):
        await sent.wait()
        seen = [await anext(changes) for _ in range(2 if length > 40 else 4)]
    watched, tools = Change(ChangeKind.RESOURCE, "a:b"), Change(ChangeKind.TOOLS)
    own = [] if length > 40 else [Change(ChangeKind.RESOURCE, uri) for uri in uris[:2]]
    assert seen == [*own, watched, tools]


@pytest.mark.spec("header.xmcp-other-transport-ignored", "stdio.no-header-layer")
async def test_a_tool_whose_header_annotation_is_wrong_is_kept_where_there_are_no_headers(
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
async def test_a_session_grants_what_the_server_declared(autojump_clock: trio.testing.MockClock) -> None:
    async with open_in_memory(scripted(lambda peer: peer.initialize(tools={}, resources={}))) as client:  # noqa: SIM117  the outer one has to end last
        async with client.listen(tools=True, prompts=True, resources=True, uris=["a:b"]) as changes:
            granted = changes.granted
    assert not granted.tools_list_changed
    assert not granted.prompts_list_changed
    assert not granted.resources_list_changed
    assert granted.resource_subscriptions is None


async def test_a_resource_stays_subscribed_until_the_last_listener_has_gone(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-06-18", **CAPABLE)
        await peer.answer(await peer.receive("resources/subscribe"), {})
        await peer.answer(await peer.receive("resources/subscribe"), {})
        await peer.refuse(await peer.receive("resources/subscribe"), -32002, "not found")
        await peer.answer(await peer.receive("tools/list"), {"tools": []})
        # Refusing that is no reason to fail.
        await peer.refuse(await peer.receive("resources/unsubscribe"), -32603)

    async with open_in_memory(scripted(script)) as client, client.listen(uris=["a:b"]) as first:
        async with client.listen(uris=["a:b"]):
            pass
        with pytest.raises(RequestFailed, match="not found"):
            async with client.listen(uris=["a:c"]):
                raise AssertionError("it was not granted")
        await client.list_tools()
        assert first.error is None


async def test_unsubscribing_is_a_courtesy_that_takes_no_longer_than_a_second(
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
async def test_listeners_are_told_that_the_connection_is_lost(era: str, autojump_clock: trio.testing.MockClock) -> None:
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
            # What came before is not lost.
            assert await anext(changes) == Change(ChangeKind.TOOLS)
            for _ in range(2):
                with pytest.raises(ConnectionEnded):
                    await anext(changes)
        with pytest.raises(ConnectionEnded):
            async with client.listen(tools=True):
                raise AssertionError("there is nobody to listen to")


@pytest.mark.spec("stdio.correlate-subscription-id")
async def test_a_modern_listener_hears_its_own_stream_until_the_server_ends_it(
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
    async with open_in_memory(scripted(script), transcript=transcript) as client:  # noqa: SIM117  the outer one has to end last
        async with (
            client.listen(tools=True, prompts=True, uris=["a:b"]) as first,
            client.listen(resources=True) as second,
        ):
            assert not first.granted.prompts_list_changed
            assert [change async for change in first] == [Change(ChangeKind.RESOURCE, "a:b")]
            assert await anext(second) == Change(ChangeKind.RESOURCES)
    assert sum(b"notifications/cancelled" in line for _, line in transcript.lines) == 1


async def test_a_modern_server_ends_a_subscription_by_cancelling_it(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(**CAPABLE)
        id = (await peer.receive("subscriptions/listen"))["id"]
        await peer.send(
            changed("subscriptions/acknowledged", subscription=id, notifications={"toolsListChanged": True}),
            changed("cancelled", requestId=id),
        )

    async with open_in_memory(scripted(script)) as client, client.listen(tools=True) as changes:
        assert [change async for change in changes] == []


async def test_a_subscription_that_is_refused_or_not_acknowledged_is_an_error(
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
                raise AssertionError("it was refused")
        with pytest.raises(RequestTimeout, match="idle deadline of 7 s") as caught:
            async with client.listen(tools=True):
                raise AssertionError("it was not acknowledged")
        assert caught.value.context.request_id == 3
        assert trio.current_time() == 7


async def test_two_tasks_may_wait_for_the_same_changes(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize("2025-06-18", **CAPABLE)
        await peer.receive("ping")
        await peer.send(changed(TOOLS), changed(PROMPTS))

    seen: set[ChangeKind] = set()
    async with open_in_memory(scripted(script), revisions=[R2025_06_18]) as client:  # noqa: SIM117  the outer one has to end last
        async with client.listen(tools=True, prompts=True) as changes, trio.open_nursery() as nursery:

            async def take() -> None:
                seen.add((await anext(changes)).kind)

            nursery.start_soon(take)
            nursery.start_soon(take)
            await trio.testing.wait_all_tasks_blocked()
            with trio.move_on_after(1):
                await client.ping()
    assert seen == {ChangeKind.TOOLS, ChangeKind.PROMPTS}


async def test_roots_that_change_are_told_to_legacy_servers_only(autojump_clock: trio.testing.MockClock) -> None:
    transcript = Transcript()
    async with open_in_memory(
        scripted(lambda peer: peer.discover()), handlers=HANDLERS, revisions=[R2026_07_28], transcript=transcript
    ) as client:
        await client.roots_changed()
    assert len([line for direction, line in transcript.lines if direction == ">"]) == 1


@pytest.mark.spec("tools.call-arguments-object")
@pytest.mark.parametrize("wrong", [[1], [("a", 1)], "ab", 5], ids=repr)
async def test_arguments_that_are_no_mapping_are_refused_by_what_they_are(
    wrong: object, autojump_clock: trio.testing.MockClock
) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={}, prompts={}, completions={})

    values = cast("dict[str, str]", wrong)  # what is tested
    prompt = PromptReference(name="a")
    async with open_in_memory(scripted(script)) as client:
        wanted = f"must be a mapping of names to values, not {type(wrong).__name__}$"
        with pytest.raises(LocalProtocolError, match=f"^the arguments of the tool 'x' {wanted}"):
            await client.call_tool("x", cast("JsonObject", wrong))  # likewise
        with pytest.raises(LocalProtocolError, match=f"^the arguments of the prompt 'x' {wanted}"):
            await client.get_prompt("x", values)
        with pytest.raises(LocalProtocolError, match=f"^the known arguments {wanted}"):
            await client.complete(prompt, "a", "", known=values)


async def test_a_header_mismatch_where_there_are_no_headers_is_told_and_nothing_is_asked_again(
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
