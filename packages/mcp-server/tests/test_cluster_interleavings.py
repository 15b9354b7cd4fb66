"""Random interleavings of workers, clients and losses, compared with what one server guarantees.

Each example is a list of steps on one session over several workers. The clock of the test decides the time, and the
seed of trio's scheduler the order of the tasks. The model of one server:

- The messages of a call arrive in their order, without a gap and without a repetition, over any number of connections.
- A call has exactly one outcome: its result, or an error if the worker that ran it was killed. A cancelled call has no
  other outcome than these.
- A client is notified of each change of a subscribed resource, and not more often than it changed.
- The session exists until the client ends it.
- While the stores cannot be reached, a request that needs them is rejected with 503 and has no effect. Calls that run
  continue, and have at most one outcome; their streams may be impossible to resume.
- A client of 2026-07-28 is served at all times. Its `requestState` is accepted by each worker, and its listen streams
  are notified of each change.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import attrs
import pytest
import trio
import trio.testing
from asgi_host import Client, Reply, as_object
from cluster_deployment import Deployment, deployed
from hypothesis import given, note
from hypothesis import strategies as st

from mcp_core.framing.sse import Event
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2025_11_25, R2026_07_28

WORKERS: Final = 3
STEPS: Final = 3
"""The number of progress notifications of a call."""
URIS: Final = ("memo://a", "memo://b")

_WORKER: Final = st.integers(0, WORKERS - 1)
_PICK: Final = st.integers(0, 5)
_URI: Final = st.sampled_from(URIS)

OPERATIONS: Final = st.one_of(
    st.tuples(st.just("call"), _WORKER),
    st.tuples(st.just("elicit"), _WORKER),
    st.tuples(st.just("release"), _PICK),
    st.tuples(st.just("answer"), _PICK, _WORKER),
    st.tuples(st.just("drop"), _PICK),
    st.tuples(st.just("resume"), _PICK, _WORKER),
    st.tuples(st.just("cancel"), _PICK, _WORKER),
    st.tuples(st.just("subscribe"), _URI, _WORKER),
    st.tuples(st.just("unsubscribe"), _URI, _WORKER),
    st.tuples(st.just("change"), _URI, _WORKER),
    st.tuples(st.just("listen"), _WORKER),
    st.tuples(st.just("leave")),
    st.tuples(st.just("kill"), _WORKER),
    st.tuples(st.just("discard"), _WORKER),
    st.tuples(st.just("pause"), _WORKER, st.booleans()),
    st.tuples(st.just("outage"), st.booleans()),
    st.tuples(st.just("modern call"), _WORKER),
    st.tuples(st.just("modern elicit"), _WORKER, _WORKER),
    st.tuples(st.just("modern listen"), _WORKER),
    st.tuples(st.just("settle")),
    st.tuples(st.just("wait"), st.sampled_from((0.2, 20.0, 400.0))),
)


@attrs.define(eq=False)
class Stream:
    """A stream that the client reads, over several connections."""

    reply: Reply | None
    last: str | None = None
    """The id of the last event that the client received."""
    messages: list[JsonObject] = attrs.field(factory=list)
    ids: list[tuple[int, int]] = attrs.field(factory=list)

    def read(self) -> None:
        """Read what has arrived."""
        reply = self.reply
        if reply is None or reply.status not in (0, 200) or reply.headers.get("content-type") == "application/json":
            return
        while reply._fed < len(reply.chunks):
            for event in reply._parser.receive_data(reply.chunks[reply._fed]):
                assert isinstance(event, Event)
                if event.id:
                    self.last = event.id
                if event.data:
                    stream, _, number = (event.id or "0-0").partition("-")
                    self.ids.append((int(stream), int(number)))
                    self.messages.append(json.loads(event.data))
            reply._fed += 1

    @property
    def is_open(self) -> bool:
        return self.reply is not None and not (self.reply.returned.is_set() or self.reply.complete)


@attrs.define(eq=False)
class ToolCall(Stream):
    """A call of a tool."""

    id: int = 0
    name: str = ""
    is_elicitation: bool = False
    worker: int = 0
    released: int = 0
    is_cancelled: bool = False
    is_answered: bool = False
    has_lost_worker: bool = False
    had_outage: bool = False

    @property
    def outcomes(self) -> list[JsonObject]:
        return [each for each in self.messages if each.get("id") == self.id and "method" not in each]


@attrs.define(eq=False)
class ListenStream:
    """A listen stream of a client of 2026-07-28."""

    reply: Reply
    worker: int
    pending: set[str] = attrs.field(factory=set)
    """The changes since the acknowledgment of which the client was not notified."""
    read: int = 0

    def receive(self) -> None:
        """Read what has arrived."""
        text = b"".join(self.reply.chunks).decode()
        for uri in URIS:
            if f'"uri":"{uri}"' in text[self.read :]:
                self.pending.discard(uri)
        self.read = len(text)


class Run:
    """One example."""

    def __init__(self, deployment: Deployment, client: Client) -> None:
        self.deployment: Final = deployment
        self.client: Final = client
        self.calls: list[ToolCall] = []
        self.standalone = Stream(None)
        self.subscribed: set[str] = set()
        self.changes: dict[str, int] = dict.fromkeys(URIS, 0)
        self.pending: set[str] = set()
        self.modern: Final = Client(deployment, client.nursery, R2026_07_28)
        self.modern.capabilities = {"elicitation": {}}
        self.listening: list[ListenStream] = []

    @property
    def is_reachable(self) -> bool:
        return self.deployment.shared.is_reachable

    # --- steps -----------------------------------------------------------------------------------------------------

    async def do(self, operation: tuple[object, ...]) -> None:
        match operation:
            case ("call" | "elicit" as kind, int(worker)):
                await self.call(worker, is_elicitation=kind == "elicit")
            case ("release", int(pick)):
                self.release(pick)
            case ("answer", int(pick), int(worker)):
                await self.answer(pick, worker)
            case ("drop", int(pick)):
                self.drop(pick)
            case ("resume", int(pick), int(worker)):
                await self.resume(pick, worker)
            case ("cancel", int(pick), int(worker)):
                await self.cancel(pick, worker)
            case ("subscribe" | "unsubscribe" as method, str(uri), int(worker)):
                await self.subscribe(method, uri, worker)
            case ("change", str(uri), int(worker)):
                self.change(uri, worker)
            case ("listen", int(worker)):
                await self.listen(worker)
            case ("leave",):
                if self.standalone.reply is not None:
                    self.standalone.reply.leave()
            case ("kill", int(worker)):
                await self.kill(worker)
            case ("discard", int(worker)):
                self.deployment.workers[worker].cluster.discard_messages()
            case ("pause", int(worker), bool(is_paused)):
                cluster = self.deployment.workers[worker].cluster
                cluster.is_paused = is_paused
                cluster.wake()
            case ("outage", bool(begins)):
                self.deployment.shared.is_reachable = not begins
                for each in self.calls:
                    each.had_outage |= not each.outcomes
            case ("modern call", int(worker)):
                self.deployment.pinned = worker
                assert "result" in await self.modern.post(self.modern.call("echo", text="x")).answer()
            case ("modern elicit", int(first), int(second)):
                await self.elicit(first, second)
            case ("modern listen", int(worker)):
                await self.listen_modern(worker)
            case ("settle",):
                await trio.testing.wait_all_tasks_blocked()
            case ("wait", float(seconds)):
                await trio.sleep(seconds)

    def _picked(self, pick: int, *, is_elicitation: bool | None = None) -> ToolCall | None:
        found = [each for each in self.calls if is_elicitation in (None, each.is_elicitation)]
        return found[pick % len(found)] if found else None

    async def elicit(self, first: int, second: int) -> None:
        """Respond to an input request at another worker than the one that sent it."""
        self.deployment.pinned = first
        call = self.modern.call("elicit", name="modern")
        result = as_object((await self.modern.post(call).answer())["result"])
        (key,) = as_object(result["inputRequests"])
        retry = self.modern.call("elicit", name="modern")
        as_object(retry["params"]).update(
            requestState=result["requestState"],
            inputResponses={key: {"action": "accept", "content": {"name": "Ann"}}},
        )
        self.deployment.pinned = second
        assert "Ann" in json.dumps(await self.modern.post(retry).answer())

    async def listen_modern(self, worker: int) -> None:
        if len(self.listening) >= 3:
            return
        self.deployment.pinned = worker
        wanted: JsonObject = {"notifications": {"resourceSubscriptions": list(URIS)}}
        reply = self.modern.post(self.modern.request("subscriptions/listen", wanted))
        await self.until(lambda: b"acknowledged" in b"".join(reply.chunks))
        self.listening.append(ListenStream(reply, worker))

    async def call(self, worker: int, *, is_elicitation: bool) -> None:
        if len(self.calls) >= 6:
            return
        name = f"n{len(self.calls)}"
        arguments: JsonObject = {"name": name} if is_elicitation else {"name": name, "count": STEPS}
        message = self.client.call("elicit" if is_elicitation else "steps", token=name, **arguments)
        self.deployment.pinned = worker
        reply = self.client.post(message, accept="application/json, text/event-stream")
        call = ToolCall(reply, id=int(str(message["id"])), name=name, is_elicitation=is_elicitation, worker=worker)
        # The client has an id to resume from, unless the stream cannot be stored.
        await self.until(lambda: bool(reply.chunks) or reply.returned.is_set() or not self.is_reachable)
        await trio.testing.wait_all_tasks_blocked()
        if self.is_rejected(reply):
            return
        call.had_outage = not self.is_reachable
        self.calls.append(call)
        call.read()

    def is_rejected(self, reply: Reply) -> bool:
        """Return whether a request was rejected because the stores cannot be reached."""
        assert reply.status != 503 or (not self.is_reachable and reply.headers.get("retry-after"))
        return reply.status == 503

    async def until(self, ready: Callable[[], bool]) -> None:
        with trio.fail_after(10_000):
            while not ready():  # noqa: ASYNC110  # the time passes only when all tasks wait
                await trio.sleep(0.05)

    def release(self, pick: int) -> None:
        call = self._picked(pick, is_elicitation=False)
        if call is not None and call.released < STEPS:
            call.released += 1
            for worker in self.deployment.workers:
                worker.controlled.let(f"{call.name}{call.released}")

    async def answer(self, pick: int, worker: int) -> None:
        call = self._picked(pick, is_elicitation=True)
        if call is None:
            return
        call.read()
        requests = [each for each in call.messages if each.get("method") == "elicitation/create"]
        for request in requests:
            call.is_answered = True
            result: JsonObject = {"action": "accept", "content": {"name": call.name}}
            self.deployment.pinned = worker
            reply = self.client.post({"jsonrpc": "2.0", "id": request["id"], "result": result})
            await reply.body()
            assert self.is_rejected(reply) or reply.status == 202

    def drop(self, pick: int) -> None:
        call = self._picked(pick)
        if call is not None and call.reply is not None:
            # What has arrived since the last reading is lost.
            call.reply.leave()

    async def resume(self, pick: int, worker: int) -> None:
        call = self._picked(pick)
        if call is None or call.outcomes:
            return
        if call.last is None:
            # A GET without the id of an event would open the standalone stream.
            assert call.had_outage
            return
        if call.is_open and call.reply is not None:
            call.reply.leave()
        self.deployment.pinned = worker
        call.reply = reply = self.client.get(call.last)
        await self.until(lambda: bool(reply.status) or reply.returned.is_set())
        if self.is_rejected(reply):
            call.reply = None
            return
        if call.had_outage and reply.status == 400:
            return  # the stream, or its last event, is not stored
        assert reply.status in (0, 200, 405), (reply.status, reply.chunks)
        if reply.status == 405:
            # All was sent and the call has ended.
            assert call.is_cancelled or call.outcomes or call.had_outage
        call.read()

    async def cancel(self, pick: int, worker: int) -> None:
        call = self._picked(pick)
        if call is not None and not call.outcomes:
            call.is_cancelled = True
            self.deployment.pinned = worker
            params: JsonObject = {"requestId": call.id}
            reply = self.client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            await reply.body()
            assert self.is_rejected(reply) or reply.status == 202

    async def subscribe(self, method: str, uri: str, worker: int) -> None:
        self.deployment.pinned = worker
        reply = self.client.post(self.client.request(f"resources/{method}", {"uri": uri}))
        body = await reply.body()
        if self.is_rejected(reply):
            return
        assert self.is_reachable, "a change of the session that could not be stored was confirmed"
        assert b'"result"' in body
        if method == "subscribe":
            self.subscribed.add(uri)
        else:
            self.subscribed.discard(uri)
            self.pending.discard(uri)

    def change(self, uri: str, worker: int) -> None:
        if not self.is_reachable:
            return
        self.receive()
        for each in self.listening:
            each.receive()
            each.pending.add(uri)
        self.deployment.workers[worker].server.resource_updated(uri)
        if uri in self.subscribed:
            self.changes[uri] += 1
            self.pending.add(uri)

    def receive(self) -> None:
        """Read the standalone stream."""
        before = len(self.standalone.messages)
        self.standalone.read()
        for message in self.standalone.messages[before:]:
            self.pending.discard(str(as_object(message["params"])["uri"]))

    async def listen(self, worker: int) -> None:
        self.receive()
        stream = self.standalone
        if stream.reply is not None:
            stream.reply.leave()
        self.deployment.pinned = worker
        stream.reply = reply = self.client.get(stream.last)
        await self.until(lambda: bool(reply.chunks) or reply.returned.is_set() or not self.is_reachable)
        await trio.testing.wait_all_tasks_blocked()
        if self.is_rejected(reply):
            stream.reply = None
            return
        assert reply.status in (0, 200), (reply.status, reply.chunks)
        self.receive()

    async def kill(self, worker: int) -> None:
        if not self.is_reachable:
            return  # the next worker would not join
        self.listening = [each for each in self.listening if each.worker != worker]
        for call in self.calls:
            call.has_lost_worker |= call.worker == worker and not call.outcomes
        await self.deployment.restart(worker)

    # --- the guarantees --------------------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Let all calls end, read all streams, and compare with one server."""
        self.deployment.shared.is_reachable = True
        for worker in self.deployment.workers:
            worker.cluster.is_paused = False
            worker.cluster.wake()
        for _ in range(STEPS):
            for pick in range(len(self.calls)):
                self.release(pick)
        for attempt in range(6):
            await trio.sleep(60)
            for pick, call in enumerate(self.calls):
                call.read()
                if not call.outcomes:
                    if call.is_elicitation:
                        await self.answer(
                            pick - sum(not each.is_elicitation for each in self.calls[:pick]), attempt % 3
                        )
                    if not call.is_open or attempt > 1:
                        await self.resume(pick, (pick + attempt) % WORKERS)
        await trio.sleep(60)
        for call in self.calls:
            self.check(call)
        for each in self.listening:
            each.receive()
            assert not each.pending, "a listen stream misses a change"
            each.reply.leave()
        await self.listen(0)
        await trio.sleep(60)
        await self.check_changes()
        for at in range(WORKERS):
            self.deployment.pinned = at
            answer = await self.client.post(self.client.call("echo", text="still here")).answer()
            assert "result" in answer

    def check(self, call: ToolCall) -> None:
        call.read()
        note(f"{call}")
        # Events that cannot be stored have no id.
        ids = [each for each in call.ids if each[0] or not call.had_outage]
        assert ids == sorted(set(ids)), "messages are repeated or out of order"
        steps = [as_object(each["params"])["progress"] for each in call.messages if "progressToken" in str(each)]
        assert steps == list(range(1, len(steps) + 1)), "a message is missing"
        assert len(call.outcomes) <= 1, "a call has two outcomes"
        if not call.outcomes:
            assert call.is_cancelled or call.had_outage, "a call has no outcome"
            return
        assert call.messages[-1] is call.outcomes[0], "a message follows the outcome"
        if "error" in call.outcomes[0]:
            assert call.has_lost_worker or call.had_outage, "a call failed although its worker lives"
        elif not (call.is_elicitation or call.had_outage):
            assert len(steps) == STEPS
        assert len({number for number, _ in call.ids if number}) <= 1, "messages of several streams"

    async def check_changes(self) -> None:
        self.receive()
        received = [str(as_object(each["params"])["uri"]) for each in self.standalone.messages]
        note(f"changes {self.changes}, received {received}, pending {self.pending}")
        assert not self.pending, "a change is lost"
        for uri in URIS:
            assert received.count(uri) <= self.changes[uri], "a change is notified twice"
        for uri in sorted(self.subscribed):
            before = len(self.standalone.messages)
            for worker in self.deployment.workers:
                worker.server.resource_updated(uri)
                await trio.sleep(60)
            self.receive()
            assert len(self.standalone.messages) == before + WORKERS, (
                "a change with an open stream is not notified once"
            )


async def _run(operations: list[tuple[object, ...]]) -> None:
    policy = EndpointPolicy(keep_alive=10, answer="stream", session_idle=3_600)
    async with deployed(WORKERS, policy=policy) as deployment, trio.open_nursery() as nursery:
        client = Client(deployment, nursery, R2025_11_25)
        deployment.pinned = 0
        await client.open()
        run = Run(deployment, client)
        for operation in operations:
            await run.do(operation)
        await run.finish()
        nursery.cancel_scope.cancel()


@pytest.mark.property
@given(st.lists(OPERATIONS, min_size=1, max_size=25))
def test_session_over_workers_behaves_as_on_one_server(operations: list[tuple[object, ...]]) -> None:
    trio.run(_run, operations, clock=trio.testing.MockClock(autojump_threshold=0))
