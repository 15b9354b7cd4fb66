"""The measurements of `nox -s bench`: a table of lines by part, and the function that runs them in turns."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import attrs

# The folders of scripts import each other.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from bench import http_calls, stdio_calls
from bench.results import Goal, ReportLine
from bench.sides import ASGI, FLOOR, OFFICIAL, OURS, TYPESCRIPT, Side

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

__all__ = ["PARTS", "Effort", "Measurement", "in_turns", "measured", "report", "without"]

LEGACY: Final = stdio_calls.LEGACY
MODERN: Final = stdio_calls.MODERN

ALL: Final = (OURS, OFFICIAL, TYPESCRIPT, FLOOR)
PEERS: Final = (OURS, OFFICIAL, TYPESCRIPT)


@attrs.frozen(kw_only=True)
class Effort:
    """The extent of the measurements."""

    calls: int
    """The number of calls in each repetition."""
    repetitions: int
    """The number of repetitions of each side."""
    quick: bool


@attrs.frozen(kw_only=True)
class Measurement:
    """A line to be measured."""

    title: str
    unit: str
    measure: Callable[[Side], float]
    """Returns one repetition of a side."""
    sides: Sequence[Side] = PEERS
    """The first is the side of this project that a comparison of two revisions measures."""
    goals: tuple[Goal, ...] = ()
    more_repetitions: int = 0
    """Repetitions in addition to those of the effort, for a noisy line; negative for one of many long lines."""


def slower(least: float) -> tuple[Goal, ...]:
    """Return the goal that the official Python SDK needs at least this many times as much."""
    return (Goal(over="official", under="ours", least=least),)


def at_most(share: float, side: Side = TYPESCRIPT) -> tuple[Goal, ...]:
    """Return the goal that this project needs at most this share of what another side needs."""
    return (Goal(over="ours", under=side.name, most=share),)


def without(measurement: Measurement, missing: Collection[str]) -> Measurement:
    """Return a measurement without some sides, given by their names, and without the goals that concern them."""
    return attrs.evolve(
        measurement,
        sides=tuple(side for side in measurement.sides if side.name not in missing),
        goals=tuple(goal for goal in measurement.goals if not {goal.over, goal.under} & set(missing)),
    )


_SECONDS: Final = 30.0
_shown: float = time.monotonic()


def report(state: str) -> None:
    """Show what is measured at the moment: on one line of a terminal, in a log twice a minute."""
    global _shown  # noqa: PLW0603  # there is one log
    if sys.stderr.isatty():
        print(f"\r{state[:110]:<110}\r", end="", file=sys.stderr, flush=True)
    elif state and time.monotonic() >= _shown + _SECONDS:
        _shown = time.monotonic()
        print(f"  ... {state}", file=sys.stderr, flush=True)


def in_turns(
    title: str, sides: Sequence[Side], repetitions: int, measure: Callable[[Side], float]
) -> dict[str, tuple[float, ...]]:
    """Measure sides in turns, each second time in reverse order, and return the values of each side."""
    values: dict[str, list[float]] = {side.name: [] for side in sides}
    for number in range(repetitions):
        for side in sides if number % 2 == 0 else reversed(sides):
            report(f"{title}: {number + 1} of {repetitions}, {side.name}")
            values[side.name].append(measure(side))
    report("")
    return {name: tuple(each) for name, each in values.items()}


def measured(part: str, measurement: Measurement, repetitions: int) -> ReportLine:
    """Measure a line."""
    some = max(1, repetitions + measurement.more_repetitions)
    values = in_turns(measurement.title, measurement.sides, some, measurement.measure)
    return ReportLine(part=part, title=measurement.title, unit=measurement.unit, values=values, goals=measurement.goals)


def over_stdio(effort: Effort) -> Iterator[Measurement]:
    """Measure the server over stdio."""
    for revision in (LEGACY, MODERN):
        for in_flight, goals in ((1, slower(5.0) + at_most(0.95)), (64, slower(12.0))):

            def cpu(side: Side, revision: str = revision, in_flight: int = in_flight) -> float:
                return stdio_calls.calls(side, revision, in_flight, effort.calls)[0]

            title = f"server CPU, tools/call, {in_flight} in flight, {revision}"
            yield Measurement(title=title, unit="us", measure=cpu, sides=ALL, goals=goals)

        def wall(side: Side, revision: str = revision) -> float:
            return stdio_calls.calls(side, revision, 1, effort.calls)[1]

        yield Measurement(title=f"server latency, tools/call, {revision}", unit="us", measure=wall, sides=ALL)
    listing = partial(stdio_calls.listing, revision=LEGACY, number=max(100, effort.calls // 20))
    yield Measurement(title="server CPU, tools/list of 100", unit="us", measure=listing, goals=slower(15.0))
    for size in (1, 10):
        large = partial(stdio_calls.large, size=size << 20, number=4)
        yield Measurement(title=f"server CPU, echo of {size} MiB", unit="ms", measure=large, goals=slower(1.0))


def client_over_stdio(effort: Effort) -> Iterator[Measurement]:
    """Measure the client over stdio."""
    for revision in (LEGACY, MODERN):
        for at_once, goals in ((1, at_most(1.0)), (16, slower(4.0) + at_most(1.0))):
            title = f"client CPU, tools/call, {at_once} in flight, {revision}"
            some = partial(stdio_calls.client, revision=revision, at_once=at_once, number=effort.calls)
            yield Measurement(title=title, unit="us", measure=some, sides=ALL, goals=goals)


def starting(effort: Effort) -> Iterator[Measurement]:  # noqa: ARG001  # a part takes the effort
    """Measure the time from the start to the first response."""
    yield Measurement(
        title="server, start to first response",
        unit="ms",
        measure=lambda side: stdio_calls.start(side)[0],
        sides=ALL,
        goals=slower(2.5) + at_most(0.85),
        more_repetitions=2,
    )


IMPORT_GOALS: Final = {
    "client": slower(3.5) + at_most(1.0) + at_most(1.9, FLOOR),
    "server": at_most(0.97) + at_most(2.4, FLOOR),
}
"""The goals of imports by role: 190 and 240 ms where trio takes 100, and the TypeScript SDK 191 and 247."""


def imports(effort: Effort) -> Iterator[Measurement]:  # noqa: ARG001  # a part takes the effort
    """Measure the imports of the client and of the server. The floor is that of trio."""
    for role, goals in IMPORT_GOALS.items():
        yield Measurement(
            title=f"{role}, import",
            unit="ms",
            measure=partial(stdio_calls.importing, role=role),
            sides=ALL,
            goals=goals,
            more_repetitions=2,
        )


def http(effort: Effort) -> Iterator[Measurement]:
    """Measure the server over HTTP."""
    hypercorn = Side("hypercorn floor", "hypercorn-floor")
    # The official Python SDK has no streams for plain calls of 2026-07-28.
    for form, revision, least in (("json", LEGACY, 2.0), ("json", MODERN, 3.2), ("stream", LEGACY, 5.0)):
        for at_once, goals in ((1, ()), (16, slower(least))):
            some = partial(http_calls.calls, form=form, revision=revision, at_once=at_once, number=effort.calls)
            yield Measurement(
                title=f"HTTP {form}, {at_once} connections, {revision}",
                unit="us",
                measure=some,
                sides=(*ALL, hypercorn) if (form, revision, at_once) == ("json", MODERN, 16) else ALL,
                goals=goals,
                more_repetitions=0 if goals else -1,
            )
    for size, goals in ((1, ()), (10, slower(1.0))):
        echo = partial(http_calls.calls, form="json", revision=LEGACY, at_once=1, number=4, size=size << 20)
        yield Measurement(
            title=f"HTTP json, echo of {size} MiB, {LEGACY}", unit="ms", measure=milliseconds(echo), goals=goals
        )
    yield Measurement(
        title="HTTP, opening a session",
        unit="us",
        measure=partial(http_calls.opening, number=100 if effort.quick else 300),
        sides=ALL,
        goals=slower(6.8),
    )
    yield Measurement(
        title="HTTP, one notification to 500 streams",
        unit="ms",
        measure=lambda side: http_calls.listening(side, 500)[1],
        goals=slower(1.5),
    )


def milliseconds(measure: Callable[[Side], float]) -> Callable[[Side], float]:
    """Return the function with its microseconds in milliseconds."""
    return lambda side: measure(side) / 1e3


ASGI_GOALS: Final = {
    1: (Goal(over="official", under="uvicorn", least=1.0),),
    16: (
        Goal(over="uvicorn", under="ours", most=1.6),
        Goal(over="official", under="uvicorn", least=1.7),
    ),
}
"""The goals under uvicorn, by the number of connections."""


def asgi(effort: Effort) -> Iterator[Measurement]:
    """Measure the application of a server on uvicorn beside the embedded host, and beside the official SDK on uvicorn."""
    floor = Side("floor", "uvicorn-floor")
    # `uvicorn` installs h11, `uvicorn[standard]` uvloop and httptools.
    hosts = [("asyncio", "h11"), ("uvloop", "httptools")]
    for loop, parser in hosts:
        for form, revision in (("json", MODERN), ("stream", LEGACY)):
            for at_once in (1, 16):
                some = partial(
                    http_calls.calls,
                    form=form,
                    revision=revision,
                    at_once=at_once,
                    number=effort.calls,
                    loop=loop,
                    parser=parser,
                )
                yield Measurement(
                    title=f"uvicorn, {loop}, {parser}, {form}, {at_once} connections, {revision}",
                    unit="us",
                    measure=some,
                    sides=(ASGI, OURS, OFFICIAL, floor),
                    goals=ASGI_GOALS[at_once],
                    more_repetitions=-1,
                )


def http_client(effort: Effort) -> Iterator[Measurement]:
    """Measure the client over HTTP."""
    for form, revision, one, many in (
        ("json", LEGACY, (), slower(5.0)),
        ("json", MODERN, slower(6.0), slower(6.0)),
        ("stream", LEGACY, (), slower(7.0)),
    ):
        for at_once, goals in ((1, one), (16, many)):
            title = f"HTTP client CPU, {form}, {at_once} in flight, {revision}"
            some = partial(http_calls.client, revision=revision, at_once=at_once, number=effort.calls, form=form)
            yield Measurement(
                title=title, unit="us", measure=some, sides=ALL, goals=goals, more_repetitions=0 if goals else -1
            )


FORMS: Final[dict[str, tuple[str, ...]]] = {
    "asyncio": ("client_asyncio.py", "asyncio"),
    "uvloop": ("client_asyncio.py", "uvloop"),
    "blocking": ("client_blocking.py",),
    "ours": (),
    "official": (),
}
"""The forms of the client, and the official SDK, each with its program and the first arguments; empty for that of the side."""

FORM_GOALS: Final = (
    Goal(over="asyncio", under="ours", most=1.6),
    Goal(over="asyncio", under="official", most=0.5),
)
"""The goals with 16 calls in flight."""


class ClientMeasure(Protocol):
    """A function that measures a client."""

    def __call__(self, side: Side, revision: str, at_once: int, number: int, program: tuple[str, ...], /) -> float:
        """Return CPU microseconds per call."""


def client_forms(effort: Effort) -> Iterator[Measurement]:
    """Measure the client on asyncio, on trio and without a loop, beside the official SDK."""
    sides = tuple(Side(name, "official" if name == "official" else "ours") for name in FORMS)
    clients: tuple[tuple[str, ClientMeasure], ...] = (("stdio", stdio_calls.client), ("HTTP", http_calls.client))
    for transport, client in clients:
        for at_once in (1, 16):

            def some(side: Side, client: ClientMeasure = client, at_once: int = at_once) -> float:
                return client(side, MODERN, at_once, effort.calls, FORMS.get(side.name, FORMS["asyncio"]))

            yield Measurement(
                title=f"{transport} client CPU, forms, {at_once} in flight, {MODERN}",
                unit="us",
                measure=some,
                sides=sides,
                goals=FORM_GOALS if at_once == 16 else (),
                more_repetitions=-1,
            )


def memory(effort: Effort) -> Iterator[Measurement]:  # noqa: ARG001  # a part takes the effort
    """Measure the memory of servers, sessions, streams and clients, which varies less than time."""
    yield Measurement(
        title="memory of a server over stdio after one call",
        unit="MiB",
        measure=lambda side: stdio_calls.start(side)[1],
        sides=ALL,
        goals=slower(2.0),
        more_repetitions=-1,
    )
    yield Measurement(
        title="memory of an idle HTTP server",
        unit="MiB",
        measure=http_calls.idle_memory,
        sides=ALL,
        more_repetitions=-1,
    )
    sessions = partial(http_calls.sessions, number=1_000)
    yield Measurement(title="memory of a session (of 1,000)", unit="KiB", measure=sessions, more_repetitions=-1)
    yield Measurement(
        title="memory of a listen stream (of 500)",
        unit="KiB",
        measure=lambda side: http_calls.listening(side, 500)[0],
        more_repetitions=-1,
    )
    for revision in (LEGACY, MODERN):
        group = partial(http_calls.group, revision=revision, number=50)
        yield Measurement(
            title=f"memory of a client (of a group of 50), {revision}", unit="KiB", measure=group, more_repetitions=-1
        )


PARTS: Final[dict[str, Callable[[Effort], Iterable[Measurement]]]] = {
    "server": over_stdio,
    "client": client_over_stdio,
    "start": starting,
    "import": imports,
    "http": http,
    "http-client": http_client,
    "asgi": asgi,
    "client-forms": client_forms,
    "memory": memory,
}
"""The parts that consist of lines."""
