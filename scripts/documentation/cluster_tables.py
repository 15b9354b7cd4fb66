"""The tables of the reference about clusters of workers, from the tables that the code uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from documentation.markdown import markdown_table
from mcp_server.cluster.redis.key_table import KEY_TABLE, acl_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CLUSTER_TABLES"]


def _keys() -> list[str]:
    rows = [[f"`{row.name}`", row.type, row.content, row.size, row.lifetime] for row in KEY_TABLE]
    return markdown_table(["key", "type", "content", "size in bytes", "expires"], rows)


def _acl_rules() -> list[str]:
    return ["```text", f"user mcp on >PASSWORD {acl_rules('mcp')}", "```"]


CLUSTER_TABLES: Final[Mapping[str, Callable[[], list[str]]]] = {
    "redis-keys": _keys,
    "redis-acl": _acl_rules,
}
"""By name: the function that returns the lines of the table."""
