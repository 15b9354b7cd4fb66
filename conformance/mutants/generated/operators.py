"""The table of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mutants.generated.fault import GeneratedFault, area_of
from mutants.generated.framing import FRAMING_OPERATORS
from mutants.generated.logins.operator import LOGIN
from mutants.generated.logins.table import LOGIN_OPERATORS
from mutants.generated.members import MEMBER_OPERATORS
from mutants.generated.messages import MESSAGE_OPERATORS
from mutants.generated.protected import PROTECTED, PROTECTED_OPERATORS
from mutants.generated.received import RECEIVED_OPERATORS
from mutants.generated.transitions import TRANSITION_OPERATORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mutants.generated.fault import Operator, Recording

__all__ = ["OPERATORS", "generate"]

OPERATORS: Final[Mapping[str, Operator]] = {
    each.name: each
    for each in (
        *MEMBER_OPERATORS,
        *MESSAGE_OPERATORS,
        *FRAMING_OPERATORS,
        *RECEIVED_OPERATORS,
        *TRANSITION_OPERATORS,
        *PROTECTED_OPERATORS,
        *LOGIN_OPERATORS,
    )
}
"""All operators, by name."""


def generate(recording: Recording) -> Iterator[GeneratedFault]:
    """Yield the faults of a leg."""
    leg = recording.leg
    # 2024-11-05 does not define this transport: what carries its messages is that of later revisions.
    undefined = leg.revision == "2024-11-05" and leg.transport == "http"
    # The other operators are tried with the peers that have all features.
    own = {PROTECTED: PROTECTED_OPERATORS, LOGIN: LOGIN_OPERATORS}
    for operator in own.get(leg.transport) or OPERATORS.values():
        for target in operator.targets(recording):
            if undefined and area_of(target.key) in ("http", "sse"):
                continue
            yield GeneratedFault(operator=operator, target=target, leg=recording.leg)
