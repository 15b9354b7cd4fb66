"""All attacks: importing this module fills `ATTACKS`."""

from __future__ import annotations

from bench.attacks import memory_attacks, time_attacks
from bench.attacks.catalogue import ATTACKS, Attack

__all__ = ["ATTACKS", "Attack", "memory_attacks", "time_attacks"]
