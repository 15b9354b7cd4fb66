"""Tests of the server `everything` in 2026-07-28, with the requests of the official framework."""

from __future__ import annotations

import base64

import pytest
import trio
from everything_server import open_everything_server
from raw_http import MODERN, Json, ModernClient, Object, arr, obj, open_response

INFO = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def texts(result: Object) -> list[str]:
    """Return the text blocks of a tool result."""
    return [str(obj(block)["text"]) for block in arr(result["content"]) if obj(block)["type"] == "text"]


def accept(**content: str) -> Object:
    return {"action": "accept", "content": dict(content)}


SAMPLED: Object = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "test-model"}
ROOTS: Object = {"roots": [{"uri": "file:///test/root", "name": "root"}]}
ANSWERS: Object = {"elicitation/create": accept(name="Alice"), "sampling/createMessage": SAMPLED, "roots/list": ROOTS}


# --- server-stateless ----------------------------------------------------------------------------------------------


async def test_request_metadata_requires_all_but_client_info() -> None:
    async with open_everything_server() as port:
        client = ModernClient(port)
        for params, meta in (
            ({"_meta": {}}, None),
            ({}, {"protocolVersion": None}),
            ({}, {"clientCapabilities": None}),
        ):
            status, message = await client.send("server/discover", dict(params), meta=meta)
            assert status == 400
            assert obj(message["error"])["code"] == -32602
        request = client.request("server/discover", {}, None)
        del request["params"]
        assert "result" in (await client.send("server/discover", meta={"clientInfo": None}))[1]


async def test_discover_returns_versions_capabilities_and_server_info() -> None:
    async with open_everything_server() as port:
        result = await ModernClient(port).call("server/discover")
        assert MODERN in arr(result["supportedVersions"])
        assert {"tools", "prompts", "resources", "completions"} <= set(obj(result["capabilities"]))
        assert obj(obj(result["_meta"])[INFO]) == {"name": "everything", "version": "1.0", "title": "Everything"}


async def test_unsupported_version_returns_supported_versions() -> None:
    async with open_everything_server() as port:
        client = ModernClient(port)
        unknown = {"protocolVersion": "v999.0.0"}
        status, code, data = await client.fail(
            "server/discover", meta=unknown, headers={"mcp-protocol-version": "v999.0.0"}
        )
        assert (status, code) == (400, -32022)
        assert obj(data)["requested"] == "v999.0.0"
        supported = arr((await client.call("server/discover"))["supportedVersions"])
        assert set(map(str, arr(obj(data)["supported"]))) <= set(map(str, supported))
        assert arr(obj(data)["supported"])
        assert (await client.fail("server/discover", meta=unknown))[:2] == (400, -32020)


async def test_missing_capability_is_named_in_error() -> None:
    async with open_everything_server() as port:
        status, code, data = await ModernClient(port).fail(
            "tools/call", {"name": "test_missing_capability"}, meta={"clientCapabilities": {}}
        )
        assert (status, code) == (400, -32021)
        assert obj(data)["requiredCapabilities"] == {"sampling": {}}


@pytest.mark.parametrize(
    "method",
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "unknown/method"],
)
async def test_unknown_method_returns_404(method: str) -> None:
    async with open_everything_server() as port:
        assert (await ModernClient(port).fail(method))[:2] == (404, -32601)


async def test_stream_without_log_level_holds_only_response() -> None:
    async with open_everything_server() as port:
        client = ModernClient(port)
        for tool in ("test_streaming_elicitation", "test_logging_tool"):
            async with client.open_response("tools/call", {"name": tool, "arguments": {}}) as (response, id):
                messages = await response.messages()
            assert [message.get("id") for message in messages] == [id]
            assert "result" in messages[0]


async def test_log_level_in_metadata_enables_log_messages() -> None:
    async with open_everything_server() as port:
        params: Object = {"name": "test_logging_tool", "arguments": {}}
        async with ModernClient(port).open_response("tools/call", params, meta={"logLevel": "debug"}) as (response, _):
            messages = await response.messages()
        assert [message.get("method") for message in messages] == ["notifications/message", None]


