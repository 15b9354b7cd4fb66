from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
# What several test modules share lies beside them. The programs that they run lie in `mutants` and in `fixtures`.
sys.path[:0] = [str(_HERE), str(_HERE.parent), str(_HERE.parent / "fixtures")]
