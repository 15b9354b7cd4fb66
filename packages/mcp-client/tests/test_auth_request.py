"""Requests with credentials: what an authorizer is told, what it decides, and what becomes of the connections."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from zoo import Answer, Asked, Reply, Server, legacy, modern, serving

from mcp_client import open_http
from mcp_client.auth import Authorizer, ConnectionTarget, ObservedResponse
from mcp_client.transports.http.authorized_request import operation_of
from mcp_core.errors import AccessDenied, AuthorizationError, RequestTimeout
from mcp_core.jsonrpc.messages import Batch, ErrorObject, ErrorResponse, Message, Notification, Request
from mcp_core.oauth.steps import Pairs


@attrs.define
class Numbers:
    """Gives each request the next number, and renews without end if it is let."""

    curable: Callable[[ObservedResponse], bool] = lambda answer: answer.status in (401, 403)
    number: int = 0
    seen: list[ObservedResponse] = attrs.field(factory=list)
    renewed: list[ObservedResponse] = attrs.field(factory=list)
    failure: Exception | None = None

    extensions: tuple[str, ...] = ()

    def authorizer(self, site: ConnectionTarget) -> Authorizer:
        return self

    async def headers(self, method: str, url: str) -> Pairs:
        await trio.lowlevel.checkpoint()
        self.number += 1
        return (("Authorization", f"Number {self.number}"),)

    async def identity(self) -> str | None:
        return "somebody"

    def answered(self, answer: ObservedResponse) -> bool:
        self.seen.append(answer)
        return self.curable(answer)

    async def renew(self, answer: ObservedResponse) -> None:
        await trio.lowlevel.checkpoint()
        self.renewed.append(answer)
        if self.failure is not None:
            raise self.failure


def refusing(status: int, times: int, rpc: str = "tools/call") -> Answer:
    left = [times]

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == rpc and left[0]:
            left[0] -= 1
            await reply.body(status, b"no " * 10, "text/plain", {"WWW-Authenticate": "Number"})
        else:
            await modern()(asked, reply)

    return answer


async def test_every_answer_is_told_with_what_it_is_the_answer_to() -> None:
    auth = Numbers()
    async with serving(modern()) as server, open_http(server.url, auth=auth) as client:
        await client.call_tool("echo")
    assert [(each.method, each.url, each.status, each.operation, each.repeats) for each in auth.seen] == [
        ("POST", server.url, 200, "server/discover", 0),
        ("POST", server.url, 200, "tools/call echo", 0),
    ]
    assert auth.seen[1].sent == (("Authorization", "Number 2"),)
    assert ("content-type", "application/json") in auth.seen[1].headers
    assert "Number 2" not in repr(auth.seen[1])


@pytest.mark.parametrize("status", [401, 403])
async def test_a_request_that_was_refused_is_made_again_on_the_same_connection_with_new_headers(status: int) -> None:
    auth = Numbers()
    async with serving(refusing(status, 2)) as server, open_http(server.url, auth=auth) as client:
        assert not (await client.call_tool("echo")).is_error
        assert server.connections == 1
    assert [asked.headers["authorization"] for asked in server.asked] == [f"Number {n}" for n in (1, 2, 3, 4)]
    assert len({asked.body for asked in server.asked if asked.rpc == "tools/call"}) == 1
    assert [each.repeats for each in auth.renewed] == [0, 1]


async def test_a_refusal_whose_page_comes_later_does_not_cost_the_connection() -> None:
    refused = False

    async def answer(asked: Asked, reply: Reply) -> None:
        nonlocal refused
        if asked.rpc == "tools/call" and not refused:
            refused = True
            await reply.raw(b"HTTP/1.1 401 no\r\nContent-Length: 2\r\n\r\n")
            await trio.testing.wait_all_tasks_blocked(0.02)
            await reply.raw(b"no")
        else:
            await modern()(asked, reply)

    async with serving(answer) as server, open_http(server.url, auth=Numbers()) as client:
        await client.call_tool("echo")
        assert server.connections == 1


async def test_a_request_is_not_made_again_for_ever() -> None:
    auth = Numbers()
    async with serving(refusing(401, 1_000)) as server, open_http(server.url, auth=auth) as client:
        with pytest.raises(AccessDenied, match="no no no"):
            await client.call_tool("echo")
        assert server.rpcs().count("tools/call") == 7


async def test_a_refusal_that_cannot_be_cured_is_the_callers_with_all_it_said() -> None:
    auth = Numbers(curable=lambda answer: False)
    async with serving(refusing(403, 1)) as server, open_http(server.url, auth=auth) as client:
        with pytest.raises(AccessDenied, match="no no no") as caught:
            await client.call_tool("echo")
        assert caught.value.challenges == ("Number",)
        await client.call_tool("echo")
    assert auth.renewed == []


async def test_what_an_authorizer_raises_is_the_callers_and_the_client_lives_on() -> None:
    auth = Numbers(failure=AuthorizationError("no token"))
    async with serving(refusing(401, 1)) as server, open_http(server.url, auth=auth) as client:
        with pytest.raises(AuthorizationError, match="no token") as caught:
            await client.call_tool("echo")
        assert caught.value.context.method == "tools/call"
        await client.call_tool("echo")
        assert server.open == 1


async def test_a_refusal_whose_page_does_not_end_holds_nobody_up(autojump_clock: trio.testing.MockClock) -> None:
    refused = False

    async def answer(asked: Asked, reply: Reply) -> None:
        nonlocal refused
        if asked.rpc == "tools/call" and not refused:
            refused = True
            await reply.raw(b"HTTP/1.1 401 no\r\nContent-Length: 1000\r\n\r\nno")
            await reply.hang()
        else:
            await modern()(asked, reply)

    auth = Numbers()
    async with serving(answer) as server, open_http(server.url, auth=auth) as client:
        before = trio.current_time()
        await client.call_tool("echo")
        assert trio.current_time() - before <= 2


async def test_a_refusal_that_is_cut_off_or_compressed_is_one_all_the_same() -> None:
    bodies = [
        b"HTTP/1.1 401 no\r\nContent-Length: 1000\r\n\r\nno",
        b"HTTP/1.1 401 no\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nno",
    ]

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "tools/call" and bodies:
            await reply.raw(bodies.pop(0))
            await reply.cut()
        else:
            await modern()(asked, reply)

    async with serving(answer) as server, open_http(server.url, auth=Numbers()) as client:
        assert not (await client.call_tool("echo")).is_error


async def test_who_gives_up_while_a_refusal_is_read_leaves_no_connection_behind() -> None:
    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "tools/call":
            await reply.raw(b"HTTP/1.1 401 no\r\nContent-Length: 1000\r\n\r\nno")
            await reply.hang()
        else:
            await modern()(asked, reply)

    async def until_closed(server: Server) -> None:
        while server.open:
            await trio.testing.wait_all_tasks_blocked(0.01)

    async with serving(answer) as server, open_http(server.url, auth=Numbers()) as client:
        with trio.move_on_after(0.05):
            await client.call_tool("echo")
        with trio.fail_after(5):
            await until_closed(server)


async def test_messages_and_the_end_of_a_session_are_told_by_what_they_are() -> None:
    auth = Numbers()
    async with serving(legacy()) as server, open_http(server.url, auth=auth) as client:
        await client.call_tool("echo")
    told = [(each.method, each.operation, each.awaited) for each in auth.seen]
    assert ("POST", "notifications/initialized", True) in told
    assert ("GET", "GET", False) in told
    assert told[-1] == ("DELETE", "DELETE", True)


async def test_an_authorizer_that_hangs_is_bounded_by_the_deadlines(autojump_clock: trio.testing.MockClock) -> None:
    class Hanging(Numbers):
        async def headers(self, method: str, url: str) -> Pairs:
            await trio.sleep_forever()

    async with serving(modern()) as server:
        with pytest.raises(RequestTimeout, match="connect"):
            async with open_http(server.url, auth=Hanging()):
                pass


TEXT = st.text(max_size=5)


@pytest.mark.parametrize(
    ("message", "operation"),
    [
        (Request(1, "tools/call", {"name": "x"}), "tools/call x"),
        (Request(1, "resources/read", {"uri": "file:///x"}), "resources/read file:///x"),
        (Request(1, "tools/list", {}), "tools/list"),
        (Request(1, "tools/call", {"name": 1}), "tools/call"),
        (Request(1, "ping", None), "ping"),
        (Notification("notifications/x", None), "notifications/x"),
        (Batch(members=()), None),
        (ErrorResponse(1, ErrorObject(1, "x")), None),
        (None, None),
    ],
)
def test_an_operation_is_a_method_and_a_name(message: Message | Batch | None, operation: str | None) -> None:
    assert operation_of(message) == operation


@given(TEXT, st.dictionaries(TEXT, st.none() | st.integers() | TEXT))
@pytest.mark.property
def test_whatever_is_asked_for_has_an_operation(method: str, params: dict[str, str | int | None]) -> None:
    told = operation_of(Request(1, method, {**params}))
    assert told is not None
    assert told.startswith(method)
