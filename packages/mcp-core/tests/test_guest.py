"""trio as a guest of an asyncio loop, on each loop and with each way to wait for I/O."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import socket
import sys
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeAlias

import pytest
import sniffio
import trio
import trio.lowlevel
import uvloop

import mcp_core.trio.guest as guest_module
from mcp_core.trio.guest import TrioGuest, current_guest
from mcp_core.trio.host_loop import host_of_trio

Host: TypeAlias = Callable[[Callable[[], Coroutine[object, object, None]]], None]

_SECONDS = 20
"""Time after which a call that waits forever fails."""

_WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


LoopFactory: TypeAlias = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=["asyncio", "uvloop", "thread"])
def factory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> LoopFactory:
    """Make a loop. `thread`: trio waits for I/O in its thread, as on other systems."""
    if request.param == "thread":
        monkeypatch.setattr(guest_module, "_state_of", lambda _: None)
    return uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop


@pytest.fixture
def host(factory: LoopFactory) -> Host:
    """Run a function on a loop."""

    def run(function: Callable[[], Coroutine[object, object, None]]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(function(), _SECONDS))

    return run


def test_guest_calls_in_both_directions_return_values(host: Host) -> None:
    async def on_asyncio() -> str:
        await asyncio.sleep(0)
        return f"{_WHO.get()} on {asyncio.get_running_loop() is not None}"

    async def on_trio() -> str:
        await trio.lowlevel.checkpoint()
        found = host_of_trio()
        assert found is current_guest()
        return await found.run_asyncio(on_asyncio)

    async def main() -> None:
        _WHO.set("caller")
        assert await current_guest().run(on_trio) == "caller on True"

    host(main)


def test_guest_next_deadline_wakes_trio_task(host: Host) -> None:
    async def main() -> None:
        await current_guest().run(partial(trio.sleep, 0.01))

    host(main)


def test_guest_with_deadline_far_away_wakes_for_new_task(host: Host) -> None:
    # A timer of trio must not delay a task that can run. On uvloop, timers have a class of their own.

    async def main() -> None:
        guest = current_guest()
        waiting = asyncio.create_task(guest.run(partial(trio.sleep, 1000)))
        await asyncio.sleep(0.01)
        event = trio.Event()
        reader = asyncio.create_task(guest.run(event.wait))
        await asyncio.sleep(0.01)
        event.set()
        await reader
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    host(main)


def test_guest_cancellation_of_ended_call_spares_next_call_of_its_trio_task(host: Host) -> None:
    async def main() -> None:
        guest = current_guest()
        has_ended = asyncio.Event()

        async def end() -> None:
            await trio.lowlevel.checkpoint()
            # The other asyncio task runs before the one whose call ends here.
            has_ended.set()

        async def task_id() -> int:
            found = id(trio.lowlevel.current_task())
            await trio.lowlevel.checkpoint()
            return found

        used = await guest.run(task_id)
        call = asyncio.create_task(guest.run(end))
        await has_ended.wait()
        call.cancel()
        assert await guest.run(task_id) == used
        with pytest.raises(asyncio.CancelledError):
            await call

    host(main)


def test_guest_deadline_before_that_of_its_timer_wakes_trio_task(host: Host) -> None:
    async def main() -> None:
        guest = current_guest()
        waiting = asyncio.create_task(guest.run(partial(trio.sleep, 1000)))
        await asyncio.sleep(0.01)
        await guest.run(partial(trio.sleep, 0.01))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    host(main)


def test_guest_socket_readable_wakes_trio_task(host: Host) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
            for size in (1, 3):
                read = asyncio.create_task(current_guest().run(stream.receive_some))
                await asyncio.sleep(0.01)
                theirs.sendall(b"x" * size)
                assert await read == b"x" * size
            await current_guest().run(stream.aclose)

    host(main)


def test_guest_worker_thread_returns_value(host: Host) -> None:
    def work() -> int:
        return trio.from_thread.run_sync(lambda: 42)

    async def main() -> None:
        assert await current_guest().run(lambda: trio.to_thread.run_sync(work)) == 42

    host(main)


@pytest.mark.parametrize("error", [ValueError("bad"), BaseException("worse"), StopAsyncIteration()])
def test_guest_exception_crosses_in_both_directions(host: Host, error: BaseException) -> None:
    async def fail() -> None:
        raise error

    async def cross() -> None:
        await current_guest().run_asyncio(fail)

    async def main() -> None:
        for function in (fail, cross):
            with pytest.raises(type(error)) as caught:
                await current_guest().run(function)
            assert caught.value is error

    host(main)


def test_guest_asyncio_task_cancelled_cancels_trio_task_and_waits(host: Host) -> None:
    ended: list[str] = []

    async def on_asyncio() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.append("asyncio")

    started = asyncio.Event()

    async def on_trio() -> None:
        try:
            await current_guest().run_asyncio(on_asyncio)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.01)
            ended.append("trio")

    async def main() -> None:
        calling = asyncio.create_task(current_guest().run(on_trio))
        await started.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert ended == ["asyncio", "trio"]

    host(main)


def test_guest_trio_scope_cancelled_cancels_asyncio_task(host: Host) -> None:
    cancelled: list[bool] = []

    async def on_asyncio() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def on_trio() -> bool:
        with trio.move_on_after(0.01) as scope:
            await current_guest().run_asyncio(on_asyncio)
        return scope.cancelled_caught

    async def main() -> None:
        assert await current_guest().run(on_trio)
        assert cancelled == [True]

    host(main)


def test_guest_function_raises_cancelled_error_on_its_own_is_error(host: Host) -> None:
    async def on_asyncio() -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        with pytest.raises(RuntimeError, match="was not cancelled"):
            await current_guest().run(lambda: current_guest().run_asyncio(on_asyncio))

    host(main)


def _create_eager_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[object, object, object] | Generator[object, object, object],
    *,
    context: contextvars.Context | None = None,
    **_: object,
) -> asyncio.Task[object]:
    """Create a task that runs its first step at once, like `asyncio.eager_task_factory`, which uvloop cannot call."""
    assert isinstance(coroutine, Coroutine)
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, context=context, eager_start=True)
    return asyncio.Task(coroutine, loop=loop, context=context)


@pytest.mark.parametrize("has_factory", [False, True])
def test_guest_asyncio_function_runs_outside_of_trio_task(host: Host, has_factory: bool) -> None:
    seen: list[tuple[bool, str, bool]] = []

    def look() -> None:
        found = asyncio.current_task() is not None if not trio.lowlevel.in_trio_task() else False
        seen.append((trio.lowlevel.in_trio_task(), sniffio.current_async_library(), found))

    async def on_asyncio() -> str:
        look()
        async with asyncio.timeout(_SECONDS):  # needs an asyncio task
            await asyncio.sleep(0)
        look()
        return await current_guest().run(on_trio)

    async def on_trio() -> str:
        look()
        return _WHO.get()

    async def cross() -> str:
        who = await current_guest().run_asyncio(on_asyncio)
        look()
        return who

    async def main() -> None:
        if has_factory:
            asyncio.get_running_loop().set_task_factory(_create_eager_task)  # type: ignore[arg-type]  # theirs is generic
        _WHO.set("caller")
        assert await current_guest().run(cross) == "caller"
        assert seen == [
            (False, "asyncio", True),
            (False, "asyncio", True),
            (True, "trio", False),
            (True, "trio", False),
        ]

    host(main)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="asyncio has no eager tasks")
def test_guest_asyncio_function_that_does_not_wait_ends_without_the_loop(host: Host) -> None:
    async def on_asyncio() -> str:
        return "done"

    async def on_trio() -> list[str]:
        callbacks: list[str] = []
        asyncio.get_running_loop().call_soon(callbacks.append, "called")
        assert await current_guest().run_asyncio(on_asyncio) == "done"
        return list(callbacks)

    async def main() -> None:
        assert await current_guest().run(on_trio) == []

    host(main)


def test_guest_asyncio_function_in_cancelled_scope_is_not_called(host: Host) -> None:
    called: list[bool] = []

    async def on_asyncio() -> None:
        called.append(True)

    async def on_trio() -> bool:
        with trio.CancelScope() as scope:
            scope.cancel()
            await current_guest().run_asyncio(on_asyncio)
        return scope.cancelled_caught

    async def main() -> None:
        assert await current_guest().run(on_trio)
        assert not called

    host(main)


def test_guest_asyncio_function_that_cancels_itself_is_error(host: Host) -> None:
    async def on_asyncio() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    async def main() -> None:
        with pytest.raises(RuntimeError, match="was not cancelled"):
            await current_guest().run(lambda: current_guest().run_asyncio(on_asyncio))

    host(main)


def test_guest_cancelled_twice_waits_for_trio_task(host: Host) -> None:
    release = trio.Event()
    ended: list[bool] = []

    async def on_trio() -> None:
        with trio.CancelScope(shield=True):
            await release.wait()
        ended.append(True)

    async def main() -> None:
        task = asyncio.create_task(current_guest().run(on_trio))
        for _ in range(2):
            await asyncio.sleep(0.01)
            task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [True]

    host(main)


def test_guest_end_of_loop_cancels_trio_tasks(host: Host) -> None:
    ended: list[str] = []

    async def forever() -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("trio")

    async def main() -> None:
        current_guest().start_soon(forever)
        await asyncio.sleep(0.01)

    host(main)
    assert ended == ["trio"]


def test_guest_closed_rejects_calls_and_can_be_started_again(host: Host) -> None:
    async def main() -> None:
        first = current_guest()
        await first.aclose()
        assert first.ended
        with pytest.raises(RuntimeError, match="has ended"):
            await first.run(trio.lowlevel.checkpoint)
        assert current_guest() is not first
        await current_guest().run(trio.lowlevel.checkpoint)

    host(main)


def test_guest_loop_that_ends_in_first_step_leaves_no_run(factory: LoopFactory) -> None:
    guests: list[TrioGuest] = []

    async def main() -> None:
        guests.append(current_guest())
        raise SystemExit  # ends the loop in this step

    for _ in range(3):
        with pytest.raises(SystemExit), asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())
    assert all(guest.ended for guest in guests)


def test_guest_of_ended_loop_does_not_keep_loop(host: Host) -> None:
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def main() -> None:
        await current_guest().run(trio.lowlevel.checkpoint)
        loops.append(weakref.ref(asyncio.get_running_loop()))

    host(main)
    gc.collect()
    assert loops[0]() is None


def test_guest_of_loop_closed_with_tasks_ends_when_next_loop_starts(factory: LoopFactory) -> None:
    ended: list[str] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        yield

    async def wait(name: str, function: Callable[[], Awaitable[object]]) -> None:
        try:
            await function()
        finally:
            ended.append(name)

    async def live() -> None:
        async with current_guest().enter_asyncio(lifespan):
            await trio.sleep_forever()

    async def forever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        guest = current_guest()
        guest.start_soon(lambda: wait("trio", trio.sleep_forever))
        guest.start_soon(lambda: wait("asyncio", lambda: guest.run_asyncio(forever)))
        guest.start_soon(lambda: wait("context manager", live))
        calls.append(asyncio.create_task(guest.run(lambda: wait("call", trio.sleep_forever))))
        await asyncio.sleep(0.01)

    calls: list[asyncio.Task[None]] = []
    first = factory()
    first.run_until_complete(main())
    first.close()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(_checkpoint_of_trio())
    assert sorted(ended) == ["asyncio", "call", "context manager", "trio"]


async def _checkpoint_of_trio() -> None:
    await current_guest().run(trio.lowlevel.checkpoint)


def test_guest_of_loop_closed_with_shielded_task_is_error_of_next_loop(factory: LoopFactory) -> None:
    async def shielded() -> None:
        with trio.CancelScope(shield=True):
            await release.wait()

    async def main() -> None:
        current_guest().start_soon(shielded)
        await asyncio.sleep(0.01)

    release = trio.Event()
    loop = factory()
    loop.run_until_complete(main())
    loop.close()
    with asyncio.Runner(loop_factory=factory) as runner:
        with pytest.raises(RuntimeError, match=r"an earlier asyncio loop .* was closed while its tasks ran"):
            runner.run(_checkpoint_of_trio())
        release.set()
        runner.run(_checkpoint_of_trio())


def test_guest_many_calls_at_once_each_return(host: Host) -> None:
    async def double(number: int) -> int:
        async def on_asyncio() -> int:
            await asyncio.sleep(0)
            return number * 2

        await trio.lowlevel.checkpoint()
        return await current_guest().run_asyncio(on_asyncio)

    def call(number: int) -> Awaitable[int]:
        return current_guest().run(lambda: double(number))

    async def main() -> None:
        assert await asyncio.gather(*map(call, range(500))) == [2 * number for number in range(500)]

    host(main)


async def _task() -> trio.lowlevel.Task:
    await trio.lowlevel.checkpoint()
    return trio.lowlevel.current_task()


def test_guest_calls_one_after_the_other_share_a_trio_task(host: Host) -> None:
    async def main() -> None:
        guest = current_guest()
        assert await guest.run(_task) is await guest.run(_task)

    host(main)


@pytest.mark.parametrize("how", ["raises", "is cancelled"])
def test_guest_call_after_one_that_failed_has_another_trio_task(host: Host, how: str) -> None:
    async def fail() -> None:
        if how == "raises":
            raise ValueError
        await trio.sleep_forever()

    async def main() -> None:
        guest = current_guest()
        first = await guest.run(_task)
        failing = asyncio.create_task(guest.run(fail))
        await asyncio.sleep(0)
        failing.cancel()
        with pytest.raises((ValueError, asyncio.CancelledError)):
            await failing
        assert await guest.run(_task) is not first

    host(main)


def test_guest_cancelled_as_its_call_ends_does_not_cancel_the_next_call(host: Host) -> None:
    async def main() -> None:
        guest = current_guest()
        asyncio_task = asyncio.current_task()
        assert asyncio_task is not None

        async def end() -> str:
            # The asyncio task is woken by its cancellation, and then finds that the call has ended.
            asyncio_task.get_loop().call_soon(asyncio_task.cancel)
            return "value"

        with suppress(asyncio.CancelledError):
            await guest.run(end)
        asyncio_task.uncancel()
        for _ in range(3):
            await guest.run(_task)

    host(main)


def test_guest_trio_task_has_context_variables_of_each_call_and_keeps_none(host: Host) -> None:
    class Value:
        """An object with weak references."""

    held: contextvars.ContextVar[Value | None] = contextvars.ContextVar("held", default=None)

    async def change(text: str) -> str:
        before = _WHO.get()
        _WHO.set(text)
        await trio.lowlevel.checkpoint()
        return f"{before}, then {_WHO.get()}"

    async def main() -> None:
        guest = current_guest()
        _WHO.set("caller")
        assert await guest.run(partial(change, "first")) == "caller, then first"
        assert await guest.run(partial(change, "second")) == "caller, then second"
        value = Value()
        gone = weakref.ref(value)

        async def call(value: Value) -> None:
            held.set(value)
            await asyncio.gather(guest.run(_task), guest.run(_task))

        await asyncio.create_task(call(value))
        del value
        # The handles of the loop keep the context of the last call that woke trio.
        await guest.run(_task)
        gc.collect()
        assert gone() is None

    host(main)


def test_guest_keeps_a_bounded_number_of_waiting_trio_tasks(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_module, "_IDLE", 2)

    async def main() -> None:
        guest = current_guest()
        first = set(await asyncio.gather(*[guest.run(_task) for _ in range(5)]))
        assert len(first) == 5
        assert len(first & set(await asyncio.gather(*[guest.run(_task) for _ in range(5)]))) == 2

    host(main)


def test_guest_trio_task_that_never_waits_lets_asyncio_run(host: Host) -> None:
    stop = trio.Event()

    async def busy() -> None:
        while not stop.is_set():
            await trio.lowlevel.checkpoint()

    async def main() -> None:
        task = asyncio.create_task(current_guest().run(busy))
        await asyncio.sleep(0.01)
        stop.set()
        await task

    host(main)


def test_guest_without_asyncio_loop_is_error() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        current_guest()


async def test_host_of_trio_with_own_loop_is_none() -> None:
    assert host_of_trio() is None


@pytest.mark.parametrize("left_open", [False, True])
def test_guests_of_two_loops_in_one_thread_run_in_turns(left_open: bool) -> None:
    async def sleep() -> str:
        await trio.sleep(0.001)
        return "slept"

    async def call(sleeping: trio.Event) -> str:
        async def wait_forever() -> None:
            sleeping.set()
            await trio.sleep_forever()

        if not left_open:
            return await current_guest().run(sleep)
        # The task stays in trio when the other loop runs.
        waiting.append(asyncio.ensure_future(current_guest().run(wait_forever)))
        await current_guest().run(sleeping.wait)
        return await current_guest().run(sleep)

    waiting: list[asyncio.Future[None]] = []
    with asyncio.Runner() as outer, asyncio.Runner() as inner:
        for _ in range(3):
            for runner in (outer, inner):
                assert runner.run(call(trio.Event())) == "slept"
        # A loop may also end before the one that started earlier.
        with asyncio.Runner() as short:
            assert short.run(call(trio.Event())) == "slept"
        assert outer.run(call(trio.Event())) == "slept"
    assert all(each.cancelled() for each in waiting)
    assert len(waiting) == (8 if left_open else 0)
    # Without a loop, the thread is free for a run of trio itself.
    assert trio.run(sleep) == "slept"


def test_guest_run_cancelled_with_its_loop_raises_no_group() -> None:
    started = asyncio.Event()

    async def nursery() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            started.set()

    async def main() -> list[asyncio.Task[None]]:
        task = asyncio.create_task(current_guest().run(nursery))
        await started.wait()
        return [task]

    # `asyncio.run` cancels the task and the whole run of trio at the same time.
    (task,) = asyncio.run(main())
    assert task.cancelled()
