"""Discovery of the authorization server of a resource: the order of the URLs, and the results of the search."""

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
    FakeNetwork,
    json_response,
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
ORIGIN_METADATA = "https://mcp.example/.well-known/oauth-authorization-server"


def _challenge(url: str) -> Challenge:
    return Challenge(scheme="Bearer", parameters={"resource_metadata": url})


def _find(
    network: FakeNetwork, *, challenge: Challenge | None = None, discovery: Discovery | None = None
) -> DiscoveryResult:
    return network.run((discovery or Discovery(MCP)).run(challenge))


def _urls(urls: tuple[str, ...]) -> list[str]:
    return list(urls)


@pytest.mark.spec("auth.client-prm-discovery-order", "auth.client-prm-fallback-order")
def test_protected_resource_urls_of_server() -> None:
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
def test_authorization_server_urls_of_issuer(slash: str) -> None:
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
def test_resource_metadata_leads_to_authorization_server() -> None:
    network = FakeNetwork()
    found = _find(network)
    assert network.fetched == [PRM, METADATA]
    assert found.resource == MCP
    assert found.server.issuer == ISSUER
    assert found.protected_resource is not None


@pytest.mark.spec("auth.client-prm-header-preferred", "auth.client-both-prm-mechanisms")
def test_challenge_url_fetched_first() -> None:
    network = FakeNetwork()
    custom = "https://mcp.example/custom/metadata.json"
    network.routes[custom] = json_response(resource_document())
    assert _find(network, challenge=_challenge(custom)).resource == MCP
    assert network.fetched == [custom, METADATA]
    second = FakeNetwork()
    _find(second, challenge=_challenge(PRM))
    assert second.fetched == [PRM, METADATA]


def test_challenge_url_not_found_falls_back() -> None:
    network = FakeNetwork()
    _find(network, challenge=_challenge("https://mcp.example/gone"))
    assert network.fetched == ["https://mcp.example/gone", PRM, METADATA]


@pytest.mark.spec("auth.client-prm-fallback-order")
@pytest.mark.parametrize(
    "answer",
    [
        FetchedResponse(status=404),
        FetchedResponse(status=401),
        FetchedResponse(status=302),
        FetchedResponse(status=200, body=b"<!doctype html><title>app</title>"),
        json_response([]),
        json_response({"authorization_servers": [ISSUER]}),
    ],
)
def test_response_without_metadata_skipped_and_recorded(answer: FetchedResponse) -> None:
    network = FakeNetwork()
    network.routes[PRM] = answer
    network.routes[PRM_ROOT] = json_response(resource_document())
    discovery = Discovery(MCP)
    _find(network, discovery=discovery)
    assert network.fetched == [PRM, PRM_ROOT, METADATA]
    assert [attempt.url for attempt in discovery.attempts] == [PRM, PRM_ROOT, METADATA]
    assert discovery.attempts[0].verdict != "metadata of https://mcp.example/mcp"


@pytest.mark.spec("auth.prm-resource-mismatch-rejected")
@pytest.mark.parametrize(
    "resource", ["https://evil.example/mcp", "https://mcp.example/mcp/x", "https://mcp.example/other"]
)
def test_metadata_of_other_resource_ends_search(resource: str) -> None:
    network = FakeNetwork()
    network.routes[PRM] = json_response(resource_document(resource=resource))
    with pytest.raises(
        DiscoveryFailed, match=r"not https://mcp.example/mcp: the client does not request tokens for another resource"
    ):
        _find(network)
    assert network.fetched == [PRM]


@pytest.mark.spec("auth.prm-resource-mismatch-rejected")
def test_parent_resource_accepted_only_from_parent_url() -> None:
    above = json_response(resource_document(resource="https://mcp.example"))
    network = FakeNetwork()
    network.routes[PRM] = FetchedResponse(status=404)
    network.routes[PRM_ROOT] = above
    assert _find(network).resource == "https://mcp.example"

    # The owner of one path claims the whole host; the host does not confirm the claim.
    forged = FakeNetwork()
    forged.routes["https://mcp.example/mcp/mine"] = above
    with pytest.raises(DiscoveryFailed, match=r"describes 'https://mcp.example', not https://mcp.example/mcp"):
        _find(forged, challenge=_challenge("https://mcp.example/mcp/mine"))
    assert forged.fetched == ["https://mcp.example/mcp/mine", PRM_ROOT]

    # The metadata of the host confirm the claim.
    network = FakeNetwork()
    network.routes[PRM] = above
    network.routes[PRM_ROOT] = above
    assert _find(network).resource == "https://mcp.example"
    assert network.fetched == [PRM, PRM_ROOT, METADATA]


@pytest.mark.spec("auth.client-both-metadata-kinds", "auth.client-both-as-metadata", "auth.client-rfc8414")
def test_openid_metadata_used() -> None:
    network = FakeNetwork()
    network.routes[OPENID] = network.routes.pop(METADATA)
    assert _find(network).server.issuer == ISSUER
    assert network.fetched == [PRM, METADATA, OPENID]


