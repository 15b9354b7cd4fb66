"""A run of the benchmark without results, for tests."""

from __future__ import annotations

from typing import Final

from bench.results import Machine, Revision, Run

EMPTY: Final = Run(
    revision=Revision(commit="a" * 40, title="Do <it> & that", changed=False),
    time="2026-11-27T00:00:00+00:00",
    python="3.11.7",
    official="2.3.0",
    machine=Machine(system="Linux", processor="x86_64", cores=2, load_at_start=0.5),
    load_at_end=1.5,
    quick=False,
)
