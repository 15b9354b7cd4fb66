"""Methods and notifications that an author handles, and the extensions that a server declares.

Spec: basic/index#extension-negotiation (2026-07-28)
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar, cast

from mcp_core.engine.connection import Extensions
from mcp_core.methods import (
    INITIALIZE,
    LOGGING_SET_LEVEL,
    METHODS,
    NOTIFICATIONS,
    PING,
    SERVER_DISCOVER,
    NotificationMethod,
    RequestMethod,
    Side,
)
from mcp_core.trio.async_library import call_in, is_coroutine_function
from mcp_server.errors import RegistrationError
from mcp_server.handlers.context import context_of
from mcp_server.options import check_text
from mcp_server.schema.signature import label

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_server.connection.channel import Handler, RequestContext
    from mcp_server.handlers.context import Context
    from mcp_server.handlers.environment import HandlerEnvironment

__all__ = ["Methods"]

P = TypeVar("P")
R = TypeVar("R")

_OURS: Final = frozenset({INITIALIZE, PING, SERVER_DISCOVER, LOGGING_SET_LEVEL})
"""Methods that the engine handles itself, because they change its state."""

_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"

_IDENTIFIER: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
"""The grammar of extension identifiers: a prefix as in keys of `_meta`, which is required, a slash and a name."""


class Methods:
    """The methods, notifications and extensions of a server's author.

    Args:
        environment: The environment of the handlers of the server.
        handlers: The handlers of the server, by method.
    """

    def __init__(self, environment: HandlerEnvironment, handlers: dict[str, Handler]) -> None:
        self._environment: Final = environment
        self._handlers: Final = handlers
        self.requests: Final[dict[str, RequestMethod[object, object]]] = {}
        """Extension methods."""
        self.notifications: Final[dict[str, NotificationMethod[object]]] = {}
        """Extension notifications."""
        self.replaced: Final[set[str]] = set()
        """Capabilities for which a function of the author handles a method of the specification."""
        self.listeners: Final[dict[str, Callable[[object], None]]] = {}
        """Functions that handle notifications of clients, by method."""
        self.extensions: Final[dict[str, JsonObject]] = {}
        """Settings of the declared extensions, by identifier."""

    def known(self) -> Extensions:
        """Return the methods and notifications that an engine accepts besides those of the specification."""
        return Extensions(methods=dict(self.requests), notifications=dict(self.notifications))

    def add(self, definition: RequestMethod[P, R], function: Callable[[P, Context], Awaitable[R | JsonObject]]) -> None:
        """Register the handler of a method. Raises `RegistrationError`. See `Server.method`."""
        if not isinstance(definition, RequestMethod):
            raise RegistrationError(f"{label(function)}: register a method with its definition, not {definition!r}")
        if definition in _OURS:
            raise RegistrationError(f"{definition.name} cannot be replaced: the engine handles it")
        if not is_coroutine_function(function):
            raise RegistrationError(
                f"{label(function)}: the handler of a method must be a coroutine function; write `async def`"
            )

        async def handle(call: RequestContext) -> object:
            # The engine converts the parameters to the class of the method.
            params: P = call.request.params  # type: ignore[assignment]  # the engine uses the class of the method
            context = context_of(call, self._environment)
            try:
                return await call_in(self._environment.async_library, partial(function, params, context))
            finally:
                context._end()  # noqa: SLF001  # not part of the public interface

        self._handlers[definition.name] = handle
        if definition in METHODS:
            self.replaced.update((definition.server_capability or ())[:1])
        else:
            self.requests[definition.name] = definition
            if definition.extension is not None:
                self.extensions.setdefault(definition.extension, {})

    def add_notification(self, definition: NotificationMethod[P], function: Callable[[P], None]) -> None:
        """Register the handler of a notification. Raises `RegistrationError`. See `Server.notification`."""
        if not isinstance(definition, NotificationMethod):
            raise RegistrationError(
                f"{label(function)}: register a notification with its definition, not {definition!r}"
            )
        if definition in NOTIFICATIONS and Side.CLIENT not in definition.sender:
            raise RegistrationError(f"{label(function)}: clients do not send {definition.name}, only servers do")
        if is_coroutine_function(function) or not callable(cast("object", function)):
            raise RegistrationError(f"{label(function)}: the handler of a notification must not block; write `def`")
        if definition.name in self.listeners:
            raise RegistrationError(f"{label(function)}: {definition.name} already has a function")
        self.listeners[definition.name] = cast(
            "Callable[[object], None]", function
        )  # the engine uses the class of the notification
        if definition not in NOTIFICATIONS:
            self.notifications[definition.name] = definition

    def declare(
        self,
        identifier: str,
        settings: JsonObject | None,
        sends: Iterable[RequestMethod[object, object] | NotificationMethod[object]],
    ) -> None:
        """Declare an extension. Raises `RegistrationError`. See `Server.extension`."""
        check_text("the identifier of an extension", identifier)
        if not isinstance(settings, dict | None):
            raise RegistrationError(f"the settings of {identifier!r} must be a dict, not {settings!r}")
        if _IDENTIFIER.fullmatch(identifier) is None:
            raise RegistrationError(
                f"{identifier!r} is not an extension identifier: use your domain name reversed, a slash and a name,"
                " for example 'com.example/search'"
            )
        definitions = tuple(sends)
        for definition in definitions:
            if definition in METHODS or definition in NOTIFICATIONS or Side.SERVER not in definition.sender:
                raise RegistrationError(f"{definition.name} is not a method of {identifier!r} that a server sends")
        for definition in definitions:
            if isinstance(definition, RequestMethod):
                self.requests[definition.name] = definition
            else:
                self.notifications[definition.name] = definition
        self.extensions[identifier] = {} if settings is None else settings
