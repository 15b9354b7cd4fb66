"""How a client comes to its id: the ways in their order, and never with what belongs to another issuer."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from oauth_network import ISSUER, MCP, NOW, REDIRECT, Key, World, json_answer, server_document

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
EVERY_WAY = frozenset(Registration)
KEPT = ClientRecord(client_id="kept", issuer=ISSUER, redirect_uris=(REDIRECT,))
REGISTER = f"{ISSUER}/register"


def _client(
    world: World,
    *,
    settings: ClientSettings = APP,
    ways: frozenset[Registration] = EVERY_WAY,
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
        ways=ways,
        configured=configured,
        redirect_uri=redirect_uri,
        signer=signer,
        previous_issuer=previous_issuer,
        refused=refused,
        now=NOW,
    )
    return world.run(registrar.run())


def _kinds(world: World) -> list[str]:
    return [type(step).__name__ for step in world.steps]


# --- The order --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.registration-priority", "auth.preregistration", "auth.registration-obtained")
def test_what_is_configured_goes_first() -> None:
    world = World()
    configured = ClientRecord(client_id="given", issuer=ISSUER, client_secret="s")
    other = ClientRecord(client_id="other", issuer="https://other.example")
    assert _client(world, configured=[other, configured], server=DOCUMENTS) == configured
    assert world.steps == []


@pytest.mark.spec(
    "auth.registration-priority", "auth.cimd-client", "auth.cimd-should", "auth.cimd-client-checks-support",
    "auth.cimd-client-checks", "auth.dcr-deprecated", "auth.cimd-portable",
)  # fmt: skip
def test_then_the_document_where_such_ids_are_taken() -> None:
    world = World()
    client = _client(world, server=DOCUMENTS)
    assert (client.client_id, client.registration) == (DOCUMENT, Registration.METADATA_DOCUMENT)
    assert (client.issuer, client.auth_method) == (ISSUER, AuthMethod.NONE)
    assert world.steps == []
    signed = _client(World(), server=DOCUMENTS, signer=Key())
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
def test_else_what_was_kept(server: JsonObject) -> None:
    world = World()
    world.kept[ISSUER] = kept = ClientRecord(
        client_id="kept", issuer=ISSUER, registration=Registration.DYNAMIC, redirect_uris=(REDIRECT,)
    )
    assert _client(world, server=server) == kept
    assert world.steps == [FindClient(issuer=ISSUER)]


@pytest.mark.parametrize(
    ("kept", "refused"),
    [
        (attrs.evolve(KEPT, issuer="https://other.example"), frozenset()),
        (attrs.evolve(KEPT, redirect_uris=("http://127.0.0.1:1/callback",)), frozenset()),
        (attrs.evolve(KEPT, secret_expires_at=NOW), frozenset()),
        (KEPT, frozenset({"kept"})),
    ],
)
@pytest.mark.spec(
    "auth.dcr-client", "auth.no-cross-as-credentials", "auth.as-change-no-reuse", "auth.as-change-reregister"
)
def test_what_was_kept_and_does_not_hold_any_more_leads_to_a_new_registration(
    kept: ClientRecord, refused: frozenset[str]
) -> None:
    world = World()
    world.kept[ISSUER] = kept
    assert _client(world, refused=refused).client_id == "registered-1"
    assert _kinds(world) == ["FindClient", "Register"]


@pytest.mark.spec("auth.client-id-without-dcr", "auth.dcr-optional", "auth.dcr-may")
@pytest.mark.parametrize("endpoint", [None, "http://10.0.0.1/register", "javascript:x"])
def test_the_last_way_is_to_ask(endpoint: JsonValue) -> None:
    world = World()
    world.typed = ClientRecord(client_id="typed", issuer=None, client_secret="s")
    client = _client(world, server={"registration_endpoint": endpoint})
    assert (client.client_id, client.issuer, client.registration) == ("typed", ISSUER, Registration.USER_PROVIDED)
    assert _kinds(world) == ["FindClient", "AskClient"]


@pytest.mark.spec("auth.dcr-failure-handled", "auth.dcr-failure-surfaced")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            json_answer({"error": "invalid_redirect_uri", "error_description": "no\nloopback"}, 400),
            f"registration at {ISSUER} was rejected: invalid_redirect_uri (no loopback), status 400",
        ),
        (
            FetchedResponse(status=403, body=b"<html>"),
            "status 403 without a valid document: the document is not JSON, but a web page",
        ),
        (Unreachable(reason="no\nroute"), f"no response to the registration at {REGISTER}: no route"),
    ],
)
def test_a_registration_that_is_refused_is_told_to_whoever_is_asked(
    answer: FetchedResponse | Unreachable, reason: str
) -> None:
    world = World()
    world.routes[REGISTER] = answer
    with pytest.raises(RegistrationFailed, match="egistration at") as caught:
        _client(world)
    assert reason in caught.value.message
    (asked,) = [step for step in world.steps if isinstance(step, AskClient)]
    assert asked.reason == caught.value.message
    world.typed = ClientRecord(client_id="typed", issuer=None)
    assert _client(world).client_id == "typed"


def test_without_any_way_it_is_told() -> None:
    with pytest.raises(RegistrationFailed, match="neither client ID metadata documents nor dynamic registration"):
        _client(World(), server={"registration_endpoint": None})
    with pytest.raises(RegistrationFailed, match=r"no credentials are configured for https://as.example"):
        _client(World(), ways=frozenset({Registration.PREREGISTERED}), redirect_uri=None)


@pytest.mark.spec(
    "auth.credentials-keyed-by-issuer", "auth.as-change-preregistered-error", "auth.no-cross-as-credentials",
    "auth.separate-state-per-as",
)  # fmt: skip
def test_credentials_for_another_issuer_are_not_shown_and_that_is_told() -> None:
    world = World()
    with pytest.raises(RegistrationFailed, match=r"are for https://old.example, but the server requires tokens of"):
        _client(world, configured=[ClientRecord(client_id="given", issuer="https://old.example")])
    assert world.steps == []


def test_credentials_without_an_issuer_belong_to_the_first_one() -> None:
    given = ClientRecord(client_id="given", issuer=None)
    assert _client(World(), configured=[given]).issuer == ISSUER
    assert _client(World(), configured=[given], previous_issuer=ISSUER).issuer == ISSUER
    with pytest.raises(RegistrationFailed, match=r"are for https://old.example"):
        _client(World(), configured=[given], previous_issuer="https://old.example")


@pytest.mark.spec("auth.redirect-uris-registered", "auth.redirect-registered")
def test_a_redirect_uri_that_is_not_in_the_document_does_not_go_on() -> None:
    with pytest.raises(RegistrationFailed, match=r"redirect URI http://127.0.0.1:5/other is not in ClientSettings"):
        _client(World(), redirect_uri="http://127.0.0.1:5/other", server=DOCUMENTS)
    without = _client(World(), redirect_uri=None, server=DOCUMENTS)
    assert without.client_id == DOCUMENT


def test_without_a_browser_nothing_is_registered() -> None:
    world = World()
    with pytest.raises(RegistrationFailed):
        _client(world, redirect_uri=None)
    assert _kinds(world) == ["FindClient", "AskClient"]


# --- Dynamic registration ---------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.dcr-application-type", "auth.dcr-native", "auth.refresh-grant-type", "auth.dcr-client")
def test_the_client_describes_itself_to_the_registration_endpoint() -> None:
    world = World()
    _client(world)
    (step,) = world.registrations
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
def test_the_application_type_follows_from_the_redirect_uris(uris: tuple[str, ...], expected: str) -> None:
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
def test_it_wants_the_way_of_authentication_that_both_can(listed: JsonValue, key: Key | None, expected: str) -> None:
    world = World()
    _client(world, signer=key, server={"token_endpoint_auth_methods_supported": listed})
    assert world.registrations[0].document["token_endpoint_auth_method"] == expected


def _registered(document: JsonObject, requested: AuthMethod = AuthMethod.NONE) -> ClientRecord:
    return read_registration(json_answer(document, 201), issuer=ISSUER, redirect_uri=REDIRECT, requested=requested)


def test_what_the_authorization_server_changed_holds() -> None:
    client = _registered(
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
def test_what_it_does_not_say_is_as_it_was_asked_for(
    document: JsonObject, requested: AuthMethod, expected: AuthMethod
) -> None:
    client = _registered({"client_id": "id", **document}, requested)
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
def test_what_the_flow_could_not_go_on_with_is_told(document: JsonObject, problem: str) -> None:
    with pytest.raises(RegistrationFailed, match=problem):
        _registered(document)


# --- The document -----------------------------------------------------------------------------------------------------


@pytest.mark.spec(
    "auth.cimd-required-members", "auth.cimd-document-fields", "auth.cimd-client-id-matches",
    "auth.cimd-document-client-id", "auth.cimd-follow-draft", "auth.cimd-conform", "auth.refresh-grant-type",
)  # fmt: skip
def test_the_document_is_made_of_what_the_client_does() -> None:
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
def test_a_client_that_signs_has_its_public_key_in_it() -> None:
    public = {"kty": "EC", "crv": "P-256", "x": "eHg", "y": "eXk", "use": "sig", "alg": "ES256"}
    assert metadata_document(APP, signer=Key(kid="k"))["jwks"] == {"keys": [{**public, "kid": "k"}]}
    assert metadata_document(APP, signer=Key())["jwks"] == {"keys": [public]}
    elsewhere = attrs.evolve(APP, jwks_uri="https://app.example/jwks.json")
    document = metadata_document(elsewhere, signer=Key())
    assert document["jwks_uri"] == "https://app.example/jwks.json"
    assert "jwks" not in document
    document = registration_document(APP, redirect_uri=REDIRECT, method=AuthMethod.PRIVATE_KEY_JWT)
    assert "jwks" not in document
    assert "jwks_uri" not in metadata_document(elsewhere)


def test_a_document_needs_a_url_and_redirect_uris() -> None:
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
def test_a_client_id_is_https_with_a_path(url: str) -> None:
    with pytest.raises(LocalProtocolError, match="metadata_url"):
        ClientSettings(client_name="App", metadata_url=url)


@pytest.mark.spec("auth.redirect-uri-scheme", "auth.redirect-https-or-localhost")
@pytest.mark.parametrize("uri", ["http://app.example/cb", "app:/cb", "https://app.example/cb#x", "x"])
def test_a_redirect_uri_is_https_or_this_machine(uri: str) -> None:
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
def test_a_published_document_that_differs_is_found_out(change: JsonObject, problem: str) -> None:
    with pytest.raises(RegistrationFailed, match=problem):
        check_metadata_document({**metadata_document(APP), **change}, url=DOCUMENT, redirect_uri=REDIRECT)


def test_a_registration_step_can_be_told() -> None:
    assert Register(url=REGISTER, document={}).why == "dynamic registration"
