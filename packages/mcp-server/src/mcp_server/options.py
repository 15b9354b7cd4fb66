"""What can be said of a tool, a resource or a prompt when it is registered, besides what its function says.

What is wrong with it is said there and then. Else the whole list could not be sent because of one wrong title.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypedDict, cast

from mcp_core.conversion.converter import converter
from mcp_core.errors import LocalProtocolError
from mcp_core.jsonrpc.text import write
from mcp_core.revisions import LATEST
from mcp_server.cache_hint import CacheHint
from mcp_server.errors import RegistrationError

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.types import Annotations, Icon, ToolAnnotations, WireObject

__all__ = [
    "Options",
    "PromptOptions",
    "ResourceOptions",
    "TaskSupport",
    "ToolOptions",
    "check_kinds",
    "check_listed",
    "check_options",
    "check_text",
]

TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]
"""Whether a tool may, or has to, run as a task."""


class Options(TypedDict, total=False):
    """What tools, resources and prompts have in common. Everything may be left out."""

    name: str | None
    """The name for programs; that of the function by default."""
    title: str | None
    """The name for people."""
    description: str | None
    """What it is or does, for the model; from the docstring by default."""
    icons: Iterable[Icon]
    """Its pictures."""
    meta: JsonObject | None
    """Its `_meta`."""
    thread: bool | None
    """Whether a plain function runs in a worker thread; it does by default."""


class ToolOptions(Options, total=False):
    """What can be said of a tool."""

    input_schema: JsonObject | None
    """The JSON Schema of the arguments, instead of one that follows from the signature. The arguments are validated by it,
    and given to the function's only parameter as they came."""
    annotations: ToolAnnotations | None
    """Hints on what it does."""
    task: TaskSupport
    """Whether it may run as a task, which is answered later: `forbidden` (the default), `optional` or `required`. In
    2025-11-25 the client chooses where it is optional; in the extension of 2026-07-28 it is always a task for clients that
    have the extension. Others get the result in the answer, or, where it is required, an error."""
    task_at_once: bool
    """Whether a call becomes a task before the function begins, as it does by default; otherwise where the function says
    so, by `Context.begin_task`. In 2025-11-25 it is always at once."""
    resumable: bool
    """Whether a task that was interrupted, because the server was stopped, runs again from its top when it is started.
    By default it has failed then. See `Context.once` for what must not happen twice."""


class ResourceOptions(Options, total=False):
    """What can be said of a resource."""

    mime_type: str | None
    """Its media type; of a template, when all its resources have the same."""
    annotations: Annotations | None
    """Hints."""
    size: int | None
    """Its size in bytes; not for templates."""
    cache: CacheHint | None
    """How long a client may use its contents again; by default not at all. A function that returns `ReadResourceResult` says
    it there."""


class PromptOptions(Options, total=False):
    """What can be said of a prompt."""


_KINDS: Final[Mapping[str, tuple[type, str]]] = {
    "name": (str, "a text"),
    "icons": (Iterable, "several icons"),
    "thread": (bool, "True or False"),
    "input_schema": (dict, "a dict"),
    "task_at_once": (bool, "True or False"),
    "resumable": (bool, "True or False"),
    "cache": (CacheHint, "a CacheHint"),
}
"""The class of an option, where the types of the protocol do not say it."""


def check_options(where: str, given: Options, known: frozenset[str]) -> None:
    """Whether options are such, and of their classes, before anything is made of them.

    Args:
        where: What they are of, for errors.
        given: The options.
        known: The names that there are.

    Raises:
        RegistrationError: One is not known, or of another class.
    """
    for name, value in given.items():
        if name not in known:
            raise RegistrationError(f"{where}: there is no option {name!r}; there are {', '.join(sorted(known))}")
        kind, said = _KINDS.get(name, (object, ""))
        if value is not None and not isinstance(value, kind):
            raise RegistrationError(f"{where}: the option {name!r} is {said}, not {value!r}")


def check_listed(where: str, value: WireObject) -> None:
    """Whether something can be listed: all that was said of it fits the protocol, and JSON can say it.

    Args:
        where: What it is made of, for errors.
        value: The tool, resource, template or prompt.

    Raises:
        RegistrationError: It cannot; the error names the member.
    """
    try:
        write(converter(LATEST).unstructure(value))
    except LocalProtocolError as error:
        raise RegistrationError(f"{where}: {error.message}") from error


def check_kinds(where: str, **given: tuple[object, object]) -> None:
    """Whether arguments are of their classes, or `None`.

    Args:
        where: What they are of, for errors.
        **given: Each with its class.

    Raises:
        RegistrationError: One is of another class.
    """
    for name, (value, kind) in given.items():
        if value is not None and not isinstance(value, cast("type", kind)):  # abstract classes are no `type` to mypy
            expected = getattr(kind, "__name__", kind)
            raise RegistrationError(f"{where}: `{name}` takes {expected}, not {value!r}")


def check_text(what: str, value: object) -> None:
    """Raises `RegistrationError` when `what` is no text."""
    if not isinstance(value, str):
        raise RegistrationError(f"{what} is a text, not {value!r}")
