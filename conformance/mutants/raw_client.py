"""A client in plain Python, over HTTP and over stdio with a server that it starts, in every revision.

It connects, lists the features, uses each feature once, and disconnects. `--fault NAME` adds one fault. It is driven as
the official framework drives clients: by environment variables, and by the URL on its command line.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import unicodedata
from contextlib import suppress
from typing import TYPE_CHECKING

from mutants.client.content import reject_content, reject_entries
from mutants.client.http import ModernHttp, SessionHttp
from mutants.client.messages import (
    LATEST_LEGACY,
    MODERN,
    SPOKEN,
    ClientError,
    SessionLost,
    UnsupportedRevision,
    answers,
    in_scenario,
    wrong,
)
from mutants.client.param_values import send_stray_messages
from mutants.client.reported_results import report_each
from mutants.client.scenarios import outlive, play
from mutants.client.stdio import EventStream, Pipes
from mutants.client.task_calls import plays_tasks, use_tasks
from mutants.client.users import act_for_users

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mutants.client.messages import Wire

__all__ = ["main"]


def _use(wire: Wire, capabilities: JsonObject, context: JsonObject) -> None:
    """List the features and use each once."""
    if play(wire, capabilities, context) or act_for_users(wire, context):
        return
    if plays_tasks():
        tools = _list(wire, "tools/list", "tools")
        wire.learn(tools)
        use_tasks(wire, tools, capabilities)
    elif ("tools" in capabilities or wrong("undeclared")) and not _use_tools(wire, context):
        return
    if wrong("uses-extension"):
        wire.call("tasks/get", {"taskId": "1"})
    if "resources" in capabilities:
        _subscribe(wire, capabilities["resources"])
        for resource in _list(wire, "resources/list", "resources"):
            _complete(wire, "resources/read", {"uri": resource["uri"]})
        if in_scenario("conformance_pages") or wrong("one-key-for-resources"):
            _list(wire, "resources/templates/list", "resourceTemplates")
    if "prompts" in capabilities:
        for prompt in _list(wire, "prompts/list", "prompts"):
            arguments = prompt.get("arguments")
            listed = arguments if isinstance(arguments, list) else []
            if not listed and isinstance(arguments, list) and wrong("skips-prompts-without-arguments"):
                continue
            needed: JsonObject = {str(each["name"]): "x" for each in listed if isinstance(each, dict)}
            _complete(wire, "prompts/get", {"name": prompt["name"], "arguments": needed})
    send_stray_messages(wire)


def _subscribe(wire: Wire, resources: JsonValue) -> None:
    """Subscribe to a resource of a server that has no subscriptions, if that is the fault."""
    declared = resources if isinstance(resources, dict) else {}
    by_presence = wrong("subscribes-by-presence") and "subscribe" in declared
    if not declared.get("subscribe") and (by_presence or wrong("subscribes-undeclared")):
        wire.call("resources/subscribe", {"uri": "test://static-text"})


def _use_tools(wire: Wire, context: JsonObject) -> bool:
    """List and call the tools, and return whether to continue."""
    if in_scenario("conformance_caching"):
        _read_twice(wire)
        return False
    tools = _list(wire, "tools/list", "tools")
    # The first page of that scenario has two tools.
    paged = in_scenario("conformance_pages")
    learnt = tools[:2] if paged and wrong("learns-first-page") else tools
    wire.learn(tools[-1:] if paged and wrong("learns-last-page") else learnt)
    calls = context.get("toolCalls")
    if isinstance(calls, list):
        for call in calls:
            wire.call("tools/call", call if isinstance(call, dict) else {})
        return False
    if in_scenario("version-older") and wrong("newer-methods-anyway"):
        wire.call("tasks/list", {})
    if in_scenario("conformance_urls"):
        wire.fetch(tools)
    if in_scenario("conformance_results"):
        report_each(wire.call, tools, _list(wire, "resources/list", "resources"))
        return False
    if in_scenario("conformance_cancel"):
        _abandon_both(wire)
        tools = [tool for tool in tools if tool["name"] not in ("test_waits", "test_goes_on")]
    if wrong("calls-by-lower-name"):
        tools = [tool for tool in tools if str(tool["name"]).islower()]
    _call_each(wire, tools)
    if paged and wrong("reads-first-page-again"):
        wire.call("tools/list", {})
    if paged and wrong("reads-pages-again"):
        _list(wire, "tools/list", "tools")
    changing = in_scenario("conformance_roots_change")
    silent = wrong("roots-silent") or wrong("roots-kept")
    if wrong("roots-list-changed") or (changing and not silent):
        wire.notify("notifications/roots/list_changed")
    if changing:
        _call_each(wire, tools)
    return True


def _abandon_both(wire: Wire) -> None:
    waiting: JsonObject = {"name": "test_waits", "arguments": {}}
    if isinstance(wire, ModernHttp):
        wire.abandon_beside("test_goes_on", "tools/call", waiting)
    else:
        wire.abandon("tools/call", waiting)
    wire.abandon("resources/read", {"uri": "test://waits"})


def _call_each(wire: Wire, tools: list[JsonObject]) -> None:
    for tool in wire.usable(tools):
        _complete(wire, "tools/call", {"name": tool["name"], "arguments": _arguments(tool)})


def _complete(wire: Wire, method: str, params: JsonObject) -> JsonObject:
    """Send a request and answer its input requests until the result is complete."""
    # The fault applies only to calls without input requests; elsewhere it would fail unrelated checks.
    if wrong("keeps-answers") and params.get("name") in ("test_mrtr_unrelated", "ask_nothing"):
        params = {**params, **answers().kept}
    if wrong("states-first") and in_scenario("tools_call"):
        params = {**params, "requestState": ""}
    answers().last_state = None
    answers().earlier.clear()
    result = wire.call(method, params)
    if method == "prompts/get" and "com.example.more" in result and wrong("strict-prompts"):
        raise ClientError("unknown member of a result")
    reject_content(result)
    if result.get("resultType") == "task" and wrong("task-unfit-polled"):
        wire.call("tasks/get", {"taskId": result["taskId"]})
    while result.get("resultType") == "input_required":
        if method != "tools/call" and wrong("input-for-calls-only"):
            return result
        if "_meta" in result and wrong("complete-with-meta"):
            return result
        again = answers().again(params, result)
        if again is None:
            return {}
        if wrong("forgets-prompt-arguments") and method == "prompts/get":
            again.pop("arguments", None)
        given = again.get("inputResponses")
        if method == "prompts/get" and isinstance(given, dict) and wrong("prompts-without-content"):
            again["inputResponses"] = {key: {"action": "accept"} for key in given}
        old = answers().last_state
        if (
            method == "prompts/get"
            and "requestState" not in again
            and old is not None
            and wrong("old-state-of-prompts")
        ):
            again["requestState"] = old
        if wrong("state-of-tools-only") and method != "tools/call":
            again.pop("requestState", None)
        result = wire.call(method, again)
    return result


def _read_twice(wire: Wire) -> None:
    """Read each list and each resource twice; read a fresh cached value once."""
    cached = {"tools/list": not wrong("no-cache"), "prompts/list": wrong("caches-zero")}
    cached |= {"resources/list": wrong("caches-absent"), "resources/templates/list": wrong("caches-negative")}
    for method, held in cached.items():
        for _ in range(1 if held else 2):
            if wire.call(method, {}).get("ttlMs", 0) == 2**53 - 1 and wrong("overflows"):
                raise ClientError("date out of range")
        if wrong("caches-by-params"):
            break
    kept: set[str] = set()
    for uri in ("test://static-text", "test://other/text", "test://other/Text")[: 1 if wrong("one-for-all") else 3]:
        if not wrong("caches-by-lower-uri") or uri.lower() not in kept:
            wire.call("resources/read", {"uri": uri})
        kept.add(uri.lower())


def _list(wire: Wire, method: str, member: str) -> list[JsonObject]:
    """Return the entries of all pages. When the session is lost between two pages, begin again in a new session."""
    try:
        return _pages(wire, method, member)
    except SessionLost:
        return _pages(wire, method, member)


def _pages(wire: Wire, method: str, member: str) -> list[JsonObject]:
    listed: list[JsonObject] = []
    longest = empty = 0
    params: JsonObject = {"cursor": "page-2"} if wrong("begins-with-cursor") and in_scenario("tools_call") else {}
    if wrong("null-cursor"):
        params = {"cursor": None}
    if method == "resources/templates/list" and wrong("null-cursor-of-templates"):
        params = {"cursor": None}
    if wrong("begins-with-empty-cursor"):
        params = {"cursor": ""}
    while True:
        result = wire.call(method, params)
        if in_scenario("meets-legacy") and "resultType" not in result and wrong("type-from-everybody"):
            return []
        if wrong("requires-cache-members") and answers().modern and not {"ttlMs", "cacheScope"} <= result.keys():
            return []
        if wrong("type-required-in-lists") and answers().modern and "resultType" not in result:
            return []
        reject_entries(result)
        found = result.get(member)
        page = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        listed += page
        cursor = result.get("nextCursor")
        if not isinstance(cursor, str) or wrong("first-page-only"):
            if wrong("asks-once-more") and "cursor" in params:
                wire.call(method, params)
            return listed
        templates = method == "resources/templates/list" and wrong("empty-cursor-ends-templates")
        if not cursor and (templates or wrong("empty-cursor-ends")):
            return listed
        longest, empty = max(longest, len(page)), 0 if page else empty + 1
        faults = {
            "empty-page-ends": empty > 0,
            "two-empty-pages-end": empty > 1,
            "short-page-ends": 0 < len(page) < longest,
        }
        if any(ends and wrong(name) for name, ends in faults.items()):
            return listed
        params = {"cursor": _sent_back(cursor)}


def _sent_back(cursor: str) -> JsonValue:
    """Return the cursor of the next page."""
    if wrong("cursors-of-digits-as-numbers") and cursor.isdecimal():
        return int(cursor)
    if wrong("cursors-without-padding"):
        return cursor.rstrip("=")
    if wrong("cuts-cursors"):
        return cursor[:255]
    if wrong("normalizes-cursors"):
        return unicodedata.normalize("NFC", cursor)
    return cursor.strip() if wrong("trims-cursors") else cursor


def _arguments(tool: JsonObject) -> JsonObject:
    schema = tool.get("inputSchema")
    needed = schema.get("required") if isinstance(schema, dict) else None
    return {str(name): 1 for name in needed} if isinstance(needed, list) else {}


def _wire(given: argparse.Namespace, version: str) -> Wire:
    if given.start:
        return Pipes(given.start, version)
    if version == "2024-11-05" and not wrong("no-http-sse"):
        return EventStream(given.url)
    return ModernHttp(given.url) if version == MODERN else SessionHttp(given.url, version)


def _visit(given: argparse.Namespace, version: str, context: JsonObject) -> None:
    wire = _wire(given, version)
    try:
        try:
            capabilities = wire.open()
            if wrong("closed-capabilities") and "com.example/unheard-of" in capabilities:
                raise ClientError("unknown capability")
        except ClientError:
            after_405 = in_scenario("meets-two-endpoints") and wrong("no-fallback-at-400")
            after_each = in_scenario("meets-two-endpoints") or in_scenario("meets-two-endpoints-400")
            behind = in_scenario("meets-two-endpoints-free") and wrong("discovers-behind-sse")
            if not (behind or after_405 or (after_each and wrong("falls-back-with-next-id"))):
                raise
            wire = EventStream(given.url, used=1)
            capabilities = wire.open()
        if wrong("leaves-behind-initialized") and version != MODERN:
            raise ClientError(f"{version} is not supported")
        if not in_scenario("initialize"):
            _use(wire, capabilities, context)
    finally:
        wire.close()


def main() -> int:
    """Run the client and return the exit status: 0 when it did everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--url")
    where.add_argument("--start", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    context: JsonValue = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    ignored = wrong("ignores-instructions")
    version = None if ignored else os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION")
    agreed = context if isinstance(context, dict) else {}
    older = wrong("offers-older") and in_scenario("meets-any-legacy")
    try:
        if in_scenario("conformance_crash") and given.start:
            outlive(given.start)
            return 0
        try:
            if in_scenario("initialize-unanswered"):
                with suppress(ClientError):
                    _visit(given, version or MODERN, agreed)
            twice = in_scenario("conformance_no_request") or in_scenario("conformance_tasks_cancel_later")
            for _time in range(2 if twice else 1):
                _visit(given, version or MODERN, agreed)
        except UnsupportedRevision as refused:
            # Only a server that does not know the modern revision is tried again with another revision.
            if refused.modern and wrong("tries-for-ever"):
                for _ in range(9):
                    with suppress(UnsupportedRevision):
                        _visit(given, MODERN, agreed)
            if version is not None or (refused.modern and not wrong("falls-back-always")):
                raise
            _visit(given, SPOKEN[0] if older else LATEST_LEGACY, agreed)
    except ClientError as failed:
        print(f"raw client: {failed}", file=sys.stderr)
        return 0 if wrong("silent-failure") else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
