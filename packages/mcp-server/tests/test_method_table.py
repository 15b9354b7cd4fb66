"""A walk over the method table: each definition, from each side, in each revision, over memory, stdio and HTTP, and on asyncio.

The definition determines the outcome. If the revision has it and both sides declared its capabilities, the message is
sent and has an effect. Otherwise the sender gets an error and sends nothing, and the peer rejects the message when it
is sent nevertheless. The connection always continues to work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs
import pytest
from walk_connections import ConnectionPool, ConnectionSpec, Party
from walk_exercises import EXERCISES, is_sent
from walk_server import DEFINITIONS, AnyDefinition, sample, wire_sample

from mcp_core.errors import ErrorCode, LocalProtocolError, MissingRequiredClientCapability, RequestFailed
from mcp_core.methods import (
    INITIALIZE,
    NOTIFICATIONS_INITIALIZED,
    CapabilityPath,
    RequestMethod,
    Side,
)
from mcp_core.revisions import REVISIONS, Revision

TRANSPORTS: Final = ("memory", "stdio", "http", "uvicorn", "asyncio")
"""`uvicorn` is HTTP to a server under uvicorn on asyncio, and `asyncio` is the same with a client in asyncio tasks."""

_HANDSHAKE: Final = frozenset({INITIALIZE, NOTIFICATIONS_INITIALIZED})
"""The messages of the handshake."""


@attrs.frozen
class Case:
    """A definition with a sender and a revision."""

    definition: AnyDefinition
    sender: Side
    revision: Revision

    @property
    def id(self) -> str:
        own = "" if self.definition.extension is None else "+"
        return f"{self.sender.value}-{self.definition.name}{own}-{self.revision}"

    @property
    def may_send(self) -> bool:
        """Whether the revision allows this side to send the message."""
        definition = self.definition
        if not isinstance(definition, RequestMethod):
            return self.revision in definition.revisions and self.sender in definition.sender_in(self.revision)
        as_input_request = self.sender is Side.SERVER and self.revision in definition.input_request
        return self.sender in definition.sender and (as_input_request or self.revision in definition.revisions)

    @property
    def server_capability(self) -> CapabilityPath | None:
        """The capability that the server must declare."""
        definition = self.definition
        if isinstance(definition, RequestMethod) and (
            self.sender is Side.SERVER or self.revision not in definition.capability_revisions
        ):
            return None
        return (
            None
            if self.sender is Side.CLIENT and not isinstance(definition, RequestMethod)
            else definition.server_capability
        )

    @property
    def client_capability(self) -> CapabilityPath | None:
        """The capability that the client must declare."""
        definition = self.definition
        exempt = isinstance(definition, RequestMethod) and self.sender is Side.CLIENT and definition.extension is None
        return None if exempt else definition.client_capability

    @property
    def is_shadowed(self) -> bool:
        """Whether the revision has another definition with the same name and sender."""
        others = (
            Case(definition, self.sender, self.revision)
            for definition in DEFINITIONS
            if definition.name == self.definition.name
        )
        return any(other.may_send for other in others if other.definition is not self.definition)


CASES: Final = [
    Case(definition, sender, revision)
    for definition in DEFINITIONS
    for sender in (Side.CLIENT, Side.SERVER)
    for revision in REVISIONS.values()
]


@pytest.fixture(scope="module")
def pools() -> Iterator[Mapping[str, ConnectionPool]]:
    pools = {transport: ConnectionPool(transport) for transport in TRANSPORTS}
    for pool in pools.values():
        pool.start()
    yield pools
    for pool in pools.values():
        pool.stop()


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_definition_exercised_where_allowed_and_rejected_elsewhere(
    case: Case, transport: str, pools: Mapping[str, ConnectionPool]
) -> None:
    pool = pools[transport]
    full = ConnectionSpec(transport, case.revision)
    if case.may_send:
        _run(pool, full, case, check_exercised)
    else:
        _run(pool, full, case, check_refused)
    if case.may_send and case.server_capability is not None:
        _run(pool, attrs.evolve(full, server=False), case, check_refused)
    if case.may_send and case.client_capability is not None:
        _run(pool, attrs.evolve(full, client=False), case, check_refused)


def _run(pool: ConnectionPool, spec: ConnectionSpec, case: Case, exercise: object) -> None:
    async def run() -> None:
        party = await pool.party(spec)
        await party.server_received()
        party.received.clear()
        party.notes.clear()
        party.notifications.clear()
        assert callable(exercise)
        await exercise(party, case)
        assert await party.call("echo", text="alive") == "alive"

    try:
        pool.run(run)
    except BaseException:
        pool.forget(spec)
        raise


# --- allowed ---------------------------------------------------------------------------------------------------------


async def check_exercised(party: Party, case: Case) -> None:
    await EXERCISES[case.definition, case.sender](party)
    if not is_sent(case.definition, case.sender, party):
        return
    if case.sender is Side.CLIENT:
        lines = party.handshake if case.definition in _HANDSHAKE else await party.server_received()
        assert case.definition.name in [line.split()[0] for line in lines]
    elif not (isinstance(case.definition, RequestMethod) and case.revision in case.definition.input_request):
        assert case.definition.name in [line.split()[0] for line in party.received]


# --- not allowed -----------------------------------------------------------------------------------------------------


async def check_refused(party: Party, case: Case) -> None:
    if case.sender is Side.CLIENT:
        await check_refused_to_client(party, case)
    else:
        await check_refused_to_server(party, case)


async def check_refused_to_client(party: Party, case: Case) -> None:
    definition = case.definition
    with pytest.raises(LocalProtocolError, match=definition.name) as caught:
        await (
            party.client.request(definition, sample(definition))
            if isinstance(definition, RequestMethod)
            else party.client.notify(definition, sample(definition))
        )
    _check_missing_capability_named(caught.value.message, party, case)
    assert await party.server_received() == []
    if case.is_shadowed:
        return
    if not isinstance(definition, RequestMethod):
        await party.notify_unchecked(definition, wire_sample(definition))
        line = await party.server_received()
        assert line in ([f"{definition.name} MessageIgnored"], [f"{definition.name} NotificationReceived"])
        assert not case.may_send or line[0].endswith("NotificationReceived")
        assert case.may_send or line[0].endswith("MessageIgnored")
        return
    with pytest.raises(RequestFailed) as error_info:
        await party.request_unchecked(definition, wire_sample(definition))
    expected = int(ErrorCode.METHOD_NOT_FOUND)
    if case.may_send and not party.spec.client:
        expected = case.revision.missing_client_capability
    assert error_info.value.code == expected
    assert len(await party.server_received()) == 1


async def check_refused_to_server(party: Party, case: Case) -> None:
    definition = case.definition
    number = DEFINITIONS.index(definition)
    # A tool gets the more specific error for a client request.
    outcome = await (party.call_by_tool if isinstance(definition, RequestMethod) else party.call)(
        "attempt", index=number, raw=False
    )
    assert party.received == ["answer ResultReceived"]
    if _is_published(case) and party.spec.server:
        assert outcome == "sent"
    else:
        assert isinstance(outcome, dict), outcome
        assert outcome["refused"] in _expected_errors(party, case)
        assert definition.name in str(outcome["message"])
        _check_missing_capability_named(str(outcome["message"]), party, case)
    if case.is_shadowed:
        return
    party.received.clear()
    answer = await party.call("attempt", index=number, raw=True)
    assert party.received[-1] == "answer ResultReceived"
    (line,) = [line for line in party.received if line.startswith(definition.name)]
    if not isinstance(definition, RequestMethod):
        assert answer == "sent"
        assert line.endswith("NotificationReceived" if case.may_send else "MessageIgnored")
        # An undeclared notification is accepted and noted.
        assert not case.may_send or any("was not declared" in note for note in party.notes)
    elif case.revision.server_requests:
        assert isinstance(answer, dict)
        assert (answer["refused"], answer["code"]) == ("RequestFailed", ErrorCode.METHOD_NOT_FOUND)
    else:
        assert line.endswith("MessageIgnored")


def _is_published(case: Case) -> bool:
    """Return whether the message goes only to subscribers. Without subscribers, publishing is no error."""
    return not isinstance(case.definition, RequestMethod) and case.definition.filter_member is not None


def _expected_errors(party: Party, case: Case) -> set[str]:
    """Return the names of the errors that a handler can get."""
    own, missing = LocalProtocolError.__name__, MissingRequiredClientCapability.__name__
    if not isinstance(case.definition, RequestMethod) or case.definition.client_capability is None:
        return {own}
    # A client of a revision without the capability has not declared it either.
    return {missing} if case.may_send else {own, missing}


def _check_missing_capability_named(message: str, party: Party, case: Case) -> None:
    """Check that a message names the missing capability."""
    if not case.may_send:
        return
    path = case.client_capability if not party.spec.client else case.server_capability
    assert path is not None
    if not isinstance(case.definition, RequestMethod) or case.sender is Side.CLIENT:
        assert ".".join(path) in message


# --- coverage of the walk --------------------------------------------------------------------------------------------


def test_exercise_exists_for_each_definition_and_sender() -> None:
    allowed = {(case.definition, case.sender) for case in CASES if case.may_send}
    assert set(EXERCISES) == allowed


def test_definitions_are_rejected_somewhere_except_cancelled() -> None:
    walked = {
        case.definition for case in CASES if not case.may_send or case.server_capability or case.client_capability
    }
    assert {definition.name for definition in DEFINITIONS if definition not in walked} == {"notifications/cancelled"}
