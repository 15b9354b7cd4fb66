"""Memory and descriptors of a process, from /proc; and the latencies that the well-behaved clients report."""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Calls", "Latency", "Usage", "peak_mib", "reset_peak", "usage"]

_KIB_PER_MIB: Final = 1024
_LIMIT: Final = "the setting is Limits."
"""The part of an error that rejects a request for lack of capacity."""


@attrs.frozen
class Usage:
    """The usage of a process at one moment."""

    rss_mib: float
    """Resident memory in MiB."""
    descriptors: int
    """Open file descriptors."""
    cpu_seconds: float = 0.0
    """Processor time so far."""


def usage(pid: int) -> Usage:
    """Return the usage of a process. Raise `OSError` when it has ended."""
    folder = Path(f"/proc/{pid}")
    schedstat = (folder / "schedstat").read_text().split()
    return Usage(
        status_mib((folder / "status").read_text(), "VmRSS"),
        len(list((folder / "fd").iterdir())),
        int(schedstat[0]) / 1e9,
    )


def peak_mib(pid: int) -> float:
    """Return the most resident memory since `reset_peak`, in MiB."""
    return status_mib(Path(f"/proc/{pid}/status").read_text(), "VmHWM")


def reset_peak(pid: int) -> bool:
    """Reset `peak_mib`. Return whether the system allows it; otherwise the peak is the one of the samples."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        return True
    return False


def status_mib(status: str, name: str) -> float:
    """Return a figure of /proc/PID/status in MiB. Raise `ProcessLookupError` when it is missing, as in a zombie."""
    for line in status.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / _KIB_PER_MIB
    raise ProcessLookupError(f"no {name}: the process has ended")


@attrs.frozen(kw_only=True)
class Latency:
    """The latency of calls in a period."""

    calls: int
    median: float
    """Seconds; `nan` without calls."""
    worst: float
    """Seconds; a call without a response counts with its time so far."""
    slowest: str
    """The kind of client that made the slowest call."""
    failed: int
    """Calls that ended with an error."""
    failure: str
    """The first of these errors."""
    refused: int = 0
    """The number of errors that name a limit, because the server was at capacity."""


@attrs.define(kw_only=True)
class ClientCall:
    """A call of a well-behaved client."""

    kind: str
    began: float
    ended: float | None = None
    error: str | None = None


@attrs.define
class Calls:
    """All calls of the well-behaved clients, from the lines that they print."""

    _calls: dict[int, ClientCall] = attrs.field(factory=dict)
    _lags: list[tuple[float, float]] = attrs.field(factory=list)
    sessions_lost: int = 0

    def read(self, line: str) -> None:
        """Read a line of `bench.attacks.client`."""
        fields = json.loads(line)
        kind, number = str(fields["kind"]), int(fields["number"])
        if kind == "lag":
            self._lags.append((float(fields["began"]), float(fields["ended"])))
        elif kind == "session lost":
            self.sessions_lost += 1
        elif "began" in fields:
            self._calls[number] = ClientCall(kind=kind, began=float(fields["began"]))
        else:
            call = self._calls.setdefault(number, ClientCall(kind=kind, began=float(fields["ended"])))
            call.ended, call.error = float(fields["ended"]), fields["error"]

    def between(self, since: float, until: float) -> Latency:
        """Return the latency of the calls that ran in a period, by the monotonic clock.

        A call that began in the period counts with all of its time, also after the end of the period.
        """
        calls = [call for call in self._calls.values() if call.began < until and (call.ended or math.inf) > since]
        now = time.monotonic()
        took = [(now if call.ended is None else call.ended) - call.began for call in calls]
        failures = [call for call in calls if call.error is not None]
        slowest = max(zip(took, calls, strict=True), key=lambda pair: pair[0], default=None)
        return Latency(
            calls=len(calls),
            median=statistics.median(took) if took else math.nan,
            worst=math.nan if slowest is None else slowest[0],
            slowest="" if slowest is None else slowest[1].kind,
            failed=len(failures),
            refused=sum(_LIMIT in str(call.error) for call in failures),
            failure=f"{failures[0].kind}: {failures[0].error}" if failures else "",
        )

    def answered(self, kinds: Iterable[str]) -> bool:
        """Return whether each kind of client has had an answer."""
        done = {call.kind for call in self._calls.values() if call.ended is not None and call.error is None}
        return done >= set(kinds)

    def lag_between(self, since: float, until: float) -> float:
        """Return the greatest delay of the clients' wakeups: the share of the machine's load in a latency."""
        return max((ended - due for due, ended in self._lags if since < ended and due < until), default=0.0)

    def forget_before(self, when: float) -> None:
        """Drop the calls that ended before a time."""
        self._calls = {number: call for number, call in self._calls.items() if (call.ended or math.inf) > when}
        self._lags = [lag for lag in self._lags if lag[1] > when]
