"""The name, version, description and author of a packed server, from the author's project and the server.

Each rule names the place in which an author writes what is missing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue
from mcp_server.cli.pack.errors import PackError

if TYPE_CHECKING:
    from mcp_server.cli.pack.project import Author, Project
    from mcp_server.server import Server

__all__ = ["Identity", "identify"]

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")

_SEMANTIC_VERSION: Final = re.compile(
    r"(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)(?:-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
"""Major, minor and patch number, with an optional prerelease and build. Source: semver.org, version 2.0.0."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Identity(FieldValue):
    """The metadata that each bundle must have."""

    name: str
    version: str
    description: str
    author: Author
    title: str | None
    website: str | None


def identify(project: Project, server: Server) -> Identity:
    """Return the metadata of a server. The author's project takes precedence over the server.

    Raises:
        PackError: A required member is missing or has a form that host applications do not accept.
    """
    info = server.info
    name = project.name or info.name
    if not _NAME.fullmatch(name):
        raise PackError(
            f"{name!r} cannot be the name of a bundle: use 1 to 64 letters, digits, -, _ and .; write"
            f' name = "..." in {project.file}, [project], or change the name of the Server'
        )
    version = project.version or info.version
    if not _SEMANTIC_VERSION.fullmatch(version):
        place = f"{project.file}, [project]" if project.version else "version of the Server"
        raise PackError(
            f"{version!r} cannot be the version of a bundle: host applications need three numbers, such as 1.0.0; change it"
            f" in {place}"
        )
    description = project.description or info.description
    if not description:
        raise PackError(
            f'the description is missing: write description = "..." in {project.file}, [project], or give'
            " description=... to the Server"
        )
    if project.author is None:
        raise PackError(
            f'the author is missing: write authors = [{{ name = "..." }}] in {project.file}, [project]'
            + ("" if project.name else ', with name = "..." and version = "..."')
        )
    return Identity(
        name=name,
        version=version,
        description=description,
        author=project.author,
        title=info.title,
        website=project.urls.get("homepage") or info.website_url,
    )
