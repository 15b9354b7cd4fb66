"""Groups of connections."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Unpack

import pytest
import trio
import trio.testing

from mcp_client import Client, Connector, Handlers, open_http, open_stdio, open_stream
from mcp_client.group import ConfigError, NameCollision, Restart, configured, open_group, read_config
from mcp_client.guards import Rate, RateLimit
from mcp_client.testing import Options, Transcript, open_in_memory
from mcp_core.errors import ConnectionEnded, LimitExceeded, LocalProtocolError, ProcessFailed
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.middleware import Middleware, MiddlewareMessage, Proceed
from mcp_core.revisions import LATEST, R2025_03_26
from mcp_core.types import Root, TextContent
from mcp_server import Context, Server, serve_http, serve_stream

PROGRAM = """
import os, sys, trio
from mcp_server import Context, Server, serve_stdio
server = Server(sys.argv[1], version="1")

@server.tool
async def whoami(context: Context) -> str:
    roots = await context.list_roots() if context.peer.capabilities.roots else ()
    return f"{sys.argv[1]} {os.getpid()} {[root.uri for root in roots]}"

@server.prompt
def greet(name: str) -> str:
    return f"{sys.argv[1]} greets {name}"

@server.resource("memo://one")
def memo() -> str:
    return sys.argv[1]

