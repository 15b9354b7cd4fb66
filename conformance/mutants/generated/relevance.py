"""The relevance of checks: which requirements a generated fault can violate.

A fault is named rightly by a check that proves a requirement of an area that the fault violates. A check of the level
MUST that proves none fails for a wrong reason. The tables map the area of the target, and operators whose violation lies
elsewhere, to areas of requirements: the first parts of their ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.catalogue.requirements import Level

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.model.check import CheckInfo
    from mutants.generated.fault import GeneratedFault

__all__ = ["is_related", "is_unrelated_must", "related_areas"]

_MESSAGES: Final = frozenset({"jsonrpc", "schema", "error"})
"""The areas that any fault in a message can violate: framing, definitions and errors."""
_CARRIER: Final = frozenset({"jsonrpc", "http", "sse", "http-sse", "session", "header", "resume", "version"})
"""The areas of what carries messages over HTTP."""
_OF_LISTS: Final = frozenset({"pagination", "caching", "capability"})
_OF_RESULTS: Final = frozenset({"caching", "mrtr", "meta"})

_DECLARED: Final = frozenset(
    {"logging", "completion", "prompts", "resources", "skills", "tools", "tasks", "subscription"}
)
"""The areas of the features that capabilities declare."""

_BY_AREA: Final[Mapping[str, frozenset[str]]] = {
    "jsonrpc": _MESSAGES
    | {"meta", "mrtr", "ping", "batch", "lifecycle", "version", "discover", "compat", "cancellation", "progress"},
    # The response to a batch is a body too.
    "http": _CARRIER | {"security", "auth", "batch", "compat"},
    "sse": _CARRIER,
    "stdio": frozenset({"stdio", "jsonrpc"}),
    "lifecycle": _MESSAGES
    | {"lifecycle", "version", "capability", "meta", "session", "compat", "discover", *_DECLARED},
    "discover": _MESSAGES | {"discover", "version", "capability", "compat", *_OF_RESULTS, *_DECLARED},
    # The batch that a client gets holds pings.
    "ping": _MESSAGES | {"batch", "ping"},
    "completion": _MESSAGES | {"completion", *_OF_RESULTS},
    "logging": _MESSAGES | {"logging", "capability", "meta"},
    "progress": _MESSAGES | {"progress", "meta"},
    # Over stdio it also ends subscriptions.
    "cancellation": _MESSAGES | {"cancellation", "subscription", "tasks"},
    # A subscription may name tasks.
    "subscription": _MESSAGES | {"subscription", "resources", "tasks", "meta"},
    # A call may return a task, and require an elicitation.
    "tools": _MESSAGES
    | {"subscription", "tools", "tasks", "elicitation", "resources", *_OF_LISTS, *_OF_RESULTS, "header"},
    # The files of skills are resources.
    "resources": _MESSAGES | {"header", "resources", "skills", "subscription", *_OF_LISTS, *_OF_RESULTS},
    "skills": _MESSAGES | {"resources", "skills", *_OF_LISTS, *_OF_RESULTS},
    "prompts": _MESSAGES | {"header", "subscription", "prompts", "resources", *_OF_LISTS, *_OF_RESULTS},
    "roots": _MESSAGES | {"roots", "capability", "mrtr"},
    "sampling": _MESSAGES | {"sampling", "capability", "mrtr", "tools", "progress", "meta", "tasks"},
    "elicitation": _MESSAGES | {"elicitation", "capability", "mrtr", "progress", "meta", "tasks"},
    "tasks": _MESSAGES | {"tasks", "meta", "mrtr", *_OF_LISTS},
    "auth": frozenset({"auth", "client-credentials", "dpop", "ema", "http", "security", "session", "wif"}),
}
"""By area of a target, the areas of the requirements that a fault in it can violate."""

_BY_OPERATOR: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    # A method that a declared capability has exists.
    ("error-code-method", frozenset({"capability"})),
    # A header names the method, too.
    ("method-", frozenset({"header"})),
    # The fixture tools change what their arguments name.
    ("arguments-ignored", frozenset({"resources"})),
    # The request may have been cancelled.
    ("notification-again", frozenset({"cancellation", "http"})),
    *((f"{kind}-other-stream", _CARRIER) for kind in ("notification", "response", "request")),
    ("origin-", frozenset({"http", "security"})),
    ("credentials-", frozenset({"auth", "security", "http"})),
    ("progress-token-", frozenset({"progress", "meta"})),
    ("cancellation-ignored", frozenset({"cancellation", "progress"})),
    ("capabilities-ignored", frozenset({"capability", "elicitation", "sampling", "roots", "mrtr"})),
    ("answers-ignored", frozenset({"mrtr", "elicitation", "sampling", "roots"})),
    ("state-ignored", frozenset({"mrtr"})),
    ("task-", frozenset({"tasks", "progress"})),
    # Over HTTP the status is that of an error, and each of several requests gets its own response.
    *((kind, frozenset({"http"})) for kind in ("response-as-result", "response-both", "request-id-")),
    # The request has no response that the peer can read.
    ("response-in-array", frozenset({"http", "stdio", "elicitation", "roots", "sampling"})),
    # A server does not take the responses of a client that it rejects by their headers.
    ("sent-", frozenset({"ping", "elicitation", "roots", "sampling"})),
    # The first line of the client is a log line, not `initialize`.
    ("line-log-json", frozenset({"lifecycle"})),
    ("user-other", frozenset({"tasks", "security", "session", "mrtr", "subscription", *_DECLARED})),
    ("session-undeleted", frozenset({"session"})),
    ("endpoint-", frozenset({"http-sse"})),
    ("open-", frozenset({"lifecycle", "ping"})),
    ("cursor-ignored", frozenset({"pagination"})),
    ("near-cursor", frozenset({"pagination"})),
    ("token-", frozenset({"progress", "meta"})),
    # Each method has the errors for an unsupported version, a missing capability and headers that do not match.
    *(
        (kind, frozenset({"version", "header", "capability", "meta"}))
        for kind in ("error-code-", "response-as-result", "response-id-other")
    ),
)
"""By beginning of the name of an operator, further areas."""


_BY_DETAIL: Final[tuple[tuple[str, frozenset[str]], ...]] = (
    ("_meta", frozenset({"meta"})),
    ("progressToken", frozenset({"progress"})),
    ("apabilities", frozenset({"capability", *_DECLARED})),
    ("apabilities.elicitation", frozenset({"elicitation"})),
    ("apabilities.sampling", frozenset({"sampling"})),
    ("logLevel", frozenset({"logging"})),
    ("protocolVersion", frozenset({"version", "header"})),
    ("inputRequests", frozenset({"roots", "sampling", "elicitation", "mrtr"})),
    ("inputResponses", frozenset({"roots", "sampling", "elicitation", "mrtr"})),
)
"""By a part of the member or header, further areas: any message may have them in its metadata."""


def related_areas(fault: GeneratedFault) -> frozenset[str]:
    """Return the areas of the requirements that a fault can violate."""
    further = [areas for beginning, areas in _BY_OPERATOR if fault.operator.name.startswith(beginning)]
    further += [areas for part, areas in _BY_DETAIL if part in fault.target.detail]
    return _BY_AREA.get(fault.area, _MESSAGES).union(*further)


def is_related(check: CheckInfo, fault: GeneratedFault) -> bool:
    """Return whether a check proves a requirement that the fault can violate."""
    areas = related_areas(fault)
    return any(row.area in areas for row in check.requirements(fault.leg.revision))


def is_unrelated_must(check: CheckInfo, fault: GeneratedFault) -> bool:
    """Return whether a check of the level MUST proves no requirement that the fault can violate."""
    return check.level(fault.leg.revision) is Level.MUST and not is_related(check, fault)
