"""Flows with arbitrary responses: each flow ends, and secrets are sent only to their host and never shown."""

from __future__ import annotations

import base64
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from oauth_network import (
    ISSUER,
    MCP,
    NOW,
    PRM,
    REDIRECT,
    Key,
    json_response,
    random_bytes,
    resource_document,
    server_document,
    tokens_document,
)

from mcp_core.errors import AuthorizationError, LocalProtocolError
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.oauth.challenge import Challenge
from mcp_core.oauth.client_metadata import ClientSettings
from mcp_core.oauth.dpop import Dpop
from mcp_core.oauth.flow import Flow
from mcp_core.oauth.grants import AuthorizationCode, ClientCredentials, EnterpriseManaged, Grant, WorkloadIdentity
from mcp_core.oauth.records import ClientRecord, Registration, TokenRecord
from mcp_core.oauth.settings import FlowSettings
from mcp_core.oauth.steps import (
    AskClient,
    AwaitRedirect,
    BrowserOpened,
    ClientFound,
    FetchedResponse,
    FetchJson,
    FindClient,
    FlowDone,
    FlowFailed,
    OpenBrowser,
    PostForm,
    RedirectReceived,
    Register,
    Step,
    StepResult,
    Unreachable,
)

EVIL = "https://evil.example"
IDP = "https://idp.example"
ISSUERS = (ISSUER, EVIL, "https://mcp.example")
REQUESTS = FetchJson | Register | PostForm

# Secrets, and the host that may receive each of them.
SECRETS = {
    "s3cret-as": "as.example",
    "s3cret-evil": "evil.example",
    "s3cret-idp": "idp.example",
    "r3fresh-as": "as.example",
    "assert10n": None,
    "id-t0ken": "idp.example",
}

GRANTS: list[Grant] = [
    AuthorizationCode(redirect_uri=REDIRECT),
    ClientCredentials(),
    WorkloadIdentity(assertion="assert10n"),
    EnterpriseManaged(
        identity_provider=ClientRecord(client_id="at-idp", issuer=IDP, client_secret="s3cret-idp"),
        token_endpoint=f"{IDP}/token",
        subject_token="id-t0ken",
    ),
]
GIVEN = ClientRecord(client_id="given", issuer=ISSUER, client_secret="s3cret-as")
STORED_CLIENTS = {
    issuer: ClientRecord(
        client_id=f"kept-{host}",
        issuer=issuer,
        client_secret=f"s3cret-{host}",
        registration=Registration.DYNAMIC,
        redirect_uris=(REDIRECT,),
    )
    for issuer, host in ((ISSUER, "as"), (EVIL, "evil"))
}
TOKENS = TokenRecord(
    access_token="acc3ss",
    token_type="Bearer",
    expires_at=NOW,
    refresh_token="r3fresh-as",
    scopes=("a",),
    resource=MCP,
    server_url=MCP,
    token_endpoint=f"{ISSUER}/token",
    issuer=ISSUER,
    client=attrs.evolve(STORED_CLIENTS[ISSUER]),
)

