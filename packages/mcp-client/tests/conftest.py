from __future__ import annotations

import sys
from pathlib import Path

# What several test modules share lies beside them: `zoo`.
sys.path.insert(0, str(Path(__file__).resolve().parent))
