"""Credentials of stdio servers: a server gets those in its environment settings, and no other variables of the client."""

from __future__ import annotations

import inspect
import sys

import pytest

from mcp_client import open_http, open_stdio, open_stream
from mcp_core.types import TextContent

SERVER = """
import os
import trio
from mcp_server import Server, serve_stdio

server = Server("nosy", version="1")

@server.tool
def variables() -> str:
    "Return the environment variables of the server."
    return " ".join(f"{name}={value}" for name, value in sorted(os.environ.items()))

trio.run(serve_stdio, server)
"""


async def variables_of_server(env: dict[str, str] | None = None) -> str:
    async with open_stdio([sys.executable, "-c", SERVER], env=env) as client:
        (block,) = (await client.call_tool("variables")).content
        assert isinstance(block, TextContent)
        return block.text


@pytest.mark.spec("auth.stdio-not", "auth.stdio-should-not")
async def test_credentials_in_env_passed_to_server() -> None:
    assert "WEATHER_TOKEN=swordfish" in await variables_of_server({"WEATHER_TOKEN": "swordfish"})


@pytest.mark.spec("auth.stdio-not", "auth.stdio-should-not")
def test_auth_parameter_only_for_http() -> None:
    has_auth = {
        function.__name__: "auth" in inspect.signature(function).parameters for function in (open_stdio, open_stream)
    }
    assert has_auth == {"open_stdio": False, "open_stream": False}
    assert "auth" in inspect.signature(open_http).parameters


async def test_credentials_of_client_not_passed_to_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "SSH_AUTH_SOCK",
        "DATABASE_URL",
        "MCP_TOKEN",
    ):
        monkeypatch.setenv(name, "swordfish")
    assert "swordfish" not in await variables_of_server()
    assert "swordfish" not in await variables_of_server({"WEATHER_TOKEN": "mackerel"})
