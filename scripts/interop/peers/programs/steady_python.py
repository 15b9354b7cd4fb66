"""A client on the official Python SDK that calls tools until its standard input ends.

    python -m interop.peers.programs.steady_python URL MODE

MODE is `legacy` or a modern revision. Each call is a line of JSON on standard output: the tool, the id of the payment, and
`failure`, which is null for success.
"""

from __future__ import annotations

import json
import sys

import anyio
from mcp import Client, MCPError
from mcp.types import ElicitResult

SECONDS = 20


async def accept(context: object, params: object) -> ElicitResult:
    """Answer an elicitation."""
    return ElicitResult(action="accept", content={"value": True})


async def attempt(client: Client, tool: str, arguments: dict[str, object]) -> bool:
    """Call a tool, report the outcome, and return whether it was a success."""
    failure = None
    try:
        result = await client.call_tool(tool, arguments, read_timeout_seconds=SECONDS)
        if result.is_error:
            failure = f"error of the tool: {result.content}"
    except MCPError as error:
        failure = f"{type(error).__name__}: {error}"
    print(json.dumps({"tool": tool, "id": arguments.get("id"), "failure": failure}), flush=True)
    return failure is None


async def calls(url: str, mode: str) -> None:
    """Call tools, in a new connection if opening one failed."""
    number = 0
    while True:
        try:
            async with Client(url, mode=mode, elicitation_callback=accept) as client:
                is_usable = True
                # The SDK does not open a connection again. Two failures in a row mean that it has none.
                while is_usable:
                    number += 1
                    is_usable = await attempt(client, "echo", {"text": "x"})
                    is_usable |= await attempt(client, "pay", {"id": f"payment-python-{mode}-{number}"})
                    await anyio.sleep(0.02)
        except Exception as error:  # noqa: BLE001  # any failure of the SDK is an outcome
            print(json.dumps({"tool": "open", "id": None, "failure": f"{type(error).__name__}: {error}"}), flush=True)
            await anyio.sleep(0.2)


async def main(url: str, mode: str) -> None:
    """Call tools until standard input ends."""
    async with anyio.create_task_group() as group:
        group.start_soon(calls, url, mode)
        await anyio.to_thread.run_sync(sys.stdin.read)
        group.cancel_scope.cancel()


anyio.run(main, *sys.argv[1:])
