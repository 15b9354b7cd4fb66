"""The reports of the child process of `mcp-server dev` to its parent: one JSON object per line, on a pipe."""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs
import orjson

from mcp_core.field_methods import FieldValue
from mcp_server.cli.dev.load_failure import LoadFailure

__all__ = ["REPORT_BYTES", "Report", "ServerReady", "read_report", "write_report"]

REPORT_BYTES: Final = 256 * 1024
"""Most bytes of a report. The texts of a failure are shorter."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ServerReady(FieldValue):
    """The server accepts requests."""

    name: str
    """The name of the server."""
    version: str
    """The version of the server."""


Report: TypeAlias = ServerReady | LoadFailure
"""A report: either the server accepts requests, or it has failed."""

_KINDS: Final = {"serving": ServerReady, "failed": LoadFailure}


def write_report(report: Report) -> bytes:
    """Return the line of a report."""
    kind = next(name for name, form in _KINDS.items() if isinstance(report, form))
    # A message can have lone surrogates, which JSON cannot carry.
    values = {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in attrs.asdict(report).items()
    }
    return orjson.dumps({"kind": kind, **values}) + b"\n"


def read_report(line: bytes) -> Report:
    """Return the report of a line that `write_report` wrote."""
    values = orjson.loads(line)
    kind = values.pop("kind")
    return ServerReady(**values) if kind == "serving" else LoadFailure(**values)
