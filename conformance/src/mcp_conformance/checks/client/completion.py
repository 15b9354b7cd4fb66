"""Completion requests of the client, and sparse completion results. Spec: server/utilities/completion"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.completion import AT_ONCE, COMPLETES, COMPLETES_AT_ONCE

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_NEEDS: Final = (f"scenario:{COMPLETES}",)


def _completion_requests(client: ClientUnderTest) -> list[JsonObject]:
    """Return the params of the client's completion requests.

    Raises:
        NotApplicable: The client sent no completion request.
    """
    evidence = client.run(COMPLETES)
    if not evidence.sent("completion/complete"):
        raise NotApplicable("the client sends no completion requests")
    found = [each.get("params") for each in evidence.taken("completion/complete")]
    return [each for each in found if isinstance(each, dict)]


def _argument(params: JsonObject) -> object:
    argument = params.get("argument")
    return argument.get("name") if isinstance(argument, dict) else None


@check(
    "completion.client-partial",
    proves=("completion.client-partial",),
    needs=(*_NEEDS, f"scenario:{COMPLETES_AT_ONCE}", "scenario:tools_call"),
)
async def partial(client: ClientUnderTest) -> None:
    """A completion result without values, or without a total, is accepted, also while another request is pending."""
    client.control()
    concurrent = client.run(COMPLETES_AT_ONCE)
    # A client without code for that scenario completes one argument after the other.
    if AT_ONCE in concurrent.notes and concurrent.status != 0 and client.run(COMPLETES).status == 0:
        raise Deviation("the client to continue as with completions one after another", concurrent.ending)
    _completion_requests(client)
    if client.run(COMPLETES).status != 0:
        raise Deviation("the client to continue as with other completion results", client.run(COMPLETES).ending)


@check(
    "completion.client-context",
    proves=("completion.context-arguments", "schema.complete-context"),
    needs=_NEEDS,
)
async def context(client: ClientUnderTest) -> None:
    """The values of earlier arguments are in the context of the request, as strings by name."""
    requests = [each for each in _completion_requests(client) if _argument(each) == "arg2"]
    if not requests or not any(_argument(each) == "arg1" for each in _completion_requests(client)):
        raise NotTestable("the client did not complete both arguments of test_prompt_with_arguments")
    given = requests[-1].get("context")
    # Any value of arg1 is correct.
    decided = given.get("arguments") if isinstance(given, dict) else None
    if not isinstance(decided, dict) or not isinstance(decided.get("arg1"), str):
        raise Deviation('context with {"arguments": {"arg1": ...}}', brief(given))
