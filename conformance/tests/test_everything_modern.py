"""The server `everything` on 2026-07-28, as the official suite asks it."""

from __future__ import annotations

import base64

import pytest
import trio
from everything_server import everything
from raw_http import MODERN, Json, Modern, Object, arr, asked, obj

INFO = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def texts(result: Object) -> list[str]:
    """The texts of a result of a tool."""
    return [str(obj(block)["text"]) for block in arr(result["content"]) if obj(block)["type"] == "text"]


def accept(**content: str) -> Object:
    return {"action": "accept", "content": dict(content)}


SAMPLED: Object = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "test-model"}
ROOTS: Object = {"roots": [{"uri": "file:///test/root", "name": "root"}]}
ANSWERS: Object = {"elicitation/create": accept(name="Alice"), "sampling/createMessage": SAMPLED, "roots/list": ROOTS}


# --- server-stateless ----------------------------------------------------------------------------------------------


async def test_the_envelope_has_to_be_complete_but_for_who_the_client_is() -> None:
    async with everything() as port:
        client = Modern(port)
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


async def test_the_server_says_what_it_speaks_and_who_it_is() -> None:
    async with everything() as port:
        result = await Modern(port).call("server/discover")
        assert MODERN in arr(result["supportedVersions"])
        assert {"tools", "prompts", "resources", "completions"} <= set(obj(result["capabilities"]))
        assert obj(obj(result["_meta"])[INFO]) == {"name": "everything", "version": "1.0", "title": "Everything"}


async def test_other_versions_are_refused() -> None:
    async with everything() as port:
        client = Modern(port)
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


async def test_a_missing_capability_is_named() -> None:
    async with everything() as port:
        status, code, data = await Modern(port).fail(
            "tools/call", {"name": "test_missing_capability"}, meta={"clientCapabilities": {}}
        )
        assert (status, code) == (400, -32021)
        assert obj(data)["requiredCapabilities"] == {"sampling": {}}


@pytest.mark.parametrize(
    "method",
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "unknown/method"],
)
async def test_what_is_not_there_is_not_found(method: str) -> None:
    async with everything() as port:
        assert (await Modern(port).fail(method))[:2] == (404, -32601)


async def test_no_request_and_no_unwanted_log_message_comes_on_a_stream() -> None:
    async with everything() as port:
        client = Modern(port)
        for tool in ("test_streaming_elicitation", "test_logging_tool"):
            async with client.asked("tools/call", {"name": tool, "arguments": {}}) as (answer, id):
                messages = await answer.messages()
            assert [message.get("id") for message in messages] == [id]
            assert "result" in messages[0]


async def test_who_asks_for_log_messages_gets_them() -> None:
    async with everything() as port:
        params: Object = {"name": "test_logging_tool", "arguments": {}}
        async with Modern(port).asked("tools/call", params, meta={"logLevel": "debug"}) as (answer, _):
            messages = await answer.messages()
        assert [message.get("method") for message in messages] == ["notifications/message", None]


@pytest.mark.parametrize(("kind", "other"), [("tools", "prompts"), ("prompts", "tools")])
async def test_who_listens_is_told_of_changes(kind: str, other: str) -> None:
    async with everything() as port:
        client = Modern(port)
        before = await client.call(f"{kind}/list")
        params: Object = {"notifications": {f"{kind}ListChanged": True}}
        async with client.asked("subscriptions/listen", params) as (answer, id):
            first = await answer.message()
            assert first is not None
            assert first["method"] == "notifications/subscriptions/acknowledged"
            await client.tool(f"test_trigger_{other[:-1]}_change")
            await client.tool(f"test_trigger_{kind[:-1]}_change")
            second = await answer.message()
            assert second is not None
            assert second["method"] == f"notifications/{kind}/list_changed"
            for message in (first, second):
                assert obj(obj(message["params"])["_meta"])[SUBSCRIPTION] == id
        assert await client.call(f"{kind}/list") == before


# --- tools, resources, prompts -------------------------------------------------------------------------------------


