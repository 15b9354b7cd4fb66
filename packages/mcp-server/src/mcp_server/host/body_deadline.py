"""How long an HTTP host waits for the rest of a request body. No I/O.

Two rules end the wait, whichever comes first:

total    `patience + length / rate` seconds after the wait began. It depends on the length only.
rate     Over any time `t` of the wait, at least `rate * (t - patience)` bytes arrive. So `patience` seconds without a byte
         end the wait, and any `2 * patience` seconds bring at least `rate * patience` bytes.

The second rule is a leaky bucket: it holds `patience` seconds at first, loses one each second, and gains `1 / rate` with
each byte, up to `patience` again. The cap is what makes data that is sent early worthless: a client that sends all but the
last byte at once has `patience` seconds for that byte, not the hours that all those bytes would take at `rate`. A plain
sliding window would cut an honest line: bytes arrive in segments, and in most windows a line that is only just fast
enough is one segment short. The bucket has room for `rate * patience` bytes (5 KiB by default), which is several segments.

Only time spent waiting for the client counts: `paused` takes out what the server itself needed.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BodyDeadline"]


class BodyDeadline:
    """The time at which a host gives up waiting for a request body.

    Args:
        now: The time at which the wait begins, in seconds of any clock that does not go back.
        length: Bytes of the body: what `Content-Length` declares, or the most that are accepted where the length is unknown.
        patience: Seconds that the client has beside the time that the bytes take (`HostTimeouts.body`).
        rate: Bytes per second that a client has to reach (`HostTimeouts.body_rate`).
    """

    __slots__ = ("_patience", "_rate", "_total", "_until")

    def __init__(self, *, now: float, length: int, patience: float, rate: float) -> None:
        self._patience: Final = patience
        self._rate: Final = rate
        self._total = now + patience + length / rate
        self._until = now + patience

    @property
    def give_up_at(self) -> float:
        """The time at which to give up unless more of the body arrives before; `math.inf` for never."""
        return min(self._until, self._total)

    def received(self, count: int, now: float) -> None:
        """Count bytes of the body, without the framing of chunks.

        Args:
            count: How many arrived.
            now: The time.
        """
        self._until = min(self._until + count / self._rate, now + self._patience)

    def paused(self, seconds: float) -> None:
        """Take out time in which the host did not wait for the client.

        Args:
            seconds: How long the application took until it asked for more of the body.
        """
        self._until += seconds
        self._total += seconds
