"""What may have come by chance."""

from __future__ import annotations

import trio

from mcp_conformance.checks.probes.repetition import each_time


async def test_what_is_seen_once_may_have_come_by_chance() -> None:
    seen = iter(["late", None])

    async def trial() -> str | None:
        await trio.lowlevel.checkpoint()
        return next(seen)

    assert await each_time(trial) is None


async def test_what_is_seen_each_time_did_not() -> None:
    seen = iter(["first", "second", "third"])

    async def trial() -> str | None:
        await trio.lowlevel.checkpoint()
        return next(seen)

    assert await each_time(trial) == "third"
    assert next(seen, None) is None