trio.run(serve_stdio, server)
"""


def program(name: str) -> Callable[[], Connector]:
    return lambda: open_stdio([sys.executable, "-c", PROGRAM, name])


def text_of(result: object) -> str:
    (block,) = getattr(result, "content")  # noqa: B009  # the result of a tool call
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.spec("tools.name-disambiguation")
async def test_group_merges_lists_of_servers() -> None:
    async with open_group({"a": program("a"), "b": program("b")}) as group:
        assert list(group) == ["a", "b"]
        assert len(group) == 2
        tools = await group.list_tools()
        assert [(tool.name, tool.server, tool.item.name) for tool in tools.items] == [
            ("a__whoami", "a", "whoami"),
            ("b__whoami", "b", "whoami"),
        ]
        assert tools.failed == {}
        assert group.origin("b__whoami") == ("b", "whoami")
        assert group.origin("c__whoami") is None
        assert text_of(await group.call_tool("b__whoami")).startswith("b ")
        prompt = await group.get_prompt("a__greet", {"name": "Ada"})
        assert "a greets Ada" in repr(prompt.messages)
        resources = await group.list_resources()
        assert [(each.name, each.server) for each in resources.items] == [("memo://one", "a"), ("memo://one", "b")]
        assert (await group.list_resource_templates()).items == ()
        with pytest.raises(LocalProtocolError, match="no server of the group offers a tool 'nothing'"):
            await group.call_tool("nothing")
        with pytest.raises(LocalProtocolError, match="no server of the group offers a prompt 'nothing'"):
            await group.get_prompt("nothing")
        with pytest.raises(LocalProtocolError, match="there is no server 'c'; there are a, b"):
            group["c"]


async def test_group_unreachable_server_failed_and_others_connected() -> None:
    servers = {
        "dead": lambda: open_stdio([sys.executable, "-c", "raise SystemExit('broken')"]),
        "nowhere": lambda: open_stdio(["there-is-no-such-program"]),
        "alive": program("alive"),
    }
    async with open_group(servers) as group:
        assert set(group.failed) == {"dead", "nowhere"}
        assert isinstance(group.failed["nowhere"], ProcessFailed)
        assert [member.state for member in map(group.__getitem__, group)] == ["failed", "failed", "connected"]
        tools = await group.list_tools()
        assert [tool.name for tool in tools.items] == ["alive__whoami"]
        assert set(tools.failed) == {"dead", "nowhere"}
        with pytest.raises(ConnectionEnded, match="there is no connection to 'dead'") as caught:
            group["dead"].client  # noqa: B018
        assert "broken" in str(caught.value.__cause__)
        assert repr(group["dead"]) == "<Member 'dead', failed>"


@pytest.mark.spec("stdio.restart-after-crash")
async def test_group_killed_process_restarted() -> None:
    restart = Restart(times=2, within=3600, delay=0)
    async with open_group({"a": program("a")}, restart=restart) as group:
        pids: set[str] = set()
        for _ in range(3):
            pid = text_of(await group.call_tool("a__whoami")).split()[1]
            pids.add(pid)
            client = group["a"].client
            os.kill(int(pid), signal.SIGKILL)
            await client.wait_ended()
            while group["a"].state == "connected":
                await trio.lowlevel.checkpoint()
        assert len(pids) == 3
        # The last kill exceeds the limit of restarts.
        with pytest.raises(ConnectionEnded):
            await group.call_tool("a__whoami")
        assert group["a"].state == "failed"
        assert group["a"].error is not None
        group["a"].reconnect()
        assert text_of(await group.call_tool("a__whoami")).split()[1] not in pids


async def test_group_closed_member_not_restarted() -> None:
    async with open_group({"a": program("a")}, restart=Restart(delay=0)) as group:
        member = group["a"]
        await member.aclose()
        with pytest.raises(ConnectionEnded):
            await member.connected()
        assert member.state == "failed"
        await member.aclose()
        member.reconnect()
        assert repr(member) == "<Member 'a', connecting>"
        member.reconnect()
        assert (await member.connected()).server_info is not None
        member.reconnect()
        assert repr(member) == "<Member 'a', connected>"


@pytest.mark.spec("tools.server-name-not-unique", "tools.name-disambiguation")
async def test_group_servers_of_same_name_distinguished() -> None:
    async with open_group({"a": program("same"), "b": program("same")}) as group:
        tools = await group.list_tools()
        assert [(tool.name, tool.server) for tool in tools.items] == [("a__whoami", "a"), ("b__whoami", "b")]
        infos = [group[name].client.server_info for name in group]
        assert [info.name for info in infos if info is not None] == ["same", "same"]


async def test_group_strict_naming_collision_raises() -> None:
    async with open_group({"a": program("a"), "b": program("b")}, naming="strict") as group:
        with pytest.raises(NameCollision, match="a and b both offer 'whoami'"):
            await group.list_tools()


async def test_group_configured_servers_of_both_transports(tmp_path: Path) -> None:
    server = Server("web", version="1")

    @server.tool
    async def shout(word: str, context: Context) -> str:
        assert context.http is not None
        return f"{word.upper()} {context.http.headers.get('x-key')}"

    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(lambda task_status: serve_http(server, "127.0.0.1:0", task_status=task_status))
        config = tmp_path / "mcp.json"
        config.write_text(
            json.dumps(
                {
                    "mcpServers": {
                        "process": {
                            "command": sys.executable,
                            "args": ["-c", "${PROGRAM}", "process"],
                            "revisions": "2025-03-26",
                        },
                        "web": {"url": url, "headers": {"X-Key": "${KEY}"}},
                        "off": {"command": "x", "disabled": True},
                    }
                }
            )
        )
        servers = read_config(config, environ={"PROGRAM": PROGRAM, "KEY": "secret"})
        roots = {}
        for name in servers:
            (tmp_path / name).mkdir()
            roots[name] = Handlers(roots=(Root(uri=(tmp_path / name).as_uri()),))
        async with open_group(configured(servers, handlers=roots.__getitem__), naming="plain") as group:
            assert list(group) == ["process", "web"]
            assert group["process"].client.revision is R2025_03_26
            assert group["web"].client.revision is LATEST
            assert text_of(await group.call_tool("shout", {"word": "hi"})) == "HI secret"
            assert (tmp_path / "process").as_uri() in text_of(await group.call_tool("whoami"))
        nursery.cancel_scope.cancel()
    assert [server.name for server in read_config(config, environ={}).values() if server.problem] == ["process", "web"]


async def test_group_messages_sent_to_one_server_only() -> None:
    transcripts = {"a": Transcript(), "b": Transcript()}
    async with trio.open_nursery() as nursery:

        def make(name: str) -> Connector:
            server = Server(name, version="1")

            @server.tool
            async def secret(word: str) -> str:
                return word

            ours, theirs = trio.testing.memory_stream_pair()
            nursery.start_soon(serve_stream, server, theirs)
            return open_stream(_RecordingStream(ours, transcripts[name]))

        async with open_group({name: partial(make, name) for name in transcripts}) as group:
            await group.list_tools()
            await group.call_tool("a__secret", {"word": "hunter2"})
            await group.call_tool("b__secret", {"word": "swordfish"})
        nursery.cancel_scope.cancel()
    assert "hunter2" in transcripts["a"].text()
    assert "swordfish" not in transcripts["a"].text()
    assert "hunter2" not in transcripts["b"].text()


class _RecordingStream:
    """A stream that records its data."""

    def __init__(self, stream: trio.abc.Stream, transcript: Transcript) -> None:
        self._stream = stream
        self._transcript = transcript

    async def send_all(self, data: bytes | memoryview) -> None:
        self._transcript.record(">", bytes(data))
        await self._stream.send_all(data)

    async def receive_some(self) -> bytes:
        data = bytes(await self._stream.receive_some())
        self._transcript.record("<", data)
        return data

    async def aclose(self) -> None:
        await self._stream.aclose()


async def test_group_refused_port_failed(autojump_clock: trio.testing.MockClock) -> None:
    async with open_group({"closed": lambda: open_http("http://127.0.0.1:9/mcp")}) as group:
        assert isinstance(group.failed["closed"], ConnectionEnded)


def in_memory(server_name: str, **options: Unpack[Options]) -> AbstractAsyncContextManager[Client]:
    server = Server(server_name, version="1")

    @server.tool
    async def whoami() -> str:
        return server_name

    return open_in_memory(lambda stream: serve_stream(server, stream), **options)


class FlakyConnector:
    """A connector whose numbered attempts fail or take a second."""

    def __init__(self, *fails: int, slow: tuple[int, ...] = ()) -> None:
        self.made = 0
        self._fails = fails
        self._slow = slow

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Client]:
        number = self.made
        self.made += 1
        if number in self._slow:
            await trio.sleep(1)
        if number in self._fails:
            raise ConnectionEnded(f"attempt {number}")
        async with in_memory("a") as client:
            yield client


async def test_group_restart_repeated_after_failed_attempt(
    autojump_clock: trio.testing.MockClock,
) -> None:
    connector = FlakyConnector(1, 2, 4, 5, 6)
    async with open_group({"a": connector}, restart=Restart(times=3, delay=1, within=60)) as group:
        began = trio.current_time()
        await group["a"].client.aclose()
        assert text_of(await group.call_tool("a__whoami")) == "a"
        assert connector.made == 4
        assert trio.current_time() - began == pytest.approx(1 + 2 + 4)
        await trio.sleep(60)
        await group["a"].client.aclose()
        with pytest.raises(ConnectionEnded, match="there is no connection to 'a'"):
            await group["a"].connected()
        assert connector.made == 7
        assert "attempt 6" in str(group.failed["a"])


@pytest.mark.parametrize("when", [0.5, 1.5])
async def test_group_close_ends_restart(when: float, autojump_clock: trio.testing.MockClock) -> None:
    connector = FlakyConnector(slow=(1,))
    async with open_group({"a": connector}, restart=Restart(delay=1)) as group:
        member = group["a"]
        await member.client.aclose()
        # The restart waits for its delay first, then for the connection.
        await trio.sleep(when)
        assert repr(member) == "<Member 'a', connecting>"
        await member.aclose()
        assert repr(member) == "<Member 'a', failed>"
        await trio.sleep(60)
        assert repr(member) == "<Member 'a', failed>"
        assert connector.made == (1 if when < 1 else 2)
        member.reconnect()
        assert (await member.connected()).server_info is not None
    await member.aclose()


async def test_group_reconnect_skips_restart_delay(autojump_clock: trio.testing.MockClock) -> None:
    connector = FlakyConnector()
    async with open_group({"a": connector}, restart=Restart(delay=30)) as group:
        await group["a"].client.aclose()
        await trio.sleep(1)
        group["a"].reconnect()
        with trio.fail_after(1):
            await group["a"].connected()


async def test_group_reconnect_during_close_reconnects(autojump_clock: trio.testing.MockClock) -> None:
    async with open_group({"a": FlakyConnector(slow=(1, 2))}) as group:
        member = group["a"]
        await member.aclose()
        member.reconnect()
        await member.aclose()
        assert repr(member) == "<Member 'a', failed>"
        member.reconnect()
        await trio.sleep(0.5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.aclose)
            while not member._dismissed:
                await trio.lowlevel.checkpoint()
            member.reconnect()
        await trio.sleep(10)
        assert repr(member) == "<Member 'a', connected>"


async def test_group_middleware_error_raised_unchanged() -> None:
    class Failing(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            raise ValueError("a mistake")

    servers = {"a": lambda: in_memory("a", middleware=[Failing()]), "b": lambda: in_memory("b")}
    async with open_group(servers) as group:
        with pytest.raises(ValueError, match="a mistake"):
            await group.list_tools()


async def test_group_unknown_tool_names_unavailable_servers() -> None:
    async with open_group({"a": FlakyConnector(0), "b": lambda: in_memory("b")}) as group:
        with pytest.raises(LocalProtocolError, match="no server of the group offers a tool 'a__whoami'; a did not"):
            await group.call_tool("a__whoami")
        with pytest.raises(LocalProtocolError, match="offers a prompt 'b__x'; a did not respond"):
            await group.get_prompt("b__x")


async def test_group_middleware_per_server_outlives_connection() -> None:
    names: list[str] = []

    def guards(name: str) -> list[Middleware]:
        names.append(name)
        return [RateLimit(calls=Rate(1))] if name == "a" else []

    entry: JsonObject = {"command": sys.executable, "args": ["-c", PROGRAM, "x"]}
    servers = read_config({"mcpServers": {"a": entry, "b": entry}})
    async with open_group(configured(servers, middleware=guards), restart=Restart(delay=0)) as group:
        assert names == ["a", "b"]
        for _ in range(2):
            await group.call_tool("b__whoami")
        await group.call_tool("a__whoami")
        await group["a"].client.aclose()
        with pytest.raises(LimitExceeded, match=r"RateLimit\.calls"):
            await group.call_tool("a__whoami")
    assert names == ["a", "b"]


async def test_group_invalid_configuration_failed() -> None:
    entries: JsonObject = {"a": {"command": "x", "env": {"A=B": "c"}}, "b": {"url": "no url"}, "c": {}}
    async with open_group(configured(read_config({"mcpServers": entries}))) as group:
        assert isinstance(group.failed["c"], ConfigError)
        assert "server 'c' has neither 'command' nor 'url'" in str(group.failed["c"])
        assert isinstance(group.failed["a"], ConfigError)
        assert "server 'a': StdioParameters.env contains 'A=B'" in str(group.failed["a"])
        assert isinstance(group.failed["b"], LocalProtocolError)


async def test_group_reconnect_during_failing_attempt_retries(
    autojump_clock: trio.testing.MockClock,
) -> None:
    connector = FlakyConnector(1, slow=(1,))
    async with open_group({"a": connector}) as group:
        member = group["a"]
        await member.aclose()
        member.reconnect()
        await trio.sleep(0.5)
        member.reconnect()
        assert (await member.connected()).server_info is not None
        assert connector.made == 3


async def test_group_os_error_is_connection_failure() -> None:
    @asynccontextmanager
    async def broken() -> AsyncIterator[Client]:
        async with in_memory("a") as client:
            if client.server_info is not None:
                raise OSError("no such device")
            yield client

    async with open_group({"a": broken}) as group:
        assert isinstance(group.failed["a"], ConnectionEnded)
        assert group.failed["a"].message == "connecting to 'a' failed: no such device"


async def test_group_close_and_reconnect_before_start_reconnects() -> None:
    connector = FlakyConnector()
    async with open_group({"a": connector}) as group:
        member = group["a"]
        await member.aclose()
        member.reconnect()
        await member.aclose()
        member.reconnect()
        assert (await member.connected()).server_info is not None
        assert connector.made == 2
