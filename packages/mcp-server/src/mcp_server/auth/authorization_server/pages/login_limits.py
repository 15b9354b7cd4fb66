"""How often a password may be tried: for a name from one address, for a name, and from an address.

The first is the tight one. The second stops whoever has many addresses, and is wide, so that nobody can easily keep another
person out; the third stops whoever tries one password on many names.
"""

from __future__ import annotations

from typing import Final

import trio

from mcp_core.limits.rates import Rate, Rates

__all__ = ["LoginLimits"]

_SECONDS: Final = 600.0


class LoginLimits:
    """Counts attempts that fail.

    Time is that of trio, which cannot be set: a clock that is put back must not keep users out.
    """

    def __init__(self) -> None:
        self._rates: Final = (Rates(Rate(10, _SECONDS)), Rates(Rate(50, _SECONDS)), Rates(Rate(100, _SECONDS)))

    def begin(self, name: str, address: str) -> float:
        """Somebody is about to try a password.

        Returns:
            0 when it may be looked at; otherwise the seconds to wait.
        """
        now = trio.current_time()
        for rates, key in zip(self._rates, _keys(name, address), strict=True):
            wait = rates.take(key, now)
            if wait:
                # What one address tries too often must not use up what the name has.
                return wait
        return 0.0

    def right(self, name: str, address: str) -> None:
        """The password was right: the attempt does not count."""
        for rates, key in zip(self._rates, _keys(name, address), strict=True):
            rates.give_back(key, 1)


def _keys(name: str, address: str) -> tuple[tuple[str, str], str, str]:
    return (name, address), name, address
