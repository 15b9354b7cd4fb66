"""The handlers of client requests: functions of the application for elicitation, sampling and roots.

The client derives its capabilities from the handlers, so they are not declared separately. `Handlers` checks its
arguments when it is created.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote, unquote_to_bytes, urlsplit

import attrs

from mcp_client.worker_threads import check_plain
from mcp_core.engine.connection import Extensions
from mcp_core.errors import LocalProtocolError
from mcp_core.features.elicitation import ElicitationAccepted, ElicitationCancelled, ElicitationDeclined
from mcp_core.features.meta import IDENTIFIER
from mcp_core.field_methods import FieldValue
from mcp_core.methods import METHODS, NOTIFICATIONS
from mcp_core.types import (
    ClientCapabilities,
    ClientTaskRequests,
    ClientTasksCapability,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitationCapability,
    ElicitationTaskRequests,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    LoggingMessageNotificationParams,
    Root,
    RootsCapability,
    SamplingCapability,
    SamplingTaskRequests,
)
from mcp_core.types.meta import TASKS_EXTENSION

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.methods import NotificationMethod, RequestMethod

__all__ = [
    "ElicitAnswer",
    "ElicitHandler",
    "ElicitUrlHandler",
    "Handlers",
    "LogHandler",
    "MethodHandler",
    "NotificationHandler",
    "ProgressHandler",
    "RootsHandler",
    "SampleHandler",
    "check_roots",
]

ElicitAnswer: TypeAlias = (
    ElicitationAccepted[object] | ElicitationDeclined | ElicitationCancelled | Mapping[str, object] | ElicitResult
)
"""The decision of the user. A mapping is the content of an accepted form, with a value for each field.

The value of `ElicitationAccepted` is such a mapping, or an instance of a class with a member for each field; for a page it
is `None`. `ElicitResult` is the same on the level of the protocol."""

ElicitHandler: TypeAlias = Callable[[ElicitRequestFormParams], Awaitable[ElicitAnswer] | ElicitAnswer]
"""A plain or asynchronous function that shows a form to the user and returns the decision."""

ElicitUrlHandler: TypeAlias = Callable[[ElicitRequestURLParams], Awaitable[ElicitAnswer] | ElicitAnswer]
"""A plain or asynchronous function that asks the user for consent to visit a page, and opens the page. It must not open or
fetch the page without consent."""

SampleHandler: TypeAlias = Callable[[CreateMessageRequestParams], Awaitable[CreateMessageResult] | CreateMessageResult]
"""A plain or asynchronous function that passes a sampling request to a model. The user should see the request and the
result."""

RootsHandler: TypeAlias = Callable[[], Awaitable[Sequence[Root]] | Sequence[Root]]
"""A plain or asynchronous function that returns the roots: folders that the server may use. Each must exist on this
machine."""

LogHandler: TypeAlias = Callable[[LoggingMessageNotificationParams], None]
"""A function that receives a log message of the server. The text is untrusted: escape it for a terminal."""

ProgressHandler: TypeAlias = Callable[[float, float | None, str | None], Awaitable[None] | None]
"""A plain or asynchronous function that shows progress. It receives the progress, the total and a message; the total and the
message are `None` if unknown. The message is untrusted text of the server.

Spec: basic/utilities/progress