async def test_tools_are_listed_the_same_each_time_and_described() -> None:
    async with everything() as port:
        lists = [arr((await Modern(port).call("tools/list"))["tools"]) for _ in range(3)]
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
async def test_a_tool_that_answers_at_once_makes_no_task_of_it_for_a_client_that_would_take_one() -> None:
    async with everything() as port:
        client = Modern(port)
        extensions: Object = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        params: Object = {"name": "greet", "arguments": {"name": "World"}, "task": {"ttl": 60_000, "pollInterval": 100}}
        _, message = await client.send("tools/call", params, meta={"clientCapabilities": extensions})
        result = obj(message["result"])
        assert result["resultType"] == "complete"
        assert texts(result) == ["Hello, World!"]
        assert "taskId" not in result


async def test_results_hold_every_kind_of_content() -> None:
    async with everything() as port:
        client = Modern(port)
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


async def test_progress_is_told_before_the_result() -> None:
    async with everything() as port:
        params: Object = {"name": "test_tool_with_progress", "arguments": {}}
        async with Modern(port).asked("tools/call", params, meta={"progressToken": "progress-test-1"}) as (answer, _):
            messages = await answer.messages()
        told = [obj(message["params"]) for message in messages[:-1]]
        assert [(one["progressToken"], one["progress"], one["total"]) for one in told] == [
            ("progress-test-1", done, 100) for done in (0, 50, 100)
        ]
        assert "result" in messages[-1]


async def test_resources_are_read() -> None:
    async with everything() as port:
        client = Modern(port)
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


async def test_prompts_are_got() -> None:
    async with everything() as port:
        client = Modern(port)
        for name, arguments in (
            ("test_simple_prompt", {}),
            ("test_prompt_with_arguments", {"arg1": "one", "arg2": "two"}),
            ("test_prompt_with_embedded_resource", {"resourceUri": "test://x"}),
            ("test_prompt_with_image", {}),
        ):
            result = await client.call("prompts/get", {"name": name, "arguments": dict(arguments)})
            said = str(result["messages"])
            assert all(value in said for value in arguments.values())
        for prompt in arr((await client.call("prompts/list"))["prompts"]):
            assert obj(prompt)["description"]
        ref: Object = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
        completed = await client.call(
            "completion/complete", {"ref": ref, "argument": {"name": "arg1", "value": "test"}}
        )
        assert "testing" in arr(obj(completed["completion"])["values"])


async def test_lists_and_contents_say_how_long_they_may_be_kept() -> None:
    async with everything() as port:
        client = Modern(port)
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


# --- multi-round results -------------------------------------------------------------------------------------------


async def play(client: Modern, method: str, params: Object) -> tuple[Object, list[list[str]], list[Json]]:
    """Answers what is asked until the result is complete. Gives it, the methods asked in each round, and the states."""
    rounds, states = [], []
    again = dict(params)
    while (result := await client.call(method, again))["resultType"] == "input_required":
        questions = {key: str(obj(value)["method"]) for key, value in obj(result["inputRequests"]).items()}
        rounds.append(list(questions.values()))
        states.append(result.get("requestState"))
        again = {**params, "inputResponses": {key: ANSWERS[name] for key, name in questions.items()}}
        if "requestState" in result:
            again["requestState"] = result["requestState"]
    return result, rounds, states


@pytest.mark.parametrize(
    ("tool", "asked_for"),
    [
        ("elicitation", [["elicitation/create"]]),
        ("sampling", [["sampling/createMessage"]]),
        ("list_roots", [["roots/list"]]),
        ("request_state", [["elicitation/create"]]),
        ("multiple_inputs", [["elicitation/create", "sampling/createMessage", "roots/list"]]),
        ("multi_round", [["elicitation/create"], ["elicitation/create"]]),
    ],
)
async def test_a_tool_asks_in_rounds(tool: str, asked_for: list[list[str]]) -> None:
    async with everything() as port:
        params: Object = {"name": f"test_input_required_result_{tool}", "arguments": {}}
        result, rounds, states = await play(Modern(port), "tools/call", params)
        assert texts(result)
        assert [sorted(methods) for methods in rounds] == [sorted(methods) for methods in asked_for]
        assert all(isinstance(state, str) for state in states)
        assert len(set(states)) == len(states)


async def test_a_prompt_asks_in_rounds() -> None:
    async with everything() as port:
        result, rounds, _ = await play(Modern(port), "prompts/get", {"name": "test_input_required_result_prompt"})
        assert arr(result["messages"])
        assert rounds == [["elicitation/create"]]


