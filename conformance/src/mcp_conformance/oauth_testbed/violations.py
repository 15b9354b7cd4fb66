"""What a client did wrong, with the requirement that it broke: the oracle's notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from mcp_conformance.oauth_testbed.http_messages import Request

__all__ = ["Ledger", "Violation"]


@attrs.frozen(kw_only=True)
class Violation:
    """One thing that a client must not, or should not, have done."""

    requirement: str
    """The id of the requirement."""
    sentence: str
    """What it did."""
    request: Request | None = attrs.field(default=None, repr=False)
    """By which request; `None` where it was more than one."""

    def __str__(self) -> str:
        return f"{self.requirement}: {self.sentence}"


@attrs.define
class Ledger:
    """All that was noted, and what nobody but its owner may see."""

    violations: list[Violation] = attrs.field(factory=list)
    """In the order in which they happened."""
    secrets: dict[str, str] = attrs.field(factory=dict, repr=False)
    """Codes, tokens, client secrets, verifiers, assertions; to whose origin each may go."""
    _count: int = attrs.field(default=0, init=False)
    _now: Request | None = attrs.field(default=None, init=False, repr=False)

    def begin(self, request: Request) -> None:
        """What is noted from now on was done by this request."""
        self._now = request

    def note(self, requirement: str, sentence: str) -> None:
        """Note a violation."""
        self.violations.append(Violation(requirement=requirement, sentence=sentence, request=self._now))

    def expect(self, condition: object, requirement: str, sentence: str) -> bool:
        """Note a violation unless the condition holds; gives whether it does."""
        if not condition:
            self.note(requirement, sentence)
        return bool(condition)

    def new(self, kind: str, origin: str) -> str:
        """A secret that is not used twice, is the same in each run, and is found nowhere by chance."""
        self._count += 1
        secret = f"{kind}-{self._count:04d}-{'secret' * 4}"
        self.secrets[secret] = origin
        return secret
