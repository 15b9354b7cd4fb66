"""A fake network for a flow: the responses by URL, and a record of all steps."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Generator, Mapping
from typing import Final, TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit

import orjson

from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.oauth.flow import Flow
from mcp_core.oauth.records import ClientRecord
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

NOW: Final = 1_800_000_000.0
MCP: Final = "https://mcp.example/mcp"
PRM: Final = "https://mcp.example/.well-known/oauth-protected-resource/mcp"
PRM_ROOT: Final = "https://mcp.example/.well-known/oauth-protected-resource"
ISSUER: Final = "https://as.example"
METADATA: Final = "https://as.example/.well-known/oauth-authorization-server"
REDIRECT: Final = "http://127.0.0.1:49152/callback"

_T = TypeVar("_T")


def json_response(document: JsonValue, status: int = 200, **headers: str) -> FetchedResponse:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return FetchedResponse(status=status, headers=named, body=orjson.dumps(document))


def random_bytes() -> Callable[[int], bytes]:
    """Return a function that returns different bytes for each call, and the same bytes in each run."""
    counter = itertools.count()
    return lambda size: hashlib.shake_128(str(next(counter)).encode()).digest(size)


class Key:
    """A signer whose signature is a hash. The signature is not secure, which does not matter in these tests."""

    def __init__(self, algorithm: str = "ES256", **more: str) -> None:
        self.algorithm = algorithm
        self.jwk: Mapping[str, JsonValue] = {
            "kty": "EC",
            "crv": "P-256",
            "x": "eHg",
            "y": "eXk",
            "d": "private",
            **more,
        }

    def sign(self, data: bytes) -> bytes:
        return hashlib.sha512(data).digest()


def resource_document(**more: JsonValue) -> JsonObject:
    return {"resource": MCP, "authorization_servers": [ISSUER], **more}


def server_document(issuer: str = ISSUER, **more: JsonValue) -> JsonObject:
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "registration_endpoint": f"{issuer}/register",
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": [
            "none",
            "client_secret_basic",
            "client_secret_post",
            "private_key_jwt",
        ],
        **more,
    }


def tokens_document(**more: JsonValue) -> JsonObject:
    return {"access_token": "access-1", "token_type": "Bearer", "expires_in": 3600, **more}


Route = FetchedResponse | Unreachable | Callable[[FetchJson | Register | PostForm], FetchedResponse | Unreachable]


class FakeNetwork:
    """Responses by URL. The response for a URL that is not listed is 404."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {
            PRM: json_response(resource_document()),
            METADATA: json_response(server_document()),
            f"{ISSUER}/register": json_response({"client_id": "registered-1"}, 201),
            f"{ISSUER}/token": json_response(tokens_document()),
        }
        self.steps: list[Step] = []
        """All steps, in order."""
        self.registered: dict[str, ClientRecord] = {}
        """The stored client records, by issuer."""
        self.entered_client: ClientRecord | None = None
        """The client that the user enters when asked for a client id."""
        self.redirect: Callable[[dict[str, str]], dict[str, str]] = self.consent
        """Returns the parameters of the redirect, for the parameters of the authorization request."""
        self.now = NOW

    @staticmethod
    def consent(parameters: dict[str, str]) -> dict[str, str]:
        return {"code": "code-1", "state": parameters["state"]}

    def answer(self, step: Step) -> StepResult:
        """Return the answer to a step, as a driver would."""
        self.steps.append(step)
        match step:
            case FetchJson() | Register() | PostForm():
                route = self.routes.get(step.url, FetchedResponse(status=404, body=b"not found"))
                return route(step) if callable(route) else route
            case FindClient():
                return ClientFound(client=self.registered.get(step.issuer))
            case AskClient():
                return ClientFound(client=self.entered_client)
            case OpenBrowser():
                return BrowserOpened()
            case AwaitRedirect():
                return RedirectReceived(url=f"{step.redirect_uri}?{urlencode(self.redirect(self.authorization))}")
            case FlowDone() | FlowFailed():
                raise AssertionError("the flow has ended")

    def walk(self, flow: Flow, step: Step) -> FlowDone | FlowFailed:
        """Answer all steps until the flow ends."""
        while not isinstance(step, FlowDone | FlowFailed):
            step = flow.receive(self.answer(step), self.now)
        return step

    def run(self, machine: Generator[Step, StepResult, _T]) -> _T:
        """Answer all steps of a part of a flow, and return its result."""
        try:
            step = next(machine)
            while True:
                step = machine.send(self.answer(step))
        except StopIteration as stop:
            result: _T = stop.value
            return result

    @property
    def fetched(self) -> list[str]:
        return [step.url for step in self.steps if isinstance(step, FetchJson)]

    @property
    def registrations(self) -> list[Register]:
        return [step for step in self.steps if isinstance(step, Register)]

    @property
    def posted(self) -> list[PostForm]:
        return [step for step in self.steps if isinstance(step, PostForm)]

    @property
    def forms(self) -> list[dict[str, str]]:
        return [dict(step.form) for step in self.posted]

    @property
    def browsed(self) -> list[dict[str, str]]:
        found = [step for step in self.steps if isinstance(step, OpenBrowser)]
        return [{name: values[0] for name, values in parse_qs(urlsplit(step.url).query).items()} for step in found]

    @property
    def authorization(self) -> dict[str, str]:
        return self.browsed[-1]
