"""Faults of the results of lists, tools, resources, prompts and completion."""

from __future__ import annotations

import itertools
import os
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, META, MODERN, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

    Change = Callable[[InboundRequest, JsonObject], JsonObject]

__all__ = ["changed", "name_of", "refusal"]

_OLD: Final = LEGACY[:3]


def name_of(inbound: InboundRequest) -> JsonValue:
    """Return the tool, prompt or resource of a request."""
    return inbound.params.get("name", inbound.params.get("uri"))


def changed(
    name: str,
    *caught_by: str,
    method: str,
    change: Change,
    of: str = "",
    revisions: tuple[str, ...] | None = None,
    modern: bool = False,
) -> None:
    """Add a fault that changes the results of a method.

    Args:
        name: The name of the fault.
        caught_by: The checks that must detect it.
        method: The method.
        change: The change of the result.
        of: The only tool, prompt or resource whose results change, or the empty string.
        revisions: The revisions in which it is observable.
        modern: Whether it changes the members that the modern revision adds.
    """

    def applies(inbound: InboundRequest) -> bool:
        return inbound.request["method"] == method and of in ("", name_of(inbound))

    class _ChangedResult(Fault):
        def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            return change(inbound, result) if applies(inbound) and not modern else result

        def modern(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
            return change(inbound, result) if applies(inbound) and modern else result

    fault(name, *caught_by, revisions=revisions)(_ChangedResult)


def refusal(
    name: str,
    *caught_by: str,
    method: str,
    code: int | None,
    instead: JsonObject | None = None,
    when: int | None = None,
    of: str = "",
    revisions: tuple[str, ...] | None = None,
) -> None:
    """Add a fault that rejects a request with another code, or accepts it.

    Args:
        name: The name of the fault.
        caught_by: The checks that must detect it.
        method: The method.
        code: The code of the error, or `None` for a result.
        instead: The result.
        when: The only code that is replaced, or `None` for all.
        of: The only tool, prompt or resource, or the empty string.
        revisions: The revisions in which it is observable.
    """

    class _OtherRejection(Fault):
        def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
            if (
                inbound.request["method"] != method
                or of not in ("", name_of(inbound))
                or when not in (None, error.code)
                # The request is rejected before it is read.
                or "_meta" in str(error)
            ):
                raise error
            if code is None:
                return dict(instead or {})
            raise RpcError(code, str(error), error.data, error.status)

    fault(name, *caught_by, revisions=revisions)(_OtherRejection)


def _rows(result: JsonObject) -> tuple[str, list[JsonValue]]:
    return next((key, value) for key, value in result.items() if isinstance(value, list))


def _extra(**members: JsonValue) -> Change:
    """Return a change that adds a row to the first page: the last row with other members."""

    def change(inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if "cursor" in inbound.params:
            return result
        key, rows = _rows(result)
        row = rows[-1]
        return {**result, key: [*rows, {**(row if isinstance(row, dict) else {}), **members}]}

    return change


def _with(**members: JsonValue) -> Change:
    return lambda _, result: {**result, **members}


def _without(*names: str) -> Change:
    return lambda _, result: {key: value for key, value in result.items() if key not in names}


def _text(text: str) -> JsonObject:
    return {"content": [{"type": "text", "text": text}]}


def _growing(member: str) -> Change:
    """Return a change that makes a list longer with each request."""
    seen = [0]

    def change(_: InboundRequest, result: JsonObject) -> JsonObject:
        seen[0] += 1
        rows = result[member]
        row = rows[0] if isinstance(rows, list) else {}
        key = "uri" if member == "resources" else "name"
        first = row.get(key) if isinstance(row, dict) else ""
        more: JsonValue = {**(row if isinstance(row, dict) else {}), key: f"{first}-{seen[0]}"}
        return {**result, member: [*(rows if isinstance(rows, list) else []), more]}

    return change


def _described(result: JsonObject, text: str) -> JsonObject:
    """Return a list with another description of its first tool."""
    tools = result.get("tools")
    first, *others = tools if isinstance(tools, list) else [None]
    return {**result, "tools": [{**first, "description": text}, *others]} if isinstance(first, dict) else result


@fault("list-after-calls", "tools.same-everywhere", revisions=MODERN)
class _ListAfterCalls(Fault):
    def __init__(self) -> None:
        self._called = False

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        self._called = self._called or inbound.request["method"] == "tools/call"
        listed = inbound.request["method"] == "tools/list" and self._called
        return _described(result, "has been called") if listed else result


@fault("list-of-connection", "tools.same-everywhere", revisions=MODERN)
class _ListOfConnection(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        listed = inbound.request["method"] == "tools/list"
        return _described(result, f"{os.getpid()}, {id(inbound.session)}") if listed else result


@fault("list-after-completion", "tools.same-everywhere", revisions=MODERN)
class _ListAfterCompletion(Fault):
    def __init__(self) -> None:
        self._completed = False

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        self._completed = self._completed or inbound.request["method"] == "completion/complete"
        listed = inbound.request["method"] == "tools/list" and self._completed
        return _described(result, "has completed") if listed else result


@fault("list-after-input", "tools.same-everywhere", revisions=MODERN)
class _ListAfterInput(Fault):
    def __init__(self) -> None:
        self._retried = False

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        self._retried = self._retried or "inputResponses" in inbound.params
        listed = inbound.request["method"] == "tools/list" and self._retried
        return _described(result, "knows the user") if listed else result


# --- tools -----------------------------------------------------------------------------------------------------------

_TOOL: Final[JsonObject] = {"name": "another", "description": "another", "inputSchema": {"type": "object"}}


class _WithoutCapability(Fault):
    kind = ""

    def capabilities(self, declared: JsonObject) -> JsonObject:
        return {key: value for key, value in declared.items() if key != self.kind}


@fault("tools-not-declared", "tools.declared", "capability.undeclared-not-served", "tools.undeclared")
class _NoTools(_WithoutCapability):
    kind = "tools"


@fault(
    "resources-not-declared",
    "resources.declared",
    "capability.undeclared-not-served",
    "resources.undeclared",
    "tools.embedded-resource-capability",
    "skills.resources-declared",
)
class _NoResources(_WithoutCapability):
    kind = "resources"


@fault("prompts-not-declared", "prompts.declared", "capability.undeclared-not-served", "prompts.undeclared")
class _NoPrompts(_WithoutCapability):
    kind = "prompts"


@fault("completions-not-declared", "completion.declared", "capability.undeclared-not-served", "completion.undeclared")
class _NoCompletions(_WithoutCapability):
    kind = "completions"


@fault("completions-declared-when-used", "completion.declared", revisions=MODERN)
class _CompletionsWhenUsed(_NoCompletions):
    """A server that looks for completions at the first request for one, and declares them from then on."""

    def __init__(self) -> None:
        self._was_used = False

    def reads(self, message: JsonValue) -> JsonValue:
        if isinstance(message, dict) and message.get("method") == "completion/complete":
            self._was_used = True
        return message

    def capabilities(self, declared: JsonObject) -> JsonObject:
        return declared if self._was_used else super().capabilities(declared)


_ICONS: Final[list[JsonValue]] = [
    {"src": "https://example.com/a.png?size=48#icon", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"},
    {"src": "HTTP://example.com/a.svg", "sizes": ["any"]},
    {"src": "data:image/svg+xml;charset=utf-8;base64,PHN2Zy8%2B"},
]


def _titled(_: InboundRequest, result: JsonObject) -> JsonObject:
    tools = result["tools"]
    rows = tools if isinstance(tools, list) else []
    more: JsonObject = {"title": "a title", "icons": _ICONS}
    return {**result, "tools": [{**row, **more} if isinstance(row, dict) else row for row in rows]}


# Correct: titles and icons are optional.
changed("titled-tools", method="tools/list", change=_titled, revisions=(LEGACY[3], *MODERN))
changed("tool-twice", "tools.unique", method="tools/list", change=_extra())


@fault("tools-in-another-order", "tools.order", revisions=MODERN)
class _AnotherOrder(Fault):
    """A server that begins the list of tools with another one each time."""

    def __init__(self) -> None:
        self._turns: Final = itertools.count(1)

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if inbound.request["method"] != "tools/list":
            return result
        key, rows = _rows(result)
        at = next(self._turns) % len(rows)
        return {**result, key: [*rows[at:], *rows[:at]]}


changed("tools-vary", "tools.same-everywhere", "tools.order", method="tools/list", change=_growing("tools"))
changed(
    "input-schema-invalid",
    "tools.input-schema",
    "schema.valid-schemas",
    method="tools/list",
    change=_extra(name="another", inputSchema={"type": "object", "properties": {"a": {"type": "nothing"}}}),
)
changed(
    "properties-in-an-array",
    "tools.input-schema",
    "schema.valid-schemas",
    method="tools/list",
    change=_extra(name="another", inputSchema={"type": "object", "properties": []}),
)
changed("tool-name-long", "tools.name-length", method="tools/list", change=_extra(name="n" * 129))
changed("tool-name-with-line-feed", "tools.name-characters", method="tools/list", change=_extra(name="another\n"))
changed("tool-name-odd", "tools.name-characters", method="tools/list", change=_extra(name="another one"))
refusal(
    "unknown-tool-as-result", "tools.unknown-name-code",
    method="tools/call", code=None, instead={**_text("unknown tool"), "isError": True}, of="conformance-does-not-exist",
)  # fmt: skip
refusal(
    "unknown-tool-as-legacy-result", "tools.unknown-name",
    method="tools/call", code=None, instead={**_text("unknown tool"), "isError": True}, of="conformance-does-not-exist",
    revisions=LEGACY,
)  # fmt: skip


@fault("unknown-tool-of-tasks", "tools.unknown-name-code", revisions=MODERN)
@fault("unknown-tool-as-task", "tools.unknown-name", revisions=LEGACY[3:])
class _UnknownToolAsTask(Fault):
    """A server that looks for the tool of a task only when it runs."""

    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        is_task = "task" in inbound.params or inbound.declares("extensions", f"{META}tasks")
        if is_task and name_of(inbound) == "conformance-does-not-exist":
            return {**_text("the task failed"), "isError": True}
        raise error


refusal(
    "tool-name-trimmed", "tools.unknown-name-code",
    method="tools/call", code=None, instead=_text("?"), of="test_simple_text ",
)  # fmt: skip
refusal(
    "any-tool-name",
    "tools.name-case",
    "tools.unknown-name-code",
    method="tools/call",
    code=None,
    instead=_text("?"),
    of="TEST_SIMPLE_TEXT",
)


@fault("tool-name-in-an-array", "tools.malformed-call", revisions=MODERN, transports=("stdio",))
class _ToolNameInAnArray(Fault):
    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        names = params.get("name") if isinstance(params, dict) else None
        if not isinstance(message, dict) or not isinstance(params, dict) or not isinstance(names, list):
            return message
        return {**message, "params": {**params, "name": names[0]}}


@fault("empty-value-as-no-arguments", "tools.malformed-call")
class _EmptyValueAsNoArguments(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        arguments = inbound.params.get("arguments", True)
        if inbound.request["method"] != "tools/call" or arguments or isinstance(arguments, dict):
            raise error
        return _text("This is a simple text response for testing.")


@fault("malformed-call-code", "tools.malformed-call")
class _MalformedCallCode(Fault):
    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        is_malformed = not isinstance(inbound.params.get("arguments", {}), dict)
        code = -32603 if inbound.request["method"] == "tools/call" and is_malformed else error.code
        raise RpcError(code, str(error), error.data, error.status)


changed(
    "arguments-required", "tools.without-arguments", method="tools/call",
    change=lambda inbound, result: result if "arguments" in inbound.params else {**result, "isError": True},
)  # fmt: skip
changed(
    "arguments-required-in-sessions", "tools.without-arguments", method="tools/call",
    change=lambda inbound, result: result if "arguments" in inbound.params else {**result, "isError": True},
    revisions=LEGACY,
)  # fmt: skip
refusal(
    "bad-arguments-code", "tools.invalid-arguments-error",
    method="tools/call", code=-32603, when=-32602, of="conformance_constrained",
    revisions=_OLD,
)  # fmt: skip


@fault("arguments-not-validated", "tools.validates", "schema.validates-2020-12", "tools.invalid-arguments-result")
class _NotValidated(Fault):
    def validated(self, *, good: bool) -> bool:  # noqa: ARG002
        return True


@fault("batch-not-validated", "tools.validates", revisions=LEGACY[1:2])
class _BatchNotValidated(Fault):
    """A server that validates the arguments of single calls only."""

    def __init__(self) -> None:
        self._reads_batch = False

    def elements(self, batch: list[JsonValue]) -> list[JsonValue]:
        self._reads_batch = True
        return batch

    def batch(self, batch: list[JsonValue], answer: JsonValue, status: int) -> tuple[JsonValue, int]:  # noqa: ARG002
        self._reads_batch = False
        return answer, status

    def takes_any_type(self, tool: str) -> bool:  # noqa: ARG002
        return self._reads_batch

    def validated(self, *, good: bool) -> bool:
        return good or self._reads_batch


changed(
    "failure-is-success", "tools.failure", method="tools/call", change=_without("isError"), of="test_error_handling"
)


@fault("failure-needs-structure", "tools.invalid-arguments-result", revisions=(*LEGACY[3:], *MODERN))
class _FailureNeedsStructure(Fault):
    """A server that wants structuredContent also in the failure of a tool with an outputSchema."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "conformance_structured" and "structuredContent" not in result:
            raise RpcError(-32603, "structuredContent is missing")
        return result


changed(
    "structured-does-not-fit", "tools.structured", "tools.structured-always", "tools.structured-also-text",
    method="tools/call", change=_with(structuredContent={"value": "no number"}), of="conformance_structured",
)  # fmt: skip
changed(
    "structured-without-text", "tools.structured-also-text",
    method="tools/call", change=_with(content=[]), of="conformance_structured",
)  # fmt: skip
changed(
    "array-without-text", "tools.structured-array",
    method="tools/call", change=_with(content=[]), of="conformance_structured_list",
)  # fmt: skip

changed(
    "empty-array-without-text", "tools.structured-array", method="tools/call", of="conformance_structured_list",
    change=lambda _, result: {**result, "content": []} if result.get("structuredContent") == [] else result,
)  # fmt: skip
changed(
    "structured-zero-missing", "tools.structured", "tools.structured-always", method="tools/call", of="conformance_structured",
    change=lambda inbound, result: _without("structuredContent")(inbound, result) if "0}" in str(result) else result,
)  # fmt: skip
changed(
    "structured-fraction-as-text", "tools.structured", "tools.structured-always", method="tools/call", of="conformance_structured",
    change=lambda inbound, result: {**result, "structuredContent": {"value": str(_value(inbound))}}
    if isinstance(_value(inbound), float) else result,
)  # fmt: skip


def _value(inbound: InboundRequest) -> JsonValue:
    arguments = inbound.params.get("arguments")
    return arguments.get("value") if isinstance(arguments, dict) else None


def _with_output_schema(_: InboundRequest, result: JsonObject) -> JsonObject:
    """Return a list in which the first tool promises structured content that it does not have."""
    tools = result["tools"]
    first, *others = tools if isinstance(tools, list) else [None]
    promised: JsonObject = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return {**result, "tools": [{**first, "outputSchema": promised}, *others]} if isinstance(first, dict) else result


changed("output-schema-not-filled", "tools.structured-always", method="tools/list", change=_with_output_schema,
        revisions=(*LEGACY[2:], *MODERN))  # fmt: skip


@fault("structured-once", "tools.structured", "tools.structured-always")
class _StructuredOnce(Fault):
    """A server that keeps the text of a result, and returns it for the same arguments."""

    def __init__(self) -> None:
        self._last: JsonValue = None

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        same = name_of(inbound) == "conformance_structured" and self._last == inbound.params.get("arguments")
        self._last = inbound.params.get("arguments")
        return {key: each for key, each in result.items() if key != "structuredContent"} if same else result


# In 2024-11-05 and 2025-03-26 there is no structured content.
changed(
    "structured-list-before", "schema.structured-content", method="tools/call", of="conformance_structured_list",
    change=_with(structuredContent=[0, 1, 2]), revisions=LEGACY[2:],
)  # fmt: skip


def _taken(name: str, accepts: Callable[[JsonValue], bool], *checks: str) -> None:
    """Add a server that accepts some invalid arguments, which these checks detect."""

    class _Taken(Fault):
        def validates(self, count: JsonValue, *, good: bool) -> bool:
            return good or accepts(count)

    fault(name, *(checks or ("tools.validates", "tools.invalid-arguments-result")))(_Taken)


# Many servers convert such arguments. That they reject them is only recommended.
_CONVERTED: Final = ("tools.invalid-arguments-result",)

_taken("count-zero", lambda count: count == 0 and count is not False)
_taken("count-eleven", lambda count: count == 11)
_taken("count-flag", lambda count: count is True, *_CONVERTED)
_taken("count-cut", lambda count: isinstance(count, float) and 1 <= int(count) <= 10)
_taken("count-null", lambda count: count is None)
_taken(
    "count-of-digits",
    lambda count: isinstance(count, str) and count.isdecimal() and 1 <= int(count) <= 10,
    *_CONVERTED,
)


def _any_type(tool: str) -> None:
    """Add a server that does not validate the arguments of one tool."""

    class _AnyType(Fault):
        def takes_any_type(self, name: str) -> bool:
            return name == tool

    fault(f"any-type-for-{tool}", "tools.validates")(_AnyType)


for _tool in ("conformance_outcome", "test_sampling", "test_elicitation"):
    _any_type(_tool)


@fault("inherited-names", "tools.unknown-name-code", "prompts.unknown-name", revisions=MODERN)
class _InheritedNames(Fault):
    """A server that looks a name up in an object of JavaScript, which has more names than those of its tools."""

    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        if name_of(inbound) not in ("constructor", "toString", "__proto__"):
            raise error
        method = inbound.request["method"]
        return {"messages": []} if method == "prompts/get" else {**_text("it is not a function"), "isError": True}


def _arguments_required(name: str, kind: str) -> None:
    """Add a server that rejects a call without arguments, if its result is of a kind."""

    class _ArgumentsRequired(Fault):
        def response(self, inbound: InboundRequest, response: JsonObject) -> JsonValue:
            result = response.get("result")
            rejected = inbound.request["method"] == "tools/call" and "arguments" not in inbound.params
            if rejected and isinstance(result, dict) and result.get("resultType") == kind:
                error: JsonObject = {"code": -32602, "message": "params.arguments is missing"}
                return {"jsonrpc": "2.0", "id": response["id"], "error": error}
            return response

    fault(name, "tools.without-arguments", revisions=MODERN)(_ArgumentsRequired)


_arguments_required("arguments-required-for-tasks", "task")
_arguments_required("arguments-required-for-input", "input_required")


@fault("failed-tool-not-listed", "tools.same-everywhere", revisions=MODERN)
class _FailedToolNotListed(Fault):
    def __init__(self) -> None:
        self._failed: list[JsonValue] = []

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if result.get("isError") is True:
            self._failed.append(name_of(inbound))
        if inbound.request["method"] != "tools/list":
            return result
        tools = result["tools"]
        rows = [each for each in (tools if isinstance(tools, list) else []) if isinstance(each, dict)]
        return {**result, "tools": [each for each in rows if each["name"] not in self._failed]}


refusal(
    "page-required-as-before", "error.reserved-range",
    method="tools/call", code=-32042, when=-32021, of="conformance_url_required", revisions=MODERN,
)  # fmt: skip

# --- resources -------------------------------------------------------------------------------------------------------

_READ: Final = "resources/read"

changed("resource-twice", "resources.unique", "pagination.walk", method="resources/list", change=_extra())
changed("resources-vary", "resources.same-everywhere", "pagination.stable-cursor",
    "pagination.cursor-elsewhere",
    "resources.listed-can-be-read", method="resources/list",
        change=_growing("resources"))  # fmt: skip
changed(
    "blob-no-base64", "resources.binary", "schema.base64",
    method=_READ, change=_with(contents=[{"uri": "test://static-binary", "blob": "%%%"}]), of="test://static-binary",
)  # fmt: skip
changed(
    "binary-as-text", "resources.binary-is-no-text",
    method=_READ, of="test://static-binary",
    change=_with(contents=[
        {"uri": "test://static-binary", "blob": "aGVsbG8="}, {"uri": "test://static-binary#2", "text": "\ufffdPNG"},
    ]),
)  # fmt: skip
changed(
    "text-without-uri", "resources.text", "schema.resource-contents",
    method=_READ, change=_with(contents=[{"text": "a text"}]), of="test://static-text",
)  # fmt: skip
changed("listed-but-not-there", "resources.listed-can-be-read", method="resources/list",
        change=_extra(uri="test://not-there"))  # fmt: skip
refusal(
    "not-found-as-internal", "resources.not-found-code", "skills.file-unknown", method=_READ, code=-32603, when=-32602
)
refusal("not-found-as-any", "resources.not-found", method=_READ, code=-32603, when=-32002, revisions=LEGACY)
refusal(
    "not-found-is-empty", "resources.not-found-is-not-empty", "resources.not-found-code",
    method=_READ, code=None, instead={"contents": []}, of="conformance-unknown://nothing/here",
)  # fmt: skip
refusal(
    "unknown-file-is-empty", "resources.not-found-is-not-empty", "resources.not-found-code",
    method=_READ, code=None, instead={"contents": []}, of="file:///conformance-unknown/nothing", revisions=MODERN,
)  # fmt: skip
refusal(
    "unknown-file-is-not-there", "resources.not-found", method=_READ, code=-32603, when=-32002,
    of="file:///conformance-unknown/nothing", revisions=LEGACY,
)  # fmt: skip
refusal(
    "unlisted-is-empty", "resources.not-found-is-not-empty",
    method=_READ, code=None, instead={"contents": []}, of="test://static-text-conformance-unknown", revisions=MODERN,
)  # fmt: skip


@fault("unknown-of-template-is-empty", "resources.not-found-is-not-empty", revisions=MODERN)
class _UnknownOfTemplate(Fault):
    """A server whose template has no resource for some values."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        uri = str(inbound.params.get("uri"))
        number = uri.removeprefix("test://template/").removesuffix("/data")
        is_known = number == uri or (number.isdecimal() and int(number) > 0)
        return result if inbound.request["method"] != _READ or is_known else {"contents": []}


def _for_urls(inbound: InboundRequest, result: JsonObject) -> JsonObject:
    """Return contents with base64 of the alphabet for URLs, without padding."""
    contents = result["contents"]
    first = contents[0] if isinstance(contents, list) else None
    if not isinstance(first, dict) or "blob" not in first:
        return result
    blob = str(first["blob"]).replace("+", "-").replace("/", "_").rstrip("=")
    return _with(contents=[{**first, "blob": blob}])(inbound, result)


changed("blob-for-urls", "resources.binary", "schema.base64", method=_READ, change=_for_urls)
changed("uri-with-spaces", "resources.uri-syntax", "schema.resource", "resources.listed-can-be-read", method="resources/list",
        change=_extra(uri="my scheme:with spaces"))  # fmt: skip
changed("uri-with-brackets", "resources.uri-syntax", "resources.listed-can-be-read", method="resources/list",
        change=_extra(uri="file:///app/[slug]/page.tsx"))  # fmt: skip
changed("template-as-uri", "resources.template-contents", method=_READ, of="test://template/123/data",
        change=_with(contents=[{"uri": "test://template/{id}/data", "text": "123"}]), revisions=LEGACY[:1])  # fmt: skip
changed("template-as-modern-uri", "resources.template-contents", method=_READ, of="test://template/123/data",
        change=_with(contents=[{"uri": "test://template/{id}/data", "text": "123"}]), revisions=MODERN)  # fmt: skip


@fault("encoded-values-unknown", "resources.template-read", revisions=MODERN)
class _EncodedUnknown(Fault):
    """A server whose resources it looks up by the text of a URI, as if that was not percent-encoded."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        uri = str(inbound.params.get("uri"))
        if inbound.request["method"] == _READ and uri.startswith("test://template/") and unquote(uri) != uri:
            raise RpcError(-32602, f"unknown resource {uri!r}", {"uri": uri})
        return result


refusal("any-uri", "resources.malformed-uri", method=_READ, code=None,
        instead={"contents": [{"uri": "x:y", "text": ""}]}, of="no-uri")  # fmt: skip
for _word, _uri in {"without-scheme": "no-uri", "of-no-address": "http://[not-an-address/"}.items():
    refusal(f"uri-{_word}-as-internal", "resources.malformed-uri-code", method=_READ, code=-32603, when=-32602, of=_uri,
            revisions=MODERN)  # fmt: skip
refusal("uri-without-scheme", "resources.malformed-uri", method=_READ, code=None,
        instead={"contents": [{"uri": "test://static-text", "text": "a text"}]}, of="static-text")  # fmt: skip
refusal("out-of-the-tree", "resources.path-traversal", method=_READ, code=None,
        instead={"contents": [{"uri": "x:y", "text": "root"}]},
        of=f"file:///conformance/{'../' * 10}etc/passwd")  # fmt: skip
for _name, _up in (("encoded-slash", "..%2f"), ("removed-once", "....//"), ("encoded-twice", "%252e%252e%252f")):
    refusal(f"out-of-the-tree-{_name}", "resources.path-traversal", method=_READ, code=None,
            instead={"contents": [{"uri": "x:y", "text": "root"}]},
            of=f"file:///conformance/{_up * 10}etc/passwd")  # fmt: skip


@fault("uri-in-an-array", "resources.malformed-uri", transports=("stdio",))
class _UriInAnArray(Fault):
    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        uris = params.get("uri") if isinstance(params, dict) else None
        if not isinstance(message, dict) or not isinstance(params, dict) or not isinstance(uris, list):
            return message
        return {**message, "params": {**params, "uri": uris[0]}}


refusal("failure-not-internal", "resources.internal-error", method=_READ, code=-32602, when=-32603)

# --- prompts and completion ------------------------------------------------------------------------------------------


def _content(**block: JsonValue) -> Change:
    return _with(messages=[{"role": "user", "content": dict(block)}])


_GET: Final = "prompts/get"

changed("prompt-twice", "prompts.unique", method="prompts/list", change=_extra())
changed("prompts-vary", "prompts.same-everywhere", method="prompts/list", change=_growing("prompts"))
changed("prompt-without-messages", "prompts.get", method=_GET, change=_with(messages=[]), of="test_simple_prompt")


@fault("no-arguments-left-out", "prompts.get")
class _EmptyArgumentsRefused(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "test_simple_prompt" and inbound.params.get("arguments") == {}:
            raise RpcError(-32602, "the prompt has no arguments")
        return result


@fault("arguments-left-out", "prompts.get", revisions=LEGACY)
class _AbsentArgumentsRefused(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if name_of(inbound) == "test_simple_prompt" and "arguments" not in inbound.params:
            raise RpcError(-32602, "arguments is missing")
        return result


changed("arguments-forgotten", "prompts.arguments", method=_GET, change=_content(type="text", text="?"),
        of="test_prompt_with_arguments")  # fmt: skip
changed("image-no-base64", "prompts.image", "schema.base64", method=_GET,
        change=_content(type="image", data="%%", mimeType="image/png"), of="test_prompt_with_image")  # fmt: skip
changed("audio-without-type", "prompts.audio", method=_GET,
        change=_content(type="audio", data="aGVsbG8=", mimeType="sound"),
        of="conformance_prompt_with_audio")  # fmt: skip
changed("image-of-audio", "prompts.image", method=_GET,
        change=_content(type="image", data="aGVsbG8=", mimeType="audio/wav"), of="test_prompt_with_image")  # fmt: skip
changed("embedded-of-odd-type", "prompts.embedded-resource", method=_GET,
        change=_content(type="resource", resource={"uri": "test://static-text", "mimeType": "text", "text": "a"}),
        of="test_prompt_with_embedded_resource")  # fmt: skip
changed("embedded-without-type", "prompts.embedded-resource", method=_GET,
        change=_content(type="resource", resource={"uri": "test://static-text", "text": "a"}),
        of="test_prompt_with_embedded_resource")  # fmt: skip


def _embedded(change: Callable[[JsonObject], JsonObject]) -> Change:
    """Return a change of embedded resources other than that of all prompts of the contract."""

    def apply(inbound: InboundRequest, result: JsonObject) -> JsonObject:
        uri = str(_arguments(inbound).get("resourceUri"))
        messages = result["messages"]
        first = messages[0] if isinstance(messages, list) else None
        content = first.get("content") if isinstance(first, dict) else None
        resource = content.get("resource") if isinstance(content, dict) else None
        if uri == "test://static-text" or not isinstance(resource, dict):
            return result
        return _content(type="resource", resource=change(resource))(inbound, result)

    return apply


def _arguments(inbound: InboundRequest) -> JsonObject:
    arguments = inbound.params.get("arguments")
    return arguments if isinstance(arguments, dict) else {}


for _name, _more, _changed in (
    ("other-embedded-without-type", (), lambda resource: {"uri": resource["uri"], "text": "a text"}),
    ("embedded-as-plain-text", (), lambda resource: {**resource, "mimeType": "text/plain"}),
    (
        "embedded-blob-no-base64",
        ("schema.base64",),
        lambda resource: {**resource, "blob": "%%"} if "blob" in resource else resource,
    ),
):
    changed(_name, "prompts.embedded-resource", *_more, method=_GET, change=_embedded(_changed),
            of="test_prompt_with_embedded_resource")  # fmt: skip
refusal("unknown-prompt-code", "prompts.unknown-name", method=_GET, code=-32603, of="conformance-does-not-exist")
refusal("missing-argument-code", "prompts.missing-argument", method=_GET, code=-32603,
        of="test_prompt_with_arguments")  # fmt: skip


def _lenient(name: str, tolerated: Callable[[JsonObject], bool]) -> None:
    """Add a server that serves a prompt with some required arguments only."""

    class _Lenient(Fault):
        def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
            if name_of(inbound) == "test_prompt_with_arguments" and tolerated(_arguments(inbound)):
                return {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}]}
            raise error

    fault(name, "prompts.missing-argument", "prompts.validates")(_Lenient)


_lenient("second-argument-optional", lambda given: "arg1" in given)
_lenient("first-argument-optional", lambda given: "arg2" in given)


class _FilledInTwice(Fault):
    """A server that fills in the arguments one after another, also in those that it has filled in."""

    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        given = params.get("arguments") if isinstance(params, dict) else None
        if not isinstance(message, dict) or not isinstance(params, dict) or not isinstance(given, dict):
            return message
        if params.get("name") != "test_prompt_with_arguments" or "arg2" not in given:
            return message
        filled = str(given.get("arg1")).replace("{arg2}", str(given["arg2"]))
        return {**message, "params": {**params, "arguments": {**given, "arg1": filled}}}


fault("arguments-filled-in-twice", "prompts.arguments", revisions=MODERN)(_FilledInTwice)
refusal("prompt-failure-code", "prompts.internal-error", method=_GET, code=-32602, when=-32603, revisions=LEGACY)

_COMPLETE: Final = "completion/complete"
_TOO_MANY: Final[JsonObject] = {"completion": {"values": [f"word{number}" for number in range(150)]}}


def _typed(inbound: InboundRequest) -> JsonValue:
    argument = inbound.params.get("argument")
    return argument.get("value") if isinstance(argument, dict) else None


changed(
    "completions-no-texts",
    "completion.result",
    "schema.complete-result",
    method=_COMPLETE,
    change=_with(completion={"values": [7]}),
)
changed("too-many-completions", "completion.at-most-100", "schema.complete-result", method=_COMPLETE,
        change=lambda _, result: result if not _some(result) else _TOO_MANY)  # fmt: skip
changed("too-many-completions-of-letter", "completion.at-most-100", "schema.complete-result", method=_COMPLETE,
        change=lambda inbound, result: _TOO_MANY if _some(result) and _typed(inbound) else result)  # fmt: skip
changed("too-many-completions-of-word", "completion.at-most-100", "schema.complete-result", method=_COMPLETE,
        change=lambda inbound, result: _TOO_MANY if _typed(inbound) == "wor" else result)  # fmt: skip
changed("too-many-completions-of-template", "schema.complete-result", method=_COMPLETE,
        change=lambda inbound, result: _TOO_MANY if "uri" in str(inbound.params.get("ref")) else result)  # fmt: skip
changed("too-many-completions-of-other", "schema.complete-result", method=_COMPLETE,
        change=lambda inbound, result: _TOO_MANY if _typed(inbound) == "t" else result)  # fmt: skip


def _completed(members: JsonObject) -> Change:
    """Return a change of a completion that has values."""

    def change(_: InboundRequest, result: JsonObject) -> JsonObject:
        completion = result.get("completion")
        if not _some(result) or not isinstance(completion, dict):
            return result
        return {**result, "completion": {**completion, **members}}

    return change


_LESS: Final[tuple[tuple[str, JsonObject], ...]] = (
    ("more-completions-denied", {"hasMore": False}),
    ("total-of-sent-completions", {"total": 100}),
    ("total-against-more", {"total": 150, "hasMore": False}),
)
"""Members of a completion that was cut, which deny or contradict that."""
for _name, _members in _LESS:
    changed(_name, "completion.at-most-100", method=_COMPLETE, change=_completed(_members))


_REJECTED: Final = 400
"""The HTTP status of requests that lack their metadata."""


@fault("unknown-reference-code", "completion.unknown-reference", "completion.missing-argument")
class _UnknownReferenceCode(Fault):
    """A server with another code for a reference, or for the argument that is completed, but not for other invalid params."""

    def refused(self, inbound: InboundRequest, error: RpcError) -> JsonObject:
        is_reference = isinstance(inbound.params.get("ref"), dict) and error.status != _REJECTED
        if inbound.request["method"] == _COMPLETE and error.code == -32602 and is_reference:
            raise RpcError(-32603, str(error), error.data, error.status)
        raise error


refusal("completion-params-code", "completion.invalid-params", method=_COMPLETE, code=-32603, when=-32602,
        revisions=LEGACY[:1])  # fmt: skip
refusal("completion-not-validated", "completion.validates", "completion.unknown-reference",
        "completion.missing-argument", method=_COMPLETE, code=None, instead={"completion": {"values": []}},
        when=-32602)  # fmt: skip


@fault("reference-in-any-case", "completion.unknown-reference")
class _ReferenceInAnyCase(Fault):
    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        ref = params.get("ref") if isinstance(params, dict) else None
        if not isinstance(message, dict) or not isinstance(params, dict) or not isinstance(ref, dict):
            return message
        name = ref.get("name")
        lower = name.lower() if isinstance(name, str) else name
        return {**message, "params": {**params, "ref": {**ref, "name": lower}}}


for _member, _lax in (("value", 5), ("value", 0), ("value", None), ("name", None), ("name", 5)):

    class _LaxArgument(Fault):
        def __init__(self, member: str = _member, lax: JsonValue = _lax) -> None:
            self._lax = (member, lax)

        def validates_argument(self, name: str, given: JsonValue, *, good: bool) -> bool:
            return good or (name, given) == self._lax

    fault(f"completion-{_member}-{'absent' if _lax is None else _lax}", "completion.validates")(_LaxArgument)


@fault("completion-of-nothing-refused", "completion.result")
class _CompletionOfNothing(Fault):
    """A server that takes an empty value for none."""

    def validates_argument(self, name: str, given: JsonValue, *, good: bool) -> bool:
        return good and (name, given) != ("value", "")


@fault("completion-by-pattern", "completion.result")
class _CompletionByPattern(Fault):
    """A server that takes what the user typed for a regular expression."""

    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        try:
            re.compile(str(_typed(inbound)))
        except re.error as error:
            raise RpcError(-32603, "internal error") from error
        return result


@fault("context-refused-in-sessions", "completion.context", revisions=LEGACY[2:])
class _ContextRefused(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        if "context" in inbound.params:
            raise RpcError(-32602, "context is unknown")
        return result


@fault("context-without-arguments-refused", "completion.context")
class _ContextWithoutArguments(Fault):
    def result(self, inbound: InboundRequest, result: JsonObject) -> JsonObject:
        context = inbound.params.get("context")
        if isinstance(context, dict) and not context.get("arguments"):
            raise RpcError(-32602, "context.arguments is missing")
        return result


for _name, _read in (
    ("completion-of-resource-without-uri", lambda ref: {"uri": "test://template/{id}/data", **ref}),
    ("completion-of-any-uri", lambda ref: {**ref, "uri": "test://template/{id}/data"}),
):

    class _LaxReference(Fault):
        def __init__(self, read: Callable[[JsonObject], JsonObject] = _read) -> None:
            self._read = read

        def reads(self, message: JsonValue) -> JsonValue:
            params = message.get("params") if isinstance(message, dict) else None
            ref = params.get("ref") if isinstance(params, dict) else None
            if not isinstance(message, dict) or not isinstance(params, dict) or not isinstance(ref, dict):
                return message
            lax = ref.get("type") == "ref/resource" and not isinstance(ref.get("uri"), str)
            return {**message, "params": {**params, "ref": self._read(ref)}} if lax else message

    fault(_name, "completion.validates")(_LaxReference)


def _some(result: JsonObject) -> bool:
    completion = result.get("completion")
    return isinstance(completion, dict) and bool(completion.get("values"))


@fault("template-reference-with-name", "completion.of-template")
class _NamedTemplate(Fault):
    """A server that finds the template of a completion by its name, which a reference does not contain."""

    def reads(self, message: JsonValue) -> JsonValue:
        params = message.get("params") if isinstance(message, dict) else None
        ref = params.get("ref") if isinstance(params, dict) else None
        if not isinstance(message, dict) or not isinstance(params, dict) or not isinstance(ref, dict):
            return message
        nameless = ref.get("type") == "ref/resource" and "name" not in ref
        return {**message, "params": {**params, "ref": {**ref, "uri": "none"}}} if nameless else message