async def test_an_answer_may_come_before_the_question_and_must_be_one() -> None:
    async with everything() as port:
        client = Modern(port)
        params: Object = {"name": "test_input_required_result_elicitation", "arguments": {}}
        eager = {"user_name": accept(name="Alice"), "unknown_1": accept(x="y"), "unknown_2": accept()}
        assert texts(await client.call("tools/call", {**params, "inputResponses": dict(eager)})) == ["Hello, Alice!"]
        wrong = await client.call("tools/call", {**params, "inputResponses": {"wrong_key": accept(name="Alice")}})
        assert list(obj(wrong["inputRequests"])) == ["user_name"]
        unfit: list[Json] = [{"user_name": 12345}, None]
        for bad in unfit:
            _, message = await client.send("tools/call", {**params, "inputResponses": bad})
            assert "error" in message or obj(message["result"])["resultType"] == "input_required"


async def test_a_state_that_was_changed_is_refused() -> None:
    async with everything() as port:
        client = Modern(port)
        params: Object = {"name": "test_input_required_result_tampered_state", "arguments": {}}
        first = await client.call("tools/call", params)
        again: Object = {
            **params,
            "requestState": f"{first['requestState']}-TAMPERED",
            "inputResponses": {key: accept(ok="yes") for key in obj(first["inputRequests"])},
        }
        assert (await client.fail("tools/call", again))[1] == -32602


async def test_only_what_the_client_declared_is_asked() -> None:
    async with everything() as port:
        params: Object = {"name": "test_input_required_result_capabilities", "arguments": {}}
        result = await Modern(port).call("tools/call", params, meta={"clientCapabilities": {"sampling": {}}})
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
async def test_headers_have_to_say_what_the_body_says(method: str, headers: dict[str, str | None]) -> None:
    async with everything() as port:
        params: Object = {"name": "test_simple_text", "arguments": {}} if method == "tools/call" else {}
        async with Modern(port).asked(method, params, headers=headers) as (answer, id):
            assert answer.status == 400
            assert answer.headers["content-type"] == "application/json"
            message = await answer.json()
        assert obj(message["error"])["code"] == -32020
        assert message["id"] == id


async def test_names_of_headers_may_be_written_in_any_way_and_values_have_space_around_them() -> None:
    async with everything() as port:
        client = Modern(port)
        for name in ("mcp-method", "MCP-METHOD", "Mcp-Method"):
            status, message = await client.send("tools/list", capitals={"mcp-method": name})
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
async def test_a_designated_argument_is_compared_with_its_header(
    value: str | None, header: str | None, *, accepted: bool
) -> None:
    async with everything() as port:
        arguments: Object = {} if value is None else {"region": value}
        params: Object = {"name": "test_headers", "arguments": arguments}
        headers = {"mcp-param-region": header}
        async with Modern(port).asked("tools/call", params, headers=headers) as (answer, id):
            message = await answer.response(id)
        if accepted:
            assert answer.status == 200
            assert texts(obj(message["result"])) == [f"The region is {value}."]
        else:
            assert answer.status == 400
            assert answer.headers["content-type"] == "application/json"
            assert obj(message["error"])["code"] == -32020


# --- who may come in -----------------------------------------------------------------------------------------------


async def test_only_the_names_of_this_machine_are_served() -> None:
    async with everything() as port:
        client = Modern(port)
        own = {"host": f"localhost:{port}", "origin": f"http://localhost:{port}"}
        assert (await client.send("server/discover", headers=dict(own)))[0] == 200
        for name, value in (("host", "evil.example.com"), ("origin", "http://evil.example.com")):
            async with client.asked("server/discover", headers={**own, name: value}) as (answer, _):
                assert answer.status == 403


async def test_many_ask_at_once() -> None:
    async with everything() as port, trio.open_nursery() as nursery:

        async def ask() -> None:
            assert arr((await Modern(port).call("tools/list"))["tools"])

        for _ in range(10):
            nursery.start_soon(ask)


async def test_other_paths_are_not_there() -> None:
    async with everything() as port, asked(port, "GET", "/other") as answer:
        assert answer.status == 404


# --- skills ------------------------------------------------------------------------------------------------------------


async def test_a_skill_is_listed_got_and_read_without_the_client_declaring_anything() -> None:
    async with everything() as port:
        client = Modern(port)
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
