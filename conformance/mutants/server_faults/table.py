"""All faults of raw servers: those of every module `faults_*`, gathered in one table."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from mutants.server_faults.fault import FAULTS

__all__ = ["FAULTS"]

for _path in sorted(Path(__file__).parent.glob("faults_*.py")):
    import_module(f"mutants.{_path.stem}")
