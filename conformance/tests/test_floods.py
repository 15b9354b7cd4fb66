"""Tests of what the suite keeps of a peer that sends without end."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from typing import Final

import pytest
import trio

from mcp_conformance.checks.client.cancellation import in_progress
from mcp_conformance.drivers.client.fake_server import FakeServer
from mcp_conformance.drivers.client.stdio_host import Launch
from mcp_conformance.drivers.server.stdio_connection import open_stdio
from mcp_conformance.drivers.server.targets import started
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation
from mcp_conformance.runners.client import ClientCommand, play
from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
from mcp_conformance.scenarios.table import SCENARIOS
from mcp_conformance.wire import transcript
from mcp_conformance.wire.transcript import Transcript
from mcp_core.revisions import LATEST_LEGACY

_PEER: Final = f"{sys.executable} {Path(__file__).with_name('flooding_peer.py')}"
_SETTINGS: Final = Settings(timeout=20.0)
_MOST: Final = 500


@pytest.fixture(autouse=True)
def _low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "_MOST", _MOST)


def received(record: Transcript) -> int:
    return len(record.messages(sent=False))


async def test_stdio_server_that_floods_ends_connection_with_reason() -> None:
    record = Transcript()
    async with open_stdio(f"{_PEER} stdio".split(), LATEST_LEGACY, _SETTINGS, transcript=record) as peer:
        with pytest.raises(Deviation, match="more than 500 messages of the peer on one connection"):
            await peer.request("ping")

    assert received(record) == _MOST + 1


async def test_http_stream_of_server_that_floods_ends_with_reason() -> None:
    record = Transcript()
    async with (
        started(f"{_PEER} {{port}}", "http://127.0.0.1:{port}/mcp", _SETTINGS) as target,
        target.open(LATEST_LEGACY, Transport.HTTP, transcript=record) as peer,
    ):
        with pytest.raises(Deviation, match="more than 500 messages of the peer on one connection"):
            await peer.request("ping")

    assert received(record) == _MOST + 1


@pytest.mark.parametrize("transport", [Transport.STDIO, Transport.HTTP])
async def test_client_that_floods_is_ended(transport: Transport) -> None:
    client = f"{_PEER} client"
    command = ClientCommand(http=client, stdio=client)

    evidence = await play(command, _SETTINGS, SCENARIOS["initialize"], LATEST_LEGACY, transport)

    assert evidence.status is None
    assert any("more than 500 messages of the peer on one connection" in each for each in evidence.transcript.lines())


def test_transcript_is_full_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "_MOST_BYTES", 3 << 20)
    record = Transcript()
    for _ in range(3):
        record.message(b'"%s"' % (b"x" * (1 << 20)), sent=True)
        assert not record.full.is_set()
    for _ in range(3):
        record.message(b'"%s"' % (b"x" * (1 << 20)), sent=False)
    assert record.full.is_set()
    assert record.excess == "more than 3 MiB of the peer on one connection"


async def judge(record: Transcript) -> None:
    server = FakeServer((LATEST_LEGACY,), 1.0)
    relay, other = trio.socket.socketpair()
    with relay, other:
        evidence = Evidence(
            scenario=SCENARIOS["initialize"],
            revision=LATEST_LEGACY,
            transport=Transport.STDIO,
            transcript=record,
            server=server,
            # The check looks only at runs in which the client started a server.
            launches=(Launch(trio.SocketStream(relay), 0, server.open(), record),),
            status=0,
            log="",
        )
        await in_progress(
            ClientUnderTest(
                revision=LATEST_LEGACY, transport=Transport.STDIO, settings=_SETTINGS, runs={"initialize": evidence}
            )
        )


def converse(record: Transcript, count: int) -> None:
    for number in range(count):
        record.message(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number, sent=False)
        record.message(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % number, sent=True)


def test_check_of_cancellations_needs_memory_in_proportion_to_messages() -> None:
    peaks = []
    for count in (500, 2000):
        record = Transcript()
        converse(record, count)
        tracemalloc.start()
        trio.run(judge, record)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert peaks[1] < 8 * peaks[0]


@pytest.mark.parametrize(("id", "known"), [(0, True), (1, False), (2, False)])
async def test_cancellation_of_request_with_response_is_found_when_it_is_known(id: int, known: bool) -> None:
    record = Transcript()
    converse(record, 3)
    record.message(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}' % id, sent=False)

    if known:
        with pytest.raises(Deviation, match="no cancellation of a request with a response"):
            await judge(record)
    else:
        await judge(record)
