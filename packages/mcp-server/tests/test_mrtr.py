"""Client requests of handlers: one API for all revisions, by requests to the client or by MRTR."""

from __future__ import annotations

import enum
import logging
import math
from typing import Literal

import attrs
import pytest
import trio
from raw_client import Answer, RawClient, as_list, as_object, connected, text_of

from mcp_core import types as t
from mcp_core.errors import ErrorCode, RequestFailed
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.methods import ELICITATION_CREATE, PING
from mcp_core.revisions import (
    LEGACY,
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    REVISIONS,
    Revision,
)
from mcp_server import (
    Context,
    ElicitationAccepted,
    ElicitationCancelled,
    ElicitationDeclined,
    InputPolicy,
    InputRequired,
    InvalidAnswer,
    Server,
    SyncContext,
)

ALL = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)
WITH_FORMS = pytest.mark.parametrize("revision", [R2025_06_18, R2025_11_25, R2026_07_28], ids=str)
WITH_URLS = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)


@attrs.frozen
class Booking:
    """A booking."""

    seats: int
    window: bool = False


class Color(enum.Enum):
    """A color."""

    RED = "red"
    LIGHT_BLUE = "light_blue"


@attrs.frozen
class ColorForm:
    """A form with an enumeration."""

    favorite: Color


@attrs.frozen
class DrinkForm:
    """A form with a list of choices."""

    likes: list[Literal["tea", "coffee"]]


def accept(**content: JsonValue) -> JsonObject:
    return {"action": "accept", "content": content}


def model_says(text: str) -> JsonObject:
    return {"role": "assistant", "content": {"type": "text", "text": text}, "model": "m", "stopReason": "endTurn"}


@pytest.fixture
def server() -> Server:
    server = Server("asks", version="0")

    @server.tool
    async def book(context: Context) -> str:
        match await context.elicit(Booking, "How many seats?"):
            case ElicitationAccepted(value):
                return f"booked {value!r}"
            case ElicitationDeclined():
                return "declined"
            case ElicitationCancelled():
                return "dismissed"

    @server.tool
    async def paint(context: Context) -> str:
        outcome = await context.elicit(ColorForm, "Which color?")
        return repr(outcome.value.favorite) if isinstance(outcome, ElicitationAccepted) else "none"

    @server.tool
    async def drink(context: Context) -> str:
        outcome = await context.elicit(DrinkForm, "What do you drink?")
        return repr(outcome.value.likes) if isinstance(outcome, ElicitationAccepted) else "none"

    @server.tool
    async def visit(context: Context) -> str:
        return repr(await context.elicit_url("https://example.org/pay", "Please pay."))

    @server.tool
    async def think(context: Context) -> str:
        result = await context.sample(
            "What is the answer?", max_tokens=10, system_prompt="Be brief.", stop_sequences=["."]
        )
        content = result.content
        return content.text if isinstance(content, t.TextContent) else repr(content)

    @server.tool
    async def look(context: Context) -> str:
        return ",".join(root.uri for root in await context.list_roots())

    return server


# --- elicitation, sampling and roots in each revision ----------------------------------------------------------------


@WITH_FORMS
@pytest.mark.spec(
    "elicitation.form-params",
    "elicitation.server-handles-actions",
    "elicitation.form-schema-required",
    "elicitation.mode-and-message",
    "elicitation.message-required",
    "elicitation.server-handles-decline",
    "elicitation.no-assumed-success",
    "elicitation.server-may-elicit",
    "stdio.server-no-requests",
)
async def test_elicit_form_returns_each_action(server: Server, revision: Revision) -> None:
    answers: list[JsonObject] = [accept(seats=2), {"action": "decline"}, {"action": "cancel"}]
    async with connected(server, revision, answers={"elicitation/create": lambda _: answers.pop(0)}) as client:
        assert await client.text("book") == "booked Booking(seats=2, window=False)"
        assert await client.text("book") == "declined"
        assert await client.text("book") == "dismissed"
        params = as_object(client.client_requests[0]["params"])
        assert params["message"] == "How many seats?"
        schema = as_object(params["requestedSchema"])
        assert schema["required"] == ["seats"]
        assert client.round_trips == (3 if revision is R2026_07_28 else 0)