@pytest.mark.parametrize(("kind", "other"), [("tools", "prompts"), ("prompts", "tools")])
async def test_subscription_receives_list_changed(kind: str, other: str) -> None:
    async with open_everything_server() as port:
        client = ModernClient(port)
        before = await client.call(f"{kind}/list")
        params: Object = {"notifications": {f"{kind}ListChanged": True}}
        async with client.open_response("subscriptions/listen", params) as (response, id):
            first = await response.message()
            assert first is not None
            assert first["method"] == "notifications/subscriptions/acknowledged"
            await client.tool(f"test_trigger_{other[:-1]}_change")
            await client.tool(f"test_trigger_{kind[:-1]}_change")
            second = await response.message()
            assert second is not None
            assert second["method"] == f"notifications/{kind}/list_changed"
            for message in (first, second):
                assert obj(obj(message["params"])["_meta"])[SUBSCRIPTION] == id
        assert await client.call(f"{kind}/list") == before


# --- tools, resources, prompts ---------------------------------------------------------------------------------------


async def test_tools_list_is_stable_and_described() -> None:
    async with open_everything_server() as port:
        lists = [arr((await ModernClient(port).call("tools/list"))["tools"]) for _ in range(3)]
        assert lists[0] == lists[1] == lists[2]
        assert all(obj(tool)["description"] and obj(tool)["inputSchema"] for tool in lists[0])
        schemas = {str(obj(tool)["name"]): obj(obj(tool)["inputSchema"]) for tool in lists[0]}
        schema = schemas["json_schema_2020_12_tool"]
        assert set(schema) == {
            *("$schema", "type", "$defs", "properties", "allOf", "if", "then", "else", "additionalProperties")
        }
        assert obj(obj(schema["$defs"])["address"])["$anchor"] == "addressDef"
        assert obj(obj(schemas["test_headers"]["properties"])["region"])["x-mcp-header"] == "Region"
        assert obj(obj(schemas["test_headers"]["properties"])["region"])["type"] == "string"


@pytest.mark.spec("tasks.task-param-ignored")
async def test_immediate_tool_ignores_task_param() -> None:
    async with open_everything_server() as port:
        client = ModernClient(port)
        extensions: Object = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        params: Object = {"name": "greet", "arguments": {"name": "World"}, "task": {"ttl": 60_000, "pollInterval": 100}}
        _, message = await client.send("tools/call", params, meta={"clientCapabilities": extensions})
        result = obj(message["result"])
        assert result["resultType"] == "complete"
        assert texts(result) == ["Hello, World!"]
        assert "taskId" not in result


async def test_tool_results_hold_each_content_type() -> None:
    async with open_everything_server() as port:
        client = ModernClient(port)
        status, message = await client.send("tools/call", {"name": "test_simple_text"})
        assert status == 200
        assert texts(obj(message["result"])) == ["This is a simple text response for testing."]
        (image,) = arr((await client.tool("test_image_content"))["content"])
        assert obj(image)["mimeType"] == "image/png"
        assert base64.b64decode(str(obj(image)["data"])).startswith(b"\x89PNG")
        (audio,) = arr((await client.tool("test_audio_content"))["content"])
        assert obj(audio)["mimeType"] == "audio/wav"
        assert base64.b64decode(str(obj(audio)["data"])).startswith(b"RIFF")
        (resource,) = arr((await client.tool("test_embedded_resource"))["content"])
        assert {"uri", "mimeType", "text"} <= set(obj(obj(resource)["resource"]))
        several = arr((await client.tool("test_multiple_content_types"))["content"])
        assert [obj(block)["type"] for block in several] == ["text", "image", "resource"]
        failed = await client.tool("test_error_handling")
        assert failed["isError"] is True
        assert texts(failed)
        assert texts(await client.tool("test_reconnection")) == ["Reconnection test completed successfully."]


