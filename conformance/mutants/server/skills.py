"""The skills of a raw server: a nested one, a dynamic one, and one that is not listed (2026-07-28)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from mutants.server.protocol import META, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.server.fault import InboundRequest

__all__ = ["SKILLS_EXTENSION", "SKILLS_METHODS", "SKILL_RESOURCE", "entry_of", "read_skill_file", "serve_skills"]

SKILLS_EXTENSION: Final = f"{META}skills"

_SCHEME: Final = "skill://"
_SKILL_FILE: Final = "SKILL.md"
_PAGE: Final = 2
"""The number of skills on one page."""


def _text(name: str, description: str, *lines: str) -> str:
    return "\n".join(["---", f"name: {name}", f"description: {description}", *lines, "---", "", f"# {name}", ""])


_FILES: Final[Mapping[str, str]] = {
    "git-workflow/SKILL.md": _text(
        "git-workflow", "How to write commits", "metadata:", "  version: '2.1'", "released: 2026-11-22"
    ),
    "git-workflow/references/RULES.md": "One subject per commit.\n",
    "acme/refunds/SKILL.md": _text("refunds", "How to refund a customer", "license: MIT"),
    "acme/refunds/templates/email.md": "Dear customer,\n",
    "acme/refunds/templates/short/note.md": "Refunded.\n",
    "acme/refunds/express/SKILL.md": _text("express", "How to refund at once"),
    "acme/refunds/express/limits.md": "At most 10.\n",
    "reports/daily/SKILL.md": _text("daily", "The report of the day"),
    "conformance-unlisted/SKILL.md": _text("conformance-unlisted", "No list has this skill"),
}
"""The files by their paths."""

_FRONT_MATTER: Final[Mapping[str, JsonObject]] = {
    "git-workflow": {
        "name": "git-workflow",
        "description": "How to write commits",
        "metadata": {"version": "2.1"},
        "released": "2026-11-22",
    },
    "acme/refunds": {"name": "refunds", "description": "How to refund a customer", "license": "MIT"},
    "acme/refunds/express": {"name": "express", "description": "How to refund at once"},
    "reports/daily": {"name": "daily", "description": "The report of the day"},
    "conformance-unlisted": {"name": "conformance-unlisted", "description": "No list has this skill"},
}
"""The front matter by the directory of the skill."""
_DYNAMIC: Final = "reports/daily"
_UNLISTED: Final = "conformance-unlisted"

SKILL_RESOURCE: Final[JsonObject] = {
    "uri": "skill://git-workflow/SKILL.md",
    "name": "git-workflow",
    "description": "How to write commits",
    "mimeType": "text/markdown",
    "_meta": {f"{META[:-1]}.skills/version": "2.1"},
}
"""The entry of a `SKILL.md` in the list of resources."""


def entry_of(root: str) -> JsonObject:
    """Return the entry of the skill in a directory."""
    files: list[JsonValue] = []
    for path, text in _FILES.items():
        if path.startswith(f"{root}/"):
            data = text.encode()
            digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
            files.append({"uri": f"{_SCHEME}{path}", "digest": digest, "size": len(data)})
    return {
        "uri": f"{_SCHEME}{root}/{_SKILL_FILE}",
        "frontmatter": dict(_FRONT_MATTER[root]),
        "resources": "dynamic" if root == _DYNAMIC else files,
    }


def read_skill_file(uri: str) -> JsonObject | None:
    """Return the contents of a file of a skill, or `None` for other URIs."""
    text = _FILES.get(uri.removeprefix(_SCHEME)) if uri.startswith(_SCHEME) else None
    return None if text is None else {"contents": [{"uri": uri, "mimeType": "text/markdown", "text": text}]}


def serve_skills(inbound: InboundRequest, method: str) -> JsonObject | None:
    """Return the result of a method of the extension, or `None` for other methods."""
    serve = _METHODS.get(method)
    if serve is None or not inbound.modern:
        return None
    uri = inbound.params.get("uri")
    if method != "skills/list" and not isinstance(uri, str):
        raise RpcError(-32602, "params.uri is not a string")
    return serve(inbound)


def _list(inbound: InboundRequest) -> JsonObject:
    entries: list[JsonValue] = [entry_of(root) for root in _FRONT_MATTER if root != _UNLISTED]
    cursor = inbound.params.get("cursor")
    if cursor is None:
        return {"skills": entries[:_PAGE], "nextCursor": "more-skills"}
    if cursor != "more-skills":
        raise RpcError(-32602, "unknown cursor")
    return {"skills": entries[_PAGE:]}


def _get(inbound: InboundRequest) -> JsonObject:
    uri = str(inbound.params["uri"])
    root = uri.removeprefix(_SCHEME).removesuffix(f"/{_SKILL_FILE}")
    if root not in _FRONT_MATTER or uri != f"{_SCHEME}{root}/{_SKILL_FILE}":
        raise RpcError(-32602, f"no skill at {uri}")
    return {"skill": entry_of(root)}


def _read_directory(inbound: InboundRequest) -> JsonObject:
    uri = str(inbound.params["uri"])
    children: dict[str, JsonValue] = {}
    for path in _FILES:
        whole = f"{_SCHEME}{path}"
        if whole.startswith(f"{uri}/"):
            name, deeper, _ = whole[len(uri) + 1 :].partition("/")
            kind = "inode/directory" if deeper else "text/markdown"
            children[name] = {"uri": f"{uri}/{name}", "name": name, "mimeType": kind}
    if not children:
        raise RpcError(-32602, f"{uri} is not a directory")
    return {"resources": [*children.values()]}


_METHODS: Final[Mapping[str, Callable[[InboundRequest], JsonObject]]] = {
    "skills/list": _list,
    "skills/get": _get,
    "resources/directory/read": _read_directory,
}
SKILLS_METHODS: Final = ("skills/list", "skills/get")
"""The methods with a cacheable result."""
