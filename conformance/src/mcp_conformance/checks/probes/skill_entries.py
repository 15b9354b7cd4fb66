"""The skills of a server under test: their entries, their files, and the directories of the files.

Spec: the extension `io.modelcontextprotocol/skills`
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_core.types.skills import SKILLS_EXTENSION

if TYPE_CHECKING:
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = [
    "SKILL_FILE",
    "child_of",
    "content_of",
    "directories_of",
    "files_of",
    "listed_skills",
    "pages_of_skills",
    "read_directory",
    "require_skills",
    "root_of",
]

SKILL_FILE: Final = "/SKILL.md"
"""The end of the URI of each skill."""

_MOST_PAGES: Final = 100
"""Maximum number of pages that are read of a list."""


def require_skills(server: ServerUnderTest, *, directories: bool = False) -> JsonObject:
    """Return the settings of the extension.

    Args:
        server: The server.
        directories: Whether the server must read directories.

    Raises:
        NotApplicable: The server does not declare the extension, or does not read directories.
    """
    settings = member(server.inventory.capabilities, "extensions", SKILLS_EXTENSION)
    if settings is None:
        raise NotApplicable("the server does not declare the skills extension")
    found: JsonObject = settings if isinstance(settings, dict) else {}
    if directories and found.get("directoryRead") is not True:
        raise NotApplicable("the server does not declare directoryRead")
    return found


# --- entries ---------------------------------------------------------------------------------------------------------


async def pages_of_skills(server: ServerUnderTest) -> list[JsonRpcResponse]:
    """Return all pages of `skills/list`.

    Raises:
        NotApplicable: The server does not declare the extension.
        Deviation: A page is an error, or the pages do not end.
    """
    require_skills(server)
    return await _pages(server, "skills/list", {})


async def listed_skills(server: ServerUnderTest) -> list[JsonObject]:
    """Return the entries with a URI of all pages of `skills/list`. Other checks judge their form.

    Raises:
        NotApplicable: The server does not declare the extension, or lists no skills.
        Deviation: A page is an error, or the pages do not end.
    """
    pages = [page.result().get("skills") for page in await pages_of_skills(server)]
    found = [entry for page in pages if isinstance(page, list) for entry in page if isinstance(entry, dict)]
    entries = [entry for entry in found if isinstance(entry.get("uri"), str)]
    if not entries:
        raise NotApplicable("the server lists no skills")
    return entries


def root_of(entry: JsonObject) -> str | None:
    """Return the directory of a skill, without a slash at its end; `None` if its URI is not that of a `SKILL.md`."""
    uri = entry.get("uri")
    return uri.removesuffix(SKILL_FILE) if isinstance(uri, str) and uri.endswith(SKILL_FILE) else None


def files_of(entry: JsonObject) -> dict[str, JsonObject]:
    """Return the files of a skill by their URIs; empty for a dynamic skill."""
    resources = entry.get("resources")
    files = [file for file in (resources if isinstance(resources, list) else ()) if isinstance(file, dict)]
    return {str(file["uri"]): file for file in files if isinstance(file.get("uri"), str)}


def content_of(answer: JsonRpcResponse) -> bytes:
    """Return the bytes of a file that was read.

    Raises:
        Deviation: The response is an error, or has not one content with a text or a blob.
    """
    contents = answer.member("contents", list)
    only = contents[0] if isinstance(contents, list) and len(contents) == 1 else None
    if isinstance(only, dict):
        text, blob = only.get("text"), only.get("blob")
        if isinstance(text, str):
            return text.encode(errors="surrogatepass")
        if isinstance(blob, str):
            try:
                return base64.b64decode(blob, validate=True)
            except (binascii.Error, ValueError):
                pass
    raise Deviation("one content of a file, with a text or a blob", str(answer))


# --- directories -----------------------------------------------------------------------------------------------------


def directories_of(entry: JsonObject) -> dict[str, set[str]]:
    """Return the direct children of each directory of a skill, as its entry implies them, by decoded URI."""
    root = unquote(root_of(entry) or "")
    found: dict[str, set[str]] = {}
    for uri in map(unquote, files_of(entry)):
        child = uri
        while child != root and child.startswith(f"{root}/"):
            parent = child.rpartition("/")[0]
            found.setdefault(parent, set()).add(child)
            child = parent
    return found


async def read_directory(server: ServerUnderTest, uri: str) -> list[JsonObject]:
    """Return the children of a directory from all pages of `resources/directory/read`.

    Raises:
        Deviation: A page is an error, or the pages do not end.
    """
    pages = [page.member("resources", list) for page in await _pages(server, "resources/directory/read", {"uri": uri})]
    return [child for page in pages if isinstance(page, list) for child in page if isinstance(child, dict)]


def child_of(child: JsonObject) -> str:
    """Return the decoded URI of a child."""
    return unquote(str(child.get("uri")))


async def _pages(server: ServerUnderTest, method: str, params: JsonObject) -> list[JsonRpcResponse]:
    pages: list[JsonRpcResponse] = []
    cursor: JsonObject = {}
    while len(pages) < _MOST_PAGES:
        pages.append(await server.peer.request(method, {**params, **cursor}))
        onward = pages[-1].result().get("nextCursor")
        if not isinstance(onward, str):
            return pages
        cursor = {"cursor": onward}
    raise Deviation(f"the last page of {method} after at most {_MOST_PAGES} pages", "a further page")
