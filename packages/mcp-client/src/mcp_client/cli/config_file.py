"""Servers from a configuration file: `--config FILE --server NAME`."""

from __future__ import annotations

import getpass
import os
import sys
from typing import TYPE_CHECKING

from mcp_client.cli.arguments import UsageError, closest
from mcp_client.config import ConfigError, read_server, server_names

if TYPE_CHECKING:
    from mcp_client.cli.output import Screen
    from mcp_client.config import ConfigInput, ServerConfig

__all__ = ["configured_server"]


def configured_server(path: str, name: str | None, screen: Screen) -> ServerConfig:
    """Return a server of a configuration file. Blocks while the user enters its inputs.

    Args:
        path: The file.
        name: The name of the server in the file; `None` for the only server.
        screen: The terminal, to prompt the user for inputs.

    Raises:
        UsageError: The file does not contain the server, or the server cannot be used.
    """

    def ask(wanted: ConfigInput) -> str | None:
        return _ask(wanted, screen)

    try:
        names = server_names(path)
        if name is None and len(names) != 1:
            raise UsageError(f"choose a server with --server NAME: {', '.join(names) or 'the file has none'}")
        if name is not None and name not in names:
            raise UsageError(f"{path} has no server {name!r}{closest(name, names)}")
        chosen = names[0] if name is None else name
        server = read_server(path, chosen, inputs=ask, workspace_folder=os.getcwd())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except ConfigError as error:
        raise UsageError(str(error)) from error
    if server.disabled:
        raise UsageError(f"server {chosen!r} is disabled in {path}")
    return server


def _ask(wanted: ConfigInput, screen: Screen) -> str | None:
    prompt = wanted.description or wanted.id
    if not screen.interactive:
        screen.note(f"No terminal to prompt for {prompt!r}.")
        return None
    if wanted.options:
        prompt += f" ({', '.join(wanted.options)})"
    if wanted.default is not None:
        prompt += f" [{'***' if wanted.password else wanted.default}]"
    prompt += ": "
    try:
        said = getpass.getpass(prompt, stream=sys.stderr) if wanted.password else screen.ask(prompt)
    except EOFError:
        return None
    return said or wanted.default
