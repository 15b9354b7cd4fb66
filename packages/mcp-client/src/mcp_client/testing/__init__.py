"""Tools for tests of servers and clients: connections in memory, scripted servers and users, snapshots, recordings.

    async def test_the_forecast_is_dry(connect: ConnectFixture) -> None:
        client = await connect(server)
        assert "dry" in (await client.call_tool("forecast", {"city": "Ghent"})).text

The fixtures for pytest are in the module `mcp_client_pytest`, which pytest loads when this distribution is installed. All
of them are built from the names of this module, which need no pytest.
"""

from __future__ import annotations

from mcp_client.testing.connections import ConnectFixture, ConnectionsOfTest, RunnableServer, TestedServer
from mcp_client.testing.memory import (
    Faults,
    Options,
    ScriptedPeer,
    Serve,
    Transcript,
    open_in_memory,
    replayed,
    scripted,
)
from mcp_client.testing.scripted_user import ScriptedUser
from mcp_client.testing.snapshots import AssertToolsMatchSnapshot, assert_tools_match_snapshot

__all__ = [
    "AssertToolsMatchSnapshot",
    "ConnectFixture",
    "ConnectionsOfTest",
    "Faults",
    "Options",
    "RunnableServer",
    "ScriptedPeer",
    "ScriptedUser",
    "Serve",
    "TestedServer",
    "Transcript",
    "assert_tools_match_snapshot",
    "open_in_memory",
    "replayed",
    "scripted",
]
