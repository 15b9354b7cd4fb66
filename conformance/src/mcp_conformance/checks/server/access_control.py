"""Access control: features that only one of two users may use."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.interactive_calls import retried
from mcp_conformance.checks.probes.second_user import other_user
from mcp_conformance.checks.registry.server import check
from mcp_conformance.checks.server.lists import LISTS, walk
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject

_HTTP: Final = (Transport.HTTP,)
_MODERN: Final = ("2026-07-28",)
_TOOL: Final = "conformance_private"
_RESOURCE: Final = "test://conformance/private"
_PROMPT: Final = "conformance_private_prompt"
_TEMPLATE: Final = "test://conformance/private/{word}"
_STATE_TOOL: Final = "test_input_required_result_request_state"


async def _theirs_alone(server: ServerUnderTest, method: str, params: JsonObject) -> None:
    """Send a request as the first user, who is authorized, and as the other one, who is not."""
    async with other_user(server) as other:
        control = await server.peer.request(method, params)
        if control.is_error:
            raise NotTestable(f"the control request failed: the server rejects the first user: {control}")
        refused = await other.request(method, params)
    if not refused.is_error:
        raise Deviation(f"an error for {method} of a user without access", str(refused))


@check(
    "tools.of-one-user",
    proves=("tools.access-controls", "caching.access-control"),
    transports=_HTTP,
    needs=("capability:tools",),
)
async def tool_of_one_user(server: ServerUnderTest) -> None:
    """Another user cannot call a tool that only the first user may call."""
    name, arguments = server.tool(_TOOL)
    await _theirs_alone(server, "tools/call", {"name": name, "arguments": arguments})


@check(
    "resources.of-one-user",
    proves=("resources.access-controls", "resources.permissions-before-ops", "caching.access-control"),
    transports=_HTTP,
    needs=("capability:resources",),
)
async def resource_of_one_user(server: ServerUnderTest) -> None:
    """Another user cannot read a resource that only the first user may read."""
    await _theirs_alone(server, "resources/read", {"uri": server.require("resources", _RESOURCE)})


@check(
    "completion.of-one-user",
    proves=("completion.security-access",),
    transports=_HTTP,
    needs=("capability:completions",),
)
async def completion_of_one_user(server: ServerUnderTest) -> None:
    """Completion does not disclose to another user the values that only the first user may see."""
    references: list[JsonObject] = [{"type": "ref/prompt", "name": server.require("prompts", _PROMPT)}]
    with suppress(NotTestable):  # a server without this template has prompts
        references.append({"type": "ref/resource", "uri": server.require("templates", _TEMPLATE)})
    async with other_user(server) as other:
        for reference in references:
            params: JsonObject = {"ref": reference, "argument": {"name": "word", "value": ""}}
            values = _values(await server.peer.request("completion/complete", params))
            if not values:
                raise NotTestable(f"the control request failed: the first user gets no values of {brief(reference)}")
            disclosed = _values(await other.request("completion/complete", params))
            if disclosed & values:
                raise Deviation("no values that only the first user may see", brief([*sorted(disclosed)]))


def _values(answer: JsonRpcResponse) -> set[str]:
    completion = {} if answer.is_error else answer.result().get("completion")
    values = completion.get("values") if isinstance(completion, dict) else None
    return {str(each) for each in values} if isinstance(values, list) else set()


@check(
    "caching.of-one-user",
    proves=("caching.scope-reflects-visibility",),
    transports=_HTTP,
)
async def result_of_one_user(server: ServerUnderTest) -> None:
    """A list that differs between users, or a resource that one may read, does not have the cacheScope "public"."""
    differing: list[tuple[str, JsonObject]] = []
    async with other_user(server) as other:
        for row in LISTS:
            if server.inventory.has(row.capability):
                own, theirs = [await walk(peer, row) for peer in (server.peer, other)]
                if [each.get(row.member) for each in own] != [each.get(row.member) for each in theirs]:
                    differing += [(row.method, page) for page in (*own, *theirs)]
        with suppress(NotTestable):  # a server without this resource has lists
            read: JsonObject = {"uri": server.require("resources", _RESOURCE)}
            answers = [await peer.request("resources/read", read) for peer in (server.peer, other)]
            if [each.is_error for each in answers] == [False, True]:
                differing.append(("resources/read", answers[0].result()))
    if not differing:
        raise NotTestable(f"the control request failed: both users get the same lists, including {_TOOL}")
    for method, result in differing:
        if result.get("cacheScope") != "private":
            scope = brief(result.get("cacheScope"))
            raise Deviation(f'the cacheScope "private" for {method}, whose result differs between users', scope)


@check(
    "mrtr.state-of-another-user",
    proves=(
        "mrtr.state-bind-principal",
        "elicitation.state-associated-with-user",
        "security.handle-not-authentication",
        "tools.handle-authorization",
    ),
    transports=_HTTP,
    revisions=_MODERN,
    needs=("capability:tools",),
    subject=CheckScope.RECOVERING,
)
async def state_of_another_user(server: ServerUnderTest) -> None:
    """A call with the requestState of another user is not continued."""
    name, arguments = server.tool(_STATE_TOOL)
    params: JsonObject = {"name": name, "arguments": arguments}
    async with other_user(server) as other:
        answers: list[JsonRpcResponse] = []
        for peer in (server.peer, other):
            first = await server.peer.request("tools/call", params)
            if not isinstance(first.result().get("requestState"), str):
                raise NotTestable(f"the control request failed: {_STATE_TOOL} returns no requestState: {first}")
            answers.append(await peer.request("tools/call", retried(params, first)))
    own, theirs = answers
    if own.is_error or own.result().get("resultType") != "complete":
        raise NotTestable(
            f"the control request failed: the call of the requestState's own user is not completed: {own}"
        )
    if not theirs.is_error and theirs.result().get("resultType") == "complete":
        raise Deviation("an error, or an InputRequiredResult, for the requestState of another user", str(theirs))
