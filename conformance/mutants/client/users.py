"""The raw client as several users of one server, with one cache for all of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mutants.client.fetch import texts
from mutants.client.http import ModernHttp
from mutants.client.messages import in_scenario, wrong
from mutants.client.reported_results import report_each

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject
    from mutants.client.messages import Wire

__all__ = ["act_for_users"]


def act_for_users(wire: Wire, context: JsonObject) -> bool:
    """Run the scenario, and return whether it is the one of this module."""
    if not in_scenario("conformance_two_users"):
        return False
    if isinstance(wire, ModernHttp):
        kept: dict[str, JsonObject] = {}
        for token in texts(context.get("access_tokens")):
            _act(wire, token, kept)
    return True


def _act(wire: ModernHttp, token: str, kept: dict[str, JsonObject]) -> None:
    if wire.token is not None and wrong("pings-second-user"):
        wire.call("ping", {})
    wire.token = token

    def call(method: str, params: JsonObject) -> JsonObject:
        request = json.dumps([method, params])
        for key in (request, token + request):
            if key in kept:
                return kept[key]
        result = wire.call(method, params)
        if "ttlMs" in result:
            is_list = method.endswith("/list")
            shared = result["cacheScope"] == "public" or wrong(
                "shares-private-lists" if is_list else "shares-private-contents"
            )
            kept[request if shared else token + request] = result
        return result

    def listed(member: str) -> list[JsonObject]:
        found = call(f"{member}/list", {}).get(member)
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

    listed("prompts")
    report_each(call, listed("tools"), listed("resources"))
