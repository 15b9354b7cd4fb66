"""The parts that operators on clients that log in share: the leg, targets, and changes of requests of one kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.generated.fault import Operator, Target
from mutants.generated.login_proxy import LoginMutation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mutants.generated.fault import Leg, Recording
    from mutants.generated.login_proxy import LoginRequest

__all__ = ["FIRST", "LEGACY", "LOGIN", "MODERN", "OLD", "RequestMutation", "login_operator", "login_targets"]


LOGIN: Final = "login"
"""The transport of the legs of clients that log in, which is HTTP with an authorization server."""
FIRST: Final = "2025-03-26"
MODERN: Final = "2026-07-28"
LEGACY: Final = ("2025-03-26", "2025-06-18", "2025-11-25")
OLD: Final = ("2025-03-26", "2025-06-18")


class RequestMutation(LoginMutation):
    """A change of the requests of one kind.

    Args:
        kind: The kind.
        change: Returns the request in place of one; the same one if it is not concerned.
    """

    def __init__(self, kind: str, change: Callable[[LoginRequest], LoginRequest]) -> None:
        self._kind: Final = kind
        self._change: Final = change

    def login_request(self, request: LoginRequest) -> LoginRequest | None:
        """Return the changed request."""
        return self._change(request) if request.kind == self._kind else None


def login_targets(
    key: str, detail: str = "", *, without: tuple[str, ...] = ()
) -> Callable[[Recording], Iterable[Target]]:
    """Return a target of clients that log in, if they send such a request, except in some revisions."""

    def targets(recording: Recording) -> Iterable[Target]:
        leg = recording.leg
        held = [each.get("fields") for each in recording.messages(f"{key} login") if leg.transport == LOGIN]
        found = any(not detail or (isinstance(each, dict) and detail in each) for each in held)
        return [Target(key=f"{key} login", detail=detail)] if found and leg.revision not in without else []

    return targets


def login_operator(
    name: str,
    summary: str,
    targets: Callable[[Recording], Iterable[Target]],
    mutation: Callable[[], LoginMutation],
    *,
    invisible: str = "",
    provoked: bool = False,
) -> Operator:
    """Return an operator on clients that log in."""

    def made(target: Target, leg: Leg) -> LoginMutation:  # noqa: ARG001  one signature
        return mutation()

    return Operator(
        name=f"login-{name}",
        summary=summary,
        targets=targets,
        mutation=made,
        invisible=invisible,
        provoked=provoked,
    )
