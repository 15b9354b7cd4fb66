"""A walk over the table of methods: each row, from each side, in each revision, over memory, stdio and HTTP.

What has to happen follows from the row. Where the revision has it and both sides declared what it needs, it is sent,
acted upon and answered. Else the side that would send it is told so, and nothing is sent; and the other side refuses it
when it comes all the same. Whatever happens, the connection goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs
import pytest
from walk_exercises import EXERCISES, travels
from walk_server import ROWS, AnyRow, sample, wire_sample
from walk_world import Party, Place, World

from mcp_core.errors import ErrorCode, LocalProtocolError, MissingRequiredClientCapability, RequestFailed
from mcp_core.methods import (
    INITIALIZE,
    NOTIFICATIONS_INITIALIZED,
    CapabilityPath,
    Method,
    Role,
)
from mcp_core.revisions import REVISIONS, Revision

TRANSPORTS: Final = ("memory", "stdio", "http")

_OF_THE_OPENING: Final = frozenset({INITIALIZE, NOTIFICATIONS_INITIALIZED})
"""What was said before the connection was open."""


@attrs.frozen
class Case:
    """One row, from one side, in one revision, and what follows."""

    row: AnyRow
    sender: Role
    revision: Revision

    @property
    def id(self) -> str:
        own = "" if self.row.extension is None else "+"
        return f"{self.sender.value}-{self.row.name}{own}-{self.revision}"

    @property
    def may_send(self) -> bool:
        """Whether the revision lets this side send it."""
        row = self.row
        if not isinstance(row, Method):
            return self.revision in row.revisions and self.sender in row.sender_in(self.revision)
        asks = self.sender is Role.SERVER and self.revision in row.input_request
        return self.sender in row.sender and (asks or self.revision in row.revisions)

    @property
    def of_server(self) -> CapabilityPath | None:
        """What the server has to have declared for it."""
        row = self.row
        if isinstance(row, Method) and (self.sender is Role.SERVER or self.revision not in row.capability_revisions):
            return None
        return None if self.sender is Role.CLIENT and not isinstance(row, Method) else row.server_capability

    @property
    def of_client(self) -> CapabilityPath | None:
        """What the client has to have declared for it."""
        row = self.row
        unasked = isinstance(row, Method) and self.sender is Role.CLIENT and row.extension is None
        return None if unasked else row.client_capability

    @property
    def shadowed(self) -> bool:
        """Whether another row has its name there: what comes under that name is that one."""
        others = (Case(row, self.sender, self.revision) for row in ROWS if row.name == self.row.name)
        return any(other.may_send for other in others if other.row is not self.row)


CASES: Final = [
    Case(row, sender, revision)
    for row in ROWS
    for sender in (Role.CLIENT, Role.SERVER)
    for revision in REVISIONS.values()
]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    world = World()
    world.start()
    yield world
    world.stop()


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_each_row_is_exercised_where_it_is_allowed_and_refused_elsewhere(
    case: Case, transport: str, world: World
) -> None:
    full = Place(transport, case.revision)
    if case.may_send:
        _in(world, full, case, exercised)
    else:
        _in(world, full, case, refused)
    if case.may_send and case.of_server is not None:
        _in(world, attrs.evolve(full, server=False), case, refused)
    if case.may_send and case.of_client is not None:
        _in(world, attrs.evolve(full, client=False), case, refused)


def _in(world: World, place: Place, case: Case, what: object) -> None:
    async def run() -> None:
        party = await world.party(place)
        await party.server_heard()
        party.heard.clear()
        party.notes.clear()
        party.taken.clear()
        assert callable(what)
        await what(party, case)
        assert await party.do("echo", text="alive") == "alive"

    try:
        world.run(run)
    except BaseException:
        world.forget(place)
        raise


# --- allowed ---------------------------------------------------------------------------------------------------------


async def exercised(party: Party, case: Case) -> None:
    await EXERCISES[case.row, case.sender](party)
    if not travels(case.row, case.sender, party):
        return
    if case.sender is Role.CLIENT:
        lines = party.opening if case.row in _OF_THE_OPENING else await party.server_heard()
        assert case.row.name in [line.split()[0] for line in lines]
    elif not (isinstance(case.row, Method) and case.revision in case.row.input_request):
        assert case.row.name in [line.split()[0] for line in party.heard]


# --- not allowed -----------------------------------------------------------------------------------------------------


async def refused(party: Party, case: Case) -> None:
    if case.sender is Role.CLIENT:
        await refused_to_client(party, case)
    else:
        await refused_to_server(party, case)


async def refused_to_client(party: Party, case: Case) -> None:
    row = case.row
    with pytest.raises(LocalProtocolError, match=row.name) as caught:
        await (
            party.client.request(row, sample(row)) if isinstance(row, Method) else party.client.notify(row, sample(row))
        )
    _names_what_is_missing(caught.value.message, party, case)
    assert await party.server_heard() == []
    if case.shadowed:
        return
    if not isinstance(row, Method):
        await party.tell_unchecked(row, wire_sample(row))
        heard = await party.server_heard()
        assert heard in ([f"{row.name} Ignored"], [f"{row.name} NotificationReceived"])
        assert not case.may_send or heard[0].endswith("NotificationReceived")
        assert case.may_send or heard[0].endswith("Ignored")
        return
    with pytest.raises(RequestFailed) as answered:
        await party.ask_unchecked(row, wire_sample(row))
    expected = int(ErrorCode.METHOD_NOT_FOUND)
    if case.may_send and not party.place.client:
        expected = case.revision.missing_client_capability
    assert answered.value.code == expected
    assert len(await party.server_heard()) == 1


async def refused_to_server(party: Party, case: Case) -> None:
    row = case.row
    number = ROWS.index(row)
    # Of questions a handler that may ask any is told more.
    said = await (party.tool if isinstance(row, Method) else party.do)("attempt", row=number, raw=False)
    assert party.heard == ["answer AnswerReceived"]
    if _published(case) and party.place.server:
        assert said == "told"
    else:
        assert isinstance(said, dict), said
        assert said["refused"] in _refusals(party, case)
        assert row.name in str(said["message"])
        _names_what_is_missing(str(said["message"]), party, case)
    if case.shadowed:
        return
    party.heard.clear()
    answer = await party.do("attempt", row=number, raw=True)
    assert party.heard[-1] == "answer AnswerReceived"
    (heard,) = [line for line in party.heard if line.startswith(row.name)]
    if not isinstance(row, Method):
        assert answer == "told"
        assert heard.endswith("NotificationReceived" if case.may_send else "Ignored")
        # It does no harm, but it is put down.
        assert not case.may_send or any("was not declared" in note for note in party.notes)
    elif case.revision.server_requests:
        assert isinstance(answer, dict)
        assert (answer["refused"], answer["code"]) == ("RequestFailed", ErrorCode.METHOD_NOT_FOUND)
    else:
        assert heard.endswith("Ignored")


def _published(case: Case) -> bool:
    """Whether it is told to whoever wants to know: that nobody does, or can, is no error."""
    return not isinstance(case.row, Method) and case.row.filter_member is not None


def _refusals(party: Party, case: Case) -> set[str]:
    """The names of the errors that tell a handler that it may not send this."""
    own, missing = LocalProtocolError.__name__, MissingRequiredClientCapability.__name__
    if not isinstance(case.row, Method) or case.row.client_capability is None:
        return {own}
    # A client of a revision without it has not declared it either.
    return {missing} if case.may_send else {own, missing}


def _names_what_is_missing(message: str, party: Party, case: Case) -> None:
    """Where a capability is missing, which one; else the revision, or that this side sends it in another way."""
    if not case.may_send:
        return
    path = case.of_client if not party.place.client else case.of_server
    assert path is not None
    if not isinstance(case.row, Method) or case.sender is Role.CLIENT:
        assert ".".join(path) in message


# --- the walk itself -------------------------------------------------------------------------------------------------


def test_there_is_an_exercise_for_each_row_from_each_side_that_may_send_it() -> None:
    allowed = {(case.row, case.sender) for case in CASES if case.may_send}
    assert set(EXERCISES) == allowed


def test_each_row_is_refused_somewhere_unless_both_may_send_it_always() -> None:
    walked = {case.row for case in CASES if not case.may_send or case.of_server or case.of_client}
    assert {row.name for row in ROWS if row not in walked} == {"notifications/cancelled"}
