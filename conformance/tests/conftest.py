from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
# Modules that several tests share are in this folder. The programs that tests start are in `mutants` and `fixtures`.
sys.path[:0] = [str(_HERE), str(_HERE.parent), str(_HERE.parent / "fixtures")]
