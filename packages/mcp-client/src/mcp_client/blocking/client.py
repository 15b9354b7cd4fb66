"""The blocking client: the classes and functions of `mcp_client`, which return when they are done.

The methods are those of `mcp_client`, called in the background thread, with the same parameters, results and exceptions.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, ParamSpec, TypeAlias

from mcp_client import client as for_trio
from mcp_client.blocking.proxies import (
    BlockingContextManager,
    Proxy,
    blocking,
    blocking_proxy,
    describe,
    described_as,
)
from mcp_client.blocking.thread import current_thread
from mcp_client.connectors import http, stdio
from mcp_client.features import changes, tasks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from mcp_client.features.changes import Change
    from mcp_core.engine.events import ServerPeer
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.revisions import Revision
    from mcp_core.types import Implementation, ServerCapabilities, SubscriptionFilter, TaskStatus

__all__ = [
    "Changes",
    "Client",
    "Connector",
    "MakeConnector",
    "TaskHandle",
    "open_http",
    "open_stdio",
    "open_stream",
    "trio_connector",
]

P = ParamSpec("P")


class TaskHandle(Proxy[tasks.TaskHandle]):
    """A handle of a tool call that runs as a task. Created by `Client.start_task` and `Client.task`.

    The task does not depend on the handle. Another handle with the same id, in this or another process, can wait for
    it.
    """

    @property
    def id(self) -> str | None:
        """The id of the task; `None` if the server responded with the result and did not create a task.

        On a server without authentication, the id is sufficient to access the task.
        """
        return self._target.id

    @property
    def status(self) -> TaskStatus:
        """The status at the last poll."""
        return self._target.status

    @property
    def message(self) -> str | None:
        """A readable message about the status. Untrusted text of the server."""
        return self._target.message

    @property
    def ttl(self) -> float | None:
        """The time to live after the creation of the task, in seconds; `None` if unknown or unlimited."""
        return self._target.ttl

    refresh = blocking(tasks.TaskHandle.refresh)
    wait = blocking(tasks.TaskHandle.wait)
    cancel = blocking(tasks.TaskHandle.cancel)


class Changes(Proxy[changes.Changes]):
    """The changes of one subscription: an iterator. Created by `Client.listen`.

    The iteration ends when the server ends the subscription. It raises `ConnectionEnded` when the connection is lost.
    """

    @property
    def granted(self) -> SubscriptionFilter:
        """The notifications that the server agreed to send. They may be fewer than requested."""
        return self._target.granted

    @property
    @described_as(changes.Changes.error)
    def error(self) -> Exception | None:
        return self._target.error

    def __iter__(self) -> Changes:
        return self

    def __next__(self) -> Change:
        try:
            return self._thread.call(self._target.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None


class Client(Proxy[for_trio.Client]):
    """A connection to one server. Created by `open_stdio`, `open_stream` and `open_http`.

    Any thread can call any method, also concurrently. An exception that interrupts the caller, such as
    `KeyboardInterrupt`, cancels the request. All requests raise:

    - `LocalProtocolError`: the revision or the capabilities of the server do not support the request; nothing was sent;
    - `RequestFailed`: the server responded with an error;
    - `RemoteProtocolError`: the response violates the protocol;
    - `LimitExceeded`: the response exceeds `Limits` of the client;
    - `RequestTimeout`: a deadline passed; the request was cancelled;
    - `ConnectionEnded`: the connection was lost, or the client was closed; over HTTP also if only the response was
      lost;
    - `HttpFailure`: the HTTP response is not a response of the protocol; `AccessDenied` if credentials are required.
    """

    # --- the server ------------------------------------------------------------------------------------------------

    @property
    @described_as(for_trio.Client.revision)
    def revision(self) -> Revision:
        return self._target.revision

    @property
    @described_as(for_trio.Client.capabilities)
    def capabilities(self) -> ServerCapabilities:
        return self._target.capabilities

    @property
    @described_as(for_trio.Client.server_info)
    def server_info(self) -> Implementation | None:
        return self._target.server_info

    @property
    @described_as(for_trio.Client.instructions)
    def instructions(self) -> str | None:
        return self._target.instructions

    @property
    @described_as(for_trio.Client.server)
    def server(self) -> ServerPeer:
        return self._target.server

    @described_as(for_trio.Client.with_headers)
    def with_headers(self, headers: Mapping[str, str]) -> Client:
        return Client(self._target.with_headers(headers), self._thread)

    @described_as(for_trio.Client.with_meta)
    def with_meta(self, members: JsonObject) -> Client:
        return Client(self._target.with_meta(members), self._thread)

    @described_as(for_trio.Client.fresh)
    def fresh(self) -> Client:
        return Client(self._target.fresh(), self._thread)

    # --- requests --------------------------------------------------------------------------------------------------

    list_tools = blocking(for_trio.Client.list_tools)
    call_tool = blocking(for_trio.Client.call_tool)
    start_task = blocking_proxy(TaskHandle, for_trio.Client.start_task)
    list_resources = blocking(for_trio.Client.list_resources)
    list_resource_templates = blocking(for_trio.Client.list_resource_templates)
    read_resource = blocking(for_trio.Client.read_resource)
    list_prompts = blocking(for_trio.Client.list_prompts)
    get_prompt = blocking(for_trio.Client.get_prompt)
    complete = blocking(for_trio.Client.complete)
    request = blocking(for_trio.Client.request)
    ping = blocking(for_trio.Client.ping)
    set_log_level = blocking(for_trio.Client.set_log_level)
    roots_changed = blocking(for_trio.Client.roots_changed)
    notify = blocking(for_trio.Client.notify)

    @described_as(for_trio.Client.task)
    def task(self, id: str) -> TaskHandle:
        return TaskHandle(self._target.task(id), self._thread)

    # --- the connection --------------------------------------------------------------------------------------------

    wait_ended = blocking(for_trio.Client.wait_ended)
    close = blocking(for_trio.Client.aclose)

    @described_as(for_trio.Client.listen)
    def listen(
        self, *, tools: bool = False, prompts: bool = False, resources: bool = False, uris: Sequence[str] = ()
    ) -> AbstractContextManager[Changes]:
        block = self._target.listen(tools=tools, prompts=prompts, resources=resources, uris=uris)
        return BlockingContextManager(block, Changes)


class Connector(BlockingContextManager[for_trio.Client, Client]):
    """A connection to open: a context manager for the `Client`.

    Leaving the block closes the connection and ends all of its tasks and processes. `close` does the same, even while
    the connection is being opened. Any thread can enter and leave the block, also in another order than other blocks.
    """

    def __init__(self, connector: stdio.Connector) -> None:
        super().__init__(connector, Client)
        self._connector: Final = connector

    def close(self) -> None:
        """Close the connection, or stop opening it. Any thread can call this, more than once."""
        # The thread in which it was opened, which may not exist in this process.
        (self._thread or current_thread()).call(self._connector.aclose)


MakeConnector: TypeAlias = Callable[[], Connector | AbstractAsyncContextManager[for_trio.Client]]
"""A function that returns a new connector of one server: `lambda: open_stdio(["weather-server"])`, or one of `configured`."""


def trio_connector(make: MakeConnector) -> AbstractAsyncContextManager[for_trio.Client]:
    """Return a new connector for trio."""
    connector = make()
    return connector._connector if isinstance(connector, Connector) else connector  # noqa: SLF001  a class of this module


def _opening(function: Callable[P, stdio.Connector]) -> Callable[P, Connector]:
    """Return the blocking form of a function that returns a connector."""

    def connector(*arguments: P.args, **options: P.kwargs) -> Connector:
        return Connector(function(*arguments, **options))

    describe(connector, function)
    return connector


open_stdio = _opening(stdio.open_stdio)
open_stream = _opening(stdio.open_stream)
open_http = _opening(http.open_http)
