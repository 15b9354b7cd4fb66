from __future__ import annotations

import sys
from pathlib import Path

# Modules that several test modules share are in this folder: such as `engine_pair` and `oauth_network`.
sys.path.insert(0, str(Path(__file__).resolve().parent))
