"""Tests of the quirks of the OAuth testbed: each quirk changes what its name says."""

from __future__ import annotations

import math
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

import pytest
from raw_oauth_client import REDIRECT, RawOAuthClient, document

from mcp_conformance.oauth_testbed.http_messages import Request, Response, json_object, origin_of
from mcp_conformance.oauth_testbed.metadata_documents import server_metadata
from mcp_conformance.oauth_testbed.quirk_table import Row
from mcp_conformance.oauth_testbed.quirks import ABSENT, CHALLENGE, Part, Quirks, Reply, Well
from mcp_conformance.oauth_testbed.refused_quirks import REFUSED
from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
from mcp_conformance.oauth_testbed.tolerated_quirks import TOLERATED
from mcp_core.jsonrpc.messages import JsonObject

ALL = [*TOLERATED, *REFUSED]


def challenges(response: Response) -> list[str]:
    return [value for name, value in response.headers if name == "WWW-Authenticate"]


def fetched(testbed: OAuthTestbed, url: str) -> Response:
    response = RawOAuthClient(testbed).send("GET", url)
    assert response is not None
    return response


def observable(quirks: Quirks) -> list[object]:
    """Return what a client can observe: the responses to one run of the flow, and the redirects."""
    testbed = OAuthTestbed(quirks)
    client = RawOAuthClient(testbed)
    methods = ("initialize", "notifications/initialized", "tools/call")
    observed: list[object] = [client.call(method) for method in methods]
    observed += [client.send("GET", url) for url in (*testbed.places.prm_candidates, testbed.places.prm)]
    observed += [client.send("GET", well.url(testbed.places.issuer)) for well in Well]
    url = f"{testbed.places.server}/register"
    sent = b'{"redirect_uris": ["%s"], "token_endpoint_auth_method": "none"}' % REDIRECT.encode()
    registered = client.send("POST", url, ("Content-Type", "application/json"), body=sent)
    observed.append(registered)
    client.client_id = str((json_object(registered.body) or {}).get("client_id")) if registered else ""
    if client.client_id in ("", "None"):
        testbed.register({"client_id": "by-hand"})
        client.client_id = "by-hand"
    observed += client.authorize()
    observed.append(client.token())
    observed += [client.call("tools/call", client.bearer()), client.call("tools/call", client.bearer())]
    first = client.refresh
    observed += [client.refresh_tokens(), client.refresh_tokens(refresh_token=first)]
    return observed


@pytest.mark.parametrize("row", ALL, ids=[row.name for row in ALL])
def test_quirk_is_observable(row: Row) -> None:
    assert (observable(row.quirks) == observable(Quirks())) == (row.name == "nothing-odd")


def test_quirk_names_are_unique() -> None:
    names = [row.name for row in ALL]
    assert len(names) == len(set(names))


def test_default_challenge_names_metadata_and_scopes() -> None:
    testbed = OAuthTestbed()
    response = RawOAuthClient(testbed).call("initialize")
    assert response.status == 401
    assert challenges(response) == [f'Bearer resource_metadata="{testbed.places.prm}", scope="notes:read"']
    assert challenges(RawOAuthClient(OAuthTestbed(Quirks(scopes=()))).call()) == [
        f'Bearer resource_metadata="{testbed.places.prm}"'
    ]


def test_challenge_distinguishes_invalid_token_and_insufficient_scope() -> None:
    testbed = OAuthTestbed(Quirks(scopes_of={"tools/call": ("notes:write",)}))
    client = RawOAuthClient(testbed)
    client.run_flow()
    assert 'error="invalid_token"' in challenges(client.call("ping", ("Authorization", "Bearer x")))[0]
    assert client.call("ping", client.bearer()).status == 200
    response = client.call("tools/call", client.bearer())
    assert response.status == 403
    assert 'error="insufficient_scope", scope="notes:read notes:write"' in challenges(response)[0]
    client.now += 4_000
    assert client.call("ping", client.bearer()).status == 401