_FAILURES = st.sampled_from(
    [
        FetchedResponse(status=404),
        FetchedResponse(status=503, body=b"<html>"),
        FetchedResponse(status=200, body=b"<!doctype html>"),
        Unreachable(reason="no route"),
        json_response({"error": "invalid_client"}, 401),
        json_response({"error": "invalid_grant"}, 400),
        json_response({"error": "use_dpop_nonce"}, 400, DPoP_Nonce="n1"),
    ]
)
_RESOURCES = st.builds(
    lambda resource, servers, bound: json_response(
        resource_document(resource=resource, authorization_servers=servers, dpop_bound_access_tokens_required=bound)
    ),
    st.sampled_from([MCP, MCP, MCP, "https://mcp.example", EVIL]),
    st.lists(st.sampled_from(ISSUERS), max_size=3),
    st.sampled_from([False, False, True]),
)
_SERVERS = st.builds(
    lambda issuer, endpoints, iss, documents, pkce, dpop: json_response(
        server_document(
            issuer,
            token_endpoint=f"{endpoints}/token",
            authorization_response_iss_parameter_supported=iss,
            client_id_metadata_document_supported=documents,
            code_challenge_methods_supported=["S256"] if pkce else None,
            dpop_signing_alg_values_supported=["ES256"] if dpop else None,
            scopes_supported=["a", "offline_access"],
        )
    ),
    st.sampled_from(ISSUERS),
    st.sampled_from(["", "", "http://10.0.0.1", "javascript:"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([True, True, False]),
    st.booleans(),
)
_GOOD_SERVERS = st.fixed_dictionaries(
    {
        "authorization_response_iss_parameter_supported": st.booleans(),
        "client_id_metadata_document_supported": st.booleans(),
        "dpop_signing_alg_values_supported": st.sampled_from([None, ["ES256"]]),
        "registration_endpoint": st.sampled_from([None, f"{ISSUER}/register"]),
    }
)
_GRANTED = st.builds(
    lambda kind, refresh: json_response(
        tokens_document(token_type=kind, refresh_token=refresh, issued_token_type=None)
    ),
    st.sampled_from(["Bearer", "Bearer", "DPoP", "mac"]),
    st.sampled_from([None, "r-2"]),
)
_JAG = json_response(
    {"access_token": "assert10n", "token_type": "N_A", "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"}
)


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _credentials(step: PostForm) -> str:
    """Return the id and the secret of the client in the Authorization header."""
    scheme, _, credentials = dict(step.headers).get("Authorization", "").partition(" ")
    return base64.b64decode(credentials).decode() if scheme == "Basic" else ""


class FlowMachine(RuleBasedStateMachine):
    """Random answers to the steps of a flow, including answers of a wrong kind."""

    @initialize(
        grant=st.sampled_from(GRANTS),
        configured=st.booleans(),
        proof=st.booleans(),
        tokens=st.booleans(),
        challenge=st.sampled_from([None, "invalid_token", "insufficient_scope"]),
        named=st.booleans(),
    )
    def begin(
        self, grant: Grant, configured: bool, proof: bool, tokens: bool, challenge: str | None, named: bool
    ) -> None:
        self.issuers: dict[str, set[str]] = {}
        self.browser_from: str | None = None
        self.answered_steps: list[Step] = []
        settings = FlowSettings(
            server_url=MCP,
            grant=grant,
            client=ClientSettings(
                client_name="App", redirect_uris=(REDIRECT,), metadata_url="https://app.example/client.json"
            ),
            credentials=(GIVEN,) if configured else (),
            proof=Dpop(Key(), random_bytes()) if proof else None,
        )
        self.flow = Flow(settings, random_bytes=random_bytes())
        metadata_url = {"resource_metadata": PRM} if named else {}
        given = (
            None if challenge is None else Challenge(scheme="Bearer", parameters={**metadata_url, "error": challenge})
        )
        self.step: Step = self.flow.start(NOW, challenge=given, tokens=TOKENS if tokens else None)

    def _answer(self, answer: StepResult) -> None:
        self.answered_steps.append(self.step)
        self.step = self.flow.receive(answer, NOW)

    @property
    def has_ended(self) -> bool:
        return isinstance(self.step, FlowDone | FlowFailed)

    @precondition(lambda self: isinstance(self.step, FetchJson))
    @rule(resource=_RESOURCES, server=_SERVERS, good=_GOOD_SERVERS, failure=_FAILURES, choice=st.integers(0, 9))
    def answer_fetch(
        self,
        resource: FetchedResponse,
        server: FetchedResponse,
        good: JsonObject,
        failure: FetchedResponse | Unreachable,
        choice: int,
    ) -> None:
        assert isinstance(self.step, FetchJson)
        about_resource = "oauth-protected-resource" in self.step.url
        if choice == 0:
            self._answer(failure)
        elif choice == 1:
            self._answer(resource if about_resource else server)
        elif about_resource:
            self._answer(json_response(resource_document(authorization_servers=[ISSUER if choice > 3 else EVIL])))
        else:
            self._answer(json_response(server_document(f"https://{_host(self.step.url)}", **good)))

    @precondition(lambda self: isinstance(self.step, Register))
    @rule(failure=_FAILURES, choice=st.integers(0, 4))
    def answer_registration(self, failure: FetchedResponse | Unreachable, choice: int) -> None:
        self._answer(failure if choice == 0 else json_response({"client_id": "new", "redirect_uris": [REDIRECT]}, 201))

    @precondition(lambda self: isinstance(self.step, FindClient | AskClient))
    @rule(known=st.booleans(), wrong=st.booleans())
    def answer_client_lookup(self, known: bool, wrong: bool) -> None:
        assert isinstance(self.step, FindClient | AskClient)
        # A client record of another issuer from the store is tolerated.
        client = (
            STORED_CLIENTS[EVIL]
            if wrong and isinstance(self.step, FindClient)
            else STORED_CLIENTS.get(self.step.issuer)
        )
        self._answer(ClientFound(client=client if known else None))

    @precondition(lambda self: isinstance(self.step, OpenBrowser))
    @rule()
    def answer_browser(self) -> None:
        assert isinstance(self.step, OpenBrowser)
        self.browser_from = self.step.url
        self._answer(BrowserOpened())

    @precondition(lambda self: isinstance(self.step, AwaitRedirect))
    @rule(
        has_state=st.sampled_from([True, True, False]),
        issuer=st.sampled_from([*ISSUERS, "own", "own", "own"]),
        error=st.integers(0, 5),
    )
    def answer_redirect(self, has_state: bool, issuer: str, error: int) -> None:
        assert isinstance(self.step, AwaitRedirect)
        state = self.step.state if has_state else "x"
        result = "error=access_denied" if error == 0 else "code=code-1"
        if issuer == "own":
            issuer = f"https://{_host(self.browser_from or '')}"
        before = self.step
        self._answer(RedirectReceived(url=f"{REDIRECT}?{result}&state={state}&iss={issuer}"))
        assert has_state or self.step == before

    @precondition(lambda self: isinstance(self.step, PostForm))
    @rule(failure=_FAILURES, granted=_GRANTED, choice=st.integers(0, 9))
    def answer_post(self, failure: FetchedResponse | Unreachable, granted: FetchedResponse, choice: int) -> None:
        assert isinstance(self.step, PostForm)
        good = _JAG if self.step.url.startswith(IDP) else granted
        if choice == 1:
            # The error description contains everything that was sent.
            form_values = [value for _, value in self.step.form]
            client_secrets = [_credentials(self.step).partition(":")[2]]
            failure = json_response(
                {"error": "invalid_client", "error_description": " ".join([*client_secrets, *form_values])}, 401
            )
        self._answer(failure if choice < 2 else good)

    @precondition(lambda self: self.has_ended)
    @rule()
    def check_outcome(self) -> None:
        if isinstance(self.step, FlowFailed):
            assert isinstance(self.step.error, AuthorizationError)
            text = str(self.step.error)
            assert all(secret not in text for secret in (*SECRETS, "code-1"))
        else:
            assert isinstance(self.step, FlowDone)
            assert self.step.tokens.server_url == MCP
            assert self.step.tokens.client is None or self.step.tokens.client.issuer == self.step.tokens.issuer

    @invariant()
    def secrets_sent_to_their_host_only(self) -> None:
        if not isinstance(getattr(self, "step", None), REQUESTS):
            return
        step = self.step
        assert isinstance(step, REQUESTS)
        assert step.url.startswith("https://")
        sent = repr(step.form) if isinstance(step, PostForm) else ""
        sent += _credentials(step) if isinstance(step, PostForm) else ""
        for secret, host in SECRETS.items():
            if host is not None and secret in sent:
                assert _host(step.url) == host
        if isinstance(step, PostForm):
            form = dict(step.form)
            assert form["resource"] in (MCP, "https://mcp.example")
            if form["grant_type"] == "authorization_code":
                assert self.browser_from is not None
                assert parse_qs(urlsplit(self.browser_from).query)["resource"] == [form["resource"]]

    @invariant()
    def answers_of_wrong_kind_rejected(self) -> None:
        for answer in (
            BrowserOpened(),
            FetchedResponse(status=200),
            ClientFound(client=None),
            RedirectReceived(url=""),
        ):
            if hasattr(self, "step") and not isinstance(answer, self.step.answered_by):
                with pytest.raises(LocalProtocolError):
                    self.flow.receive(answer, NOW)

    @invariant()
    def step_repr_omits_secrets(self) -> None:
        text = repr(getattr(self, "step", None))
        assert all(secret not in text for secret in (*SECRETS, "code-1", "access-1", "acc3ss"))

    @invariant()
    def flow_ends(self) -> None:
        # Only redirects that the flow ignores can prolong it.
        counted = [step for step in getattr(self, "answered_steps", []) if not isinstance(step, AwaitRedirect)]
        assert len(counted) <= 60


TestFlowMachine = pytest.mark.property(FlowMachine.TestCase)
