"""Opening a connection over HTTP: what is remembered of the server, and what becomes of sessions that are not used."""

from __future__ import annotations

from typing import Final

import pytest
import trio
import trio.testing
from zoo import (
    DISCOVERED,
    OK,
    Answer,
    Asked,
    Forgetful,
    Reply,
    initialized,
    legacy,
    modern,
    page,
    question,
    serving,
    silence,
    until,
)

from mcp_client import Client, Deadlines, open_http
from mcp_client.transports.http.handshake import HttpHandshake
from mcp_client.transports.http.session import Session
from mcp_client.transports.http.transport import HttpTransport
from mcp_core.errors import AccessDenied, HttpFailure, McpError, NegotiationFailed, RequestTimeout
from mcp_core.jsonrpc.messages import JsonObject, ResultResponse
from mcp_core.revisions import LEGACY, R2025_11_25, R2026_07_28


def both(probe: Answer | None = None) -> Answer:
    """A server of both eras; the first probe is treated otherwise."""
    old, new = legacy(), modern()
    probed = False

    async def answer(asked: Asked, reply: Reply) -> None:
        nonlocal probed
        if asked.rpc == "server/discover" and probe is not None and not probed:
            probed = True
            await probe(asked, reply)
        else:
            await (new if "mcp-method" in asked.headers else old)(asked, reply)

    return answer


# --- what is remembered ----------------------------------------------------------------------------------------------


@pytest.mark.spec("compat.client-cache-era")
@pytest.mark.parametrize(
    "first", [silence, page(503), page(429)], ids=["silence", "not available", "too many requests"]
)
async def test_a_server_that_did_not_say_what_it_speaks_is_asked_again(
    first: Answer, autojump_clock: trio.testing.MockClock
) -> None:
    async with serving(both(first)) as server:
        async with open_http(server.url) as client:
            assert client.revision is R2025_11_25
        async with open_http(server.url) as client:
            assert client.revision is R2026_07_28


@pytest.mark.spec("compat.client-cache-era")
async def test_a_server_that_says_late_that_it_is_a_legacy_one_is_not_asked_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "server/discover":
            await trio.sleep(5)
        elif asked.rpc == "initialize" and len(server.of("initialize")) == 1:
            await trio.sleep(10)
        await inner(asked, reply)

    async with serving(answer) as server:
        for _ in range(2):
            async with open_http(server.url) as client:
                assert client.revision is R2025_11_25
    assert server.rpcs().count("server/discover") == 1


async def test_a_server_that_is_known_is_remembered_also_when_it_is_opened_again() -> None:
    async with serving(legacy()) as server:
        for _ in range(3):
            async with open_http(server.url):
                pass
    assert server.rpcs().count("server/discover") == 1


@pytest.mark.spec("compat.client-http-modern-error-retry", "version.retry-mutual")
@pytest.mark.parametrize("revisions", [(R2026_07_28,), (*LEGACY, R2026_07_28)], ids=["modern", "all"])
async def test_a_version_that_is_refused_and_wanted_at_once_is_offered_once_more(revisions: tuple[object, ...]) -> None:
    async def refuse(asked: Asked, reply: Reply) -> None:
        data: JsonObject = {"supported": ["2026-07-28"], "requested": "2026-07-28"}
        await reply.error(-32022, "Unsupported protocol version", 400, data)

    spoken = [each for each in (*LEGACY, R2026_07_28) if each in revisions]
    async with serving(both(refuse)) as server:
        async with open_http(server.url, revisions=spoken) as client:
            await client.call_tool("a")
        assert server.rpcs() == ["server/discover", "server/discover", "tools/call"]
        assert {asked.headers["mcp-protocol-version"] for asked in server.asked} == {"2026-07-28"}
    async with serving(refuse) as server:
        with pytest.raises(NegotiationFailed):
            async with open_http(server.url, revisions=spoken):
                pass
        assert server.rpcs() == ["server/discover", "server/discover"]


# --- sessions that are not used --------------------------------------------------------------------------------------


def ended(asked: list[Asked]) -> list[str]:
    """The sessions that were ended, in their order."""
    return [each.headers["mcp-session-id"] for each in asked]


@pytest.mark.spec("session.client-delete")
async def test_a_session_whose_revision_is_refused_by_the_client_is_ended() -> None:
    async with serving(legacy(version="1999-01-01")) as server:
        with pytest.raises(NegotiationFailed, match="1999-01-01"):
            async with open_http(server.url):
                pass
        assert ended(server.of("DELETE")) == ["s1"]
        # No revision was agreed on that could be named.
        assert "mcp-protocol-version" not in server.of("DELETE")[0].headers


