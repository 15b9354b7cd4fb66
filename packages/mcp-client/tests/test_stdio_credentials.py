"""A server that is started gets its credentials in the environment, and nothing else of ours."""

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
    "What the process was given."
    return " ".join(f"{name}={value}" for name, value in sorted(os.environ.items()))

trio.run(serve_stdio, server)
"""


async def given(env: dict[str, str] | None = None) -> str:
    async with open_stdio([sys.executable, "-c", SERVER], env=env) as client:
        (block,) = (await client.call_tool("variables")).content
        assert isinstance(block, TextContent)
        return block.text


@pytest.mark.spec("auth.stdio-not", "auth.stdio-should-not")
async def test_a_server_that_is_started_gets_its_credentials_in_the_environment() -> None:
    assert "WEATHER_TOKEN=swordfish" in await given({"WEATHER_TOKEN": "swordfish"})


@pytest.mark.spec("auth.stdio-not", "auth.stdio-should-not")
def test_oauth_is_for_http_alone() -> None:
    takes = {
        function.__name__: "auth" in inspect.signature(function).parameters for function in (open_stdio, open_stream)
    }
    assert takes == {"open_stdio": False, "open_stream": False}
    assert "auth" in inspect.signature(open_http).parameters


async def test_credentials_of_ours_do_not_reach_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "SSH_AUTH_SOCK",
        "DATABASE_URL",
        "MCP_TOKEN",
    ):
        monkeypatch.setenv(name, "swordfish")
    assert "swordfish" not in await given()
    assert "swordfish" not in await given({"WEATHER_TOKEN": "mackerel"})
