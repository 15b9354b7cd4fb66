"""What may answer a request: which results, under which conditions, and which error codes.

The same rules bind both sides. A server may send no result that they do not allow; a client takes such a result for an
invalid answer.

Spec: basic#results, basic#error-codes, basic/patterns/mrtr (2026-07-28); basic/utilities/tasks (2025-11-25).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from mcp_core.engine.capabilities import declared, missing_client_capability
from mcp_core.errors import ErrorCode, LocalProtocolError, ResourceNotFound
from mcp_core.methods import TASKS_RESULT, input_requests
from mcp_core.revisions import Era
from mcp_core.types import CreateExtensionTaskResult, InputRequiredResult, Result
from mcp_core.types.meta import TASKS_EXTENSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.errors import RequestFailed
    from mcp_core.methods import CapabilityPath, Method
    from mcp_core.revisions import Revision
    from mcp_core.types import ClientCapabilities, WireObject

__all__ = ["allowed_results", "as_not_found", "check_result", "code_for", "undeclared_need", "understands_tasks"]

_TASKS: Final[CapabilityPath] = ("extensions", TASKS_EXTENSION)


def understands_tasks(capabilities: ClientCapabilities) -> bool:
    """Whether a client with these capabilities takes a task for a result (2026-07-28)."""
    return declared(capabilities, _TASKS)


@cache
def allowed_results(row: Method[object, object], revision: Revision, *, tasks: bool) -> Mapping[str, type[WireObject]]:
    """The class of the result for each `resultType`; that of a task only where the client understands it."""
    return {kind: cls for kind, cls in row.results(revision).items() if tasks or kind != "task"}


def undeclared_need(result: object, revision: Revision, capabilities: ClientCapabilities) -> CapabilityPath | None:
    """The first capability that a result needs and the client did not declare: for its questions, or for a task."""
    if isinstance(result, CreateExtensionTaskResult):
        return None if understands_tasks(capabilities) else _TASKS
    if not isinstance(result, InputRequiredResult):
        return None
    for question in (result.input_requests or {}).values():
        row = input_requests(revision)[question.method]
        missing = missing_client_capability(capabilities, row.client_capability, question.params)
        if missing is not None:
            return missing
    return None


def check_result(row: Method[object, object], revision: Revision, result: object, *, as_task: bool) -> None:
    """Raises `LocalProtocolError` when `result` is not of a class that answers the method.

    Args:
        row: The method.
        revision: The revision of the request.
        result: The result.
        as_task: The request asked for a task, and its receiver offers that (2025-11-25).
    """
    kind = getattr(result, "result_type", "complete")
    if as_task:
        expected: type[WireObject] | None = row.task_results[revision]
    elif row is TASKS_RESULT:
        # It gives what the request behind the task would have been answered with.
        expected = Result
    else:
        expected = row.results(revision).get(kind) if revision.result_type else row.results(revision)["complete"]
    if expected is None or not isinstance(result, expected):
        raise LocalProtocolError(
            f"{row.name} cannot be answered by {type(result).__name__} of resultType {kind!r} in revision {revision}"
        )


_BY_TRAIT: Final[Mapping[int, str]] = {
    ErrorCode.RESOURCE_NOT_FOUND: "resource_not_found",
    ErrorCode.URL_ELICITATION_REQUIRED: "missing_url_elicitation",
    ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY: "missing_client_capability",
}
"""Codes that depend on the revision, and the trait that has the number."""

_MODERN: Final = frozenset(
    {
        ErrorCode.HEADER_MISMATCH,
        ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY,
        ErrorCode.UNSUPPORTED_PROTOCOL_VERSION,
    }
)
"""Codes that only modern revisions define."""

_RESERVED: Final = range(-32099, -32019)
"""Nobody may give a code in here a meaning of their own. Spec: basic#error-codes (2026-07-28)"""


def code_for(error: RequestFailed, revision: Revision) -> int:
    """The error code under `revision`: some conditions have another number, or none, in some revisions."""
    trait = _BY_TRAIT.get(error.code)
    if trait is not None:
        code = getattr(revision, trait)
        return int(ErrorCode.INVALID_REQUEST if code is None else code)
    if revision.era is Era.LEGACY:
        return int(ErrorCode.INVALID_REQUEST) if error.code in _MODERN else error.code
    return int(ErrorCode.INTERNAL_ERROR) if error.code in _RESERVED and error.code not in _MODERN else error.code


def as_not_found(error: RequestFailed, revision: Revision) -> RequestFailed:
    """The class for a missing resource, whatever its code is in the revision."""
    told = isinstance(error.data, dict) and "uri" in error.data
    if error.code == revision.resource_not_found and told:
        return ResourceNotFound(error.message, code=error.code, data=error.data)
    return error
