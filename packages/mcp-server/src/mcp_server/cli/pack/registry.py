"""The file `server.json` of the official registry: where a server is published.

Specification: server.json of the project MCP Registry, schema 2025-12-11; the requirements of its packages of the types `pypi`
and `mcpb`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcp_server.cli.pack.errors import PackError
from mcp_server.cli.pack.project import requirement_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_server.cli.pack.identity import Identity
    from mcp_server.cli.pack.project import Project

__all__ = ["check_registry_name", "mcpb_package", "pypi_package", "server_json"]

_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"

_LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"

_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})+/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")

_MAX_NAME: Final = 200
_MAX_TEXT: Final = 100
"""The longest title and description in characters."""

_REPOSITORY: Final = re.compile(r"https://(github|gitlab)\.com/[\w.-]+/[\w.-]+?(?:\.git)?/?", re.ASCII)


def check_registry_name(name: str) -> None:
    """Check the name of a server in the registry.

    Raises:
        PackError: The registry does not accept the name.
    """
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise PackError(
            f"{name!r} cannot be a name in the registry: write the labels of your domain in reverse order, a slash and"
            " the name of the server, as in io.github.USER/weather or com.example/weather"
        )


def pypi_package(name: str, identity: Identity, project: Project, variables: Sequence[str]) -> JsonObject:
    """Return the entry of the distribution on PyPI, which clients start with `uvx`.

    Args:
        name: The name of the server in the registry.
        identity: The metadata of the server.
        project: The metadata of the author's project.
        variables: The environment variables that the server needs.

    Raises:
        PackError: The distribution lacks the command or the mark of ownership.
    """
    if project.name is None:
        raise PackError(f'a package on PyPI needs name = "..." in {project.file}, [project]')
    if requirement_name(project.name) not in {requirement_name(script) for script in project.scripts}:
        raise PackError(
            f"clients start the package with 'uvx {project.name}', but it has no command of this name: write"
            f' {project.name} = "MODULE:FUNCTION" in {project.file}, [project.scripts]'
        )
    mark = f"mcp-name: {name}"
    if project.readme is None:
        raise PackError(f'write readme = "README.md" in {project.file}, [project], and {mark!r} in that file')
    try:
        readme = project.readme.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PackError(f"cannot read {project.readme}: {error}") from error
    # A longer name that begins with this one is not the mark of this one.
    if not re.search(rf"{re.escape(mark)}(?![A-Za-z0-9._-])", readme):
        raise PackError(
            f"{project.readme} does not contain {mark!r}, by which the registry verifies that the package on PyPI is yours;"
            f" write <!-- {mark} --> there and publish this version"
        )
    inputs: list[JsonValue] = [
        {
            "name": variable,
            "description": f"The environment variable {variable} of the server.",
            "isRequired": True,
            "isSecret": True,
        }
        for variable in variables
    ]
    return {
        "registryType": "pypi",
        "identifier": project.name,
        "version": identity.version,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        **({"environmentVariables": inputs} if inputs else {}),
    }


def mcpb_package(url: str, identity: Identity, digest: str) -> JsonObject:
    """Return the entry of a bundle.

    Args:
        url: The URL from which clients download the bundle.
        identity: The metadata of the server.
        digest: The SHA-256 of the bundle, in hexadecimal.

    Raises:
        PackError: The registry does not accept the URL.
    """
    if not re.fullmatch(r"https://[^\s/]+/\S+", url) or "mcp" not in url.lower():
        raise PackError(f"{url!r} cannot be the URL of a bundle: it must begin with https:// and contain 'mcp'")
    return {
        "registryType": "mcpb",
        "identifier": url,
        "version": identity.version,
        "fileSha256": digest,
        "transport": {"type": "stdio"},
    }


def server_json(name: str, identity: Identity, project: Project, packages: Sequence[JsonObject]) -> JsonObject:
    """Return the content of `server.json`.

    Raises:
        PackError: The description or the title is too long.
    """
    for kind, text in {"description": identity.description, "title": identity.title or ""}.items():
        if len(text) > _MAX_TEXT:
            raise PackError(
                f"the registry accepts at most {_MAX_TEXT} characters of {kind}, not {len(text)}; write a shorter one in"
                f" {project.file}, [project], or in the Server"
            )
    repository = project.urls.get("repository") or project.urls.get("source") or ""
    hosted = _REPOSITORY.fullmatch(repository)
    return {
        "$schema": _SCHEMA,
        "name": name,
        **({"title": identity.title} if identity.title else {}),
        "description": identity.description,
        **({"repository": {"url": repository, "source": hosted[1]}} if hosted else {}),
        "version": identity.version,
        **({"websiteUrl": identity.website} if identity.website else {}),
        "packages": list(packages),
    }
