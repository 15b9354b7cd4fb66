from __future__ import annotations

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import LocalProtocolError
from mcp_core.trio.http_client.proxy import Proxies, parse_proxy
from mcp_core.trio.http_client.url import parse_url


def _proxy_for(environment: dict[str, str], url: str) -> str | None:
    proxy = Proxies(None, environment).of(parse_url(url))
    return None if proxy is None else str(proxy)


def test_proxy_variable_of_scheme_or_all() -> None:
    environment = {"http_proxy": "http://p:1", "ALL_PROXY": "http://q:2"}
    assert _proxy_for(environment, "http://x/") == "http://p:1"
    assert _proxy_for(environment, "https://x/") == "http://q:2"
    assert _proxy_for({"HTTPS_PROXY": "http://r:3"}, "https://x/") == "http://r:3"
    assert _proxy_for({"HTTPS_PROXY": "http://r:3"}, "http://x/") is None
    assert _proxy_for({}, "http://x/") is None


def test_proxy_lower_case_variable_preferred() -> None:
    assert _proxy_for({"https_proxy": "http://low:1", "HTTPS_PROXY": "http://up:1"}, "https://x/") == "http://low:1"
    assert _proxy_for({"https_proxy": "", "HTTPS_PROXY": "http://up:1"}, "https://x/") is None
    assert _proxy_for({"all_proxy": "http://p:1", "no_proxy": "", "NO_PROXY": "*"}, "https://x/") == "http://p:1"


def test_proxy_http_proxy_ignored_in_cgi_program() -> None:
    environment = {"REQUEST_METHOD": "GET", "HTTP_PROXY": "http://evil:1", "HTTPS_PROXY": "http://p:1"}
    assert _proxy_for(environment, "http://x/") is None
    assert _proxy_for(environment, "https://x/") == "http://p:1"
    assert _proxy_for({**environment, "http_proxy": "http://good:1"}, "http://x/") == "http://good:1"


@pytest.mark.parametrize("host", ["localhost", "localhost.", "app.localhost", "127.0.0.1", "127.9.9.9", "[::1]"])
def test_loopback_bypasses_proxy_of_environment(host: str) -> None:
    url = parse_url(f"http://{host}:8000/mcp")
    assert Proxies(None, {"ALL_PROXY": "http://p:1"}).of(url) is None
    assert str(Proxies({"all": "http://p:1"}, {}).of(url)) == "http://p:1"


def test_explicit_proxies_replace_environment() -> None:
    url = parse_url("https://x/")
    assert Proxies(False, {"ALL_PROXY": "http://p:1"}).of(url) is None
    assert Proxies({"http": "http://q:1"}, {"ALL_PROXY": "http://p:1"}).of(url) is None
    assert Proxies({"https": "http://q:1", "no": "x"}, {}).of(url) is None
    with pytest.raises(LocalProtocolError, match="unknown key 'ftp'"):
        Proxies({"ftp": "http://q:1"}, {})


@pytest.mark.parametrize(
    ("entries", "url", "direct"),
    [
        ("*", "https://any/", True),
        ("example.com", "https://example.com/", True),
        ("example.com", "https://a.example.com/", True),
        ("EXAMPLE.com", "https://a.example.com./", True),
        (".example.com", "https://example.com/", True),
        ("*.example.com", "https://a.example.com/", True),
        ("example.com", "https://notexample.com/", False),
        ("example.com", "https://example.com.evil/", False),
        ("a,b  c", "https://b/", True),
        ("a,b  c", "https://c/", True),
        ("", "https://b/", False),
        (".", "https://b/", False),
        ("example.com:8443", "https://example.com:8443/", True),
        ("example.com:8443", "https://example.com/", False),
        ("*:8443", "https://any:8443/", True),
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.0.0.1/8", "http://10.1.2.3/", True),
        ("10.0.0.0/8", "http://11.1.2.3/", False),
        ("10.1.2.3", "http://10.1.2.3/", True),
        ("10.1.2.3:80", "http://10.1.2.3/", True),
        ("0.1.2.3", "http://10.1.2.3/", False),
        ("2.3", "http://10.1.2.3/", False),
        ("fd00::/8", "http://[fd00::1]/", True),
        ("fd00::1", "http://[fd00::1]/", True),
        ("[fd00::1]", "http://[fd00::1]/", True),
        ("[fd00::1]:81", "http://[fd00::1]/", False),
        ("[fd00::1]:80", "http://[fd00::1]/", True),
        ("10.0.0.0/8", "http://[fd00::1]/", False),
    ],
)
def test_proxy_exceptions_matched(entries: str, url: str, direct: bool) -> None:
    found = _proxy_for({"ALL_PROXY": "http://p:1", "NO_PROXY": entries}, url)
    assert found == (None if direct else "http://p:1")


@pytest.mark.property
@given(st.text())
def test_proxy_exceptions_any_text_accepted(entries: str) -> None:
    Proxies({"all": "http://p:1", "no": entries}, {}).of(parse_url("http://10.1.2.3/"))


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("http://p:3128", "http://p:3128"),
        ("p:3128", "http://p:3128"),
        (" HTTPS://p/ ", "https://p"),
        ("p", "http://p"),
        ("http://p:3128/path?x#y", "http://p:3128"),
        ("[::1]:3128", "http://[::1]:3128"),
    ],
)
def test_proxy_parsed_with_and_without_scheme(text: str, origin: str) -> None:
    assert str(parse_proxy(text, "X")) == origin


def test_proxy_credentials_decoded_and_hidden() -> None:
    proxy = parse_proxy("http://me%40home:se%3Acret@p:3128", "X")
    assert proxy.authorization is not None
    scheme, _, encoded = proxy.authorization.partition(" ")
    assert scheme == "Basic"
    assert b64decode(encoded) == b"me@home:se:cret"
    assert "cret" not in f"{proxy} {proxy!r}"
    assert encoded not in repr(proxy)


def test_unusable_proxy_names_its_variable() -> None:
    proxies = Proxies(None, {"all_proxy": "socks5://me:secret@p:1080"})
    with pytest.raises(LocalProtocolError, match="all_proxy: unsupported proxy scheme 'socks5'") as refused:
        proxies.of(parse_url("http://x/"))
    assert "secret" not in str(refused.value)
    with pytest.raises(LocalProtocolError, match="HTTP_PROXY: invalid URL") as refused:
        Proxies(None, {"HTTP_PROXY": "http://me:secret@p:port"}).of(parse_url("http://x/"))
    assert "secret" not in str(refused.value)
