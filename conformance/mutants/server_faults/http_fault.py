"""The places where a fault can take hold of a raw server over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.streams import Asked, HttpSession, Standing

__all__ = ["HttpFault"]


class HttpFault:
    """Nothing is wrong: every place leaves what it is given as it is."""

    def head(self, method: str, status: int, headers: dict[str, str]) -> tuple[int, dict[str, str]]:  # noqa: ARG002
        """The status and headers of an answer."""
        return status, headers

    def address(self, address: str) -> str:
        """Where it listens."""
        return address

    def admits(self, asked: Asked, *, admitted: bool) -> bool:  # noqa: ARG002
        """Whether a request is let in."""
        return admitted

    def knows(self, session: str | None, *, known: bool) -> bool:  # noqa: ARG002
        """Whether the credentials of a request will do."""
        return known

    def keeps(self, rule: str) -> bool:  # noqa: ARG002
        """Whether a rule is kept at all, by its name."""
        return True

    def refusal(self, why: str, status: int) -> int:  # noqa: ARG002
        """The status of a refusal."""
        return status

    def refusal_body(self, why: str, error: JsonObject) -> JsonObject:  # noqa: ARG002
        """The body of a refusal."""
        return error

    def error_status(self, code: JsonValue, status: int) -> int:  # noqa: ARG002
        """The status of an error of JSON-RPC."""
        return status

    def accepted(self) -> bytes:
        """The body that goes with 202."""
        return b""

    def session_id(self, id: str, number: int) -> str:  # noqa: ARG002
        """The id of a session."""
        return id

    def frame(self, what: str, fields: dict[str, str]) -> dict[str, str]:  # noqa: ARG002
        """The fields of an event: of `priming`, of an `event`, or of `sse`, which names the place to post to."""
        return fields

    def resumed(self, every: Sequence[HttpSession], session: HttpSession, last: str) -> list[bytes] | None:  # noqa: ARG002
        """What comes behind an event; `None` when there is no such event in the session."""
        return next((found for stream in session.streams if (found := stream.after(last)) is not None), None)

    def tells(self, every: Sequence[HttpSession], session: HttpSession) -> Sequence[HttpSession]:  # noqa: ARG002
        """Whose streams an answer of HTTP+SSE goes to."""
        return [session]

    def streams(self, standing: Sequence[Standing]) -> Sequence[Standing]:
        """On which of the streams by GET a notification goes out."""
        return standing[:1]

    def hangs_up(self, *, gone: bool, modern: bool) -> bool:
        """Whether a call is cancelled by the end of its connection."""
        return gone and modern

    def overheard(self, value: JsonValue, *, gone: bool) -> bool:  # noqa: ARG002
        """Whether listeners get a message of somebody else's request."""
        return False

    # --- headers that repeat the body ----------------------------------------------------------------------------------

    def read(self, name: str, value: str) -> str:  # noqa: ARG002
        """A header as it is read."""
        return value

    def same_number(self, text: str, value: int) -> bool:
        """Whether a header says a number."""
        try:
            return float(text) == value
        except ValueError:
            return False

    def agrees(self, name: str, text: str, value: JsonValue, *, same: bool) -> bool:  # noqa: ARG002
        """Whether a header agrees with the body."""
        return same