@pytest.mark.spec("auth.as-metadata-issuer-validated", "auth.as-metadata-mismatch-not-used")
@pytest.mark.parametrize("issuer", ["https://evil.example", "https://as.example/"])
def test_metadata_of_other_issuer_rejected(issuer: str) -> None:
    network = FakeNetwork()
    network.routes[METADATA] = json_response(server_document(issuer))
    with pytest.raises(IssuerMismatch) as caught:
        _find(network)
    assert (caught.value.expected, caught.value.received) == (ISSUER, issuer)
    assert network.fetched == [PRM, METADATA, OPENID]


def test_valid_metadata_after_metadata_of_other_issuer_used() -> None:
    network = FakeNetwork()
    network.routes[METADATA] = json_response(server_document("https://evil.example"))
    network.routes[OPENID] = json_response(server_document())
    assert _find(network).server.issuer == ISSUER


def test_authorization_server_first_with_metadata_or_preferred_chosen() -> None:
    def make_network() -> FakeNetwork:
        network = FakeNetwork()
        network.routes[PRM] = json_response(
            resource_document(authorization_servers=["https://gone.example", ISSUER, "x"])
        )
        return network

    first = make_network()
    assert _find(first).server.issuer == ISSUER
    assert first.fetched[1].startswith("https://gone.example")
    known = make_network()
    _find(known, discovery=Discovery(MCP, preferred=[ISSUER]))
    assert known.fetched == [PRM, METADATA]


def test_authorization_servers_tried_up_to_limit() -> None:
    network = FakeNetwork()
    names: list[JsonValue] = [f"https://as{number}.example" for number in range(1_000)]
    network.routes[PRM] = json_response(resource_document(authorization_servers=names))
    with pytest.raises(DiscoveryFailed, match=r"no metadata of https://as0.example or .* is usable"):
        _find(network)
    assert len(network.fetched) == 1 + 3 * 2


@pytest.mark.parametrize("listed", [None, [], "", [7]])
def test_resource_without_authorization_server_raises(listed: JsonValue) -> None:
    network = FakeNetwork()
    network.routes[PRM] = json_response(resource_document(authorization_servers=listed))
    with pytest.raises(DiscoveryFailed, match=r"names no authorization server; .* set authorization_server"):
        _find(network)


def test_configured_authorization_server_takes_precedence() -> None:
    network = FakeNetwork()
    network.routes[PRM] = json_response(resource_document(authorization_servers=["https://as.example/"]))
    found = _find(network, discovery=Discovery(MCP, authorization_server=ISSUER))
    assert (found.server.issuer, found.resource) == (ISSUER, MCP)
    network.routes.pop(PRM)
    found = _find(network, discovery=Discovery(MCP, authorization_server=ISSUER))
    assert (found.server.issuer, found.resource, found.protected_resource) == (ISSUER, MCP, None)


# --- 2025-03-26 -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("auth.base-url", "auth.client-metadata-first", "auth.metadata-version-header")
@pytest.mark.parametrize("issuer", ["https://mcp.example", "https://mcp.example/"])
def test_server_of_2025_03_26_has_metadata_at_origin(issuer: str) -> None:
    network = FakeNetwork()
    del network.routes[PRM]
    network.routes[ORIGIN_METADATA] = json_response(server_document(issuer))
    found = _find(network, discovery=Discovery(MCP, protocol_version="2025-03-26"))
    assert network.fetched == [PRM, PRM_ROOT, ORIGIN_METADATA]
    assert (found.server.issuer, found.resource, found.protected_resource) == (issuer, MCP, None)
    steps = [step for step in network.steps if isinstance(step, FetchJson)]
    assert all(("MCP-Protocol-Version", "2025-03-26") in step.headers for step in steps)


@pytest.mark.spec("auth.client-default-endpoints", "auth.base-url")
def test_server_of_2025_03_26_without_metadata_has_default_endpoints() -> None:
    network = FakeNetwork()
    del network.routes[PRM]
    found = _find(network)
    assert found.server == default_endpoints(parse_url(MCP, what="server URL"))
    assert found.server.authorization_endpoint == "https://mcp.example/authorize"
    assert found.server.token_endpoint == "https://mcp.example/token"
    assert found.server.registration_endpoint == "https://mcp.example/register"
    assert found.server.notes


def test_legacy_fallbacks_disabled_for_later_revisions() -> None:
    network = FakeNetwork()
    del network.routes[PRM]
    with pytest.raises(DiscoveryFailed, match="has no metadata that names its authorization server"):
        _find(network, discovery=Discovery(MCP, legacy=False))
    assert network.fetched == [PRM, PRM_ROOT]


@pytest.mark.parametrize(
    "answer", [FetchedResponse(status=503), FetchedResponse(status=429), Unreachable(reason="no route")]
)
def test_failed_request_does_not_lead_to_fallback(answer: FetchedResponse | Unreachable) -> None:
    network = FakeNetwork()
    network.routes[PRM] = answer
    with pytest.raises(DiscoveryFailed, match="has no metadata that names its authorization server"):
        _find(network)
    network = FakeNetwork()
    del network.routes[PRM]
    network.routes[ORIGIN_METADATA] = answer
    with pytest.raises(DiscoveryFailed, match=r"no metadata of https://mcp.example is usable"):
        _find(network)


