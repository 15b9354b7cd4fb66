"""The deadline of a request body. No I/O.

Two rules end the wait for a body. The earlier deadline applies:

total    `patience + length / rate` seconds after the wait started. It depends only on the length.
rate     Over any time `t` of the wait, at least `rate * (t - patience)` bytes arrive. Therefore, `patience` seconds
         without a byte end the wait, and any `2 * patience` seconds bring at least `rate * patience` bytes.

The second rule is a leaky bucket. It contains `patience` seconds at first, loses one each second, and gains `1 / rate`
with each byte, up to `patience`. Because of this limit, a client gains nothing by sending data early: a client that
sends all but the last byte at once has `patience` seconds for that byte, not the hours that all those bytes would take
at `rate`. A plain sliding window would reject slow but honest clients: bytes arrive in segments, and in most windows a
client that only just reaches the rate is one segment short. The bucket tolerates `rate * patience` bytes (5 KiB by
default), which is several segments.

Only time spent waiting for the client counts. `paused` excludes the time that the server itself used.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BodyDeadline"]


class BodyDeadline:
    """The time at which a host stops waiting for a request body.

    Args:
        now: The time at which the wait starts, in seconds of a monotonic clock.
        length: Length of the body in bytes: the value of `Content-Length`, or the limit if the length is unknown.
        grace: Time for the client in addition to `length / rate`, in seconds (`HostTimeouts.body`).
        rate: Lowest accepted rate, in bytes per second (`HostTimeouts.body_rate`).
    """

    __slots__ = ("_grace", "_rate", "_total", "_until")

    def __init__(self, *, now: float, length: int, grace: float, rate: float) -> None:
        self._grace: Final = grace
        self._rate: Final = rate
        self._total = now + grace + length / rate
        self._until = now + grace

    @property
    def give_up_at(self) -> float:
        """The time at which the wait ends unless more of the body arrives before; `math.inf` for no deadline."""
        return min(self._until, self._total)

    def received(self, count: int, now: float) -> None:
        """Count received bytes of the body, without the framing of chunks.

        Args:
            count: Number of bytes that arrived.
            now: The current time, by the clock of the constructor.
        """
        self._until = min(self._until + count / self._rate, now + self._grace)

    def paused(self, seconds: float) -> None:
        """Exclude time in which the host did not wait for the client.

        Args:
            seconds: Time that the application took until it called `receive` again.
        """
        self._until += seconds
        self._total += seconds
