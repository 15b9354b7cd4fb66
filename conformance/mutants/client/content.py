"""Valid content that the raw client rejects, if that is its fault."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING

from mutants.client.messages import ClientError, wrong

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["reject_content", "reject_entries"]


def reject_content(result: JsonObject) -> None:
    """Raise `ClientError` if the fault rejects the content of a result of a tool, a prompt or a resource."""
    if wrong("needs-a-block") and result.get("content") == []:
        raise ClientError("there is no content")
    if wrong("knows-no-links") and '"resource_link"' in dumps(result):
        raise ClientError("unknown type of content")
    blocks = result.get("content")
    for block in blocks if isinstance(blocks, list) else []:
        if (
            isinstance(block, dict)
            and block.get("type") == "audio"
            and not block.get("data")
            and wrong("no-empty-audio")
        ):
            raise ClientError("there is no audio")
    if wrong("no-binary-resources") and '"blob"' in dumps(result.get("contents")):
        raise ClientError("there is no text")


def reject_entries(result: JsonObject) -> None:
    """Raise `ClientError` if the fault rejects the entries of a list."""
    listed = result.get("tools")
    for tool in listed if isinstance(listed, list) else []:
        schema = tool.get("outputSchema") if isinstance(tool, dict) else None
        if wrong("object-outputs-only") and isinstance(schema, dict) and schema.get("type") != "object":
            raise ClientError("the output schema is not one of objects")
