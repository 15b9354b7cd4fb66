"""The command that writes the current checks of the conformance suite to a profile.

    python scripts/checks/freeze_profile.py 2026-12

An existing profile is never overwritten: its users rely on its contents.
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
    """Write the profile and return the exit status: 1 when a profile of this name exists."""
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
