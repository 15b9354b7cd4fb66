"""Checks of Host, Origin and Sec-Fetch-Site, which reject requests of foreign web pages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.http.messages import Headers, HttpRequest
from mcp_core.http.origin import (
    LOOPBACK_HOSTS,
    check_allowed,
    cors_headers,
    is_loopback,
    preflight_headers,
    rejection,
)

APP = "https://app.example"
LISTED = (APP, "http://localhost:3000", "vscode-webview://1a2b")


def _request(
    *pairs: tuple[str, str], host: str | None = "localhost:8000", target: str = "/mcp", method: str = "POST"
) -> HttpRequest:
    named = [] if host is None else [("Host", host)]
    return HttpRequest(method=method, target=target, headers=Headers([*named, *pairs]))


def _get_rejection(
    request: HttpRequest, hosts: tuple[str, ...] | None = LOOPBACK_HOSTS, origins: tuple[str, ...] = ()
) -> str | None:
    reason = rejection(request, hosts, origins)
    assert reason is None or (reason.isascii() and reason.isprintable() and len(reason) < 300)
    return reason


# --- Host -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "localhost:8000", "LocalHost:1", "localhost.", "localhost.:8000", "127.0.0.1", "127.0.0.1:8000",
        "[::1]", "[::1]:8000", "[0:0:0:0:0:0:0:1]:8000", "localhost:",
    ],
)  # fmt: skip
def test_host_loopback_allowed_on_any_port(host: str) -> None:
    assert _get_rejection(_request(host=host)) is None


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8000", "127.0.0.1.evil.example", "localhost.evil.example", "evil-localhost",
        "0.0.0.0", "0.0.0.0:8000", "[::]", "127.0.0.2", "127.1", "2130706433", "0x7f000001", "[::ffff:127.0.0.1]",
        "::1", "[::1", "[::1]x", "[:::1]", "[fe80::1%25eth0]", "localhost..", ".localhost", "", " ", "localhost localhost",
        "localhost,localhost", "localhost@evil.example", "evil.example@localhost", "localhost:80:80", "localhost:x",
        "localhost:123456", "localhost/", "http://localhost", "localhost\x00", "l\xf6calhost", "a" * 1000,
    ],
)  # fmt: skip
def test_host_foreign_rejected_with_setting(host: str, method: str) -> None:
    reason = _get_rejection(_request(host=host, method=method))
    assert reason is not None
    assert reason.startswith("Host ")
    assert "the setting is EndpointPolicy.allowed_hosts" in reason


def test_host_missing_or_repeated_rejected() -> None:
    assert _get_rejection(_request(host=None)) == "Host '' is missing; the setting is EndpointPolicy.allowed_hosts"
    assert _get_rejection(_request(("host", "localhost:8000"))) == (
        "Host 'localhost:8000, localhost:8000' is repeated; the setting is EndpointPolicy.allowed_hosts"
    )


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        ("/mcp", True),
        ("*", True),
        ("//evil.example/mcp", True),
        ("/mcp?to=http://evil.example/", True),
        ("http://localhost:8000/mcp", True),
        ("http://LOCALHOST.:8000", True),
        ("https://localhost:8000?x", True),
        ("http://evil.example/mcp", False),
        ("http://localhost:8001/mcp", False),
        ("http://localhost/mcp", False),
        ("http://localhost:8000@evil.example/mcp", False),
        ("http://evil.example#localhost:8000", False),
        ("http:///mcp", False),
        ("://", False),
    ],
)
def test_absolute_target_must_match_host(target: str, *, allowed: bool) -> None:
    reason = _get_rejection(_request(target=target))
    assert (reason is None) is allowed
    assert reason is None or "names another host than Host 'localhost:8000'" in reason


@pytest.mark.parametrize(
    ("listed", "host", "allowed"),
    [
        ("mcp.example", "mcp.example", True),
        ("MCP.Example.", "mcp.example:8443", True),
        ("mcp.example:8443", "mcp.example:8443", True),
        ("mcp.example:8443", "mcp.example", False),
        ("mcp.example:8443", "mcp.example:8444", False),
        ("mcp.example:443", "mcp.example", True),
        ("mcp.example:80", "mcp.example", True),
        ("mcp.example:443", "mcp.example:8443", False),
        ("mcp.example", "sub.mcp.example", False),
        ("mcp.example", "localhost", False),
        ("::1", "[::1]:5", True),
        ("[2001:DB8::1]:80", "[2001:db8:0::1]:80", True),
        ("my_host", "my_host", True),
    ],
)
def test_listed_host_with_or_without_port(listed: str, host: str, *, allowed: bool) -> None:
    assert (_get_rejection(_request(host=host), (listed,)) is None) is allowed


def test_allowed_hosts_none_disables_check_and_empty_rejects_all() -> None:
    for host in ("evil.example", "", None):
        assert _get_rejection(_request(host=host), None) is None
    assert _get_rejection(_request(target="http://evil.example/"), None) is None
    assert _get_rejection(_request(), ()) is not None


# --- Origin -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("http.origin-absent-ok")
def test_origin_absent_allowed() -> None:
    assert _get_rejection(_request()) is None


@pytest.mark.spec("http.origin-validated")
@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8000", "http://localhost:8000"),
        ("localhost:8000", "https://localhost:8000"),
        ("LOCALHOST:8000", "http://localhost:8000"),
        ("localhost", "http://localhost"),
        ("localhost", "https://localhost"),
        ("localhost:80", "http://localhost"),
        ("localhost:443", "https://localhost"),
        ("[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_origin_equal_to_host_allowed(host: str, origin: str) -> None:
    assert _get_rejection(_request(("Origin", origin), ("Sec-Fetch-Site", "same-origin"), host=host)) is None


@pytest.mark.spec("http.origin-validate", "http.origin-403", "http.origin-validated", "http.origin-invalid-403")
@pytest.mark.spec("http-sse.origin-validate")
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example", "http://evil.example:8000", "null", "", "http://localhost:8001", "http://localhost",
        "http://127.0.0.1:8000", "http://localhost.evil.example:8000", "http://evil.example@localhost:8000",
        "http://localhost:8000/", "http://localhost:8000#", "localhost:8000", "//localhost:8000", "http://", "*",
        "http://localhost:8000 http://evil.example", "http://localhost:8000,http://evil.example", "app.example",
        "http://app.example", "https://app.example:444", "https://app.example.evil.example", "file://", "x" * 1000,
    ],
)  # fmt: skip
def test_origin_foreign_rejected_with_setting(origin: str, method: str) -> None:
    reason = _get_rejection(_request(("Origin", origin), method=method), origins=LISTED)
    assert reason is not None
    assert reason.startswith("Origin ")
    assert "the setting is EndpointPolicy.allowed_origins" in reason


def test_origin_repeated_rejected() -> None:
    reason = _get_rejection(_request(("Origin", APP), ("Origin", APP)), origins=LISTED)
    assert reason == (
        "Origin 'https://app.example, https://app.example' is repeated; the setting is EndpointPolicy.allowed_origins"
    )


@pytest.mark.parametrize(
    "origin",
    [
        "https://app.example",
        "https://app.example:443",
        "HTTPS://APP.example",
        "http://localhost:3000",
        "vscode-webview://1a2b",
    ],
)
def test_origin_listed_allowed_from_other_site(origin: str) -> None:
    assert _get_rejection(_request(("Origin", origin), ("Sec-Fetch-Site", "cross-site")), origins=LISTED) is None


def test_origin_listed_with_foreign_host_rejected() -> None:
    reason = _get_rejection(_request(("Origin", APP), host="evil.example"), origins=LISTED)
    assert reason is not None
    assert reason.startswith("Host ")


def test_origin_with_malformed_host_rejected() -> None:
    for pairs in ([], [("Host", "a"), ("Host", "a")], [("Host", "a b")]):
        request = _request(("Origin", "http://a"), *pairs, host=None)
        assert _get_rejection(request, None) is not None
    assert _get_rejection(_request(("Origin", "http://a"), host="a"), None) is None


def test_origin_unknown_scheme_has_no_default_port() -> None:
    assert _get_rejection(_request(("Origin", "app://localhost"), host="localhost")) is None
    assert _get_rejection(_request(("Origin", "app://localhost"), host="localhost:80")) is not None


@pytest.mark.parametrize(
    ("site", "allowed"),
    [
        ("same-origin", True),
        ("none", True),
        ("unheard-of", True),
        ("same-site", False),
        ("cross-site", False),
        (" Cross-Site ", False),
    ],
)
def test_sec_fetch_site_cross_site_without_origin_rejected(site: str, *, allowed: bool) -> None:
    reason = _get_rejection(_request(("Sec-Fetch-Site", site), method="GET"), origins=LISTED)
    assert (reason is None) is allowed
    assert reason is None or reason.startswith("Sec-Fetch-Site ")


def test_sec_fetch_site_repeated_any_value_rejects() -> None:
    assert _get_rejection(_request(("Sec-Fetch-Site", "none"), ("Sec-Fetch-Site", "cross-site"))) is not None


def test_origin_same_host_with_cross_site_rejected() -> None:
    pairs = [("Origin", "http://localhost"), ("Sec-Fetch-Site", "cross-site")]
    assert _get_rejection(_request(*pairs, host="localhost")) is not None


# --- The settings -----------------------------------------------------------------------------------------------------


def test_settings_valid_accepted() -> None:
    check_allowed(None, ())
    check_allowed(LOOPBACK_HOSTS, LISTED)
    check_allowed(("mcp.example:8443", "::1"), ())
    check_allowed(("a" * 300,), ())


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("*", "wildcards are not supported; None disables the check"),
        ("*.example", "is not a host"),
        ("https://mcp.example", "is not a host"),
        ("mcp.example/mcp", "is not a host"),
        ("", "is not a host"),
        ("m\xfcp.example", "is not a host"),
        ("\u212a.example", "is not a host"),
        ("mcp.example:https", "is not a host"),
        ("1:2:3", "is not a host"),
        pytest.param("a" * 301, "is not a host", id="301 characters"),
        ("0.0.0.0", "is an address to listen on"),
        ("0.0.0.0:8000", "is an address to listen on"),
        ("::", "is an address to listen on"),
        ("[::]:8000", "is an address to listen on"),
    ],
)
def test_allowed_hosts_invalid_entry_raises(entry: str, problem: str) -> None:
    with pytest.raises(ValueError, match="allowed_hosts") as caught:
        check_allowed(("localhost", entry), ())
    assert str(caught.value).startswith(f"EndpointPolicy.allowed_hosts: {entry!a}")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("*", "every web page"),
        ("null", "every web page"),
        ("app.example", "is not an origin"),
        ("https://app.example/", "is not an origin"),
        ("https://app.example/path", "is not an origin"),
        ("https://*.example", "is not an origin"),
        ("https://", "is not an origin"),
        ("", "is not an origin"),
    ],
)
def test_allowed_origins_invalid_entry_raises(entry: str, problem: str) -> None:
    with pytest.raises(ValueError, match="allowed_origins") as caught:
        check_allowed(None, (entry,))
    assert problem in str(caught.value)


# --- CORS headers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["https://app.example", "HTTPS://app.example:443"])
def test_cors_headers_repeat_listed_origin_exactly(origin: str) -> None:
    assert dict(cors_headers(Headers([("Origin", origin)]), LISTED)) == {
        "access-control-allow-origin": origin,
        "access-control-expose-headers": "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate",
        "vary": "Origin",
    }


@pytest.mark.parametrize(
    "given_origins", [[], ["https://evil.example"], ["null"], [""], [APP, APP], ["http://localhost:8000"]]
)
def test_cors_headers_omitted_for_other_origins(given_origins: list[str]) -> None:
    headers = Headers([("Host", "localhost:8000"), *(("Origin", origin) for origin in given_origins)])
    assert cors_headers(headers, LISTED) == ()
    assert cors_headers(headers, ()) == ()


def _preflight(*pairs: tuple[str, str], method: str = "OPTIONS", origin: str = APP) -> dict[str, str] | None:
    found = preflight_headers(_request(("Origin", origin), *pairs, method=method), LISTED)
    return None if found is None else dict(found)


def test_preflight_listed_origin_returns_allowed_headers() -> None:
    requested = "content-type, MCP-Protocol-Version,mcp-param-region , x-other, mcp-\x00, mcp-a b"
    assert _preflight(("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", requested)) == {
        "access-control-allow-origin": APP,
        "access-control-allow-methods": "GET, POST, DELETE",
        "access-control-allow-headers": (
            "accept, authorization, content-type, last-event-id, mcp-param-region, mcp-protocol-version"
        ),
        "access-control-max-age": "600",
        "vary": "Origin",
    }


def test_preflight_without_requested_headers_returns_common_ones() -> None:
    found = _preflight(("Access-Control-Request-Method", "GET"))
    assert found is not None
    assert found["access-control-allow-headers"] == "accept, authorization, content-type, last-event-id"


def test_preflight_invalid_returns_none() -> None:
    method_header = ("Access-Control-Request-Method", "POST")
    assert _preflight(method_header, method="POST") is None
    assert _preflight() is None
    assert _preflight(method_header, origin="https://evil.example") is None
    assert preflight_headers(_request(method_header, method="OPTIONS"), LISTED) is None


@pytest.mark.property
@given(
    st.text(st.characters(max_codepoint=255)),
    st.text(st.characters(max_codepoint=255)),
    st.text(st.characters(max_codepoint=255)),
)
def test_arbitrary_headers_never_raise_or_allow_wildcard(host: str, origin: str, requested: str) -> None:
    pairs = [
        ("Origin", origin),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", requested),
    ]
    request = _request(*pairs, host=host, target=requested, method="OPTIONS")
    assert _get_rejection(request, origins=LISTED) is not None
    assert cors_headers(request.headers, LISTED) == ()
    found = dict(preflight_headers(_request(("Origin", APP), *pairs[1:], method="OPTIONS"), LISTED) or ())
    assert "*" not in found["access-control-allow-origin"]
    assert "credentials" not in "".join(found)
    assert all(char not in value for value in found.values() for char in "\r\n\0")


# --- Loopback addresses -----------------------------------------------------------------------------------------------


@pytest.mark.spec("http.bind-localhost", "http-sse.bind-localhost")
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("127.1", False),
    ],
)
def test_is_loopback_by_address(host: str, *, expected: bool) -> None:
    assert is_loopback(host) is expected
