"""The import path of the programs that tests start: the mutants and the fixtures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_CONFORMANCE: Final = Path(__file__).resolve().parent.parent
FIXTURES: Final = _CONFORMANCE / "fixtures"
PROGRAM_PATH: Final = os.pathsep.join([str(_CONFORMANCE), str(FIXTURES)])
"""The value of `PYTHONPATH` for the started programs."""
