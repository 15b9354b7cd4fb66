"""Codes and refresh tokens in random sequences of events, compared with a model."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar
from urllib.parse import urlencode

import attrs
import pytest
import trio
from authorization_testbed import CLIENTS, RESOURCE, SCOPES, SECRET, START, VERIFIER, WEB, Clock, query_of
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from mcp_core.limits.rates import Rate
from mcp_core.oauth.dpop_verification import ProofCheck
from mcp_core.oauth.pkce import challenge_of
from mcp_server.auth.authorization_server import Lifetimes, MemoryStore, RegistrationPolicy
from mcp_server.auth.authorization_server.clients.documents import Documents
from mcp_server.auth.authorization_server.model.messages import Answer
from mcp_server.auth.authorization_server.model.settings import Settings
from mcp_server.auth.authorization_server.protocol.authorization import Requests
from mcp_server.auth.authorization_server.protocol.endpoints import ClientRequest, Endpoints
from mcp_server.auth.keys import JoseVerifier

T = TypeVar("T")

LIFETIMES = Lifetimes(code=60, access=600, refresh=5_000)


@attrs.define(eq=False)
class Family:
    """A model of a grant."""

    client: str
    code_ends: float
    redeemed: bool = False
    revoked: bool = False
    refresh: str | None = None
    refresh_ends: float = 0.0
    access: list[tuple[str, float]] = attrs.Factory(list)


@attrs.define(eq=False)
class Code:
    text: str
    family: Family


@attrs.define(eq=False)
class Refresh:
    text: str
    family: Family


class Grants(RuleBasedStateMachine):
    """The endpoints, and a model of them."""

    codes: Bundle[Code] = Bundle("codes")
    refreshes: Bundle[Refresh] = Bundle("refreshes")
    clients = st.sampled_from(["app", "local"])

    @initialize()
    def begin(self) -> None:
        self.clock = Clock()
        self.families: list[Family] = []
        self.store = MemoryStore()
        fixed = Settings(
            issuer="https://as.example",
            resources=(RESOURCE,),
            scopes=SCOPES,
            lifetimes=LIFETIMES,
            clients={
                client.client_id: attrs.evolve(client, redirect_uris=client.redirect_uris and (WEB,))
                for client in CLIENTS
            },
            random_bytes=secrets.token_bytes,
            clock=self.clock,
        )
        policy = RegistrationPolicy()
        self.requests = Requests(fixed, self.store)
        self.endpoints = Endpoints(
            fixed,
            self.store,
            policy=policy,
            documents=Documents(fixed, self.store, policy),
            requests=self.requests,
            proofs=ProofCheck(JoseVerifier()),
            rate=Rate(1e9),
        )

    def teardown(self) -> None:
        if hasattr(self, "store"):
            trio.run(self.store.aclose)

    def run(self, function: Callable[[], Awaitable[T]]) -> T:
        return trio.run(function)

    def post(self, endpoint: Callable[[ClientRequest], Awaitable[Answer]], **form: str) -> Answer:
        body = urlencode(form).encode()
        kind = "application/x-www-form-urlencoded"
        return self.run(
            partial(endpoint, ClientRequest(body=body, kind=kind, authorization=(), proofs=(), address="x"))
        )

    def learn(self, family: Family, answer: Answer) -> str:
        assert answer.body is not None
        refresh, access = answer.body["refresh_token"], answer.body["access_token"]
        assert isinstance(refresh, str)
        assert isinstance(access, str)
        family.refresh, family.refresh_ends = refresh, self.clock.now + LIFETIMES.refresh
        family.access.append((access, self.clock.now + LIFETIMES.access))
        return refresh

    # --- events -------------------------------------------------------------------------------------------------------

    @rule(target=codes, client=clients)
    def agree(self, client: str) -> Code:
        parameters = {
            "response_type": "code", "client_id": client, "redirect_uri": WEB, "resource": RESOURCE,
            "code_challenge": challenge_of(VERIFIER), "code_challenge_method": "S256",
        }  # fmt: skip
        id = self.run(partial(self.requests.begin, parameters, frozenset()))
        url = self.run(partial(self.requests.grant, id, subject="ada", scopes=SCOPES, auth_time=START))
        assert url is not None
        family = Family(client=client, code_ends=self.clock.now + LIFETIMES.code)
        self.families.append(family)
        return Code(query_of(url)["code"], family)

    @rule(target=refreshes, code=codes, client=clients, verifier=st.sampled_from([VERIFIER, "w" * 43]))
    def redeem(self, code: Code, client: str, verifier: str) -> Refresh:
        family = code.family
        answer = self.post(
            self.endpoints.token,
            grant_type="authorization_code", code=code.text, redirect_uri=WEB, client_id=client, code_verifier=verifier,
        )  # fmt: skip
        own = client == family.client
        unexpired = self.clock.now < family.code_ends and not family.revoked
        valid = own and unexpired and not family.redeemed and verifier == VERIFIER
        assert (answer.status == 200) == valid
        if valid:
            family.redeemed = True
            return Refresh(self.learn(family, answer), family)
        if own and family.redeemed:
            family.revoked = True
        return multiple()  # type: ignore[return-value]  # hypothesis ignores it

    @rule(target=refreshes, refresh=refreshes, client=clients)
    def use_refresh(self, refresh: Refresh, client: str) -> Refresh:
        family = refresh.family
        answer = self.post(
            self.endpoints.token, grant_type="refresh_token", refresh_token=refresh.text, client_id=client
        )
        own, newest = client == family.client, refresh.text == family.refresh
        valid = own and newest and not family.revoked and self.clock.now < family.refresh_ends
        assert (answer.status == 200) == valid
        if valid:
            return Refresh(self.learn(family, answer), family)
        if own and not newest:
            family.revoked = True
        return multiple()  # type: ignore[return-value]  # hypothesis ignores it

    @rule(refresh=refreshes, client=clients)
    def revoke(self, refresh: Refresh, client: str) -> None:
        family = refresh.family
        live = refresh.text == family.refresh and not family.revoked and self.clock.now < family.refresh_ends
        answer = self.post(self.endpoints.revoke, token=refresh.text, client_id=client)
        assert answer.status == (400 if live and client != family.client else 200)
        if live and client == family.client:
            family.revoked = True

    # The wait is shorter than the retention of used tokens. After it a second use would be rejected but not detected.
    @rule(seconds=st.sampled_from([1, 59, 60, 599, 600]))
    def wait(self, seconds: int) -> None:
        if self.clock.now + seconds < START + LIFETIMES.refresh:
            self.clock.now += seconds

    # --- invariants ---------------------------------------------------------------------------------------------------

    @invariant()
    def access_tokens_are_good_until_they_end_or_their_grant_does(self) -> None:
        for family in getattr(self, "families", [])[-2:]:
            for token, ends in family.access[-2:]:
                answer = self.post(self.endpoints.introspect, token=token, client_id="server", client_secret=SECRET)
                assert answer.body is not None
                assert answer.body["active"] == (not family.revoked and self.clock.now < ends)


TestGrants = pytest.mark.property(Grants.TestCase)
TestGrants.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
