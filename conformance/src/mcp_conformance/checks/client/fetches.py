"""URLs that a client must not fetch, and results that it must fetch again.

Spec: client/elicitation, server/tools, server/utilities/caching
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import CLIENT_CHECKS, check
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.scenarios.fetches import ICON, PAGE, SCHEMA

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence

_URLS: Final = "conformance_urls"
_CACHING: Final = "conformance_caching"
_NOT_KEPT: Final = ("resources/list", "resources/templates/list")
"""The lists that are stale immediately in that scenario, although ttlMs is not 0."""


def _add_url(id: str, requirements: tuple[str, ...], path: str, title: str) -> None:
    async def not_fetched(client: ClientUnderTest) -> None:
        evidence = client.run(_URLS)
        if not evidence.sent("tools/list"):
            raise NotTestable("the client did not list the tools, and got no URL")
        if path == PAGE and "visit" not in evidence.notes:
            raise NotApplicable("the client declares no URL mode elicitation, or did not call sends_to_page")
        for exchange in evidence.exchanges:
            if exchange.path == path:
                raise Deviation(f"no request for {path}", str(exchange))

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
    PAGE,
    "The URL of an elicitation is not fetched in advance.",
)
_add_url(
    "schema.client-no-network-ref",
    ("schema.no-network-ref", "schema.network-ref-opt-in-off"),
    SCHEMA,
    "A remote schema that a schema refers to is not fetched.",
)
_add_url(
    "security.client-icon-schemes",
    ("security.icon-schemes", "schema.icon-uri-scheme"),
    ICON,
    "An icon at a URL that is neither https: nor data: is not fetched.",
)


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


@check("caching.client-fresh", proves=("caching.positive-ttl-fresh",), needs=(f"scenario:{_CACHING}",))
async def fresh(client: ClientUnderTest) -> None:
    """A fresh result is not fetched again."""
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


@check("caching.client-key", proves=("caching.key-method-and-params",), needs=(f"scenario:{_CACHING}",))
async def key(client: ClientUnderTest) -> None:
    """The cached contents of one resource are not used for another."""
    uris = {
        params.get("uri")
        for each in _caching(client).sent("resources/read")
        if isinstance(params := each.get("params"), dict)
    }
    missing = {"test://static-text", "test://other"} - uris
    if len(missing) == 1:
        raise Deviation("resources/read of both resources", f"no request for {missing.pop()}")
    if missing:
        raise NotTestable("the client read no resources")
