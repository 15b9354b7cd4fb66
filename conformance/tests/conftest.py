from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_HERE = Path(__file__).resolve().parent
# Modules that several tests share are in this folder. The programs that tests start are in `mutants` and `fixtures`.
sys.path[:0] = [str(_HERE), str(_HERE.parent), str(_HERE.parent / "fixtures")]


@pytest.fixture(scope="session")
def forked_peers() -> Iterator[None]:
    """Start peers by a fork: `peer_command` of a fork server that has imported them."""
    from program_path import PROGRAM_PATH

    from mutants.auth.client_faults import CLIENT_WITH_LOGIN
    from mutants.auth.protected_server_faults import PROTECTED_SERVER
    from mutants.runs.clients import CLIENT
    from mutants.runs.fork_server import fork_server
    from mutants.runs.servers import SERVER

    modules = ("everything_client.__main__", CLIENT, CLIENT_WITH_LOGIN, PROTECTED_SERVER, SERVER)

    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", PROGRAM_PATH)
            stack.enter_context(fork_server(*modules))
        yield
