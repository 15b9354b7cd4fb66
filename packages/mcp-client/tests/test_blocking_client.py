"""The blocking client: each transport, several threads, handlers, interruption, forks and the exit of the interpreter."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import ContextVar, copy_context
from functools import partial
from queue import SimpleQueue
from typing import assert_type

import asyncio_server
import attrs
import pytest
import trio
from threaded_server import served

import mcp_client
import mcp_client.asyncio
import mcp_client.blocking
import mcp_client.blocking.group
import mcp_client.group
from mcp_client.blocking import (
    Change,
    ChangeKind,
    Changes,
    Client,
    ConnectionEnded,
    Connector,
    ElicitationAccepted,
    Handlers,
    TaskHandle,
    ToolFailed,
    ToolResult,
    open_http,
    open_stdio,
)
from mcp_client.blocking.group import open_group
from mcp_client.blocking.proxies import BlockingContextManager
from mcp_client.blocking.thread import _BlockingCall, current_thread
from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.methods import TOOLS_LIST
from mcp_core.middleware import Middleware, MiddlewareMessage, Proceed
from mcp_core.revisions import R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ListToolsRequestParams,
    ListToolsResult,
    TextContent,
    Tool,
)
from mcp_server import Context, Server

_SECONDS = 20
"""Time after which a test that waits forever fails."""

_BOTH_ERAS = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=lambda each: each.name)

_user: ContextVar[str] = ContextVar("user", default="nobody")


@attrs.frozen
class Name:
    name: str


class Shop:
    """A server, and the events of its tools."""

    def __init__(self) -> None:
        self.started: SimpleQueue[None] = SimpleQueue()
        self.ended: SimpleQueue[None] = SimpleQueue()
        self.release = threading.Event()
        self.server = server = Server("shop", version="1.0")

        @server.tool
        async def echo(text: str) -> str:
            return text

        @server.tool
        async def steps(context: Context) -> str:
            for step in range(3):
                await context.progress(step + 1, 3)
            return "done"

        @server.tool
        async def greet(context: Context) -> str:
            answer = await context.elicit(Name, "Who are you?")
            model = await context.sample("Hello?", max_tokens=10)
            assert isinstance(answer, ElicitationAccepted)
            assert isinstance(model.content, TextContent)
            return f"{model.content.text} {answer.value.name}"

        @server.tool
        async def wait(context: Context) -> str:
            self.started.put(None)
            await context.progress(1)
            try:
                await trio.sleep(math.inf)
            finally:
                self.ended.put(None)
            return ""

        @server.tool
        def fail() -> str:
            raise ValueError

        @server.tool(thread=False)
        def change() -> str:
            server.resource_updated("shop://item")
            return ""

        @server.tool(thread=False)
        def change_list() -> str:
            server.resource_updated("shop://list")
            return ""

        @server.tool(task="optional")
        async def slow() -> str:
            await trio.sleep(0.01)
            return "slow"

        @server.resource("shop://item")
        def item() -> str:
            return "tea"

        @server.resource("shop://list")
        def listed() -> str:
            return "tea, cups"


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def url(shop: Shop) -> Iterator[str]:
    with served(shop.server) as url:
        yield url


# --- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)
def test_blocking_client_calls_tools_over_http(url: str, revision: Revision) -> None:
    shown: list[tuple[float, threading.Thread]] = []

    def show(progress: float, total: float | None, message: str | None) -> None:
        shown.append((progress, threading.current_thread()))

    with open_http(url, revisions=[revision]) as client:
        assert client.call_tool("echo", {"text": "hi"}).text == "hi"
        assert client.call_tool("steps", on_progress=show).text == "done"
        assert "tea" in repr(client.read_resource("shop://item"))
        assert client.revision is revision
        with pytest.raises(ToolFailed):
            client.call_tool("fail")
    assert shown == [(step, threading.current_thread()) for step in (1, 2, 3)]


def test_blocking_client_calls_tools_over_stdio() -> None:
    with open_stdio([sys.executable, "-c", _SERVER]) as client:
        assert client.call_tool("echo", {"text": "hi"}).text == "hi"


def test_blocking_client_called_by_several_threads(url: str) -> None:
    with open_http(url) as client, ThreadPoolExecutor(16) as pool:
        texts = [str(number) for number in range(64)]
        assert list(pool.map(lambda text: client.call_tool("echo", {"text": text}).text, texts)) == texts


def test_blocking_clients_share_one_thread(url: str) -> None:
    with open_http(url) as one, open_http(url) as two:
        one.list_tools()
        two.list_tools()
        names = [thread.name for thread in threading.enumerate()]
    assert names.count("mcp_client.blocking") == 1


def test_connector_of_closed_connection_rejected(url: str) -> None:
    connector = open_http(url)
    with connector as client:
        pass
    with pytest.raises(ConnectionEnded):
        client.list_tools()
    with pytest.raises(RuntimeError, match="already used"), connector:
        pass


def test_blocking_connections_left_by_other_thread_in_any_order(url: str) -> None:
    first, second = open_http(url), open_http(url)
    one = first.__enter__()
    with ThreadPoolExecutor(1) as pool:
        two = pool.submit(second.__enter__).result()
        pool.submit(first.__exit__, None, None, None).result()
    assert two.call_tool("echo", {"text": "hi"}).text == "hi"
    with pytest.raises(ConnectionEnded):
        one.call_tool("echo", {"text": "hi"})
    second.__exit__(None, None, None)


def test_connector_closed_while_opening_raises_connection_ended() -> None:
    opening: SimpleQueue[None] = SimpleQueue()
    # A program that is silent does not answer the handshake.
    connector = open_stdio(
        [sys.executable, "-c", "import sys; print('begun', file=sys.stderr, flush=True); sys.stdin.read()"],
        on_stderr=lambda _: opening.put(None),
    )
    with ThreadPoolExecutor(1) as pool:
        entering = pool.submit(connector.__enter__)
        opening.get(timeout=_SECONDS)
        connector.close()
        with pytest.raises(ConnectionEnded, match="closed while it was connecting"):
            entering.result()


def test_views_of_blocking_client_change_requests(url: str) -> None:
    with open_http(url, revisions=[R2026_07_28]) as client:
        for view in (client.with_headers({"x-user": "ada"}), client.with_meta({"com.example/a": 1}), client.fresh()):
            assert type(view) is Client
            assert view.call_tool("echo", {"text": "hi"}).text == "hi"


def test_middleware_of_blocking_client_has_context_of_caller(url: str) -> None:
    users: list[str] = []

    class Recorder(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            await trio.lowlevel.checkpoint()
            users.append(_user.get())
            return await proceed(message)

    with open_http(url, middleware=[Recorder()]) as client:
        token = _user.set("ada")
        client.list_tools()
        _user.reset(token)
        client.ping() if client.revision.era.value == "legacy" else client.fresh().list_tools()
    assert users[-2:] == ["ada", "nobody"]


# --- handlers --------------------------------------------------------------------------------------------------------


@_BOTH_ERAS
def test_plain_handler_calls_blocking_client(url: str, revision: Revision) -> None:
    clients: list[Client] = []

    def elicit(_: object) -> ElicitationAccepted[object]:
        return ElicitationAccepted(Name(clients[0].call_tool("echo", {"text": "Ada"}).text))

    def sample(_: CreateMessageRequestParams) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=TextContent(text="Hello"), model="m")

    with open_http(url, revisions=[revision], handlers=Handlers(elicit=elicit, sample=sample)) as client:
        clients.append(client)
        assert client.call_tool("greet").text == "Hello Ada"


def test_blocking_client_called_in_its_thread_rejected(url: str) -> None:
    failures: list[RuntimeError] = []

    class Caller(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            if clients:
                with pytest.raises(RuntimeError, match="would wait for itself") as caught:
                    clients.pop().list_tools()
                failures.append(caught.value)
            return await proceed(message)

    clients: list[Client] = []
    with open_http(url, middleware=[Caller()]) as client:
        clients.append(client)
        client.list_tools()
    assert len(failures) == 1


def test_blocking_client_in_handler_of_asyncio_client_called_on_trio(shop: Shop, url: str) -> None:
    # The context of the handler says that the functions of the application are written for asyncio.
    async def on_trio(_: object) -> ElicitationAccepted[object]:
        await trio.lowlevel.checkpoint()
        return ElicitationAccepted(Name("Ada"))

    def sample(_: CreateMessageRequestParams) -> CreateMessageResult:
        return CreateMessageResult(role="assistant", content=TextContent(text="Hello"), model="m")

    def elicit(_: object) -> ElicitationAccepted[object]:
        with open_http(url, handlers=Handlers(elicit=on_trio, sample=sample)) as inner:
            return ElicitationAccepted(Name(inner.call_tool("greet").text))

    async def main() -> None:
        handlers = Handlers(elicit=elicit, sample=sample)
        async with mcp_client.asyncio.open_http(url, handlers=handlers) as client:
            assert (await client.call_tool("greet")).text == "Hello Hello Ada"

    asyncio.run(asyncio.wait_for(main(), _SECONDS))


def test_on_progress_calls_blocking_client(url: str) -> None:
    with open_http(url) as client:
        texts: list[str] = []
        client.call_tool(
            "steps", on_progress=lambda at, *_: texts.append(client.call_tool("echo", {"text": str(at)}).text)
        )
    assert texts == ["1", "2", "3"]


def test_blocking_client_called_in_trio_task_of_other_thread(url: str) -> None:
    found: list[Change] = []

    async def main() -> None:
        with open_http(url) as client, client.listen(uris=["shop://item"]) as changes:
            client.call_tool("change")
            found.append(next(changes))
        await trio.lowlevel.checkpoint()

    trio.run(main)
    assert found == [Change(ChangeKind.RESOURCE, "shop://item")]


# --- interruption ----------------------------------------------------------------------------------------------------


class _InterruptError(BaseException):
    """An exception that ends a call, as `KeyboardInterrupt` does."""


@_BOTH_ERAS
@pytest.mark.parametrize("error", [ValueError, _InterruptError, KeyboardInterrupt])
def test_failing_on_progress_ends_call(shop: Shop, url: str, revision: Revision, error: type[BaseException]) -> None:
    def show(progress: float, total: float | None, message: str | None) -> None:
        raise error("stop")

    with open_http(url, revisions=[revision]) as client:
        with pytest.raises(error, match="stop"):
            client.call_tool("wait", on_progress=show)
        shop.ended.get(timeout=_SECONDS)
        assert client.call_tool("echo", {"text": "hi"}).text == "hi"


def test_interrupted_call_returns_after_its_end(url: str) -> None:
    ended: list[str] = []

    class Recorder(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            try:
                return await proceed(message)
            finally:
                with trio.CancelScope(shield=True):
                    for _ in range(100):
                        await trio.lowlevel.checkpoint()
                ended.append(message.method)

    def show(progress: float, total: float | None, message: str | None) -> None:
        raise _InterruptError

    with open_http(url, middleware=[Recorder()]) as client:
        with pytest.raises(_InterruptError):
            client.call_tool("wait", on_progress=show)
        assert ended[-1] == "tools/call"


def test_on_progress_coroutine_function_called_on_trio(url: str) -> None:
    shown: list[float] = []

    async def show(progress: float, total: float | None, message: str | None) -> None:
        await trio.lowlevel.checkpoint()
        shown.append(progress)

    with open_http(url) as client:
        client.call_tool("steps", on_progress=show)
        client.call_tool("steps", on_progress=lambda *step: show(*step))
    assert shown == [1, 2, 3, 1, 2, 3]


def interrupt_main_thread() -> None:
    """Do what Ctrl+C does."""
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    signal.pthread_kill(main_thread, signal.SIGINT)


def test_interruption_before_task_starts_ends_call(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_http(url):
        thread = current_thread()
        soon = thread.soon

        def interrupted(function: Callable[[], object]) -> None:
            monkeypatch.setattr(thread, "soon", soon)
            raise KeyboardInterrupt

        monkeypatch.setattr(thread, "soon", interrupted)
        call: _BlockingCall[None] = _BlockingCall(thread)
        with pytest.raises(KeyboardInterrupt):
            call.run(partial(thread._start, call, copy_context()), trio.sleep_forever)
    assert call.has_ended
    assert not call.has_task


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_while_entering_leaves_block_that_was_entered() -> None:
    entering: SimpleQueue[None] = SimpleQueue()
    release = threading.Event()
    events: list[str] = []

    class Block(AbstractAsyncContextManager[str]):
        async def __aenter__(self) -> str:
            entering.put(None)
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(release.wait, _SECONDS)
            events.append("entered")
            return "value"

        async def __aexit__(self, *error: object) -> None:
            events.append(f"left with {error[0]}")

    def interrupt() -> None:
        entering.get(timeout=_SECONDS)
        interrupt_main_thread()
        release.set()

    with ThreadPoolExecutor(1) as pool:
        interrupting = pool.submit(interrupt)
        with pytest.raises(KeyboardInterrupt), BlockingContextManager(Block(), lambda value, thread: value):
            raise AssertionError("entered")
        interrupting.result()
    assert events == ["entered", "left with <class 'KeyboardInterrupt'>"]


_SILENT_SERVER = """
import sys
print("started", file=sys.stderr, flush=True)
sys.stdin.read()
print("ended", file=sys.stderr, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_while_opening_ends_server() -> None:
    lines: list[str] = []

    def show(line: str) -> None:
        lines.append(line)
        if line == "started":
            interrupt_main_thread()

    with pytest.raises(KeyboardInterrupt), open_stdio([sys.executable, "-c", _SILENT_SERVER], on_stderr=show):
        pass
    assert lines == ["started", "ended"]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_while_closing_returns_after_end_of_server() -> None:
    lines: list[str] = []

    def show(line: str) -> None:
        if line == "server ended":
            interrupt_main_thread()
        lines.append(line)

    with pytest.raises(KeyboardInterrupt), open_stdio([sys.executable, "-c", _SERVER], on_stderr=show) as client:
        pass
    assert lines == ["server ended"]
    with pytest.raises(ConnectionEnded):
        client.list_tools()


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@_BOTH_ERAS
def test_ctrl_c_while_waiting_for_change_keeps_subscription(url: str, revision: Revision) -> None:
    def interrupt() -> None:
        while not changes._target._news.statistics().tasks_waiting:
            current_thread().call(trio.lowlevel.checkpoint)
        interrupt_main_thread()

    with (
        open_http(url, revisions=[revision]) as client,
        client.listen(uris=["shop://item"]) as changes,
        ThreadPoolExecutor(1) as pool,
    ):
        interrupting = pool.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(changes)
        interrupting.result()
        client.call_tool("change")
        assert next(changes).uri == "shop://item"


@_BOTH_ERAS
def test_threads_share_changes(url: str, revision: Revision) -> None:
    uris = ["shop://item", "shop://list"]
    with (
        open_http(url, revisions=[revision]) as client,
        ThreadPoolExecutor(2) as pool,
        client.listen(uris=uris) as changes,
    ):
        waiting = [pool.submit(next, changes) for _ in uris]
        client.call_tool("change")
        client.call_tool("change_list")
        assert {each.result(_SECONDS).uri for each in waiting} == set(uris)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@_BOTH_ERAS
def test_ctrl_c_cancels_request_and_client_remains_usable(shop: Shop, url: str, revision: Revision) -> None:
    def interrupt() -> None:
        shop.started.get(timeout=_SECONDS)
        interrupt_main_thread()

    with open_http(url, revisions=[revision]) as client, ThreadPoolExecutor(1) as pool:
        interrupting = pool.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.call_tool("wait")
        interrupting.result()
        shop.ended.get(timeout=_SECONDS)
        assert client.call_tool("echo", {"text": "hi"}).text == "hi"


# --- changes and tasks -----------------------------------------------------------------------------------------------


@_BOTH_ERAS
def test_listen_iterates_over_changes(url: str, revision: Revision) -> None:
    found: list[Change] = []
    with open_http(url, revisions=[revision]) as client, client.listen(uris=["shop://item"]) as changes:
        assert changes.granted.resource_subscriptions == ("shop://item",)
        client.call_tool("change")
        for change in changes:
            found.append(change)
            if len(found) == 2:
                break
            client.call_tool("change")
        assert changes.error is None
    assert found == [Change(ChangeKind.RESOURCE, "shop://item")] * 2


@_BOTH_ERAS
def test_listen_of_closed_client_ends(url: str, revision: Revision) -> None:
    with (
        open_http(url, revisions=[revision]) as client,
        ThreadPoolExecutor(1) as pool,
        client.listen(uris=["shop://item"]) as changes,
    ):
        client.call_tool("change")
        assert next(changes).uri == "shop://item"
        waiting = pool.submit(next, changes)
        client.close()
        with pytest.raises((ConnectionEnded, StopIteration)):
            waiting.result()


@_BOTH_ERAS
def test_task_returns_result(url: str, revision: Revision) -> None:
    with open_http(url, revisions=[revision]) as client:
        task = client.start_task("slow")
        assert task.wait().text == "slow"
        assert task.status == "completed"
        assert task.id is not None
        assert client.task(task.id).refresh() == "completed"


# --- groups ----------------------------------------------------------------------------------------------------------


def test_blocking_group_calls_tools_of_each_server(url: str) -> None:
    servers: dict[str, Callable[[], Connector | mcp_client.Connector]] = {
        "blocking": partial(open_http, url),
        "trio": partial(mcp_client.open_http, url),
    }
    with open_group(servers) as group:
        assert list(group) == ["blocking", "trio"]
        assert len(group) == 2
        assert group.failed == {}
        assert "trio__echo" in [item.name for item in group.list_tools().items]
        assert group.origin("trio__echo") == ("trio", "echo")
        for name in servers:
            assert group.call_tool(f"{name}__echo", {"text": name}).text == name
            assert group[name].client.call_tool("echo", {"text": name}).text == name
            assert group[name].name == name


def test_member_of_blocking_group_closed_and_reconnected(url: str) -> None:
    with open_group({"shop": partial(open_http, url)}) as group:
        member = group["shop"]
        member.close()
        assert member.state == "failed"
        with pytest.raises(ConnectionEnded):
            member.connected()
        member.reconnect()
        assert member.connected().call_tool("echo", {"text": "hi"}).text == "hi"
        assert "connected" in repr(member)
    member.reconnect()


def test_member_of_asyncio_group_closed_and_reconnected(shop: Shop) -> None:
    async def main() -> None:
        async with (
            asyncio_server.served(shop.server) as url,
            mcp_client.group.open_group({"shop": partial(mcp_client.asyncio.open_http, url)}) as group,
        ):
            await group["shop"].aclose()
            with pytest.raises(ConnectionEnded):
                await group["shop"].connected()
            group["shop"].reconnect()
            assert (await (await group["shop"].connected()).call_tool("echo", {"text": "hi"})).text == "hi"

    asyncio.run(asyncio.wait_for(main(), _SECONDS))


# --- processes -------------------------------------------------------------------------------------------------------

_SERVER = """
import trio

from mcp_server import Server, serve_stdio

server = Server("shop", version="1.0")


@server.tool
async def echo(text: str) -> str:
    return text


@server.tool
async def wait() -> str:
    print("waiting", flush=True, file=__import__("sys").stderr)
    await trio.sleep_forever()
    return ""


trio.run(serve_stdio, server)
print("server ended", flush=True, file=__import__("sys").stderr)
"""

_BEGIN = f"""
import os, sys, threading
from mcp_client.blocking import ConnectionEnded, open_stdio

started = threading.Event()

def show(line):
    # In one write, because several threads show lines.
    os.write(1, str(line).encode() + bytes([10]))
    started.set()

connector = open_stdio([sys.executable, "-c", {_SERVER!r}], on_stderr=show)
"""


def run_program(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program with a blocking client."""
    return subprocess.run(
        [sys.executable, "-c", _BEGIN + program], capture_output=True, text=True, timeout=_SECONDS, check=False
    )


def test_exit_with_open_client_ends_server() -> None:
    done = run_program("client = connector.__enter__(); print(client.call_tool('echo', {'text': 'hi'}).text)")
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (["hi", "server ended"], "", 0)


def test_exit_in_block_ends_server() -> None:
    done = run_program("with connector as client: sys.exit(3)")
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (["server ended"], "", 3)


def test_exit_while_daemon_thread_calls_ends_call() -> None:
    done = run_program("""
def call():
    try:
        client.call_tool("wait")
    except ConnectionEnded as error:
        show(error)

client = connector.__enter__()
threading.Thread(target=call, daemon=True).start()
started.wait()
""")
    assert done.stderr == ""
    assert "waiting" in done.stdout
    assert "server ended" in done.stdout
    assert done.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_ends_program_and_server() -> None:
    program = "with connector as client: client.call_tool('wait')"
    with subprocess.Popen(
        [sys.executable, "-c", _BEGIN + program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == "server ended\n"
        assert process.stderr.read().endswith("KeyboardInterrupt\n")
        assert process.wait(_SECONDS) != 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forked_process_opens_its_own_client() -> None:
    done = run_program(
        """
with connector as client, client.listen(tools=True) as changes:
    child = os.fork()
    if child == 0:
        for use in (lambda: client.call_tool("echo", {"text": "hi"}), client.close, connector.close, lambda: next(changes)):
            try:
                use()
            except ConnectionEnded as error:
                show(error)
        with open_stdio([sys.executable, "-c", connector_program]) as own:
            show("child: " + own.call_tool("echo", {"text": "hi"}).text)
    else:
        os.waitpid(child, 0)
        show("parent: " + client.call_tool("echo", {"text": "hi"}).text)
        parent = True
""".replace("connector_program", repr(_SERVER))
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        *["the client belongs to the parent process; open a client in the forked process"] * 4,
        "child: hi",
        "parent: hi",
        "server ended",
    ]
    assert done.returncode == 0


def test_member_of_parent_process_not_reconnected_by_fork() -> None:
    done = run_program("""
from mcp_client.blocking.group import open_group

with open_group({"shop": lambda: connector}) as group:
    child = os.fork()
    if child == 0:
        try:
            group["shop"].reconnect()
        except ConnectionEnded as error:
            show(error)
        os._exit(0)
    os.waitpid(child, 0)
""")
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "the client belongs to the parent process; open a client in the forked process",
        "server ended",
    ]


def test_block_left_after_exit_of_thread_has_no_effect() -> None:
    # Functions for the exit are called in reverse order.
    done = run_program("""
import atexit
from contextlib import ExitStack

stack = ExitStack()
atexit.register(stack.close)
stack.enter_context(connector)
""")
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (["server ended"], "", 0)


def test_failure_of_thread_ends_calls_and_next_client_has_new_thread() -> None:
    done = run_program(
        """
import logging
from mcp_client.blocking.thread import current_thread

logging.getLogger("mcp_client").setLevel(logging.CRITICAL + 1)

def fail():
    raise ValueError("broken")

def call():
    try:
        client.call_tool("wait")
    except ConnectionEnded as error:
        show(error)

client = connector.__enter__()
calling = threading.Thread(target=call)
calling.start()
started.wait()
current_thread()._token.run_sync_soon(fail)
calling.join()
with open_stdio([sys.executable, "-c", connector_program]) as other:
    show(other.call_tool("echo", {"text": "hi"}).text)
try:
    client.list_tools()
except ConnectionEnded as error:
    show(f"{error} ({error.__cause__!r})")
connector.__exit__(None, None, None)
""".replace("connector_program", repr(_SERVER))
    )
    failed = "the thread of the blocking clients failed; open a new client"
    assert [line for line in done.stdout.splitlines() if line != "server ended"] == [
        "waiting",
        failed,
        "hi",
        f"{failed} (TrioInternalError('internal error in Trio - please file a bug!'))",
    ], done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="limits of the system")
def test_thread_that_did_not_start_is_started_again() -> None:
    done = run_program(
        """
import resource

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
import logging
logging.getLogger("mcp_client").setLevel(logging.CRITICAL + 1)
try:
    connector.__enter__()
except ConnectionEnded as error:
    cause = error.__cause__
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
show(cause.errno)
with open_stdio([sys.executable, "-c", connector_program]) as other:
    show(other.call_tool("echo", {"text": "hi"}).text)
""".replace("connector_program", repr(_SERVER))
    )
    assert done.stdout.splitlines() == ["24", "hi"], done.stderr
    assert done.returncode == 0, done.stderr


# --- types ---------------------------------------------------------------------------------------------------------


def test_results_of_blocking_methods_have_types(url: str) -> None:
    with open_http(url) as client:
        assert_type(client, Client)
        assert_type(client.list_tools(), tuple[Tool, ...])
        assert_type(client.call_tool("echo", {"text": "hi"}), ToolResult[JsonValue])
        assert_type(client.call_tool("echo", {"text": "hi"}, returns=str), ToolResult[str])
        assert_type(client.request(TOOLS_LIST, ListToolsRequestParams()), ListToolsResult)
        task = assert_type(client.start_task("slow"), TaskHandle)
        assert_type(task.wait(returns=str), ToolResult[str])
        assert_type(client.listen(tools=True), AbstractContextManager[Changes])
        with pytest.raises(TypeError):
            client.call_tool("echo", timeout=3)  # type: ignore[call-overload]  # on purpose
    with open_group({"shop": partial(open_http, url)}) as group:
        assert_type(group.call_tool("shop__echo", {"text": "hi"}, returns=str), ToolResult[str])
        assert_type(group["shop"].connected(), Client)


def test_connector_is_a_context_manager_of_a_client() -> None:
    assert isinstance(open_http("http://127.0.0.1:1/mcp"), Connector)
