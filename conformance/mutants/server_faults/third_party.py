"""Faults of the pages of a server, and of its requests to third parties."""

from __future__ import annotations

from typing import Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, MODERN

__all__: list[str] = []

_HTTP: Final = ("http",)
_URL_MODE: Final = (*LEGACY[3:], *MODERN)


class _PassesToken(Fault):
    """A server that sends the token of its client to another party.

    Args:
        kind: The kind of request.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def upstream_headers(self, kind: str, user: str, headers: dict[str, str]) -> dict[str, str]:
        return {**headers, "X-Forwarded-Authorization": user} if kind == self._kind else headers


for _revisions in (LEGACY[2:3], LEGACY[3:], MODERN):
    fault(
        f"token-passed-upstream-{_revisions[0]}", "auth.server-no-passthrough", revisions=_revisions, transports=_HTTP
    )(lambda: _PassesToken("upstream"))
for _revisions in (LEGACY[3:], MODERN):
    fault(
        f"token-passed-to-third-party-{_revisions[0]}",
        "elicitation.third-party-credentials",
        revisions=_revisions,
        transports=_HTTP,
    )(lambda: _PassesToken("account"))


@fault("third-party-token-shown", "elicitation.third-party-hidden", revisions=_URL_MODE, transports=_HTTP)
class _ShowsToken(Fault):
    def account(self, name: str, token: str) -> str:
        return f"{name} ({token})"


@fault("page-without-login", "elicitation.url-anonymous", revisions=_URL_MODE, transports=_HTTP)
class _WithoutLogin(Fault):
    def may_visit(self, visitor: str, owner: str, *, named: bool) -> bool:  # noqa: ARG002
        return visitor in ("", owner)


@fault(
    "page-of-every-user",
    "elicitation.url-other-user",
    "elicitation.url-tampered",
    revisions=_URL_MODE,
    transports=_HTTP,
)
class _EveryUser(Fault):
    def may_visit(self, visitor: str, owner: str, *, named: bool) -> bool:  # noqa: ARG002
        return visitor != ""


@fault("page-trusts-its-url", "elicitation.url-tampered", revisions=_URL_MODE, transports=_HTTP)
class _TrustsUrl(Fault):
    def may_visit(self, visitor: str, owner: str, *, named: bool) -> bool:  # noqa: ARG002
        return visitor != "" and named