The task of the caller calls the function once for each notification, in order. All notifications that arrived before
the response are shown before the request returns. While an asynchronous function runs, up to 1,000 notifications are
queued; above that, the oldest are dropped. The deadlines of the request apply to the function too. A function that
still runs at the `total` deadline is cancelled, and the queued notifications are dropped. The request then returns its
result, if the result has arrived.
"""

MethodHandler: TypeAlias = Callable[..., object]  # type: ignore[explicit-any]  # parameters of any class
"""A plain or asynchronous function that receives the parameters of a request, of the class of its method, and returns the
result as an instance of its class or in its wire form."""

NotificationHandler: TypeAlias = Callable[..., None]  # type: ignore[explicit-any]  # parameters of any class
"""A function that receives the parameters of a notification, of the class of its method. It must not block."""

_NO_METHODS: Final[Mapping[RequestMethod[object, object], MethodHandler]] = {}
_NO_NOTIFICATIONS: Final[Mapping[NotificationMethod[object], NotificationHandler]] = {}


def check_roots(roots: Sequence[Root]) -> tuple[Root, ...]:
    """Check the roots and return them as a tuple. Spec: client/roots#security-considerations

    Raises:
        LocalProtocolError: A root is not an existing folder of this machine, or its path has `..`.
    """
    for root in roots:
        why = _why_no_folder(root)
        if why is not None:
            shown = repr(getattr(root, "uri", root))
            raise LocalProtocolError(
                f"Handlers.roots has {shown}, which is not a folder of this machine: {why}; give each as"
                " Root(uri=pathlib.Path(...).as_uri())",
                anchor="client/roots",
            )
    return tuple(roots)


def _checked_roots(roots: RootsHandler | Sequence[Root] | None) -> RootsHandler | tuple[Root, ...] | None:
    return roots if roots is None or callable(roots) else check_roots(roots)


def _why_no_folder(root: object) -> str | None:
    # A caller without a type checker may pass a string or a path.
    if not isinstance(root, Root):
        return f"it is of the class {type(root).__name__}"
    uri: object = root.uri
    if not isinstance(uri, str):
        return f"its uri is of the class {type(uri).__name__}"
    try:
        parts = urlsplit(uri)
    except ValueError as bad:
        return str(bad)
    path = unquote(parts.path)
    if parts.scheme != "file" or not uri[5:].startswith("//"):
        return "it does not begin with file://"
    if parts.query or parts.fragment:
        return "it has a query or a fragment"
    if not path.startswith("/"):
        return "its path is not absolute"
    if any(character < " " or character == "\x7f" for character in uri + path):
        return "it has control characters"
    if ".." in path.replace("\\", "/").split("/"):
        return "its path has '..'"
    if parts.netloc.lower() not in _THIS_MACHINE:
        return f"it is on the host {parts.netloc!r}"
    return _why_not_there(parts.path)


_THIS_MACHINE: Final = frozenset({"", "localhost"})
"""The hosts of a `file:` URI that mean this machine. Spec: RFC 8089 section 2"""


def _why_not_there(path: str) -> str | None:
    # Not in a thread: a stat of a local folder takes microseconds, and trio's test clock does not wait for threads.
    try:
        mode = os.stat(_native(path)).st_mode
    except OSError as error:
        return f"its path cannot be looked up: {error.strerror}"
    except ValueError as error:
        return f"its path cannot be looked up: {error}"
    return None if stat.S_ISDIR(mode) else "it is not a folder"


if sys.platform == "win32":

    def _native(path: str) -> str:
        """Return the path of a `file:` URI in the form of the operating system, with the drive first."""
        from urllib.request import url2pathname  # lazy: it is slow to import

        return url2pathname(path)

else:

    def _native(path: str) -> bytes:
        """Return the path of a `file:` URI in the form of the operating system. Names can have any encoding."""
        return unquote_to_bytes(path)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Handlers(FieldValue):
    """The handlers of client requests and notifications. The client declares capabilities only for the given handlers.

    The handlers of requests are coroutine functions, or plain functions, which run in worker threads. If the server
    cancels its request, the client does not wait for the plain function, and ignores its result. At most 8 plain
    functions of a connection run at once. Handlers of notifications and `log` are plain functions that must not block.

    Raises:
        LocalProtocolError: A root is not an existing folder of this machine; a method belongs to the specification; a
            handler is not a function of the required kind; or the name of an extension is invalid.
    """

    elicit: ElicitHandler | None = None
    """The handler of elicitation by form."""
    elicit_url: ElicitUrlHandler | None = None
    """The handler of elicitation by URL."""
    sample: SampleHandler | None = None
    """The handler of sampling requests."""
    sample_tools: bool = False
    """Whether `sample` supports tool use by the model, which the client then declares."""
    roots: RootsHandler | Sequence[Root] | None = attrs.field(default=None, converter=_checked_roots)
    """The roots, or a function that returns them if they change. Each is an existing folder of this machine. The result
    of a function is checked at each call; an invalid root is logged, and the server gets an internal error."""
    log: LogHandler | None = None
    """The handler of log messages; `None` to write them to the logger `mcp_client.server`."""
    extensions: Mapping[str, JsonObject] | None = None
    """The extensions that the application supports, settings by identifier. Extensions of `methods` need no entry."""
    methods: Mapping[RequestMethod[object, object], MethodHandler] = attrs.field(default=_NO_METHODS)
    """Functions for requests that a legacy server sends by an extension, by method."""
    notifications: Mapping[NotificationMethod[object], NotificationHandler] = attrs.field(default=_NO_NOTIFICATIONS)
    """Handlers of notifications of an extension or of the specification, by method."""
    experimental: Mapping[str, JsonObject] | None = None
    """The experimental capabilities outside of the specification, by name."""
    tasks: bool = True
    """Whether servers may respond to tool calls with tasks, in 2026-07-28: `Client.call_tool` waits for them."""
    accept_tasks: bool = False
    """Whether the client supports task-augmented client requests, in 2025-11-25: for `sample`, `elicit` and
    `elicit_url`. Their tasks are kept in memory, for at most one hour, and end with the connection."""

    def __attrs_post_init__(self) -> None:
        for definition in self.methods:
            if definition in METHODS:
                raise LocalProtocolError(
                    f"{definition.name} belongs to the specification: use the handler of that name in Handlers"
                )
        for definition, function in self.methods.items():
            if not callable(function):
                raise LocalProtocolError(f"the handler of {definition.name} must be a function")
        for notification, listener in self.notifications.items():
            check_plain(listener, f"the handler of {notification.name}")
        check_plain(self.log, "Handlers.log")
        for identifier in self.extensions or ():
            if IDENTIFIER.fullmatch(identifier) is None:
                raise LocalProtocolError(
                    f"invalid extension identifier {identifier!r}: it must be a reversed domain, a slash and a"
                    " name, for example 'com.example/search'"
                )

    def extended(self, extensions: Extensions | None) -> Extensions:
        """Return the given extension methods together with those of the handlers."""
        given = extensions or Extensions()
        return Extensions(
            methods={**given.methods, **{definition.name: definition for definition in self.methods}},
            notifications={
                **given.notifications,
                **{definition.name: definition for definition in self.notifications if definition not in NOTIFICATIONS},
            },
        )

    def capabilities(self) -> ClientCapabilities:
        """Return the capabilities that a client with these handlers declares."""
        elicitation = None
        if self.elicit is not None or self.elicit_url is not None:
            elicitation = ElicitationCapability(
                form={} if self.elicit is not None else None, url={} if self.elicit_url is not None else None
            )
        return ClientCapabilities(
            roots=None if self.roots is None else RootsCapability(list_changed=True),
            sampling=None if self.sample is None else SamplingCapability(tools={} if self.sample_tools else None),
            elicitation=elicitation,
            tasks=self._own_tasks(),
            extensions={
                **({TASKS_EXTENSION: {}} if self.tasks else {}),
                **{definition.extension: {} for definition in self.methods if definition.extension},
                **(self.extensions or {}),
            }
            or None,
            experimental=self.experimental,
        )

    def _own_tasks(self) -> ClientTasksCapability | None:
        elicits = self.elicit is not None or self.elicit_url is not None
        if not self.accept_tasks or not (elicits or self.sample is not None):
            return None
        requests = ClientTaskRequests(
            sampling=None if self.sample is None else SamplingTaskRequests(create_message={}),
            elicitation=ElicitationTaskRequests(create={}) if elicits else None,
        )
        return ClientTasksCapability(list={}, cancel={}, requests=requests)
