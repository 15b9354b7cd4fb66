"""Throttling of progress and rate limits of log messages, and the redaction of log messages."""

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
from mcp_server.connection.rate_limiter import RateLimiter

ALL_REVISIONS = pytest.mark.parametrize("revision", list(REVISIONS.values()), ids=str)
Clock = trio.testing.MockClock


async def run(client: RawClient, name: str = "work", **arguments: JsonValue) -> None:
    client.log_level = "debug"
    await client.call("tools/call", {"name": name, "arguments": arguments, "_meta": {"progressToken": "t"}})


def progress_values(client: RawClient) -> list[object]:
    return [notification["progress"] for notification in client.notifications_of("notifications/progress")]


def log_data(client: RawClient) -> list[object]:
    return [notification["data"] for notification in client.notifications_of("notifications/message")]


# --- the rate limiter ------------------------------------------------------------------------------------------------


@given(st.integers(1, 50), st.lists(st.floats(0, 3), max_size=200), st.floats(-1e6, 1e9))
@pytest.mark.property
def test_rate_limiter_allows_at_most_twice_the_rate_per_second(
    per_second: int, pauses: list[float], start_time: float
) -> None:
    allowance = RateLimiter(per_second)
    now, times = start_time, []
    for pause in pauses:
        now += pause / per_second
        if allowance.take(now):
            times.append(now)
    for start in times:
        # The saved allowance, and the allowance of the second itself.
        assert len([each for each in times if start <= each < start + 1]) <= 2 * per_second + 1


@given(st.integers(1, 1_000), st.floats(-1e6, 1e9))
def test_rate_limiter_allows_burst_of_one_second(per_second: int, now: float) -> None:
    allowance = RateLimiter(per_second)
    assert [allowance.take(now) for _ in range(per_second + 1)] == [True] * per_second + [False]
    assert allowance.take(now + 1.001 / per_second)
    assert not allowance.take(now + 1.001 / per_second)


def test_rate_limiter_keeps_reserve() -> None:
    allowance = RateLimiter(10)
    assert allowance.take(0, left=9)
    assert not allowance.take(0, left=9)
    assert allowance.take(0.1, left=9)


# --- progress --------------------------------------------------------------------------------------------------------


def make_progress_server(limits: Limits) -> Server:
    server = Server("s", version="0", limits=limits)

    @server.tool
    async def work(context: Context, steps: int = 100, pause: float = 0.0) -> str:
        for step in range(1, steps + 1):
            await context.progress(step, steps, f"step {step}")
            await trio.sleep(pause)
        return "done"

    return server