def test_unguarded_method_needs_no_token() -> None:
    client = RawOAuthClient(OAuthTestbed(Quirks(guarded=("tools/call",))))
    assert [client.call(method).status for method in ("initialize", "tools/call")] == [200, 401]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_protected_resource_answers_mcp_requests(revision: str) -> None:
    testbed = OAuthTestbed(Quirks(guarded=("nothing",)))
    client = RawOAuthClient(testbed)
    version = ("MCP-Protocol-Version", revision)
    modern = revision == "2026-07-28"
    for method, name in {
        "server/discover": "supportedVersions",
        "tools/list": "tools",
        "tools/call": "content",
    }.items():
        result = document(client.call(method, version))["result"]
        assert isinstance(result, dict)
        assert name in result
        assert ("resultType" in result) is modern
    assert document(client.call("initialize"))["result"] != {}
    assert document(client.call("ping"))["result"] == {}
    assert client.call("nothing/known", version).status == (404 if modern else 200)
    notification = Request(method="POST", url=testbed.places.resource, body=b'{"method": "notifications/initialized"}')
    assert getattr(testbed.answer(notification, 0.0), "status", 0) == 202
    assert (
        getattr(testbed.answer(Request(method="POST", url=testbed.places.resource, body=b"["), 0.0), "status", 0) == 400
    )
    assert fetched(testbed, testbed.places.resource).status == 405
    assert fetched(testbed, f"{testbed.places.origin}/elsewhere").status == 404
    assert fetched(testbed, f"{testbed.places.evil}/elsewhere").status == 404


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_stream_of_call_is_resumed_in_one_revision(revision: str) -> None:
    testbed = OAuthTestbed(Quirks(guarded=("tools/call", "GET"), resumes=True))
    client = RawOAuthClient(testbed)
    client.run_flow()
    version = ("MCP-Protocol-Version", revision)
    answer = client.call("tools/call", version, client.bearer())
    assert (b"the note" in answer.body) is (revision != "2025-11-25")
    last = ("Last-Event-ID", "held-1")
    resumed = client.send("GET", testbed.places.resource, version, last, client.bearer())
    assert resumed is not None
    assert (resumed.status, b"the note" in resumed.body) == ((200, True) if revision == "2025-11-25" else (405, False))
    assert testbed.violations == []
    client.send("GET", testbed.places.resource, version, last)
    assert [each.requirement for each in testbed.violations] == ["auth.bearer-every-request"]


@pytest.mark.parametrize(("revision", "listens"), [("2025-11-25", True), ("2026-07-28", True), ("2026-07-28", False)])
def test_server_that_declares_changes_ends_each_subscription(revision: str, listens: bool) -> None:
    testbed = OAuthTestbed(Quirks(listens=listens))
    client = RawOAuthClient(testbed)
    client.run_flow()
    version = ("MCP-Protocol-Version", revision)
    declared = b"listChanged" in client.call("server/discover", version, client.bearer()).body
    answer = client.call("subscriptions/listen", version, client.bearer())
    right = listens and revision == "2026-07-28"
    assert (declared, answer.header("content-type") == "text/event-stream") == (right, right)
    names = ("notifications/subscriptions/acknowledged", "resultType")
    assert all((name.encode() in answer.body) is right for name in names)
    assert testbed.violations == []


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ("path", "https://mcp.example/.well-known/oauth-protected-resource/mcp"),
        ("root", "https://mcp.example/.well-known/oauth-protected-resource"),
        ("elsewhere", "https://mcp.example/meta/resource.json"),
        ("nowhere", ""),
    ],
)
def test_resource_metadata_is_served_at_one_url(
    place: Literal["path", "root", "elsewhere", "nowhere"], url: str
) -> None:
    testbed = OAuthTestbed(Quirks(resource_metadata_at=place))
    for each in (*testbed.places.prm_candidates, "https://mcp.example/meta/resource.json"):
        assert fetched(testbed, each).status == (200 if each == url else 404)


@pytest.mark.parametrize("well", list(Well))
@pytest.mark.parametrize("issuer", ["{server}", "{server}/", "{server}/tenant"])
def test_server_metadata_is_served_at_one_url(well: Well, issuer: str) -> None:
    testbed = OAuthTestbed(Quirks(issuer=issuer, server_metadata_at=(well,)))
    url = well.url(testbed.places.issuer)
    found = {each: fetched(testbed, each.url(testbed.places.issuer)).status for each in Well}
    assert {each.url(testbed.places.issuer) for each, status in found.items() if status == 200} == {url}
    assert document(fetched(testbed, url))["issuer"] == testbed.places.issuer


