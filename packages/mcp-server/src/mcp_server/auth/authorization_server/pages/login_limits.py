"""Rate limits of login attempts: for a name from one address, for a name, and for an address.

The first limit is the strictest. The second stops an attacker with many addresses. It is high, so that an attacker
cannot easily lock out a user. The third stops an attacker who tries one password with many names.
"""

from __future__ import annotations

from typing import Final

import trio

from mcp_core.limits.rates import Rate, Rates

__all__ = ["LoginLimits"]

_SECONDS: Final = 600.0


class LoginLimits:
    """A counter of failed login attempts.

    It uses the clock of trio, which cannot be set, because setting the system clock back must not lock out users.
    """

    def __init__(self) -> None:
        self._rates: Final = (Rates(Rate(10, _SECONDS)), Rates(Rate(50, _SECONDS)), Rates(Rate(100, _SECONDS)))

    def begin(self, name: str, address: str) -> float:
        """Count an attempt before the password is checked.

        Returns:
            0 if the password may be checked, otherwise the time to wait, in seconds.
        """
        now = trio.current_time()
        for rates, key in zip(self._rates, _keys(name, address), strict=True):
            wait = rates.take(key, now)
            if wait:
                # Attempts beyond the limit of one address must not count against the name.
                return wait
        return 0.0

    def right(self, name: str, address: str) -> None:
        """Take back the count of an attempt with the correct password."""
        for rates, key in zip(self._rates, _keys(name, address), strict=True):
            rates.give_back(key, 1)


def _keys(name: str, address: str) -> tuple[tuple[str, str], str, str]:
    return (name, address), name, address
