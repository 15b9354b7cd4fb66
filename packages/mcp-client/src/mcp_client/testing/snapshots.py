"""Snapshots of the tools of a server: a JSON file that a test compares with the tools that the server lists.

The file is deterministic: tools are sorted by name and members by key, and each member is on a line of its own.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import orjson

from mcp_core.conversion.converter import converter
from mcp_core.trio.async_library import allow_asyncio

if TYPE_CHECKING:
    from os import PathLike

    from mcp_client.client import Client

__all__ = ["AssertToolsMatchSnapshot", "assert_tools_match_snapshot"]

_DIFF_LINES: Final = 200
"""Number of lines of a difference that an error shows."""


class AssertToolsMatchSnapshot(Protocol):
    """The function of the fixture `assert_tools_match_snapshot`."""

    async def __call__(self, client: Client, name: str = "tools") -> None:
        """Compare the tools of a server with the snapshot of this test.

        Args:
            client: A client of the server.
            name: The name of the snapshot; only a test with several snapshots needs it.

        Raises:
            AssertionError: The snapshot is missing, or the tools differ from it.
        """


@allow_asyncio
async def assert_tools_match_snapshot(client: Client, path: str | PathLike[str], *, update: bool = False) -> None:
    """Compare the tools of a server with a snapshot.

    Args:
        client: A client of the server.
        path: The file with the snapshot.
        update: Whether to write the file, with its folders, instead of comparing.

    Raises:
        AssertionError: The file is missing, is not text in UTF-8, or differs from the tools. The message has the difference.
        OSError: The file cannot be read or written.
    """
    __tracebackhide__ = True
    wire = converter(client.revision)
    found = [wire.unstructure(tool) for tool in await client.fresh().list_tools()]
    found.sort(key=lambda tool: str(tool["name"]))
    actual = orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE).decode()
    if update:
        _write(Path(path), actual)
    else:
        _compare(Path(path), actual)


# The file is small and local. A worker thread would let trio's test clock jump over deadlines.
def _write(file: Path, actual: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(actual, encoding="utf-8", newline="\n")


def _compare(file: Path, actual: str) -> None:
    __tracebackhide__ = True
    remedy = "pytest --mcp-update-snapshots writes it; without the plugin, pass update=True"
    try:
        expected = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise AssertionError(f"the snapshot {file} does not exist; {remedy}") from None
    except UnicodeDecodeError as error:
        raise AssertionError(f"the snapshot {file} is not text in UTF-8: {error}; {remedy}") from error
    if expected != actual:
        lines = list(
            difflib.unified_diff(expected.splitlines(), actual.splitlines(), str(file), "the server", lineterm="")
        )
        more = [f"... {len(lines) - _DIFF_LINES} more lines"] if len(lines) > _DIFF_LINES else []
        shown = "\n".join([*lines[:_DIFF_LINES], *more])
        raise AssertionError(f"the tools differ from the snapshot; {remedy}\n{shown}")
