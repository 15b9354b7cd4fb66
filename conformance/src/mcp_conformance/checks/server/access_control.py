"""What one user may use and another one may not, and what is said of it to both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.interactive_calls import REPLIES, questions_of, retried
from mcp_conformance.checks.probes.second_user import other_user
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import Subject, Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import Answer
    from mcp_core.jsonrpc.messages import JsonObject

_HTTP: Final = (Transport.HTTP,)
_MODERN: Final = ("2026-07-28",)
_TOOL: Final = "conformance_private"
_RESOURCE: Final = "test://conformance/private"
_PROMPT: Final = "conformance_private_prompt"
_ASKING: Final = "test_input_required_result_request_state"


async def _theirs_alone(server: ServerUnderTest, method: str, params: JsonObject) -> None:
    """Asks as the first user, who is served, and as the other one, who is refused."""
    async with other_user(server) as other:
        control = await server.peer.request(method, params)
        if control.is_error:
            raise NotTestable(f"the control failed: the first user is refused: {control}")
        refused = await other.request(method, params)
    if not refused.is_error:
        raise Deviation(f"an error to {method} of who may not", str(refused))


@check(
    "tools.of-one-user",
    proves=("tools.access-controls", "caching.access-control"),
    transports=_HTTP,
    needs=("capability:tools",),
)
async def tool_of_one_user(server: ServerUnderTest) -> None:
    """A tool that is the first user's alone cannot be called by another one."""
    name, arguments = server.tool(_TOOL)
    await _theirs_alone(server, "tools/call", {"name": name, "arguments": arguments})


@check(
    "resources.of-one-user",
    proves=("resources.access-controls", "resources.permissions-before-ops", "caching.access-control"),
    transports=_HTTP,
    needs=("capability:resources",),
)
async def resource_of_one_user(server: ServerUnderTest) -> None:
    """A resource that is the first user's alone cannot be read by another one."""
    await _theirs_alone(server, "resources/read", {"uri": server.require("resources", _RESOURCE)})


@check(
    "completion.of-one-user",
    proves=("completion.security-access",),
    transports=_HTTP,
    needs=("capability:completions",),
)
async def completion_of_one_user(server: ServerUnderTest) -> None:
    """What is completed for the first user alone is not told to another one."""
    name = server.require("prompts", _PROMPT)
    params: JsonObject = {"ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "word", "value": ""}}
    async with other_user(server) as other:
        values = _values(await server.peer.request("completion/complete", params))
        if not values:
            raise NotTestable("the control failed: the first user is told no values")
        told = _values(await other.request("completion/complete", params))
    if told & values:
        raise Deviation("nothing that is told to the first user alone", brief([*sorted(told)]))


def _values(answer: Answer) -> set[str]:
    completion = {} if answer.is_error else answer.result().get("completion")
    values = completion.get("values") if isinstance(completion, dict) else None
    return {str(each) for each in values} if isinstance(values, list) else set()


@check(
    "caching.of-one-user",
    proves=("caching.scope-reflects-visibility",),
    transports=_HTTP,
    needs=("capability:tools",),
)
async def list_of_one_user(server: ServerUnderTest) -> None:
    """A list that is not the same for two users is not told to be public."""
    async with other_user(server) as other:
        mine = (await server.peer.request("tools/list")).result()
        theirs = (await other.request("tools/list")).result()
    if mine.get("tools") == theirs.get("tools"):
        raise NotTestable(f"the control failed: both users are told of the same tools, also of {_TOOL}")
    for each in (mine, theirs):
        if each.get("cacheScope") != "private":
            raise Deviation('the cacheScope "private" for a list that differs by user', brief(each.get("cacheScope")))


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
    subject=Subject.RECOVERING,
)
async def state_of_another_user(server: ServerUnderTest) -> None:
    """Who comes with the requestState of another user does not go on where that one was."""
    name, arguments = server.tool(_ASKING)
    params: JsonObject = {"name": name, "arguments": arguments}
    async with other_user(server) as other:
        answers: list[Answer] = []
        for peer in (server.peer, other):
            first = await server.peer.request("tools/call", params)
            if not isinstance(first.result().get("requestState"), str):
                raise NotTestable(f"the control failed: {_ASKING} gives no requestState: {first}")
            given: JsonObject = {
                each.key: REPLIES[each.method](each.params) for each in questions_of(first) if each.method in REPLIES
            }
            answers.append(await peer.request("tools/call", retried(params, first, given)))
    mine, theirs = answers
    if mine.is_error or mine.result().get("resultType") != "complete":
        raise NotTestable(f"the control failed: the user whose state it is does not go on: {mine}")
    if not theirs.is_error and theirs.result().get("resultType") == "complete":
        raise Deviation("an error, or to be asked again, for the state of another user", str(theirs))
