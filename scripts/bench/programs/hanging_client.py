"""A correct client in plain Python that hangs: the target of `hanging_targets`.

python -m bench.programs.hanging_client all --url URL
python -m bench.programs.hanging_client exit --start COMMAND
"""

from __future__ import annotations

import os
import sys
import threading
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mutants import raw_client
from mutants.client.messages import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CLIENT_HANGS"]

_FIRST: Final = "initialize"
"""The scenario in which a client must connect, or the suite does not test the revision."""


def _every(number: int) -> Callable[[str], bool]:
    """Return a condition that is true for one in some scenarios, always the same ones."""
    return lambda scenario: zlib.crc32(scenario.encode()) % number == 0


CLIENT_HANGS: Final[Mapping[str, tuple[Callable[[str], bool], bool]]] = {
    "healthy": (lambda _: False, False),
    "all": (lambda _: True, False),
    "all-but-first": (lambda scenario: scenario != _FIRST, False),
    "exit": (lambda _: True, True),
    "exit-every-second": (_every(2), True),
    "exit-every-fifth": (_every(5), True),
}
"""By name: whether the client hangs in a scenario, and whether it does so after its work, in place of its exit."""


def main() -> None:
    """Run the client."""
    name = sys.argv.pop(1)
    hangs, works = CLIENT_HANGS[name]
    is_hanging = hangs(os.environ.get("MCP_CONFORMANCE_SCENARIO", ""))
    status = 0
    if works or not is_hanging:
        with suppress(ClientError):
            status = raw_client.main()
    if is_hanging:
        threading.Event().wait()
    sys.exit(status)


if __name__ == "__main__":
    main()
