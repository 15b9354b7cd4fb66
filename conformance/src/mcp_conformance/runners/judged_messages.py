"""The part of the recorded messages that a failed check of a client judged.

A check of a client walks through the messages of one or many runs, and fails at one of them. The variables of the check
hold that message at the time of the failure, as `pytest --showlocals` shows for an assertion; so no check must name it.
The report shows that message, with a note after it, and its neighbors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.drivers.client.http_exchange import HttpExchange
from mcp_conformance.drivers.client.scripted_request import ClientRequestRecord
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.transcript import Entry, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["JUDGED_NOTE", "judged_lines"]

JUDGED_NOTE: Final = "  -- the check failed at the line above"
"""The line after a judged entry."""
_AROUND: Final = 8
"""Entries that are shown before and after a judged one: the exchanges next to it."""
_SHOWN: Final = 60
"""Maximum number of entries that are shown of a run, if the judged ones are in fewer."""
_RUNS: Final = 3
"""Maximum number of runs that are shown: a control and the one that differs from it."""
_RECOGNIZED: Final = 4
"""Minimum number of characters of a part of a message by which a failure identifies it."""
_PARTS: Final = 1000
"""Maximum number of parts of a message that are compared with a failure."""
_JUDGED: Final = 5
"""Maximum number of judged messages of a run."""


def judged_lines(client: ClientUnderTest, failure: BaseException) -> Iterator[str]:
    """Yield the lines of the transcripts that show what a check judged.

    Args:
        client: The client, with the runs that the check used.
        failure: The exception that the check raised.
    """
    shown = {name: marks for name, run in client.runs.items() if (marks := sorted(_marks(run, failure))[:_JUDGED])}
    if not shown and client.looked_at is not None:
        repeated = sorted(_EntryIndex(client.looked_at).of_text(str(failure)))
        shown = {client.looked_at.scenario.name: repeated[:_JUDGED]}
    for name in list(shown)[:_RUNS]:
        yield f"in the scenario {name}:"
        yield from _lines(client.runs.get(name, client.looked_at), shown[name])


def _lines(run: Evidence | None, marks: Sequence[int]) -> Iterator[str]:
    """Yield the entries around the judged ones, each of which a note follows; the last ones, if none is known."""
    entries = [] if run is None else run.transcript.entries
    end = range(max(0, len(entries) - _SHOWN), len(entries))
    chosen = set(end)
    if marks and marks[0] < end.start:
        chosen = {near for mark in marks for near in range(mark - _AROUND, mark + _AROUND + 1)} & set(
            range(len(entries))
        )
    last = -1
    for number in sorted(chosen):
        if number > last + 1:
            yield f"  -- {number - last - 1} entries are not shown"
        yield str(entries[number])
        if number in marks:
            yield JUDGED_NOTE
        last = number
    if entries and last < len(entries) - 1:
        yield f"  -- {len(entries) - last - 1} entries are not shown"


def _marks(run: Evidence, failure: BaseException) -> set[int]:
    """Return the positions of the judged entries of a run."""
    index = _EntryIndex(run)
    single: set[int] = set()
    several: set[int] = set()
    for variables in _variables(failure):
        for value in variables.values():
            single |= index.of(value)
            if isinstance(value, list | tuple):
                for each in value[:_JUDGED]:
                    several |= index.of(each)
    return single or several


def _variables(failure: BaseException) -> Iterator[Mapping[str, object]]:
    """Yield the variables of the functions in which an exception was raised."""
    step = failure.__traceback__
    while step is not None:
        yield step.tb_frame.f_locals
        step = step.tb_next


class _EntryIndex:
    """The positions of values among the entries of a run."""

    def __init__(self, run: Evidence) -> None:
        self._entries: Final = run.transcript.entries
        self._exchanges: Final = {id(each) for each in run.exchanges}
        self._received: Final[dict[int, int]] = {}
        for number, entry in enumerate(self._entries):
            if not entry.sent and isinstance(entry.value, dict | list):
                for value in (entry.value, *(entry.value if isinstance(entry.value, list) else ())):
                    self._received[id(value)] = number

    def of(self, value: object) -> set[int]:
        """Return the positions of a value: a message, an entry, an HTTP request, or a client request."""
        if isinstance(value, HttpExchange):
            return {value.entry} if id(value) in self._exchanges else set()
        if isinstance(value, ClientRequestRecord):
            return self.of(value.response) or self._sent(value.request)
        if isinstance(value, Entry):
            return {number for number, entry in enumerate(self._entries) if entry is value}
        return {self._received[id(value)]} if id(value) in self._received else set()

    def of_text(self, text: str) -> set[int]:
        """Return the positions of the received messages of which a text repeats most: a member, or the name of a tool."""
        lengths: dict[int, int] = {}
        for number, entry in enumerate(self._entries):
            if not entry.sent and entry.kind is Kind.MESSAGE:
                repeated = [len(part) for part in _parts(entry.value) if len(part) >= _RECOGNIZED and part in text]
                lengths[number] = max(repeated, default=0)
        longest = max(lengths.values(), default=0)
        return {number for number, length in lengths.items() if length and length == longest}

    def _sent(self, value: object) -> set[int]:
        return {number for number, entry in enumerate(self._entries) if entry.sent and entry.value == value}


def _parts(value: JsonValue) -> Iterator[str]:
    """Yield the text of each value in a message, as failures show it, up to a number of values."""
    left = [value]
    for _ in range(_PARTS):
        if not left:
            return
        part = left.pop()
        yield part if isinstance(part, str) else brief(part)
        if isinstance(part, dict | list):
            left += part.values() if isinstance(part, dict) else part
