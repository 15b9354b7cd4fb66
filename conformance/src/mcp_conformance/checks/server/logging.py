"""Logging: `notifications/message`, and its recipients."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.message_pairs import key_of, notified, objects
from mcp_conformance.checks.probes.modern_requests import answered_requests
from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.probes.response_order import after_response
from mcp_conformance.checks.probes.subscription_stream import LISTEN, open_subscription
from mcp_conformance.checks.probes.waiting_call import waiting_call
from mcp_conformance.checks.registry.server import check
from mcp_conformance.drivers.server.http_connection import HttpConnection
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw_of_params
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.revisions import Era
from mcp_core.types.meta import LOG_LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_conformance.wire.transcript import Transcript
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_IN_TURN: Final = ("warning", "emergency", "notice", "critical", "debug", "alert", "info", "error")
"""All levels, in an order in which they rise and fall."""
_MESSAGE: Final = "notifications/message"
_FIXTURE: Final = "conformance_logging"
"""The tool that logs at each level."""
_ONE_LEVEL: Final = "test_logging_tool"
_SIMPLE: Final = "test_simple_text"
_NEEDS: Final = ("capability:logging", "capability:tools")
_AT_ONCE: Final = 4
"""The number of calls that log at the same time."""
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
    return _log_params(server.peer.inbox[since:])


def _log_params(messages: list[JsonObject]) -> list[JsonObject]:
    """Return the params of the log messages among some messages."""
    found = [each.get("params") for each in messages if each.get("method") == _MESSAGE]
    return [params if isinstance(params, dict) else {} for params in found]


def _fixtures(server: ServerUnderTest) -> list[str]:
    """Return the tools that log: at one level, and at each level if the server has it.

    Raises:
        NotTestable: The server does not have the first one.
    """
    server.tool(_ONE_LEVEL)
    return _present(server, _ONE_LEVEL, _FIXTURE)


def _present(server: ServerUnderTest, *fixtures: str) -> list[str]:
    """Return those of some tools that the server has.

    Raises:
        NotTestable: It has none.
    """
    found = [each for each in fixtures if server.inventory.find("tools", server.manifest.find("tools", each).name)]
    if not found:
        raise NotTestable(f"the fixture tools {' and '.join(map(repr, fixtures))} are missing")
    return found


async def _some(server: ServerUnderTest, level: str, fixture: str = _FIXTURE) -> list[JsonObject]:
    found = await _logged(server, level, fixture)
    if not found:
        raise NotTestable(f"the control request failed: {fixture} logs nothing at the level {level}")
    return found


async def _received_in_turn(server: ServerUnderTest, fixture: str) -> dict[str, set[str]]:
    """Return the levels that a tool logs after each chosen level.

    The calls are made once for all checks: a server may limit how many messages it logs in a second.
    """

    async def converse() -> dict[str, set[str]]:
        await _some(server, "debug", fixture)
        return {
            chosen: {str(params.get("level")) for params in await _logged(server, chosen, fixture)}
            for chosen in _IN_TURN
        }

    return await server.once(f"levels of {fixture}", converse)


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
    """Messages below the configured level are not sent, whatever the tool."""
    for fixture in _present(server, _FIXTURE, _ONE_LEVEL):
        for chosen, received in (await _received_in_turn(server, fixture)).items():
            allowed = _LEVELS[_LEVELS.index(chosen) :]
            if not received <= set(allowed):
                raise Deviation(f"no message below {chosen}", brief([*sorted(received)]))
    below = await _beside_another(server, "emergency", "debug") - {"emergency"}
    if below:
        raise Deviation("no message below emergency, which another client did not set", brief([*sorted(below)]))
    if server.revision.era is Era.LEGACY:
        await _require_level_of_each_method(server, "emergency")


async def _require_level_of_each_method(server: ServerUnderTest, level: str) -> None:
    """Require that no request causes messages below the level of the session, also one that calls no tool."""
    (await server.peer.request("logging/setLevel", {"level": level})).result()
    await server.peer.fence()
    for method, params in answered_requests(server):
        since = len(server.peer.inbox)
        await server.peer.request(method, params)
        logged = [each for each in server.peer.inbox[since:] if each.get("method") == _MESSAGE]
        for each in logged:
            if member(each, "params", "level") != level:
                raise Deviation(f"no message below {level} because of {method}", brief(each))


async def _beside_another(server: ServerUnderTest, level: str, other_level: str) -> set[str]:
    """Return the levels of the log messages that a client gets after it has set a level, and another client another one.

    It is empty where another client has another process, and where there are no sessions.
    """
    if server.revision.era is Era.MODERN or server.transport is Transport.STDIO:
        return set()
    if isinstance(server.peer, HttpConnection) and server.peer.session_id is None:
        return set()
    (await server.peer.request("logging/setLevel", {"level": level})).result()
    async with server.share(client="another") as other:
        (await other.request("logging/setLevel", {"level": other_level})).result()
        return {str(params.get("level")) for params in await _logged(server, None)}
    raise AssertionError("the block returns")


@check("logging.level-is-served", proves=("logging.level-filter",), needs=_NEEDS)
async def level_is_served(server: ServerUnderTest) -> None:
    """Messages at or above the configured level are sent."""
    for chosen, received in (await _received_in_turn(server, _FIXTURE)).items():
        missing = set(_LEVELS[_LEVELS.index(chosen) :]) - received
        if missing:
            levels = f"no message of the levels {brief([*sorted(missing)])}"
            raise Deviation(f"log messages of the level {chosen} and above", levels)
    beside = await _beside_another(server, "debug", "emergency")
    missing = set(_LEVELS) - beside
    if beside and missing:
        raise Deviation(
            "log messages of all levels, although another client has set emergency",
            f"no message of the levels {brief([*sorted(missing)])}",
        )


_NO_LEVELS: Final[tuple[JsonValue, ...]] = ("loud", "WARNING", "Debug", "warn", "fatal", "debug ", "", 3)
"""Values that are no level, although some libraries for logs have such levels."""


@check("logging.unknown-level", proves=("logging.invalid-level-error", "logging.invalid-level-32602"), needs=_NEEDS[:1])
async def unknown_level(server: ServerUnderTest) -> None:
    """An invalid level is answered with the error -32602, and changes nothing."""
    requests: list[tuple[str, JsonObject]] = [("logging/setLevel", {})]
    if server.revision.era is Era.MODERN:
        requests = [("server/discover", {})]
        with suppress(NotTestable):
            name, arguments = server.tool(_SIMPLE)
            requests.append(("tools/call", {"name": name, "arguments": arguments}))
    for method, params in requests:
        (await server.peer.request(method, _at_level(method, params, "debug"))).result()
        for level in _NO_LEVELS:
            what = f"the invalid log level {brief(level)}"
            answer = await server.peer.request(method, _at_level(method, params, level), deviant=what)
            answer.error(-32602, what=f"{method} with {what}")
    if server.revision.era is Era.LEGACY and server.inventory.has("tools"):
        with suppress(NotTestable):  # a server without a tool that logs has passed what can be tested
            await _keeps_level(server)


def _at_level(method: str, params: JsonObject, level: JsonValue) -> JsonObject:
    return {"level": level} if method == "logging/setLevel" else {**params, "_meta": {LOG_LEVEL: level}}


async def _keeps_level(server: ServerUnderTest) -> None:
    """Require that a rejected level leaves the one before it in effect."""
    fixture = _present(server, _FIXTURE, _ONE_LEVEL)[0]
    before = await _some(server, "debug", fixture)
    await server.peer.request("logging/setLevel", {"level": _NO_LEVELS[0]}, deviant="an invalid log level")
    after = await _logged(server, None, fixture)
    if len(after) < len(before) and not _limits_rate(before, after):
        found = ", ".join(sorted({str(params.get("level")) for params in after}))
        raise Deviation("the same log messages after the level was rejected", f"only those of the levels {found}")


def _limits_rate(before: list[JsonObject], after: list[JsonObject]) -> bool:
    """Return whether messages were dropped for their number, as servers should do, of two calls with the same messages.

    The first message arrives then only if others do, or with a message of another logger that reports the others.
    """
    first = before[0].get("level")
    loggers = [{brief(params.get("logger")) for params in messages} for messages in (before, after)]
    return not after or bool(loggers[1] - loggers[0]) or any(params.get("level") == first for params in after)


@check("logging.logger", proves=("logging.logger-names",), needs=_NEEDS)
async def logger(server: ServerUnderTest) -> None:
    """The same source logs under the same logger name."""
    messages = [await _some(server, "debug") for _ in range(2)]
    names = [{brief(params.get("logger")) for params in each} for each in messages]
    # A server with a rate limit may add a message of its own about those that it dropped.
    if names[0].isdisjoint(names[1]) and len(messages[0]) <= len(messages[1]):
        raise Deviation(f"the logger {' and '.join(sorted(names[0]))}", " and ".join(sorted(names[1])))


@check("logging.no-secrets", proves=("logging.no-credentials", "logging.no-secrets"), needs=_NEEDS)
async def no_secrets(server: ServerUnderTest) -> None:
    """A secret in the arguments of a tool does not appear in its log messages, neither in their data nor elsewhere."""
    for params in await _some(server, "debug"):
        if _SECRET.encode() in encoded(params):
            raise Deviation("log messages without the secret from the arguments", brief(params))


@check("logging.shape", proves=("logging.message-shape",), needs=_NEEDS)
async def shape(server: ServerUnderTest) -> None:
    """A log message has a level, data, and optionally a logger, also beside those of other calls."""
    alone = await _some(server, "debug")
    since = len(server.peer.inbox)
    async with open_nursery() as nursery:
        for _ in range(_AT_ONCE):
            nursery.start_soon(_call, server, "debug")
    await server.peer.fence()
    for params in alone + _log_params(server.peer.inbox[since:]):
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


@check(
    "logging.in-progress",
    proves=(
        "logging.no-level-no-messages",
        "logging.threshold",
        "logging.request-scoped",
        "logging.before-response",
    ),
    subject=CheckScope.EVIDENCE,
)
async def in_progress(server: ServerUnderTest) -> None:
    """Every log message belongs to a request in progress, of any method, whose level permits it."""
    for transcript in server.evidence:
        for message in _unpermitted(transcript, by_exchange=server.transport is Transport.HTTP):
            raise Deviation("a log message only while a request is in progress whose level permits it", brief(message))


def _unpermitted(transcript: Transcript, *, by_exchange: bool) -> Iterator[JsonObject]:
    """Yield the log messages that no request in progress permits.

    Args:
        transcript: The transcript of a connection.
        by_exchange: Whether the messages of a request are in its HTTP exchange.
    """
    levels: dict[tuple[int | None, str], JsonValue] = {}
    for entry in transcript:
        exchange = entry.exchange if by_exchange else None
        for each in objects(entry):
            if "method" in each and "id" in each:
                # On the stream of a subscription there are no log messages, whatever its level.
                if entry.sent and each["method"] != LISTEN:
                    levels[exchange, key_of(each["id"])] = member(each, "params", "_meta", LOG_LEVEL)
            elif not entry.sent and each.get("method") == _MESSAGE:
                severity = member(each, "params", "level")
                running = [level for (place, _), level in levels.items() if place == exchange]
                if severity in _LEVELS and not any(_permits(level, severity) for level in running):
                    yield each
            elif not entry.sent:
                levels.pop((exchange, key_of(each.get("id"))), None)


def _permits(level: JsonValue, severity: JsonValue) -> bool:
    return level in _LEVELS and _LEVELS.index(str(level)) <= _LEVELS.index(str(severity))
