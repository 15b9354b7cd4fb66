"""What holds whoever asks, on which connection, and in which order: lists, contents, errors, questions."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import trio
from asgi_host import session
from raw_client import ALL_CAPABILITIES, Answer, RawClient, as_list, as_object, connected, text_of
from task_server import Gates, make_server

from mcp_core import types as t
from mcp_core.errors import ErrorCode, UrlElicitationRequired
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.methods import NOTIFICATIONS_ELICITATION_COMPLETE
from mcp_core.revisions import MODERN, R2025_06_18, R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_server import Audio, CacheHint, Context, File, Image, RegistrationError, Server

ALL = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


@pytest.fixture
def server() -> Server:
    server = Server("s", version="0")

    @server.tool
    async def remember(text: str) -> str:
        return text

    @server.tool
    async def who(context: Context) -> str:
        return "somebody"

    @server.prompt
    async def greet(name: str) -> str:
        return f"Hello {name}"

    @server.completion(prompt="greet", argument="name")
    async def names(value: str) -> list[str]:
        return ["Ada"]

    @server.resource("memo:one")
    async def one() -> str:
        return "1"

    @server.resource("memo:{name}")
    async def other(name: str) -> str:
        return name

    return server


async def lists(client: RawClient) -> list[JsonObject]:
    return [await client.call(method) for method in LISTS]


# --- lists -----------------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.spec(
    "tools.list-not-per-connection", "prompts.list-not-per-connection", "resources.list-not-per-connection"
)
async def test_lists_are_the_same_on_every_connection_and_whatever_was_asked_before(
    server: Server, revision: Revision
) -> None:
    async with connected(server, revision) as client:
        before = await lists(client)
        await client.tool("remember", text="that")
        await client.call("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}})
        await client.call("resources/read", {"uri": "memo:two"})
        assert await lists(client) == before
        async with connected(server, revision, capabilities={}) as another:
            assert await lists(another) == before


@ALL
@pytest.mark.spec("tools.list-may-be-empty", "prompts.list-may-be-empty", "resources.list-may-be-empty")
async def test_what_was_offered_may_all_be_taken_away(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        server.remove_tool("remember")
        server.remove_tool("who")
        server.remove_prompt("greet")
        server.remove_resource("memo:one")
        server.remove_resource("memo:{name}")
        for found in await lists(client):
            assert [] in found.values()


@pytest.mark.spec(
    "meta.client-info-not-behavioral",
    "meta.client-info-not-security",
    "elicitation.no-client-claimed-identity",
    "elicitation.user-id-verified",
)
@pytest.mark.parametrize("revision", MODERN, ids=str)
async def test_who_a_client_says_it_is_changes_nothing(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:

        async def conversation(info: JsonObject) -> list[JsonObject]:
            meta: JsonObject = {"_meta": {"io.modelcontextprotocol/clientInfo": info}}
            asked: list[tuple[str, JsonObject]] = [(method, {}) for method in LISTS]
            asked += [("server/discover", {}), ("tools/call", {"name": "who"}), ("tools/call", {"name": "nobody"})]
            answers = [await client.ask(method, {**params, **meta}) for method, params in asked]
            return [{**answer, "id": None} for answer in answers]

        plain = await conversation({"name": "raw", "version": "0"})
        assert await conversation({"name": "administrator", "version": "99", "title": "Root"}) == plain


# --- contents --------------------------------------------------------------------------------------------------------

LINK = t.ResourceLink(uri="memo:nowhere", name="nowhere")
CONTENT: list[tuple[Callable[[], object], JsonObject]] = [
    (lambda: Image(b"PNG"), {"type": "image", "data": "UE5H", "mimeType": "image/png"}),
    (lambda: Audio(b"RIFF"), {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}),
    (
        lambda: File("a,b", name="t.csv", uri="memo:t"),
        {"type": "resource", "resource": {"uri": "memo:t", "mimeType": "text/csv", "text": "a,b"}},
    ),
    (
        lambda: File(b"\x00", name="t.bin", uri="memo:b"),
        {"type": "resource", "resource": {"uri": "memo:b", "mimeType": "application/octet-stream", "blob": "AA=="}},
    ),
    (lambda: LINK, {"type": "resource_link", "uri": "memo:nowhere", "name": "nowhere"}),
]


@pytest.mark.parametrize(("function", "block"), CONTENT)
@pytest.mark.parametrize("revision", [R2025_06_18, R2025_11_25, R2026_07_28], ids=str)
@pytest.mark.spec("prompts.image-content", "prompts.audio-content", "prompts.embedded-resource")
@pytest.mark.spec(
    "prompts.resource-links", "tools.resource-links", "tools.embedded-resource", "tools.embedded-resources"
)
async def test_prompts_and_tools_have_every_kind_of_content(
    function: Callable[[], object], block: JsonObject, revision: Revision
) -> None:
    server = Server("s", version="0")
    server.add_prompt(function, name="it")
    server.add_tool(function, name="it")
    async with connected(server, revision) as client:
        (message,) = as_list((await client.call("prompts/get", {"name": "it"}))["messages"])
        assert as_object(message)["content"] == block
        assert (await client.tool("it"))["content"] == [block]
        assert LINK.uri not in str(await client.ask("resources/list"))


@pytest.mark.parametrize("uri", ["1x:y", "a_b:c", "a b:c", ":c", "é:c", "notes//today"])
@pytest.mark.spec("resources.custom-scheme-rfc3986")
def test_the_scheme_of_a_uri_is_one(uri: str) -> None:
    async def read() -> str:
        return ""

    with pytest.raises(RegistrationError, match="has no scheme"):
        Server("s", version="0").add_resource(read, uri)


@pytest.mark.spec("resources.custom-scheme-rfc3986")
def test_a_scheme_may_be_ones_own() -> None:
    async def read() -> str:
        return ""

    for uri in ("x:y", "x-y+z.1://a"):
        Server("s", version="0").add_resource(read, uri)


# --- errors ----------------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"ref": {"type": "ref/prompt", "name": "greet"}},
        {"argument": {"name": "name", "value": ""}},
        {"ref": {"type": "ref/prompt"}, "argument": {"name": "name", "value": ""}},
        {"ref": {"type": "ref/tool", "name": "who"}, "argument": {"name": "name", "value": ""}},
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name"}},
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": 5}},
        {"ref": "greet", "argument": "name"},
    ],
    ids=str,
)
@pytest.mark.spec("completion.validate", "completion.security-validate")
@pytest.mark.spec("completion.missing-argument-error", "completion.missing-argument-32602")
async def test_a_completion_of_nothing_in_particular_is_refused(
    params: JsonObject, server: Server, revision: Revision
) -> None:
    async with connected(server, revision) as client:
        assert (await client.fail("completion/complete", params))["code"] == ErrorCode.INVALID_PARAMS
        ref: JsonObject = {"type": "ref/prompt", "name": "greet"}
        fine: JsonObject = {"ref": ref, "argument": {"name": "name", "value": "A"}}
        assert as_object((await client.call("completion/complete", fine))["completion"])["values"] == ["Ada"]


@ALL
@pytest.mark.spec(
    "elicitation.required-error",
    "elicitation.required-error-code",
    "elicitation.required-error-list",
    "elicitation.required-error-url-mode",
    "elicitation.required-error-only-then",
    "schema.url-elicitation-required-error",
)
async def test_a_tool_may_say_which_pages_have_to_be_visited_first(revision: Revision) -> None:
    server = Server("s", version="0")
    pages: JsonObject = {
        "elicitations": [{"mode": "url", "message": "Sign in.", "url": "https://example.com/", "elicitationId": "1"}]
    }

    @server.tool
    async def locked() -> str:
        raise UrlElicitationRequired("sign in first", data=pages)

    @server.tool
    async def broken() -> str:
        raise ValueError

    async with connected(server, revision) as client:
        error = await client.fail("tools/call", {"name": "locked"})
        assert (error["code"] == -32042) == (revision is R2025_11_25)
        assert error["data"] == pages
        await client.crash("broken")
        assert (await client.fail("tools/call", {"name": "gone"}))["code"] != -32042


# --- questions -------------------------------------------------------------------------------------------------------

ROOTS: dict[str, Answer] = {"roots/list": lambda _: {"roots": []}}


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("nonsense", "is not the URL of a page"),
        ("//example.com/", "is not the URL of a page"),
        ("https:///x", "is not the URL of a page"),
        ("https://exa mple.com/", "is not the URL of a page"),
        ("https://example.com/\n", "is not the URL of a page"),
        ("https://[::1", "is not the URL of a page: Invalid IPv6 URL"),
        ("javascript:alert(1)", "is not the URL of a page"),
        ("file:///etc/passwd", "is not the URL of a page"),
        ("http://example.com/", "must begin with https://"),
        ("https://ada:secret@example.com/", "must not have a user or a password"),
    ],
)
@pytest.mark.spec("elicitation.url-valid", "elicitation.url-https")
async def test_a_user_is_not_sent_to_what_is_no_proper_page(
    url: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s", version="0")

    @server.tool
    async def visit(context: Context) -> str:
        await context.elicit_url(url, "Go there.")
        return ""

    async with connected(server, R2025_11_25) as client:
        await client.crash("visit")
        assert client.asked == []
    assert problem in caplog.text


@pytest.mark.parametrize(
    "url", ["https://example.com/pay?id=7", "http://localhost:8080/", "http://[::1]/", "http://127.0.0.1/"]
)
@pytest.mark.spec("elicitation.url-valid", "elicitation.url-https")
async def test_a_user_is_sent_to_secured_pages_and_to_those_of_this_machine(url: str) -> None:
    server = Server("s", version="0")

    @server.tool
    async def visit(context: Context) -> str:
        await context.elicit_url(url, "Go there.")
        return "gone"

    async with connected(server, R2026_07_28, answers={"elicitation/create": lambda _: {"action": "accept"}}) as client:
        assert await client.text("visit") == "gone"
        assert as_object(client.asked[0]["params"])["url"] == url


USE = t.ToolUseContent(id="a", name="add", input={})
ANSWER = t.ToolResultContent(tool_use_id="a", content=())
TEXT = t.TextContent(text="x")


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([("assistant", USE)], "no message with the result of the tool call 'a'"),
        ([("assistant", USE), ("user", (ANSWER, TEXT))], "tool results beside other content"),
        ([("user", ANSWER)], "which is not a tool call of the previous message"),
        ([("assistant", USE), ("user", ANSWER)], None),
    ],
)
@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
@pytest.mark.spec("sampling.tool-use-balance", "sampling.tool-results-only", "sampling.tool-result-only")
@pytest.mark.spec("sampling.tool-result-id-match", "sampling.tool-content-roles", "sampling.validate-content")
async def test_a_model_is_asked_with_the_results_of_the_tools_that_it_called(
    messages: list[tuple[t.Role, t.SamplingMessageContentBlock | tuple[t.SamplingMessageContentBlock, ...]]],
    problem: str | None,
    revision: Revision,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("s", version="0")

    @server.tool
    async def think(context: Context) -> str:
        said = [t.SamplingMessage(role=role, content=content) for role, content in messages]
        return (await context.sample(said, max_tokens=5, tools=[])).model

    says: JsonObject = {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "abacus"}
    async with connected(server, revision, answers={"sampling/createMessage": lambda _: says}) as client:
        if problem is None:
            assert await client.text("think") == "abacus"
        else:
            await client.crash("think")
            assert client.asked == []
            assert problem in caplog.text


@ALL
@pytest.mark.spec(
    "sampling.avoid-include-context", "sampling.include-context-needs-capability", "sampling.include-context-deprecated"
)
async def test_a_model_is_shown_what_servers_told_only_where_the_client_can_do_that(revision: Revision) -> None:
    server = Server("s", version="0")

    @server.tool
    async def think(context: Context) -> str:
        await context.sample("x", max_tokens=5)
        return (await context.sample("x", max_tokens=5, include_context="thisServer")).model

    says: JsonObject = {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "abacus"}
    abilities: list[JsonObject] = [{}, {"context": {}}]
    for sampling in abilities:
        able: JsonObject = {**ALL_CAPABILITIES, "sampling": sampling}
        async with connected(
            server, revision, capabilities=able, answers={"sampling/createMessage": lambda _: says}
        ) as client:
            assert await client.text("think") == "abacus"
            first, *_, last = [as_object(each["params"]) for each in client.asked]
        declared_there = revision in (R2025_11_25, R2026_07_28)
        assert "includeContext" not in first
        assert ("includeContext" in last) == (not declared_there or bool(sampling))


@pytest.mark.spec("elicitation.complete-has-id", "elicitation.complete-only-initiator")
async def test_word_of_a_page_goes_to_the_client_that_was_sent_there() -> None:
    server = Server("s", version="0")

    @server.tool
    async def visit(context: Context) -> str:
        await context.elicit_url("https://example.com/", "Go.", elicitation_id="e1")
        params = t.ElicitationCompleteNotificationParams(elicitation_id="e1")
        await context.notify(NOTIFICATIONS_ELICITATION_COMPLETE, params)
        return ""

    answers: dict[str, Answer] = {"elicitation/create": lambda _: {"action": "accept"}}
    async with (
        connected(server, R2025_11_25, answers=answers) as client,
        connected(server, R2025_11_25, answers=answers) as another,
    ):
        await client.tool("visit")
        asked = as_object(client.asked[0]["params"])
        assert client.of("notifications/elicitation/complete") == [{"elicitationId": asked["elicitationId"]}]
        await another.call("ping")
        assert another.notifications == []


# --- hints, logs, cancellations --------------------------------------------------------------------------------------


@pytest.mark.spec("caching.hints-not-on-input-required", "caching.scope-same-for-pages")
async def test_all_pages_have_one_scope_and_a_question_has_none() -> None:
    server = Server("s", version="0", cache=CacheHint(60, "public"), limits=Limits(page_items=2))
    for number in range(5):
        server.add_prompt(lambda: "", name=f"p{number}")

    @server.resource("memo:roots", cache=CacheHint(60, "public"))
    async def roots(context: Context) -> str:
        return str(len(await context.list_roots()))

    async with connected(server, R2026_07_28, answers=ROOTS) as client:
        scopes: list[JsonValue] = []
        params: JsonObject = {}
        while True:
            page = await client.call("prompts/list", params)
            scopes.append(page["cacheScope"])
            if "nextCursor" not in page:
                break
            params = {"cursor": page["nextCursor"]}
        assert scopes == ["public"] * 3
        asked = as_object(
            (await client.response(await client.start("resources/read", {"uri": "memo:roots"})))["result"]
        )
        assert asked["resultType"] == "input_required"
        assert not asked.keys() & {"ttlMs", "cacheScope"}
        assert "ttlMs" in await client.call("resources/read", {"uri": "memo:roots"})


@ALL
@pytest.mark.spec("logging.before-response", "progress.in-progress-only", "progress.stops-after-completion")
async def test_what_a_handler_tells_comes_before_its_result(revision: Revision) -> None:
    server = Server("s", version="0")

    @server.tool
    async def talk(context: Context) -> str:
        for number in range(1, 20):
            await context.progress(number)
            await context.info(number)
        return "done"

    async with connected(server, revision) as client:
        client.log_level = "info"
        id = await client.start("tools/call", {"name": "talk", "_meta": {"progressToken": "t"}})
        assert text_of(as_object((await client.response(id))["result"])) == "done"
        await client.call("tools/list")
        lines = [as_object(line) for line in client.lines]
        end = next(place for place, line in enumerate(lines) if line.get("id") == id)
        told = [place for place, line in enumerate(lines) if "method" in line]
        assert len(told) >= 20
        assert max(told) < end


@ALL
@pytest.mark.spec("cancellation.log-reasons", "cancellation.log-reason")
async def test_why_a_request_was_cancelled_is_in_the_log(revision: Revision, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_server")
    server = Server("s", version="0")
    begun, ended = trio.Event(), trio.Event()

    @server.tool
    async def wait() -> str:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    async with connected(server, revision) as client:
        id = await client.start("tools/call", {"name": "wait"})
        await begun.wait()
        await client.notify("notifications/cancelled", {"requestId": id, "reason": "the user went home"})
        await ended.wait()
    assert "reason=the user went home" in caplog.text


@pytest.mark.spec("tasks.no-sse-for-get")
async def test_a_task_is_looked_at_without_a_stream() -> None:
    server = make_server(Gates())
    async with server.running(), session(server.asgi(), R2025_11_25) as client:
        begun = as_object((await client.ask("tools/call", {"name": "work", "task": {}}))["result"])
        params: JsonObject = {"taskId": as_object(begun["task"])["taskId"]}
        reply = client.post(client.request("tasks/get", params))
        assert as_object((await reply.json())["result"])["status"] == "working"
        assert reply.media == "application/json"
