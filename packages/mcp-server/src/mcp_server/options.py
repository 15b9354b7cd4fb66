"""Options of tools, resources and prompts at registration, in addition to the properties of their functions.

Registration checks all options. Otherwise one invalid title would make the whole list unsendable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypedDict, cast

from mcp_core.conversion.converter import converter
from mcp_core.errors import LocalProtocolError
from mcp_core.json_text import write
from mcp_core.revisions import LATEST
from mcp_server.cache_hint import CacheHint
from mcp_server.errors import RegistrationError

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.trio.async_library import AsyncLibrary
    from mcp_core.types import Annotations, Icon, ToolAnnotations, WireObject

__all__ = [
    "Options",
    "PromptOptions",
    "ResourceOptions",
    "TaskSupport",
    "ToolOptions",
    "check_async_library",
    "check_kinds",
    "check_listed",
    "check_options",
    "check_text",
]

TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]
"""Whether a tool can or must run as a task."""


class Options(TypedDict, total=False):
    """Options that tools, resources and prompts have in common. All of them are optional."""

    name: str | None
    """Name for programs; the name of the function by default."""
    title: str | None
    """Name for users."""
    description: str | None
    """Description for the model; taken from the docstring by default."""
    icons: Iterable[Icon]
    """Icons."""
    meta: JsonObject | None
    """Value of `_meta`."""
    thread: bool | None
    """Whether a plain function runs in a worker thread, which is the default."""
    async_library: AsyncLibrary | None
    """The async library that a coroutine function and its providers are written for; that of the server by default."""


class ToolOptions(Options, total=False):
    """Options of a tool."""

    input_schema: JsonObject | None
    """JSON Schema of the arguments, instead of the schema derived from the signature. The server validates the
    arguments with it, and passes them unchanged to the only parameter of the function."""
    annotations: ToolAnnotations | None
    """Hints about the behavior of the tool."""
    task: TaskSupport
    """Whether the tool runs as a task: `forbidden` (the default), `optional` or `required`. In revision 2025-11-25 the
    client chooses if the value is `optional`. In the extension of 2026-07-28, the tool always runs as a task for
    clients that support the extension. Other clients receive the result in the response, or an error if the value is
    `required`."""
    start_as_task: bool
    """Whether a call becomes a task before the function starts, which is the default. Otherwise the function begins the
    task with `Context.begin_task`. In revision 2025-11-25, a task always begins before the function starts."""
    resumable: bool
    """Whether a task that was interrupted by a stop of the server runs again from its start when the server starts. By
    default the task fails. Use `Context.once` for actions that must not run twice."""


class ResourceOptions(Options, total=False):
    """Options of a resource."""

    mime_type: str | None
    """Media type. For a template: only if all of its resources have the same media type."""
    annotations: Annotations | None
    """Annotations: audience, priority and time of the last change."""
    size: int | None
    """Size in bytes; not for templates."""
    cache: CacheHint | None
    """Cache hint for the contents; by default clients do not reuse them. A function that returns `ReadResourceResult`
    sets the hint in its result."""


class PromptOptions(Options, total=False):
    """Options of a prompt."""


_KINDS: Final[Mapping[str, tuple[type, str]]] = {
    "name": (str, "a string"),
    "icons": (Iterable, "an iterable of icons"),
    "thread": (bool, "True or False"),
    "async_library": (str, "'asyncio' or 'trio'"),
    "input_schema": (dict, "a dict"),
    "start_as_task": (bool, "True or False"),
    "resumable": (bool, "True or False"),
    "cache": (CacheHint, "a CacheHint"),
}
"""The class of an option that the protocol types do not check, and its description."""


def check_options(where: str, given: Options, known: frozenset[str]) -> None:
    """Check the names and the classes of options.

    Args:
        where: The object that has the options, for error messages.
        given: The options.
        known: The known names.

    Raises:
        RegistrationError: An option is unknown or has another class.
    """
    for name, value in given.items():
        if name not in known:
            raise RegistrationError(f"{where}: unknown option {name!r}; the options are {', '.join(sorted(known))}")
        kind, said = _KINDS.get(name, (object, ""))
        if value is not None and not isinstance(value, kind):
            raise RegistrationError(f"{where}: option {name!r} must be {said}, not {value!r}")
    check_async_library(where, given.get("async_library"))


def check_async_library(where: str, library: object) -> None:
    """Raise `RegistrationError` if a value is neither a supported async library nor `None`."""
    if library not in {None, "asyncio", "trio"}:
        raise RegistrationError(f"{where}: async_library must be 'asyncio' or 'trio', not {library!r}")


def check_listed(where: str, value: WireObject) -> None:
    """Check that an object can be listed: its members conform to the protocol and can be encoded as JSON.

    Args:
        where: The function or object that it is made of, for error messages.
        value: The tool, resource, template or prompt.

    Raises:
        RegistrationError: The object cannot be listed. The message contains the member.
    """
    try:
        write(converter(LATEST).unstructure(value))
    except LocalProtocolError as error:
        raise RegistrationError(f"{where}: {error.message}") from error


def check_kinds(where: str, **given: tuple[object, object]) -> None:
    """Check that each argument is `None` or an instance of its class.

    Args:
        where: The object that has the arguments, for error messages.
        **given: Each argument with its class.

    Raises:
        RegistrationError: An argument has another class.
    """
    for name, (value, kind) in given.items():
        if value is not None and not isinstance(
            value, cast("type", kind)
        ):  # abstract classes are not a `type` for mypy
            expected = getattr(kind, "__name__", kind)
            raise RegistrationError(f"{where}: `{name}` takes {expected}, not {value!r}")


def check_text(what: str, value: object) -> None:
    """Raise `RegistrationError` if a value is not a string. `what` names the value in the message."""
    if not isinstance(value, str):
        raise RegistrationError(f"{what} must be a string, not {value!r}")
