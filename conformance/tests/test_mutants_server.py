"""Tests of the command that runs the suite against raw servers with one fault each."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from program_path import PROGRAM_PATH

from mutants.runs.servers import try_fault
from mutants.server.fault import Row
from mutants.server.server import RawServer
from mutants.server.session import Session
from mutants.server_faults.table import FAULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_SECONDS = 30.0
"""The time within which a thread acts, however busy the machine is."""


@pytest.fixture(autouse=True)
def _find_fixtures(monkeypatch: pytest.MonkeyPatch, forked_peers: None) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)


@pytest.mark.parametrize(
    ("name", "transport"),
    [
        ("unknown-method-code", "stdio"),
        ("completion-unserved", "http"),
        ("same-id-refused", "http"),
        ("unnamed-events", "http-sse"),
    ],
)
async def test_server_fault_fails_only_its_checks(name: str, transport: str) -> None:
    result = await try_fault(name, transport, own=True)

    assert (result.missed, result.collateral) == ((), ())
    assert result.killed


async def test_unexpected_failures_are_reported_as_collateral(monkeypatch: pytest.MonkeyPatch) -> None:
    row = FAULTS["ping-with-more"]
    other = Row(
        row.make,
        area="jsonrpc",
        caught_by=("jsonrpc.unknown-method",),
        revisions=row.revisions,
        transports=row.transports,
    )
    monkeypatch.setitem(FAULTS, "ping-with-more", other)

    result = await try_fault("ping-with-more", "stdio", own=True)

    assert result.missed == ("jsonrpc.unknown-method",)
    assert not result.killed

    result = await try_fault("ping-with-more", "http")

    assert result.collateral == ("ping.during-a-call", "ping.empty-result")


def _call(tool: str) -> JsonObject:
    params: JsonObject = {"name": tool, "arguments": {"key": "k"}, "_meta": {"progressToken": 1}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def _session(send: Callable[[JsonValue], None] = lambda _: None) -> Session:
    session = Session(send)
    session.revision, session.initialized = "2025-11-25", True
    return session


def _text(response: JsonValue) -> str:
    assert isinstance(response, dict)
    return str(response["result"])


def test_call_of_one_server_is_not_released_by_another_one_in_its_process() -> None:
    server, other = RawServer(), RawServer()
    runs = threading.Event()
    responses: list[JsonValue] = []

    def wait() -> None:
        responses.append(server.receive(_call("conformance_wait"), _session(), lambda _: runs.set())[0])

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    assert runs.wait(_SECONDS)
    other.receive(_call("conformance_release"), _session(), lambda _: None)
    outcome, _ = other.receive(_call("conformance_outcome"), _session(), lambda _: None)
    assert "unknown" in _text(outcome)
    assert not responses
    server.receive(_call("conformance_release"), _session(), lambda _: None)
    waiting.join(_SECONDS)
    assert "released" in _text(responses[0])
