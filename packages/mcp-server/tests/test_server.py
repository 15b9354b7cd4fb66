"""Tools, resources, prompts, completion and methods of a server, in each revision."""

from __future__ import annotations

import functools
import logging
import threading
from typing import Annotated

import attrs
import pytest
import trio
from raw_client import as_list, as_object, connected, text_of

from mcp_core import types as t
from mcp_core.errors import ErrorCode, RequestFailed, ResourceNotFound
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.methods import PING, TOOLS_LIST, RequestMethod, Side
from mcp_core.revisions import (
    LEGACY,
    MODERN,
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2026_07_28,
    REVISIONS,
    Revision,
)
from mcp_server import Audio, Context, File, Image, RegistrationError, Server, SyncContext, ToolError

ALL_REVISIONS = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)


@attrs.frozen
class Forecast:
    """A forecast."""

    city: str
    degrees: list[float]


@pytest.fixture
def server() -> Server:
    server = Server("weather", version="1.2", title="Weather", instructions="Ask for a city.")

    @server.tool
    async def forecast(city: Annotated[str, "the city"], days: int = 3) -> Forecast:
        """Return the weather forecast."""
        if city == "Atlantis":
            raise ToolError("there is no weather below the sea")
        return Forecast(city, [20.5] * days)

    @server.tool(name="echo", title="Echo", annotations=t.ToolAnnotations(read_only_hint=True), meta={"x/y": 1})
    def repeat(text: str) -> str:
        return text

    @server.tool
    async def crash() -> str:
        raise ValueError("the password is swordfish")

    @server.tool
    async def mixed() -> list[t.ContentBlock]:
        link = t.ResourceLink(uri="city://Ghent/climate", name="climate", mime_type="text/plain")
        return [t.TextContent(text="here"), Audio(b"RIFF").to_content(), link, Image(b"PNG").to_content()]

    @server.resource("city://{name}/climate", title="Climate", mime_type="text/plain")
    async def climate(name: str) -> str:
        """The climate of a city."""
        if name == "Atlantis":
            raise ResourceNotFound.of("city://Atlantis/climate")
        return f"mild in {name}"

    @server.resource("logo://main", mime_type="image/png", size=3)
    def logo() -> bytes:
        return b"PNG"

    @server.prompt(title="Report")
    async def report(city: str, days: int = 1) -> list[t.PromptMessage | str]:
        """Return the messages for a report."""
        text = t.PromptMessage(role="assistant", content=t.TextContent(text="Gladly."))
        return [f"Report on {city} for {days} days.", text]

    @server.completion(prompt="report", argument="city")
    async def cities(value: str, arguments: dict[str, str]) -> list[str]:
        return [f"{value}{number}{arguments.get('days', '')}" for number in range(150)]

    @server.completion(resource="city://{name}/climate", argument="name")
    def names(value: str) -> list[str]:
        return [name for name in ("Ghent", "Genoa", "Bergen") if name.startswith(value)]

    return server


# --- capabilities ----------------------------------------------------------------------------------------------------


@ALL_REVISIONS
@pytest.mark.spec(
    "tools.declare-capability",
    "resources.declare-capability",
    "prompts.declare-capability",
    "capability.server-declares-implemented",
    "capability.advertise-implemented",
    "completion.declare-capability",
    "completion.capability",
    "prompts.capability",
    "resources.capability",
    "tools.capability",
)
async def test_capabilities_follow_from_registrations(server: Server, revision: Revision) -> None:
    async with connected(server, revision, opened=False) as client:
        result = await client.open()
    capabilities = as_object(result["capabilities"])
    assert capabilities["tools"] == {"listChanged": True}
    assert capabilities["resources"] == {"subscribe": True, "listChanged": True}
    assert capabilities["prompts"] == {"listChanged": True}
    assert capabilities["logging"] == {}
    assert ("completions" in capabilities) == (revision is not R2024_11_05)
    assert result["instructions"] == "Ask for a city."


@ALL_REVISIONS
@pytest.mark.spec(
    "tools.unadvertised-32601",
    "prompts.unadvertised-32601",
    "resources.unadvertised-32601",
    "jsonrpc.optional-components",
    "jsonrpc.components-optional",
)
async def test_method_without_registrations_returns_method_not_found(revision: Revision) -> None:
    async with connected(Server("empty", version="0"), revision) as client:
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            assert (await client.fail(method))["code"] == ErrorCode.METHOD_NOT_FOUND


def test_server_without_revision_raises() -> None:
    with pytest.raises(ValueError, match="at least one revision"):
        Server("mute", version="0", revisions=())


def test_decorators_return_function() -> None:
    server = Server("s", version="0")

    async def function() -> str:
        return ""

    assert server.tool(function) is function
    assert server.tool(name="other")(function) is function
    assert server.prompt(function) is function
    assert server.resource("x://y")(function) is function
    assert repr(server) == "<Server s 0>"


