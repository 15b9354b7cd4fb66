"""Each quirk of the world of OAuth does what it says, and nothing else."""

from __future__ import annotations

import math
from typing import Literal
from urllib.parse import parse_qsl, urlsplit

import pytest
from raw_oauth_client import REDIRECT, Hand, document

from mcp_conformance.oauth_testbed.http_messages import Request, Response, json_object, origin_of
from mcp_conformance.oauth_testbed.metadata_documents import server_metadata
from mcp_conformance.oauth_testbed.quirk_table import Row
from mcp_conformance.oauth_testbed.quirks import ABSENT, CHALLENGE, Part, Quirks, Reply, Well
from mcp_conformance.oauth_testbed.refused_quirks import REFUSED
from mcp_conformance.oauth_testbed.testbed import OAuthTestbed
from mcp_conformance.oauth_testbed.tolerated_quirks import TOLERATED
from mcp_core.jsonrpc.messages import JsonObject

ALL = [*TOLERATED, *REFUSED]


def challenges(answer: Response) -> list[str]:
    return [value for name, value in answer.headers if name == "WWW-Authenticate"]


def got(world: OAuthTestbed, url: str) -> Response:
    answer = Hand(world).send("GET", url)
    assert answer is not None
    return answer


def everything(quirks: Quirks) -> list[object]:
    """What anybody can see of a world: the answers to one walk through it, and all its places."""
    world = OAuthTestbed(quirks)
    hand = Hand(world)
    methods = ("initialize", "notifications/initialized", "tools/call")
    seen: list[object] = [hand.call(method) for method in methods]
    seen += [hand.send("GET", url) for url in (*world.places.prm_candidates, world.places.prm)]
    seen += [hand.send("GET", well.url(world.places.issuer)) for well in Well]
    url = f"{world.places.server}/register"
    sent = b'{"redirect_uris": ["%s"], "token_endpoint_auth_method": "none"}' % REDIRECT.encode()
    registered = hand.send("POST", url, body=sent)
    seen.append(registered)
    hand.client_id = str((json_object(registered.body) or {}).get("client_id")) if registered else ""
    if hand.client_id in ("", "None"):
        world.register({"client_id": "by-hand"})
        hand.client_id = "by-hand"
    seen += hand.authorize()
    seen.append(hand.token())
    seen += [hand.call("tools/call", hand.bearer()), hand.call("tools/call", hand.bearer())]
    first = hand.refresh
    seen += [hand.refreshed(), hand.refreshed(refresh_token=first)]
    return seen


@pytest.mark.parametrize("row", ALL, ids=[row.name for row in ALL])
def test_a_row_of_the_catalogue_makes_a_difference_that_can_be_seen(row: Row) -> None:
    assert (everything(row.quirks) == everything(Quirks())) == (row.name == "nothing-odd")


def test_each_row_has_a_name_of_its_own() -> None:
    names = [row.name for row in ALL]
    assert len(names) == len(set(names))


def test_without_quirks_the_challenge_names_metadata_and_scopes() -> None:
    world = OAuthTestbed()
    answer = Hand(world).call("initialize")
    assert answer.status == 401
    assert challenges(answer) == [f'Bearer resource_metadata="{world.places.prm}", scope="notes:read"']
    assert challenges(Hand(OAuthTestbed(Quirks(scopes=()))).call()) == [
        f'Bearer resource_metadata="{world.places.prm}"'
    ]


def test_a_bad_token_and_one_that_does_not_suffice_are_told() -> None:
    world = OAuthTestbed(Quirks(scopes_of={"tools/call": ("notes:write",)}))
    hand = Hand(world)
    hand.all()
    assert 'error="invalid_token"' in challenges(hand.call("ping", ("Authorization", "Bearer x")))[0]
    assert hand.call("ping", hand.bearer()).status == 200
    answer = hand.call("tools/call", hand.bearer())
    assert answer.status == 403
    assert 'error="insufficient_scope", scope="notes:read notes:write"' in challenges(answer)[0]
    hand.now += 4_000
    assert hand.call("ping", hand.bearer()).status == 401


def test_methods_that_are_not_guarded_need_no_token() -> None:
    hand = Hand(OAuthTestbed(Quirks(guarded=("tools/call",))))
    assert [hand.call(method).status for method in ("initialize", "tools/call")] == [200, 401]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_there_is_an_mcp_server_behind_it(revision: str) -> None:
    world = OAuthTestbed(Quirks(guarded=("nothing",)))
    hand = Hand(world)
    version = ("MCP-Protocol-Version", revision)
    modern = revision == "2026-07-28"
    for method, name in {
        "server/discover": "supportedVersions",
        "tools/list": "tools",
        "tools/call": "content",
    }.items():
        result = document(hand.call(method, version))["result"]
        assert isinstance(result, dict)
        assert name in result
        assert ("resultType" in result) is modern
    assert document(hand.call("initialize"))["result"] != {}
    assert document(hand.call("ping"))["result"] == {}
    assert hand.call("nothing/known", version).status == (404 if modern else 200)
    notification = Request(method="POST", url=world.places.resource, body=b'{"method": "notifications/initialized"}')
    assert getattr(world.answer(notification, 0.0), "status", 0) == 202
    assert getattr(world.answer(Request(method="POST", url=world.places.resource, body=b"["), 0.0), "status", 0) == 400
    assert got(world, world.places.resource).status == 405
    assert got(world, f"{world.places.origin}/elsewhere").status == 404
    assert got(world, f"{world.places.evil}/elsewhere").status == 404


