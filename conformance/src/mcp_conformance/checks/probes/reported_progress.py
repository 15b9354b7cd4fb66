"""The recorded progress notifications, with the requests for which the server sent them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.checks.probes.message_pairs import key_of, objects
from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.model.check import Transport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = ["ReportedRequest", "reported_requests"]

_PROGRESS: Final = "notifications/progress"


@attrs.define(kw_only=True, eq=False)
class ReportedRequest:
    """A request with a progress token, and what the server reported for it."""

    request: JsonObject
    """The request."""
    exchange: int | None
    """The HTTP exchange of the request; `None` over a transport with one stream."""
    values: list[JsonValue] = attrs.field(factory=list)
    """The progress values before the response, in the order of their stream."""
    ended: int | None = None
    """The number of the entry with the response; `None` without one, and for a task, whose progress goes on."""
    late: list[JsonObject] = attrs.field(factory=list)
    """The progress notifications after the response."""


def reported_requests(server: ServerUnderTest) -> Iterator[ReportedRequest]:
    """Yield each recorded request with a progress token."""
    for transcript in server.evidence:
        yield from _reported(transcript, apart=server.transport is Transport.HTTP)


def _reported(transcript: Transcript, *, apart: bool) -> Iterator[ReportedRequest]:
    """Yield the requests of a connection.

    Args:
        transcript: The transcript.
        apart: Whether each request has its own stream. Messages of different streams have no order: a notification is
            compared only with others of its stream, and with the response if its stream began after that.
    """
    found: list[ReportedRequest] = []
    began: dict[int | None, int] = {}
    for number, entry in enumerate(transcript):
        place = entry.exchange if apart else None
        for each in objects(entry):
            if entry.sent and "method" in each and "id" in each:
                began.setdefault(place, number)
                if _token(each) is not None:
                    found.append(ReportedRequest(request=each, exchange=place))
            elif not entry.sent and each.get("method") == _PROGRESS:
                key = key_of(member(each, "params", "progressToken"))
                of_token = [one for one in found if key_of(_token(one.request)) == key]
                # A token may be used again after the response, and by concurrent requests that have streams of their own.
                own = [one for one in of_token if one.exchange == place]
                for one in (own or of_token)[-1:]:
                    if one.ended is None and own:
                        one.values.append(member(each, "params", "progress"))
                    elif one.ended is not None and (own or began.get(place, 0) > one.ended):
                        one.late.append(each)
            elif not entry.sent and "method" not in each:
                for one in found:
                    same = key_of(one.request["id"]) == key_of(each.get("id")) and one.exchange == place
                    if same and one.ended is None and not _is_task(each):
                        one.ended = number
    yield from found


def _token(request: JsonObject) -> JsonValue:
    return member(request, "params", "_meta", "progressToken")


def _is_task(response: JsonObject) -> bool:
    return member(response, "result", "resultType") == "task" or member(response, "result", "task") is not None
