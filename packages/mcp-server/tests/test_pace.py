"""How fast a handler tells its client something, and what of a log message is told."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from asgi_host import hosted
from hypothesis import given
from hypothesis import strategies as st
from raw_client import ALL_CAPABILITIES, RawClient, connected

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.revisions import LEGACY, R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_server import Context, Server, ToolError
from mcp_server.connection.throttle import Allowance

ALL = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)
Clock = trio.testing.MockClock


async def run(client: RawClient, name: str = "work", **arguments: JsonValue) -> None:
    client.log_level = "debug"
    await client.call("tools/call", {"name": name, "arguments": arguments, "_meta": {"progressToken": "t"}})


def values(client: RawClient) -> list[object]:
    return [note["progress"] for note in client.of("notifications/progress")]


def said(client: RawClient) -> list[object]:
    return [note["data"] for note in client.of("notifications/message")]


# --- how many are allowed --------------------------------------------------------------------------------------------


@given(st.integers(1, 50), st.lists(st.floats(0, 3), max_size=200), st.floats(-1e6, 1e9))
@pytest.mark.property
def test_no_second_has_more_than_twice_what_is_allowed(per_second: int, pauses: list[float], begin: float) -> None:
    allowance = Allowance(per_second)
    now, taken = begin, []
    for pause in pauses:
        now += pause / per_second
        if allowance.take(now):
            taken.append(now)
    for start in taken:
        # What was left over, and what came meanwhile.
        assert len([each for each in taken if start <= each < start + 1]) <= 2 * per_second + 1


@given(st.integers(1, 1_000), st.floats(-1e6, 1e9))
def test_a_burst_of_one_second_goes_through_and_no_more(per_second: int, now: float) -> None:
    allowance = Allowance(per_second)
    assert [allowance.take(now) for _ in range(per_second + 1)] == [True] * per_second + [False]
    assert allowance.take(now + 1.001 / per_second)
    assert not allowance.take(now + 1.001 / per_second)


def test_some_can_be_left_for_others() -> None:
    allowance = Allowance(10)
    assert allowance.take(0, left=9)
    assert not allowance.take(0, left=9)
    assert allowance.take(0.1, left=9)


# --- progress --------------------------------------------------------------------------------------------------------


def worker(limits: Limits) -> Server:
    server = Server("s", version="0", limits=limits)

    @server.tool
    async def work(context: Context, steps: int = 100, pause: float = 0.0) -> str:
        for step in range(1, steps + 1):
            await context.progress(step, steps, f"step {step}")
            await trio.sleep(pause)
        return "done"

    return server


@ALL
@pytest.mark.spec("progress.rate-limit")
async def test_the_first_and_the_last_value_are_sent_and_few_between(
    revision: Revision, autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(worker(Limits(progress_per_second=5)), revision) as client:
        await run(client)
        assert values(client) == [1, 2, 3, 4, 5, 100]
        assert [note.get("message") for note in client.of("notifications/progress")][-1] in ("step 100", None)
        client.notifications.clear()
        await run(client, steps=41, pause=0.1)
        # One in two goes through at ten a second, when the first second's worth is used up.
        assert values(client) == [1, 2, 3, 4, 5, 6, 7, 8, 9, *range(11, 41, 2), 41]
    assert not caplog.records


async def test_progress_is_bounded_for_each_request_by_itself(autojump_clock: Clock) -> None:
    async with connected(worker(Limits(progress_per_second=2)), R2026_07_28) as client:
        await run(client)
        await run(client)
        assert values(client) == [1, 2, 100, 1, 2, 100]


@pytest.mark.parametrize("outcome", ["error", "failure", "question"])
@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_what_was_held_back_is_sent_however_the_call_ends(
    outcome: str, revision: Revision, autojump_clock: Clock
) -> None:
    server = Server("s", version="0", limits=Limits(progress_per_second=1))
    before_the_answer: list[list[object]] = []

    @server.tool
    async def work(context: Context) -> str:
        for step in (1, 2, 3):
            await context.progress(step)
        if outcome == "question":
            await context.list_roots()
            before_the_answer.append(values(client)[:2])
        if outcome == "failure":
            raise ValueError
        raise ToolError("it is broken")

    roots: JsonObject = {"roots": []}
    async with connected(
        server, revision, capabilities=ALL_CAPABILITIES, answers={"roots/list": lambda _: roots}
    ) as client:
        await client.ask("tools/call", {"name": "work", "_meta": {"progressToken": "t"}})
        again = [1, 3] if outcome == "question" and revision is R2026_07_28 else []
        assert values(client) == [1, 3, *again]
        assert before_the_answer == ([[1, 3]] if outcome == "question" else [])


async def test_nothing_that_was_held_back_is_sent_for_a_cancelled_request(autojump_clock: Clock) -> None:
    server = Server("s", version="0", limits=Limits(progress_per_second=1))
    begun = trio.Event()

    @server.tool
    async def work(context: Context) -> str:
        for step in (1, 2, 3):
            await context.progress(step)
            await context.info(step)
        begun.set()
        await trio.Event().wait()
        return ""

    async with connected(server, R2025_11_25) as client:
        id = await client.start("tools/call", {"name": "work", "_meta": {"progressToken": "t"}})
        await begun.wait()
        await client.notify("notifications/cancelled", {"requestId": id})
        await trio.testing.wait_all_tasks_blocked()
        assert values(client) == [1]
        assert said(client) == [1, 2, 3]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 2, 1])
async def test_a_value_that_does_not_grow_does_not_take_the_place_of_one_that_is_held_back(
    bad: float, autojump_clock: Clock
) -> None:
    server = Server("s", version="0", limits=Limits(progress_per_second=1))

    @server.tool
    async def work(context: Context) -> str:
        await context.progress(1)
        await context.progress(3)
        await context.progress(bad)
        await trio.sleep(2)
        await context.progress(bad)
        return ""

    async with connected(server, R2025_11_25) as client:
        await run(client)
        assert values(client) == [1, 3]


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_a_value_that_cannot_be_said_does_not_spoil_the_answer(
    revision: Revision, autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("s", version="0", limits=Limits(progress_per_second=1))

    @server.tool
    async def work(context: Context) -> str:
        await context.progress(1)
        await context.progress(2, message="\ud800")
        return "done"

    async with connected(server, revision) as client:
        await run(client)
        await run(client)
        assert values(client) == [1, 1]
    assert "cannot be sent" in caplog.text
    async with hosted(server.asgi(), R2026_07_28) as http:
        assert "result" in await http.post(http.call("work", token="t")).answer()


async def test_over_http_the_last_value_comes_before_the_result(autojump_clock: Clock) -> None:
    async with hosted(worker(Limits(progress_per_second=1)).asgi(), R2026_07_28) as client:
        reply = client.post(client.call("work", token="t"))
        messages = [await reply.message() for _ in range(3)]
        assert [message.get("method") for message in messages] == ["notifications/progress"] * 2 + [None]
        assert messages[1]["params"] == {"progressToken": "t", "progress": 100, "total": 100, "message": "step 100"}


# --- log messages ----------------------------------------------------------------------------------------------------


def talker(limits: Limits) -> Server:
    server = Server("s", version="0", limits=limits)

    @server.tool
    async def talk(context: Context, count: int, pause: float = 0.0) -> str:
        for number in range(count):
            await context.error(number)
            await trio.sleep(pause)
        return "done"

    return server


@ALL
@pytest.mark.spec("logging.rate-limit", "logging.server-hygiene", "logging.implementation-hygiene")
async def test_too_many_log_messages_are_counted_instead_of_sent(revision: Revision, autojump_clock: Clock) -> None:
    async with connected(talker(Limits(log_messages_per_second=4)), revision) as client:
        await run(client, "talk", count=10)
        summary = "log messages dropped: 6; at most 4 per second are sent (Limits.log_messages_per_second)"
        assert said(client) == [0, 1, 2, 3, summary]
        assert {str(note["level"]) for note in client.of("notifications/message")} == {"error"}


@ALL
async def test_what_was_dropped_is_told_when_it_eases(revision: Revision, autojump_clock: Clock) -> None:
    async with connected(talker(Limits(log_messages_per_second=4)), revision) as client:
        await run(client, "talk", count=20, pause=0.125)
        told = said(client)
        summaries = [each for each in told if isinstance(each, str)]
        numbers = [each for each in told if isinstance(each, int)]
        assert numbers == sorted(numbers)
        dropped = sum(int(text.split(": ")[1].split(";")[0]) for text in summaries)
        assert len(numbers) + dropped == 20
        # Not each message that goes through brings its own count.
        assert 2 <= len(summaries) <= len(numbers) / 2


async def test_log_messages_are_bounded_for_all_calls_of_a_session_together(autojump_clock: Clock) -> None:
    async with connected(talker(Limits(log_messages_per_second=4)), R2025_11_25) as client:
        await run(client, "talk", count=4)
        client.notifications.clear()
        await run(client, "talk", count=3)
        assert said(client) == [
            "log messages dropped: 3; at most 4 per second are sent (Limits.log_messages_per_second)"
        ]


async def test_messages_that_nobody_wants_do_not_count(autojump_clock: Clock) -> None:
    server = Server("s", version="0", limits=Limits(log_messages_per_second=1))

    @server.tool
    async def talk(context: Context) -> str:
        for _ in range(10):
            await context.debug("no")
        await context.error("yes")
        return ""

    async with connected(server, R2025_11_25) as client:
        await client.call("tools/call", {"name": "talk"})
        assert said(client) == ["yes"]


def without_secrets(data: JsonValue) -> JsonValue:
    if isinstance(data, dict):
        return {key: "***" if key == "password" else without_secrets(value) for key, value in data.items()}
    return data


@ALL
@pytest.mark.spec(
    "logging.remove-sensitive",
    "logging.no-credentials",
    "logging.no-secrets",
    "logging.no-pii",
    "logging.no-internals",
    "logging.monitor",
)
async def test_what_a_client_must_not_see_is_taken_out(revision: Revision) -> None:
    server = Server("s", version="0", redact=without_secrets)

    @server.tool
    async def talk(context: Context) -> str:
        await context.info({"user": "a", "password": "swordfish"}, "password")
        await context.debug({"password": "swordfish"})
        return ""

    async with connected(server, revision) as client:
        client.log_level = "info"
        await client.call("tools/call", {"name": "talk"})
        assert client.of("notifications/message") == [
            {"level": "info", "data": {"user": "a", "password": "***"}, "logger": "password"}
        ]


@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_a_message_that_could_not_be_redacted_is_not_sent(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    def redact(data: JsonValue) -> JsonValue:
        if data == "a":
            raise ValueError("broken")
        return data

    server = Server("s", version="0", redact=redact)

    @server.tool
    async def talk(context: Context) -> str:
        await context.info("a")
        await context.info("b")
        return "done"

    async with connected(server, revision) as client:
        assert await client.text("talk") == "done"
        assert said(client) == ["b"]
    assert "log message dropped: the redact function failed" in caplog.text


def test_the_bounds_have_defaults() -> None:
    assert (Limits().progress_per_second, Limits().log_messages_per_second) == (20, 100)
