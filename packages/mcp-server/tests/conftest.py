from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Modules that several test modules import are in this folder: `raw_client`, `wire_oracle`, `http_hosts`.
sys.path.insert(0, str(Path(__file__).resolve().parent))


from http_hosts import HOSTS


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> str:
    """Each way to serve an ASGI application: an argument of `http_hosts.served`."""
    kind = request.param
    assert isinstance(kind, str)
    return kind
