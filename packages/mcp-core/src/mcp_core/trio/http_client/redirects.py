"""Redirects: the client follows those within one origin that keep the method and the body.

    status   GET                         other methods
    307, 308 followed, same origin       followed, same origin, with the same body
    301, 302 followed, same origin       rejected: other clients would turn the request into a GET
    303      rejected                    rejected

A rejected redirect raises an error that names both URLs, because the user needs the right one. Therefore headers, and
credentials in them, never reach another origin.

Spec: RFC 9110 section 15.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.errors import HttpFailure, LocalProtocolError

if TYPE_CHECKING:
    from mcp_core.http.messages import HttpHead
    from mcp_core.trio.http_client.url import HttpUrl

__all__ = ["MOST_REDIRECTS", "redirected"]

MOST_REDIRECTS: Final = 5
"""Maximum number of redirects for one request. One is common, two occur."""

_ALL: Final = frozenset({301, 302, 303, 307, 308})
_KEEPING: Final = frozenset({307, 308})
_KEEPING_GET: Final = frozenset({301, 302, 307, 308})


def redirected(method: str, url: HttpUrl, head: HttpHead, followed: int) -> HttpUrl | None:
    """Return the URL of the next request.

    Args:
        method: The method of the request.
        url: The URL of the request.
        head: The head of the response.
        followed: The number of redirects that led to `url`.

    Returns:
        The next URL; `None` if `head` is not a redirect.

    Raises:
        HttpFailure: The redirect is not followed.
    """
    location = head.headers.get("location")
    if head.status not in _ALL or location is None:
        return None
    try:
        target = url.join(location)
    except LocalProtocolError as bad:
        raise _refused(url, head, f"to a URL that cannot be requested: {bad.message}") from bad
    if target.origin != url.origin:
        raise _refused(
            url, head, f"to another origin, {target.origin}; if that is correct, use {target.shown} as the URL"
        )
    if head.status not in (_KEEPING_GET if method == "GET" else _KEEPING):
        raise _refused(url, head, f"to {target.shown} in a way that does not keep {method}; use that URL instead")
    if followed >= MOST_REDIRECTS:
        raise _refused(url, head, f"again after {MOST_REDIRECTS} redirects")
    return target


def _refused(url: HttpUrl, head: HttpHead, how: str) -> HttpFailure:
    return HttpFailure(f"{url.shown} redirects ({head.status}) {how}", status=head.status)
