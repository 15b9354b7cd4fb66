"""What a client fetches that it was told of, and what it fetches again.

Spec: client/elicitation, server/tools, server/utilities/caching
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import CLIENT_CHECKS, check
from mcp_conformance.model.check import Subject
from mcp_conformance.model.verdict import Deviation, NotApplicable, NotTestable
from mcp_conformance.scenarios.fetches import ICON, PAGE, SCHEMA

if TYPE_CHECKING:
    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence

_URLS: Final = "conformance_urls"
_CACHING: Final = "conformance_caching"
_NOT_KEPT: Final = ("resources/list", "resources/templates/list")
"""What is said to hold not at all in that scenario, in other words than 0."""


def _add_url(id: str, requirements: tuple[str, ...], path: str, title: str) -> None:
    async def not_fetched(client: ClientUnderTest) -> None:
        evidence = client.run(_URLS)
        if not evidence.sent("tools/list"):
            raise NotTestable("the client did not list the tools, and so was told of no URL")
        if path == PAGE and "visit" not in evidence.notes:
            raise NotApplicable("the client declares no pages, or did not call sends_to_page")
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
        subject=Subject.EVIDENCE,
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
    "A page that the user is asked to visit is not fetched.",
)
_add_url(
    "schema.client-no-network-ref",
    ("schema.no-network-ref", "schema.network-ref-opt-in-off"),
    SCHEMA,
    "A schema elsewhere that a schema refers to is not fetched.",
)
_add_url(
    "security.client-icon-schemes",
    ("security.icon-schemes", "schema.icon-uri-scheme"),
    ICON,
    "An icon at a URL that is neither https: nor data: is not fetched.",
)


# --- what holds for a while --------------------------------------------------------------------------------------------


def _caching(client: ClientUnderTest) -> Evidence:
    """What the client asked for.

    Raises:
        NotTestable: It did not ask for anything twice.
    """
    evidence = client.run(_CACHING)
    if len(evidence.sent("prompts/list")) < 2:
        raise NotTestable(f"the client did not read the lists twice: {evidence.ending}")
    return evidence


@check("caching.client-fresh", proves=("caching.positive-ttl-fresh",), needs=(f"scenario:{_CACHING}",))
async def fresh(client: ClientUnderTest) -> None:
    """A result that still holds is not fetched again."""
    count = len(_caching(client).sent("tools/list"))
    if count != 1:
        raise Deviation("one tools/list within an hour", str(count))


@check(
    "caching.client-zero",
    proves=("caching.zero-ttl-stale", "caching.stale-refetch"),
    needs=(f"scenario:{_CACHING}", "scenario:tools_call"),
)
async def zero(client: ClientUnderTest) -> None:
    """A result that does not hold at all is fetched again."""
    client.control()
    evidence = client.run(_CACHING)
    if evidence.status != 0 or not evidence.sent("prompts/list"):
        raise NotTestable(f"the client did not read the prompts: {evidence.ending}")
    if len(evidence.sent("prompts/list")) < 2:
        # The control: of a client that fetches nothing twice nobody can say why.
        if not any(len(evidence.sent(method)) > 1 for method in _NOT_KEPT):
            raise NotTestable("the client fetches nothing twice: either it was not asked to, or it keeps everything")
        raise Deviation("prompts/list twice", "once")


def _add_twice(id: str, requirement: str, method: str, title: str) -> None:
    async def twice(client: ClientUnderTest) -> None:
        found = _caching(client).sent(method)
        if not found:
            raise NotTestable(f"the client did not ask for {method}")
        if len(found) < 2:
            raise Deviation(f"{method} twice", "once")

    CLIENT_CHECKS.add(
        id,
        twice,
        title=title,
        proves=(requirement,),
        needs=(f"scenario:{_CACHING}",),
        subject=Subject.EVIDENCE,
    )


_add_twice(
    "caching.client-absent", "caching.absent-ttl-zero", "resources/list", "A result without ttlMs does not hold."
)
_add_twice(
    "caching.client-negative",
    "caching.negative-ttl-zero",
    "resources/templates/list",
    "A result with a negative ttlMs does not hold.",
)


@check("caching.client-key", proves=("caching.key-method-and-params",), needs=(f"scenario:{_CACHING}",))
async def key(client: ClientUnderTest) -> None:
    """What was kept for one resource is not given for another."""
    uris = {
        params.get("uri")
        for each in _caching(client).sent("resources/read")
        if isinstance(params := each.get("params"), dict)
    }
    missing = {"test://static-text", "test://other"} - uris
    if len(missing) == 1:
        raise Deviation("resources/read of both resources", f"none of {missing.pop()}")
    if missing:
        raise NotTestable("the client read no resources")
