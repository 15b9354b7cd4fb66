"""Authorized requests: what an authorizer receives, what it decides, and the connections afterward."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio
import trio.testing
from fake_http_server import ReceivedRequest, Reply, Responder, Server, legacy, modern, serving
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import open_http
from mcp_client.auth import Authorizer, ConnectionTarget, ObservedResponse
from mcp_client.transports.http.authorized_request import operation_of
from mcp_core.codec import Batch
from mcp_core.errors import AccessDenied, AuthorizationError, RequestTimeout
from mcp_core.jsonrpc.messages import ErrorObject, ErrorResponse, Message, Notification, Request
from mcp_core.oauth.steps import Pairs


@attrs.define
class NumberingAuthorizer:
    """An authorizer that sends the next number with each request, and accepts every renewal."""

    can_renew: Callable[[ObservedResponse], bool] = lambda answer: answer.status in (401, 403)
    number: int = 0
    answers: list[ObservedResponse] = attrs.field(factory=list)
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
        return "principal"

    def answered(self, answer: ObservedResponse) -> bool:
        self.answers.append(answer)
        return self.can_renew(answer)

    async def renew(self, answer: ObservedResponse) -> None:
        await trio.lowlevel.checkpoint()
        self.renewed.append(answer)
        if self.failure is not None:
            raise self.failure


def rejecting(status: int, times: int, rpc: str = "tools/call") -> Responder:
    remaining = [times]

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == rpc and remaining[0]:
            remaining[0] -= 1
            await reply.body(status, b"no " * 10, "text/plain", {"WWW-Authenticate": "Number"})
        else:
            await modern()(request, reply)

    return answer


async def test_authorizer_receives_every_response_with_its_operation() -> None:
    auth = NumberingAuthorizer()
    async with serving(modern()) as server, open_http(server.url, auth=auth) as client:
        await client.call_tool("echo")
    assert [(each.method, each.url, each.status, each.operation, each.repeats) for each in auth.answers] == [
        ("POST", server.url, 200, "server/discover", 0),
        ("POST", server.url, 200, "tools/call echo", 0),
    ]
    assert auth.answers[1].sent == (("Authorization", "Number 2"),)
    assert ("content-type", "application/json") in auth.answers[1].headers
    assert "Number 2" not in repr(auth.answers[1])


@pytest.mark.parametrize("status", [401, 403])
async def test_rejected_request_retried_with_new_headers(status: int) -> None:
    auth = NumberingAuthorizer()
    async with serving(rejecting(status, 2)) as server, open_http(server.url, auth=auth) as client:
        assert not (await client.call_tool("echo")).is_error
        assert server.connections == 1
    assert [request.headers["authorization"] for request in server.requests] == [f"Number {n}" for n in (1, 2, 3, 4)]
    assert len({request.body for request in server.requests if request.rpc == "tools/call"}) == 1
    assert [each.repeats for each in auth.renewed] == [0, 1]


async def test_rejection_late_body_keeps_connection() -> None:
    refused = False

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        nonlocal refused
        if request.rpc == "tools/call" and not refused:
            refused = True
            await reply.raw(b"HTTP/1.1 401 no\r\nContent-Length: 2\r\n\r\n")
            await trio.testing.wait_all_tasks_blocked(0.02)
            await reply.raw(b"no")
        else:
            await modern()(request, reply)

    async with serving(answer) as server, open_http(server.url, auth=NumberingAuthorizer()) as client:
        await client.call_tool("echo")
        assert server.connections == 1


async def test_rejected_request_retries_limited() -> None:
    auth = NumberingAuthorizer()
    async with serving(rejecting(401, 1_000)) as server, open_http(server.url, auth=auth) as client:
        with pytest.raises(AccessDenied, match="no no no"):
            await client.call_tool("echo")
        assert server.rpcs().count("tools/call") == 7


async def test_rejection_not_renewable_raises_access_denied() -> None:
    auth = NumberingAuthorizer(can_renew=lambda answer: False)
    async with serving(rejecting(403, 1)) as server, open_http(server.url, auth=auth) as client:
        with pytest.raises(AccessDenied, match="no no no") as caught:
            await client.call_tool("echo")
        assert caught.value.challenges == ("Number",)
        await client.call_tool("echo")
    assert auth.renewed == []


async def test_authorizer_error_raises_and_client_stays_open() -> None:
    auth = NumberingAuthorizer(failure=AuthorizationError("no token"))
    async with serving(rejecting(401, 1)) as server, open_http(server.url, auth=auth) as client:
        with pytest.raises(AuthorizationError, match="no token") as caught:
            await client.call_tool("echo")
        assert caught.value.context.method == "tools/call"
        await client.call_tool("echo")
        assert server.open == 1


async def test_rejection_endless_body_does_not_delay_retry(autojump_clock: trio.testing.MockClock) -> None:
    refused = False

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        nonlocal refused
        if request.rpc == "tools/call" and not refused:
            refused = True
            await reply.raw(b"HTTP/1.1 401 no\r\nContent-Length: 1000\r\n\r\nno")
            await reply.hang()
        else:
            await modern()(request, reply)

    auth = NumberingAuthorizer()
    async with serving(answer) as server, open_http(server.url, auth=auth) as client:
        before = trio.current_time()
        await client.call_tool("echo")
        assert trio.current_time() - before <= 2


async def test_rejection_truncated_or_compressed_body_retried() -> None:
    bodies = [
        b"HTTP/1.1 401 no\r\nContent-Length: 1000\r\n\r\nno",
        b"HTTP/1.1 401 no\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nno",
    ]

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "tools/call" and bodies:
            await reply.raw(bodies.pop(0))
            await reply.cut()
        else:
            await modern()(request, reply)

    async with serving(answer) as server, open_http(server.url, auth=NumberingAuthorizer()) as client:
        assert not (await client.call_tool("echo")).is_error


async def test_cancelled_during_rejection_body_closes_connection() -> None:
    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "tools/call":
            await reply.raw(b"HTTP/1.1 401 no\r\nContent-Length: 1000\r\n\r\nno")
            await reply.hang()
        else:
            await modern()(request, reply)

    async def until_closed(server: Server) -> None:
        while server.open:
            await trio.testing.wait_all_tasks_blocked(0.01)

    async with serving(answer) as server, open_http(server.url, auth=NumberingAuthorizer()) as client:
        with trio.move_on_after(0.05):
            await client.call_tool("echo")
        with trio.fail_after(5):
            await until_closed(server)


async def test_authorizer_receives_notification_stream_and_delete() -> None:
    auth = NumberingAuthorizer()
    async with serving(legacy()) as server, open_http(server.url, auth=auth) as client:
        await client.call_tool("echo")
    operations = [(each.method, each.operation, each.awaited) for each in auth.answers]
    assert ("POST", "notifications/initialized", True) in operations
    assert ("GET", "GET", False) in operations
    assert operations[-1] == ("DELETE", "DELETE", True)


async def test_authorizer_hangs_connect_deadline_passes(autojump_clock: trio.testing.MockClock) -> None:
    class Hanging(NumberingAuthorizer):
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
def test_operation_of_message(message: Message | Batch | None, operation: str | None) -> None:
    assert operation_of(message) == operation


@given(TEXT, st.dictionaries(TEXT, st.none() | st.integers() | TEXT))
@pytest.mark.property
def test_operation_of_any_request_starts_with_method(method: str, params: dict[str, str | int | None]) -> None:
    operation = operation_of(Request(1, method, {**params}))
    assert operation is not None
    assert operation.startswith(method)