@pytest.mark.parametrize(
    ("place", "url"),
    [
        ("path", "https://mcp.example/.well-known/oauth-protected-resource/mcp"),
        ("root", "https://mcp.example/.well-known/oauth-protected-resource"),
        ("elsewhere", "https://mcp.example/meta/resource.json"),
        ("nowhere", ""),
    ],
)
def test_the_metadata_of_the_resource_are_in_one_place(
    place: Literal["path", "root", "elsewhere", "nowhere"], url: str
) -> None:
    world = OAuthTestbed(Quirks(resource_metadata_at=place))
    for each in (*world.places.prm_candidates, "https://mcp.example/meta/resource.json"):
        assert got(world, each).status == (200 if each == url else 404)


@pytest.mark.parametrize("well", list(Well))
@pytest.mark.parametrize("issuer", ["{server}", "{server}/", "{server}/tenant"])
def test_those_of_the_authorization_server_are_where_they_should_be(well: Well, issuer: str) -> None:
    world = OAuthTestbed(Quirks(issuer=issuer, server_metadata_at=(well,)))
    url = well.url(world.places.issuer)
    found = {each: got(world, each.url(world.places.issuer)).status for each in Well}
    assert {each.url(world.places.issuer) for each, status in found.items() if status == 200} == {url}
    assert document(got(world, url))["issuer"] == world.places.issuer


def test_members_are_changed_with_their_places_filled() -> None:
    changes: JsonObject = {"a": "{issuer} of {origin}", "b": ["{evil}"], "c": {"d": "{resource}"}, "e": 1}
    world = OAuthTestbed(Quirks(server_metadata={**changes, "jwks_uri": ABSENT}))
    found = server_metadata(world.quirks, world.places)
    assert found["a"] == "https://as.example of https://mcp.example"
    assert (found["b"], found["c"], found["e"]) == (["https://evil.example"], {"d": "https://mcp.example/mcp"}, 1)
    assert "jwks_uri" not in found


def test_a_reply_stands_in_for_the_right_answer_as_often_as_it_says() -> None:
    quirks = Quirks(replies={Part.SERVER_METADATA: Reply(status=503, times=2), Part.MCP: Reply(delay=math.inf)})
    world = OAuthTestbed(quirks)
    url = Well.OAUTH.url(world.places.issuer)
    assert [got(world, url).status for _ in range(4)] == [503, 503, 200, 200]
    late = Hand(world).call()
    assert (late.status, late.delay) == (401, math.inf)


def test_a_member_may_stand_there_twice() -> None:
    world = OAuthTestbed(Quirks(appended={Part.SERVER_METADATA: '"issuer": "{evil}"', Part.MCP: '"x": 1'}))
    body = got(world, Well.OAUTH.url(world.places.issuer)).body.decode()
    assert body.count('"issuer"') == 2
    assert body.endswith('"issuer": "https://evil.example"}')
    assert Hand(world).call().body == b""


@pytest.mark.parametrize("registers", [True, False])
def test_registration_may_be_missing(registers: bool) -> None:
    world = OAuthTestbed(Quirks(registers=registers))
    hand = Hand(world)
    assert ("registration_endpoint" in hand.discover()) is registers
    assert ("client_id" in hand.register()) is registers


def test_a_client_is_registered_as_the_answer_says() -> None:
    changes = {"client_secret": "given", "token_endpoint_auth_method": "client_secret_post"}
    hand = Hand(OAuthTestbed(Quirks(registration={**changes})))
    hand.discover()
    hand.register()
    hand.authorize()
    assert hand.token().status == 401
    assert hand.token(client_secret="given").status == 200


def test_what_is_no_registration_is_refused() -> None:
    world = OAuthTestbed()
    answer = Hand(world).send("POST", f"{world.places.server}/register", body=b"[]")
    assert document(answer)["error"] == "invalid_client_metadata"


def test_a_client_may_be_forgotten() -> None:
    hand = Hand(OAuthTestbed(Quirks(forgets=1)))
    hand.discover()
    for status in 401, 200:
        hand.register()
        hand.authorize(state=f"a-state-before-{status}")
        assert hand.token().status == status


