"""Tests of the OAuth testbed over HTTP: its responses are the same as without sockets."""

from __future__ import annotations

import json
import math
from urllib.parse import urlsplit

import h11
import pytest
import trio
from raw_http import open_response
from raw_oauth_client import RawOAuthClient
from trio.testing import MockClock, memory_stream_pair

from mcp_conformance.oauth_testbed.loopback import open_testbed, serve_stream
from mcp_conformance.oauth_testbed.quirks import Part, Quirks, Reply, Well
from mcp_conformance.oauth_testbed.testbed import OAuthTestbed

CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {}}).encode()


def port(url: str) -> int:
    found = urlsplit(url).port
    assert found is not None
    return found


async def test_parties_have_distinct_origins() -> None:
    async with open_testbed() as testbed:
        places = testbed.places
        origins = [places.origin, places.server, places.other, places.evil]
        assert len({port(origin) for origin in origins}) == 4
        assert [urlsplit(origin).hostname for origin in origins] == ["localhost", *["127.0.0.1"] * 3]
        async with open_response(port(places.origin), "POST", "/mcp", body=CALL) as response:
            assert response.status == 401
            assert places.prm in response.headers["www-authenticate"]
        async with open_response(port(places.origin), "GET", urlsplit(places.prm).path) as response:
            assert (await response.json())["authorization_servers"] == [places.issuer]
        async with open_response(port(places.server), "GET", urlsplit(Well.OAUTH.url(places.issuer)).path) as response:
            assert (await response.json())["token_endpoint"] == f"{places.server}/token"
        async with open_response(port(places.evil), "GET", "/") as response:
            assert response.status == 404
        assert testbed.violations == []
        assert [request.method for request in testbed.requests] == ["POST", "GET", "GET", "GET"]


async def test_flow_uses_given_path_and_clock() -> None:
    async with open_testbed(Quirks(lifetime=10.0), path="/here", clock=lambda: 5.0) as testbed:
        client = RawOAuthClient(testbed, now=5.0)
        client.run_flow()
        headers = [("authorization", f"Bearer {client.access}")]
        async with open_response(port(testbed.places.origin), "POST", "/here", headers, CALL) as response:
            assert response.status == 200
        assert testbed.violations == []


async def test_preregistered_client_is_registered() -> None:
    async with open_testbed(clients=[{"client_id": "given"}], documents={"https://a.example/c": {}}) as testbed:
        assert "given" in testbed.server.clients.registered


async def test_connection_serves_successive_requests() -> None:
    testbed = OAuthTestbed()
    local, remote = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, remote, testbed.places.origin, testbed, lambda: 0.0)
        for _ in range(3):
            await local.send_all(b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await local.receive_some()).startswith(b"HTTP/1.1 401 ")
        await local.aclose()
    assert len(testbed.requests) == 3


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n" + b"a" * 1_200_000,
        b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab",
    ],
    ids=["no HTTP", "too long", "cut"],
)
async def test_invalid_http_request_gets_no_response(sent: bytes) -> None:
    testbed = OAuthTestbed()
    local, remote = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, remote, testbed.places.origin, testbed, lambda: 0.0)
        nursery.start_soon(local.send_all, sent)
        await trio.testing.wait_all_tasks_blocked()
        await local.send_stream.aclose()
        assert await local.receive_some() == b""
    assert testbed.requests == []


async def test_client_disconnect_before_response_is_tolerated() -> None:
    testbed = OAuthTestbed()
    local, remote = memory_stream_pair()
    await local.send_all(b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n")
    await local.aclose()
    await serve_stream(remote, testbed.places.origin, testbed, lambda: 0.0)
    assert len(testbed.requests) == 1


async def test_response_is_delayed_or_withheld(autojump_clock: MockClock) -> None:
    testbed = OAuthTestbed(
        Quirks(replies={Part.MCP: Reply(delay=100.0, times=1), Part.RESOURCE_METADATA: Reply(delay=math.inf)})
    )
    local, remote = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_stream, remote, testbed.places.origin, testbed, lambda: 0.0)
        await local.send_all(b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n")
        with trio.move_on_after(99) as timeout:
            await local.receive_some()
        assert timeout.cancelled_caught
        assert (await local.receive_some()).startswith(b"HTTP/1.1 401 ")
        await local.send_all(b"GET /.well-known/oauth-protected-resource HTTP/1.1\r\nHost: x\r\n\r\n")
        with trio.move_on_after(1_000_000) as timeout:
            await local.receive_some()
        assert timeout.cancelled_caught
        nursery.cancel_scope.cancel()


async def test_response_without_body_and_from_unknown_origin() -> None:
    testbed = OAuthTestbed(Quirks(replies={Part.MCP: Reply(status=204, headers=())}))
    for origin, status in ((testbed.places.origin, 204), ("http://nobody.example", 502)):
        local, remote = memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_stream, remote, origin, testbed, lambda: 0.0)
            await local.send_all(b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n")
            reader = h11.Connection(h11.CLIENT)
            reader.send(h11.Request(method="GET", target="/mcp", headers=[("Host", "x")]))
            reader.receive_data(bytes(await local.receive_some()))
            event = reader.next_event()
            assert isinstance(event, h11.Response)
            assert event.status_code == status
            await local.aclose()
