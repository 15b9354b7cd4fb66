"""Registration of a client: the order of the ways, and the separation of issuers."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from oauth_network import ISSUER, MCP, NOW, REDIRECT, FakeNetwork, Key, json_response, server_document

from mcp_core.errors import LocalProtocolError, RegistrationFailed
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.oauth.client_metadata import (
    ClientSettings,
    check_metadata_document,
    metadata_document,
    registration_document,
)
from mcp_core.oauth.discovery import Discovery
from mcp_core.oauth.jws import Signer
from mcp_core.oauth.metadata import read_authorization_server
from mcp_core.oauth.records import AuthMethod, ClientRecord, Registration
from mcp_core.oauth.registration import Registrar, read_registration
from mcp_core.oauth.steps import AskClient, FetchedResponse, FindClient, Register, Unreachable

DOCUMENT = "https://app.example/client.json"
APP = ClientSettings(client_name="App", redirect_uris=("http://127.0.0.1/callback",), metadata_url=DOCUMENT)
DOCUMENTS: JsonObject = {"client_id_metadata_document_supported": True}
ALL_METHODS = frozenset(Registration)
STORED = ClientRecord(client_id="kept", issuer=ISSUER, redirect_uris=(REDIRECT,))
REGISTER = f"{ISSUER}/register"


def _client(
    network: FakeNetwork,
    *,
    settings: ClientSettings = APP,
    methods: frozenset[Registration] = ALL_METHODS,
    configured: Sequence[ClientRecord] = (),
    redirect_uri: str | None = REDIRECT,
    signer: Signer | None = None,
    previous_issuer: str | None = None,
    refused: frozenset[str] = frozenset(),
    server: JsonObject | None = None,
) -> ClientRecord:
    registrar = Registrar(
        server=read_authorization_server({**server_document(), **(server or {})}),
        discovery=Discovery(MCP),
        settings=settings,
        ways=methods,
        configured=configured,
        redirect_uri=redirect_uri,
        signer=signer,
        previous_issuer=previous_issuer,
        refused=refused,
        now=NOW,
    )
    return network.run(registrar.run())


def _kinds(network: FakeNetwork) -> list[str]:
    return [type(step).__name__ for step in network.steps]


# --- Order of the ways --------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.registration-priority", "auth.preregistration", "auth.registration-obtained")
def test_configured_credentials_used_first() -> None:
    network = FakeNetwork()
    configured = ClientRecord(client_id="given", issuer=ISSUER, client_secret="s")
    other = ClientRecord(client_id="other", issuer="https://other.example")
    assert _client(network, configured=[other, configured], server=DOCUMENTS) == configured
    assert network.steps == []


@pytest.mark.spec(
    "auth.registration-priority", "auth.cimd-client", "auth.cimd-should", "auth.cimd-client-checks-support",
    "auth.cimd-client-checks", "auth.dcr-deprecated", "auth.cimd-portable",
)  # fmt: skip
def test_metadata_document_used_if_supported() -> None:
    network = FakeNetwork()
    client = _client(network, server=DOCUMENTS)
    assert (client.client_id, client.registration) == (DOCUMENT, Registration.METADATA_DOCUMENT)
    assert (client.issuer, client.auth_method) == (ISSUER, AuthMethod.NONE)
    assert network.steps == []
    signed = _client(FakeNetwork(), server=DOCUMENTS, signer=Key())
    assert signed.auth_method is AuthMethod.PRIVATE_KEY_JWT


@pytest.mark.parametrize(
    "server",
    [
        {},
        {
            "client_id_metadata_document_supported": True,
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        },
    ],
)
def test_stored_client_used_next(server: JsonObject) -> None:
    network = FakeNetwork()
    network.registered[ISSUER] = record = ClientRecord(
        client_id="kept", issuer=ISSUER, registration=Registration.DYNAMIC, redirect_uris=(REDIRECT,)
    )
    assert _client(network, server=server) == record
    assert network.steps == [FindClient(issuer=ISSUER)]


@pytest.mark.parametrize(
    ("record", "refused"),
    [
        (attrs.evolve(STORED, issuer="https://other.example"), frozenset()),
        (attrs.evolve(STORED, redirect_uris=("http://127.0.0.1:1/callback",)), frozenset()),
        (attrs.evolve(STORED, secret_expires_at=NOW), frozenset()),
        (STORED, frozenset({"kept"})),
    ],
)
@pytest.mark.spec(
    "auth.dcr-client", "auth.no-cross-as-credentials", "auth.as-change-no-reuse", "auth.as-change-reregister"
)
def test_unusable_stored_client_registered_again(record: ClientRecord, refused: frozenset[str]) -> None:
    network = FakeNetwork()
    network.registered[ISSUER] = record
    assert _client(network, refused=refused).client_id == "registered-1"
    assert _kinds(network) == ["FindClient", "Register"]


@pytest.mark.spec("auth.client-id-without-dcr", "auth.dcr-optional", "auth.dcr-may")
@pytest.mark.parametrize("endpoint", [None, "http://10.0.0.1/register", "javascript:x"])
def test_client_id_requested_from_user_last(endpoint: JsonValue) -> None:
    network = FakeNetwork()
    network.entered_client = ClientRecord(client_id="typed", issuer=None, client_secret="s")
    client = _client(network, server={"registration_endpoint": endpoint})
    assert (client.client_id, client.issuer, client.registration) == ("typed", ISSUER, Registration.USER_PROVIDED)
    assert _kinds(network) == ["FindClient", "AskClient"]


@pytest.mark.spec("auth.dcr-failure-handled", "auth.dcr-failure-surfaced")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            json_response({"error": "invalid_redirect_uri", "error_description": "no\nloopback"}, 400),
            f"registration at {ISSUER} was rejected: invalid_redirect_uri (no loopback), status 400",
        ),
        (
            FetchedResponse(status=403, body=b"<html>"),
            "status 403 without a valid document: the document is not JSON, but a web page",
        ),
        (Unreachable(reason="no\nroute"), f"no response to the registration at {REGISTER}: no route"),
    ],
)
def test_rejected_registration_reported_to_user(answer: FetchedResponse | Unreachable, reason: str) -> None:
    network = FakeNetwork()
    network.routes[REGISTER] = answer
    with pytest.raises(RegistrationFailed, match="egistration at") as caught:
        _client(network)
    assert reason in caught.value.message
    (ask_step,) = [step for step in network.steps if isinstance(step, AskClient)]
    assert ask_step.reason == caught.value.message
    network.entered_client = ClientRecord(client_id="typed", issuer=None)
    assert _client(network).client_id == "typed"


def test_registration_without_available_method_raises() -> None:
    with pytest.raises(RegistrationFailed, match="neither client ID metadata documents nor dynamic registration"):
        _client(FakeNetwork(), server={"registration_endpoint": None})
    with pytest.raises(RegistrationFailed, match=r"no credentials are configured for https://as.example"):
        _client(FakeNetwork(), methods=frozenset({Registration.PREREGISTERED}), redirect_uri=None)


@pytest.mark.spec(
    "auth.credentials-keyed-by-issuer", "auth.as-change-preregistered-error", "auth.no-cross-as-credentials",
    "auth.separate-state-per-as",
)  # fmt: skip
def test_credentials_for_other_issuer_not_sent() -> None:
    network = FakeNetwork()
    with pytest.raises(RegistrationFailed, match=r"are for https://old.example, but the server requires tokens of"):
        _client(network, configured=[ClientRecord(client_id="given", issuer="https://old.example")])
    assert network.steps == []


def test_credentials_without_issuer_bound_to_first_issuer() -> None:
    given = ClientRecord(client_id="given", issuer=None)
    assert _client(FakeNetwork(), configured=[given]).issuer == ISSUER
    assert _client(FakeNetwork(), configured=[given], previous_issuer=ISSUER).issuer == ISSUER
    with pytest.raises(RegistrationFailed, match=r"are for https://old.example"):
        _client(FakeNetwork(), configured=[given], previous_issuer="https://old.example")


@pytest.mark.spec("auth.redirect-uris-registered", "auth.redirect-registered")
def test_redirect_uri_not_in_metadata_document_raises() -> None:
    with pytest.raises(RegistrationFailed, match=r"redirect URI http://127.0.0.1:5/other is not in ClientSettings"):
        _client(FakeNetwork(), redirect_uri="http://127.0.0.1:5/other", server=DOCUMENTS)
    without = _client(FakeNetwork(), redirect_uri=None, server=DOCUMENTS)
    assert without.client_id == DOCUMENT


def test_client_without_redirect_uri_not_registered() -> None:
    network = FakeNetwork()
    with pytest.raises(RegistrationFailed):
        _client(network, redirect_uri=None)
    assert _kinds(network) == ["FindClient", "AskClient"]


# --- Dynamic registration ---------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.dcr-application-type", "auth.dcr-native", "auth.refresh-grant-type", "auth.dcr-client")
def test_registration_request_describes_client() -> None:
    network = FakeNetwork()
    _client(network)
    (step,) = network.registrations
    assert step.url == REGISTER
    assert ("Content-Type", "application/json") in step.headers
    assert step.document == {
        "client_name": "App",
        "redirect_uris": [REDIRECT],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    }


@pytest.mark.spec("auth.dcr-native", "auth.dcr-web")
@pytest.mark.parametrize(
    ("uris", "expected"),
    [
        ((), "native"),
        (("http://localhost/cb",), "native"),
        (("https://app.example/cb", "http://[::1]/cb"), "native"),
        (("https://app.example/cb",), "web"),
    ],
)
def test_application_type_follows_redirect_uris(uris: tuple[str, ...], expected: str) -> None:
    assert ClientSettings(client_name="App", redirect_uris=uris).application_type == expected


@pytest.mark.parametrize(
    ("listed", "key", "expected"),
    [
        (None, None, "none"),
        (["client_secret_basic"], None, "client_secret_basic"),
        (["client_secret_post"], None, "client_secret_post"),
        (["client_secret_post", "client_secret_basic"], None, "client_secret_basic"),
        (["client_secret_basic", "none"], None, "none"),
        (["tls_client_auth"], None, "none"),
        (["none", "private_key_jwt"], Key(), "private_key_jwt"),
        (["none"], Key(), "none"),
    ],
)
def test_auth_method_supported_by_both_requested(listed: JsonValue, key: Key | None, expected: str) -> None:
    network = FakeNetwork()
    _client(network, signer=key, server={"token_endpoint_auth_methods_supported": listed})
    assert network.registrations[0].document["token_endpoint_auth_method"] == expected


def _read_registered(document: JsonObject, requested: AuthMethod = AuthMethod.NONE) -> ClientRecord:
    return read_registration(json_response(document, 201), issuer=ISSUER, redirect_uri=REDIRECT, requested=requested)


def test_registration_response_overrides_request() -> None:
    client = _read_registered(
        {
            "client_id": "id",
            "client_secret": "s",
            "client_secret_expires_at": NOW,
            "token_endpoint_auth_method": "client_secret_post",
            "redirect_uris": ["https://x.example", "http://127.0.0.1/callback"],
        }
    )
    assert client == ClientRecord(
        client_id="id",
        issuer=ISSUER,
        client_secret="s",
        auth_method=AuthMethod.SECRET_POST,
        registration=Registration.DYNAMIC,
        redirect_uris=(REDIRECT,),
        secret_expires_at=NOW,
    )


@pytest.mark.parametrize(
    ("document", "requested", "expected"),
    [
        ({}, AuthMethod.NONE, AuthMethod.NONE),
        ({"client_secret": "s"}, AuthMethod.NONE, AuthMethod.SECRET_BASIC),
        ({"client_secret": "s"}, AuthMethod.SECRET_POST, AuthMethod.SECRET_POST),
        ({"client_secret_expires_at": 0, "redirect_uris": []}, AuthMethod.PRIVATE_KEY_JWT, AuthMethod.PRIVATE_KEY_JWT),
    ],
)
def test_registration_response_defaults_to_request(
    document: JsonObject, requested: AuthMethod, expected: AuthMethod
) -> None:
    client = _read_registered({"client_id": "id", **document}, requested)
    assert client.auth_method is expected
    assert client.secret_expires_at is None


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, "returned no client_id"),
        ({"client_id": 7}, "returned no client_id"),
        ({"client_id": "id", "error": "x"}, "was rejected: x, status 201"),
        ({"error": None, "client_id": "id"}, "was rejected: no error was named"),
        ({"client_id": "id", "token_endpoint_auth_method": "tls"}, "requires an unknown authentication method: 'tls'"),
        ({"client_id": "id", "redirect_uris": ["https://x.example"]}, "changed the redirect URI"),
    ],
)
def test_unusable_registration_response_raises(document: JsonObject, problem: str) -> None:
    with pytest.raises(RegistrationFailed, match=problem):
        _read_registered(document)


# --- Client metadata document -------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "auth.cimd-required-members", "auth.cimd-document-fields", "auth.cimd-client-id-matches",
    "auth.cimd-document-client-id", "auth.cimd-follow-draft", "auth.cimd-conform", "auth.refresh-grant-type",
)  # fmt: skip
def test_metadata_document_describes_client() -> None:
    settings = attrs.evolve(
        APP,
        client_uri="https://app.example",
        logo_uri="https://app.example/logo.png",
        software_id="app",
        software_version="1",
        dpop_bound_access_tokens=True,
    )
    assert metadata_document(settings) == {
        "client_id": DOCUMENT,
        "client_name": "App",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": "native",
        "client_uri": "https://app.example",
        "logo_uri": "https://app.example/logo.png",
        "software_id": "app",
        "software_version": "1",
        "dpop_bound_access_tokens": True,
    }
    check_metadata_document(metadata_document(settings), url=DOCUMENT, redirect_uri=REDIRECT)


@pytest.mark.spec("auth.cimd-private-key-jwt", "dpop.client-bound-metadata")
def test_metadata_document_contains_public_key() -> None:
    public = {"kty": "EC", "crv": "P-256", "x": "eHg", "y": "eXk", "use": "sig", "alg": "ES256"}
    assert metadata_document(APP, signer=Key(kid="k"))["jwks"] == {"keys": [{**public, "kid": "k"}]}
    assert metadata_document(APP, signer=Key())["jwks"] == {"keys": [public]}
    with_jwks_uri = attrs.evolve(APP, jwks_uri="https://app.example/jwks.json")
    document = metadata_document(with_jwks_uri, signer=Key())
    assert document["jwks_uri"] == "https://app.example/jwks.json"
    assert "jwks" not in document
    document = registration_document(APP, redirect_uri=REDIRECT, method=AuthMethod.PRIVATE_KEY_JWT)
    assert "jwks" not in document
    assert "jwks_uri" not in metadata_document(with_jwks_uri)


def test_metadata_document_without_url_or_redirect_uris_raises() -> None:
    for settings in (attrs.evolve(APP, metadata_url=None), attrs.evolve(APP, redirect_uris=())):
        with pytest.raises(LocalProtocolError, match="requires metadata_url and redirect_uris"):
            metadata_document(settings)


@pytest.mark.spec(
    "auth.cimd-client-id-url", "auth.cimd-client-id-form", "auth.cimd-hosted-https", "auth.cimd-https-hosted"
)
@pytest.mark.parametrize(
    "url",
    [
        "http://app.example/c.json", "http://localhost/c.json", "https://app.example", "https://app.example/",
        "https://app.example/c.json#x", "https://app.example/a/../c.json", "https://u@app.example/c.json", "urn:x",
    ],
)  # fmt: skip
def test_metadata_url_without_https_or_path_raises(url: str) -> None:
    with pytest.raises(LocalProtocolError, match="metadata_url"):
        ClientSettings(client_name="App", metadata_url=url)


@pytest.mark.spec("auth.redirect-uri-scheme", "auth.redirect-https-or-localhost")
@pytest.mark.parametrize("uri", ["http://app.example/cb", "app:/cb", "https://app.example/cb#x", "x"])
def test_redirect_uri_insecure_raises(uri: str) -> None:
    with pytest.raises(LocalProtocolError, match="redirect URI"):
        ClientSettings(client_name="App", redirect_uris=(uri,))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"client_id": f"{DOCUMENT}/"}, "has another client_id: 'https://app.example/client.json/'"),
        ({"client_name": ""}, "has no client_name"),
        ({"client_name": 7}, "has no client_name"),
        ({"redirect_uris": ["http://127.0.0.1/other", 7]}, "is not in the document"),
        ({"redirect_uris": None}, "is not in the document"),
    ],
)
def test_published_document_with_differences_rejected(change: JsonObject, problem: str) -> None:
    with pytest.raises(RegistrationFailed, match=problem):
        check_metadata_document({**metadata_document(APP), **change}, url=DOCUMENT, redirect_uri=REDIRECT)


def test_register_step_has_reason() -> None:
    assert Register(url=REGISTER, document={}).why == "dynamic registration"