async def test_progress_precedes_result() -> None:
    async with open_everything_server() as port:
        params: Object = {"name": "test_tool_with_progress", "arguments": {}}
        async with ModernClient(port).open_response(
            "tools/call", params, meta={"progressToken": "progress-test-1"}
        ) as (response, _):
            messages = await response.messages()
        progress = [obj(message["params"]) for message in messages[:-1]]
        assert [
            (
                params_of_notification["progressToken"],
                params_of_notification["progress"],
                params_of_notification["total"],
            )
            for params_of_notification in progress
        ] == [("progress-test-1", done, 100) for done in (0, 50, 100)]
        assert "result" in messages[-1]


async def test_resources_read_returns_contents() -> None:
    async with open_everything_server() as port:
        client = ModernClient(port)
        for uri, member in (("test://static-text", "text"), ("test://static-binary", "blob")):
            (content,) = arr((await client.call("resources/read", {"uri": uri}))["contents"])
            assert obj(content)["uri"] == uri
            assert obj(content)[member]
            assert obj(content)["mimeType"] == {"text": "text/plain", "blob": "image/png"}[member]
        (content,) = arr((await client.call("resources/read", {"uri": "test://template/123/data"}))["contents"])
        assert "123" in str(obj(content)["text"])
        _, code, data = await client.fail("resources/read", {"uri": "test://nothing"})
        assert code == -32602
        assert obj(data)["uri"] == "test://nothing"


async def test_prompts_get_and_completion_return_values() -> None:
    async with open_everything_server() as port:
        client = ModernClient(port)
        for name, arguments in (
            ("test_simple_prompt", {}),
            ("test_prompt_with_arguments", {"arg1": "one", "arg2": "two"}),
            ("test_prompt_with_embedded_resource", {"resourceUri": "test://x"}),
            ("test_prompt_with_image", {}),
        ):
            result = await client.call("prompts/get", {"name": name, "arguments": dict(arguments)})
            text = str(result["messages"])
            assert all(value in text for value in arguments.values())
        for prompt in arr((await client.call("prompts/list"))["prompts"]):
            assert obj(prompt)["description"]
        ref: Object = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
        completed = await client.call(
            "completion/complete", {"ref": ref, "argument": {"name": "arg1", "value": "test"}}
        )
        assert "testing" in arr(obj(completed["completion"])["values"])


async def test_cacheable_results_have_ttl_and_scope() -> None:
    async with open_everything_server() as port:
        client = ModernClient(port)
        first = obj(arr((await client.call("resources/list"))["resources"])[0])["uri"]
        for method, params in (
            ("tools/list", {}),
            ("prompts/list", {}),
            ("resources/list", {}),
            ("resources/templates/list", {}),
            ("resources/read", {"uri": first}),
        ):
            result = await client.call(method, dict(params))
            assert isinstance(result["ttlMs"], int)
            assert result["ttlMs"] >= 0
            assert result["cacheScope"] in ("public", "private")
            assert result["resultType"] == "complete"


# --- multi round-trip requests ---------------------------------------------------------------------------------------