def test_metadata_of_other_issuer_does_not_lead_to_default_endpoints() -> None:
    network = FakeNetwork()
    del network.routes[PRM]
    network.routes[ORIGIN_METADATA] = json_response(server_document("https://evil.example"))
    with pytest.raises(IssuerMismatch):
        _find(network)


# --- Allowed networks --------------------------------------------------------------------------------------------------


@pytest.mark.spec("security.ssrf-considered", "security.block-private-ranges", "security.oauth-https")
@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest", "https://[::1]/x", "https://10.0.0.1/x", "https://localhost/x", "http://as.example",
        "https://2130706433/", "https://0x7f000001/", "https://[::ffff:127.0.0.1]/", "file:///etc/passwd", "javascript:x",
        "https://user@as.example", "https://as.example?x",
    ],
)  # fmt: skip
def test_url_of_peer_in_other_network_not_fetched(url: str) -> None:
    network = FakeNetwork()
    discovery = Discovery(MCP)
    if not url.endswith("?x"):
        _find(network, challenge=_challenge(url), discovery=discovery)
        assert url not in network.fetched
        assert discovery.attempts[0].url == url
    network = FakeNetwork()
    network.routes[PRM] = json_response(resource_document(authorization_servers=[url]))
    with pytest.raises(DiscoveryFailed, match="is usable"):
        _find(network)
    assert network.fetched == [PRM]


def test_local_server_may_have_local_authorization_server() -> None:
    issuer = "http://localhost:9000"
    network = FakeNetwork()
    network.routes["http://localhost:8000/.well-known/oauth-protected-resource/mcp"] = json_response(
        {"resource": "http://localhost:8000/mcp", "authorization_servers": [issuer]}
    )
    network.routes[f"{issuer}/.well-known/oauth-authorization-server"] = json_response(server_document(issuer))
    assert _find(network, discovery=Discovery("http://localhost:8000/mcp")).server.issuer == issuer


def test_configured_urls_extend_allowed_networks() -> None:
    assert Discovery(MCP).networks == {AddressClass.PUBLIC}
    assert AddressClass.LOOPBACK in Discovery(MCP, authorization_server="http://localhost:9000").networks
    given = frozenset({AddressClass.PRIVATE})
    assert Discovery(MCP, networks=given).networks == given


@pytest.mark.parametrize(
    "url", ["http://mcp.example/mcp", "ftp://mcp.example", "mcp.example", "https://u:p@mcp.example/"]
)
def test_server_url_without_tls_raises(url: str) -> None:
    with pytest.raises(UnsafeUrl, match="server URL"):
        Discovery(url)


_ANSWERS = st.one_of(
    st.sampled_from([200, 302, 401, 404, 429, 500]).map(lambda status: FetchedResponse(status=status, body=b"{}")),
    st.builds(Unreachable, reason=st.text(max_size=5)),
    st.builds(
        lambda resource, servers: json_response({"resource": resource, "authorization_servers": servers}),
        st.sampled_from([MCP, "https://mcp.example", "https://mcp.example/", "https://evil.example", 7]),
        st.lists(st.sampled_from([ISSUER, "https://as.example/t", "http://10.0.0.1", "x"]), max_size=4),
    ),
    st.sampled_from(
        [ISSUER, "https://as.example/", "https://as.example/t", "https://mcp.example", "https://mcp.example/"]
    )
    .map(server_document)
    .map(json_response),
)


@pytest.mark.property
@given(
    st.lists(_ANSWERS, max_size=30), st.booleans(), st.sampled_from([None, PRM_ROOT, "https://x.example/", "http://x"])
)
def test_arbitrary_responses_end_with_matching_issuer_or_error(
    answers: list[FetchedResponse | Unreachable], legacy: bool, challenge_url: str | None
) -> None:
    discovery = Discovery(MCP, legacy=legacy)
    machine = discovery.run(None if challenge_url is None else _challenge(challenge_url))
    fetched: list[str] = []
    pending = iter(answers)
    try:
        step = next(machine)
        while True:
            assert isinstance(step, FetchJson)
            fetched.append(step.url)
            assert len(fetched) <= 3 + 3 * 4
            step = machine.send(next(pending, FetchedResponse(status=404)))
    except StopIteration as stop:
        found: DiscoveryResult = stop.value
        listed = None if found.protected_resource is None else found.protected_resource.authorization_servers
        assert found.server.issuer in (listed or ("https://mcp.example", "https://mcp.example/"))
        assert found.resource in (MCP, "https://mcp.example", "https://mcp.example/")
    except (DiscoveryFailed, IssuerMismatch):
        pass
    assert len(discovery.attempts) >= len(fetched)
    assert all(url.startswith("https://") for url in fetched)
