"""Tests of the sockets that the suite listens at: none stays open when it is cancelled."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Final

import pytest
import trio

from mcp_conformance.oauth_testbed.loopback import open_testbed
from mcp_conformance.wire.http_server import ServerExchange, open_http_server

STEPS: Final = 40
"""More steps than a task needs to open the sockets."""


class CancelAtStep(trio.abc.Instrument):
    """An instrument that cancels a scope before a step of the task that creates it.

    Args:
        scope: The scope.
        step: The number of the step, from 1.
    """

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope: Final = scope
        self._task: Final = trio.lowlevel.current_task()
        self._left = step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count a step. Called by trio."""
        if task is self._task:
            self._left -= 1
            if not self._left:
                self._scope.cancel()


async def ignore(exchange: ServerExchange) -> None:
    """Close a connection without a response."""


OPENED: Final[dict[str, Callable[[], AbstractAsyncContextManager[object]]]] = {
    "http server": lambda: open_http_server(ignore),
    "testbed": open_testbed,
}


@pytest.fixture
def few_objects() -> Iterator[None]:
    """Exclude the objects of earlier tests from garbage collections, which would take a second each."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("few_objects")
@pytest.mark.parametrize("what", OPENED)
async def test_server_cancelled_while_it_opens_leaves_no_socket(what: str) -> None:
    opened = 0
    for step in range(1, STEPS):
        manager = OPENED[what]()
        with trio.CancelScope() as scope:
            instrument = CancelAtStep(scope, step)
            trio.lowlevel.add_instrument(instrument)
            try:
                async with manager:
                    opened += 1
            finally:
                trio.lowlevel.remove_instrument(instrument)
        # A socket that is still open is reported here, as an error.
        del manager
        gc.collect()
    assert 0 < opened < STEPS - 1