async def run_round_trips(
    client: ModernClient, method: str, params: Object
) -> tuple[Object, list[list[str]], list[Json]]:
    """Answer input requests until the result is complete; return it with methods and states of the round trips."""
    round_trips, states = [], []
    retry = dict(params)
    while (result := await client.call(method, retry))["resultType"] == "input_required":
        input_requests = {key: str(obj(value)["method"]) for key, value in obj(result["inputRequests"]).items()}
        round_trips.append(list(input_requests.values()))
        states.append(result.get("requestState"))
        retry = {**params, "inputResponses": {key: ANSWERS[name] for key, name in input_requests.items()}}
        if "requestState" in result:
            retry["requestState"] = result["requestState"]
    return result, round_trips, states


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("elicitation", [["elicitation/create"]]),
        ("sampling", [["sampling/createMessage"]]),
        ("list_roots", [["roots/list"]]),
        ("request_state", [["elicitation/create"]]),
        ("multiple_inputs", [["elicitation/create", "sampling/createMessage", "roots/list"]]),
        ("multi_round", [["elicitation/create"], ["elicitation/create"]]),
    ],
)
async def test_tool_input_requests_complete_by_round_trips(tool: str, expected: list[list[str]]) -> None:
    async with open_everything_server() as port:
        params: Object = {"name": f"test_input_required_result_{tool}", "arguments": {}}
        result, round_trips, states = await run_round_trips(ModernClient(port), "tools/call", params)
        assert texts(result)
        assert [sorted(methods) for methods in round_trips] == [sorted(methods) for methods in expected]
        assert all(isinstance(state, str) for state in states)
        assert len(set(states)) == len(states)


async def test_prompt_input_request_completes_by_round_trip() -> None:
    async with open_everything_server() as port:
        result, round_trips, _ = await run_round_trips(
            ModernClient(port), "prompts/get", {"name": "test_input_required_result_prompt"}
        )
        assert arr(result["messages"])
        assert round_trips == [["elicitation/create"]]


async def test_input_response_without_request_is_used_if_valid() -> None:
    async with open_everything_server() as port:
        client = ModernClient(port)
        params: Object = {"name": "test_input_required_result_elicitation", "arguments": {}}
        responses = {"user_name": accept(name="Alice"), "unknown_1": accept(x="y"), "unknown_2": accept()}
        assert texts(await client.call("tools/call", {**params, "inputResponses": dict(responses)})) == [
            "Hello, Alice!"
        ]
        wrong = await client.call("tools/call", {**params, "inputResponses": {"wrong_key": accept(name="Alice")}})
        assert list(obj(wrong["inputRequests"])) == ["user_name"]
        invalid: list[Json] = [{"user_name": 12345}, None]
        for bad in invalid:
            _, message = await client.send("tools/call", {**params, "inputResponses": bad})
            assert "error" in message or obj(message["result"])["resultType"] == "input_required"


async def test_changed_request_state_is_rejected() -> None:
    async with open_everything_server() as port:
        client = ModernClient(port)
        params: Object = {"name": "test_input_required_result_tampered_state", "arguments": {}}
        first = await client.call("tools/call", params)
        retry: Object = {
            **params,
            "requestState": f"{first['requestState']}-TAMPERED",
            "inputResponses": {key: accept(ok="yes") for key in obj(first["inputRequests"])},
        }
        assert (await client.fail("tools/call", retry))[1] == -32602


async def test_input_requests_match_declared_capabilities() -> None:
    async with open_everything_server() as port:
        params: Object = {"name": "test_input_required_result_capabilities", "arguments": {}}
        result = await ModernClient(port).call("tools/call", params, meta={"clientCapabilities": {"sampling": {}}})
        assert [obj(each)["method"] for each in obj(result["inputRequests"]).values()] == ["sampling/createMessage"]


# --- headers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("tools/list", {"mcp-method": "prompts/list"}),
        ("tools/list", {"mcp-method": None}),
        ("tools/list", {"mcp-method": "TOOLS/LIST"}),
        ("tools/call", {"mcp-name": "other"}),
        ("tools/call", {"mcp-name": None}),
    ],
)
async def test_headers_not_matching_body_are_rejected(method: str, headers: dict[str, str | None]) -> None:
    async with open_everything_server() as port:
        params: Object = {"name": "test_simple_text", "arguments": {}} if method == "tools/call" else {}
        async with ModernClient(port).open_response(method, params, headers=headers) as (response, id):
            assert response.status == 400
            assert response.headers["content-type"] == "application/json"
            message = await response.json()
        assert obj(message["error"])["code"] == -32020
        assert message["id"] == id


