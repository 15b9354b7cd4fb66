"""The conformance run of `./scripts/demo`: tests the notebook server of the documentation over stdio and over HTTP.

It uses the latest revision of each era. Checks that need fixtures are reported and allowed.
"""

from __future__ import annotations

import shlex
import sys
import tempfile
from pathlib import Path
from typing import Final

from mcp_conformance.cli.main import main as conformance

__all__ = ["main"]

NOTEBOOK: Final = Path(__file__).resolve().parent.parent / "docs" / "examples" / "notebook" / "server.py"
REVISIONS: Final = ("2025-11-25", "2026-07-28")


def main() -> int:
    """Run the suite twice and return the worse exit status."""
    server = shlex.join([sys.executable, str(NOTEBOOK)])
    reports = Path(tempfile.mkdtemp(prefix="mcp-conformance-"))
    ways = {
        "stdio": ["--command", server],
        "http": ["--start", f"{server} --http 127.0.0.1:{{port}}"],
    }
    common = ["--allow-untested", *(word for revision in REVISIONS for word in ("--revision", revision))]
    statuses: list[int] = []
    for name, words in ways.items():
        print(f"\nThe conformance suite with the notebook server over {name}:\n", flush=True)
        page = reports / f"{name}.html"
        statuses.append(conformance(["server", *words, *common, "--html", str(page)]))
        print(f"The report as a page: {page}", flush=True)
    return max(statuses)


if __name__ == "__main__":
    sys.exit(main())
