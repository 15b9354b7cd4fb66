"""Completion: suggestions for the arguments of prompts and resource templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.near_misses import INHERITED, near_misses
from mcp_conformance.checks.probes.recorded_values import items, member
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw_of_result
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_MOST: Final = 100
_METHOD: Final = "completion/complete"
_NEEDS: Final = ("capability:completions",)
_TEMPLATE: Final = "test://template/{id}/data"
_NO_STRINGS: Final[tuple[JsonValue, ...]] = (["t"], {"t": "t"}, 5, 0, True, None)
_NO_OBJECTS: Final[tuple[JsonValue, ...]] = (None, [], ["arg1", "t"], "arg1", 5)
_TYPED: Final = ("(", "[a-", "*", "\\", "%", "é🦊", "{0}", "t" * 1000)
"""Values that a pattern or a format contains, and other odd ones."""


def _params(prompt: str, argument: str = "arg1", value: str = "t") -> JsonObject:
    return {"ref": {"type": "ref/prompt", "name": prompt}, "argument": {"name": argument, "value": value}}


async def _control(server: ServerUnderTest) -> tuple[JsonObject, JsonRpcResponse]:
    """Send a completion request that succeeds."""
    params = _params(server.require("prompts", "test_prompt_with_arguments"))
    answer = await server.peer.request(_METHOD, params)
    if answer.is_error:
        raise NotTestable(f"the control request failed: {answer}")
    return params, answer


@check("completion.declared", proves=("completion.declare-capability", "completion.capability"))
async def declared(server: ServerUnderTest) -> None:
    """A server that offers completion declares the capability `completions`."""
    if server.inventory.has("completions"):
        return
    name = server.require("prompts", "test_prompt_with_arguments")
    answer = await server.peer.request(_METHOD, _params(name), deviant="a method of an undeclared capability")
    if not answer.is_error:
        raise Deviation("the capability 'completions', as the server offers completion", str(answer))


@check("completion.undeclared", proves=("completion.unsupported-error", "completion.unsupported-32601"))
async def undeclared(server: ServerUnderTest) -> None:
    """Without the capability `completions`, `completion/complete` is answered with -32601."""
    if server.inventory.has("completions"):
        raise NotApplicable("the server declares completions")
    answer = await server.peer.request(_METHOD, _params("conformance"), deviant="a method of an undeclared capability")
    answer.error(-32601, what="completion/complete without the capability")


@check("completion.result", proves=("completion.result-shape",), needs=_NEEDS)
async def result(server: ServerUnderTest) -> None:
    """A completion result has `values`, an array of strings, whatever was typed before."""
    params, _ = await _control(server)
    for typed in ("t", "", *_TYPED):
        answer = await server.peer.request(_METHOD, {**params, "argument": {"name": "arg1", "value": typed}})
        wrong = flaw_of_result(_METHOD, answer.result(), server.revision)
        if wrong is not None:
            raise Deviation("a CompleteResult", wrong)


@check("completion.at-most-100", proves=("completion.max-100", "completion.values-limit"))
async def at_most_100(server: ServerUnderTest) -> None:
    """A completion result has at most 100 values, whatever was typed before, in each session, and says if there are more."""
    name = server.require("prompts", "conformance_prompt_with_many_completions")
    completion = await _completion(server.peer, _params(name, "word", ""))
    values = items(member(completion, "values"))
    if not values:
        raise NotTestable("the control request failed: the empty string has no completions")
    total = member(completion, "total")
    # The fixture has more than 100. A server may send fewer at once, without the number of all.
    if len(values) == _MOST and (member(completion, "hasMore") is False or total == _MOST):
        raise Deviation(
            f"hasMore true, or a total of more than {_MOST}, for the first of more values", brief(completion)
        )
    # Many completions have the beginning of one of them in common.
    for typed in dict.fromkeys((str(values[0])[:1], str(values[0])[:3])):
        await _completion(server.peer, _params(name, "word", typed))
    if server.transport is Transport.HTTP:
        # A server may keep the values that it has found for another client.
        async with server.share(client="another") as other:
            await _completion(other, _params(name, "word", ""))


async def _completion(peer: SuiteConnection, params: JsonObject) -> JsonValue:
    """Return a completion with at most 100 values, whose members agree."""
    completion = (await peer.request(_METHOD, params)).member("completion", dict)
    count = len(items(member(completion, "values")))
    if count > _MOST:
        raise Deviation(f"at most {_MOST} values", f"{count} values")
    total, more = member(completion, "total"), member(completion, "hasMore")
    if isinstance(total, int) and total < count:
        raise Deviation(f"a total of at least {count}, the number of values", f"the total {total}")
    if isinstance(total, int) and isinstance(more, bool) and more is not (total > count):
        raise Deviation(f"hasMore {brief(total > count)}, as {count} of {total} values were sent", brief(more))
    return completion


@check("completion.context", proves=("completion.context-accepted", "schema.complete-context"), needs=_NEEDS)
async def context(server: ServerUnderTest) -> None:
    """A request with the values of other arguments in `context` is served."""
    params, _ = await _control(server)
    others: tuple[JsonObject, ...] = ({"arguments": {"arg2": "two"}}, {"arguments": {}}, {})
    for given in others:
        answer = await server.peer.request(_METHOD, {**params, "context": given})
        answer.member("completion", dict)


@check("completion.of-template", proves=("completion.result-shape", "schema.complete-result"), needs=_NEEDS)
async def of_template(server: ServerUnderTest) -> None:
    """A reference to a resource template needs no member besides its type and uri."""
    ref: JsonObject = {"type": "ref/resource", "uri": server.require("templates", _TEMPLATE)}
    params: JsonObject = {"ref": ref, "argument": {"name": "id", "value": ""}}
    answer = await server.peer.request(_METHOD, params)
    if not answer.is_error:
        answer.member("completion", dict)
        return
    for row in server.inventory.lists["templates"]:
        if row.get("uriTemplate") == ref["uri"]:
            named: JsonObject = {**params, "ref": {**ref, "name": row.get("name")}}
            other = await server.peer.request(_METHOD, named, deviant="a reference to a template with its name")
            if not other.is_error:
                raise Deviation("a completion for a template without its name, as with it", str(answer))
    raise NotApplicable("the server has no completion for the template")


@check(
    "completion.unknown-reference",
    proves=("completion.invalid-prompt-error", "completion.invalid-prompt-32602"),
    needs=_NEEDS,
)
async def unknown_reference(server: ServerUnderTest) -> None:
    """A reference to an unknown prompt is answered with the error -32602, also if its name is almost that of another one."""
    await _control(server)
    known = server.require("prompts", "test_prompt_with_arguments")
    names = [str(each.get("name")) for each in server.inventory.lists["prompts"]]
    for name in ("conformance-does-not-exist", *INHERITED, *near_misses(known, names)):
        answer = await server.peer.request(_METHOD, _params(name))
        answer.error(-32602, what=f"the unknown prompt {brief(name)}")


@check(
    "completion.missing-argument",
    proves=("completion.missing-argument-error", "completion.missing-argument-32602"),
    needs=_NEEDS,
)
async def missing_argument(server: ServerUnderTest) -> None:
    """A request without `argument`, or without `ref`, is answered with the error -32602."""
    params, _ = await _control(server)
    for left in ("ref", "argument"):
        answer = await server.peer.request(
            _METHOD, {key: value for key, value in params.items() if key == left}, deviant=f"only {left}"
        )
        answer.error(-32602, what=f"{_METHOD} with only {left}")


@check(
    "completion.validates",
    proves=("completion.server-validate", "completion.validate", "completion.security-validate"),
)
async def validates(server: ServerUnderTest) -> None:
    """Invalid params of `completion/complete` are rejected."""
    params, _ = await _control(server)
    wrong: dict[str, JsonObject] = {
        **{
            f"the value {brief(value)}, which is not a string": {**params, "argument": {"name": "arg1", "value": value}}
            for value in _NO_STRINGS
        },
        **{
            f"the name {brief(name)}, which is not a string": {**params, "argument": {"name": name, "value": "t"}}
            for name in _NO_STRINGS
        },
        "an argument without a value": {**params, "argument": {"name": "arg1"}},
        "an argument without a name": {**params, "argument": {"value": "t"}},
        "a reference of an unknown type": {**params, "ref": {"type": "ref/conformance", "name": "x"}},
        "a reference without a name": {**params, "ref": {"type": "ref/prompt"}},
        "a reference that is not an object": {**params, "ref": "test_prompt_with_arguments"},
        "a reference without a type": {**params, "ref": {"name": member(params, "ref", "name")}},
        "a reference to a resource without a uri": {**params, "ref": {"type": "ref/resource", "name": "x"}},
        **{
            f"the uri {brief(uri)}, which is not a string": {**params, "ref": {"type": "ref/resource", "uri": uri}}
            for uri in _NO_STRINGS
        },
        **{f"the reference {brief(ref)}": {**params, "ref": ref} for ref in _NO_OBJECTS},
        **{f"the argument {brief(argument)}": {**params, "argument": argument} for argument in _NO_OBJECTS},
    }
    for what, broken in wrong.items():
        answer = await server.peer.request(_METHOD, broken, deviant=what)
        if not answer.is_error:
            raise Deviation(f"an error for {what}", brief(answer.message))


@check("completion.invalid-params", proves=("jsonrpc.invalid-params-error",), revisions=("2024-11-05",))
async def invalid_params(server: ServerUnderTest) -> None:
    """A request without `ref`, or with one that is no object, is answered with -32602, also without a capability for it."""
    params, _ = await _control(server)
    for what, wrong in (("no ref", {}), ("a ref that is a string", {"ref": "test_prompt_with_arguments"})):
        broken: JsonObject = {"argument": params["argument"], **wrong}
        answer = await server.peer.request(_METHOD, broken, deviant=what)
        answer.error(-32602, what=f"{_METHOD} with {what}")


@check("completion.internal-error", proves=("completion.internal-error", "jsonrpc.internal-error-code"), needs=_NEEDS)
async def internal_error(server: ServerUnderTest) -> None:
    """An internal error during a completion is answered with the error -32603."""
    name = server.require("prompts", "conformance_failing_prompt")
    answer = await server.peer.request(_METHOD, _params(name, "word"))
    answer.error(-32603, what="a completion with an internal error")
