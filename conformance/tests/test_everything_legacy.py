"""Tests of the server `everything` with a session, with the requests of the official framework."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from everything_server import open_everything_server
from raw_http import LegacyClient, Object, arr, obj, open_response

REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
ALL = pytest.mark.parametrize("revision", REVISIONS)
SAMPLED: Object = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "test-model"}
FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


def text_of(result: Object) -> str:
    """Return the text of a result with one block."""
    (block,) = arr(result["content"])
    return str(obj(block)["text"])


# --- sessions ------------------------------------------------------------------------------------------------------


@ALL
async def test_session_is_opened_and_deleted(revision: str) -> None:
    async with open_everything_server() as port:
        client = LegacyClient(port, revision)
        result = await client.open()
        assert result["protocolVersion"] == revision
        assert re.fullmatch(r"[!-~]{20,}", client.session or "")
        async with open_response(port, "DELETE", "/mcp", client.headers()) as response:
            assert response.status == 200
        assert await client.post(client.request("tools/list")) == 404


@ALL
async def test_initialize_with_version_header_succeeds(revision: str) -> None:
    async with open_everything_server() as port:
        assert (await LegacyClient(port, revision).open([("mcp-protocol-version", revision)]))[
            "protocolVersion"
        ] == revision


@ALL
async def test_ping_log_level_and_subscriptions_return_empty_results(revision: str) -> None:
    async with open_everything_server() as port:
        client = LegacyClient(port, revision)
        await client.open()
        assert await client.call("ping") == ({}, [])
        assert await client.call("logging/setLevel", {"level": "info"}) == ({}, [])
        for method in ("resources/subscribe", "resources/unsubscribe"):
            assert await client.call(method, {"uri": "test://watched-resource"}) == ({}, [])


async def test_foreign_host_and_origin_are_rejected_in_session() -> None:
    async with open_everything_server() as port:
        own = [("host", f"127.0.0.1:{port}"), ("origin", f"http://127.0.0.1:{port}")]
        await LegacyClient(port, "2025-11-25").open(own)
        evil = [("host", "evil.example.com"), ("origin", "http://evil.example.com")]
        assert await LegacyClient(port, "2025-11-25").post({}, evil) == 403


# --- features ------------------------------------------------------------------------------------------------------


@ALL
async def test_features_are_listed_and_readable(revision: str) -> None:
    async with open_everything_server() as port:
        client = LegacyClient(port, revision)
        await client.open()
        result, _ = await client.tool("test_simple_text")
        assert text_of(result) == "This is a simple text response for testing."
        for tool in (
            "test_image_content",
            "test_audio_content",
            "test_embedded_resource",
            "test_multiple_content_types",
        ):
            assert arr((await client.tool(tool))[0]["content"])
        failed, _ = await client.tool("test_error_handling", {})
        assert failed["isError"] is True
        for method, member in (
            ("tools/list", "tools"),
            ("prompts/list", "prompts"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ):
            assert arr((await client.call(method))[0][member])
        prompt, _ = await client.call("prompts/get", {"name": "test_simple_prompt"})
        assert arr(prompt["messages"])
        read, _ = await client.call("resources/read", {"uri": "test://static-text"})
        assert arr(read["contents"])


@ALL
async def test_notifications_precede_result(revision: str) -> None:
    async with open_everything_server() as port:
        client = LegacyClient(port, revision)
        await client.open()
        await client.call("logging/setLevel", {"level": "debug"})
        _, notifications = await client.tool("test_tool_with_logging", {})
        assert [message["method"] for message in notifications] == ["notifications/message"] * 3
        assert {obj(message["params"])["level"] for message in notifications} == {"info"}
        params: Object = {"name": "test_tool_with_progress", "_meta": {"progressToken": "progress-test-1"}}
        _, notifications = await client.call("tools/call", params)
        assert [obj(message["params"])["progress"] for message in notifications] == [0, 50, 100]
        assert {obj(message["params"])["progressToken"] for message in notifications} == {"progress-test-1"}


@ALL
async def test_tool_requests_sampling(revision: str) -> None:
    async with open_everything_server() as port:
        client = LegacyClient(port, revision)
        await client.open()
        client_results = {"sampling/createMessage": SAMPLED}
        result, (request,) = await client.tool("test_sampling", {"prompt": "What?"}, client_results)
        assert obj(request["params"])["maxTokens"] == 100
        assert text_of(result) == "LLM response: Paris"


@pytest.mark.parametrize("revision", REVISIONS[1:])
async def test_tool_requests_elicitation(revision: str) -> None:
    async with open_everything_server() as port:
        client = LegacyClient(port, revision)
        await client.open()
        user: Object = {"username": "testuser", "email": "test@example.com"}
        client_results: dict[str, Object] = {"elicitation/create": {"action": "accept", "content": user}}
        result, (request,) = await client.tool("test_elicitation", {"message": "Who?"}, client_results)
        assert obj(request["params"])["message"] == "Who?"
        assert set(obj(obj(obj(request["params"])["requestedSchema"])["properties"])) == {"username", "email"}
        assert "testuser" in text_of(result)


async def test_elicitation_form_has_defaults() -> None:
    async with open_everything_server() as port:
        client = LegacyClient(port, "2025-11-25")
        await client.open()
        content: Object = {
            "name": "Jane Smith", "age": 25, "score": 88, "status": "inactive", "verified": False
        }  # fmt: skip
        client_results: dict[str, Object] = {"elicitation/create": {"action": "accept", "content": content}}
        result, (request,) = await client.tool("test_elicitation_sep1034_defaults", {}, client_results)
        fields = obj(obj(obj(request["params"])["requestedSchema"])["properties"])
        assert {name: (obj(field)["type"], obj(field)["default"]) for name, field in fields.items()} == {
            "name": ("string", "John Doe"),
            "age": ("integer", 30),
            "score": ("number", 95.5),
            "status": ("string", "active"),
            "verified": ("boolean", True),
        }
        assert obj(fields["status"])["enum"] == ["active", "inactive", "pending"]
        assert "Jane Smith" in text_of(result)


async def test_elicitation_form_has_enums() -> None:
    async with open_everything_server() as port:
        client = LegacyClient(port, "2025-11-25")
        await client.open()
        content: Object = {
            "untitledSingle": "option1",
            "titledSingle": "value1",
            "legacyEnum": "opt1",
            "untitledMulti": ["option1", "option2"],
            "titledMulti": ["value1", "value2"],
        }
        client_results: dict[str, Object] = {"elicitation/create": {"action": "accept", "content": content}}
        result, (request,) = await client.tool("test_elicitation_sep1330_enums", {}, client_results)
        fields = {
            name: obj(field)
            for name, field in obj(obj(obj(request["params"])["requestedSchema"])["properties"]).items()
        }
        assert set(fields["untitledSingle"]) == {"type", "enum"}
        assert set(obj(arr(fields["titledSingle"]["oneOf"])[0])) == {"const", "title"}
        assert "enum" not in fields["titledSingle"]
        assert len(arr(fields["legacyEnum"]["enumNames"])) == len(arr(fields["legacyEnum"]["enum"])) == 3
        assert obj(fields["untitledMulti"]["items"])["enum"] == ["option1", "option2", "option3"]
        assert set(obj(arr(obj(fields["titledMulti"]["items"])["anyOf"])[0])) == {"const", "title"}
        assert "value2" in text_of(result)


# --- streams -------------------------------------------------------------------------------------------------------


async def test_closed_stream_is_resumed_for_result() -> None:
    async with open_everything_server() as port:
        client = LegacyClient(port, "2025-11-25")
        await client.open()
        message = client.request("tools/call", {"name": "test_reconnection", "arguments": {}})
        async with client.open_post(message) as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            events = []
            while (event := await response.event()) is not None:
                events.append(event)
        assert events[0].fields["id"]
        assert not events[0].data
        assert any("retry" in event.fields for event in events)
        assert not any(event.data for event in events)
        last = [event.fields["id"] for event in events if "id" in event.fields][-1]
        async with client.open_get(last) as resumed:
            assert resumed.status == 200
            answer = await resumed.response(message["id"])
        assert text_of(obj(answer["result"])) == "Reconnection test completed successfully."


async def test_requests_succeed_beside_standalone_stream() -> None:
    async with open_everything_server() as port:
        client = LegacyClient(port, "2025-11-25")
        await client.open()

        async def list_tools() -> None:
            assert arr((await client.call("tools/list"))[0]["tools"])

        async with client.open_get() as stream:
            assert stream.status == 200
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(list_tools)


async def test_list_changed_arrives_on_standalone_stream() -> None:
    async with open_everything_server() as port:
        client = LegacyClient(port, "2025-11-25")
        await client.open()
        async with client.open_get() as stream:
            await client.tool("test_trigger_tool_change")
            notifications = await stream.message()
        assert notifications is not None
        assert notifications["method"] == "notifications/tools/list_changed"


# --- the program ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_program_serves_until_signal(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "everything", "--port", "0"]
    with subprocess.Popen(command, cwd=FIXTURES, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            match = re.fullmatch(r"Serving at http://localhost:(\d+)/mcp\n", program.stdout.readline())
            assert match is not None
            client = LegacyClient(int(match[1]), "2025-11-25")
            assert obj((await client.open())["serverInfo"])["name"] == "everything"
            program.send_signal(number)
            assert await trio.to_thread.run_sync(program.wait, 30) == 0
        finally:
            program.kill()
