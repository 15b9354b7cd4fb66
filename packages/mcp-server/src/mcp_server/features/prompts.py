"""Prompts: the registry, `prompts/list` and `prompts/get`. Spec: server/prompts"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Unpack, cast

import attrs

from mcp_core.errors import ErrorCode, RequestFailed
from mcp_core.field_methods import FieldRepr
from mcp_core.methods import PROMPTS_GET, PROMPTS_LIST
from mcp_core.schema.type_spec import describe_object
from mcp_core.types import (
    AudioContent,
    EmbeddedResource,
    GetPromptRequestParams,
    GetPromptResult,
    ImageContent,
    ListPromptsResult,
    Prompt,
    PromptMessage,
    PromptsCapability,
    ResourceLink,
    TextContent,
)
from mcp_server.errors import InvalidResult, RegistrationError
from mcp_server.features.listing import PagedList, unknown
from mcp_server.features.results import Audio, File, Image, fit_prompt
from mcp_server.handlers.dependencies import INJECTED
from mcp_server.handlers.runner import Runner, described, named
from mcp_server.options import PromptOptions, check_listed, check_options
from mcp_server.schema.signature import InvalidArguments, label
from mcp_server.schema.text_arguments import PromptParameters, prompt_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.schema.annotations import Function as AnyFunction
    from mcp_server.connection.channel import Handler, RequestContext
    from mcp_server.handlers.environment import HandlerEnvironment

__all__ = ["Prompts"]


@attrs.define(eq=False, repr=False)
class _Entry(FieldRepr):
    prompt: Prompt
    function: Runner
    parameters: PromptParameters


class Prompts:
    """The prompts of a server.

    Args:
        environment: The environment of the handlers of the server.
        changed: Called when the list has changed.
    """

    def __init__(self, environment: HandlerEnvironment, changed: Callable[[], None]) -> None:
        self._environment: Final = environment
        self._changed: Final = changed
        self._entries: Final[dict[str, _Entry]] = {}
        self.listing: Final = PagedList(environment, "prompt", environment.hinted(ListPromptsResult(prompts=())))
        self.handlers: Final[Mapping[str, Handler]] = {
            PROMPTS_LIST.name: self.listing.answer,
            PROMPTS_GET.name: self._get,
        }
        """Handlers of the methods of this feature, by method."""

    @property
    def listed(self) -> tuple[Prompt, ...]:
        """All prompts, in the order of their registration."""
        return tuple(entry.prompt for entry in self._entries.values())

    @property
    def capability(self) -> PromptsCapability | None:
        """The capability to declare; `None` if there are no prompts."""
        return PromptsCapability(list_changed=True) if self.listing.offers else None

    def add(self, function: AnyFunction, **options: Unpack[PromptOptions]) -> None:
        """Register a prompt. Raises `RegistrationError`. See `Server.add_prompt`."""
        check_options(label(function), options, PromptOptions.__optional_keys__)
        read = prompt_arguments(function, injected=INJECTED, converter=self._environment.converter)
        name = named(function, options)
        if not name:
            raise RegistrationError(f"{label(function)}: the prompt has no name; pass `name`")
        if name in self._entries:
            raise RegistrationError(f"{label(function)}: there is already a prompt named {name!r}; pass another `name`")
        prompt = Prompt(
            name=name,
            title=options.get("title"),
            description=described(read.description, options),
            arguments=read.arguments or None,
            icons=tuple(options.get("icons", ())) or None,
            meta=options.get("meta"),
        )
        check_listed(label(function), prompt)
        run = Runner(
            function,
            read.injected,
            thread=options.get("thread"),
            async_library=options.get("async_library"),
            environment=self._environment,
        )
        self._entries[name] = _Entry(prompt, run, read)
        self.listing.add(name, prompt)
        self._changed()

    def remove(self, name: str) -> None:
        """Remove a prompt. Raises `RegistrationError` if it is not registered."""
        if name not in self._entries:
            raise RegistrationError(f"there is no prompt named {name!r} to remove")
        del self._entries[name]
        self.listing.remove(name)
        self._changed()

    def arguments(self, name: str) -> tuple[str, ...] | None:
        """Return the names of the arguments of a prompt; `None` if there is no prompt with this name."""
        entry = self._entries.get(name)
        return None if entry is None else tuple(argument.name for argument in entry.parameters.arguments)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all prompts."""
        return tuple(self._entries)

    async def _get(self, call: RequestContext) -> GetPromptResult:
        params = cast("GetPromptRequestParams", call.request.params)  # converted by the engine to the method's class
        entry = self._entries.get(params.name)
        if entry is None or not await self._environment.guard.allows(call, "prompt", params.name):
            raise unknown("prompt", params.name, self._entries, self._environment.guard)
        try:
            arguments = entry.parameters.bind(params.arguments or {})
        except InvalidArguments as bad:
            raise RequestFailed(f"prompt {params.name!r}: {bad.sentence}", code=ErrorCode.INVALID_PARAMS) from bad
        value = await entry.function(call, arguments)
        if not isinstance(value, GetPromptResult):
            items = value if isinstance(value, list | tuple) else [value]
            messages = tuple(_message(item, entry.prompt.name) for item in items)
            value = GetPromptResult(messages=messages, description=entry.prompt.description)
        return fit_prompt(value, call.request.peer.revision)


_BLOCKS: Final = (TextContent, ImageContent, AudioContent, EmbeddedResource, ResourceLink)


def _message(value: object, name: str) -> PromptMessage:
    """Convert a value to a message. The role is `user` unless the value is a `PromptMessage`."""
    match value:
        case PromptMessage():
            return value
        case str():
            return PromptMessage(role="user", content=TextContent(text=value))
        case Image() | Audio() | File():
            return PromptMessage(role="user", content=value.to_content())
    if isinstance(value, _BLOCKS):
        return PromptMessage(role="user", content=value)
    raise InvalidResult(
        f"the function of the prompt {name!r} returned {describe_object(value)}; "
        "a prompt consists of strings, content blocks and PromptMessage"
    )
