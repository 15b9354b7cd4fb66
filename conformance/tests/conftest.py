from __future__ import annotations

import sys
from pathlib import Path

# What several test modules share lies beside them, and the programs that they run in `fixtures`.
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent / "fixtures")]
