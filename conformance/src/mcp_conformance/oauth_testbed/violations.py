"""The recorder of violations, with the requirement that each broke."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from mcp_conformance.oauth_testbed.http_messages import Request

__all__ = ["Violation", "ViolationRecorder"]


@attrs.frozen(kw_only=True)
class Violation:
    """A violation of a requirement by the client."""

    requirement: str
    """The id of the requirement."""
    sentence: str
    """A description of what the client did."""
    request: Request | None = attrs.field(default=None, repr=False)
    """The request; `None` if it is more than one."""

    def __str__(self) -> str:
        return f"{self.requirement}: {self.sentence}"


@attrs.define
class ViolationRecorder:
    """The recorded violations, and the secrets of each server."""

    violations: list[Violation] = attrs.field(factory=list)
    """The violations, in order."""
    secrets: dict[str, str] = attrs.field(factory=dict, repr=False)
    """The server's origin for each code, token, client secret, verifier and assertion."""
    _count: int = attrs.field(default=0, init=False)
    _now: Request | None = attrs.field(default=None, init=False, repr=False)

    def begin(self, request: Request) -> None:
        """Attribute later violations to this request."""
        self._now = request

    def note(self, requirement: str, sentence: str) -> None:
        """Record a violation."""
        self.violations.append(Violation(requirement=requirement, sentence=sentence, request=self._now))

    def expect(self, condition: object, requirement: str, sentence: str) -> bool:
        """Record a violation unless the condition holds, and return whether it holds."""
        if not condition:
            self.note(requirement, sentence)
        return bool(condition)

    def new(self, kind: str, origin: str) -> str:
        """Return a secret that is unique, the same in each run, and not found anywhere by chance."""
        self._count += 1
        secret = f"{kind}-{self._count:04d}-{'secret' * 4}"
        self.secrets[secret] = origin
        return secret
