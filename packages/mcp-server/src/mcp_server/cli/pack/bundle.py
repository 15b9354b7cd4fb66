"""The MCP bundle (MCPB, formerly DXT) of a server, of the type `uv`.

The host application installs the dependencies with uv, for the system of the user, so a bundle has no compiled code and works on
all systems. Specification: MANIFEST.md of the project MCPB, version 0.4 of the manifest.

    manifest.json     what the host application displays, and the command
    pyproject.toml    the dependencies
    main.py           the program of the command
    server/           the files of the author
    icon.png          the icon, if there is one
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Final

import mcp_server
from mcp_core.errors import InvalidValue
from mcp_core.file_signatures import check_media_type
from mcp_core.types import Prompt, Tool
from mcp_server.cli.pack.errors import PackError
from mcp_server.cli.pack.project import requirement_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_server.cli.pack.identity import Identity
    from mcp_server.cli.pack.project import Project
    from mcp_server.server import Server

__all__ = ["SERVER_FOLDER", "bundle_files"]

SERVER_FOLDER: Final = "server"
"""The folder of the author's files. The other files cannot have their names."""

_MANIFEST_VERSION: Final = "0.4"

_DISTRIBUTION: Final = "trio-mcp-server"

_REQUIRES_PYTHON: Final = ">=3.11"
"""The versions of Python that `mcp_server` needs."""

_EMAIL: Final = re.compile(r"[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,}")

_MAIN: Final = '''\
"""Serve the host application over stdin and stdout."""

import sys
from pathlib import Path

from mcp_server.cli.main import main

folder = Path(__file__).resolve().parent / "server"
sys.path.insert(0, str(folder))
sys.exit(main(["run", {target}]))
'''


def bundle_files(
    *,
    identity: Identity,
    project: Project,
    server: Server,
    files: Mapping[str, bytes],
    entry: str,
    name: str,
    variables: Sequence[str],
    icon: bytes | None,
) -> dict[str, bytes]:
    """Return all files of the bundle, by path.

    Args:
        identity: The metadata of the server.
        project: The metadata of the author's project.
        server: The server.
        files: The files of the author, by path.
        entry: The path of the server in `files`, or its dotted module.
        name: The name in this file or module.
        variables: The environment variables for which the host application asks the user.
        icon: The content of `icon.png` of the author.

    Raises:
        PackError: No file has the dependencies, or the icon is not in PNG.
    """
    target = f"str(folder / {entry!r}) + {f':{name}'!r}" if entry.endswith(".py") else repr(f"{entry}:{name}")
    icon = _icon(server) if icon is None else icon
    if icon is not None:
        _check_icon(icon)
    manifest = _manifest(identity, project, server, variables, has_icon=icon is not None)
    return {
        **{f"{SERVER_FOLDER}/{path}": content for path, content in files.items()},
        "main.py": _MAIN.format(target=target).encode(),
        "manifest.json": (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode(),
        "pyproject.toml": _pyproject(project).encode(),
        **({} if icon is None else {"icon.png": icon}),
    }


def _manifest(
    identity: Identity, project: Project, server: Server, variables: Sequence[str], *, has_icon: bool
) -> JsonObject:
    offered = server.offered()
    tools: list[JsonValue] = [
        {"name": tool.name, **_present(description=tool.description)}
        for tool in offered["tools"]
        if isinstance(tool, Tool)
    ]
    prompts: list[JsonValue] = [_prompt(prompt) for prompt in offered["prompts"] if isinstance(prompt, Prompt)]
    command: JsonObject = {"command": "uv", "args": ["run", "--directory", "${__dirname}", "main.py"]}
    if variables:
        command["env"] = {variable: f"${{user_config.{variable.lower()}}}" for variable in variables}
    email = identity.author.email
    author: JsonObject = {
        "name": identity.author.name,
        **_present(email=email if email and _EMAIL.fullmatch(email) else None),
    }
    repository = project.urls.get("repository") or project.urls.get("source")
    return {
        "manifest_version": _MANIFEST_VERSION,
        "name": identity.name,
        **_present(display_name=identity.title),
        "version": identity.version,
        "description": identity.description,
        "author": author,
        **({"repository": {"type": "git", "url": repository}} if repository else {}),
        **_present(
            homepage=identity.website,
            documentation=project.urls.get("documentation"),
            support=project.urls.get("issues") or project.urls.get("bugtracker"),
            icon="icon.png" if has_icon else None,
        ),
        "server": {"type": "uv", "entry_point": "main.py", "mcp_config": command},
        **({"tools": tools} if tools else {}),
        **({"prompts": prompts} if prompts else {}),
        **({"keywords": list(project.keywords)} if project.keywords else {}),
        **_present(license=project.license),
        "compatibility": {"runtimes": {"python": _requires_python(project)}},
        **({"user_config": {each.lower(): _setting(each) for each in variables}} if variables else {}),
    }


def _prompt(prompt: Prompt) -> JsonObject:
    """Return the entry of a prompt. The server makes its text, which the manifest can only describe."""
    names = [argument.name for argument in prompt.arguments or ()]
    text = [prompt.description or prompt.title or prompt.name, *(f"{name}: ${{arguments.{name}}}" for name in names)]
    arguments: JsonObject = {"arguments": list(names)} if names else {}
    return {
        "name": prompt.name,
        **_present(description=prompt.description),
        **arguments,
        "text": "\n\n".join(text),
    }


def _setting(variable: str) -> JsonObject:
    """Return the setting for which the host application asks. It is sensitive: most such values are keys."""
    return {
        "type": "string",
        "title": variable,
        "description": f"The environment variable {variable} of the server.",
        "required": True,
        "sensitive": True,
    }


def _pyproject(project: Project) -> str:
    dependencies = project.dependencies
    if dependencies is None:
        raise PackError(
            f"the dependencies are missing: write dependencies = [...] in {project.file}, [project], or in a block"
            " '# /// script' of the file, or write a requirements.txt"
        )
    if _DISTRIBUTION not in {requirement_name(each) for each in dependencies}:
        dependencies = (*dependencies, f"{_DISTRIBUTION}>={mcp_server.__version__}")
    lines = [f"  {json.dumps(each, ensure_ascii=False)}," for each in dependencies]
    return "\n".join(
        [
            "[project]",
            'name = "bundle"',
            'version = "0"',
            f"requires-python = {json.dumps(_requires_python(project))}",
            "dependencies = [",
            *lines,
            "]",
            "",
            "[tool.uv]",
            "package = false",
            "",
        ]
    )


def _requires_python(project: Project) -> str:
    return ",".join(dict.fromkeys((*filter(None, [project.requires_python]), _REQUIRES_PYTHON)))


def _icon(server: Server) -> bytes | None:
    """Return the first icon of the server that is a PNG in a `data:` URI. Host applications display only icons in the bundle."""
    for icon in server.info.icons or ():
        heading, _, content = icon.src.partition(",")
        if heading == "data:image/png;base64":
            try:
                return base64.b64decode(content, validate=True)
            except binascii.Error as error:
                raise PackError("an icon of the Server is not valid base64") from error
    return None


def _check_icon(icon: bytes) -> None:
    try:
        check_media_type("image/png", icon)
    except InvalidValue as error:
        raise PackError("icon.png is not a PNG file, which host applications need; convert it") from error


def _present(**members: str | None) -> JsonObject:
    """Return the members that have a value."""
    return {name: value for name, value in members.items() if value}