# --- tools -----------------------------------------------------------------------------------------------------------


@ALL_REVISIONS
@pytest.mark.spec("tools.list-served", "tools.list-deterministic-order", "tools.input-schema-no-params")
async def test_tools_list_keeps_order_of_registration(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        first = await client.call("tools/list")
        assert await client.call("tools/list") == first
    tools = [as_object(tool) for tool in as_list(first["tools"])]
    assert [tool["name"] for tool in tools] == ["forecast", "echo", "crash", "mixed"]
    assert tools[0]["description"] == "Return the weather forecast."
    assert as_object(tools[2]["inputSchema"])["additionalProperties"] is False
    since_annotations = revision is not R2024_11_05
    assert ("annotations" in tools[1]) == since_annotations
    assert ("title" in tools[1]) == (revision not in (R2024_11_05, R2025_03_26))
    assert ("outputSchema" in tools[0]) == (revision not in (R2024_11_05, R2025_03_26))
    if revision in MODERN:
        assert first["ttlMs"] == 0
        assert first["cacheScope"] == "private"


@ALL_REVISIONS
@pytest.mark.spec("tools.structured-also-text", "tools.structured-text-fallback", "tools.output-schema-conform")
async def test_typed_result_has_structured_and_text_content(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        result = await client.tool("forecast", city="Ghent", days=1)
    assert text_of(result) == '{"city":"Ghent","degrees":[20.5]}'
    structured = result.get("structuredContent")
    if revision in (R2024_11_05, R2025_03_26):
        assert structured is None
    else:
        assert structured == {"city": "Ghent", "degrees": [20.5]}


@ALL_REVISIONS
@pytest.mark.spec("tools.execution-error-in-result", "tools.execution-error-is-error")
async def test_tool_error_is_result_with_is_error(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        result = await client.tool("forecast", city="Atlantis")
    assert result["isError"] is True
    assert text_of(result) == "there is no weather below the sea"


@ALL_REVISIONS
@pytest.mark.spec(
    "tools.input-validation-protocol-error",
    "tools.input-validation-execution-error",
    "tools.input-validation-is-error",
    "tools.validate-inputs",
)
async def test_invalid_arguments_reported_per_revision(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        params: JsonObject = {"name": "forecast", "arguments": {"city": 5, "when": "now"}}
        if revision.bad_arguments_in_result:
            result = await client.call("tools/call", params)
            assert result["isError"] is True
            text = text_of(result)
        else:
            error = await client.fail("tools/call", params)
            assert error["code"] == ErrorCode.INVALID_PARAMS
            text = str(error["message"])
    assert "city: expected a string, got 5" in text
    assert "when" in text


@ALL_REVISIONS
@pytest.mark.spec(
    "tools.unknown-tool-error",
    "tools.unknown-tool-protocol-error",
    "tools.name-case-sensitive",
    "jsonrpc.error-message-concise",
)
async def test_unknown_tool_error_suggests_closest_name(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        error = await client.fail("tools/call", {"name": "Forecast"})
        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert error["message"] == "unknown tool: 'Forecast'; did you mean 'forecast'?"
        error = await client.fail("tools/call", {"name": "x" * 5_000})
        assert "did you mean" not in str(error["message"])
        assert len(str(error["message"])) < 1_100


@ALL_REVISIONS
@pytest.mark.spec("tools.execution-error-in-result", "tools.execution-error-is-error")
async def test_tool_exception_logged_and_hidden_from_client(
    server: Server, revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(server, revision) as client:
        await client.crash("crash")
    assert "swordfish" in caplog.text
    assert "'crash'" in caplog.text


@ALL_REVISIONS
@pytest.mark.spec(
    "tools.resource-link",
    "schema.content-block-types",
    "schema.tool-content-kinds-2024-11-05",
    "schema.tool-content-kinds-2025-03-26",
    "schema.tool-content-kinds-2025-06-18",
)
async def test_content_type_unknown_to_revision_becomes_text(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        blocks = [as_object(block) for block in as_list((await client.tool("mixed"))["content"])]
    kinds = [block["type"] for block in blocks]
    expected = {
        R2024_11_05: ["text", "text", "text", "image"],
        R2025_03_26: ["text", "audio", "text", "image"],
    }.get(revision, ["text", "audio", "resource_link", "image"])
    assert kinds == expected
    if revision is R2024_11_05:
        assert "audio/wav" in str(blocks[1]["text"])
        assert blocks[2]["text"] == "climate: city://Ghent/climate (text/plain)"


@ALL_REVISIONS
async def test_sync_tool_runs_in_thread_by_default(revision: Revision) -> None:
    server = Server("threads", version="0")
    main = threading.current_thread()

    @server.tool
    def outside() -> bool:
        return threading.current_thread() is not main

    @server.tool(thread=False)
    def inside() -> bool:
        return threading.current_thread() is main

    async with connected(server, revision) as client:
        assert await client.text("outside") == '{"result":true}'
        assert await client.text("inside") == '{"result":true}'


async def test_sync_tool_uses_context_from_thread() -> None:
    server = Server("threads", version="0")

    @server.tool
    def work(context: SyncContext) -> str:
        context.progress(0.5)
        context.info("half")
        return context.method

    async with connected(server, R2025_06_18) as client:
        params: JsonObject = {"name": "work", "_meta": {"progressToken": "p"}}
        result = await client.call("tools/call", params)
        assert text_of(result) == "tools/call"
        assert client.notifications_of("notifications/progress") == [{"progressToken": "p", "progress": 0.5}]
        assert client.notifications_of("notifications/message") == [{"level": "info", "data": "half"}]


async def test_concurrent_calls_200_all_answered() -> None:
    server = Server("busy", version="0")
    together = trio.Event()
    running = 0

    @server.tool
    async def wait(number: int) -> int:
        nonlocal running
        running += 1
        if running == server.limits.running_requests:
            together.set()
        await together.wait()
        return number

    async with connected(server, R2025_06_18) as client:
        ids = [await client.start("tools/call", {"name": "wait", "arguments": {"number": n}}) for n in range(200)]
        for number, id in enumerate(ids):
            result = as_object((await client.response(id))["result"])
            assert result["structuredContent"] == {"result": number}


async def test_exception_group_of_one_tool_error_is_unwrapped() -> None:
    server = Server("groups", version="0")

    async def fails(text: str) -> None:
        raise ToolError(text)

    @server.tool
    async def grouped(count: int) -> str:
        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(fails, f"broken {number}")
        return "unreachable"

    async with connected(server, R2025_06_18) as client:
        assert await client.text("grouped", count=1) == "broken 0"
        await client.crash("grouped", count=2)


async def test_tool_raising_request_failed_returns_its_error() -> None:
    server = Server("s", version="0")

    @server.tool
    async def refuse() -> str:
        raise RequestFailed("not today", code=-32050, data={"until": "tomorrow"})

    async with connected(server, R2025_06_18) as client:
        error = await client.fail("tools/call", {"name": "refuse"})
        assert error == {"code": -32050, "message": "not today", "data": {"until": "tomorrow"}}


@pytest.mark.parametrize(
    ("structured", "valid"),
    [({"city": "Ghent", "degrees": []}, True), ({"city": 5}, False), (None, False)],
)
async def test_explicit_result_must_match_output_schema(structured: JsonObject | None, *, valid: bool) -> None:
    server = Server("s", version="0")

    @server.tool
    async def forecast() -> Forecast:
        return t.CallToolResult(content=(), structured_content=t.ABSENT if structured is None else structured)  # type: ignore[return-value]  # the tested mistake

    async with connected(server, R2025_06_18) as client:
        for _ in range(2):
            result = await client.tool("forecast")
            assert ("isError" not in result) == valid


async def test_explicit_error_result_needs_no_structured_content() -> None:
    server = Server("s", version="0")

    @server.tool
    async def forecast() -> Forecast:
        return t.CallToolResult(content=(), is_error=True)  # type: ignore[return-value]  # the tested mistake

    async with connected(server, R2025_06_18) as client:
        assert (await client.tool("forecast"))["isError"] is True


@pytest.mark.spec(
    "tools.name-length",
    "tools.name-charset",
    "tools.name-characters",
    "tools.name-unique",
    "tools.name-no-special",
    "tools.name-unique-identifier",
)
def test_add_tool_invalid_name_raises() -> None:
    server = Server("s", version="0")

    async def function() -> str:
        return ""

    for name in ("", "two words", "a" * 129, "é", "a,b"):
        with pytest.raises(RegistrationError, match="cannot be the name of a tool"):
            server.add_tool(function, name=name)
    server.add_tool(function, name="a" * 128)
    server.add_tool(function)
    with pytest.raises(RegistrationError, match="already a tool named 'function'"):
        server.add_tool(function)
    with pytest.raises(RegistrationError, match="no tool named 'other'"):
        server.remove_tool("other")


def test_add_tool_generator_or_threaded_coroutine_raises() -> None:
    server = Server("s", version="0")

    async def stream() -> object:
        yield 1

    def lines() -> object:
        yield 1

    async def coroutine() -> str:
        return ""

    for generator in (stream, lines):
        with pytest.raises(RegistrationError, match="is a generator"):
            server.add_tool(generator)
    with pytest.raises(RegistrationError, match="is a coroutine function"):
        server.add_tool(coroutine, thread=True)


async def test_partial_and_callable_object_as_tools() -> None:
    server = Server("s", version="0")

    async def add(a: int, b: int) -> int:
        return a + b

    class Twice:
        async def __call__(self, text: str) -> str:
            return text * 2

    server.add_tool(functools.partial(add, b=1), name="next")
    server.add_tool(Twice(), name="twice")
    async with connected(server, R2025_06_18) as client:
        assert await client.text("next", a=4) == '{"result":5}'
        assert await client.text("twice", text="ab") == "abab"


# --- pagination and changes of lists ---------------------------------------------------------------------------------


@ALL_REVISIONS
@pytest.mark.spec("pagination.invalid-cursor-error", "pagination.invalid-cursor-graceful")
async def test_list_unknown_cursor_returns_invalid_params(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            assert (await client.fail(method, {"cursor": ""}))["code"] == ErrorCode.INVALID_PARAMS


@pytest.mark.parametrize("revision", LEGACY, ids=str)
@pytest.mark.spec("tools.list-changed", "prompts.list-changed", "resources.list-changed")
async def test_list_changes_are_notified_to_sessions(server: Server, revision: Revision) -> None:
    async def later() -> str:
        return "late"

    async with connected(server, revision) as client:
        before = as_list((await client.call("tools/list"))["tools"])
        server.add_tool(later)
        await client.wait_for_notifications("notifications/tools/list_changed")
        after = as_list((await client.call("tools/list"))["tools"])
        assert len(after) == len(before) + 1
        server.remove_tool("later")
        await client.wait_for_notifications("notifications/tools/list_changed", 2)
        server.add_prompt(later)
        server.remove_prompt("later")
        await client.wait_for_notifications("notifications/prompts/list_changed")
        server.add_resource(later, "x://later")
        await client.wait_for_notifications("notifications/resources/list_changed")
        server.remove_resource("x://later")
        await client.wait_for_notifications("notifications/resources/list_changed", 2)
    server.add_tool(later)  # without a client to notify


# --- resources -------------------------------------------------------------------------------------------------------


@ALL_REVISIONS
@pytest.mark.spec("resources.list-served", "resources.templates-list", "resources.resource-shape")
async def test_resources_and_templates_are_listed_separately(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        (resource,) = as_list((await client.call("resources/list"))["resources"])
        (template,) = as_list((await client.call("resources/templates/list"))["resourceTemplates"])
    assert as_object(resource)["uri"] == "logo://main"
    assert as_object(resource)["size"] == 3
    assert as_object(template)["uriTemplate"] == "city://{name}/climate"
    assert as_object(template)["description"] == "The climate of a city."


@ALL_REVISIONS
@pytest.mark.spec("resources.read-result", "resources.template-read", "resources.binary-encoding")
async def test_resource_read_returns_text_or_blob(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        (text,) = as_list((await client.call("resources/read", {"uri": "city://New%20York/climate"}))["contents"])
        assert text == {"uri": "city://New%20York/climate", "mimeType": "text/plain", "text": "mild in New York"}
        (blob,) = as_list((await client.call("resources/read", {"uri": "logo://main"}))["contents"])
        assert blob == {"uri": "logo://main", "mimeType": "image/png", "blob": "UE5H"}


@ALL_REVISIONS
@pytest.mark.spec(
    "resources.not-found-error",
    "resources.not-found-32602",
    "resources.not-found-data-uri",
    "resources.not-found-not-empty",
)
async def test_unknown_resource_returns_error_code_of_revision(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        for uri in ("city://Ghent/weather", "nonsense", "city://../climate", "city://Atlantis/climate"):
            error = await client.fail("resources/read", {"uri": uri})
            assert error["code"] == (-32602 if revision in MODERN else -32002)
            assert error["data"] == {"uri": uri}


@pytest.mark.spec(
    "jsonrpc.internal-error-code", "resources.internal-error", "resources.internal-32603", "resources.read-multiple"
)
async def test_resource_function_return_types_become_contents() -> None:
    server = Server("s", version="0")
    server.add_resource(lambda: Image(b"PNG"), "r://image", name="image")
    server.add_resource(lambda: File("a,b", name="t.csv"), "r://file", name="file")
    server.add_resource(lambda: {"a": [1]}, "r://json", name="json")
    server.add_resource(lambda: ["a", "b"], "r://list", name="list")
    server.add_resource(lambda: [b"a", "b"], "r://parts", name="parts")
    server.add_resource(lambda: t.TextResourceContents(uri="r://else", text="x"), "r://contents", name="contents")
    whole = t.ReadResourceResult(contents=(), ttl_ms=5)
    server.add_resource(lambda: whole, "r://whole", name="whole")
    server.add_resource(lambda: object(), "r://bad", name="bad")

    async with connected(server, R2026_07_28) as client:

        async def read(uri: str) -> list[JsonObject]:
            return [
                as_object(part) for part in as_list((await client.call("resources/read", {"uri": uri}))["contents"])
            ]

        assert await read("r://image") == [{"uri": "r://image", "mimeType": "image/png", "blob": "UE5H"}]
        assert await read("r://file") == [{"uri": "r://file", "mimeType": "text/csv", "text": "a,b"}]
        assert await read("r://json") == [{"uri": "r://json", "mimeType": "application/json", "text": '{"a":[1]}'}]
        assert [part["text"] for part in await read("r://list")] == ['["a","b"]']
        assert [part.get("text", part.get("blob")) for part in await read("r://parts")] == ["YQ==", "b"]
        assert await read("r://contents") == [{"uri": "r://else", "text": "x"}]
        assert (await client.call("resources/read", {"uri": "r://whole"}))["ttlMs"] == 5
        assert (await client.fail("resources/read", {"uri": "r://bad"}))["code"] == ErrorCode.INTERNAL_ERROR


async def test_template_variables_converted_to_parameter_types() -> None:
    server = Server("s", version="0")

    @server.resource("n://{number}/{flag}/{share}{?part}")
    async def typed(number: int, flag: bool, share: float, part: int | None = None) -> str:
        return repr((number, flag, share, part))

    @server.resource("n://{word}/{flag}/{share}")
    async def words(word: str, flag: str, share: str) -> str:
        return f"words {word}"

    @server.resource("u://{either}")
    async def union(either: int | str) -> str:
        return repr(either)

    @server.resource("f://files{/path*}")
    async def files(path: list[str]) -> str:
        return "+".join(path)

    async with connected(server, R2025_06_18) as client:

        async def read(uri: str) -> str:
            (part,) = as_list((await client.call("resources/read", {"uri": uri}))["contents"])
            return str(as_object(part)["text"])

        assert await read("n://-5/true/0.25") == "(-5, True, 0.25, None)"
        assert await read("n://5/false/1?part=7") == "(5, False, 1.0, 7)"
        assert await read("n://five/true/1") == "words five"
        assert await read("n://5/perhaps/1") == "words 5"
        assert await read("f://files/a/b") == "a+b"
        assert await read("u://5") == "'5'"


def test_add_resource_invalid_raises() -> None:
    server = Server("s", version="0")

    async def plain() -> str:
        return ""

    async def one(name: str) -> str:
        return name

    for function, uri, message in (
        (plain, "no-scheme", "has no scheme"),
        (one, "x://y", "has no variables, but the function takes name"),
        (plain, "x://{name}", "the function has no such parameter"),
        (one, "x://{other}", "the function has no such parameter"),
        (one, "x://{name", "x://"),
    ):
        with pytest.raises(RegistrationError, match=message):
            server.add_resource(function, uri)
    with pytest.raises(RegistrationError, match="has no `size`"):
        server.add_resource(one, "x://{name}", size=5)
    with pytest.raises(RegistrationError, match="nothing in"):

        @server.resource("y://{name}")
        async def two(name: str, other: str) -> str:
            return name + other

    server.add_resource(plain, "x://y")
    with pytest.raises(RegistrationError, match="already a resource"):
        server.add_resource(plain, "x://y")
    with pytest.raises(RegistrationError, match="no resource 'x://z'"):
        server.remove_resource("x://z")


# --- subscriptions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", LEGACY, ids=str)
@pytest.mark.spec("resources.subscription-updates", "resources.updated-only-if-subscribed")
async def test_resource_subscription_of_session_sends_updates(server: Server, revision: Revision) -> None:
    uri = "city://Ghent/climate"
    async with connected(server, revision) as client:
        error = await client.fail("resources/subscribe", {"uri": "city://Ghent/rain"})
        assert error["code"] == ErrorCode.RESOURCE_NOT_FOUND
        server.resource_updated(uri)
        await client.call("resources/subscribe", {"uri": uri})
        server.resource_updated("city://Bergen/climate")
        server.resource_updated(uri)
        assert await client.wait_for_notifications("notifications/resources/updated") == [{"uri": uri}]
        await client.call("resources/unsubscribe", {"uri": uri})
        server.resource_updated(uri)
        await client.call("ping")
        assert client.notifications_of("notifications/resources/updated") == [{"uri": uri}]


@pytest.mark.parametrize("revision", MODERN, ids=str)
async def test_listen_sends_only_requested_notifications(server: Server, revision: Revision) -> None:
    uri = "city://Ghent/climate"
    requested: JsonObject = {"toolsListChanged": True, "resourceSubscriptions": [uri, "city://Ghent/rain"]}

    async def later() -> str:
        return ""

    async with connected(server, revision) as client:
        id = await client.start("subscriptions/listen", {"notifications": requested})
        (acknowledgment,) = await client.wait_for_notifications("notifications/subscriptions/acknowledged")
        assert acknowledgment["notifications"] == {"toolsListChanged": True, "resourceSubscriptions": [uri]}
        server.add_tool(later)
        server.add_prompt(later)
        server.resource_updated(uri)
        (updated,) = await client.wait_for_notifications("notifications/resources/updated")
        assert updated["_meta"] == {"io.modelcontextprotocol/subscriptionId": id}
        await client.wait_for_notifications("notifications/tools/list_changed")
        await client.notify("notifications/cancelled", {"requestId": id})
        await client.call("tools/list")
        server.resource_updated(uri)
        await client.call("tools/list")
        assert len(client.notifications_of("notifications/resources/updated")) == 1
        assert client.notifications_of("notifications/prompts/list_changed") == []


async def test_subscription_ends_with_result_at_end_of_input(server: Server) -> None:
    async with connected(server, R2026_07_28) as client:
        id = await client.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await client.wait_for_notifications("notifications/subscriptions/acknowledged")
    result = as_object((await client.response(id))["result"])
    assert as_object(result["_meta"])["io.modelcontextprotocol/subscriptionId"] == id


# --- prompts ---------------------------------------------------------------------------------------------------------


@ALL_REVISIONS
@pytest.mark.spec("prompts.list-served", "prompts.get-result", "prompts.arguments-substituted", "prompts.prompt-shape")
async def test_prompts_list_and_get(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        (prompt,) = as_list((await client.call("prompts/list"))["prompts"])
        assert as_object(prompt)["arguments"] == [{"name": "city", "required": True}, {"name": "days"}]
        result = await client.call("prompts/get", {"name": "report", "arguments": {"city": "Ghent", "days": "2"}})
    assert result["description"] == "Return the messages for a report."
    assert result["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "Report on Ghent for 2 days."}},
        {"role": "assistant", "content": {"type": "text", "text": "Gladly."}},
    ]


@ALL_REVISIONS
@pytest.mark.spec(
    "prompts.unknown-prompt-error",
    "prompts.missing-argument-error",
    "prompts.invalid-name-32602",
    "prompts.missing-argument-32602",
    "prompts.validate-arguments",
    "prompts.validate-input-output",
    "prompts.security-validation",
)
async def test_unknown_prompt_and_invalid_arguments_return_invalid_params(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        error = await client.fail("prompts/get", {"name": "reports"})
        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert "did you mean 'report'" in str(error["message"])
        error = await client.fail("prompts/get", {"name": "report", "arguments": {"days": "many"}})
        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert "city" in str(error["message"])
        assert "days" in str(error["message"])


@pytest.mark.spec(
    "prompts.internal-error", "prompts.internal-32603", "prompts.validate-input-output", "prompts.security-validation"
)
@ALL_REVISIONS
async def test_prompt_function_return_types_become_messages(revision: Revision) -> None:
    server = Server("s", version="0")
    server.add_prompt(lambda: Image(b"PNG"), name="image")
    server.add_prompt(lambda: Audio(b"RIFF"), name="audio")
    server.add_prompt(lambda: t.TextContent(text="x"), name="block")
    server.add_prompt(lambda: t.GetPromptResult(messages=()), name="whole")
    server.add_prompt(lambda: 5, name="bad")
    async with connected(server, revision) as client:

        async def kinds(name: str) -> list[object]:
            messages = as_list((await client.call("prompts/get", {"name": name}))["messages"])
            return [as_object(as_object(message)["content"])["type"] for message in messages]

        assert await kinds("image") == ["image"]
        assert await kinds("audio") == ["text" if revision is R2024_11_05 else "audio"]
        assert await kinds("block") == ["text"]
        assert await kinds("whole") == []
        assert (await client.fail("prompts/get", {"name": "bad"}))["code"] == ErrorCode.INTERNAL_ERROR


@pytest.mark.spec("prompts.name-unique", "prompts.names-distinct")
def test_add_prompt_invalid_raises() -> None:
    server = Server("s", version="0")

    async def prompt() -> str:
        return ""

    server.add_prompt(prompt)
    with pytest.raises(RegistrationError, match="already a prompt"):
        server.add_prompt(prompt)
    with pytest.raises(RegistrationError, match="has no name"):
        server.add_prompt(functools.partial(prompt))
    with pytest.raises(RegistrationError, match="no prompt named"):
        server.remove_prompt("other")


# --- completion ------------------------------------------------------------------------------------------------------


@ALL_REVISIONS
@pytest.mark.spec(
    "completion.max-100", "completion.values-limit", "completion.result-shape", "completion.context-accepted"
)
async def test_completion_truncated_to_100_values(server: Server, revision: Revision) -> None:
    ref: JsonObject = {"type": "ref/prompt", "name": "report"}
    params: JsonObject = {"ref": ref, "argument": {"name": "city", "value": "G"}}
    if revision not in (R2024_11_05, R2025_03_26):
        params["context"] = {"arguments": {"days": "x"}}
    async with connected(server, revision) as client:
        completion = as_object((await client.call("completion/complete", params))["completion"])
        assert len(as_list(completion["values"])) == 100
        assert as_list(completion["values"])[0] == ("G0x" if "context" in params else "G0")
        assert completion["total"] == 150
        assert completion["hasMore"] is True
        ref = {"type": "ref/resource", "uri": "city://{name}/climate"}
        params = {"ref": ref, "argument": {"name": "name", "value": "Ge"}}
        completion = as_object((await client.call("completion/complete", params))["completion"])
        assert completion == {"values": ["Genoa"], "total": 1, "hasMore": False} or completion["values"] == ["Genoa"]


@ALL_REVISIONS
@pytest.mark.spec("completion.invalid-prompt-error", "completion.invalid-prompt-32602", "completion.server-validate")
async def test_completion_of_unknown_reference_returns_invalid_params(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        for ref, argument, message in (
            ({"type": "ref/prompt", "name": "reprot"}, "city", "did you mean 'report'"),
            ({"type": "ref/resource", "uri": "town://{name}"}, "name", "unknown resource template"),
            ({"type": "ref/resource", "uri": "logo://main"}, "name", "has no argument 'name'; it has none"),
            ({"type": "ref/prompt", "name": "report"}, "town", "it has city, days"),
        ):
            params: JsonObject = {"ref": {**ref}, "argument": {"name": argument, "value": ""}}
            error = await client.fail("completion/complete", params)
            assert error["code"] == ErrorCode.INVALID_PARAMS
            assert message in str(error["message"])
        params = {"ref": {"type": "ref/prompt", "name": "report"}, "argument": {"name": "days", "value": ""}}
        result = await client.call("completion/complete", params)
        assert as_object(result["completion"])["values"] == []


@pytest.mark.spec("completion.internal-error", "completion.internal-32603", "completion.values-prefix")
async def test_completion_function_return_types_become_result() -> None:
    server = Server("s", version="0")

    @server.prompt
    async def ask(a: str, b: str) -> str:
        return a + b

    @server.completion(prompt="ask", argument="a")
    async def invalid(value: str) -> list[int]:
        return [1]

    @server.completion(prompt="ask", argument="b")
    async def whole(value: str, context: Context) -> t.CompleteResult:
        return t.CompleteResult(completion=t.Completion(values=(context.method,)))

    server.add_prompt(ask, name="many")
    numbers = tuple(str(number) for number in range(150))

    @server.completion(prompt="many", argument="a")
    async def some(value: str) -> t.Completion:
        return t.Completion(values=numbers[:2], total=1_000, has_more=True)

    @server.completion(prompt="many", argument="b")
    async def too_many(value: str) -> t.Completion | t.CompleteResult:
        completion = t.Completion(values=numbers, total=1_000 if value else None)
        return t.CompleteResult(completion=completion, meta={"x/y": 1}) if value else completion

    async with connected(server, R2026_07_28) as client:
        many: JsonObject = {"type": "ref/prompt", "name": "many"}
        for argument, value, values, total in (("a", "", 2, 1_000), ("b", "", 100, 150), ("b", "x", 100, 1_000)):
            params: JsonObject = {"ref": many, "argument": {"name": argument, "value": value}}
            result = await client.call("completion/complete", params)
            expected: JsonObject = {"values": [*numbers[:values]], "total": total, "hasMore": True}
            assert result["completion"] == expected
            assert ("x/y" in as_object(result["_meta"])) == bool(value)
    async with connected(server, R2025_06_18) as client:
        ref: JsonObject = {"type": "ref/prompt", "name": "ask"}
        error = await client.fail("completion/complete", {"ref": ref, "argument": {"name": "a", "value": ""}})
        assert error["code"] == ErrorCode.INTERNAL_ERROR
        result = await client.call("completion/complete", {"ref": ref, "argument": {"name": "b", "value": ""}})
        assert result["completion"] == {"values": ["completion/complete"]}


def test_completion_invalid_raises(server: Server) -> None:
    async def one(value: str) -> list[str]:
        return [value]

    async def two(value: str, other: str) -> list[str]:
        return [value, other]

    async def no_parameters() -> list[str]:
        return []

    for function, kwargs, message in (
        (one, {"argument": "city"}, "for a prompt or for a resource"),
        (one, {"argument": "city", "prompt": "report", "resource": "x://{y}"}, "for a prompt or for a resource"),
        (one, {"argument": "city", "prompt": "other"}, "there is no prompt 'other'"),
        (one, {"argument": "name", "resource": "x://{name}"}, "there is no resource template"),
        (one, {"argument": "town", "prompt": "report"}, "has no argument 'town'; it has city, days"),
        (one, {"argument": "city", "prompt": "report"}, "already has a completion"),
        (two, {"argument": "days", "prompt": "report"}, "but not value, other"),
        (no_parameters, {"argument": "days", "prompt": "report"}, "but not nothing"),
    ):
        with pytest.raises(RegistrationError, match=message):
            server.completion(**kwargs)(function)  # type: ignore[arg-type]  # mypy takes each of them for `thread`, too


# --- custom methods --------------------------------------------------------------------------------------------------


@ALL_REVISIONS
async def test_custom_method_served_and_overrides_builtin(revision: Revision) -> None:
    server = Server("s", version="0")
    definition = RequestMethod(name="x/greet", sender=Side.CLIENT, params=t.RequestParams, result=t.EmptyResult)

    @server.method(definition)
    async def greet(params: t.RequestParams, context: Context) -> JsonObject:
        assert context.peer.revision is revision
        return {"hello": params.extra["name"]}

    @server.method(TOOLS_LIST)
    async def no_tools(params: t.ListToolsRequestParams, context: Context) -> t.ListToolsResult:
        return t.ListToolsResult(tools=())

    @server.tool
    async def hidden() -> str:
        return ""

    async with connected(server, revision) as client:
        assert (await client.call("x/greet", {"name": "you"}))["hello"] == "you"
        assert (await client.call("tools/list"))["tools"] == []
        assert await client.text("hidden") == ""


def test_custom_method_ping_or_sync_handler_raises() -> None:
    server = Server("s", version="0")

    async def handler(params: object, context: Context) -> JsonObject:
        return {}

    with pytest.raises(RegistrationError, match="ping cannot be replaced"):
        server.method(PING)(handler)
    definition = RequestMethod(name="x/greet", sender=Side.CLIENT, params=t.RequestParams, result=t.EmptyResult)

    def plain(params: object, context: Context) -> JsonObject:
        return {}

    with pytest.raises(RegistrationError, match="write `async def`"):
        server.method(definition)(plain)  # type: ignore[arg-type]  # the tested mistake


async def test_extension_declared_with_its_methods() -> None:
    server = Server("s", version="0")
    definition = RequestMethod(
        name="x/greet",
        sender=Side.CLIENT,
        params=t.RequestParams,
        result=t.EmptyResult,
        extension="example.org/greeting",
        client_capability=("extensions", "example.org/greeting"),
    )

    @server.method(definition)
    async def greet(params: t.RequestParams, context: Context) -> JsonObject:
        return {}

    async with connected(server, R2026_07_28, opened=False) as client:
        capabilities = as_object((await client.open())["capabilities"])
        assert capabilities["extensions"] == {"example.org/greeting": {}}
        assert (await client.fail("x/greet"))["code"] == ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY
        client.capabilities = {"extensions": {"example.org/greeting": {}}}
        await client.call("x/greet")


async def test_connection_serves_both_eras(server: Server) -> None:
    async with connected(server, R2025_06_18) as client:
        assert await client.text("echo", text="legacy") == "legacy"
        client.revision = R2026_07_28
        assert await client.text("echo", text="modern") == "modern"


@pytest.mark.spec("roots.server-handle-changes")
async def test_client_notification_is_logged(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_server")
    async with connected(server, R2025_06_18) as client:
        await client.notify("notifications/roots/list_changed")
        await client.call("ping")
    assert "notification received: method=notifications/roots/list_changed" in caplog.text


def test_offered_returns_all_registrations(server: Server) -> None:
    capabilities = server.offered()
    assert [len(each) for each in capabilities.values()] == [4, 1, 1, 1]


LONG_URI = "city://" + "x" * 65_536


@pytest.mark.parametrize(
    ("method", "params", "revision"),
    [
        ("resources/read", {"uri": LONG_URI}, R2025_06_18),
        ("resources/read", {"uri": LONG_URI}, R2026_07_28),
        ("resources/read", {"uri": "city://" + "\u00e9" * 33_000}, R2026_07_28),
        ("resources/subscribe", {"uri": LONG_URI}, R2025_06_18),
        ("resources/unsubscribe", {"uri": LONG_URI}, R2025_06_18),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": LONG_URI}, "argument": {"name": "name", "value": ""}},
            R2025_06_18,
        ),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["a:b", LONG_URI]}}, R2026_07_28),
    ],
)
async def test_uri_over_limit_returns_invalid_params(
    server: Server, method: str, params: JsonObject, revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(server, revision) as client:
        error = as_object((await client.ask(method, params))["error"])
        assert error["code"] == ErrorCode.INVALID_PARAMS
        # Subscribed URIs are stored, and have their own limit.
        subscribes = method in {"resources/subscribe", "subscriptions/listen"}
        assert ("Limits.uri_chars" if subscribes else "MAX_URI_BYTES") in str(error["message"])
        assert len(str(error)) < 4_096
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.WARNING]


async def test_uri_at_limit_is_looked_up(server: Server) -> None:
    async with connected(server, R2025_06_18) as client:
        uri = "city://" + "x" * (65_536 - 7)
        error = as_object((await client.ask("resources/read", {"uri": uri}))["error"])
        assert error["code"] == ErrorCode.RESOURCE_NOT_FOUND
