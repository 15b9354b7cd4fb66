"""What clients do that shows nothing: it is not laid at their door."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import attrs
import pytest

from mcp_conformance.checks import Transport
from mcp_conformance.client import CLIENT_CHECKS, SCENARIOS
from mcp_conformance.client.evidence import ClientUnderTest, Evidence
from mcp_conformance.client.fake_server import FakeServer
from mcp_conformance.client.turn import Asked, encoded
from mcp_conformance.settings import Settings
from mcp_conformance.transcript import Transcript
from mcp_conformance.verdicts import Deviation, NotTestable
from mcp_core.revisions import LATEST, LATEST_LEGACY

if TYPE_CHECKING:
    from mcp_conformance.client.stdio_host import Launch
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision

_SETTINGS = Settings()
_PROBE: JsonObject = {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}
_CHANGED: JsonObject = {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}


def _opening(capabilities: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"capabilities": capabilities}}


def _evidence(scenario: str, revision: Revision, *messages: JsonObject, status: int | None = 0) -> Evidence:
    transcript = Transcript()
    for message in messages:
        transcript.message(encoded(message), sent=False)
    return Evidence(
        scenario=SCENARIOS[scenario],
        revision=revision,
        transport=Transport.STDIO,
        transcript=transcript,
        server=FakeServer((revision,), _SETTINGS.patience),
        launches=(cast("Launch", None),),  # that there is one is enough
        status=status,
        log="",
    )


async def _judge(id: str, *runs: Evidence) -> None:
    check = next(each for each in CLIENT_CHECKS if each.id == id)
    await check.run(
        ClientUnderTest(
            revision=runs[0].revision,
            transport=Transport.STDIO,
            settings=_SETTINGS,
            runs={each.scenario.name: each for each in runs},
        )
    )


# --- a server that does not answer the probe -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "status", "outcome"),
    [
        ((), None, NotTestable),
        ((), 1, Deviation),
        ((_opening({}),), None, Deviation),
    ],
)
async def test_a_client_that_waits_longer_than_the_suite_is_not_blamed(
    more: tuple[JsonObject, ...], status: int | None, outcome: type[Exception]
) -> None:
    legacy = _evidence("meets-legacy", LATEST, _opening({}))
    silent = _evidence("meets-silent", LATEST, _PROBE, *more, status=status)

    with pytest.raises(outcome):
        await _judge("stdio.client-probe-silence", legacy, silent)


# --- roots that change -----------------------------------------------------------------------------------------------


def _with_roots(*uris: str, tells: bool = False) -> Evidence:
    opening = _opening({"roots": {"listChanged": True}})
    evidence = _evidence("conformance_roots_change", LATEST_LEGACY, opening, *([_CHANGED] if tells else []))
    for id, uri in enumerate(uris):
        response: JsonObject = {"jsonrpc": "2.0", "id": id, "result": {"roots": [{"uri": uri}]}}
        evidence.server.asked.append(Asked(method="roots/list", request={}, response=response, name="ask_roots"))
    return attrs.evolve(evidence, notes={"posed": ["ask_roots"]})


@pytest.mark.parametrize("uris", [("file:///a",), ("file:///a", "file:///a")])
async def test_a_client_whose_roots_do_not_change_has_nothing_to_tell(uris: tuple[str, ...]) -> None:
    with pytest.raises(NotTestable, match="do not change"):
        await _judge("roots.client-list-changed", _with_roots(*uris))


async def test_a_client_whose_roots_change_tells_so() -> None:
    await _judge("roots.client-list-changed", _with_roots("file:///a", "file:///b", tells=True))
    with pytest.raises(Deviation, match="roots/list_changed"):
        await _judge("roots.client-list-changed", _with_roots("file:///a", "file:///b"))
