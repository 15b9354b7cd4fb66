"""A client around `Flow` without sockets: it runs a session against a testbed with quirks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode, urljoin

import attrs
from oauth_network import NOW, REDIRECT, random_bytes

from mcp_conformance.oauth_testbed.http_messages import Request, Response
from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
from mcp_core.errors import UnsafeUrl
from mcp_core.oauth.challenge import choose_challenge, read_challenges
from mcp_core.oauth.client_metadata import ClientSettings
from mcp_core.oauth.dpop import Proof
from mcp_core.oauth.flow import Flow
from mcp_core.oauth.grants import AuthorizationCode, Grant
from mcp_core.oauth.jws import Signer
from mcp_core.oauth.records import ClientRecord, TokenRecord
from mcp_core.oauth.scopes import StepUps
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
    Pairs,
    PostForm,
    RedirectReceived,
    Register,
    StepResult,
    Unreachable,
)
from mcp_core.oauth.token_presentation import authorization_headers
from mcp_core.oauth.urls import check_redirect

DOCUMENT: Final = "https://app.example/client.json"
SESSION: Final = ("initialize", "notifications/initialized", "tools/list", "tools/call")
_TIMEOUT: Final = 10.0
"""Timeout of one response in seconds. The clock is advanced without waiting."""


class RequestRejected(Exception):
    """The server rejects the request, and the client cannot do anything about it."""


@attrs.define(kw_only=True)
class FlowClient:
    """A client with one server."""

    testbed: OAuthTestbed
    grant: Grant = attrs.field(factory=lambda: AuthorizationCode(redirect_uri=REDIRECT))
    credentials: tuple[ClientRecord, ...] = ()
    scopes: tuple[str, ...] | None = None
    authorization_server: str | None = None
    signer: Signer | None = None
    proof: Proof | None = None
    now: float = NOW
    tokens: TokenRecord | None = None
    registered: dict[str, ClientRecord] = attrs.field(factory=dict)
    opened_urls: list[str] = attrs.field(factory=list)
    logged: list[str] = attrs.field(factory=list)
    """Texts that may be logged: representations of steps and errors."""
    steps: int = 0
    _redirects: list[str] = attrs.field(factory=list)
    _step_ups: StepUps = attrs.field(factory=StepUps)
    _random: Callable[[int], bytes] = attrs.field(factory=random_bytes)

    def settings(self) -> FlowSettings:
        client = ClientSettings(client_name="App", redirect_uris=("http://127.0.0.1/callback",), metadata_url=DOCUMENT)
        return FlowSettings(
            server_url=self.testbed.places.resource,
            grant=self.grant,
            client=client,
            credentials=self.credentials,
            scopes=self.scopes,
            authorization_server=self.authorization_server,
            signer=self.signer,
            proof=self.proof,
        )

    def session(self) -> None:
        """Send all requests of a client that calls a tool."""
        for method in SESSION:
            self.call(method)

    def call(self, method: str) -> Response:
        """Send a request to the server, and run flows until the server accepts it."""
        rejections = 0
        while True:
            answer = self._ask(method)
            if answer.status < 300:
                return answer
            challenges = [value for name, value in answer.headers if name.lower() == "www-authenticate"]
            schemes = ("Bearer",) if self.proof is None else ("DPoP", "Bearer")
            challenge = choose_challenge(read_challenges(challenges), schemes=(*schemes, "DPoP"))
            rejections += 1
            is_final = answer.status == 403 and (challenge is None or not challenge.wants_more_scope)
            if answer.status not in (401, 403) or is_final or rejections > 4:
                raise RequestRejected(f"status {answer.status} for {method}")
            flow = Flow(self.settings(), random_bytes=self._random, step_ups=self._step_ups, operation=method)
            self.run(flow, flow.start(self.now, challenge=challenge, tokens=self.tokens))

    def refresh(self) -> None:
        """Refresh the token."""
        flow = Flow(self.settings(), random_bytes=self._random)
        self.run(flow, flow.start(self.now, tokens=self.tokens))

    def run(self, flow: Flow, step: object) -> None:
        """Run all steps of a flow, and raise its error."""
        while not isinstance(step, FlowDone | FlowFailed):
            self.steps += 1
            self.logged.append(repr(step))
            answer = self._answer(flow, step)
            step = answer if isinstance(answer, FlowFailed) else flow.receive(answer, self.now)
        self.logged.append(repr(step))
        if flow.client is not None and flow.client.issuer is not None:
            self.registered[flow.client.issuer] = flow.client
        if isinstance(step, FlowFailed):
            self.logged.append(f"{step.error} {step.error!r} {step.error.attempts}")
            self.tokens = None if step.forget == self.tokens else self.tokens
            raise step.error
        self.tokens = step.tokens

    def _answer(self, flow: Flow, step: object) -> StepResult | FlowFailed:
        match step:
            case FetchJson():
                return self._http("GET", step.url, step.headers, b"")
            case Register():
                return self._http("POST", step.url, step.headers, json.dumps(step.document).encode())
            case PostForm():
                return self._http("POST", step.url, step.headers, urlencode(step.form).encode())
            case FindClient():
                return ClientFound(client=self.registered.get(step.issuer))
            case AskClient():
                return ClientFound(client=None)
            case OpenBrowser():
                self.opened_urls.append(step.url)
                self._redirects = self.testbed.browse(step.url, self.now)
                return BrowserOpened()
            case AwaitRedirect():
                return (
                    RedirectReceived(url=self._redirects.pop(0))
                    if self._redirects
                    else flow.abandon("the browser did not return")
                )
        raise AssertionError(step)

    def _ask(self, method: str) -> Response:
        message: dict[str, object] = {"jsonrpc": "2.0", "method": method, "params": {}}
        if not method.startswith("notifications/"):
            message["id"] = 1
        answer, learned = self._send(message)
        return self._send(message)[0] if learned and answer.status == 401 else answer

    def _send(self, message: dict[str, object]) -> tuple[Response, bool]:
        """Send a message. Return the response, and whether its nonce changes the next proof."""
        url = self.testbed.places.resource
        headers: Pairs = (("Content-Type", "application/json"),)
        if self.tokens is not None:
            headers += authorization_headers(self.tokens, method="POST", url=url, now=self.now, proof=self.proof)
        sent = Request(method="POST", url=url, headers=headers, body=json.dumps(message).encode())
        answer = self.testbed.answer(sent, self.now)
        assert answer is not None
        return answer, self.proof is not None and self.proof.learn(url, answer.headers)

    def _http(self, method: str, url: str, headers: Pairs, body: bytes) -> FetchedResponse | Unreachable:
        followed = 0
        while True:
            answer = self.testbed.answer(Request(method=method, url=url, headers=headers, body=body), self.now)
            if answer is None:
                return Unreachable(reason="no server has this URL")
            self.now += min(answer.delay, _TIMEOUT)
            if answer.delay > _TIMEOUT:
                return Unreachable(reason="the response took too long")
            location = answer.header("location")
            if method == "GET" and location is not None and answer.status in (301, 302, 303, 307, 308):
                target = urljoin(url, location)
                try:
                    flow_networks = Flow(self.settings(), random_bytes=self._random).discovery.networks
                    check_redirect(url, target, followed=followed, networks=flow_networks)
                except UnsafeUrl as unsafe:
                    return Unreachable(reason=unsafe.message)
                url, followed = target, followed + 1
                continue
            return FetchedResponse(status=answer.status, headers=answer.headers, body=answer.body)
