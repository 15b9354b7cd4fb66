"""Caching: the cache hints of results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.expanded_templates import expanded_template
from mcp_conformance.checks.probes.interactive_calls import request_until_input, retried
from mcp_conformance.checks.probes.message_pairs import answered
from mcp_conformance.checks.registry.server import SERVER_CHECKS, check
from mcp_conformance.checks.server.lists import LISTS, walk
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

_HINTS: Final = ("ttlMs", "cacheScope")
_INTERACTIVE: Final = "test://conformance/asking"
"""The resource whose reading requires input."""
_SCOPES: Final = ("public", "private")
_METHODS: Final = {
    "server/discover": ("discover", None),
    "tools/list": ("tools-list", "tools"),
    "prompts/list": ("prompts-list", "prompts"),
    "resources/list": ("resources-list", "resources"),
    "resources/templates/list": ("resources-templates-list", "resources"),
    "resources/read": ("resources-read", "resources"),
}
"""The cacheable results: the last part of the id, and the capability."""


def _register() -> None:
    for method, (words, capability) in _METHODS.items():

        async def run(server: ServerUnderTest, *, method: str = method) -> None:
            params: JsonObject | None = None
            if method == "resources/read":
                if not server.inventory.lists["resources"]:
                    raise NotTestable("the server lists no resources")
                params = {"uri": server.inventory.lists["resources"][0].get("uri")}
            _require_hints(method, (await server.peer.request(method, params)).result())
            if method == "resources/read":
                await _require_hints_of_template(server)
                await _require_hints_of_retry(server)

        SERVER_CHECKS.add(
            f"caching.{words}",
            run,
            title=f"A result of `{method}` has ttlMs and cacheScope.",
            proves=(f"caching.hints-{words}",),
            needs=() if capability is None else (f"capability:{capability}",),
        )


def _require_hints(method: str, result: JsonObject) -> None:
    missing = [hint for hint in _HINTS if hint not in result]
    if missing and result.get("resultType") == "complete":
        raise Deviation(f"{' and '.join(_HINTS)} in the result of {method}", f"no {' and no '.join(missing)}")


async def _require_hints_of_template(server: ServerUnderTest) -> None:
    """Require the hints in the result for a URI that matches a template, if the server has the fixture."""
    uri = expanded_template(server, "123")
    answer = None if uri is None else await server.peer.request("resources/read", {"uri": uri})
    if answer is not None and not answer.is_error:
        _require_hints("resources/read of a URI that matches a template", answer.result())


async def _require_hints_of_retry(server: ServerUnderTest) -> None:
    """Require the hints in the result of a retry with input responses, if the server has the fixture."""
    try:
        params: JsonObject = {"uri": server.require("resources", _INTERACTIVE)}
        required = await request_until_input(server.peer, "resources/read", params)
    except NotTestable:
        return
    again = await server.peer.request("resources/read", retried(params, required))
    if not again.is_error:
        _require_hints("a retry of resources/read", again.result())


_register()


def _results(server: ServerUnderTest) -> Iterator[tuple[str, JsonObject]]:
    for request, response in answered(server):
        result = response.get("result")
        if request["method"] in _METHODS and isinstance(result, dict):
            yield str(request["method"]), result


@check("caching.ttl", proves=("caching.ttl-non-negative-integer",), subject=CheckScope.EVIDENCE)
async def ttl(server: ServerUnderTest) -> None:
    """Every ttlMs is a non-negative integer."""
    count = 0
    for method, result in _results(server):
        if "ttlMs" in result:
            count += 1
            value = result["ttlMs"]
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or value != int(value):
                raise Deviation(f"ttlMs of {method} to be a non-negative integer", brief(value))
    if not count:
        raise NotTestable("no result had a ttlMs")


@check("caching.scope", proves=("caching.scope-values",), subject=CheckScope.EVIDENCE)
async def scope(server: ServerUnderTest) -> None:
    """Every cacheScope is "public" or "private"."""
    count = 0
    for method, result in _results(server):
        if "cacheScope" in result:
            count += 1
            if result["cacheScope"] not in _SCOPES:
                raise Deviation(f"cacheScope of {method} to be public or private", brief(result["cacheScope"]))
    if not count:
        raise NotTestable("no result had a cacheScope")


@check("caching.scope-of-pages", proves=("caching.scope-same-for-pages",))
async def scope_of_pages(server: ServerUnderTest) -> None:
    """All pages of a list have the same cacheScope."""
    long = 0
    for row in LISTS:
        if server.inventory.has(row.capability):
            pages = await walk(server.peer, row)
            long += len(pages) > 1
            scopes = [page.get("cacheScope") for page in pages]
            if any(each != scopes[0] for each in scopes):
                raise Deviation(f"one cacheScope for all pages of {row.method}", brief([*scopes]))
    if not long:
        raise NotTestable("no list of the server has more than one page")


@check(
    "caching.not-when-input-is-required",
    proves=("caching.hints-not-on-input-required",),
    needs=("capability:resources",),
)
async def not_when_input_is_required(server: ServerUnderTest) -> None:
    """An InputRequiredResult of `resources/read` has neither ttlMs nor cacheScope."""
    uri = server.require("resources", _INTERACTIVE)
    answer = await server.peer.request("resources/read", {"uri": uri})
    if answer.member("resultType") != "input_required":
        raise NotTestable(f"the control request failed: the resource requires no input: {answer}")
    hints = [hint for hint in _HINTS if hint in answer.result()]
    if hints:
        raise Deviation("no cache hints in an InputRequiredResult", f"{' and '.join(hints)}: {answer}")
