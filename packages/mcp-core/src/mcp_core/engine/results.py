"""Rules for responses: the allowed results of a request, their conditions, and the error codes.

The rules bind both sides. A server must not send a result that the rules forbid. A client treats such a result as an
invalid response.

Spec: basic#results, basic#error-codes, basic/patterns/mrtr (2026-07-28); basic/utilities/tasks (2025-11-25).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from mcp_core.engine.capabilities import declared, missing_client_capability
from mcp_core.errors import ErrorCode, ResourceNotFound
from mcp_core.methods import input_requests
from mcp_core.revisions import Era
from mcp_core.types import CreateExtensionTaskResult, InputRequiredResult
from mcp_core.types.meta import TASKS_EXTENSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.errors import RequestFailed
    from mcp_core.methods import CapabilityPath, RequestMethod
    from mcp_core.revisions import Revision
    from mcp_core.types import ClientCapabilities, WireObject

__all__ = [
    "CONDITIONAL_RESULTS",
    "allowed_results",
    "as_not_found",
    "code_for",
    "undeclared_need",
    "understands_tasks",
]

_TASKS: Final[CapabilityPath] = ("extensions", TASKS_EXTENSION)


CONDITIONAL_RESULTS: Final = (CreateExtensionTaskResult, InputRequiredResult)
"""The classes of results that may require client capabilities, see `undeclared_need`."""


def understands_tasks(capabilities: ClientCapabilities) -> bool:
    """Return whether a client with these capabilities accepts a task as a result (2026-07-28)."""
    return declared(capabilities, _TASKS)


@cache
def allowed_results(
    definition: RequestMethod[object, object], revision: Revision, *, tasks: bool
) -> Mapping[str, type[WireObject]]:
    """Return the class of the result for each `resultType`. The task type is included only if `tasks` is true."""
    return {kind: cls for kind, cls in definition.results(revision).items() if tasks or kind != "task"}


def undeclared_need(
    result: CreateExtensionTaskResult | InputRequiredResult, revision: Revision, capabilities: ClientCapabilities
) -> CapabilityPath | None:
    """Return the first undeclared client capability that a result requires, for an input request or for a task."""
    if isinstance(result, CreateExtensionTaskResult):
        return None if understands_tasks(capabilities) else _TASKS
    for input_request in (result.input_requests or {}).values():
        definition = input_requests(revision)[input_request.method]
        missing = missing_client_capability(capabilities, definition.client_capability, input_request.params)
        if missing is not None:
            return missing
    return None


_BY_TRAIT: Final[Mapping[int, str]] = {
    ErrorCode.RESOURCE_NOT_FOUND: "resource_not_found",
    ErrorCode.URL_ELICITATION_REQUIRED: "missing_url_elicitation",
    ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY: "missing_client_capability",
}
"""Codes that depend on the revision, and the trait of the revision that holds the number."""

_MODERN: Final = frozenset(
    {
        ErrorCode.HEADER_MISMATCH,
        ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY,
        ErrorCode.UNSUPPORTED_PROTOCOL_VERSION,
    }
)
"""Codes that only modern revisions define."""

_RESERVED: Final = range(-32099, -32019)
"""Codes that the specification reserves; no other meaning may be assigned. Spec: basic#error-codes (2026-07-28)"""


def code_for(error: RequestFailed, revision: Revision) -> int:
    """Return the error code under `revision`: some conditions have a different number or none in some revisions."""
    trait = _BY_TRAIT.get(error.code)
    if trait is not None:
        code = getattr(revision, trait)
        return int(ErrorCode.INVALID_REQUEST if code is None else code)
    if revision.era is Era.LEGACY:
        return int(ErrorCode.INVALID_REQUEST) if error.code in _MODERN else error.code
    return int(ErrorCode.INTERNAL_ERROR) if error.code in _RESERVED and error.code not in _MODERN else error.code


def as_not_found(error: RequestFailed, revision: Revision) -> RequestFailed:
    """Convert an error for a missing resource to `ResourceNotFound`, for any code that the revision uses."""
    names_uri = isinstance(error.data, dict) and "uri" in error.data
    if error.code == revision.resource_not_found and names_uri:
        return ResourceNotFound(error.message, code=error.code, data=error.data)
    return error
