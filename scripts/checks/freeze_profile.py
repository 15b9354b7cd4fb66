"""Freezes the checks of the conformance suite that there are now into a profile.

    python scripts/checks/freeze_profile.py 2026-12

A profile that exists is never made again: who relies on it relies on its contents.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mcp_conformance.suite.profile import freeze, read

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FOLDER", "main"]

FOLDER: Final = Path(__file__).resolve().parents[2] / "conformance/src/mcp_conformance/suite/profiles"


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Writes the profile. The exit status: 1 when there is one of that name."""
    (name,) = arguments
    path = folder / f"{name}.json"
    if path.exists():
        print(f"{path.name} exists: choose another name")
        return 1
    text = freeze(name)
    path.write_text(text, encoding="utf-8")
    print(f"{path.name}: {read(text).digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