async def test_header_name_case_and_whitespace_are_ignored() -> None:
    async with open_everything_server() as port:
        client = ModernClient(port)
        for name in ("mcp-method", "MCP-METHOD", "Mcp-Method"):
            status, message = await client.send("tools/list", header_spellings={"mcp-method": name})
            assert status == 200
            assert "result" in message
        status, message = await client.send(
            "tools/call", {"name": "test_simple_text", "arguments": {}}, headers={"mcp-name": "  test_simple_text  "}
        )
        assert status == 200
        assert "result" in message


@pytest.mark.parametrize(
    ("value", "header", "accepted"),
    [
        ("Hello", "=?base64?SGVsbG8=?=", True),
        ("Hello", "=?base64?SGVsbG8?=", False),
        ("Hello", "=?base64?SGVs!!!bG8=?=", False),
        ("SGVsbG8=", "SGVsbG8=", True),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8=", True),
        ("Hello", None, False),
        ("Hello", "Other", False),
        (None, None, True),
    ],
)
async def test_header_param_is_compared_with_argument(value: str | None, header: str | None, *, accepted: bool) -> None:
    async with open_everything_server() as port:
        arguments: Object = {} if value is None else {"region": value}
        params: Object = {"name": "test_headers", "arguments": arguments}
        headers = {"mcp-param-region": header}
        async with ModernClient(port).open_response("tools/call", params, headers=headers) as (response, id):
            message = await response.response(id)
        if accepted:
            assert response.status == 200
            assert texts(obj(message["result"])) == [f"The region is {value}."]
        else:
            assert response.status == 400
            assert response.headers["content-type"] == "application/json"
            assert obj(message["error"])["code"] == -32020


# --- access control --------------------------------------------------------------------------------------------------


async def test_foreign_host_and_origin_are_rejected() -> None:
    async with open_everything_server() as port:
        client = ModernClient(port)
        own = {"host": f"localhost:{port}", "origin": f"http://localhost:{port}"}
        assert (await client.send("server/discover", headers=dict(own)))[0] == 200
        for name, value in (("host", "evil.example.com"), ("origin", "http://evil.example.com")):
            async with client.open_response("server/discover", headers={**own, name: value}) as (response, _):
                assert response.status == 403


async def test_concurrent_requests_succeed() -> None:
    async with open_everything_server() as port, trio.open_nursery() as nursery:

        async def list_tools() -> None:
            assert arr((await ModernClient(port).call("tools/list"))["tools"])

        for _ in range(10):
            nursery.start_soon(list_tools)


async def test_unknown_path_returns_404() -> None:
    async with open_everything_server() as port, open_response(port, "GET", "/other") as response:
        assert response.status == 404


# --- skills ----------------------------------------------------------------------------------------------------------


async def test_skill_is_available_without_client_capabilities() -> None:
    async with open_everything_server() as port:
        client = ModernClient(port)
        capabilities = obj((await client.call("server/discover"))["capabilities"])
        assert obj(capabilities["extensions"])["io.modelcontextprotocol/skills"] == {"directoryRead": True}
        (skill,) = map(obj, arr((await client.call("skills/list"))["skills"]))
        assert (await client.call("skills/get", {"uri": skill["uri"]}))["skill"] == skill
        front = obj(skill["frontmatter"])
        assert front["metadata"] == {"version": "1.0"}
        for file in map(obj, arr(skill["resources"])):
            (read,) = map(obj, arr((await client.call("resources/read", {"uri": file["uri"]}))["contents"]))
            assert len(str(read["text"]).encode()) == file["size"]
        children = map(
            obj, arr((await client.call("resources/directory/read", {"uri": "skill://demo-skill"}))["resources"])
        )
        assert [each["mimeType"] for each in children] == ["text/markdown", "inode/directory", "inode/directory"]
        unknown = {"uri": "skill://none/SKILL.md"}
        for method in ("skills/get", "resources/directory/read"):
            assert (await client.fail(method, dict(unknown)))[1] == -32602
