from __future__ import annotations

import pytest

from mcp_core.errors import HttpFailure
from mcp_core.http.messages import Headers, HttpHead
from mcp_core.trio.http_client.redirects import MOST_REDIRECTS, redirected
from mcp_core.trio.http_client.url import parse_url

URL = parse_url("https://a.example/mcp?key=secret")


def _head(status: int, location: str | None = "/mcp/") -> HttpHead:
    return HttpHead(status=status, headers=Headers([] if location is None else [("Location", location)]))


@pytest.mark.parametrize(
    ("method", "status"),
    [("GET", 301), ("GET", 302), ("GET", 307), ("GET", 308), ("POST", 307), ("POST", 308), ("DELETE", 308)],
)
def test_redirect_keeping_method_followed(method: str, status: int) -> None:
    target = redirected(method, URL, _head(status), 0)
    assert str(target) == "https://a.example/mcp/"


@pytest.mark.parametrize(("method", "status"), [("POST", 301), ("POST", 302), ("POST", 303), ("GET", 303)])
def test_redirect_changing_method_raises_with_url(method: str, status: int) -> None:
    with pytest.raises(HttpFailure, match="use that URL instead") as refused:
        redirected(method, URL, _head(status, "/other?token=hidden"), 0)
    assert refused.value.status == status
    assert "https://a.example/other" in str(refused.value)
    assert "hidden" not in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "location", ["https://b.example/mcp", "http://a.example/mcp", "https://a.example:8443/mcp", "//a.example:444/"]
)
def test_redirect_to_other_origin_raises(location: str) -> None:
    with pytest.raises(HttpFailure, match="to another origin") as refused:
        redirected("GET", URL, _head(307, location), 0)
    assert "https://a.example/mcp redirects (307)" in str(refused.value)
    assert URL.join(location).origin in str(refused.value)


@pytest.mark.parametrize("location", ["http://u:p@a.example/", "javascript:x", "/a b"])
def test_redirect_to_invalid_location_raises(location: str) -> None:
    with pytest.raises(HttpFailure, match="to a URL that cannot be requested"):
        redirected("GET", URL, _head(307, location), 0)


@pytest.mark.parametrize("status", [200, 202, 300, 304, 400, 401, 404, 500])
def test_redirect_other_status_ignored(status: int) -> None:
    assert redirected("POST", URL, _head(status), 0) is None


def test_redirect_without_location_ignored() -> None:
    assert redirected("POST", URL, _head(307, None), 0) is None


def test_redirects_over_limit_raise() -> None:
    assert redirected("POST", URL, _head(307), MOST_REDIRECTS - 1) is not None
    with pytest.raises(HttpFailure, match="after 5 redirects"):
        redirected("POST", URL, _head(307), MOST_REDIRECTS)
