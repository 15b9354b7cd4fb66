"""MCP Apps: pages that hosts show beside the result of a tool.

    dashboard = App(server, "ui://weather/dashboard", Path("dashboard.html"), csp=AppCsp(connect_domains=("https://api.example.com",)))

    @dashboard.tool
    async def forecast(city: str) -> Forecast: ...

    @dashboard.tool(only="app")
    async def refresh(city: str) -> Forecast: ...

The model receives the result of a tool in any case. Hosts without support for apps do not show the page. `shows_apps`
returns whether a client supports apps.

Spec: the extension `io.modelcontextprotocol/ui`
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, Unpack, get_args, overload

from mcp_core.features.apps import app_types, is_app_type, is_app_uri, is_origin, write_meta
from mcp_core.schema.annotations import Function as AnyFunction
from mcp_core.types import TextResourceContents
from mcp_core.types.apps import (
    APP_MIME_TYPE,
    UI_EXTENSION,
    AppCsp,
    AppPermissions,
    AppResourceMeta,
    AppToolMeta,
    AppVisibility,
)
from mcp_server.errors import RegistrationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_server.handlers.context import Context
    from mcp_server.options import ToolOptions
    from mcp_server.server import Server

__all__ = ["APP_MIME_TYPE", "App", "AppCsp", "AppPermissions", "AppVisibility", "shows_apps"]

F = TypeVar("F", bound=AnyFunction)

_BEGINNING: Final = "<!doctype html"


def shows_apps(context: Context) -> bool:
    """Return whether the client of a request can show pages. For other clients, a tool can return more text."""
    return any(map(is_app_type, app_types(context.peer.capabilities)))


class App:
    """A page of a server. Clients list and read it like other resources.

    Args:
        server: The server. The page makes it declare the extension.
        uri: URI of the page, which begins with `ui://`.
        html: The document, or the path of its file. The file is read once, by the constructor.
        name: Name for programs; the URI by default.
        title: Name for users.
        description: Description of the page.
        csp: Origins that the page may load content from. By default the list is empty, and the document must contain all
            of its content.
        permissions: Browser features that the page requests.
        domain: Origin that the page requests, in the format that the host documents.
        prefers_border: Whether the host should draw a border and a background; by default the host decides.

    Raises:
        RegistrationError: The page is invalid. The message contains the reason.
    """

    def __init__(
        self,
        server: Server,
        uri: str,
        html: str | os.PathLike[str],
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        csp: AppCsp | None = None,
        permissions: AppPermissions | None = None,
        domain: str | None = None,
        prefers_border: bool | None = None,
    ) -> None:
        if not is_app_uri(uri) or "{" in uri:
            raise RegistrationError(
                f"the URI of a page must begin with ui:// and must not contain spaces or braces, not {uri!r}"
            )
        _check(uri, csp)
        text = _document(uri, html)
        said = AppResourceMeta(csp=csp, permissions=permissions, domain=domain, prefers_border=prefers_border)
        meta = write_meta(said)
        contents = TextResourceContents(uri=uri, text=text, mime_type=APP_MIME_TYPE, meta=meta)

        async def read() -> TextResourceContents:
            return contents

        server.add_resource(
            read,
            uri,
            name=uri if name is None else name,
            title=title,
            description=description,
            mime_type=APP_MIME_TYPE,
            size=len(text.encode()),
            meta=meta,
        )
        server.extension(UI_EXTENSION)
        self._server: Final = server
        self.uri: Final = uri
        """URI of the page."""

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        only: AppVisibility | None = None,
        **options: Unpack[ToolOptions],
    ) -> Callable[[F], F]: ...
    def tool(
        self,
        function: AnyFunction | None = None,
        /,
        *,
        only: AppVisibility | None = None,
        **options: Unpack[ToolOptions],
    ) -> object:
        """Register a tool whose results the page shows: `@app.tool` or `@app.tool(...)`, as `add_tool` does."""

        def register(function: F) -> F:
            self.add_tool(function, only=only, **options)
            return function

        return register if function is None else register(function)

    def add_tool(
        self, function: AnyFunction, *, only: AppVisibility | None = None, **options: Unpack[ToolOptions]
    ) -> None:
        """Register a function as a tool whose results the page shows.

        Args:
            function: The function. The model and the page receive its result.
            only: Restricts the tool to the `model` or to the page (`app`); by default both may use it. Hosts without
                support for apps ignore this setting, and offer the tool to the model.
            **options: The options, as in `ToolOptions`.

        Raises:
            RegistrationError: The function cannot be a tool. The message contains the reason.
        """
        if only is not None and only not in get_args(AppVisibility):
            raise RegistrationError(f"only must be {' or '.join(map(repr, get_args(AppVisibility)))}, not {only!r}")
        said = AppToolMeta(resource_uri=self.uri, visibility=None if only is None else (only,))
        options["meta"] = write_meta(said, options.get("meta"))
        self._server.add_tool(function, **options)


def _check(uri: str, csp: AppCsp | None) -> None:
    if csp is None:
        return
    for field in ("connect_domains", "resource_domains", "frame_domains", "base_uri_domains"):
        wrong = next((each for each in getattr(csp, field) or () if not is_origin(each)), None)
        if wrong is not None:
            raise RegistrationError(
                f"{uri}: {field}: {wrong!r} is not an origin like 'https://a.example.com' or 'https://*.example.com'"
            )


def _document(uri: str, html: str | os.PathLike[str]) -> str:
    text = html
    if not isinstance(text, str):
        try:
            text = Path(html).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RegistrationError(f"{uri}: the page {os.fspath(html)!r} cannot be read: {error}") from error
    if not text.lstrip("\ufeff \t\r\n").lower().startswith(_BEGINNING):
        raise RegistrationError(
            f"{uri}: a page must be an HTML document that begins with <!DOCTYPE html>, not {text[:40]!r}"
        )
    return text
