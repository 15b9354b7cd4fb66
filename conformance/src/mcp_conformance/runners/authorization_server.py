"""The runner of the checks of an authorization server without an MCP server."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.checks.auth.authorization_servers.endpoints import NEED
from mcp_conformance.drivers.server.connection_pool import ConnectionPool
from mcp_conformance.drivers.server.inventory import ServerInventory
from mcp_conformance.drivers.server.targets import UrlTarget
from mcp_conformance.drivers.server.under_test import ServerUnderTest
from mcp_conformance.model.check import Role, Transport
from mcp_conformance.model.fixtures_manifest import Manifest
from mcp_conformance.model.verdict import Leg, Run, Verdict
from mcp_conformance.oauth_testbed.trusted_party import open_party
from mcp_conformance.oauth_testbed.user_login import open_login
from mcp_conformance.runners.check_run import server_judged
from mcp_conformance.wire.nursery import open_nursery

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from mcp_conformance.drivers.settings import Settings
    from mcp_conformance.model.check import Check
    from mcp_conformance.oauth_testbed.trusted_party import PartyOptions
    from mcp_conformance.oauth_testbed.user_login import Login
    from mcp_core.revisions import Revision

__all__ = ["run_authorization_server"]

_NOTHING: Final = ServerInventory(capabilities={}, lists={})


async def run_authorization_server(
    issuer: str,
    settings: Settings,
    *,
    revisions: Sequence[Revision],
    chosen: Collection[str],
    show: Callable[[Verdict], None],
    login: Login | None = None,
    party: PartyOptions | None = None,
) -> Run:
    """Test an authorization server.

    Args:
        issuer: Its issuer.
        settings: The limits.
        revisions: The revisions whose rules are tested.
        chosen: The ids of the checks that run.
        show: Receives each verdict.
        login: A user login; `None`: no login.
        party: A party over https that the authorization server trusts; `None`: the authorization server trusts none.

    Raises:
        OSError: The party cannot listen at its port, or its certificate cannot be read.
    """
    checks = [each for each in SERVER_CHECKS if NEED in each.needs and each.id in chosen]
    legs, verdicts = [], []
    async with AsyncExitStack() as stack:
        if login is not None:
            await stack.enter_async_context(open_login(login))
        trusted = None if party is None else await stack.enter_async_context(open_party(party))
        own_settings = attrs.evolve(settings, authorization_server=issuer, login=login, party=trusted, registrations={})
        target = UrlTarget(issuer, own_settings)
        nursery = await stack.enter_async_context(open_nursery())
        connections = ConnectionPool(nursery)
        for revision in revisions:
            matching = [each for each in checks if revision.name in each.revisions]
            if not matching:
                continue
            legs.append(Leg(revision=revision.name, transport=Transport.HTTP.value, refusal=None))
            subject = ServerUnderTest(
                target=target,
                revision=revision,
                transport=Transport.HTTP,
                inventory=_NOTHING,
                manifest=Manifest(),
                settings=own_settings,
                evidence=[],
                connections=connections,
            )
            for each in matching:
                verdicts.append(await server_judged(each, subject, _run))
                show(verdicts[-1])
    return Run(role=Role.SERVER, target=issuer, legs=tuple(legs), verdicts=tuple(verdicts))


async def _run(check: Check[ServerUnderTest], subject: ServerUnderTest) -> None:
    await check.run(subject)
