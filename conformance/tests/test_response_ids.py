"""The checks of response ids: which response may have no id."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final

import pytest
import trio

from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.drivers.server.connection_pool import ConnectionPool
from mcp_conformance.drivers.server.inventory import ServerInventory
from mcp_conformance.drivers.server.targets import UrlTarget
from mcp_conformance.drivers.server.under_test import ServerUnderTest
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.check import Transport
from mcp_conformance.model.fixtures_manifest import Manifest
from mcp_conformance.model.verdict import Deviation
from mcp_conformance.wire.transcript import Transcript, exchanging
from mcp_core.revisions import R2025_11_25

_SETTINGS: Final = Settings(timeout=5.0)
_WITHOUT_ID: Final = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"by the way"}}'


@pytest.mark.parametrize("check", ["jsonrpc.response-ids", "schema.error-id"])
@pytest.mark.parametrize(
    ("transport", "place", "fails"),
    [
        (Transport.HTTP, "same", False),
        (Transport.HTTP, "other", True),
        (Transport.HTTP, "accepted GET", True),
        (Transport.HTTP, "rejected GET", False),
        (Transport.STDIO, "same", False),
        (Transport.STDIO, "other", False),
        (Transport.HTTP_SSE, "other", False),
    ],
)
async def test_error_without_id_must_be_in_the_exchange_of_an_invalid_message(
    check: str, transport: Transport, place: str, *, fails: bool
) -> None:
    transcript = Transcript()
    with exchanging():
        transcript.message(b"{", sent=True, deviant="no JSON")
        if place == "same":
            transcript.message(_WITHOUT_ID, sent=False)
    if place == "other":
        with exchanging():
            transcript.message(_WITHOUT_ID, sent=False)
    if place.endswith("GET"):
        with exchanging():
            transcript.head("GET /mcp", sent=True)
            transcript.head("HTTP 409" if place.startswith("rejected") else "HTTP 200", sent=False)
            transcript.message(_WITHOUT_ID, sent=False)
    async with trio.open_nursery() as nursery:
        server = ServerUnderTest(
            target=UrlTarget("http://127.0.0.1:9/mcp", _SETTINGS),
            revision=R2025_11_25,
            transport=transport,
            inventory=ServerInventory(capabilities={}, lists={}),
            manifest=Manifest(),
            settings=_SETTINGS,
            evidence=[transcript],
            connections=ConnectionPool(nursery),
        )
        judgment: AbstractContextManager[object] = pytest.raises(Deviation) if fails else nullcontext()
        with judgment:
            await SERVER_CHECKS[check].run(server)
