"""The world of OAuth on real sockets: what answers there is what answers without them."""

from __future__ import annotations

import json
import math
from urllib.parse import urlsplit

import h11
import pytest
import trio
from raw_http import asked
from raw_oauth_client import Hand
from trio.testing import MockClock, memory_stream_pair

from mcp_conformance.oauth_testbed.loopback import open_testbed, serve_stream
from mcp_conformance.oauth_testbed.quirks import Part, Quirks, Reply, Well
from mcp_conformance.oauth_testbed.testbed import OAuthTestbed

CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}).encode()


def port(url: str) -> int:
    found = urlsplit(url).port
    assert found is not None
    return found


async def test_each_side_has_a_port_and_a_name() -> None:
    async with open_testbed() as world:
        places = world.places
        origins = [places.origin, places.server, places.other, places.evil]
        assert len({port(origin) for origin in origins}) == 4
        assert [urlsplit(origin).hostname for origin in origins] == ["localhost", *["127.0.0.1"] * 3]
        async with asked(port(places.origin), "POST", "/mcp", body=CALL) as answer:
            assert answer.status == 401
            assert places.prm in answer.headers["www-authenticate"]
        async with asked(port(places.origin), "GET", urlsplit(places.prm).path) as answer:
            assert (await answer.json())["authorization_servers"] == [places.issuer]
        async with asked(port(places.server), "GET", urlsplit(Well.OAUTH.url(places.issuer)).path) as answer:
            assert (await answer.json())["token_endpoint"] == f"{places.server}/token"
        async with asked(port(places.evil), "GET", "/") as answer:
            assert answer.status == 404
        assert world.violations == []
        assert [request.method for request in world.requests] == ["POST", "GET", "GET", "GET"]


async def test_a_whole_flow_goes_through_and_the_clock_is_the_one_that_is_given() -> None:
    async with open_testbed(Quirks(lifetime=10.0), path="/here", clock=lambda: 5.0) as world:
        hand = Hand(world, now=5.0)
        hand.all()
        headers = [("authorization", f"Bearer {hand.access}")]
        async with asked(port(world.places.origin), "POST", "/here", headers, CALL) as answer:
            assert answer.status == 200
        assert world.violations == []


async def test_clients_may_be_known_beforehand() -> None:
    async with open_testbed(clients=[{"client_id": "given"}], documents={"https://a.example/c": {}}) as world:
        assert "given" in world.server.clients.registered


async def test_one_connection_takes_one_request_after_the_other() -> None:
    world = OAuthTestbed()
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, theirs, world.places.origin, world, lambda: 0.0)
        for _ in range(3):
            await ours.send_all(b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await ours.receive_some()).startswith(b"HTTP/1.1 401 ")
        await ours.aclose()
    assert len(world.requests) == 3


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n" + b"a" * 1_200_000,
        b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab",
    ],
    ids=["no HTTP", "too long", "cut"],
)
async def test_what_is_no_request_is_not_answered(sent: bytes) -> None:
    world = OAuthTestbed()
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, theirs, world.places.origin, world, lambda: 0.0)
        nursery.start_soon(ours.send_all, sent)
        await trio.testing.wait_all_tasks_blocked()
        await ours.send_stream.aclose()
        assert await ours.receive_some() == b""
    assert world.requests == []


async def test_a_client_that_goes_before_the_answer_is_survived() -> None:
    world = OAuthTestbed()
    ours, theirs = memory_stream_pair()
    await ours.send_all(b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n")
    await ours.aclose()
    await serve_stream(theirs, world.places.origin, world, lambda: 0.0)
    assert len(world.requests) == 1


async def test_an_answer_may_come_late_or_never(autojump_clock: MockClock) -> None:
    world = OAuthTestbed(
        Quirks(replies={Part.MCP: Reply(delay=100.0, times=1), Part.RESOURCE_METADATA: Reply(delay=math.inf)})
    )
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, theirs, world.places.origin, world, lambda: 0.0)
        await ours.send_all(b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n")
        with trio.move_on_after(99) as patience:
            await ours.receive_some()
        assert patience.cancelled_caught
        assert (await ours.receive_some()).startswith(b"HTTP/1.1 401 ")
        await ours.send_all(b"GET /.well-known/oauth-protected-resource HTTP/1.1\r\nHost: x\r\n\r\n")
        with trio.move_on_after(1_000_000) as patience:
            await ours.receive_some()
        assert patience.cancelled_caught
        nursery.cancel_scope.cancel()


async def test_an_answer_without_a_body_and_one_from_nobody() -> None:
    world = OAuthTestbed(Quirks(replies={Part.MCP: Reply(status=204, headers=())}))
    for origin, status in ((world.places.origin, 204), ("http://nobody.example", 502)):
        ours, theirs = memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_stream, theirs, origin, world, lambda: 0.0)
            await ours.send_all(b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n")
            reader = h11.Connection(h11.CLIENT)
            reader.send(h11.Request(method="GET", target="/mcp", headers=[("Host", "x")]))
            reader.receive_data(bytes(await ours.receive_some()))
            event = reader.next_event()
            assert isinstance(event, h11.Response)
            assert event.status_code == status
            await ours.aclose()