def test_metadata_changes_replace_placeholders() -> None:
    changes: JsonObject = {"a": "{issuer} of {origin}", "b": ["{evil}"], "c": {"d": "{resource}"}, "e": 1}
    testbed = OAuthTestbed(Quirks(server_metadata={**changes, "jwks_uri": ABSENT}))
    found = server_metadata(testbed.quirks, testbed.places)
    assert found["a"] == "https://as.example of https://mcp.example"
    assert (found["b"], found["c"], found["e"]) == (["https://evil.example"], {"d": "https://mcp.example/mcp"}, 1)
    assert "jwks_uri" not in found


def test_reply_replaces_response_for_given_times() -> None:
    quirks = Quirks(replies={Part.SERVER_METADATA: Reply(status=503, times=2), Part.MCP: Reply(delay=math.inf)})
    testbed = OAuthTestbed(quirks)
    url = Well.OAUTH.url(testbed.places.issuer)
    assert [fetched(testbed, url).status for _ in range(4)] == [503, 503, 200, 200]
    late = RawOAuthClient(testbed).call()
    assert (late.status, late.delay) == (401, math.inf)


def test_appended_member_is_duplicated() -> None:
    testbed = OAuthTestbed(Quirks(appended={Part.SERVER_METADATA: '"issuer": "{evil}"', Part.MCP: '"x": 1'}))
    body = fetched(testbed, Well.OAUTH.url(testbed.places.issuer)).body.decode()
    assert body.count('"issuer"') == 2
    assert body.endswith('"issuer": "https://evil.example"}')
    assert RawOAuthClient(testbed).call().body == b""


@pytest.mark.parametrize("registers", [True, False])
def test_registration_disabled_is_not_advertised(registers: bool) -> None:
    testbed = OAuthTestbed(Quirks(registers=registers))
    client = RawOAuthClient(testbed)
    assert ("registration_endpoint" in client.discover()) is registers
    assert ("client_id" in client.register()) is registers


def test_registration_response_changes_apply_to_client() -> None:
    changes = {"client_secret": "given", "token_endpoint_auth_method": "client_secret_post"}
    client = RawOAuthClient(OAuthTestbed(Quirks(registration={**changes})))
    client.discover()
    client.register()
    client.authorize()
    assert client.token().status == 401
    assert client.token(client_secret="given").status == 200


def test_registration_of_array_is_rejected() -> None:
    testbed = OAuthTestbed()
    response = RawOAuthClient(testbed).send("POST", f"{testbed.places.server}/register", body=b"[]")
    assert document(response)["error"] == "invalid_client_metadata"


def test_forgotten_client_has_to_register_again() -> None:
    client = RawOAuthClient(OAuthTestbed(Quirks(forgets=1)))
    client.discover()
    for status in 401, 200:
        client.register()
        client.authorize(state=f"a-state-before-{status}")
        assert client.token().status == status


def test_restart_invalidates_tokens_and_clients() -> None:
    testbed = OAuthTestbed()
    client = RawOAuthClient(testbed)
    client.run_flow()
    testbed.restart()
    assert client.call("ping", client.bearer()).status == 401
    assert document(client.refresh_tokens())["error"] == "invalid_client"


@pytest.mark.parametrize(("kind", "again"), [("rotates", "invalid_grant"), ("stays", None), ("never", "invalid_grant")])
def test_refresh_token_is_rotated_kept_or_missing(
    kind: Literal["rotates", "stays", "never"], again: str | None
) -> None:
    client = RawOAuthClient(OAuthTestbed(Quirks(refresh=kind)))
    client.run_flow()
    first = client.refresh
    assert (first == "") is (kind == "never")
    assert (client.refresh_tokens().status == 200) is (kind != "never")
    assert document(client.refresh_tokens(refresh_token=first)).get("error") == again
    if kind == "rotates":
        assert document(client.refresh_tokens())["error"] == "invalid_grant"
        assert client.call("ping", client.bearer()).status == 401


def test_refresh_token_issued_once_stays_valid() -> None:
    client = RawOAuthClient(OAuthTestbed(Quirks(refresh="issued once")))
    client.run_flow()
    for _ in range(2):
        assert "refresh_token" not in document(client.refresh_tokens())


def test_strange_codes_and_tokens_are_accepted() -> None:
    testbed = OAuthTestbed(Quirks(strange_texts=True))
    client = RawOAuthClient(testbed)
    client.run_flow()
    assert [each[-1] for each in (client.code, client.access, client.refresh)] == ["=", "=", "="]
    assert client.refresh_tokens().status == 200
    assert client.call("ping", client.bearer()).status == 200
    assert testbed.violations == []


