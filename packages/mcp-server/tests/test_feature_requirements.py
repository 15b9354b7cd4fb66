"""Requirements on several features: lists, contents, errors, client requests, caching, logging and cancellation."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
import trio
from asgi_host import session
from raw_client import ALL_CAPABILITIES, Answer, RawClient, as_list, as_object, connected, text_of
from task_server import ToolControl, make_server

from mcp_core import types as t
from mcp_core.errors import ErrorCode, UrlElicitationRequired
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.methods import NOTIFICATIONS_ELICITATION_COMPLETE
from mcp_core.revisions import MODERN, R2025_06_18, R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_server import Audio, CacheHint, Context, File, Image, RegistrationError, Server

ALL_REVISIONS = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)
LIST_METHODS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


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


async def list_all(client: RawClient) -> list[JsonObject]:
    return [await client.call(method) for method in LIST_METHODS]


# --- lists -----------------------------------------------------------------------------------------------------------


@ALL_REVISIONS
@pytest.mark.spec(
    "tools.list-not-per-connection", "prompts.list-not-per-connection", "resources.list-not-per-connection"
)
async def test_lists_do_not_depend_on_connection_or_earlier_requests(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        before = await list_all(client)
        await client.tool("remember", text="that")
        await client.call("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}})
        await client.call("resources/read", {"uri": "memo:two"})
        assert await list_all(client) == before
        async with connected(server, revision, capabilities={}) as other_client:
            assert await list_all(other_client) == before


@ALL_REVISIONS
@pytest.mark.spec("tools.list-may-be-empty", "prompts.list-may-be-empty", "resources.list-may-be-empty")
async def test_lists_are_empty_after_removal(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        server.remove_tool("remember")
        server.remove_tool("who")
        server.remove_prompt("greet")
        server.remove_resource("memo:one")
        server.remove_resource("memo:{name}")
        for result in await list_all(client):
            assert [] in result.values()


@pytest.mark.spec(
    "meta.client-info-not-behavioral",
    "meta.client-info-not-security",
    "elicitation.no-client-claimed-identity",
    "elicitation.user-id-verified",
)
@pytest.mark.parametrize("revision", MODERN, ids=str)
async def test_client_info_does_not_change_responses(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:

        async def conversation(info: JsonObject) -> list[JsonObject]:
            meta: JsonObject = {"_meta": {"io.modelcontextprotocol/clientInfo": info}}
            requests: list[tuple[str, JsonObject]] = [(method, {}) for method in LIST_METHODS]
            requests += [("server/discover", {}), ("tools/call", {"name": "who"}), ("tools/call", {"name": "nobody"})]
            answers = [await client.ask(method, {**params, **meta}) for method, params in requests]
            return [{**answer, "id": None} for answer in answers]

        default = await conversation({"name": "raw", "version": "0"})
        assert await conversation({"name": "administrator", "version": "99", "title": "Root"}) == default


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
async def test_prompt_and_tool_return_each_content_type(
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
def test_resource_uri_invalid_scheme_raises(uri: str) -> None:
    async def read() -> str:
        return ""

    with pytest.raises(RegistrationError, match="has no scheme"):
        Server("s", version="0").add_resource(read, uri)


@pytest.mark.spec("resources.custom-scheme-rfc3986")
def test_resource_uri_custom_scheme_accepted() -> None:
    async def read() -> str:
        return ""

    for uri in ("x:y", "x-y+z.1://a"):
        Server("s", version="0").add_resource(read, uri)


# --- errors ----------------------------------------------------------------------------------------------------------


@ALL_REVISIONS
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
async def test_completion_invalid_params_rejected(params: JsonObject, server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        assert (await client.fail("completion/complete", params))["code"] == ErrorCode.INVALID_PARAMS
        ref: JsonObject = {"type": "ref/prompt", "name": "greet"}
        valid: JsonObject = {"ref": ref, "argument": {"name": "name", "value": "A"}}
        assert as_object((await client.call("completion/complete", valid))["completion"])["values"] == ["Ada"]


@ALL_REVISIONS
@pytest.mark.spec(
    "elicitation.required-error",
    "elicitation.required-error-code",
    "elicitation.required-error-list",
    "elicitation.required-error-url-mode",
    "elicitation.required-error-only-then",
    "schema.url-elicitation-required-error",
)
async def test_url_elicitation_required_error_per_revision(revision: Revision) -> None:
    server = Server("s", version="0")
    data: JsonObject = {
        "elicitations": [{"mode": "url", "message": "Sign in.", "url": "https://example.com/", "elicitationId": "1"}]
    }

    @server.tool
    async def locked() -> str:
        raise UrlElicitationRequired("sign in first", data=data)

    @server.tool
    async def broken() -> str:
        raise ValueError

    async with connected(server, revision) as client:
        error = await client.fail("tools/call", {"name": "locked"})
        assert (error["code"] == -32042) == (revision is R2025_11_25)
        assert error["data"] == data
        await client.crash("broken")
        assert (await client.fail("tools/call", {"name": "gone"}))["code"] != -32042


# --- client requests -------------------------------------------------------------------------------------------------

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
async def test_elicit_url_unsafe_url_raises(url: str, problem: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", version="0")

    @server.tool
    async def visit(context: Context) -> str:
        await context.elicit_url(url, "Go there.")
        return ""

    async with connected(server, R2025_11_25) as client:
        await client.crash("visit")
        assert client.client_requests == []
    assert problem in caplog.text


@pytest.mark.parametrize(
    "url", ["https://example.com/pay?id=7", "http://localhost:8080/", "http://[::1]/", "http://127.0.0.1/"]
)
@pytest.mark.spec("elicitation.url-valid", "elicitation.url-https")
async def test_elicit_url_https_or_loopback_sent(url: str) -> None:
    server = Server("s", version="0")

    @server.tool
    async def visit(context: Context) -> str:
        await context.elicit_url(url, "Go there.")
        return "gone"

    async with connected(server, R2026_07_28, answers={"elicitation/create": lambda _: {"action": "accept"}}) as client:
        assert await client.text("visit") == "gone"
        assert as_object(client.client_requests[0]["params"])["url"] == url


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
async def test_sample_tool_results_must_match_tool_calls(
    messages: list[tuple[t.Role, t.SamplingMessageContentBlock | tuple[t.SamplingMessageContentBlock, ...]]],
    problem: str | None,
    revision: Revision,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server("s", version="0")

    @server.tool
    async def think(context: Context) -> str:
        sampling_messages = [t.SamplingMessage(role=role, content=content) for role, content in messages]
        return (await context.sample(sampling_messages, max_tokens=5, tools=[])).model

    model_reply: JsonObject = {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "abacus"}
    async with connected(server, revision, answers={"sampling/createMessage": lambda _: model_reply}) as client:
        if problem is None:
            assert await client.text("think") == "abacus"
        else:
            await client.crash("think")
            assert client.client_requests == []
            assert problem in caplog.text


@ALL_REVISIONS
@pytest.mark.spec(
    "sampling.avoid-include-context", "sampling.include-context-needs-capability", "sampling.include-context-deprecated"
)
async def test_sample_include_context_only_with_capability(revision: Revision) -> None:
    server = Server("s", version="0")

    @server.tool
    async def think(context: Context) -> str:
        await context.sample("x", max_tokens=5)
        return (await context.sample("x", max_tokens=5, include_context="thisServer")).model

    model_reply: JsonObject = {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "abacus"}
    sampling_capabilities: list[JsonObject] = [{}, {"context": {}}]
    for sampling in sampling_capabilities:
        capabilities: JsonObject = {**ALL_CAPABILITIES, "sampling": sampling}
        async with connected(
            server, revision, capabilities=capabilities, answers={"sampling/createMessage": lambda _: model_reply}
        ) as client:
            assert await client.text("think") == "abacus"
            first, *_, last = [as_object(each["params"]) for each in client.client_requests]
        declarable = revision in (R2025_11_25, R2026_07_28)
        assert "includeContext" not in first
        assert ("includeContext" in last) == (not declarable or bool(sampling))


@pytest.mark.spec("elicitation.complete-has-id", "elicitation.complete-only-initiator")
async def test_elicitation_complete_sent_only_to_initiating_client() -> None:
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
        connected(server, R2025_11_25, answers=answers) as other_client,
    ):
        await client.tool("visit")
        requests = as_object(client.client_requests[0]["params"])
        assert client.notifications_of("notifications/elicitation/complete") == [
            {"elicitationId": requests["elicitationId"]}
        ]
        await other_client.call("ping")
        assert other_client.notifications == []


# --- caching, logging, cancellation ----------------------------------------------------------------------------------


@pytest.mark.spec("caching.hints-not-on-input-required", "caching.scope-same-for-pages")
async def test_cache_hints_same_on_pages_and_absent_on_input_required() -> None:
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
        requests = as_object(
            (await client.response(await client.start("resources/read", {"uri": "memo:roots"})))["result"]
        )
        assert requests["resultType"] == "input_required"
        assert not requests.keys() & {"ttlMs", "cacheScope"}
        assert "ttlMs" in await client.call("resources/read", {"uri": "memo:roots"})


@ALL_REVISIONS
@pytest.mark.spec("logging.before-response", "progress.in-progress-only", "progress.stops-after-completion")
async def test_progress_and_log_messages_precede_result(revision: Revision) -> None:
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
        end = next(index for index, line in enumerate(lines) if line.get("id") == id)
        notified = [index for index, line in enumerate(lines) if "method" in line]
        assert len(notified) >= 20
        assert max(notified) < end


@ALL_REVISIONS
@pytest.mark.spec("cancellation.log-reasons", "cancellation.log-reason")
async def test_cancellation_reason_is_logged(revision: Revision, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_server")
    server = Server("s", version="0")
    started, finished = trio.Event(), trio.Event()

    @server.tool
    async def wait() -> str:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            finished.set()
        raise AssertionError

    async with connected(server, revision) as client:
        id = await client.start("tools/call", {"name": "wait"})
        await started.wait()
        await client.notify("notifications/cancelled", {"requestId": id, "reason": "the user went home"})
        await finished.wait()
    assert "reason=the user went home" in caplog.text


@pytest.mark.spec("tasks.no-sse-for-get")
async def test_tasks_get_over_http_returns_json() -> None:
    server = make_server(ToolControl())
    async with server.running(), session(server.asgi(), R2025_11_25) as client:
        started = as_object((await client.ask("tools/call", {"name": "work", "task": {}}))["result"])
        params: JsonObject = {"taskId": as_object(started["task"])["taskId"]}
        reply = client.post(client.request("tasks/get", params))
        assert as_object((await reply.json())["result"])["status"] == "working"
        assert reply.media == "application/json"
