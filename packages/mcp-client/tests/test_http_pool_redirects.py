from __future__ import annotations

import pytest

from mcp_client.http_client.redirects import MOST_REDIRECTS, redirected
from mcp_client.http_client.url import parse_url
from mcp_core.errors import HttpFailure
from mcp_core.http.messages import Headers, HttpHead

URL = parse_url("https://a.example/mcp?key=secret")


def _head(status: int, location: str | None = "/mcp/") -> HttpHead:
    return HttpHead(status=status, headers=Headers([] if location is None else [("Location", location)]))


@pytest.mark.parametrize(
    ("method", "status"),
    [("GET", 301), ("GET", 302), ("GET", 307), ("GET", 308), ("POST", 307), ("POST", 308), ("DELETE", 308)],
)
def test_a_redirect_that_changes_only_the_address_is_followed(method: str, status: int) -> None:
    onward = redirected(method, URL, _head(status), 0)
    assert str(onward) == "https://a.example/mcp/"


@pytest.mark.parametrize(("method", "status"), [("POST", 301), ("POST", 302), ("POST", 303), ("GET", 303)])
def test_a_redirect_that_would_change_the_request_is_refused_with_the_url_to_use(method: str, status: int) -> None:
    with pytest.raises(HttpFailure, match="use that URL instead") as refused:
        redirected(method, URL, _head(status, "/other?token=hidden"), 0)
    assert refused.value.status == status
    assert "https://a.example/other" in str(refused.value)
    assert "hidden" not in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "location", ["https://b.example/mcp", "http://a.example/mcp", "https://a.example:8443/mcp", "//a.example:444/"]
)
def test_another_origin_is_never_followed_and_both_are_named(location: str) -> None:
    with pytest.raises(HttpFailure, match="to another origin") as refused:
        redirected("GET", URL, _head(307, location), 0)
    assert "https://a.example/mcp redirects (307)" in str(refused.value)
    assert URL.join(location).origin in str(refused.value)


@pytest.mark.parametrize("location", ["http://u:p@a.example/", "javascript:x", "/a b"])
def test_a_location_that_cannot_be_asked_is_refused(location: str) -> None:
    with pytest.raises(HttpFailure, match="to a URL that cannot be requested"):
        redirected("GET", URL, _head(307, location), 0)


@pytest.mark.parametrize("status", [200, 202, 300, 304, 400, 401, 404, 500])
def test_other_answers_are_no_redirects(status: int) -> None:
    assert redirected("POST", URL, _head(status), 0) is None


def test_a_redirect_that_leads_nowhere_is_an_answer_like_any_other() -> None:
    assert redirected("POST", URL, _head(307, None), 0) is None


def test_there_is_an_end_to_redirects() -> None:
    assert redirected("POST", URL, _head(307), MOST_REDIRECTS - 1) is not None
    with pytest.raises(HttpFailure, match="after 5 redirects"):
        redirected("POST", URL, _head(307), MOST_REDIRECTS)
