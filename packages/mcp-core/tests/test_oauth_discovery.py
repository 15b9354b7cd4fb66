"""From the URL of a server to its authorization server: every URL, in its order, and what ends the search."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oauth_network import (
    ISSUER,
    MCP,
    METADATA,
    PRM,
    PRM_ROOT,
    World,
    json_answer,
    resource_document,
    server_document,
)

from mcp_core.errors import DiscoveryFailed, IssuerMismatch, UnsafeUrl
from mcp_core.jsonrpc.messages import JsonValue
from mcp_core.oauth.addresses import AddressClass
from mcp_core.oauth.challenge import Challenge
from mcp_core.oauth.discovery import (
    Discovery,
    DiscoveryResult,
    authorization_server_urls,
    default_endpoints,
    protected_resource_urls,
)
from mcp_core.oauth.steps import FetchedResponse, FetchJson, Unreachable
from mcp_core.oauth.urls import parse_url

OPENID = "https://as.example/.well-known/openid-configuration"
OWN = "https://mcp.example/.well-known/oauth-authorization-server"


def _challenge(url: str) -> Challenge:
    return Challenge(scheme="Bearer", parameters={"resource_metadata": url})


def _find(world: World, *, challenge: Challenge | None = None, discovery: Discovery | None = None) -> DiscoveryResult:
    return world.run((discovery or Discovery(MCP)).run(challenge))


def _urls(urls: tuple[str, ...]) -> list[str]:
    return list(urls)


@pytest.mark.spec("auth.client-prm-discovery-order", "auth.client-prm-fallback-order")
def test_the_well_known_urls_of_a_resource() -> None:
    def urls(server: str) -> list[str]:
        return _urls(protected_resource_urls(parse_url(server, what="server URL")))

    root = "https://mcp.example/.well-known/oauth-protected-resource"
    assert urls("https://mcp.example/a/mcp") == [f"{root}/a/mcp", root]
    assert urls("https://mcp.example/") == [root]
    assert urls("https://mcp.example") == [root]
    assert urls("https://mcp.example:8443/mcp?t=1") == [
        "https://mcp.example:8443/.well-known/oauth-protected-resource/mcp?t=1",
        "https://mcp.example:8443/.well-known/oauth-protected-resource",
    ]


@pytest.mark.spec(
    "auth.metadata-order-with-path", "auth.metadata-order-without-path", "auth.as-wellknown-path-order",
    "auth.as-wellknown-root-order", "auth.client-multiple-well-known", "auth.as-wellknown-multiple",
)  # fmt: skip
@pytest.mark.parametrize("slash", ["", "/"])
def test_the_well_known_urls_of_an_authorization_server(slash: str) -> None:
    def urls(issuer: str) -> list[str]:
        return _urls(authorization_server_urls(parse_url(issuer + slash, what="issuer")))

    assert urls("https://as.example") == [METADATA, OPENID]
    assert urls("https://as.example/tenant1") == [
        f"{METADATA}/tenant1",
        f"{OPENID}/tenant1",
        "https://as.example/tenant1/.well-known/openid-configuration",
        "https://as.example/tenant1/.well-known/oauth-authorization-server",
    ]


@pytest.mark.spec("auth.prm-client", "auth.prm-client-uses")
def test_the_metadata_of_the_server_lead_to_the_authorization_server() -> None:
    world = World()
    found = _find(world)
    assert world.fetched == [PRM, METADATA]
    assert found.resource == MCP
    assert found.server.issuer == ISSUER
    assert found.protected_resource is not None


@pytest.mark.spec("auth.client-prm-header-preferred", "auth.client-both-prm-mechanisms")
def test_the_url_of_the_challenge_goes_first_and_alone() -> None:
    world = World()
    custom = "https://mcp.example/custom/metadata.json"
    world.routes[custom] = json_answer(resource_document())
    assert _find(world, challenge=_challenge(custom)).resource == MCP
    assert world.fetched == [custom, METADATA]
    again = World()
    _find(again, challenge=_challenge(PRM))
    assert again.fetched == [PRM, METADATA]


def test_a_challenge_that_leads_nowhere_is_survived() -> None:
    world = World()
    _find(world, challenge=_challenge("https://mcp.example/gone"))
    assert world.fetched == ["https://mcp.example/gone", PRM, METADATA]


@pytest.mark.spec("auth.client-prm-fallback-order")
@pytest.mark.parametrize(
    "answer",
    [
        FetchedResponse(status=404),
        FetchedResponse(status=401),
        FetchedResponse(status=302),
        FetchedResponse(status=200, body=b"<!doctype html><title>app</title>"),
        json_answer([]),
        json_answer({"authorization_servers": [ISSUER]}),
    ],
)
def test_what_is_no_document_is_passed_over_and_told(answer: FetchedResponse) -> None:
    world = World()
    world.routes[PRM] = answer
    world.routes[PRM_ROOT] = json_answer(resource_document())
    discovery = Discovery(MCP)
    _find(world, discovery=discovery)
    assert world.fetched == [PRM, PRM_ROOT, METADATA]
    assert [attempt.url for attempt in discovery.attempts] == [PRM, PRM_ROOT, METADATA]
    assert discovery.attempts[0].verdict != "metadata of https://mcp.example/mcp"


@pytest.mark.spec("auth.prm-resource-mismatch-rejected")
@pytest.mark.parametrize(
    "resource", ["https://evil.example/mcp", "https://mcp.example/mcp/x", "https://mcp.example/other"]
)
def test_metadata_of_another_resource_end_the_search(resource: str) -> None:
    world = World()
    world.routes[PRM] = json_answer(resource_document(resource=resource))
    with pytest.raises(
        DiscoveryFailed, match=r"not https://mcp.example/mcp: the client does not request tokens for another resource"
    ):
        _find(world)
    assert world.fetched == [PRM]


@pytest.mark.spec("auth.prm-resource-mismatch-rejected")
def test_a_resource_above_the_server_is_believed_from_its_own_place_only() -> None:
    above = json_answer(resource_document(resource="https://mcp.example"))
    world = World()
    world.routes[PRM] = FetchedResponse(status=404)
    world.routes[PRM_ROOT] = above
    assert _find(world).resource == "https://mcp.example"

    # Whoever has the path says that they are the whole host, which says nothing of the kind.
    liar = World()
    liar.routes["https://mcp.example/mcp/mine"] = above
    with pytest.raises(DiscoveryFailed, match=r"describes 'https://mcp.example', not https://mcp.example/mcp"):
        _find(liar, challenge=_challenge("https://mcp.example/mcp/mine"))
    assert liar.fetched == ["https://mcp.example/mcp/mine", PRM_ROOT]

    # The host itself agrees.
    world = World()
    world.routes[PRM] = above
    world.routes[PRM_ROOT] = above
    assert _find(world).resource == "https://mcp.example"
    assert world.fetched == [PRM, PRM_ROOT, METADATA]


@pytest.mark.spec("auth.client-both-metadata-kinds", "auth.client-both-as-metadata", "auth.client-rfc8414")
def test_openid_metadata_are_as_good() -> None:
    world = World()
    world.routes[OPENID] = world.routes.pop(METADATA)
    assert _find(world).server.issuer == ISSUER
    assert world.fetched == [PRM, METADATA, OPENID]


@pytest.mark.spec("auth.as-metadata-issuer-validated", "auth.as-metadata-mismatch-not-used")
@pytest.mark.parametrize("issuer", ["https://evil.example", "https://as.example/"])
def test_metadata_of_another_issuer_are_not_used(issuer: str) -> None:
    world = World()
    world.routes[METADATA] = json_answer(server_document(issuer))
    with pytest.raises(IssuerMismatch) as caught:
        _find(world)
    assert (caught.value.expected, caught.value.received) == (ISSUER, issuer)
    assert world.fetched == [PRM, METADATA, OPENID]


def test_a_good_document_behind_one_of_another_issuer_is_used() -> None:
    world = World()
    world.routes[METADATA] = json_answer(server_document("https://evil.example"))
    world.routes[OPENID] = json_answer(server_document())
    assert _find(world).server.issuer == ISSUER


def test_of_several_authorization_servers_the_first_with_metadata_is_taken_or_one_that_is_known() -> None:
    def world() -> World:
        there = World()
        there.routes[PRM] = json_answer(resource_document(authorization_servers=["https://gone.example", ISSUER, "x"]))
        return there

    first = world()
    assert _find(first).server.issuer == ISSUER
    assert first.fetched[1].startswith("https://gone.example")
    known = world()
    _find(known, discovery=Discovery(MCP, preferred=[ISSUER]))
    assert known.fetched == [PRM, METADATA]


def test_a_long_list_of_authorization_servers_is_not_walked() -> None:
    world = World()
    names: list[JsonValue] = [f"https://as{number}.example" for number in range(1_000)]
    world.routes[PRM] = json_answer(resource_document(authorization_servers=names))
    with pytest.raises(DiscoveryFailed, match=r"no metadata of https://as0.example or .* is usable"):
        _find(world)
    assert len(world.fetched) == 1 + 3 * 2


@pytest.mark.parametrize("listed", [None, [], "", [7]])
def test_a_resource_without_authorization_server_is_told(listed: JsonValue) -> None:
    world = World()
    world.routes[PRM] = json_answer(resource_document(authorization_servers=listed))
    with pytest.raises(DiscoveryFailed, match=r"names no authorization server; .* set authorization_server"):
        _find(world)


def test_an_authorization_server_that_is_set_goes_before_all_that_is_named() -> None:
    world = World()
    world.routes[PRM] = json_answer(resource_document(authorization_servers=["https://as.example/"]))
    found = _find(world, discovery=Discovery(MCP, authorization_server=ISSUER))
    assert (found.server.issuer, found.resource) == (ISSUER, MCP)
    world.routes.pop(PRM)
    found = _find(world, discovery=Discovery(MCP, authorization_server=ISSUER))
    assert (found.server.issuer, found.resource, found.protected_resource) == (ISSUER, MCP, None)


# --- 2025-03-26 -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.base-url", "auth.client-metadata-first", "auth.metadata-version-header")
@pytest.mark.parametrize("issuer", ["https://mcp.example", "https://mcp.example/"])
def test_a_server_of_2025_03_26_has_metadata_of_its_own(issuer: str) -> None:
    world = World()
    del world.routes[PRM]
    world.routes[OWN] = json_answer(server_document(issuer))
    found = _find(world, discovery=Discovery(MCP, protocol_version="2025-03-26"))
    assert world.fetched == [PRM, PRM_ROOT, OWN]
    assert (found.server.issuer, found.resource, found.protected_resource) == (issuer, MCP, None)
    steps = [step for step in world.steps if isinstance(step, FetchJson)]
    assert all(("MCP-Protocol-Version", "2025-03-26") in step.headers for step in steps)


@pytest.mark.spec("auth.client-default-endpoints", "auth.base-url")
def test_or_default_paths() -> None:
    world = World()
    del world.routes[PRM]
    found = _find(world)
    assert found.server == default_endpoints(parse_url(MCP, what="server URL"))
    assert found.server.authorization_endpoint == "https://mcp.example/authorize"
    assert found.server.token_endpoint == "https://mcp.example/token"
    assert found.server.registration_endpoint == "https://mcp.example/register"
    assert found.server.notes


def test_a_client_of_later_revisions_does_not_try_them() -> None:
    world = World()
    del world.routes[PRM]
    with pytest.raises(DiscoveryFailed, match="has no metadata that names its authorization server"):
        _find(world, discovery=Discovery(MCP, legacy=False))
    assert world.fetched == [PRM, PRM_ROOT]


@pytest.mark.parametrize(
    "answer", [FetchedResponse(status=503), FetchedResponse(status=429), Unreachable(reason="no route")]
)
def test_nothing_follows_from_a_question_that_was_not_answered(answer: FetchedResponse | Unreachable) -> None:
    world = World()
    world.routes[PRM] = answer
    with pytest.raises(DiscoveryFailed, match="has no metadata that names its authorization server"):
        _find(world)
    world = World()
    del world.routes[PRM]
    world.routes[OWN] = answer
    with pytest.raises(DiscoveryFailed, match=r"no metadata of https://mcp.example is usable"):
        _find(world)


def test_metadata_of_another_issuer_are_no_reason_for_default_paths() -> None:
    world = World()
    del world.routes[PRM]
    world.routes[OWN] = json_answer(server_document("https://evil.example"))
    with pytest.raises(IssuerMismatch):
        _find(world)


# --- Where it may lead ------------------------------------------------------------------------------------------------


@pytest.mark.spec("security.ssrf-considered", "security.block-private-ranges", "security.oauth-https")
@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest", "https://[::1]/x", "https://10.0.0.1/x", "https://localhost/x", "http://as.example",
        "https://2130706433/", "https://0x7f000001/", "https://[::ffff:127.0.0.1]/", "file:///etc/passwd", "javascript:x",
        "https://user@as.example", "https://as.example?x",
    ],
)  # fmt: skip
def test_no_url_from_a_peer_leads_where_the_server_is_not(url: str) -> None:
    world = World()
    discovery = Discovery(MCP)
    if not url.endswith("?x"):
        _find(world, challenge=_challenge(url), discovery=discovery)
        assert url not in world.fetched
        assert discovery.attempts[0].url == url
    world = World()
    world.routes[PRM] = json_answer(resource_document(authorization_servers=[url]))
    with pytest.raises(DiscoveryFailed, match="is usable"):
        _find(world)
    assert world.fetched == [PRM]


def test_a_server_on_this_machine_may_have_its_authorization_server_there() -> None:
    issuer = "http://localhost:9000"
    world = World()
    world.routes["http://localhost:8000/.well-known/oauth-protected-resource/mcp"] = json_answer(
        {"resource": "http://localhost:8000/mcp", "authorization_servers": [issuer]}
    )
    world.routes[f"{issuer}/.well-known/oauth-authorization-server"] = json_answer(server_document(issuer))
    assert _find(world, discovery=Discovery("http://localhost:8000/mcp")).server.issuer == issuer


def test_what_the_user_sets_opens_its_own_network() -> None:
    assert Discovery(MCP).networks == {AddressClass.PUBLIC}
    assert AddressClass.LOOPBACK in Discovery(MCP, authorization_server="http://localhost:9000").networks
    given = frozenset({AddressClass.PRIVATE})
    assert Discovery(MCP, networks=given).networks == given


@pytest.mark.parametrize(
    "url", ["http://mcp.example/mcp", "ftp://mcp.example", "mcp.example", "https://u:p@mcp.example/"]
)
def test_a_server_without_tls_gets_no_token(url: str) -> None:
    with pytest.raises(UnsafeUrl, match="server URL"):
        Discovery(url)


_ANSWERS = st.one_of(
    st.sampled_from([200, 302, 401, 404, 429, 500]).map(lambda status: FetchedResponse(status=status, body=b"{}")),
    st.builds(Unreachable, reason=st.text(max_size=5)),
    st.builds(
        lambda resource, servers: json_answer({"resource": resource, "authorization_servers": servers}),
        st.sampled_from([MCP, "https://mcp.example", "https://mcp.example/", "https://evil.example", 7]),
        st.lists(st.sampled_from([ISSUER, "https://as.example/t", "http://10.0.0.1", "x"]), max_size=4),
    ),
    st.sampled_from(
        [ISSUER, "https://as.example/", "https://as.example/t", "https://mcp.example", "https://mcp.example/"]
    )
    .map(server_document)
    .map(json_answer),
)


@pytest.mark.property
@given(
    st.lists(_ANSWERS, max_size=30), st.booleans(), st.sampled_from([None, PRM_ROOT, "https://x.example/", "http://x"])
)
def test_whatever_comes_the_search_ends_with_a_matching_issuer_or_a_typed_error(
    answers: list[FetchedResponse | Unreachable], legacy: bool, named: str | None
) -> None:
    discovery = Discovery(MCP, legacy=legacy)
    machine = discovery.run(None if named is None else _challenge(named))
    fetched: list[str] = []
    pending = iter(answers)
    try:
        step = next(machine)
        while True:
            assert isinstance(step, FetchJson)
            fetched.append(step.url)
            assert len(fetched) <= 3 + 3 * 4
            step = machine.send(next(pending, FetchedResponse(status=404)))
    except StopIteration as end:
        found: DiscoveryResult = end.value
        named_by = None if found.protected_resource is None else found.protected_resource.authorization_servers
        assert found.server.issuer in (named_by or ("https://mcp.example", "https://mcp.example/"))
        assert found.resource in (MCP, "https://mcp.example", "https://mcp.example/")
    except (DiscoveryFailed, IssuerMismatch):
        pass
    assert len(discovery.attempts) >= len(fetched)
    assert all(url.startswith("https://") for url in fetched)