@pytest.mark.spec("sampling.hints-other-provider", "sampling.client-may-modify")
@ALL
async def test_sample_returns_model_text(server: Server, revision: Revision) -> None:
    async with connected(server, revision, answers={"sampling/createMessage": lambda _: model_says("42")}) as client:
        assert await client.text("think") == "42"
        params = as_object(client.client_requests[0]["params"])
        assert params["maxTokens"] == 10
        assert params["stopSequences"] == ["."]
        (message,) = as_list(params["messages"])
        assert message == {"role": "user", "content": {"type": "text", "text": "What is the answer?"}}


@pytest.mark.spec("roots.request-shape")
@ALL
async def test_list_roots_returns_roots(server: Server, revision: Revision) -> None:
    answers: dict[str, Answer] = {"roots/list": lambda _: {"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]}}
    async with connected(server, revision, answers=answers) as client:
        assert await client.text("look") == "file:///a,file:///b"


@WITH_URLS
@pytest.mark.spec(
    "elicitation.url-params",
    "elicitation.url-request-params",
    "elicitation.mode-values",
    "elicitation.mode-and-message",
    "elicitation.server-handles-decline",
    "schema.elicit-url-params",
)
async def test_elicit_url_returns_each_action(server: Server, revision: Revision) -> None:
    answers: list[JsonObject] = [{"action": "accept"}, {"action": "cancel"}]
    async with connected(server, revision, answers={"elicitation/create": lambda _: answers.pop(0)}) as client:
        assert await client.text("visit") == "ElicitationAccepted(value=None)"
        params = as_object(client.client_requests[0]["params"])
        assert params["mode"] == "url"
        assert ("elicitationId" in params) == (revision is R2025_11_25)
        assert await client.text("visit") == "ElicitationCancelled()"


@WITH_FORMS
async def test_enum_form_uses_schema_of_revision(server: Server, revision: Revision) -> None:
    async with connected(server, revision, answers={"elicitation/create": lambda _: accept(favorite="red")}) as client:
        assert await client.text("paint") == "<Color.RED: 'red'>"
        schema = as_object(as_object(client.client_requests[0]["params"])["requestedSchema"])
        favorite = as_object(as_object(schema["properties"])["favorite"])
        assert ("oneOf" in favorite) == (revision is not R2025_06_18)
        assert ("enumNames" in favorite) == (revision is R2025_06_18)


@WITH_FORMS
async def test_multi_select_form_unsupported_revision_error_names_field(
    server: Server, revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(server, revision, answers={"elicitation/create": lambda _: accept(likes=["tea"])}) as client:
        if revision is R2025_06_18:
            await client.crash("drink")
            assert "likes" in caplog.text
        else:
            assert await client.text("drink") == "['tea']"


@WITH_FORMS
@pytest.mark.spec("elicitation.server-validates", "elicitation.server-validates-content")
async def test_elicit_content_not_matching_form_is_tool_error(server: Server, revision: Revision) -> None:
    async with connected(server, revision, answers={"elicitation/create": lambda _: accept(seats="two")}) as client:
        result = await client.tool("book")
        assert result["isError"] is True
        assert text_of(result) == (
            'the elicitation result does not fit the form: seats: expected an integer, got the string "two"'
        )


async def test_elicit_invalid_content_raises_invalid_answer() -> None:
    server = Server("s", version="0")

    @server.tool
    async def book(context: Context) -> str:
        try:
            await context.elicit(Booking, "How many seats?")
        except InvalidAnswer:
            return "nonsense"
        return "fine"

    async with connected(server, R2025_06_18, answers={"elicitation/create": lambda _: {"action": "accept"}}) as client:
        assert await client.text("book") == "nonsense"


# --- missing capabilities --------------------------------------------------------------------------------------------


@ALL
@pytest.mark.spec(
    "elicitation.only-supported-modes",
    "elicitation.unsupported-mode-not-sent",
    "roots.server-check-capability",
    "roots.server-checks-capability",
    "sampling.no-tools-without-capability",
)
async def test_client_request_without_capability_not_sent(server: Server, revision: Revision) -> None:
    async with connected(server, revision, capabilities={}) as client:
        for tool in ("book", "visit", "think", "look"):
            error = await client.fail("tools/call", {"name": tool})
            assert error["code"] == revision.missing_client_capability
            assert "requiredCapabilities" in as_object(error["data"])
        assert client.client_requests == []


@WITH_URLS
async def test_elicit_url_without_url_capability_fails(server: Server, revision: Revision) -> None:
    async with connected(server, revision, capabilities={"elicitation": {}}) as client:
        error = await client.fail("tools/call", {"name": "visit"})
        assert as_object(error["data"])["requiredCapabilities"] == {"elicitation": {"url": {}}}


@pytest.mark.parametrize("revision", [R2024_11_05, R2025_03_26], ids=str)
async def test_elicit_revision_without_elicitation_fails(server: Server, revision: Revision) -> None:
    async with connected(server, revision) as client:
        error = await client.fail("tools/call", {"name": "book"})
        assert "elicitation/create requires a client capability" in str(error["message"])


@pytest.mark.spec("mrtr.not-on-other-methods")
async def test_client_request_in_completion_handler_raises(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", version="0")

    @server.prompt
    async def greet(name: str) -> str:
        return name

    @server.completion(prompt="greet", argument="name")
    async def names(value: str, context: Context) -> list[str]:
        return [root.uri for root in await context.list_roots()]

    async with connected(server, R2026_07_28) as client:
        ref: JsonObject = {"type": "ref/prompt", "name": "greet"}
        error = await client.fail("completion/complete", {"ref": ref, "argument": {"name": "name", "value": ""}})
        assert error["code"] == ErrorCode.INTERNAL_ERROR
        assert "a handler of completion/complete cannot send client requests" in caplog.text


async def test_ping_from_handler_2026_07_28_raises(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", version="0")

    @server.tool
    async def ping(context: Context) -> str:
        await context.request(PING, t.PingRequestParams())
        return ""

    async with connected(server, R2026_07_28) as client:
        await client.crash("ping")
        assert "a server cannot send ping" in caplog.text
    async with connected(server, R2025_06_18, answers={"ping": lambda _: {}}) as client:
        assert await client.text("ping") == ""


@pytest.mark.spec("mrtr.ignore-unexpected", "mrtr.re-request-missing", "mrtr.no-assumption-of-retry")
async def test_keyed_elicitation_uses_early_input_response() -> None:
    server = Server("s", version="0")

    @server.tool
    async def greet(context: Context) -> str:
        outcome = await context.elicit(str, "Your name?", key="user_name")
        return f"Hello {outcome.value}" if isinstance(outcome, ElicitationAccepted) else "Hello"

    async with connected(server, R2026_07_28) as client:
        unexpected_inputs: list[JsonObject] = [{}, {"inputResponses": {"stray": accept(value="Ann")}}]
        for early in unexpected_inputs:
            params: JsonObject = {"name": "greet", **early}
            message = await client.response(await client.start("tools/call", params))
            assert list(as_object(as_object(message["result"])["inputRequests"])) == ["user_name"]
        input_responses: JsonObject = {"user_name": accept(value="Ann"), "stray": accept()}
        assert (
            text_of(await client.call("tools/call", {"name": "greet", "inputResponses": input_responses}))
            == "Hello Ann"
        )
    async with connected(server, R2025_11_25, answers={"elicitation/create": lambda _: accept(value="Ann")}) as client:
        assert await client.text("greet") == "Hello Ann"


@WITH_FORMS
async def test_ask_with_legacy_enum_schema_sent_unchanged(revision: Revision) -> None:
    server = Server("s", version="0")
    names = t.LegacyTitledEnumSchema(enum=("a", "b"), enum_names=("A", "B"))

    @server.tool
    async def choose(context: Context) -> str:
        form = t.RequestedSchema(properties={"choice": names})
        answer = await context.request(
            ELICITATION_CREATE, t.ElicitRequestFormParams(message="Choose.", requested_schema=form), key="choice"
        )
        return repr(answer.content)

    async with connected(server, revision, answers={"elicitation/create": lambda _: accept(choice="b")}) as client:
        assert await client.text("choose") == "{'choice': 'b'}"
        schema = as_object(as_object(client.client_requests[0]["params"])["requestedSchema"])
        choice = {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}
        assert schema["properties"] == {"choice": choice}


@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_client_error_response_raises_request_failed(revision: Revision) -> None:
    server = Server("s", version="0")

    @server.tool
    async def look(context: Context) -> str:
        try:
            await context.list_roots()
        except RequestFailed as failure:
            return f"{failure.code} {failure.message}"
        return ""

    async with connected(server, revision) as client:
        id = await client.start("tools/call", {"name": "look"})
        await client.wait_for(lambda: len(client.client_requests) == 1)
        error: JsonObject = {"code": -1, "message": "no"}
        await client.send({"jsonrpc": "2.0", "id": client.client_requests[0]["id"], "error": error})
        result = as_object((await client.response(id))["result"])
        assert text_of(result) == "-1 no"


# --- MRTR ------------------------------------------------------------------------------------------------------------


@ALL
@pytest.mark.spec("prompts.get-mrtr", "resources.read-mrtr", "tools.call-mrtr")
async def test_list_roots_in_prompt_and_resource_returns_roots(revision: Revision) -> None:
    server = Server("s", version="0")

    @server.prompt
    async def greet(context: Context) -> str:
        return (await context.list_roots())[0].uri

    @server.resource("x://{name}")
    async def read(name: str, context: Context) -> str:
        return name + (await context.list_roots())[0].uri

    async with connected(
        server, revision, answers={"roots/list": lambda _: {"roots": [{"uri": "file:///a"}]}}
    ) as client:
        (message,) = as_list((await client.call("prompts/get", {"name": "greet"}))["messages"])
        assert as_object(as_object(message)["content"])["text"] == "file:///a"
        (part,) = as_list((await client.call("resources/read", {"uri": "x://y"}))["contents"])
        assert as_object(part)["text"] == "yfile:///a"


@ALL
async def test_sequential_client_requests_run_side_effects_once(revision: Revision) -> None:
    server = Server("s", version="0")
    done: list[str] = []

    async def pay() -> JsonValue:
        done.append("pay")
        return {"receipt": 7}

    def note() -> JsonValue:
        done.append("note")
        return None

    @server.tool
    async def order(context: Context) -> str:
        receipt = await context.once("pay", pay)
        first = await context.sample("first", max_tokens=1)
        await context.once("note", note)
        second = await context.sample("second", max_tokens=1)
        third = await context.sample("second", max_tokens=1)
        assert await context.once("pay", pay) == receipt
        texts = [each.content.text for each in (first, second, third) if isinstance(each.content, t.TextContent)]
        return f"{receipt} {texts}"

    count = iter(range(10))
    answers = {"sampling/createMessage": lambda _: model_says(str(next(count)))}
    async with connected(server, revision, answers=answers) as client:
        assert await client.text("order") == "{'receipt': 7} ['0', '1', '2']"
        assert done == ["pay", "note"]
        assert client.round_trips == (3 if revision is R2026_07_28 else 0)


@ALL
async def test_concurrent_client_requests_share_one_round_trip(revision: Revision) -> None:
    server = Server("s", version="0")
    runs = 0

    @server.tool
    async def both(context: Context) -> str:
        nonlocal runs
        runs += 1
        found: dict[str, str] = {}

        async def think(about: str) -> None:
            if about == "b":
                await context.progress(1)
            content = (await context.sample(about, max_tokens=1)).content
            found[about] = content.text if isinstance(content, t.TextContent) else ""

        async with trio.open_nursery() as nursery:
            for about in ("a", "b", "c"):
                nursery.start_soon(think, about)
        return str(sorted(found.items()))

    def answer(params: JsonObject) -> JsonObject:
        return model_says(str(as_object(as_object(as_list(params["messages"])[0])["content"])["text"]).upper())

    async with connected(server, revision, answers={"sampling/createMessage": answer}) as client:
        assert await client.text("both") == "[('a', 'A'), ('b', 'B'), ('c', 'C')]"
        assert client.round_trips == (1 if revision is R2026_07_28 else 0)
        assert runs == client.round_trips + 1


async def test_once_running_completes_before_input_required() -> None:
    server = Server("s", version="0")
    done: list[str] = []

    @server.tool
    async def order(context: Context) -> str:
        async def slow() -> str:
            done.append("begun")
            for _ in range(20):
                await trio.lowlevel.checkpoint()
            done.append("paid")
            return "paid"

        async def pay() -> None:
            await context.once("pay", slow)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(pay)
            nursery.start_soon(context.list_roots)
        return "ok"

    async with connected(server, R2026_07_28, answers={"roots/list": lambda _: {"roots": []}}) as client:
        assert await client.text("order") == "ok"
        assert done == ["begun", "paid"]


async def test_once_failed_function_runs_again() -> None:
    server = Server("s", version="0")
    tries = 0

    def flaky() -> int:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise OSError("no line")
        return tries

    @server.tool
    async def work(context: Context) -> int:
        try:
            return await context.once("x", flaky)
        except OSError:
            return await context.once("x", flaky)

    for revision in (R2025_06_18, R2026_07_28):
        tries = 0
        async with connected(server, revision) as client:
            assert await client.text("work") == '{"result":2}'


@ALL
async def test_once_value_not_json_raises(revision: Revision, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", version="0")
    values: list[object] = [{1, 2}, (1, 2), math.nan, {1: 2}, Booking(seats=1)]

    @server.tool
    async def keep(context: Context) -> str:
        await context.once("key", lambda: values[0])
        return "kept"

    async with connected(server, revision) as client:
        while values:
            caplog.clear()
            await client.crash("keep")
            assert "under the key 'key' of Context.once" in caplog.text
            values.pop(0)


@ALL
async def test_client_request_inside_once_raises(revision: Revision, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", version="0")

    @server.tool
    async def nested(context: Context) -> str:
        async def ask() -> str:
            return (await context.list_roots())[0].uri

        return await context.once("key", ask)

    async with connected(server, revision) as client:
        await client.crash("nested")
        assert "cannot send client requests" in caplog.text


async def test_client_request_in_shielded_scope_raises(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", version="0")

    @server.tool
    async def stubborn(context: Context) -> str:
        with trio.CancelScope(shield=True):
            await context.list_roots()
        return "never"

    async with connected(server, R2026_07_28) as client:
        await client.crash("stubborn")
        assert "send client requests outside of the shielded scope" in caplog.text


async def test_input_required_runs_finally_and_skips_except() -> None:
    server = Server("s", version="0")
    log: list[str] = []

    @server.tool
    async def careful(context: Context) -> str:
        try:
            await context.list_roots()
        except Exception:  # noqa: BLE001  # what is tested: a handler that catches everything
            log.append("swallowed")
        finally:
            log.append("cleaned")
        return "done"

    async with connected(server, R2026_07_28, answers={"roots/list": lambda _: {"roots": []}}) as client:
        assert await client.text("careful") == "done"
        assert log == ["cleaned", "cleaned"]


async def test_sync_tool_client_request_from_thread_works() -> None:
    server = Server("s", version="0")

    @server.tool
    def look(context: SyncContext) -> str:
        return context.list_roots()[0].uri

    for revision in (R2025_06_18, R2026_07_28):
        answers: dict[str, Answer] = {"roots/list": lambda _: {"roots": [{"uri": "file:///a"}]}}
        async with connected(server, revision, answers=answers) as client:
            assert await client.text("look") == "file:///a"


# --- requestState ----------------------------------------------------------------------------------------------------


async def first_retry(client: RawClient, **arguments: JsonValue) -> JsonObject:
    """Return the params of the retry of the tool `look`, with the input response."""
    params: JsonObject = {"name": "look", "arguments": arguments}
    result = as_object((await client.response(await client.start("tools/call", params)))["result"])
    (key,) = as_object(result["inputRequests"])
    return {**params, "inputResponses": {key: {"roots": []}}, "requestState": result["requestState"]}


@pytest.mark.spec(
    "mrtr.state-integrity", "mrtr.state-tamper-rejected", "mrtr.state-bind-request", "mrtr.no-cross-request-use"
)
async def test_request_state_changed_or_of_other_request_rejected(server: Server) -> None:
    async with connected(server, R2026_07_28) as client:
        params = await first_retry(client)
        state = str(params["requestState"])
        position = len(state) // 2
        changed = state[:position] + ("A" if state[position] != "A" else "B") + state[position + 1 :]
        for invalid_state in (
            changed,
            "",
            "nonsense!",
            "é",
            "AAAA",
            state[:40],
            f"AAAAAAAAAAA{state[11:]}",
            state * 20_000,
        ):
            error = await client.fail("tools/call", {**params, "requestState": invalid_state})
            assert error["code"] == ErrorCode.INVALID_PARAMS
            assert "requestState" in str(error["message"])
        error = await client.fail("tools/call", {**params, "name": "think"})
        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert await client.call("tools/call", params)  # the state is still valid for its own request


async def test_request_state_of_other_server_valid_only_with_shared_key(server: Server) -> None:
    def other(keys: list[bytes]) -> Server:
        server = Server("asks", version="0", input_policy=InputPolicy(keys=keys))

        @server.tool
        async def look(context: Context) -> str:
            return f"{len(await context.list_roots())}"

        return server

    old, new = b"o" * 32, b"n" * 32
    async with connected(other([old]), R2026_07_28) as client:
        params = await first_retry(client)
    async with connected(other([new, old]), R2026_07_28) as client:
        assert text_of(await client.call("tools/call", params)) == "0"
    for keys in ([new], []):
        async with connected(other(keys), R2026_07_28) as client:
            assert (await client.fail("tools/call", params))["code"] == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("mrtr.state-expiry")
async def test_request_state_expired_returns_invalid_params(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(server, R2026_07_28) as client:
        params = await first_retry(client)
        now = 2_000_000_000.0
        monkeypatch.setattr("mcp_server.connection.client_requests.time.time", lambda: now)
        error = await client.fail("tools/call", params)
        assert error["code"] == ErrorCode.INVALID_PARAMS


async def test_request_state_forged_rejected_by_tool_without_requests() -> None:
    server = Server("s", version="0")

    @server.tool
    async def plain() -> str:
        return "fine"

    async with connected(server, R2026_07_28) as client:
        error = await client.fail("tools/call", {"name": "plain", "requestState": "forged"})
        assert error["code"] == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("mrtr.ignore-unexpected")
async def test_input_responses_without_state_accepted(server: Server) -> None:
    async with connected(server, R2026_07_28) as client:
        params = await first_retry(client)
        del params["requestState"]
        assert "isError" not in await client.call("tools/call", params)


@pytest.mark.spec("mrtr.validate-responses", "mrtr.protocol-error")
async def test_input_response_of_wrong_type_rejected(server: Server) -> None:
    async with connected(server, R2026_07_28) as client:
        params = await first_retry(client)
        (key,) = as_object(params["inputResponses"])
        error = await client.fail("tools/call", {**params, "inputResponses": {key: {"action": "accept"}}})
        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert "the response to roots/list" in str(error["message"])


async def test_round_trips_over_limit_return_invalid_request(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s", version="0", input_policy=InputPolicy(round_trips=3))

    @server.tool
    async def insist(context: Context) -> str:
        for number in range(10):
            await context.sample(f"sample {number}", max_tokens=1)
        return "done"

    async with connected(server, R2026_07_28, answers={"sampling/createMessage": lambda _: model_says("x")}) as client:
        error = await client.fail("tools/call", {"name": "insist"})
        assert error["code"] == ErrorCode.INVALID_REQUEST
        assert "InputPolicy.round_trips" in str(error["message"])
        assert client.round_trips == 3


async def test_cancelled_request_gets_no_input_required() -> None:
    server = Server("s", version="0")
    started = trio.Event()

    @server.tool
    async def slow(context: Context) -> str:
        started.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()

    async with connected(server, R2026_07_28) as client:
        id = await client.start("tools/call", {"name": "slow"})
        await started.wait()
        await client.notify("notifications/cancelled", {"requestId": id})
        await client.call("tools/list")
        assert id not in client._responses


async def test_sampling_result_with_bare_text_accepted() -> None:
    server = Server("s", version="0")

    @server.tool
    async def think(context: Context) -> str:
        messages = [t.SamplingMessage(role="user", content=t.TextContent(text="x"))]
        content = (await context.sample(messages, max_tokens=1)).content
        return content.text if isinstance(content, t.TextContent) else repr(content)

    bare: JsonObject = {"role": "assistant", "content": "just text", "model": "m"}
    for revision in (R2025_06_18, R2026_07_28):
        async with connected(server, revision, answers={"sampling/createMessage": lambda _: bare}) as client:
            assert await client.text("think") == "just text"


async def test_concurrent_once_functions_all_complete() -> None:
    server = Server("s", version="0")
    done: list[str] = []

    @server.tool
    async def order(context: Context) -> str:
        async def effect(name: str, steps: int) -> None:
            async def run() -> str:
                done.append("begun")
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                done.append(name)
                return name

            await context.once(name, run)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(effect, "short", 3)
            nursery.start_soon(effect, "long", 30)
            nursery.start_soon(context.list_roots)
        return "ok"

    async with connected(server, R2026_07_28, answers={"roots/list": lambda _: {"roots": []}}) as client:
        assert await client.text("order") == "ok"
        assert done == ["begun", "begun", "short", "long"]


@pytest.mark.parametrize(
    ("limits", "size", "setting"),
    [(Limits(), 2**20, "InputRequired.state"), (Limits(message_bytes=4_096), 2_000, "Limits.message_bytes")],
)
@pytest.mark.parametrize("by_hand", [True, False])
async def test_request_state_over_limit_returns_internal_error(
    limits: Limits, size: int, setting: str, by_hand: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("asks", version="0", limits=limits)

    @server.tool
    async def keep(context: Context) -> str | InputRequired:
        if by_hand:
            return InputRequired({"who": t.ListRootsRequestParams()}, state="secret" + "x" * size)
        await context.once("much", lambda: "secret" + "x" * size)
        await context.list_roots()
        return "never"

    async with connected(server, R2026_07_28) as client:
        response = await client.response(await client.start("tools/call", {"name": "keep", "arguments": {}}, id="q7"))
        assert response["error"] == {"code": ErrorCode.INTERNAL_ERROR, "message": "Internal error"}
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.levelno == logging.ERROR
    text = record.getMessage()
    assert "requestState" in text
    assert setting in text
    assert "'q7'" in text
    assert "secret" not in text
    assert record.exc_info is None


async def test_request_state_within_limit_round_trips() -> None:
    server = Server("asks", version="0", limits=Limits(message_bytes=8_192))

    @server.tool
    async def keep(context: Context) -> str:
        stored = await context.once("much", lambda: "x" * 2_000)
        roots = await context.list_roots()
        return f"{len(str(stored))} {len(roots)}"

    async with connected(server, R2026_07_28, answers={"roots/list": lambda _: {"roots": []}}) as client:
        assert text_of(await client.call("tools/call", {"name": "keep", "arguments": {}})) == "2000 0"
