"""Opening connections over HTTP: the remembered era of a server, and the deletion of unused sessions."""

from __future__ import annotations

from typing import Final

import pytest
import trio
import trio.testing
from fake_http_server import (
    DISCOVERED,
    OK,
    ReceivedRequest,
    Reply,
    Responder,
    SessionLosingServer,
    client_request,
    initialized,
    legacy,
    modern,
    page,
    serving,
    silence,
    wait_until,
)

from mcp_client import Client, Deadlines, open_http
from mcp_client.transports.http.handshake import HttpHandshake
from mcp_client.transports.http.session import Session
from mcp_client.transports.http.transport import HttpTransport
from mcp_core.errors import AccessDenied, HttpFailure, McpError, NegotiationFailed, RequestTimeout
from mcp_core.jsonrpc.messages import JsonObject, ResultResponse
from mcp_core.revisions import LEGACY, R2025_11_25, R2026_07_28


def dual_era(probe: Responder | None = None) -> Responder:
    """Return a responder of a server of both eras; `probe` answers the first probe instead."""
    legacy_responder, modern_responder = legacy(), modern()
    was_probed = False

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        nonlocal was_probed
        if request.rpc == "server/discover" and probe is not None and not was_probed:
            was_probed = True
            await probe(request, reply)
        else:
            await (modern_responder if "mcp-method" in request.headers else legacy_responder)(request, reply)

    return answer


# --- remembered eras --------------------------------------------------------------------------------------------------


@pytest.mark.spec("compat.client-cache-era")
@pytest.mark.parametrize(
    "first", [silence, page(503), page(429)], ids=["silence", "not available", "too many requests"]
)
async def test_era_unknown_after_failed_probe_probed_again(
    first: Responder, autojump_clock: trio.testing.MockClock
) -> None:
    async with serving(dual_era(first)) as server:
        async with open_http(server.url) as client:
            assert client.revision is R2025_11_25
        async with open_http(server.url) as client:
            assert client.revision is R2026_07_28