@ALL_REVISIONS
@pytest.mark.spec("progress.rate-limit")
async def test_progress_throttled_sends_first_and_last_value(
    revision: Revision, autojump_clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(make_progress_server(Limits(progress_per_second=5)), revision) as client:
        await run(client)
        assert progress_values(client) == [1, 2, 3, 4, 5, 100]
        assert [notification.get("message") for notification in client.notifications_of("notifications/progress")][
            -1
        ] in ("step 100", None)
        client.notifications.clear()
        await run(client, steps=41, pause=0.1)
        # At ten per second every other value is sent after the initial burst.
        assert progress_values(client) == [1, 2, 3, 4, 5, 6, 7, 8, 9, *range(11, 41, 2), 41]
    assert not caplog.records


async def test_progress_is_throttled_per_request(autojump_clock: Clock) -> None:
    async with connected(make_progress_server(Limits(progress_per_second=2)), R2026_07_28) as client:
        await run(client)
        await run(client)
        assert progress_values(client) == [1, 2, 100, 1, 2, 100]


@pytest.mark.parametrize("outcome", ["error", "failure", "client request"])
@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_throttled_progress_sent_before_any_outcome(
    outcome: str, revision: Revision, autojump_clock: Clock
) -> None:
    server = Server("s", version="0", limits=Limits(progress_per_second=1))
    progress_before_response: list[list[object]] = []

    @server.tool
    async def work(context: Context) -> str:
        for step in (1, 2, 3):
            await context.progress(step)
        if outcome == "client request":
            await context.list_roots()
            progress_before_response.append(progress_values(client)[:2])
        if outcome == "failure":
            raise ValueError
        raise ToolError("it is broken")

    roots: JsonObject = {"roots": []}
    async with connected(
        server, revision, capabilities=ALL_CAPABILITIES, answers={"roots/list": lambda _: roots}
    ) as client:
        await client.ask("tools/call", {"name": "work", "_meta": {"progressToken": "t"}})
        repeated = [1, 3] if outcome == "client request" and revision is R2026_07_28 else []
        assert progress_values(client) == [1, 3, *repeated]
        assert progress_before_response == ([[1, 3]] if outcome == "client request" else [])


async def test_throttled_progress_of_cancelled_request_not_sent(autojump_clock: Clock) -> None:
    server = Server("s", version="0", limits=Limits(progress_per_second=1))
    started = trio.Event()

    @server.tool
    async def work(context: Context) -> str:
        for step in (1, 2, 3):
            await context.progress(step)
            await context.info(step)
        started.set()
        await trio.Event().wait()
        return ""

    async with connected(server, R2025_11_25) as client:
        id = await client.start("tools/call", {"name": "work", "_meta": {"progressToken": "t"}})
        await started.wait()
        await client.notify("notifications/cancelled", {"requestId": id})
        await trio.testing.wait_all_tasks_blocked()
        assert progress_values(client) == [1]
        assert log_data(client) == [1, 2, 3]


@pytest.mark.parametrize("invalid", [float("nan"), float("inf"), 2, 1])
async def test_progress_not_increasing_does_not_replace_throttled_value(invalid: float, autojump_clock: Clock) -> None:
    server = Server("s", version="0", limits=Limits(progress_per_second=1))

    @server.tool
    async def work(context: Context) -> str:
        await context.progress(1)
        await context.progress(3)
        await context.progress(invalid)
        await trio.sleep(2)
        await context.progress(invalid)
        return ""

    async with connected(server, R2025_11_25) as client:
        await run(client)
        assert progress_values(client) == [1, 3]


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
async def test_unserializable_progress_does_not_affect_response(
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
        assert progress_values(client) == [1, 1]
    assert "cannot be sent" in caplog.text
    async with hosted(server.asgi(), R2026_07_28) as http:
        assert "result" in await http.post(http.call("work", token="t")).answer()


async def test_throttled_progress_over_http_precedes_result(autojump_clock: Clock) -> None:
    async with hosted(make_progress_server(Limits(progress_per_second=1)).asgi(), R2026_07_28) as client:
        reply = client.post(client.call("work", token="t"))
        messages = [await reply.message() for _ in range(3)]
        assert [message.get("method") for message in messages] == ["notifications/progress"] * 2 + [None]
        assert messages[1]["params"] == {"progressToken": "t", "progress": 100, "total": 100, "message": "step 100"}


# --- log messages ----------------------------------------------------------------------------------------------------


def make_logging_server(limits: Limits) -> Server:
    server = Server("s", version="0", limits=limits)

    @server.tool
    async def talk(context: Context, count: int, pause: float = 0.0) -> str:
        for number in range(count):
            await context.error(number)
            await trio.sleep(pause)
        return "done"

    return server


@ALL_REVISIONS
@pytest.mark.spec("logging.rate-limit", "logging.server-hygiene", "logging.implementation-hygiene")
async def test_log_messages_over_rate_are_counted_and_dropped(revision: Revision, autojump_clock: Clock) -> None:
    async with connected(make_logging_server(Limits(log_messages_per_second=4)), revision) as client:
        await run(client, "talk", count=10)
        summary = "log messages dropped: 6; at most 4 per second are sent (Limits.log_messages_per_second)"
        assert log_data(client) == [0, 1, 2, 3, summary]
        assert {str(notification["level"]) for notification in client.notifications_of("notifications/message")} == {
            "error"
        }


@ALL_REVISIONS
async def test_dropped_log_messages_are_summarized_later(revision: Revision, autojump_clock: Clock) -> None:
    async with connected(make_logging_server(Limits(log_messages_per_second=4)), revision) as client:
        await run(client, "talk", count=20, pause=0.125)
        data = log_data(client)
        summaries = [each for each in data if isinstance(each, str)]
        numbers = [each for each in data if isinstance(each, int)]
        assert numbers == sorted(numbers)
        dropped = sum(int(text.split(": ")[1].split(";")[0]) for text in summaries)
        assert len(numbers) + dropped == 20
        # A summary does not follow every message that is sent.
        assert 2 <= len(summaries) <= len(numbers) / 2


async def test_log_rate_limit_applies_to_session(autojump_clock: Clock) -> None:
    async with connected(make_logging_server(Limits(log_messages_per_second=4)), R2025_11_25) as client:
        await run(client, "talk", count=4)
        client.notifications.clear()
        await run(client, "talk", count=3)
        assert log_data(client) == [
            "log messages dropped: 3; at most 4 per second are sent (Limits.log_messages_per_second)"
        ]


async def test_log_messages_below_level_do_not_count(autojump_clock: Clock) -> None:
    server = Server("s", version="0", limits=Limits(log_messages_per_second=1))

    @server.tool
    async def talk(context: Context) -> str:
        for _ in range(10):
            await context.debug("no")
        await context.error("yes")
        return ""

    async with connected(server, R2025_11_25) as client:
        await client.call("tools/call", {"name": "talk"})
        assert log_data(client) == ["yes"]


def without_secrets(data: JsonValue) -> JsonValue:
    if isinstance(data, dict):
        return {key: "***" if key == "password" else without_secrets(value) for key, value in data.items()}
    return data


@ALL_REVISIONS
@pytest.mark.spec(
    "logging.remove-sensitive",
    "logging.no-credentials",
    "logging.no-secrets",
    "logging.no-pii",
    "logging.no-internals",
    "logging.monitor",
)
async def test_log_message_is_redacted(revision: Revision) -> None:
    server = Server("s", version="0", redact=without_secrets)

    @server.tool
    async def talk(context: Context) -> str:
        await context.info({"user": "a", "password": "swordfish"}, "password")
        await context.debug({"password": "swordfish"})
        return ""

    async with connected(server, revision) as client:
        client.log_level = "info"
        await client.call("tools/call", {"name": "talk"})
        assert client.notifications_of("notifications/message") == [
            {"level": "info", "data": {"user": "a", "password": "***"}, "logger": "password"}
        ]


@pytest.mark.parametrize("revision", LEGACY, ids=str)
async def test_log_message_with_failing_redaction_dropped(revision: Revision, caplog: pytest.LogCaptureFixture) -> None:
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
        assert log_data(client) == ["b"]
    assert "log message dropped: the redact function failed" in caplog.text


def test_rate_limits_have_defaults() -> None:
    assert (Limits().progress_per_second, Limits().log_messages_per_second) == (20, 100)