def test_after_a_restart_nobody_is_known() -> None:
    world = OAuthTestbed()
    hand = Hand(world)
    hand.all()
    world.restart()
    assert hand.call("ping", hand.bearer()).status == 401
    assert document(hand.refreshed())["error"] == "invalid_client"


@pytest.mark.parametrize(("kind", "again"), [("rotates", "invalid_grant"), ("stays", None), ("never", "invalid_grant")])
def test_a_refresh_token_is_rotated_or_stays(kind: Literal["rotates", "stays", "never"], again: str | None) -> None:
    hand = Hand(OAuthTestbed(Quirks(refresh=kind)))
    hand.all()
    first = hand.refresh
    assert (first == "") is (kind == "never")
    assert (hand.refreshed().status == 200) is (kind != "never")
    assert document(hand.refreshed(refresh_token=first)).get("error") == again
    if kind == "rotates":
        assert document(hand.refreshed())["error"] == "invalid_grant"
        assert hand.call("ping", hand.bearer()).status == 401


def test_a_refresh_may_ask_for_less() -> None:
    hand = Hand(OAuthTestbed(Quirks(scopes=("a", "b"))))
    hand.discover()
    hand.register()
    hand.authorize(scope="a b")
    hand.token()
    assert document(hand.refreshed(scope="a"))["scope"] == "a"


def test_tokens_may_end_all_at_once() -> None:
    world = OAuthTestbed()
    hand = Hand(world)
    hand.all()
    world.server.tokens.expire()
    assert hand.call("ping", hand.bearer()).status == 401
    assert hand.refreshed().status == 200


@pytest.mark.parametrize(
    "quirks", [Quirks(resource_metadata_at="nowhere"), Quirks(resource_metadata_at="elsewhere", challenge=("Bearer",))]
)
def test_a_server_that_cannot_be_asked_cannot_go_over_to_another_authorization_server(quirks: Quirks) -> None:
    with pytest.raises(ValueError, match="nobody can be told"):
        OAuthTestbed(quirks).migrate()


def test_a_token_that_never_ends_says_nothing_of_it() -> None:
    hand = Hand(OAuthTestbed(Quirks(lifetime=math.inf)))
    hand.discover()
    hand.register()
    hand.authorize()
    assert "expires_in" not in document(hand.token())


def test_the_token_endpoint_may_answer_with_a_form() -> None:
    hand = Hand(OAuthTestbed(Quirks(token_as_form=True)))
    hand.discover()
    hand.register()
    hand.authorize()
    answer = hand.token()
    assert answer.header("content-type") == "application/x-www-form-urlencoded"
    assert dict(parse_qsl(answer.body.decode()))["token_type"] == "Bearer"


@pytest.mark.parametrize(("scope", "status"), [("notes:read", 200), (["notes:read"], 200), ("other", 403), (7, 200)])
def test_what_the_answer_says_is_granted(scope: str | list[str] | int, status: int) -> None:
    world = OAuthTestbed(Quirks(token={"scope": [*scope] if isinstance(scope, list) else scope}))
    hand = Hand(world)
    hand.all()
    assert hand.call("ping", hand.bearer()).status == status


def test_a_server_that_is_never_content_wants_something_else_each_time() -> None:
    hand = Hand(OAuthTestbed(Quirks(insatiable=True, scopes_of={"tools/call": ("notes:write",)})))
    hand.all()
    first, second = (challenges(hand.call("tools/call", hand.bearer()))[0] for _ in range(2))
    assert first != second


def test_what_comes_back_from_the_browser_may_be_anything() -> None:
    world = OAuthTestbed(Quirks(authorization={"code": ABSENT, "error": "access_denied", "iss": "{evil}"}))
    hand = Hand(world)
    hand.discover()
    hand.register()
    (back,) = hand.authorize()
    fields = dict(parse_qsl(urlsplit(back).query))
    assert fields == {"error": "access_denied", "iss": "https://evil.example", "state": "state-of-this-request"}


def test_a_browser_that_is_sent_nowhere_brings_nothing() -> None:
    world = OAuthTestbed(Quirks(replies={Part.AUTHORIZATION: Reply(status=500)}))
    hand = Hand(world)
    hand.discover()
    hand.register()
    assert hand.authorize() == []
    assert world.browse("http://10.0.0.1/", 0.0) == []


def test_a_challenge_for_keys_names_their_scheme() -> None:
    world = OAuthTestbed(Quirks(dpop="required"))
    assert challenges(Hand(world).call()) == [CHALLENGE.replace("Bearer", 'DPoP algs="ES256",').replace("{prm}", world.places.prm).replace("{scope}", "notes:read")]  # fmt: skip
    assert document(got(world, world.places.prm))["dpop_bound_access_tokens_required"] is True
    assert Hand(world).discover()["dpop_signing_alg_values_supported"] == ["ES256"]


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
def test_an_origin_has_one_spelling(url: str, origin: str) -> None:
    assert origin_of(url) == origin