@pytest.mark.spec("compat.client-cache-era")
async def test_era_late_probe_response_remembered(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "server/discover":
            await trio.sleep(5)
        elif request.rpc == "initialize" and len(server.of("initialize")) == 1:
            await trio.sleep(10)
        await inner(request, reply)

    async with serving(answer) as server:
        for _ in range(2):
            async with open_http(server.url) as client:
                assert client.revision is R2025_11_25
    assert server.rpcs().count("server/discover") == 1


async def test_era_remembered_across_connections() -> None:
    async with serving(legacy()) as server:
        for _ in range(3):
            async with open_http(server.url):
                pass
    assert server.rpcs().count("server/discover") == 1


@pytest.mark.spec("compat.client-http-modern-error-retry", "version.retry-mutual")
@pytest.mark.parametrize("revisions", [(R2026_07_28,), (*LEGACY, R2026_07_28)], ids=["modern", "all"])
async def test_version_rejected_but_supported_retried_once(revisions: tuple[object, ...]) -> None:
    async def refuse(request: ReceivedRequest, reply: Reply) -> None:
        data: JsonObject = {"supported": ["2026-07-28"], "requested": "2026-07-28"}
        await reply.error(-32022, "Unsupported protocol version", 400, data)

    supported = [each for each in (*LEGACY, R2026_07_28) if each in revisions]
    async with serving(dual_era(refuse)) as server:
        async with open_http(server.url, revisions=supported) as client:
            await client.call_tool("a")
        assert server.rpcs() == ["server/discover", "server/discover", "tools/call"]
        assert {request.headers["mcp-protocol-version"] for request in server.requests} == {"2026-07-28"}
    async with serving(refuse) as server:
        with pytest.raises(NegotiationFailed):
            async with open_http(server.url, revisions=supported):
                pass
        assert server.rpcs() == ["server/discover", "server/discover"]


# --- unused sessions -------------------------------------------------------------------------------------------------


def session_ids(requests: list[ReceivedRequest]) -> list[str]:
    return [each.headers["mcp-session-id"] for each in requests]


@pytest.mark.spec("session.client-delete")
async def test_session_of_unsupported_revision_deleted() -> None:
    async with serving(legacy(version="1999-01-01")) as server:
        with pytest.raises(NegotiationFailed, match="1999-01-01"):
            async with open_http(server.url):
                pass
        assert session_ids(server.of("DELETE")) == ["s1"]
        # No revision was negotiated.
        assert "mcp-protocol-version" not in server.of("DELETE")[0].headers


@pytest.mark.spec("session.client-delete")
async def test_session_initialized_401_deleted_once() -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        await (page(401) if request.rpc == "notifications/initialized" else inner)(request, reply)

    async with serving(answer) as server:
        with pytest.raises(AccessDenied):
            async with open_http(server.url):
                pass
        assert session_ids(server.of("DELETE")) == ["s1"]


@pytest.mark.spec("session.client-delete")
@pytest.mark.parametrize("how", ["cancelled", "closed", "deadline"])
async def test_session_opening_abandoned_deleted(how: str, autojump_clock: trio.testing.MockClock) -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "initialize":
            await reply.stream({"Mcp-Session-Id": "s1"})
            await reply.hang()
        else:
            await inner(request, reply)

    async with serving(answer) as server:
        opening = open_http(server.url, deadlines=Deadlines(connect=20))

        async def enter() -> None:
            with trio.move_on_after(5 if how == "cancelled" else 100), pytest.raises(McpError):
                async with opening:
                    pass

        async with trio.open_nursery() as nursery:
            nursery.start_soon(enter)
            if how == "closed":
                await trio.sleep(5)
                await opening.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert session_ids(server.of("DELETE")) == ["s1"]
        assert server.open == 0


async def test_session_opened_before_late_modern_probe_deleted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "server/discover":
            await trio.sleep(10)
            await reply.result(DISCOVERED)
        elif request.rpc == "initialize":
            await reply.stream({"Mcp-Session-Id": "s1"})
            await reply.hang()
        else:
            await (reply.body(200) if request.method == "DELETE" else reply.result(OK))

    async with serving(answer) as server:
        async with open_http(server.url) as client:
            assert client.revision is R2026_07_28
            await client.call_tool("a")
            await wait_until(lambda: server.of("DELETE"))
        assert session_ids(server.of("DELETE")) == ["s1"]


async def test_session_id_of_failed_initialize_deleted() -> None:
    # The server rejects the first `initialize` with a session id, and answers the second one without.

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "initialize" and len(server.of("initialize")) == 1:
            error: JsonObject = {"code": -32602, "message": "no", "data": {"supported": ["2025-03-26"]}}
            await reply.json(
                {"jsonrpc": "2.0", "id": request.message["id"], "error": error}, 200, {"Mcp-Session-Id": "s1"}
            )
        else:
            await legacy(session=None, version="2025-03-26")(request, reply)

    async with serving(answer) as server:
        async with open_http(server.url, revisions=LEGACY) as client:
            await client.call_tool("a")
            await wait_until(lambda: server.of("DELETE"))
        assert "mcp-session-id" not in server.of("tools/call")[0].headers
        assert session_ids(server.of("DELETE")) == ["s1"]


async def test_session_delete_hanging_does_not_block_close(autojump_clock: trio.testing.MockClock) -> None:
    inner = legacy(version="1999-01-01")

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        await (silence if request.method == "DELETE" else inner)(request, reply)

    async with serving(answer) as server:
        start = trio.current_time()
        with pytest.raises(NegotiationFailed):
            async with open_http(server.url):
                pass
        assert trio.current_time() - start <= 2
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


# --- session renewal -------------------------------------------------------------------------------------------------


class FailingRenewal(SessionLosingServer):
    """A server that loses its session, and answers the confirmation of the next one with `confirmation` until healthy."""

    def __init__(self, confirmation: Responder) -> None:
        super().__init__()
        self._confirmation: Final = confirmation
        self.healthy = False

    async def answer(self, request: ReceivedRequest, reply: Reply) -> None:
        second = request.headers.get("mcp-session-id") == "s2"
        if request.rpc == "notifications/initialized" and second and not self.healthy:
            await self._confirmation(request, reply)
        elif request.method == "DELETE" and second:
            self.alive = False
            await reply.body(200)
        else:
            await super().answer(request, reply)


async def call_for_two_seconds(client: Client) -> None:
    with trio.move_on_after(2):
        await client.call_tool("a")


@pytest.mark.spec("session.client-delete")
@pytest.mark.parametrize(("confirmation", "error"), [(silence, RequestTimeout), (page(401), AccessDenied)])
async def test_session_renewal_failed_deleted_and_client_usable(
    confirmation: Responder, error: type[McpError], autojump_clock: trio.testing.MockClock
) -> None:
    failing_renewal = FailingRenewal(confirmation)
    async with serving(failing_renewal.answer) as server:
        async with open_http(server.url, deadlines=Deadlines(idle=20)) as client:
            failing_renewal.alive = False
            with pytest.raises(error):
                await client.call_tool("a")
            await wait_until(lambda: server.of("DELETE"))
            assert session_ids(server.of("DELETE")) == ["s2"]
            assert server.of("DELETE")[0].headers["mcp-protocol-version"] == "2025-11-25"
            failing_renewal.healthy = True
            await client.call_tool("b")
        assert session_ids(server.of("DELETE")) == ["s2", "s3"]


@pytest.mark.spec("session.client-delete")
@pytest.mark.parametrize("how", ["call", "client"])
async def test_session_renewal_cancelled_deleted(how: str, autojump_clock: trio.testing.MockClock) -> None:
    failing_renewal = FailingRenewal(silence)
    async with serving(failing_renewal.answer) as server:
        async with open_http(server.url) as client, trio.open_nursery() as nursery:
            failing_renewal.alive = False
            if how == "call":
                await call_for_two_seconds(client)
                await wait_until(lambda: server.of("DELETE"))
                assert session_ids(server.of("DELETE")) == ["s2"]
            else:
                nursery.start_soon(call_for_two_seconds, client)
                await trio.sleep(1)
                nursery.cancel_scope.cancel()
        # The lost session may be deleted as well, when its loss is not known before the new one exists.
        assert session_ids(server.of("DELETE")).count("s2") == 1
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


async def test_session_renewal_delete_hanging_times_out(autojump_clock: trio.testing.MockClock) -> None:
    failing_renewal = FailingRenewal(page(401))
    left: list[float] = []

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.method == "DELETE" and request.headers["mcp-session-id"] == "s2":
            begun = trio.current_time()
            await silence(request, reply)
            left.append(trio.current_time() - begun)
        else:
            await failing_renewal.answer(request, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        failing_renewal.alive = False
        with pytest.raises(AccessDenied):
            await client.call_tool("a")
        await trio.sleep(60)
        assert left == pytest.approx([2])


# --- messages before a session opens, or of another session -----------------------------------------------------------


@pytest.mark.spec("ping.respond")
async def test_ping_before_initialized_answered_in_session() -> None:
    inner = legacy()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "initialize":
            await reply.stream({"Mcp-Session-Id": "s1"})
            await reply.event(client_request(5, "ping", {}))
            await reply.event_result(initialized())
            await reply.end()
        else:
            await inner(request, reply)

    async with serving(answer) as server, open_http(server.url, revisions=LEGACY):
        await wait_until(lambda: server.of("response"))
    (response,) = server.of("response")
    assert response.message == {"jsonrpc": "2.0", "id": 5, "result": {}}
    assert response.headers["mcp-session-id"] == "s1"
    assert server.rpcs().index("response") > server.rpcs().index("notifications/initialized")


async def test_pings_before_initialized_over_limit_dropped(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    inner = legacy()
    flood_checked = trio.Event()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.rpc == "initialize":
            await reply.stream({"Mcp-Session-Id": "s1"})
            for number in range(400):
                await reply.event(client_request(number, "ping", {}))
            await flood_checked.wait()
            await reply.event_result(initialized())
            await reply.end()
        else:
            await inner(request, reply)

    async with serving(answer) as server, trio.open_nursery() as nursery:
        opening = open_http(server.url, revisions=LEGACY)
        nursery.start_soon(opening.run)
        await wait_until(lambda: "message dropped" in caplog.text)
        assert opening._channel is not None
        assert isinstance(opening._channel._handshake, HttpHandshake)
        assert len(opening._channel._handshake._early) == 256
        flood_checked.set()
        await wait_until(lambda: len(server.of("response")) == 256)
        await opening.aclose()


async def test_response_queued_before_renewal_sent_to_old_session() -> None:
    async with serving(legacy()) as server, open_http(server.url) as client:
        transport = client._channel.transport
        assert isinstance(transport, HttpTransport)
        assert transport._handshake.sessions is not None
        transport.send_nowait(ResultResponse(7, {}))
        # The renewal ends in the same step in which the response is queued.
        transport._handshake.sessions._session = Session("s2", R2025_11_25)
        await wait_until(lambda: server.of("response"))
        assert [request.headers["mcp-session-id"] for request in server.of("response")] == ["s1"]


async def test_probe_500_falls_back_to_legacy() -> None:
    async with serving(dual_era(page(500))) as server, open_http(server.url) as client:
        await client.call_tool("a")
        assert server.rpcs()[:2] == ["server/discover", "initialize"]
    with pytest.raises(HttpFailure):
        async with serving(page(500)) as server, open_http(server.url):
            pass
