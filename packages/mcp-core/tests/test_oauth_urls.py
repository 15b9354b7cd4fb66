"""Validation of URLs from peers: unambiguous syntax, TLS, and allowed networks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import DiscoveryFailed, UnsafeUrl
from mcp_core.oauth.addresses import AddressClass
from mcp_core.oauth.urls import (
    canonical_resource,
    check_browser_url,
    check_peer_url,
    check_redirect,
    networks_of,
    parse_url,
    redirect_uri_matches,
    same_origin,
    with_query,
)

PUBLIC = frozenset({AddressClass.PUBLIC})
LOCAL = PUBLIC | {AddressClass.LOOPBACK}


def test_url_parsed_and_original_text_kept() -> None:
    url = parse_url("HTTPS://Mcp.Example.:8443/A/b?x=1#y", what="server URL")
    assert (url.scheme, url.host, url.port, url.path, url.query, url.fragment) == (
        "https", "mcp.example", 8443, "/A/b", "x=1", "y",
    )  # fmt: skip
    assert url.origin == "https://mcp.example:8443"
    assert url.text.startswith("HTTPS://Mcp")
    assert parse_url("http://[2001:DB8::1]/", what="x").origin == "http://[2001:db8::1]"
    assert parse_url("https://a.example:443", what="x").origin == "https://a.example"
    assert parse_url("https://a.example:", what="x").port == 443


@pytest.mark.spec("security.sanitize-urls", "security.authorization-url-schemes")
@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "vbscript:x", "ms-settings:x", "ftp://a.example/",
        "//a.example/", "/authorize", "a.example/authorize", "-option", "", "https://", "https:///path", "https://:443/",
        "https://user@a.example/", "https://user:pw@a.example/", "https://a.example@evil.example/",
        "https://a.example\\@evil.example/", "https://a.example/\\evil", "https://a.example/ x", "https://a.example/\n",
        'https://x" & calc', "https://a.example/%VAR%`id`", "https://a.example/<script>", "https://a.example/|x",
        "https://b\xfccher.example/", "https://a.example:0/", "https://a.example:65536/", "https://a.example:1:2/",
        "https://a.example:x/", "https://a..example/", "https://-a.example/", "https://a.example-/", "https://[::1/",
        "https://[:::]/", "https://[fe80::1%25eth0]/", "https://127.1/", "https://2130706433/", "https://0x7f000001/",
        "https://0x7f.1/", "https://010.0.0.1/", "https://1.2.3.4.5/", "https://256.1.1.1/", "https://a.0x1/",
        "https://a.example/" + "x" * 5_000,
    ],
)  # fmt: skip
def test_url_ambiguous_rejected(url: str) -> None:
    with pytest.raises(UnsafeUrl, match=r"authorization_endpoint .* is not used: ") as caught:
        parse_url(url, what="authorization_endpoint")
    assert isinstance(caught.value, DiscoveryFailed)
    assert caught.value.message.isascii()
    assert len(caught.value.message) < 1_200
    assert (caught.value.url, caught.value.what) == (url, "authorization_endpoint")


def test_url_with_user_info_rejected_with_reason() -> None:
    with pytest.raises(UnsafeUrl, match="it contains a user name or a password before the host"):
        parse_url("https://user:pw@a.example/", what="x")


@pytest.mark.spec("security.oauth-https", "security.ssrf-considered", "security.block-private-ranges")
@pytest.mark.parametrize(
    ("url", "networks", "reason"),
    [
        ("https://as.example/x", PUBLIC, None),
        ("https://8.8.8.8/x", PUBLIC, None),
        ("http://as.example/x", LOCAL, "not https"),
        ("http://10.0.0.1/x", PUBLIC | {AddressClass.PRIVATE}, "not https"),
        ("https://10.0.0.1/x", PUBLIC | {AddressClass.PRIVATE}, None),
        ("https://10.0.0.1/x", LOCAL, "private address"),
        ("https://169.254.169.254/latest", LOCAL, "cloud metadata address"),
        ("https://[::ffff:169.254.169.254]/latest", LOCAL, "cloud metadata address"),
        ("https://[::ffff:10.0.0.1]/latest", LOCAL, "private address"),
        ("https://localhost/x", PUBLIC, "this machine"),
        ("http://localhost:3/x", LOCAL, None),
        ("http://app.localhost:3/x", LOCAL, None),
        ("http://127.0.0.2:3/x", LOCAL, None),
        ("http://[::1]:3/x", LOCAL, None),
        ("http://127.0.0.1/x", PUBLIC, "this machine"),
        ("https://localhost.evil.example/x", PUBLIC, None),
        ("http://localhost.evil.example/x", LOCAL, "not https"),
        ("https://0.0.0.0/x", LOCAL, "unspecified address"),
        ("https://as.example/x#y", PUBLIC, "fragment"),
    ],
)
def test_peer_url_allowed_only_in_networks_of_server(
    url: str, networks: frozenset[AddressClass], reason: str | None
) -> None:
    if reason is None:
        assert check_peer_url(url, what="jwks_uri", networks=networks).text == url
    else:
        with pytest.raises(UnsafeUrl, match=reason):
            check_peer_url(url, what="jwks_uri", networks=networks)


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://mcp.example/mcp", PUBLIC),
        ("https://8.8.8.8/mcp", PUBLIC),
        ("http://localhost:8000/mcp", LOCAL),
        ("http://127.0.0.1:8000/mcp", LOCAL),
        ("http://[::1]:8000/mcp", LOCAL),
        ("https://10.1.1.1/mcp", PUBLIC | {AddressClass.PRIVATE}),
        ("https://169.254.169.254/mcp", PUBLIC),
    ],
)
def test_networks_follow_server_url(server: str, expected: frozenset[AddressClass]) -> None:
    assert networks_of(parse_url(server, what="server URL")) == expected


@pytest.mark.spec("security.authorization-url-schemes", "auth.redirect-https-or-localhost")
def test_browser_url_https_or_loopback_accepted() -> None:
    assert check_browser_url("https://10.0.0.1/x").host == "10.0.0.1"
    assert check_browser_url("http://localhost/x").host == "localhost"
    with pytest.raises(UnsafeUrl, match=r"URL 'http://a\.example/' is not used: it is not https"):
        check_browser_url("http://a.example/")


@pytest.mark.spec("security.redirect-targets-validated")
def test_redirect_followed_once_within_origin() -> None:
    source = "https://a.example/x"
    assert check_redirect(source, "https://A.example:443/y", followed=0, networks=PUBLIC).path == "/y"
    for target, followed, reason in (
        ("https://a.example/y", 1, "second redirect"),
        ("https://b.example/y", 0, "another origin"),
        ("https://a.example:444/y", 0, "another origin"),
        ("http://a.example/y", 0, "not https"),
        ("https://169.254.169.254/y", 0, "metadata"),
    ):
        with pytest.raises(UnsafeUrl, match=reason):
            check_redirect(source, target, followed=followed, networks=PUBLIC)


@pytest.mark.spec(
    "auth.resource-canonical-uri", "auth.resource-no-trailing-slash", "auth.resource-uppercase-accepted",
    "auth.resource-accept-uppercase", "auth.resource-most-specific",
)  # fmt: skip
@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ("https://mcp.example", "https://mcp.example"),
        ("https://mcp.example/", "https://mcp.example"),
        ("HTTPS://MCP.Example:443/mcp", "https://mcp.example/mcp"),
        ("https://mcp.example/mcp/", "https://mcp.example/mcp/"),
        ("https://mcp.example:8443/Mcp?tenant=1#x", "https://mcp.example:8443/Mcp?tenant=1"),
        ("http://localhost:1/mcp", "http://localhost:1/mcp"),
    ],
)
def test_canonical_resource_of_server_url(server: str, expected: str) -> None:
    assert canonical_resource(parse_url(server, what="server URL")) == expected


def test_url_path_segments_normalized() -> None:
    def segments(path: str) -> tuple[str, ...]:
        return parse_url(f"https://a.example{path}", what="x").segments

    assert segments("") == segments("/") == ()
    assert segments("/a/b/") == ("a", "b")
    assert segments("/a/./b/../c") == ("a", "c")
    assert segments("/../a") == ("a",)
    assert segments("/api/%2e%2e/admin") == ("admin",)
    assert segments("/%61%2f") == ("a%2F",)
    assert segments("/a//b") == ("a", "", "b")


def test_query_parameters_appended() -> None:
    def append(endpoint: str) -> str:
        return with_query(parse_url(endpoint, what="x"), [("a", "x y"), ("b", "&=#")], what="x")

    assert append("https://a.example/x") == "https://a.example/x?a=x%20y&b=%26%3D%23"
    assert append("https://a.example/x?") == "https://a.example/x?a=x%20y&b=%26%3D%23"
    assert append("https://a.example/x?c=1") == "https://a.example/x?c=1&a=x%20y&b=%26%3D%23"
    with pytest.raises(UnsafeUrl, match="its query has a, b already"):
        append("https://a.example/x?b=1&a")


@pytest.mark.parametrize(
    ("registered", "used", "matches"),
    [
        ("https://app.example/cb", "https://app.example/cb", True),
        ("https://app.example/cb", "https://app.example:444/cb", False),
        ("https://app.example/cb", "https://app.example/cb/", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:5000/cb", True),
        ("http://127.0.0.1:1/cb", "http://127.0.0.1:5000/cb", True),
        ("http://localhost", "http://localhost:5000/", True),
        ("http://[::1]/cb", "http://[::1]:5000/cb", True),
        ("http://localhost/cb", "http://127.0.0.1:5000/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:5000/other", False),
        ("http://127.0.0.1/cb", "https://127.0.0.1:5000/cb", False),
        ("http://127.0.0.1/cb?x", "http://127.0.0.1:5000/cb", False),
        ("http://127.0.0.1/cb#x", "http://127.0.0.1:5000/cb", False),
        ("http://127.0.0.1/cb", "http://127.0.0.1:5000/cb#x", False),
        ("app://cb", "http://127.0.0.1/cb", False),
    ],
)
def test_redirect_uri_matches_except_loopback_port(registered: str, used: str, *, matches: bool) -> None:
    assert redirect_uri_matches(registered, used) is matches


@pytest.mark.property
@given(st.text(max_size=40) | st.text(st.sampled_from("htps:/@.[]0x17fale%\\?#"), max_size=40).map("https://".__add__))
def test_arbitrary_url_parsed_or_rejected(text: str) -> None:
    try:
        url = parse_url(text, what="x")
    except UnsafeUrl:
        return
    reparsed = parse_url(url.origin + url.path, what="x")
    assert same_origin(url, reparsed)
    assert reparsed.segments == url.segments
    assert url.host == url.host.lower()
