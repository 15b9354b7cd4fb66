"""Tests of the batches that the suite sends to servers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import pytest

from mcp_conformance.checks.probes.batches import send_batch
from mcp_conformance.drivers.server.targets import CommandTarget
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonValue

_SETTINGS: Final = Settings(timeout=1.0)
_DROPS_ARRAYS: Final = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if isinstance(message, dict):
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)
"""


async def test_batch_without_response_gets_no_flood_of_pings() -> None:
    target = CommandTarget([sys.executable, "-c", _DROPS_ARRAYS], _SETTINGS)
    async with target.open(REVISIONS["2025-03-26"], Transport.STDIO, handshake=False) as peer:
        await peer.fence()
        known = len(peer.transcript.messages(sent=True))
        batch: list[JsonValue] = [peer.message("ping", id="in a batch")]
        with pytest.raises(Deviation, match="1 responses to a batch"):
            await send_batch(peer, batch, 1)
        assert peer.transcript.messages(sent=True)[known:] == batch
