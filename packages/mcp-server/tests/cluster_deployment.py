"""Several workers of one server in one process, on a cluster in memory, behind a load balancer without sticky sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio
import trio.testing
from controlled_server import ControlledServer

from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.limits import Limits
from mcp_server import Context, ElicitationAccepted, Server
from mcp_server.asgi import Message, Receive, Scope, Send
from mcp_server.cluster.memory import MemoryCluster, MemoryWorker
from mcp_server.connection.authenticator import Authenticate
from mcp_server.transports.http.endpoint import HttpEndpoint


@attrs.frozen
class Name:
    """A form."""

    name: str


class ClusterServer(ControlledServer):
    """A server with tools that send messages while they wait."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)

        @self.server.tool
        async def elicit(name: str, context: Context) -> str:
            """Ask the client for a name."""
            self.running.append(name)
            match await context.elicit(Name, "Who?"):
                case ElicitationAccepted(value):
                    return value.name
                case other:
                    return type(other).__name__

        @self.server.tool
        async def sample(name: str, context: Context) -> str:
            """Sample the model of the client."""
            self.running.append(name)
            return (await context.sample("?", max_tokens=1)).model

        @self.server.tool
        async def log(name: str, context: Context) -> str:
            """Write a debug message at each release."""
            self.running.append(name)
            for step in range(1, 4):
                await self.release_event(f"{name}{step}").wait()
                await context.debug(step)
            return name


class Worker:
    """One worker: a server, its endpoint, and its connection to the cluster."""

    def __init__(
        self,
        shared: MemoryCluster,
        make: Callable[[], ControlledServer],
        policy: EndpointPolicy | None,
        *,
        authenticate: Authenticate | None,
        legacy_sse: bool,
    ) -> None:
        self.controlled: Final = make()
        self.server: Final[Server] = self.controlled.server
        self.cluster: Final[MemoryWorker] = shared.worker()
        self.endpoint: Final[HttpEndpoint] = self.server.asgi(
            cluster=self.cluster, policy=policy, authenticate=authenticate, legacy_sse=legacy_sse
        )
        self._requests: Final[set[trio.CancelScope]] = set()
        self.ended: Final = trio.Event()
        self._life: Final = trio.CancelScope()

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the lifespan until `kill` or `stop`."""
        try:
            with self._life:
                async with self.server.running():
                    await self.server._service.wait_joined()
                    task_status.started()
                    await trio.sleep_forever()
        finally:
            self.ended.set()

    async def kill(self) -> None:
        """End the worker without a word: nothing that it does later has an effect on others."""
        self.cluster.kill()
        for request in self._requests:
            request.cancel()
        self._life.cancel()
        await self.ended.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request. If the worker is killed, the connection breaks."""

        async def send_while_alive(message: Message) -> None:
            if self.cluster.is_killed:
                await trio.sleep_forever()
            await send(message)

        with trio.CancelScope() as request:
            self._requests.add(request)
            try:
                await self.endpoint(scope, receive, send_while_alive)
            finally:
                self._requests.discard(request)


class Deployment:
    """The workers, and the load balancer as an ASGI application: each request goes to the next worker."""

    def __init__(self, shared: MemoryCluster, workers: list[Worker], start: Callable[[], Awaitable[Worker]]) -> None:
        self.shared: Final = shared
        self.workers: Final = workers
        self._start: Final = start
        self.next = 0
        self.pinned: int | None = None
        """The worker for all requests; `None`: the next one."""
        self.served: list[int] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotImplementedError
        while True:
            at = self.next % len(self.workers) if self.pinned is None else self.pinned
            self.next += self.pinned is None
            if not self.workers[at].cluster.is_killed:
                break
            self.pinned = None
        self.served.append(at)
        await self.workers[at](scope, receive, send)

    async def restart(self, worker: int) -> None:
        """Kill a worker, and start another one in its place."""
        await self.workers[worker].kill()
        self.workers[worker] = await self._start()

    async def settle(self) -> None:
        """Wait until no task has anything to do."""
        await trio.testing.wait_all_tasks_blocked()

    def running(self, name: str) -> int:
        """Return the worker that runs the call of this name."""
        (found,) = [at for at, worker in enumerate(self.workers) if name in worker.controlled.running]
        return found


@asynccontextmanager
async def deployed(
    count: int = 3,
    *,
    make: Callable[[], ControlledServer] = ClusterServer,
    policy: EndpointPolicy | None = None,
    shared: MemoryCluster | None = None,
    authenticate: Authenticate | None = None,
    legacy_sse: bool = False,
) -> AsyncIterator[Deployment]:
    """Run workers while the block runs."""
    shared = shared or MemoryCluster()
    # Resumed streams read the store that often. A test must not depend on it.
    policy = policy or EndpointPolicy(keep_alive=10_000)
    async with trio.open_nursery() as nursery:

        async def start() -> Worker:
            worker = Worker(shared, make, policy, authenticate=authenticate, legacy_sse=legacy_sse)
            await nursery.start(worker.run)
            return worker

        yield Deployment(shared, [await start() for _ in range(count)], start)
        nursery.cancel_scope.cancel()
