"""URL mode elicitations that connect an account at a third party, and requests of the server to other parties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from mcp_conformance.checks.probes.third_party import UPSTREAM_TOOL, credentials_of, open_third_party, open_user, visit
from mcp_conformance.checks.registry.server import check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotTestable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.drivers.server.under_test import ServerUnderTest

_HTTP: Final = (Transport.HTTP,)
_NEEDS: Final = ("capability:tools",)
_URL_MODE: Final = ("2025-11-25", "2026-07-28")


@check(
    "auth.server-no-passthrough",
    proves=("auth.no-token-passthrough", "auth.no-passthrough"),
    needs=_NEEDS,
    transports=_HTTP,
)
async def no_passthrough(server: ServerUnderTest) -> None:
    """The server does not send the credentials of its client to another party."""
    secrets = credentials_of(server.settings.headers)
    async with open_third_party(server) as third_party:
        answer = await server.call(UPSTREAM_TOOL, {"url": f"{third_party.url}/upstream"})
        if not third_party.received:
            raise NotTestable(f"{UPSTREAM_TOOL} sends no request: {answer}")
    for secret in secrets:
        if (leak := third_party.leaks(secret)) is not None:
            raise Deviation("a request to another party without the credentials of the client", leak)


@check(
    "elicitation.third-party-credentials",
    proves=("elicitation.no-client-credentials-upstream", "elicitation.no-token-passthrough"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
    revisions=_URL_MODE,
)
async def own_credentials(server: ServerUnderTest) -> None:
    """The server does not use the credentials of its client at a third party."""
    secrets = credentials_of(server.settings.headers)
    async with open_third_party(server) as third_party, open_user(server) as user:
        await user.require_connection(third_party)
    for secret in secrets:
        if (leak := third_party.leaks(secret)) is not None:
            raise Deviation("no credentials of the client at the third party", leak)


@check(
    "elicitation.third-party-hidden",
    proves=("elicitation.third-party-credentials-not-through-client", "elicitation.third-party-credentials-hidden"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def third_party_hidden(server: ServerUnderTest) -> None:
    """The credentials that a server gets from a third party are in no message to its client."""
    async with open_third_party(server) as third_party, open_user(server) as user:
        await user.require_connection(third_party)
        messages = [str(each) for each in user.peer.transcript.messages(sent=False)]
    for secret in (*third_party.codes, *third_party.tokens):
        if any(secret in message for message in messages):
            raise Deviation("no credentials of the third party in a message to the client", secret)


@check(
    "elicitation.url-anonymous",
    proves=("elicitation.url-not-preauthenticated",),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def url_anonymous(server: ServerUnderTest) -> None:
    """The URL of an elicitation alone authenticates no user: without a login it connects no account."""
    credentials_of(server.settings.headers)
    async with open_third_party(server) as third_party, open_user(server) as user:
        await user.require_connection(third_party)
        await visit(server, await user.connect(third_party), ())
        if await user.has_account():
            raise Deviation("no account of the user after a visit without a login", "the account is connected")


@check(
    "elicitation.url-other-user",
    proves=("elicitation.verify-opener", "elicitation.same-user-completes", "elicitation.phishing-verify-user"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def url_other_user(server: ServerUnderTest) -> None:
    """The visit of another user to the URL of an elicitation connects no account for the user of the elicitation."""
    async with (
        open_third_party(server) as third_party,
        open_user(server) as user,
        open_user(server, other=True) as other,
    ):
        await user.require_connection(third_party)
        await visit(server, await user.connect(third_party), other.headers)
        if await user.has_account():
            raise Deviation("no account of the user after the visit of another user", "the account is connected")


@check(
    "elicitation.url-tampered",
    proves=("elicitation.tamper-resilient", "elicitation.phishing-verify-user"),
    needs=_NEEDS,
    transports=_HTTP,
    subject=CheckScope.PROCESS,
)
async def url_tampered(server: ServerUnderTest) -> None:
    """Another user cannot open a URL in whose query a part is absent, or is that of the other user's own URL."""
    async with (
        open_third_party(server) as third_party,
        open_user(server) as user,
        open_user(server, other=True) as other,
    ):
        await user.require_connection(third_party)
        theirs = await other.connect(third_party)
        for url in _variants(await user.connect(third_party), theirs):
            await visit(server, url, other.headers)
            if await user.has_account():
                raise Deviation("no account of the user after the visit of another user", f"one after {url}")


def _variants(url: str, theirs: str) -> Iterator[str]:
    """Yield a URL, and the URL with a part of its query absent or replaced by that of another URL."""
    yield url
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    others = dict(parse_qsl(urlsplit(theirs).query, keep_blank_values=True))
    for index, (name, value) in enumerate(query):
        rest = [*query[:index], *query[index + 1 :]]
        yield urlunsplit(parts._replace(query=urlencode(rest)))
        if others.get(name, value) != value:
            yield urlunsplit(parts._replace(query=urlencode([*rest, (name, others[name])])))
