"""Completion of the arguments of prompts and templates. Spec: server/utilities/completion"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import attrs

from mcp_core.errors import ErrorCode, RequestFailed
from mcp_core.excerpts import quoted
from mcp_core.field_methods import FieldRepr
from mcp_core.methods import COMPLETION_COMPLETE
from mcp_core.types import (
    MAX_COMPLETION_VALUES,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    PromptReference,
)
from mcp_server.errors import InvalidResult, RegistrationError
from mcp_server.features.listing import unknown
from mcp_server.handlers.dependencies import INJECTED
from mcp_server.handlers.runner import Runner
from mcp_server.schema.signature import label, read_signature

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.schema.annotations import Function as AnyFunction
    from mcp_server.connection.channel import Handler, RequestContext
    from mcp_server.features.prompts import Prompts
    from mcp_server.features.resources import Resources
    from mcp_server.handlers.environment import HandlerEnvironment

__all__ = ["Completions"]

_ARGUMENTS: Final = "arguments"
"""The parameter that receives the values of the other arguments."""


@attrs.define(eq=False, repr=False)
class _Entry(FieldRepr):
    function: Runner
    value: str
    """The name of the parameter that receives the text entered so far."""
    wants_arguments: bool


class Completions:
    """The completion functions for the arguments of a server's prompts and resource templates.

    Args:
        environment: The environment of the handlers of the server.
        prompts: Its prompts.
        resources: Its resources.
    """

    def __init__(self, environment: HandlerEnvironment, prompts: Prompts, resources: Resources) -> None:
        self._environment: Final = environment
        self._prompts: Final = prompts
        self._resources: Final = resources
        self._entries: Final[dict[tuple[bool, str, str], _Entry]] = {}
        self.handlers: Final[Mapping[str, Handler]] = {COMPLETION_COMPLETE.name: self._complete}
        """Handlers of the methods of this feature, by method."""

    @property
    def capability(self) -> JsonObject | None:
        """The capability to declare; `None` if no completion is registered."""
        return {} if self._entries else None

    def add(
        self,
        function: AnyFunction,
        *,
        prompt: str | None,
        resource: str | None,
        argument: str,
        thread: bool | None,
    ) -> None:
        """Register a completion function. Raises `RegistrationError`. See `Server.completion`."""
        where = label(function)
        if (prompt is None) == (resource is None):
            raise RegistrationError(f"{where}: a completion is for a prompt or for a resource; pass one of the two")
        is_prompt, name = (True, prompt) if prompt is not None else (False, resource or "")
        known = self._known(name, is_prompt=is_prompt)
        kind = "prompt" if is_prompt else "resource template"
        if known is None:
            raise RegistrationError(f"{where}: there is no {kind} {name!r}; register it before its completions")
        if argument not in known:
            raise RegistrationError(
                f"{where}: the {kind} {name!r} has no argument {argument!r}; it has {', '.join(known)}"
            )
        if (is_prompt, name, argument) in self._entries:
            raise RegistrationError(f"{where}: the argument {argument!r} of {name!r} already has a completion")
        signature = read_signature(function, INJECTED)
        names = [member.name for member in signature.members]
        if not names or names[0] == _ARGUMENTS or names[1:] not in ([], [_ARGUMENTS]):
            raise RegistrationError(
                f"{where}: a completion takes the text entered so far, and optionally {_ARGUMENTS!r} and a Context, but not {', '.join(names) or 'nothing'}"
            )
        run = Runner(function, signature.injected, thread=thread, async_library=None, environment=self._environment)
        self._entries[is_prompt, name, argument] = _Entry(run, names[0], len(names) > 1)

    def _known(self, name: str, *, is_prompt: bool) -> tuple[str, ...] | None:
        return self._prompts.arguments(name) if is_prompt else self._resources.variables(name)

    async def _complete(self, call: RequestContext) -> CompleteResult:
        params = cast("CompleteRequestParams", call.request.params)  # converted by the engine to the method's class
        is_prompt = isinstance(params.ref, PromptReference)
        name = params.ref.name if isinstance(params.ref, PromptReference) else params.ref.uri
        guard = self._environment.guard
        known = self._known(name, is_prompt=is_prompt)
        if known is not None and not await guard.allows(call, "prompt" if is_prompt else "template", name):
            known = None
        if known is None:
            if is_prompt:
                raise unknown("prompt", name, self._prompts.names, guard)
            if not await self._resources.exists(call, name):
                raise unknown("resource template", name, self._resources.uris, guard)
            known = ()  # a resource without variables has no arguments to complete
        if params.argument.name not in known:
            raise RequestFailed(
                f"{quoted(name)} has no argument {quoted(params.argument.name)}; it has {', '.join(known) or 'none'}",
                code=ErrorCode.INVALID_PARAMS,
            )
        entry = self._entries.get((is_prompt, name, params.argument.name))
        if entry is None:
            return CompleteResult(completion=Completion(values=(), total=0, has_more=False))
        arguments: dict[str, object] = {entry.value: params.argument.value}
        if entry.wants_arguments:
            given = None if params.context is None else params.context.arguments
            arguments[_ARGUMENTS] = dict(given or {})
        return _result(await entry.function(call, arguments), name)


def _result(value: object, name: str) -> CompleteResult:
    if isinstance(value, CompleteResult):
        return attrs.evolve(value, completion=_cut(value.completion))
    if isinstance(value, Completion):
        return CompleteResult(completion=_cut(value))
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise InvalidResult(f"a completion of {name!r} returned a value that is not a list of strings")
    values = tuple(value[:MAX_COMPLETION_VALUES])
    return CompleteResult(completion=Completion(values=values, total=len(value), has_more=len(value) > len(values)))


def _cut(completion: Completion) -> Completion:
    """Limit the values of a result that the author made to the maximum of the specification."""
    values = completion.values
    if len(values) <= MAX_COMPLETION_VALUES:
        return completion
    total = len(values) if completion.total is None else completion.total
    return attrs.evolve(completion, values=values[:MAX_COMPLETION_VALUES], has_more=True, total=total)
