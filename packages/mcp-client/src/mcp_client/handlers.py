"""What the application offers to servers: functions that ask the user, a model, or tell the roots.

The capabilities that a client declares follow from the functions that are given; they are never declared twice.
What is wrong with them is said where they are given.
"""

from __future__ import annotations

import inspect
import os
import stat
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import unquote, unquote_to_bytes, urlsplit

import attrs

from mcp_core.engine.connection import Extensions
from mcp_core.errors import LocalProtocolError
from mcp_core.features.meta import IDENTIFIER
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
    from mcp_core.methods import Method, NotificationRow

__all__ = [
    "ElicitHandler",
    "ElicitUrlHandler",
    "Handlers",
    "LogHandler",
    "MethodHandler",
    "NotificationHandler",
    "RootsHandler",
    "SampleHandler",
    "check_roots",
]

ElicitHandler: TypeAlias = Callable[[ElicitRequestFormParams], Awaitable[ElicitResult]]
"""Shows the user a form and gives the answer, or says that it was declined or dismissed."""

ElicitUrlHandler: TypeAlias = Callable[[ElicitRequestURLParams], Awaitable[ElicitResult]]
"""Asks the user whether to visit a page, and opens it if so. It must not be opened, or fetched, without consent."""

SampleHandler: TypeAlias = Callable[[CreateMessageRequestParams], Awaitable[CreateMessageResult]]
"""Asks a model. The user should see what is asked, and what came out."""

RootsHandler: TypeAlias = Callable[[], Awaitable[Sequence[Root]]]
"""Returns the folders that the server may look at. Each has to exist on this machine when it is returned."""

LogHandler: TypeAlias = Callable[[LoggingMessageNotificationParams], None]
"""Takes a log message of the server. Its text was written there: nothing to be shown in a terminal as it is."""

MethodHandler: TypeAlias = Callable[..., Awaitable[object]]  # type: ignore[explicit-any]  # parameters of any class
"""Takes the parameters of a request, as the row of its method has them, and gives its result, or that in wire form."""

NotificationHandler: TypeAlias = Callable[..., None]  # type: ignore[explicit-any]  # parameters of any class
"""Takes the parameters of a notification, as its row has them. It must not wait."""

_NO_METHODS: Final[Mapping[Method[object, object], MethodHandler]] = {}
_NO_NOTIFICATIONS: Final[Mapping[NotificationRow[object], NotificationHandler]] = {}


def check_roots(roots: Sequence[Root]) -> tuple[Root, ...]:
    """Return the roots as they are sent. Spec: client/roots#security-considerations

    Raises:
        LocalProtocolError: One of them is not a folder of this machine, or leads out of itself.
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
    # A caller without a type checker may give a text, or a path.
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
    # No thread: a stat of a local folder takes microseconds, and trio's test clock runs ahead of threads.
    try:
        mode = os.stat(_native(path)).st_mode
    except OSError as error:
        return f"its path cannot be looked up: {error.strerror}"
    except ValueError as error:
        return f"its path cannot be looked up: {error}"
    return None if stat.S_ISDIR(mode) else "it is not a folder"


if sys.platform == "win32":

    def _native(path: str) -> str:
        """Return the path in a `file:` URI as the system has it, with the drive first."""
        from urllib.request import url2pathname  # lazy: it is slow to import

        return url2pathname(path)

else:

    def _native(path: str) -> bytes:
        """Return the path in a `file:` URI as the system has it. The name of a folder need not be UTF-8."""
        return unquote_to_bytes(path)


@attrs.frozen(kw_only=True)
class Handlers:
    """What the application offers to servers. What is left out is not offered.

    Raises:
        LocalProtocolError: A root is not a folder of this machine that exists; a method is the specification's own; something is no
            function, or of the wrong kind; or the name of an extension is none.
    """

    elicit: ElicitHandler | None = None
    """Asks the user by form."""
    elicit_url: ElicitUrlHandler | None = None
    """Sends the user to a page."""
    sample: SampleHandler | None = None
    """Asks a model."""
    sample_tools: bool = False
    """`sample` can let the model use tools, and is so declared."""
    roots: RootsHandler | Sequence[Root] | None = attrs.field(default=None, converter=_checked_roots)
    """The roots, or a function that gives them: where they change. Each is a folder of this machine that exists; what a
    function gives is checked when it is asked, and a mistake there is logged and an internal error for the server."""
    log: LogHandler | None = None
    """Takes log messages; without it they go to the logger `mcp_client.server`."""
    extensions: Mapping[str, JsonObject] | None = None
    """Extensions that the application supports: identifier and settings. Those of `methods` need no entry."""
    methods: Mapping[Method[object, object], MethodHandler] = attrs.field(default=_NO_METHODS)
    """Coroutine functions for what a legacy server may request by an extension, by the row of the method."""
    notifications: Mapping[NotificationRow[object], NotificationHandler] = attrs.field(default=_NO_NOTIFICATIONS)
    """Functions that take notifications, of an extension or of the specification, by their row."""
    experimental: Mapping[str, JsonObject] | None = None
    """Things outside of the specification, by name."""
    tasks: bool = True
    """Servers may answer tool calls with tasks, on 2026-07-28: `Client.call_tool` waits for them."""
    answer_as_tasks: bool = False
    """What `sample`, `elicit` and `elicit_url` answer may be asked for as tasks, in 2025-11-25: the server then has the
    answer later. They are kept in memory, for an hour at most, and end with the connection."""

    def __attrs_post_init__(self) -> None:
        for row in self.methods:
            if row in METHODS:
                raise LocalProtocolError(
                    f"{row.name} is the specification's own: it is answered by what has a name here"
                )
        for row, function in self.methods.items():
            if not _waits(function):
                raise LocalProtocolError(f"what answers {row.name} has to be a coroutine function; write `async def`")
        for notification, listener in self.notifications.items():
            if not _plain(listener):
                raise LocalProtocolError(f"what takes {notification.name} has to be a plain function; write `def`")
        for identifier in self.extensions or ():
            if IDENTIFIER.fullmatch(identifier) is None:
                raise LocalProtocolError(
                    f"{identifier!r} is no name of an extension: it is a domain that is yours, reversed, a slash and a"
                    " name, as 'com.example/search'"
                )

    def extended(self, extensions: Extensions | None) -> Extensions:
        """The methods and notifications beyond the specification: those given, and those that are taken here."""
        given = extensions or Extensions()
        return Extensions(
            methods={**given.methods, **{row.name: row for row in self.methods}},
            notifications={
                **given.notifications,
                **{row.name: row for row in self.notifications if row not in NOTIFICATIONS},
            },
        )

    def capabilities(self) -> ClientCapabilities:
        """What a client with these handlers declares."""
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
                **{row.extension: {} for row in self.methods if row.extension},
                **(self.extensions or {}),
            }
            or None,
            experimental=self.experimental,
        )

    def _own_tasks(self) -> ClientTasksCapability | None:
        asks = self.elicit is not None or self.elicit_url is not None
        if not self.answer_as_tasks or not (asks or self.sample is not None):
            return None
        requests = ClientTaskRequests(
            sampling=None if self.sample is None else SamplingTaskRequests(create_message={}),
            elicitation=ElicitationTaskRequests(create={}) if asks else None,
        )
        return ClientTasksCapability(list={}, cancel={}, requests=requests)


def _waits(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004  an object may be called, too


def _plain(function: object) -> bool:
    return callable(function) and not _waits(function)
