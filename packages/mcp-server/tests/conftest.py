from __future__ import annotations

import sys
from pathlib import Path

import pytest

# What several test modules share lies beside them: `raw_client`, `wire_oracle`, `http_hosts`.
sys.path.insert(0, str(Path(__file__).resolve().parent))


@pytest.fixture(params=["embedded", "hypercorn", "mounted"])
def host(request: pytest.FixtureRequest) -> str:
    """Each way to serve an ASGI application in turn: what `http_hosts.served` takes."""
    kind = request.param
    assert isinstance(kind, str)
    return kind
