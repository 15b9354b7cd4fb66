"""Scenarios of cancellation by either side, and of batches from the server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from mcp_conformance.drivers.client.features import text_result
from mcp_conformance.drivers.client.scripted_request import ErrorReply, RawReply, encoded
from mcp_conformance.model.check import Transport
from mcp_conformance.scenarios.client_request_table import by_name
from mcp_conformance.scenarios.client_request_tools import declares
from mcp_conformance.scenarios.scenario import Scenario
from mcp_core.revisions import LEGACY, R2025_03_26, Era
from mcp_core.types.meta import PROGRESS_TOKEN

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.scripted_request import ScriptedRequest
    from mcp_conformance.scenarios.scenario import ScenarioSetup
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

__all__ = [
    "BATCHED",
    "BATCHED_RESPONSES",
    "CANCELLED",
    "CANCELLED_IDS",
    "CANCELLED_NAMESAKE",
    "CANCELLED_TOKEN",
    "CANCEL_SCENARIOS",
    "EMPTY",
    "GOES_ON",
    "LATE",
    "MEANWHILE",
    "NAMESAKE",
    "WAITING",
    "WAITING_RESOURCE",
]

WAITING: Final = "test_waits"
"""The tool that never ends."""
GOES_ON: Final = "test_goes_on"
"""The tool that ends only after the cancellation of the one that never ends; and the note that both were in progress."""
_PASSED: Final = 0.02
"""Seconds in which the end of another connection, which is closed at the same moment, is noticed."""
WAITING_RESOURCE: Final = "test://waits"
"""The resource whose read never ends. It is not listed: only a client that knows the scenario reads it."""
CANCELLED: Final = "test_gives_up"
"""The tool that sends client requests and cancels them."""
CANCELLED_IDS: Final[tuple[str | int, ...]] = ("to be given up", 0)
"""The ids of these requests."""
CANCELLED_TOKEN: Final = "conformance/given up"
"""The progress token of the first of them."""
LATE: Final = "late"
"""The name of the second ping after their cancellation, before which a client knows of it."""
CANCELLED_NAMESAKE: Final = "test_gives_up_same_id"
"""The tool that sends a client request with the id of its call, and cancels that request."""
NAMESAKE: Final = "behind the request with the same id"
"""The name of the ping between that request and its cancellation."""
MEANWHILE: Final = "before"
"""The name of the ping while client requests wait for the user."""
BATCHED: Final = "test_batches"
"""The tool that sends batches."""
BATCHED_RESPONSES: Final = ("test_batched_response", "test_batched_later")
"""The tools whose responses are in an array: alone, and after a notification, which requires a stream over HTTP."""
EMPTY: Final = "after an empty array"
"""The name of the ping after an array without members."""
_ANSWERED: Final = "was answered"
"""The id of a ping that the server cancels when it has the response."""


def _client_cancels(setup: ScenarioSetup) -> None:
    """Add a tool that never ends, and still responds after its cancellation, and a resource whose read never ends."""
    cancelled = trio.Event()

    async def go_on(_: ScriptedRequest) -> JsonObject:
        if cancelled.is_set():
            return text_result("not called at the same time")
        try:
            with trio.move_on_after(setup.timeout / 2):
                await cancelled.wait()
                await trio.sleep(_PASSED)
                setup.notes[GOES_ON] = "has ended"
        except trio.Cancelled:
            if "id" in setup.notes:
                setup.notes[GOES_ON] = "was cancelled too"
            raise
        return text_result("went on")

    async def wait(request: ScriptedRequest) -> JsonObject:
        setup.notes["id"] = request.message["id"]
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            cancelled.set()
            # Checks compare this number to distinguish a cancellation from a later disconnect.
            setup.notes["received"] = len(setup.server.received)
            if request.revision.era is Era.LEGACY or not request.revision.disconnect_cancels:
                result = setup.server.complete("tools/call", text_result("too late"), request.revision)
                late: JsonObject = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
                error = ErrorReply(0, "the request was cancelled").error(request.message["id"])
                deviant = "a response to a cancelled request"
                with trio.CancelScope(shield=True):
                    # Some servers send an error, and others the result.
                    await request.sink.send(encoded(error), deviant=deviant)
                    await request.sink.send(encoded(late), final=True, deviant=deviant)
            raise
        raise AssertionError("the tool ends only by cancellation")

    setup.server.offers.add_tool(WAITING, "Never ends; must be cancelled", wait)
    if setup.transport is Transport.HTTP and setup.revision.disconnect_cancels:
        setup.server.offers.add_tool(GOES_ON, "Ends after the cancellation of the other one", go_on)
    right = setup.server.handlers["resources/read"]

    async def read(request: ScriptedRequest) -> JsonObject:
        if request.text("uri") == WAITING_RESOURCE:
            await trio.sleep_forever()
        return await right(request)

    setup.server.handlers["resources/read"] = read


def _server_cancels(setup: ScenarioSetup) -> None:
    """Add a tool that requests forms and cancels the requests, with pings that separate the effects."""
    client_request = (
        by_name("ask_form")[0] if setup.revision in by_name("ask_form")[0].revisions else by_name("ask_sample")[0]
    )

    async def give_up(request: ScriptedRequest) -> JsonObject:
        if not declares(request.session, client_request.needs):
            return text_result(f"{client_request.needs} is not declared")
        for id in CANCELLED_IDS:
            message: JsonObject = {"jsonrpc": "2.0", "id": id, "method": client_request.method}
            if client_request.params is not None:
                token: JsonObject = {"_meta": {PROGRESS_TOKEN: CANCELLED_TOKEN}} if id == CANCELLED_IDS[0] else {}
                message["params"] = {**client_request.params, **token}
            await request.sink.send(encoded(message))
        await request.send_client_request("ping", name=MEANWHILE, id=_ANSWERED)
        for id in CANCELLED_IDS:
            await request.notify("notifications/cancelled", {"requestId": id, "reason": "the result is not needed"})
        await request.send_client_request("ping", name="behind")
        await request.notify("notifications/cancelled", {"requestId": _ANSWERED, "reason": "it crossed the response"})
        await request.send_client_request("ping", name=LATE)
        await request.notify("notifications/cancelled", {"requestId": "never was"}, deviant="an unknown id")
        again: JsonObject = {"requestId": CANCELLED_IDS[0]}
        await request.notify("notifications/cancelled", again, deviant="an id that was cancelled before")
        await request.notify("notifications/cancelled", {"reason": 7}, deviant="a cancellation of nothing")
        await request.send_client_request("ping", name="fence")
        return text_result("given up")

    async def give_up_same_id(request: ScriptedRequest) -> JsonObject:
        if not declares(request.session, client_request.needs):
            return text_result(f"{client_request.needs} is not declared")
        id = request.message["id"]
        if isinstance(id, bool) or not isinstance(id, str | int):
            return text_result("the id of the call is not valid")
        message: JsonObject = {"jsonrpc": "2.0", "id": id, "method": client_request.method}
        if client_request.params is not None:
            message["params"] = client_request.params
        await request.sink.send(encoded(message))
        await request.send_client_request("ping", name=NAMESAKE)
        await request.notify("notifications/cancelled", {"requestId": id, "reason": "the result is not needed"})
        return text_result("the result of the call")

    setup.server.offers.add_tool(CANCELLED, "Sends client requests and cancels them", give_up)
    setup.server.offers.add_tool(
        CANCELLED_NAMESAKE, "Cancels a client request with the id of the call", give_up_same_id
    )


def _batches(setup: ScenarioSetup) -> None:
    """Add a tool that sends batches: requests and notifications, notifications, a ping beside what is no message, nothing.

    The responses of two further tools are in arrays.
    """

    async def batch(request: ScriptedRequest) -> JsonObject:
        array: list[JsonValue] = [
            {"jsonrpc": "2.0", "id": "ping 1", "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "noted"}},
            {"jsonrpc": "2.0", "id": "unknown", "method": "conformance/does-not-exist"},
            {"jsonrpc": "2.0", "id": "ping 2", "method": "ping"},
        ]
        await request.sink.send(encoded(array))
        # Without a request there is nothing to respond to.
        await request.sink.send(encoded([array[1], array[1]]))
        await request.send_client_request("ping", name="behind")
        odd: list[JsonValue] = [7, {"jsonrpc": "2.0", "id": "beside", "method": "ping"}]
        await request.sink.send(encoded(odd), deviant="a member of a batch that is a number")
        await request.send_client_request("ping", name="last")
        await request.sink.send(encoded([]), deviant="an array without members")
        await request.send_client_request("ping", name=EMPTY)
        return text_result("batched")

    async def respond_in_batch(request: ScriptedRequest) -> JsonObject:
        if request.text("name") == BATCHED_RESPONSES[1]:
            await request.notify("notifications/message", {"level": "info", "data": "the result follows"})
        result = setup.server.complete(request.method, text_result("batched"), request.revision)
        raise RawReply(encoded([{"jsonrpc": "2.0", "id": request.message["id"], "result": result}]))

    setup.server.offers.add_tool(BATCHED, "Sends a batch", batch)
    for name in BATCHED_RESPONSES:
        setup.server.offers.add_tool(name, "Responds in an array", respond_in_batch)


CANCEL_SCENARIOS: Final = (
    Scenario(
        name="conformance_cancel",
        title="A tool `test_waits` and a resource `test://waits` that never end: the client must cancel both, and then call the other tools.",
        prepare=_client_cancels,
    ),
    Scenario(
        name="conformance_server_cancels",
        title="Tools that request forms or sampling and cancel the requests; the user must never respond.",
        prepare=_server_cancels,
        revisions=frozenset(LEGACY),
    ),
    Scenario(
        name="conformance_batches",
        title="Tools that send batches to the client, one of them with an invalid member, or respond in an array.",
        prepare=_batches,
        revisions=frozenset({R2025_03_26}),
    ),
)
"""The scenarios, in order."""
