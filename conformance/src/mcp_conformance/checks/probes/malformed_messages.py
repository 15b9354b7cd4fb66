"""Responses to input that is not JSON, and to JSON that is not a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.message_pairs import is_id
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import R2025_06_18, Era, between

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest

__all__ = ["refuses"]

_ERRORS_HAVE_IDS: Final = between(until=R2025_06_18)
"""The revisions whose errors always have a request id, so that they have no message for input without an id."""


async def refuses(
    server: ServerUnderTest,
    data: bytes,
    code: int,
    what: str,
    *,
    lenient_id: int | None = None,
    tolerable: bool = False,
) -> None:
    """Send malformed input and check the response. The connection has to work afterward in each case.

    Args:
        server: The server.
        data: The bytes that are sent.
        code: The expected error code.
        what: The kind of input, for the message.
        lenient_id: Id of the request that a lenient parser finds in the input. RFC 8259 allows parsers to accept more
            than JSON, and such a parser has nothing to reject.
        tolerable: Whether a server may serve the request nevertheless.

    Raises:
        Deviation: There is no error, or another one.
        NotApplicable: The input does not require a response.
    """
    peer = server.peer
    await peer.fence()  # control: the connection works
    answer = await peer.malformed(data, deviant=what)
    await peer.fence()
    if answer is None:
        if server.revision in _ERRORS_HAVE_IDS:
            raise NotApplicable("no response, and this revision has no error for it: each error has a request id")
        raise Deviation(f"error {code} for {what}", "no response")
    if answer.is_bare_refusal and server.revision.era is Era.LEGACY:
        return  # the status is enough; the body may contain the error too
    if lenient_id is not None and answer.message.get("id") == lenient_id:
        raise NotApplicable(f"{what}: the parser of the server accepts it, which RFC 8259 allows")
    if tolerable and not answer.is_error:
        raise NotApplicable(f"{what}: the server tolerates it, which is not forbidden")
    answer.error(code, what=what)
    id = answer.message.get("id")
    # Another check covers other ids, if the input does not have them.
    if id is not None and (id in (0, "") or not is_id(id)):
        raise Deviation(f"no id, or null, in the error for {what} (JSON-RPC 2.0, section 5)", brief(id))