@pytest.mark.spec("session.client-delete")
async def test_a_session_whose_confirmation_is_refused_is_ended_once() -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        await (page(401) if asked.rpc == "notifications/initialized" else inner)(asked, reply)

    async with serving(answer) as server:
        with pytest.raises(AccessDenied):
            async with open_http(server.url):
                pass
        assert ended(server.of("DELETE")) == ["s1"]


@pytest.mark.spec("session.client-delete")
@pytest.mark.parametrize("how", ["cancelled", "closed", "deadline"])
async def test_a_session_whose_opening_is_given_up_is_ended(how: str, autojump_clock: trio.testing.MockClock) -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "initialize":
            await reply.stream({"Mcp-Session-Id": "s1"})
            await reply.hang()
        else:
            await inner(asked, reply)

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
        assert ended(server.of("DELETE")) == ["s1"]
        assert server.open == 0


async def test_a_session_that_was_made_before_a_modern_server_answered_is_ended(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "server/discover":
            await trio.sleep(10)
            await reply.result(DISCOVERED)
        elif asked.rpc == "initialize":
            await reply.stream({"Mcp-Session-Id": "s1"})
            await reply.hang()
        else:
            await (reply.body(200) if asked.method == "DELETE" else reply.result(OK))

    async with serving(answer) as server:
        async with open_http(server.url) as client:
            assert client.revision is R2026_07_28
            await client.call_tool("a")
            await until(lambda: server.of("DELETE"))
        assert ended(server.of("DELETE")) == ["s1"]


async def test_a_first_session_that_the_server_takes_back_is_not_the_one_that_is_used() -> None:
    """`initialize` is refused, with a session all the same; the next one is answered without any."""

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "initialize" and len(server.of("initialize")) == 1:
            error: JsonObject = {"code": -32602, "message": "no", "data": {"supported": ["2025-03-26"]}}
            await reply.json(
                {"jsonrpc": "2.0", "id": asked.message["id"], "error": error}, 200, {"Mcp-Session-Id": "s1"}
            )
        else:
            await legacy(session=None, version="2025-03-26")(asked, reply)

    async with serving(answer) as server:
        async with open_http(server.url, revisions=LEGACY) as client:
            await client.call_tool("a")
            await until(lambda: server.of("DELETE"))
        assert "mcp-session-id" not in server.of("tools/call")[0].headers
        assert ended(server.of("DELETE")) == ["s1"]


async def test_a_session_that_cannot_be_ended_does_not_keep_the_client(autojump_clock: trio.testing.MockClock) -> None:
    inner = legacy(version="1999-01-01")

    async def answer(asked: Asked, reply: Reply) -> None:
        await (silence if asked.method == "DELETE" else inner)(asked, reply)

    async with serving(answer) as server:
        start = trio.current_time()
        with pytest.raises(NegotiationFailed):
            async with open_http(server.url):
                pass
        assert trio.current_time() - start <= 2
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


# --- renewals --------------------------------------------------------------------------------------------------------


class Renewing(Forgetful):
    """Loses its session, and confirms the next one not as it should, or not at all."""

    def __init__(self, confirmation: Answer) -> None:
        super().__init__()
        self._confirmation: Final = confirmation
        self.healthy = False

    async def answer(self, asked: Asked, reply: Reply) -> None:
        second = asked.headers.get("mcp-session-id") == "s2"
        if asked.rpc == "notifications/initialized" and second and not self.healthy:
            await self._confirmation(asked, reply)
        elif asked.method == "DELETE" and second:
            self.alive = False
            await reply.body(200)
        else:
            await super().answer(asked, reply)


async def briefly(client: Client) -> None:
    with trio.move_on_after(2):
        await client.call_tool("a")


@pytest.mark.spec("session.client-delete")
@pytest.mark.parametrize(("confirmation", "error"), [(silence, RequestTimeout), (page(401), AccessDenied)])
async def test_a_new_session_that_comes_to_nothing_is_ended_and_the_client_lives_on(
    confirmation: Answer, error: type[McpError], autojump_clock: trio.testing.MockClock
) -> None:
    renewing = Renewing(confirmation)
    async with serving(renewing.answer) as server:
        async with open_http(server.url, deadlines=Deadlines(idle=20)) as client:
            renewing.alive = False
            with pytest.raises(error):
                await client.call_tool("a")
            await until(lambda: server.of("DELETE"))
            assert ended(server.of("DELETE")) == ["s2"]
            assert server.of("DELETE")[0].headers["mcp-protocol-version"] == "2025-11-25"
            renewing.healthy = True
            await client.call_tool("b")
        assert ended(server.of("DELETE")) == ["s2", "s3"]


@pytest.mark.spec("session.client-delete")
@pytest.mark.parametrize("how", ["call", "client"])
async def test_a_new_session_is_ended_when_its_renewal_is_given_up_half_way(
    how: str, autojump_clock: trio.testing.MockClock
) -> None:
    renewing = Renewing(silence)
    async with serving(renewing.answer) as server:
        async with open_http(server.url) as client, trio.open_nursery() as nursery:
            renewing.alive = False
            if how == "call":
                await briefly(client)
                await until(lambda: server.of("DELETE"))
                assert ended(server.of("DELETE")) == ["s2"]
            else:
                nursery.start_soon(briefly, client)
                await trio.sleep(1)
                nursery.cancel_scope.cancel()
        # What the server has lost is ended as well: nobody found out that it is lost before the new one was there.
        assert ended(server.of("DELETE")).count("s2") == 1
        await trio.testing.wait_all_tasks_blocked()
        assert server.open == 0


async def test_a_new_session_that_cannot_be_ended_is_left_after_a_while(autojump_clock: trio.testing.MockClock) -> None:
    renewing = Renewing(page(401))
    left: list[float] = []

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.method == "DELETE" and asked.headers["mcp-session-id"] == "s2":
            begun = trio.current_time()
            await silence(asked, reply)
            left.append(trio.current_time() - begun)
        else:
            await renewing.answer(asked, reply)

    async with serving(answer) as server, open_http(server.url) as client:
        renewing.alive = False
        with pytest.raises(AccessDenied):
            await client.call_tool("a")
        await trio.sleep(60)
        assert left == pytest.approx([2])


# --- what is said before a session is open, or belongs to another ----------------------------------------------------


@pytest.mark.spec("ping.respond")
async def test_a_ping_before_the_session_is_open_is_answered_in_it() -> None:
    inner = legacy()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "initialize":
            await reply.stream({"Mcp-Session-Id": "s1"})
            await reply.event(question(5, "ping", {}))
            await reply.event_result(initialized())
            await reply.end()
        else:
            await inner(asked, reply)

    async with serving(answer) as server, open_http(server.url, revisions=LEGACY):
        await until(lambda: server.of("response"))
    (response,) = server.of("response")
    assert response.message == {"jsonrpc": "2.0", "id": 5, "result": {}}
    assert response.headers["mcp-session-id"] == "s1"
    assert server.rpcs().index("response") > server.rpcs().index("notifications/initialized")


async def test_a_flood_of_pings_before_the_session_is_open_is_answered_in_bounds(
    caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    inner = legacy()
    goes_on = trio.Event()

    async def answer(asked: Asked, reply: Reply) -> None:
        if asked.rpc == "initialize":
            await reply.stream({"Mcp-Session-Id": "s1"})
            for number in range(400):
                await reply.event(question(number, "ping", {}))
            await goes_on.wait()
            await reply.event_result(initialized())
            await reply.end()
        else:
            await inner(asked, reply)

    async with serving(answer) as server, trio.open_nursery() as nursery:
        opening = open_http(server.url, revisions=LEGACY)
        nursery.start_soon(opening.run)
        await until(lambda: "message dropped" in caplog.text)
        assert opening._channel is not None
        assert isinstance(opening._channel._handshake, HttpHandshake)
        assert len(opening._channel._handshake._early) == 256
        goes_on.set()
        await until(lambda: len(server.of("response")) == 256)
        await opening.aclose()


async def test_an_answer_that_was_put_down_before_a_renewal_does_not_go_to_the_new_session() -> None:
    async with serving(legacy()) as server, open_http(server.url) as client:
        transport = client._channel.transport
        assert isinstance(transport, HttpTransport)
        assert transport._sessions is not None
        transport.send_nowait(ResultResponse(7, {}))
        # The renewal comes to its end in the very step in which the answer was put down.
        transport._sessions._session = Session("s2", R2025_11_25)
        await until(lambda: server.of("response"))
        assert [asked.headers["mcp-session-id"] for asked in server.of("response")] == ["s1"]


async def test_a_server_that_is_busy_for_a_moment_is_used_as_a_legacy_one_all_the_same() -> None:
    async with serving(both(page(500))) as server, open_http(server.url) as client:
        await client.call_tool("a")
        assert server.rpcs()[:2] == ["server/discover", "initialize"]
    with pytest.raises(HttpFailure):
        async with serving(page(500)) as server, open_http(server.url):
            pass
