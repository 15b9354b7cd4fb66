"""URLs that a client must not fetch, and results that it must fetch again.

Spec: client/elicitation, server/tools, server/utilities/caching
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import CLIENT_CHECKS, check
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_conformance.scenarios.fetches import ENDLESS, OTHERS, PAGE, SCHEMA
from mcp_conformance.scenarios.icons import FTP, ICON, OTHER_ORIGIN, REDIRECTED, SCRIPT, SVG_SCRIPT, WEBSOCKET
from mcp_conformance.scenarios.pagination import CACHED_CURSOR, CACHED_LIST, cursors
from mcp_conformance.scenarios.table import RESOURCE_LISTS

if TYPE_CHECKING:
    from mcp_conformance.drivers.client.http_exchange import HttpExchange
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.jsonrpc.messages import JsonValue

_URLS: Final = "conformance_urls"
_CACHING: Final = "conformance_caching"
_PAGES: Final = "conformance_pages"
_ODD: Final = "odd-but-legal"
_NOT_KEPT: Final = ("resources/list", "resources/templates/list")
"""The lists that are stale immediately in that scenario, although ttlMs is not 0."""


_CREDENTIALS: Final = ("authorization", "cookie")


def _listed(client: ClientUnderTest) -> Evidence:
    """Return the recorded messages of the scenario with URLs.

    Raises:
        NotTestable: The client received none of them.
    """
    evidence = client.run(_URLS)
    if not evidence.sent("tools/list"):
        raise NotTestable("the client did not list the tools, and got no URL")
    return evidence


def _add_url(
    id: str, requirements: tuple[str, ...], paths: tuple[str, ...], title: str, *, connection: str | None = None
) -> None:
    """Add a check that the client requests none of the paths, and opens no connection that leaves a note."""

    async def not_fetched(client: ClientUnderTest) -> None:
        evidence = _listed(client)
        if PAGE in paths and "visit" not in evidence.notes:
            raise NotApplicable("the client declares no URL mode elicitation, or did not call sends_to_page")
        for exchange in evidence.exchanges:
            if exchange.path in paths:
                raise Deviation(f"no request for {exchange.path}", str(exchange))
        if connection in evidence.notes:
            raise Deviation("no connection for the URL", str(connection))

    CLIENT_CHECKS.add(
        id,
        not_fetched,
        title=title,
        proves=requirements,
        transports=None,
        needs=(f"scenario:{_URLS}",),
        subject=CheckScope.EVIDENCE,
    )


_add_url(
    "elicitation.client-no-fetch",
    (
        "elicitation.no-prefetch",
        "elicitation.no-open-without-consent",
        "elicitation.url-no-prefetch",
        "elicitation.url-no-open-without-consent",
    ),
    (PAGE,),
    "The URL of an elicitation is not fetched in advance.",
)
_add_url(
    "schema.client-no-network-ref",
    ("schema.no-network-ref", "schema.network-ref-opt-in-off"),
    (SCHEMA,),
    "A remote schema that a schema refers to is not fetched.",
)
_add_url(
    "security.client-icon-schemes",
    ("security.icon-schemes", "schema.icon-uri-scheme"),
    (ICON, WEBSOCKET, SCRIPT),
    "An icon at a URL that is neither https: nor data: is not fetched, and one at javascript: not executed.",
    connection=FTP,
)
_add_url(
    "security.client-icon-origin",
    ("security.icon-same-origin", "schema.icon-same-origin"),
    (),
    "An icon that is not at the origin of the server is not fetched.",
    connection=OTHER_ORIGIN,
)
_add_url(
    "security.client-icon-scripts",
    ("security.icon-precautions", "schema.icon-security-precautions"),
    (SVG_SCRIPT,),
    "A script in the image of an icon is not executed.",
)


def _fetched_icons(client: ClientUnderTest) -> list[HttpExchange]:
    """Return the requests for the icon by plain HTTP.

    Raises:
        NotApplicable: The client fetches no icons over plain HTTP. Its requests over https are not visible.
    """
    found = [each for each in _listed(client).exchanges if each.path == ICON]
    if not found:
        raise NotApplicable("the client fetches no icons over plain HTTP, the only ones that the suite can serve")
    return found


@check(
    "security.client-icon-redirects",
    proves=("schema.icon-redirects", "security.icon-same-origin"),
    needs=(f"scenario:{_URLS}",),
)
async def icon_redirects(client: ClientUnderTest) -> None:
    """A redirect of an icon to another origin is not followed."""
    _fetched_icons(client)
    if REDIRECTED in client.run(_URLS).notes:
        raise Deviation("no request to the other origin", REDIRECTED)


@check(
    "security.client-icon-credentials",
    proves=("schema.icon-no-credentials", "security.icon-no-credentials"),
    needs=(f"scenario:{_URLS}",),
)
async def icon_credentials(client: ClientUnderTest) -> None:
    """An icon is fetched without cookies and without an Authorization header."""
    for exchange in _fetched_icons(client):
        sent = [name for name in _CREDENTIALS if exchange.header(name) is not None]
        if sent:
            raise Deviation(f"no credentials in the request for {ICON}", f"the header {', '.join(sent)}")


# --- caching
# ------------------------------------------------------------------------------------------------------------


def _caching(client: ClientUnderTest) -> Evidence:
    """Return the recorded messages of the caching scenario.

    Raises:
        NotTestable: The client read no list twice.
    """
    evidence = client.run(_CACHING)
    if len(evidence.sent("prompts/list")) < 2:
        raise NotTestable(f"the client did not read the lists twice: {evidence.ending}")
    return evidence


@check(
    "caching.client-fresh",
    proves=("caching.positive-ttl-fresh",),
    needs=(f"scenario:{_CACHING}", "scenario:tools_call"),
)
async def fresh(client: ClientUnderTest) -> None:
    """A fresh result is not fetched again, also if its ttlMs is very large."""
    evidence = client.run(_CACHING)
    listed = [each["method"] for each in evidence.requests]
    if evidence.status != 0 and listed[-1:] == ["tools/list"] and client.run("tools_call").status == 0:
        raise Deviation(f"the client to continue after a list with the ttlMs {ENDLESS}", evidence.ending)
    count = len(_caching(client).sent("tools/list"))
    if count != 1:
        raise Deviation("one tools/list within an hour", str(count))


@check(
    "caching.client-zero",
    proves=("caching.zero-ttl-stale", "caching.stale-refetch"),
    needs=(f"scenario:{_CACHING}", "scenario:tools_call"),
)
async def zero(client: ClientUnderTest) -> None:
    """A result with a ttlMs of 0 is fetched again."""
    client.control()
    evidence = client.run(_CACHING)
    if evidence.status != 0 or not evidence.sent("prompts/list"):
        raise NotTestable(f"the client did not read the prompts: {evidence.ending}")
    if len(evidence.sent("prompts/list")) < 2:
        # Control: the reason is unknown when the client fetches no list twice.
        if not any(len(evidence.sent(method)) > 1 for method in _NOT_KEPT):
            raise NotTestable("the client fetches nothing twice: the scenario did not make it, or it caches everything")
        raise Deviation("prompts/list twice", "once")


def _add_twice(id: str, requirement: str, method: str, title: str) -> None:
    async def twice(client: ClientUnderTest) -> None:
        found = _caching(client).sent(method)
        if not found:
            raise NotTestable(f"the client did not send {method}")
        if len(found) < 2:
            raise Deviation(f"{method} twice", "once")

    CLIENT_CHECKS.add(
        id,
        twice,
        title=title,
        proves=(requirement,),
        needs=(f"scenario:{_CACHING}",),
        subject=CheckScope.EVIDENCE,
    )


_add_twice(
    "caching.client-absent", "caching.absent-ttl-zero", "resources/list", "A result without ttlMs is stale immediately."
)
_add_twice(
    "caching.client-negative",
    "caching.negative-ttl-zero",
    "resources/templates/list",
    "A result with a negative ttlMs is stale immediately.",
)


def _page_by_page(client: ClientUnderTest) -> None:
    """Check that the page after a cached one is requested, if the client reads another list to its end."""
    evidence, era = client.run(_PAGES), client.revision.era

    def requested(method: str) -> list[JsonValue]:
        messages = evidence.taken(method)
        return [params.get("cursor") for each in messages if isinstance(params := each.get("params"), dict)]

    cached, following = cursors(CACHED_LIST, era)[CACHED_CURSOR : CACHED_CURSOR + 2]
    found = requested(CACHED_LIST)
    reads_to_end = cursors("tools/list", era)[-1] in requested("tools/list")
    if reads_to_end and cached in found and following not in found:
        raise Deviation(f"{CACHED_LIST} with the cursor {following!r}", brief(found))


def _list_by_list(client: ClientUnderTest) -> None:
    """Check that the prompts are requested after a cached list of tools, if the client lists them otherwise."""
    evidence, usual = client.run(_CACHING), client.run("tools_call")
    lists = evidence.status == 0 and evidence.sent("tools/list") and usual.sent("prompts/list")
    if lists and not evidence.sent("prompts/list"):
        raise Deviation("prompts/list, although tools/list is cached", evidence.ending)


def _templates_apart(client: ClientUnderTest) -> None:
    """Check that resources and templates are both requested if both lists are cached, if the client lists both otherwise."""
    evidence, usual = client.run(_ODD), client.run("tools_call")
    missing = [each for each in RESOURCE_LISTS if not evidence.sent(each)]
    if evidence.status == 0 and len(missing) == 1 and all(usual.sent(each) for each in RESOURCE_LISTS):
        raise Deviation(f"{missing[0]}, although the other list is cached", evidence.ending)


@check(
    "caching.client-key",
    proves=("caching.key-method-and-params",),
    needs=(f"scenario:{_CACHING}", f"scenario:{_PAGES}", f"scenario:{_ODD}", "scenario:tools_call"),
)
async def key(client: ClientUnderTest) -> None:
    """A cached result is not used for another resource, for another list, or for the next page."""
    _page_by_page(client)
    _list_by_list(client)
    _templates_apart(client)
    uris = {
        params.get("uri")
        for each in _caching(client).sent("resources/read")
        if isinstance(params := each.get("params"), dict)
    }
    missing = [uri for uri in ("test://static-text", *OTHERS) if uri not in uris]
    if len(missing) > len(OTHERS):
        raise NotTestable("the client read no resources")
    if missing:
        raise Deviation("resources/read of each resource", f"no request for {missing[0]}")
