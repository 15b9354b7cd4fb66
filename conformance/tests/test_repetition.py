"""Tests of repeated observations."""

from __future__ import annotations

import trio

from mcp_conformance.checks.probes.repetition import each_time


async def test_observation_made_once_returns_none() -> None:
    observations = iter(["late", None])

    async def observe() -> str | None:
        await trio.lowlevel.checkpoint()
        return next(observations)

    assert await each_time(observe) is None


async def test_observation_made_each_time_is_returned() -> None:
    observations = iter(["first", "second", "third"])

    async def observe() -> str | None:
        await trio.lowlevel.checkpoint()
        return next(observations)

    assert await each_time(observe) == "third"
    assert next(observations, None) is None
