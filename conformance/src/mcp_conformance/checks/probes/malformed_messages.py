"""What a server has to say to what is no JSON, and to JSON that is no message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_core.revisions import R2025_06_18, Era, between

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest

__all__ = ["refuses"]

_ERRORS_HAVE_IDS: Final = between(until=R2025_06_18)
"""The revisions whose errors always have the id of a request: none of their messages can answer what has no id."""


async def refuses(server: ServerUnderTest, data: bytes, code: int, what: str, *, lenient_id: int | None = None) -> None:
    """Sends what cannot be taken, and looks at what comes; whatever it is, the connection has to live on.

    Args:
        server: The server.
        data: What is sent.
        code: The code of the error that belongs to it.
        what: What it is, for the sentence.
        lenient_id: The id of the request that a lenient parser finds in it. RFC 8259 leaves it to parsers to accept more than
            JSON, and who reads a request has nothing to complain of.

    Raises:
        Deviation: It is not answered, or by something else.
        NotApplicable: It need not be answered.
    """
    peer = server.peer
    await peer.fence()  # the control: the connection answers what is right
    answer = await peer.malformed(data, deviant=what)
    await peer.fence()
    if answer is None:
        if server.revision in _ERRORS_HAVE_IDS:
            raise NotApplicable(
                "nothing was said, and no error of this revision could be: each has the id of a request"
            )
        raise Deviation(f"error {code} for {what}", "no error at all")
    if answer.is_bare_refusal and server.revision.era is Era.LEGACY:
        return  # the HTTP status says it; the body may hold the error too
    if lenient_id is not None and answer.message.get("id") == lenient_id:
        raise NotApplicable(f"{what}: the server reads it all the same, which is left to parsers")
    answer.error(code, what=what)
