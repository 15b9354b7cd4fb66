"""The process of the attackers: `python -m bench.attacks.attacker NAME PORT SECONDS`, run by `scripts/bench/attack_server.py`.

It prints a line of JSON each half second and at its end: responses by status, open connections, other figures. It ends
after so many seconds, with its standard input, or by SIGTERM; its connections end with it.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import ssl
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from bench.attacks.connections import Broken, RawConnection, Response, open_raw
from bench.attacks.messages import LEGACY, headers_of, initialize, post
from bench.attacks.processes import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

__all__ = ["Attacker"]

_REPORT_PAUSE: Final = 0.5
_NICENESS: Final = 10
"""The attackers represent other machines: they must not take the processor from the server and the measured client."""


@attrs.define
class Attacker:
    """The connections of hostile clients to one server, and the counts of their responses."""

    port: int
    tls: ssl.SSLContext | None = None
    statuses: collections.Counter[str] = attrs.field(factory=collections.Counter)
    figures: dict[str, float] = attrs.field(factory=dict)
    held: list[RawConnection] = attrs.field(factory=list)
    """Connections that stay open until the end of the attack."""

    @property
    def authority(self) -> str:
        """The value of `Host`."""
        return f"127.0.0.1:{self.port}"

    async def connect(self, *, receive_buffer: int | None = None) -> RawConnection:
        """Open a connection. Raise `Broken`, which is counted."""
        try:
            return await open_raw(self.port, tls=self.tls, receive_buffer=receive_buffer)
        except Broken:
            self.statuses["not connected"] += 1
            raise

    async def hold(self, *, receive_buffer: int | None = None) -> RawConnection:
        """Open a connection that stays open until the end of the attack."""
        connection = await self.connect(receive_buffer=receive_buffer)
        self.held.append(connection)
        return connection

    def post(self, body: bytes, headers: Mapping[str, str], path: str = "/mcp") -> bytes:
        """Return a POST request for this server."""
        return post(path, self.authority, body, headers)

    async def exchange(self, connection: RawConnection, request: bytes) -> Response:
        """Send a request, read its response and count the status. Raise `Broken`."""
        try:
            await connection.send(request)
            response = await connection.response()
        except Broken:
            self.statuses["broken off"] += 1
            raise
        # Shows attacks that are rejected because of their own mistake.
        error = " with an error" if b'"error":' in response.body[:200] else ""
        self.statuses[f"{response.status}{error}"] += 1
        return response

    async def open_session(
        self, connection: RawConnection, body: bytes | None = None, revision: str = LEGACY
    ) -> str | None:
        """Open a legacy session. Return its id, or `None` if it was refused. Raise `Broken`."""
        whole = initialize(revision=revision) if body is None else body
        response = await self.exchange(connection, self.post(whole, headers_of(revision, "initialize")))
        session = response.headers.get("mcp-session-id")
        if session is None:
            return None
        initialized = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
        headers = headers_of(revision, "notifications/initialized", session=session)
        await self.exchange(connection, self.post(initialized, headers))
        return session

    async def repeat(self, times: int, at_once: int, do: Callable[[int], Awaitable[None]]) -> None:
        """Run `do` for each number below `times`, `at_once` at a time. A broken connection ends only its own call."""
        numbers = iter(range(times))

        async def work() -> None:
            for number in numbers:
                try:
                    await do(number)
                except Broken:
                    # A server that rejects connections must not make this loop spin.
                    await trio.sleep(0.01)

        async with trio.open_nursery() as nursery:
            for _ in range(at_once):
                nursery.start_soon(work)

    async def count_response(self, connection: RawConnection) -> None:
        """Read a response that may be late or missing, and count its status."""
        try:
            response = await connection.response_head()
        except Broken:
            self.statuses["broken off"] += 1
        else:
            self.statuses[str(response.status)] += 1

    def report(self) -> None:
        """Print the figures."""
        line = {"statuses": dict(self.statuses), "held": len(self.held), "figures": self.figures}
        print(json.dumps(line), flush=True)


async def _run(name: str, port: int, seconds: float, *, tls: bool) -> None:
    from bench.attacks.attacks import ATTACKS  # lazy: the attacks import this module

    context = None
    if tls:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    attacker = Attacker(port, context)

    async def report() -> None:
        while True:
            attacker.report()
            await trio.sleep(_REPORT_PAUSE)

    with trio.move_on_after(seconds):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(report)
            nursery.start_soon(end_with_parent, nursery.cancel_scope)
            await ATTACKS[name].run(attacker)
            nursery.cancel_scope.cancel()
    attacker.report()


def main() -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(description="Run the attackers of scripts/bench/attack_server.py.")
    parser.add_argument("name")
    parser.add_argument("port", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--tls", action="store_true")
    given = parser.parse_args()
    os.nice(_NICENESS)
    trio.run(partial(_run, given.name, given.port, given.seconds, tls=given.tls))
    sys.stdout.flush()
    # The system closes thousands of connections faster.
    os._exit(0)


if __name__ == "__main__":
    # The attacks import this module by its name: there must be one class `Attacker`.
    from bench.attacks import attacker

    sys.exit(attacker.main())
