"""The server `everything` with a session, as the official suite asks it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio
from everything_server import everything
from raw_http import Legacy, Object, arr, asked, obj

REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
ALL = pytest.mark.parametrize("revision", REVISIONS)
SAMPLED: Object = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "test-model"}
FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"


def text_of(result: Object) -> str:
    """The text of a result with one block."""
    (block,) = arr(result["content"])
    return str(obj(block)["text"])


# --- life of a session ---------------------------------------------------------------------------------------------


@ALL
async def test_a_session_begins_and_ends(revision: str) -> None:
    async with everything() as port:
        client = Legacy(port, revision)
        result = await client.open()
        assert result["protocolVersion"] == revision
        assert re.fullmatch(r"[!-~]{20,}", client.session or "")
        async with asked(port, "DELETE", "/mcp", client.headers()) as answer:
            assert answer.status == 200
        assert await client.tell(client.request("tools/list")) == 404


@ALL
async def test_initialize_may_name_its_version_in_a_header(revision: str) -> None:
    async with everything() as port:
        assert (await Legacy(port, revision).open([("mcp-protocol-version", revision)]))["protocolVersion"] == revision


@ALL
async def test_the_session_is_pinged_and_logs_as_it_is_told(revision: str) -> None:
    async with everything() as port:
        client = Legacy(port, revision)
        await client.open()
        assert await client.call("ping") == ({}, [])
        assert await client.call("logging/setLevel", {"level": "info"}) == ({}, [])
        for method in ("resources/subscribe", "resources/unsubscribe"):
            assert await client.call(method, {"uri": "test://watched-resource"}) == ({}, [])


async def test_only_the_names_of_this_machine_are_served() -> None:
    async with everything() as port:
        own = [("host", f"127.0.0.1:{port}"), ("origin", f"http://127.0.0.1:{port}")]
        await Legacy(port, "2025-11-25").open(own)
        evil = [("host", "evil.example.com"), ("origin", "http://evil.example.com")]
        assert await Legacy(port, "2025-11-25").tell({}, evil) == 403


# --- features ------------------------------------------------------------------------------------------------------


@ALL
async def test_lists_and_what_is_listed_can_be_had(revision: str) -> None:
    async with everything() as port:
        client = Legacy(port, revision)
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
async def test_notifications_come_before_the_result(revision: str) -> None:
    async with everything() as port:
        client = Legacy(port, revision)
        await client.open()
        await client.call("logging/setLevel", {"level": "debug"})
        _, told = await client.tool("test_tool_with_logging", {})
        assert [message["method"] for message in told] == ["notifications/message"] * 3
        assert {obj(message["params"])["level"] for message in told} == {"info"}
        params: Object = {"name": "test_tool_with_progress", "_meta": {"progressToken": "progress-test-1"}}
        _, told = await client.call("tools/call", params)
        assert [obj(message["params"])["progress"] for message in told] == [0, 50, 100]
        assert {obj(message["params"])["progressToken"] for message in told} == {"progress-test-1"}


@ALL
async def test_the_model_of_the_client_is_asked(revision: str) -> None:
    async with everything() as port:
        client = Legacy(port, revision)
        await client.open()
        answers = {"sampling/createMessage": SAMPLED}
        result, (question,) = await client.tool("test_sampling", {"prompt": "What?"}, answers)
        assert obj(question["params"])["maxTokens"] == 100
        assert text_of(result) == "LLM response: Paris"


@pytest.mark.parametrize("revision", REVISIONS[1:])
async def test_the_user_is_asked(revision: str) -> None:
    async with everything() as port:
        client = Legacy(port, revision)
        await client.open()
        user: Object = {"username": "testuser", "email": "test@example.com"}
        answers: dict[str, Object] = {"elicitation/create": {"action": "accept", "content": user}}
        result, (question,) = await client.tool("test_elicitation", {"message": "Who?"}, answers)
        assert obj(question["params"])["message"] == "Who?"
        assert set(obj(obj(obj(question["params"])["requestedSchema"])["properties"])) == {"username", "email"}
        assert "testuser" in text_of(result)


async def test_a_form_has_defaults_of_each_kind() -> None:
    async with everything() as port:
        client = Legacy(port, "2025-11-25")
        await client.open()
        content: Object = {
            "name": "Jane Smith", "age": 25, "score": 88, "status": "inactive", "verified": False
        }  # fmt: skip
        answers: dict[str, Object] = {"elicitation/create": {"action": "accept", "content": content}}
        result, (question,) = await client.tool("test_elicitation_sep1034_defaults", {}, answers)
        fields = obj(obj(obj(question["params"])["requestedSchema"])["properties"])
        assert {name: (obj(field)["type"], obj(field)["default"]) for name, field in fields.items()} == {
            "name": ("string", "John Doe"),
            "age": ("integer", 30),
            "score": ("number", 95.5),
            "status": ("string", "active"),
            "verified": ("boolean", True),
        }
        assert obj(fields["status"])["enum"] == ["active", "inactive", "pending"]
        assert "Jane Smith" in text_of(result)


async def test_a_form_has_choices_of_each_kind() -> None:
    async with everything() as port:
        client = Legacy(port, "2025-11-25")
        await client.open()
        content: Object = {
            "untitledSingle": "option1",
            "titledSingle": "value1",
            "legacyEnum": "opt1",
            "untitledMulti": ["option1", "option2"],
            "titledMulti": ["value1", "value2"],
        }
        answers: dict[str, Object] = {"elicitation/create": {"action": "accept", "content": content}}
        result, (question,) = await client.tool("test_elicitation_sep1330_enums", {}, answers)
        fields = {
            name: obj(field)
            for name, field in obj(obj(obj(question["params"])["requestedSchema"])["properties"]).items()
        }
        assert set(fields["untitledSingle"]) == {"type", "enum"}
        assert set(obj(arr(fields["titledSingle"]["oneOf"])[0])) == {"const", "title"}
        assert "enum" not in fields["titledSingle"]
        assert len(arr(fields["legacyEnum"]["enumNames"])) == len(arr(fields["legacyEnum"]["enum"])) == 3
        assert obj(fields["untitledMulti"]["items"])["enum"] == ["option1", "option2", "option3"]
        assert set(obj(arr(obj(fields["titledMulti"]["items"])["anyOf"])[0])) == {"const", "title"}
        assert "value2" in text_of(result)


# --- streams -------------------------------------------------------------------------------------------------------


async def test_a_stream_is_closed_before_the_result_which_is_fetched() -> None:
    async with everything() as port:
        client = Legacy(port, "2025-11-25")
        await client.open()
        message = client.request("tools/call", {"name": "test_reconnection", "arguments": {}})
        async with client.posted(message) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            events = []
            while (event := await answer.event()) is not None:
                events.append(event)
        assert events[0].fields["id"]
        assert not events[0].data
        assert any("retry" in event.fields for event in events)
        assert not any(event.data for event in events)
        last = [event.fields["id"] for event in events if "id" in event.fields][-1]
        async with client.got(last) as answer:
            assert answer.status == 200
            response = await answer.response(message["id"])
        assert text_of(obj(response["result"])) == "Reconnection test completed successfully."


async def test_several_streams_are_open_at_once() -> None:
    async with everything() as port:
        client = Legacy(port, "2025-11-25")
        await client.open()

        async def ask() -> None:
            assert arr((await client.call("tools/list"))[0]["tools"])

        async with client.got() as standing:
            assert standing.status == 200
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(ask)


async def test_changes_are_told_on_the_standing_stream() -> None:
    async with everything() as port:
        client = Legacy(port, "2025-11-25")
        await client.open()
        async with client.got() as standing:
            await client.tool("test_trigger_tool_change")
            told = await standing.message()
        assert told is not None
        assert told["method"] == "notifications/tools/list_changed"


# --- the program ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_the_program_serves_it_until_it_is_told_to_stop(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "everything", "--port", "0"]
    with subprocess.Popen(command, cwd=FIXTURES, stdout=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            found = re.fullmatch(r"Serving at http://localhost:(\d+)/mcp\n", program.stdout.readline())
            assert found is not None
            client = Legacy(int(found[1]), "2025-11-25")
            assert obj((await client.open())["serverInfo"])["name"] == "everything"
            program.send_signal(number)
            assert await trio.to_thread.run_sync(program.wait, 30) == 0
        finally:
            program.kill()
