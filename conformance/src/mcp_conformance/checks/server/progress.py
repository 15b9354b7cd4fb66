"""Progress: `notifications/progress` for requests with a progress token."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.message_pairs import key_of, objects
from mcp_conformance.checks.probes.modern_requests import answered_requests
from mcp_conformance.checks.probes.recorded_values import params_of
from mcp_conformance.checks.probes.reported_progress import reported_requests
from mcp_conformance.checks.probes.response_order import after_response
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw_of_params
from mcp_conformance.protocol.response import brief
from mcp_conformance.wire.nursery import open_nursery
from mcp_core.revisions import REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_PROGRESS: Final = "notifications/progress"
_FIXTURE: Final = "test_tool_with_progress"
_CLIENTS: Final = 3
"""The number of clients that use the same progress token at once."""
_NEEDS: Final = ("capability:tools",)
_UNKNOWN: Final[tuple[str, JsonObject]] = ("conformance-does-not-exist", {})
"""A tool that no server has, and its arguments."""
_REPORTING: Final = ("prompts/get", "resources/read", "completion/complete")
"""Methods besides `tools/call` that may report progress."""
_LEGACY: Final = tuple(name for name, revision in REVISIONS.items() if revision.era is Era.LEGACY)
_TOKENS: Final[tuple[JsonValue, ...]] = (
    "conformance-token",
    4711,
    0,
    -(2**53 - 1),
    "",
    "4712",
    "null",
    " A-Token \u00fc\u2028e\u0301\U0001f9ea " + "long" * 64,
)
"""The tokens of requests: numbers up to those that every JSON parser reads exactly, and strings of all kinds."""


async def _call(server: ServerUnderTest, token: JsonValue) -> tuple[JsonRpcResponse, list[JsonObject]]:
    """Call a tool that reports progress, and return the response and the params of its progress notifications in order."""
    name, arguments = server.tool(_FIXTURE)
    params: JsonObject = {"name": name, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    since = len(server.peer.inbox)
    answer = await server.peer.request("tools/call", params)
    answer.result()
    await server.peer.fence()
    return answer, [params_of(each) for each in server.peer.inbox[since:] if each.get("method") == _PROGRESS]


async def _reported(server: ServerUnderTest, token: JsonValue = _TOKENS[0]) -> tuple[JsonRpcResponse, list[JsonObject]]:
    answer, reported = await _call(server, token)
    if not reported:
        raise NotTestable(f"the control request failed: {_FIXTURE} reports no progress")
    return answer, reported


@check("progress.increasing", proves=("progress.increasing",), subject=CheckScope.EVIDENCE)
async def increasing(server: ServerUnderTest) -> None:
    """The progress value of each request increases with each notification."""
    series = [each.values for each in reported_requests(server) if each.values]
    if not series:
        raise NotTestable("the server reported no progress")
    for steps in series:
        for before, after in pairwise(steps):
            if not isinstance(before, int | float) or not isinstance(after, int | float) or before >= after:
                raise Deviation("progress values that increase", brief([*steps]))


@check("progress.shape", proves=("progress.fields",), needs=_NEEDS)
async def shape(server: ServerUnderTest) -> None:
    """A progress notification has its token and a number, and optionally a total and a message."""
    _, reported = await _reported(server)
    for params in reported:
        wrong = flaw_of_params(_PROGRESS, params, server.revision)
        if wrong is not None:
            raise Deviation("a progress notification according to the schema", wrong)


@check("progress.token", proves=("progress.known-token", "progress.token-echo"), needs=_NEEDS)
async def token(server: ServerUnderTest) -> None:
    """A progress notification has the token of the request, with the same type."""
    _, alone = await _reported(server)
    name, arguments = server.tool(_FIXTURE)
    since = len(server.peer.inbox)
    async with open_nursery() as nursery:
        for given in _TOKENS:
            params: JsonObject = {"name": name, "arguments": arguments, "_meta": {"progressToken": given}}
            nursery.start_soon(server.peer.request, "tools/call", params)
    await server.peer.fence()
    reported = [params_of(each) for each in server.peer.inbox[since:] if each.get("method") == _PROGRESS]
    known = {key_of(given): given for given in _TOKENS}
    for found in reported:
        if key_of(found.get("progressToken")) not in known:
            raise Deviation(f"one of the tokens {brief(list(_TOKENS))}", brief(found))
    for key, given in known.items():
        steps = [found.get("progress") for found in reported if key_of(found.get("progressToken")) == key]
        if not steps:
            raise Deviation(f"progress notifications with the token {brief(given)}", brief([*reported]))
        if _repeats(steps) and not _repeats([found.get("progress") for found in alone]):
            raise Deviation(f"the progress of one request with the token {brief(given)}", brief([*steps]))


def _repeats(steps: list[JsonValue]) -> bool:
    """Return whether a progress value is there twice. Those of one request increase."""
    return any(steps.count(step) > 1 for step in steps)


@check("progress.only-with-token", proves=("progress.known-token", "progress.only-with-token"), needs=_NEEDS)
async def only_with_token(server: ServerUnderTest) -> None:
    """A request without a token gets no progress notifications."""
    await _reported(server)
    _, reported = await _call(server, None)
    if reported:
        raise Deviation("no progress notification, as the request has no token", brief(reported[0]))


@check(
    "progress.not-after-answer",
    proves=(
        "progress.stop-after-completion",
        "progress.stops-after-completion",
        "progress.in-progress",
        "progress.in-progress-only",
    ),
    needs=_NEEDS,
)
async def not_after_answer(server: ServerUnderTest) -> None:
    """After the response there are no progress notifications, also if it is an error, or that of another method."""
    await _reported(server)
    name, arguments = server.tool(_FIXTURE)
    params: JsonObject = {"name": name, "arguments": arguments, "_meta": {"progressToken": "conformance-late"}}
    for late in await after_response(server, params, _PROGRESS):
        raise Deviation("no progress notification after the response", brief(late))
    failing = [_UNKNOWN]
    with suppress(NotTestable):  # a server without this tool has others
        failing.append(server.tool("test_error_handling"))
    for number, (failing_name, given) in enumerate(failing):
        failed: JsonObject = {"name": failing_name, "arguments": given, "_meta": {"progressToken": f"failing-{number}"}}
        with suppress(NotApplicable):  # over HTTP nothing can follow a response that is not in a stream
            for late in await after_response(server, failed, _PROGRESS):
                raise Deviation("no progress notification after the response", brief(late))
    for number, (method, given) in enumerate(answered_requests(server)):
        if method in _REPORTING:
            other: JsonObject = {**given, "_meta": {"progressToken": f"other-{number}"}}
            with suppress(NotApplicable):
                for late in await after_response(server, other, _PROGRESS, of=method):
                    raise Deviation(f"no progress notification after the response to {method}", brief(late))


@check(
    "progress.none-after-answers",
    proves=("progress.stop-after-completion", "progress.stops-after-completion"),
    subject=CheckScope.EVIDENCE,
)
async def none_after_answers(server: ServerUnderTest) -> None:
    """After the response to any request of the run there are no progress notifications for it."""
    for each in reported_requests(server):
        if each.late:
            raise Deviation(f"no progress after the response to {each.request['method']}", brief(each.late[0]))


@check("progress.message", proves=("progress.message-readable",), needs=_NEEDS)
async def message(server: ServerUnderTest) -> None:
    """The message of a progress notification, if any, is readable."""
    reported = [params for params in (await _reported(server))[1] if "message" in params]
    if not reported:
        raise NotTestable(f"the progress notifications of {_FIXTURE} have no message")
    for params in reported:
        text = params["message"]
        if not isinstance(text, str) or not any(character.isalpha() for character in text):
            raise Deviation("a readable message", brief(params))


@check("progress.on-own-stream", proves=("progress.on-request-stream",), transports=(Transport.HTTP,), needs=_NEEDS)
async def on_own_stream(server: ServerUnderTest) -> None:
    """Over HTTP progress notifications are sent on the stream of their request, even if clients have the same token."""
    answer, reported = await _reported(server)
    own = [params_of(each) for each in answer.before if each.get("method") == _PROGRESS]
    if own != reported:
        raise Deviation(
            "all progress notifications on the stream of the request", f"{len(reported) - len(own)} on other streams"
        )
    name, arguments = server.tool(_FIXTURE)
    params: JsonObject = {"name": name, "arguments": arguments, "_meta": {"progressToken": _TOKENS[0]}}
    answers: list[JsonRpcResponse] = []

    async def call() -> None:
        answers.append(await server.peer.request("tools/call", params))

    async with open_nursery() as nursery:
        # Each request has an own connection, like one of another client.
        for _ in range(_CLIENTS):
            nursery.start_soon(call)
    for each in answers:
        found = [params_of(one) for one in each.before if one.get("method") == _PROGRESS]
        steps = [params.get("progress") for params in found]
        if _repeats(steps) and not _repeats([params.get("progress") for params in reported]):
            raise Deviation("only the progress of the request on its stream", brief([*steps]))


# --- progress of client requests
# ----------------------------------------------------------------------------------------


def _own_tokens(server: ServerUnderTest) -> Iterator[tuple[str, JsonObject, JsonValue]]:
    """Yield the server's requests with a token, with their connection and token."""
    for number, transcript in enumerate(server.evidence):
        for each in transcript.messages(sent=False):
            if isinstance(each, dict) and "id" in each and "method" in each:
                meta = params_of(each).get("_meta")
                if isinstance(meta, dict) and "progressToken" in meta:
                    yield str(number), each, meta["progressToken"]


