"""Tools: listing and calling them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_conformance.answers import brief
from mcp_conformance.oracle import flaw_of_result
from mcp_conformance.server.registry import check
from mcp_conformance.verdicts import Deviation

if TYPE_CHECKING:
    from mcp_conformance.under_test import ServerUnderTest


@check(
    "tools.list-schema",
    proves=("tools.list-served", "tools.tool-shape", "schema.list-tools-result"),
    needs=("capability:tools",),
)
async def list_schema(server: ServerUnderTest) -> None:
    """`tools/list` is answered by a ListToolsResult."""
    answer = await server.peer.request("tools/list")
    wrong = flaw_of_result("tools/list", answer.result(), server.revision)
    if wrong is not None:
        raise Deviation("a ListToolsResult", wrong)


@check("tools.text", proves=("tools.call-result-shape", "schema.call-tool-result"), needs=("capability:tools",))
async def text(server: ServerUnderTest) -> None:
    """A call of a tool is answered by its content."""
    answer = await server.call("test_simple_text")
    content = answer.member("content", list)
    if not isinstance(content, list) or not content:
        raise Deviation("content", brief(content))
