"""Logging: `notifications/message`, and its recipients."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.message_pairs import notified
from mcp_conformance.checks.probes.response_order import after_response
from mcp_conformance.checks.probes.subscription_stream import open_subscription
from mcp_conformance.checks.probes.waiting_call import waiting_call
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw_of_params
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import Era
from mcp_core.types.meta import LOG_LEVEL

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject

_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_IN_TURN: Final = ("warning", "emergency", "notice", "critical", "debug", "alert", "info", "error")
"""All levels, in an order in which they rise and fall."""
_MESSAGE: Final = "notifications/message"
_FIXTURE: Final = "conformance_logging"
"""The tool that logs at each level."""
_ONE_LEVEL: Final = "test_logging_tool"
_NEEDS: Final = ("capability:logging", "capability:tools")
_SECRET: Final = "conformance-4c1d-secret"


async def _call(server: ServerUnderTest, level: str | None, fixture: str = _FIXTURE) -> JsonRpcResponse:
    """Call a tool that logs, with a level for the session or the request, depending on the revision."""
    if server.revision.era is Era.LEGACY and level is not None:
        (await server.peer.request("logging/setLevel", {"level": level})).result()
    name, arguments = server.tool(fixture, {"secret": _SECRET} if fixture == _FIXTURE else None)
    params: JsonObject = {"name": name, "arguments": arguments}
    if server.revision.era is Era.MODERN and level is not None:
        params["_meta"] = {LOG_LEVEL: level}
    answer = await server.peer.request("tools/call", params)
    answer.result()
    return answer


async def _logged(server: ServerUnderTest, level: str | None, fixture: str = _FIXTURE) -> list[JsonObject]:
    """Return the params of the log messages of a call, on any stream."""
    since = len(server.peer.inbox)
    await _call(server, level, fixture)
    await server.peer.fence()
    found: list[JsonObject] = []
    for message in server.peer.inbox[since:]:
        params = message.get("params")
        if message.get("method") == _MESSAGE:
            found.append(params if isinstance(params, dict) else {})
    return found


def _fixtures(server: ServerUnderTest) -> list[str]:
    """Return the tools that log: at one level, and at each level if the server has it.

    Raises:
        NotTestable: The server does not have the first one.
    """
    server.tool(_ONE_LEVEL)
    found = server.inventory.find("tools", server.manifest.find("tools", _FIXTURE).name)
    return [_ONE_LEVEL] if found is None else [_ONE_LEVEL, _FIXTURE]


async def _some(server: ServerUnderTest, level: str, fixture: str = _FIXTURE) -> list[JsonObject]:
    found = await _logged(server, level, fixture)
    if not found:
        raise NotTestable(f"the control request failed: {fixture} logs nothing at the level {level}")
    return found


@check("logging.declared", proves=("logging.declare-capability", "logging.capability"), subject=CheckScope.EVIDENCE)
async def declared(server: ServerUnderTest) -> None:
    """A server that logs declares the capability `logging`."""
    messages = list(notified(server, _MESSAGE))
    if not messages:
        raise NotTestable("the server sent no log message")
    if not server.inventory.has("logging"):
        raise Deviation("the capability 'logging', as the server sends log messages", brief(messages[0]))


@check("logging.level", proves=("logging.level-filter", "logging.threshold"), needs=_NEEDS)
async def level(server: ServerUnderTest) -> None:
    """Messages below the configured level are not sent."""
    await _some(server, "debug")
    for chosen in _IN_TURN:
        allowed = _LEVELS[_LEVELS.index(chosen) :]
        received = {str(params.get("level")) for params in await _logged(server, chosen)}
        if not received <= set(allowed):
            raise Deviation(f"no message below {chosen}", brief([*sorted(received)]))


@check("logging.level-is-served", proves=("logging.level-filter",), needs=_NEEDS)
async def level_is_served(server: ServerUnderTest) -> None:
    """Messages at or above the configured level are sent."""
    await _some(server, "debug")
    for chosen in _IN_TURN:
        received = {str(params.get("level")) for params in await _logged(server, chosen)}
        missing = set(_LEVELS[_LEVELS.index(chosen) :]) - received
        if missing:
            levels = f"no message of the levels {brief([*sorted(missing)])}"
            raise Deviation(f"log messages of the level {chosen} and above", levels)


@check("logging.unknown-level", proves=("logging.invalid-level-error", "logging.invalid-level-32602"), needs=_NEEDS[:1])
async def unknown_level(server: ServerUnderTest) -> None:
    """An invalid level is answered with the error -32602."""
    if server.revision.era is Era.LEGACY:
        (await server.peer.request("logging/setLevel", {"level": "debug"})).result()
        answer = await server.peer.request("logging/setLevel", {"level": "loud"}, deviant="an invalid log level")
    else:
        (await server.peer.request("server/discover", {"_meta": {LOG_LEVEL: "debug"}})).result()
        answer = await server.peer.request(
            "server/discover", {"_meta": {LOG_LEVEL: "loud"}}, deviant="an invalid log level"
        )
    answer.error(-32602, what="an invalid log level")


@check("logging.logger", proves=("logging.logger-names",), needs=_NEEDS)
async def logger(server: ServerUnderTest) -> None:
    """The same source logs under the same logger name."""
    names = [{brief(params.get("logger")) for params in await _some(server, "debug")} for _ in range(2)]
    # A server with a rate limit may add a message of its own about those that it dropped.
    if names[0].isdisjoint(names[1]):
        raise Deviation(f"the logger {' and '.join(sorted(names[0]))}", " and ".join(sorted(names[1])))


@check("logging.no-secrets", proves=("logging.no-credentials", "logging.no-secrets"), needs=_NEEDS)
async def no_secrets(server: ServerUnderTest) -> None:
    """A secret in the arguments of a tool does not appear in its log messages."""
    for params in await _some(server, "debug"):
        if _SECRET in brief(params.get("data")):
            raise Deviation("log messages without the secret from the arguments", brief(params))


@check("logging.shape", proves=("logging.message-shape",), needs=_NEEDS)
async def shape(server: ServerUnderTest) -> None:
    """A log message has a level, data, and optionally a logger."""
    for params in await _some(server, "debug"):
        wrong = flaw_of_params(_MESSAGE, params, server.revision)
        if wrong is not None:
            raise Deviation("a log message according to the schema", wrong)


@check("logging.not-without-level", proves=("logging.no-level-no-messages",), needs=_NEEDS[1:])
async def not_without_level(server: ServerUnderTest) -> None:
    """A request without a log level gets no log messages."""
    for fixture in _fixtures(server):
        if server.inventory.has("logging"):
            await _some(server, "debug", fixture)
        received = await _logged(server, None, fixture)
        if received:
            raise Deviation("no log messages for a request without a level", brief(received[0]))


@check("logging.level-is-forgotten", proves=("logging.level-not-remembered",), needs=_NEEDS)
async def level_is_forgotten(server: ServerUnderTest) -> None:
    """The log level of one request is not used for another: the next one, or one that runs at the same time."""
    known: list[JsonObject] = []
    for fixture in _fixtures(server):
        known += await _some(server, "debug", fixture)
        received = await _logged(server, None, fixture)
        if received:
            raise Deviation("no log messages for the request after one with a level", brief(received[0]))
    with suppress(NotTestable):  # a server without a tool that waits has passed what can be tested
        async with waiting_call(server, {LOG_LEVEL: "debug"}):
            received = [each for fixture in _fixtures(server) for each in await _logged(server, None, fixture)]
        # The call that waits may log too.
        for each in received:
            if each in known:
                raise Deviation("no log messages for a request that runs beside one with a level", brief(each))


@check("logging.before-answer", proves=("logging.before-response",), needs=_NEEDS)
async def before_answer(server: ServerUnderTest) -> None:
    """The log messages of a request precede its response."""
    for fixture in _fixtures(server):
        await _some(server, "debug", fixture)
        name, arguments = server.tool(fixture)
        params: JsonObject = {"name": name, "arguments": arguments, "_meta": {LOG_LEVEL: "debug"}}
        for late in await after_response(server, params, _MESSAGE):
            raise Deviation("all log messages before the response", brief(late))


@check("logging.on-own-stream", proves=("logging.request-scoped",), needs=_NEEDS)
async def on_own_stream(server: ServerUnderTest) -> None:
    """Log messages are sent on the stream of the request that set the level, and on no other."""
    if not any(server.inventory.has(f"{kind}.listChanged") for kind in ("tools", "prompts", "resources")):
        raise NotApplicable("the server supports no subscriptions")
    # The level of the subscription is not one of other requests.
    leveled: JsonObject = {LOG_LEVEL: "debug"}
    async with open_subscription(server.peer, {"toolsListChanged": True}, meta=leveled) as subscription:
        await subscription.acknowledged()
        answers = [await _call(server, "debug", fixture) for fixture in _fixtures(server)]
        await server.peer.fence()
        logged = [each for each in subscription.messages if each.get("method") == _MESSAGE]
        tagged = [each for each in logged if subscription.is_own(each)]
        # Over stdio all messages are on one stream, and only the id of a subscription shows to what they belong.
        own = {id(each) for answer in answers for each in answer.before}
        elsewhere = [each for each in logged if id(each) not in own and server.transport is Transport.HTTP]
    if not logged:
        raise NotTestable("the control request failed: nothing was logged")
    if tagged:
        raise Deviation("log messages without a subscription id", brief(tagged[0]))
    if elsewhere:
        raise Deviation("log messages on the stream of their request only", brief(elsewhere[0]))