@check("progress.own-token-type", proves=("progress.token-type",), subject=CheckScope.EVIDENCE, revisions=_LEGACY)
async def own_token_type(server: ServerUnderTest) -> None:
    """The progress tokens of the server's requests are strings or integers."""
    tokens = list(_own_tokens(server))
    if not tokens:
        raise NotTestable("the server sent no request with a progress token")
    for _, request, given in tokens:
        if isinstance(given, bool) or not isinstance(given, str | int):
            raise Deviation("a progressToken that is a string or an integer", brief(request))


@check("progress.own-token-once", proves=("progress.token-unique",), subject=CheckScope.EVIDENCE, revisions=_LEGACY)
async def own_token_once(server: ServerUnderTest) -> None:
    """No two active requests of the server have the same progress token."""
    tokens = list(_own_tokens(server))
    if not tokens:
        raise NotTestable("the server sent no request with a progress token")
    for number, transcript in enumerate(server.evidence):
        active: dict[str, str] = {}
        for entry in transcript:
            for each in objects(entry):
                if entry.sent and "method" not in each:
                    active.pop(key_of(each.get("id")), None)
                for place, request, given in tokens:
                    if place == str(number) and request is each:
                        if key_of(given) in active.values():
                            raise Deviation("a progressToken that no other active request has", brief(request))
                        active[key_of(each["id"])] = key_of(given)
