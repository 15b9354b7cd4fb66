"""A sweep over all features of a server, for the checks that judge recorded messages."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.verdict import NotTestable
from mcp_core.revisions import Era

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_MOST: Final = 10
"""Maximum number of resources to read, prompts to get, and templates to complete."""

_VARIABLE: Final = re.compile(r"\{[+#./;?&]?([A-Za-z0-9_]+)")
"""The first variable of a template."""

_CALLS: Final[Mapping[str, JsonObject]] = {
    "test_simple_text": {},
    "test_image_content": {},
    "test_audio_content": {},
    "test_embedded_resource": {},
    "test_multiple_content_types": {},
    "test_tool_with_logging": {},
    "test_tool_with_progress": {},
    "test_error_handling": {},
    "test_sampling": {"prompt": "Say yes."},
    "test_elicitation": {"message": "Who are you?"},
    "test_elicitation_sep1034_defaults": {},
    "test_elicitation_sep1330_enums": {},
    "test_input_required_result_elicitation": {},
    "test_input_required_result_multiple_inputs": {},
    "conformance_structured": {"value": 1.5},
    "conformance_structured_list": {"count": 3},
    "conformance_url_required": {},
}
"""The tools of the fixture contract that can be called at any time, with their arguments."""


@check(
    "schema.tour",
    proves=("jsonrpc.response-result-or-error", "jsonrpc.schema-valid-messages"),
)
async def tour(server: ServerUnderTest) -> None:
    """Everything that the server offers can be requested and gets a response."""
    peer = server.peer
    peer.replies["sampling/createMessage"] = lambda _: {
        "role": "assistant",
        "content": {"type": "text", "text": "Yes."},
        "model": "suite",
    }
    peer.replies["elicitation/create"] = lambda _: {"action": "decline"}
    meta: JsonObject = {"progressToken": "tour"}
    if peer.revision.era is Era.MODERN:
        meta["io.modelcontextprotocol/logLevel"] = "debug"
    for fixture, arguments in _CALLS.items():
        found = server.manifest.find("tools", fixture)
        if server.inventory.find("tools", found.name) is not None:
            name, given = server.tool(fixture, arguments)
            await peer.request("tools/call", {"name": name, "arguments": given, "_meta": meta})
    if server.revision.era is Era.LEGACY and not server.revision.core_tasks:
        with suppress(NotTestable):
            # In these revisions, an unknown member of the params.
            name, given = server.tool("slow_compute", {"seconds": 0.05, "label": "short"})
            await peer.request("tools/call", {"name": name, "arguments": given, "task": {"ttl": 60_000}})
    for resource in server.inventory.lists.get("resources", ())[:_MOST]:
        await peer.request("resources/read", {"uri": str(resource.get("uri"))})
    for prompt in server.inventory.lists.get("prompts", ())[:_MOST]:
        named = prompt.get("arguments")
        texts: JsonObject = {
            str(each.get("name")): "test://static-text"
            for each in (named if isinstance(named, list) else ())
            if isinstance(each, dict)
        }
        await peer.request("prompts/get", {"name": str(prompt.get("name")), "arguments": texts})
        if server.inventory.has("completions"):
            ref: JsonObject = {"type": "ref/prompt", "name": str(prompt.get("name"))}
            for name in texts:
                await peer.request("completion/complete", {"ref": ref, "argument": {"name": name, "value": "t"}})
    for template in server.inventory.lists.get("templates", ())[:_MOST]:
        variable = _VARIABLE.search(str(template.get("uriTemplate")))
        if variable is not None and server.inventory.has("completions"):
            ref = {"type": "ref/resource", "uri": str(template.get("uriTemplate"))}
            await peer.request("completion/complete", {"ref": ref, "argument": {"name": variable[1], "value": ""}})
