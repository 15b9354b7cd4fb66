from __future__ import annotations

import sys
from pathlib import Path

# Test modules import their shared modules by name.
sys.path.insert(0, str(Path(__file__).resolve().parent))
