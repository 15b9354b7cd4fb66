"""The rules that the lists of tools, resources, templates and prompts have in common."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.checks.probes.interactive_calls import converse
from mcp_conformance.checks.probes.repetition import each_time
from mcp_conformance.checks.probes.task_calls import begin, declares_tasks
from mcp_conformance.checks.registry.server import SERVER_CHECKS
from mcp_conformance.drivers.server.suite_connection import encoded
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.message_schema import flaw_of_result
from mcp_conformance.protocol.response import brief

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_conformance.drivers.server.suite_connection import SuiteConnection
    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["LISTS", "List", "entries", "walk"]

_PAGES: Final = 100
_READ: Final = 3
"""Number of resources and prompts that are used."""
_TASK: Final = "slow_compute"
_SHORT: Final[JsonObject] = {"seconds": 0.1, "label": "short"}
_USED: Final = (
    ("tools", "tools/call", "test_simple_text"),
    ("tools", "tools/call", "test_error_handling"),
    ("tools", "tools/call", "test_input_required_result_elicitation"),
    ("prompts", "prompts/get", "test_simple_prompt"),
    ("prompts", "prompts/get", "conformance_failing_prompt"),
)
"""Fixtures that do not change a list: their kind, method and name."""
_UNKNOWN: Final[tuple[tuple[str, str, JsonObject], ...]] = (
    ("tools", "tools/call", {"name": "conformance-does-not-exist", "arguments": {}}),
    ("prompts", "prompts/get", {"name": "conformance-does-not-exist"}),
    ("resources", "resources/read", {"uri": "conformance-unknown://nothing/here"}),
)
"""Requests for what does not exist: capability, method and params."""


@attrs.frozen(kw_only=True)
class List:
    """A kind of list."""

    kind: str
    """Kind of the entries, as in the inventory."""
    capability: str
    """Capability of the list."""
    method: str
    """Method of the request."""
    member: str
    """Member of the result that contains the entries."""
    key: str
    """Member that identifies an entry."""


LISTS: Final = (
    List(kind="tools", capability="tools", method="tools/list", member="tools", key="name"),
    List(kind="resources", capability="resources", method="resources/list", member="resources", key="uri"),
    List(
        kind="templates",
        capability="resources",
        method="resources/templates/list",
        member="resourceTemplates",
        key="uriTemplate",
    ),
    List(kind="prompts", capability="prompts", method="prompts/list", member="prompts", key="name"),
)
"""All lists."""


def entries(page: JsonObject, row: List) -> list[JsonObject]:
    """Return the entries of one page that are objects."""
    listed = page.get(row.member)
    return [each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, dict)]


async def walk(peer: SuiteConnection, row: List, *, meta: JsonObject | None = None) -> list[JsonObject]:
    """Return the results of all pages of a list.

    Args:
        peer: The connection.
        row: The list.
        meta: The request metadata of each request; `None`: what the revision requires.

    Raises:
        Deviation: A page is an error, or the pages do not end.
    """
    pages: list[JsonObject] = []
    params: JsonObject = {} if meta is None else {"_meta": meta}
    for _ in range(_PAGES):
        answer = await peer.request(row.method, params or None)
        pages.append(answer.result())
        onward = pages[-1].get("nextCursor")
        if onward is None:
            return pages
        if not isinstance(onward, str):
            raise Deviation("nextCursor to be a string", brief(onward))
        params["cursor"] = onward
    raise Deviation(f"the end of {row.method} within {_PAGES} pages", "a nextCursor on each of them")


async def _result(server: ServerUnderTest, row: List) -> None:
    for page in await walk(server.peer, row):
        wrong = flaw_of_result(row.method, page, server.revision)
        if wrong is not None:
            raise Deviation(f"a result of {row.method} according to the schema", wrong)


async def _unique(server: ServerUnderTest, row: List) -> None:
    names: set[str] = set()
    for page in await walk(server.peer, row):
        for entry in entries(page, row):
            name = str(entry.get(row.key))
            if name in names:
                raise Deviation(f"each {row.key} of {row.method} once", f"{name!r} twice")
            names.add(name)


async def _same_everywhere(server: ServerUnderTest, row: List) -> None:
    # The list before all other requests, on a connection of its own.
    first = _by_key(server.inventory.lists.get(row.kind, ()), row)

    async def differs() -> str | None:
        await _use(server)
        if (now := await _listed(server.peer, row)) != first:
            return f"after other requests, {_difference(first, now)}"
        async with server.share(client="another") as other:
            if (now := await _listed(other, row)) != first:
                return f"on another connection, {_difference(first, now)}"
        return None

    # Another client may change the list meanwhile.
    if (observed := await each_time(differs)) is not None:
        raise Deviation(f"the same {row.kind} on each connection, and after other requests", observed)


async def _use(server: ServerUnderTest) -> None:
    """Send what must not change a list: request every list, and use features of each kind, also in vain."""
    for row in LISTS:
        if server.inventory.has(row.capability):
            await server.peer.request(row.method)
    for kind, method, name in _USED:
        fixture = server.manifest.find(kind, name)
        if server.inventory.find(kind, fixture.name) is not None:
            await server.peer.request(method, {"name": fixture.name, "arguments": fixture.arguments or {}})
    with suppress(NotTestable):
        await converse(server, "test_input_required_result_elicitation")
    if declares_tasks(server) and server.inventory.find("tools", server.manifest.find("tools", _TASK).name) is not None:
        await begin(server, _TASK, _SHORT)
    for capability, method, params in _UNKNOWN:
        if server.inventory.has(capability):
            await server.peer.request(method, params)
    embeds = server.manifest.find("prompts", "test_prompt_with_embedded_resource")
    if server.inventory.find("prompts", embeds.name) is not None:
        given: JsonObject = embeds.arguments or {"resourceUri": "test://static-text"}
        await server.peer.request("prompts/get", {"name": embeds.name, "arguments": given})
    for resource in server.inventory.lists.get("resources", ())[:_READ]:
        await server.peer.request("resources/read", {"uri": resource["uri"]})
    if server.inventory.has("completions"):
        for prompt in server.inventory.lists.get("prompts", ())[:_READ]:
            ref: JsonObject = {"type": "ref/prompt", "name": str(prompt.get("name"))}
            await server.peer.request("completion/complete", {"ref": ref, "argument": {"name": "arg1", "value": ""}})


async def _listed(peer: SuiteConnection, row: List) -> dict[str, bytes]:
    """Request a list, and return its entries by their keys."""
    return _by_key([entry for page in await walk(peer, row) for entry in entries(page, row)], row)


def _by_key(found: Iterable[JsonObject], row: List) -> dict[str, bytes]:
    return {str(entry.get(row.key)): encoded(entry) for entry in found}


def _difference(first: dict[str, bytes], now: dict[str, bytes]) -> str:
    key = next(each for each in (*first, *now) if first.get(each) != now.get(each))
    return f"{key} is {now.get(key, b'missing').decode()[:200]}"


async def _declared(server: ServerUnderTest, row: List) -> None:
    if server.inventory.has(row.capability):
        return
    answer = await server.peer.request(row.method, deviant="a method of an undeclared capability")
    listed = entries(answer.result(), row) if not answer.is_error else []
    if listed:
        raise Deviation(
            f"the capability {row.capability!r}, as the server lists {row.kind}",
            f"{len(listed)} without the capability",
        )


async def _undeclared(server: ServerUnderTest, row: List) -> None:
    if server.inventory.has(row.capability):
        raise NotApplicable(f"the server declares {row.capability}")
    answer = await server.peer.request(row.method, deviant="a method of an undeclared capability")
    answer.error(-32601, what=f"{row.method} without the capability {row.capability}")


_PROOFS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "tools": {
        "result": ("tools.list-served", "tools.tool-shape", "schema.list-tools-result"),
        "unique": ("tools.name-unique-identifier", "tools.name-unique"),
        "same": ("tools.list-not-per-connection",),
        "declared": ("tools.declare-capability", "tools.capability"),
        "undeclared": ("tools.unadvertised-32601",),
    },
    "resources": {
        "result": ("resources.list-served", "resources.resource-shape"),
        "unique": ("resources.uri-unique", "resources.uris-distinct"),
        "same": ("resources.list-not-per-connection",),
        "declared": ("resources.declare-capability", "resources.capability"),
        "undeclared": ("resources.unadvertised-32601",),
    },
    "templates": {"result": ("resources.templates-list",)},
    "prompts": {
        "result": ("prompts.list-served", "prompts.prompt-shape"),
        "unique": ("prompts.name-unique", "prompts.names-distinct"),
        "same": ("prompts.list-not-per-connection",),
        "declared": ("prompts.declare-capability", "prompts.capability", "prompts.respect-capability"),
        "undeclared": ("prompts.unadvertised-32601",),
    },
}
"""The requirements that are proved, by kind of list and rule."""

_RULES: Final = {
    "result": ("list-schema", _result, "Every page of `{method}` has a result according to the schema."),
    "unique": ("unique", _unique, "No two {kind} have the same {key}, over all pages of `{method}`."),
    "same": (
        "same-everywhere",
        _same_everywhere,
        "`{method}` does not depend on the connection, or on earlier requests.",
    ),
    "declared": ("declared", _declared, "A server with {kind} declares the capability `{capability}`."),
    "undeclared": (
        "undeclared",
        _undeclared,
        "Without the capability `{capability}`, `{method}` is answered with -32601.",
    ),
}
"""The rules of a list: the last part of the id, the check, and its title."""


def _register() -> None:
    for row in LISTS:
        area = "resources" if row.kind == "templates" else row.kind
        for rule, proves in _PROOFS[row.kind].items():
            words, run, title = _RULES[rule]

            async def check(server: ServerUnderTest, *, run: _Rule = run, row: List = row) -> None:
                await run(server, row)

            SERVER_CHECKS.add(
                f"{area}.templates-{words}" if row.kind == "templates" else f"{area}.{words}",
                check,
                title=title.format(**attrs.asdict(row)),
                proves=proves,
                needs=() if rule in ("declared", "undeclared") else (f"capability:{row.capability}",),
                subject=CheckScope.SHARED,
            )


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    _Rule = Callable[[ServerUnderTest, List], Awaitable[None]]

_register()
