from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import LocalProtocolError
from mcp_core.trio.http_client.url import parse_url


@pytest.mark.parametrize(
    ("text", "origin", "target", "host", "port"),
    [
        ("http://a", "http://a", "/", "a", 80),
        ("HTTPS://EXAMPLE.com:443/x?y#z", "https://example.com", "/x?y", "example.com", 443),
        ("http://example.com:8000/mcp/", "http://example.com:8000", "/mcp/", "example.com", 8000),
        ("http://[::1]:81/", "http://[::1]:81", "/", "::1", 81),
        ("http://[0:0::1]/", "http://[::1]", "/", "::1", 80),
        ("http://127.0.0.1:/x", "http://127.0.0.1", "/x", "127.0.0.1", 80),
        ("https://bücher.example/ü?q=ä%20", "https://xn--bcher-kva.example", "/%C3%BC?q=%C3%A4%20", None, 443),
        ("http://a_b.example./", "http://a_b.example.", "/", "a_b.example.", 80),
        ("http://a?x", "http://a", "/?x", "a", 80),
    ],
)
def test_url_parsed(text: str, origin: str, target: str, host: str | None, port: int) -> None:
    url = parse_url(text)
    assert (url.origin, url.target, url.port) == (origin, target, port)
    assert host is None or url.host == host
    assert str(url) == origin + target
    assert url.origin == f"{url.scheme}://{url.authority}"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ftp://x", "not with ftp:"),
        ("/mcp", "must start with http:// or https://$"),
        ("http://", "no host"),
        ("http:///x", "no host"),
        ("http://a:99999/", "its port is not a number"),
        ("http://a:b/", "its port is not a number"),
        ("http://a:0/", "port 0"),
        ("http://[::1", "its host is not a name or an address"),
        ("http://[v1.x]/", "'v1.x' is not an IPv6 address|not a name"),
        ("http://[fe80::1%25eth0]/", "zone"),
        ("http://[1::2::3]/", "not a name or an address|not an IPv6"),
        ("http://a..b/", "'a..b' is not a host name"),
        ("http://a%41/", "'a%41' is not a host name"),
        ("http://" + "a" * 70 + "é.example/", "is not a host name"),
        ("http://a b/", "must not contain the character ' '"),
        ("http://a/\r\nX: y", "must not contain the character"),
        ("http://a\\@b/", "must not contain the character"),
        ("http://a/\x7f", "must not contain the character"),
    ],
)
def test_url_invalid_rejected_with_reason(text: str, reason: str) -> None:
    with pytest.raises(LocalProtocolError, match=reason):
        parse_url(text)


@pytest.mark.parametrize("text", ["http://me:secret@host/", "http://me:secret@[::1", "http://me:secret@host:x/"])
def test_url_with_credentials_rejected_without_showing_them(text: str) -> None:
    with pytest.raises(LocalProtocolError) as refused:
        parse_url(text)
    assert "secret" not in str(refused.value)


def test_url_shown_without_query() -> None:
    assert parse_url("https://a/b?token=secret").shown == "https://a/b"


@pytest.mark.parametrize(
    ("reference", "result"),
    [
        ("/x?y", "http://a:81/x?y"),
        ("x", "http://a:81/b/x"),
        ("?q", "http://a:81/b/c?q"),
        ("", "http://a:81/b/c"),
        ("//other/x", "http://other/x"),
        ("https://a:81/x#f", "https://a:81/x"),
    ],
)
def test_location_joined_to_url(reference: str, result: str) -> None:
    assert str(parse_url("http://a:81/b/c").join(reference)) == result


@pytest.mark.parametrize(
    "reference", ["http://u:p@a/", "javascript:alert(1)", "/a b", "http://[", "file:///etc/passwd"]
)
def test_location_invalid_rejected(reference: str) -> None:
    with pytest.raises(LocalProtocolError):
        parse_url("http://a:81/b/c").join(reference)


@pytest.mark.property
@given(st.one_of(st.text(), st.text().map("http://".__add__), st.text().map("https://a/".__add__)))
def test_url_any_text_sendable_or_rejected(text: str) -> None:
    try:
        url = parse_url(text)
    except LocalProtocolError:
        return
    for part in (url.target, url.authority, url.host):
        assert part.isascii()
        assert part.isprintable()
        assert " " not in part
    assert url.target.startswith("/")
    assert parse_url(str(url)) == url
