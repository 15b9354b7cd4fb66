"""The description of an attack, and the table of all attacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.attacks.attacker import Attacker

    Run = Callable[[Attacker], Awaitable[None]]

__all__ = ["ATTACKS", "Attack", "attack"]


@attrs.frozen(kw_only=True)
class Attack:
    """An attack."""

    name: str
    summary: str
    run: Run
    seconds: float
    """The time after which the attackers are ended."""
    settle: float | None
    """Seconds between the end of the attack and the measurement after it; `None` for the usual time."""
    kept_mib: float
    """MiB that the server may keep after the attack, in addition to the tolerance for each attack."""
    kept_why: str
    """The content of these MiB."""
    figures_below: float | None
    """The limit below which each figure of the attackers must be; `None` for any."""
    nofile: tuple[int, int] | None
    """The soft and the hard limit of file descriptors of the server; `None` for those of this process."""
    only_by_name: bool
    """Whether the attack takes so long that it runs only when `--only` names it."""


ATTACKS: Final[dict[str, Attack]] = {}
"""All attacks by name, in the order in which they run."""


def attack(
    name: str,
    summary: str,
    *,
    seconds: float = 12.0,
    settle: float | None = None,
    kept: tuple[float, str] = (0.0, ""),
    figures_below: float | None = None,
    nofile: tuple[int, int] | None = None,
    only_by_name: bool = False,
) -> Callable[[Run], Run]:
    """Add the decorated function to `ATTACKS`. See `Attack`; `kept` is `kept_mib` and `kept_why`."""

    def add(run: Run) -> Run:
        ATTACKS[name] = Attack(
            name=name,
            summary=summary,
            run=run,
            seconds=seconds,
            settle=settle,
            kept_mib=kept[0],
            kept_why=kept[1],
            figures_below=figures_below,
            nofile=nofile,
            only_by_name=only_by_name,
        )
        return run

    return add
