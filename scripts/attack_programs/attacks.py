"""All attacks: importing this module fills `ATTACKS`."""

from __future__ import annotations

from attack_programs import memory_attacks, time_attacks
from attack_programs.catalogue import ATTACKS, Attack

__all__ = ["ATTACKS", "Attack", "memory_attacks", "time_attacks"]