def test_refresh_with_narrower_scope_is_granted() -> None:
    client = RawOAuthClient(OAuthTestbed(Quirks(scopes=("a", "b"))))
    client.discover()
    client.register()
    client.authorize(scope="a b")
    client.token()
    assert document(client.refresh_tokens(scope="a"))["scope"] == "a"


def test_expired_tokens_are_refreshed() -> None:
    testbed = OAuthTestbed()
    client = RawOAuthClient(testbed)
    client.run_flow()
    testbed.server.tokens.expire()
    assert client.call("ping", client.bearer()).status == 401
    assert client.refresh_tokens().status == 200


@pytest.mark.parametrize(
    "quirks", [Quirks(resource_metadata_at="nowhere"), Quirks(resource_metadata_at="elsewhere", challenge=("Bearer",))]
)
def test_migration_without_discoverable_metadata_raises(quirks: Quirks) -> None:
    with pytest.raises(ValueError, match="without resource metadata"):
        OAuthTestbed(quirks).migrate()


def test_token_without_expiry_has_no_expires_in() -> None:
    client = RawOAuthClient(OAuthTestbed(Quirks(lifetime=math.inf)))
    client.discover()
    client.register()
    client.authorize()
    assert "expires_in" not in document(client.token())


def test_token_response_as_form_is_form_encoded() -> None:
    client = RawOAuthClient(OAuthTestbed(Quirks(token_as_form=True)))
    client.discover()
    client.register()
    client.authorize()
    response = client.token()
    assert response.header("content-type") == "application/x-www-form-urlencoded"
    assert dict(parse_qsl(response.body.decode()))["token_type"] == "Bearer"


@pytest.mark.parametrize(("scope", "status"), [("notes:read", 200), (["notes:read"], 200), ("other", 403), (7, 200)])
def test_token_response_scope_determines_access(scope: str | list[str] | int, status: int) -> None:
    testbed = OAuthTestbed(Quirks(token={"scope": [*scope] if isinstance(scope, list) else scope}))
    client = RawOAuthClient(testbed)
    client.run_flow()
    assert client.call("ping", client.bearer()).status == status


def test_insatiable_challenge_changes_each_time() -> None:
    client = RawOAuthClient(OAuthTestbed(Quirks(insatiable=True, scopes_of={"tools/call": ("notes:write",)})))
    client.run_flow()
    first, second = (challenges(client.call("tools/call", client.bearer()))[0] for _ in range(2))
    assert first != second


def test_authorization_response_changes_are_applied() -> None:
    testbed = OAuthTestbed(Quirks(authorization={"code": ABSENT, "error": "access_denied", "iss": "{evil}"}))
    client = RawOAuthClient(testbed)
    client.discover()
    client.register()
    (back,) = client.authorize()
    fields = dict(parse_qsl(urlsplit(back).query))
    assert fields == {"error": "access_denied", "iss": "https://evil.example", "state": "state-of-this-request"}


def test_browser_without_redirect_returns_nothing() -> None:
    testbed = OAuthTestbed(Quirks(replies={Part.AUTHORIZATION: Reply(status=500)}))
    client = RawOAuthClient(testbed)
    client.discover()
    client.register()
    assert client.authorize() == []
    assert testbed.browse("http://10.0.0.1/", 0.0) == []


def test_dpop_challenge_names_scheme_and_algorithms() -> None:
    testbed = OAuthTestbed(Quirks(dpop="required"))
    assert challenges(RawOAuthClient(testbed).call()) == [CHALLENGE.replace("Bearer", 'DPoP algs="ES256",').replace("{prm}", testbed.places.prm).replace("{scope}", "notes:read")]  # fmt: skip
    assert document(fetched(testbed, testbed.places.prm))["dpop_bound_access_tokens_required"] is True
    assert RawOAuthClient(testbed).discover()["dpop_signing_alg_values_supported"] == ["ES256"]


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://A.example:443/x", "https://a.example"),
        ("http://a.example:80", "http://a.example"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
        ("http://a.example:99999/", ""),
        ("https:///x", ""),
        ("javascript:alert(1)", ""),
    ],
)
def test_origin_is_normalized(url: str, origin: str) -> None:
    assert origin_of(url) == origin
