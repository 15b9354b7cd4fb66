"""A failed check of a client shows the messages that it judged, even in a long run."""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from program_path import PROGRAM_PATH

from mcp_conformance.drivers.client.fake_server import FakeServer
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, Outcome
from mcp_conformance.protocol.response import brief
from mcp_conformance.runners.client import ClientCommand, run_client
from mcp_conformance.runners.judged_messages import JUDGED_NOTE, judged_lines
from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
from mcp_conformance.scenarios.table import SCENARIOS
from mcp_conformance.wire.transcript import Transcript
from mcp_core.revisions import R2025_11_25, REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject

_SETTINGS = Settings(timeout=10.0)
_NUMBER = 200
"""Messages of a run: more than are shown."""
_JUDGED = 20
"""The position of the judged message."""


def _client() -> ClientUnderTest:
    runs = {}
    for name in ("initialize", "tools_call"):
        transcript = Transcript()
        for number in range(_NUMBER):
            transcript.message(
                b'{"id":%d,"method":"m","params":{"name":"%b-%d"}}' % (number, name.encode(), number), sent=False
            )
        runs[name] = Evidence(
            scenario=SCENARIOS[name],
            revision=R2025_11_25,
            transport=Transport.STDIO,
            transcript=transcript,
            server=FakeServer((R2025_11_25,), 1.0),
            status=0,
            log="",
        )
    return ClientUnderTest(
        revision=R2025_11_25, transport=Transport.STDIO, settings=_SETTINGS, runs=runs, looked_at=runs["tools_call"]
    )


def _messages(client: ClientUnderTest, name: str) -> list[JsonObject]:
    return [each for each in client.runs[name].messages if isinstance(each, dict)]


def _in_loop(client: ClientUnderTest) -> None:
    for message in _messages(client, "initialize"):
        if message["id"] == _JUDGED:
            raise Deviation("another id", "that one")


def _in_list(client: ClientUnderTest) -> None:
    wrong = [each for each in _messages(client, "initialize") if each["id"] == _JUDGED]
    raise Deviation("no such message", str(len(wrong)))


def _by_text(client: ClientUnderTest) -> None:
    names = [each["params"] for each in _messages(client, "tools_call") if each["id"] == _JUDGED]
    raise Deviation("another name", brief(names[0]))


@pytest.mark.parametrize(
    ("check", "scenario"), [(_in_loop, "initialize"), (_in_list, "initialize"), (_by_text, "tools_call")]
)
def test_failure_shows_judged_message_of_its_run(check: Callable[[ClientUnderTest], None], scenario: str) -> None:
    client = _client()
    with pytest.raises(Deviation) as raised:
        check(client)
    lines = list(judged_lines(client, raised.value))

    assert lines[0] == f"in the scenario {scenario}:"
    judged = next(number for number, line in enumerate(lines) if f'"{scenario}-{_JUDGED}"' in line)
    assert f'"{scenario}-{_JUDGED - 8}"' in lines[judged - 8]
    assert [number for number, line in enumerate(lines) if line == JUDGED_NOTE] == [judged + 1]
    assert f'"{scenario}-{_JUDGED + 8}"' in lines[judged + 1 + 8]
    assert lines[1] == f"  -- {_JUDGED - 8} entries are not shown"
    assert lines[-1] == f"  -- {_NUMBER - 1 - _JUDGED - 8} entries are not shown"


def test_failure_without_known_message_shows_end_of_last_run() -> None:
    lines = list(judged_lines(_client(), Deviation("a", "b")))
    assert lines[:2] == ["in the scenario tools_call:", f"  -- {_NUMBER - 60} entries are not shown"]
    assert JUDGED_NOTE not in lines
    assert f'"tools_call-{_NUMBER - 1}"' in lines[-1]


@pytest.mark.parametrize(
    ("fault", "revision", "check", "judged"),
    [
        ("upper-method", "2026-07-28", "header.client-method", "mcp-method: "),
    ],
)
async def test_failure_over_http_shows_judged_request(
    monkeypatch: pytest.MonkeyPatch, fault: str, revision: str, check: str, judged: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)
    for name in [each for each in os.environ if each.startswith("MCP_CONFORMANCE_")]:
        monkeypatch.delenv(name)
    command = ClientCommand(http=f"{sys.executable} -m mutants.raw_client --fault {fault} --url")

    run = await run_client(command, _SETTINGS, revisions=[REVISIONS[revision]], chosen=[check])

    (failed,) = [each for each in run.verdicts if each.outcome is Outcome.FAILED]
    marked = [before for before, line in pairwise(failed.transcript) if line == JUDGED_NOTE]
    assert any(line.startswith("<-- ") and judged in line for line in marked)
