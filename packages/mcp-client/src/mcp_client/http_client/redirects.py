"""Redirects: only those that change nothing but the address, within one origin.

    status   GET                         other methods
    307, 308 followed, same origin       followed, same origin, with the same body
    301, 302 followed, same origin       refused: others would turn it into a GET
    303      refused                     refused

Everything that is refused ends with an error that names both sides, because the right URL is what its reader needs.
Headers, and with them credentials, therefore never reach another origin.

Spec: RFC 9110 section 15.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.errors import HttpFailure, LocalProtocolError

if TYPE_CHECKING:
    from mcp_client.http_client.url import HttpUrl
    from mcp_core.http.messages import HttpHead

__all__ = ["MOST_REDIRECTS", "redirected"]

MOST_REDIRECTS: Final = 5
"""How many are followed for one request. One is usual, two happen."""

_ALL: Final = frozenset({301, 302, 303, 307, 308})
_KEEPING: Final = frozenset({307, 308})
_KEEPING_GET: Final = frozenset({301, 302, 307, 308})


def redirected(method: str, url: HttpUrl, head: HttpHead, followed: int) -> HttpUrl | None:
    """Where to ask again.

    Args:
        method: The method of the request.
        url: Whom it went to.
        head: What came back.
        followed: How many redirects led to `url`.

    Returns:
        The next URL; `None` if `head` is no redirect.

    Raises:
        HttpFailure: It is one that is not followed.
    """
    location = head.headers.get("location")
    if head.status not in _ALL or location is None:
        return None
    try:
        target = url.join(location)
    except LocalProtocolError as bad:
        raise _refused(url, head, f"to something that cannot be asked: {bad.message}") from bad
    if target.origin != url.origin:
        raise _refused(
            url, head, f"to another origin, {target.origin}; if that is right, use {target.shown} as the URL"
        )
    if head.status not in (_KEEPING_GET if method == "GET" else _KEEPING):
        raise _refused(url, head, f"to {target.shown} in a way that would not repeat a {method}; use that as the URL")
    if followed >= MOST_REDIRECTS:
        raise _refused(url, head, f"on, after {MOST_REDIRECTS} redirects")
    return target


def _refused(url: HttpUrl, head: HttpHead, how: str) -> HttpFailure:
    return HttpFailure(f"{url.shown} redirects ({head.status}) {how}", status=head.status)
