"""What the pages look like: templates, the stylesheet, and the headers that every page has.

Everything is escaped where it is put into a page; nothing is marked as safe. There is no script, no image and nothing
from elsewhere, and the headers forbid all of it, so that even markup which got in would do nothing.

`form-action` is the one directive that depends on the page. Browsers apply it to every redirect that follows the sending
of a form, even to those that the client's own page makes. A page whose form ends at the client therefore allows what its
redirect URI may lead on to; all others allow ourselves alone, the one where a password is entered among them.

Spec: basic/security_best_practices#confused-deputy-problem; RFC 6749 section 10.13, RFC 9700 section 4.16
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import attrs
import jinja2

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OURSELVES", "PageAnswer", "Problem", "Templates", "form_targets"]

OURSELVES: Final = ("'self'",)
"""Forms of most pages lead to us."""

_FOLDER: Final = "templates"
_STYLE: Final = (files("mcp_server.auth.authorization_server.pages") / _FOLDER / "style.css").read_bytes()
_STYLE_NAME: Final = f"style-{hashlib.sha256(_STYLE).hexdigest()[:16]}.css"
_YEAR: Final = 365 * 24 * 3600

_ALWAYS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    # Not `no-referrer`: with it browsers send `Origin: null` with our own forms, which says nothing.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
_NOTHING: Final = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
_PAGE: Final = f"{_NOTHING}; img-src 'none'; style-src 'self'"


@attrs.frozen(kw_only=True)
class PageAnswer:
    """An answer to a browser."""

    status: int
    """The status."""
    headers: tuple[tuple[str, str], ...]
    """All headers but the length."""
    body: bytes = b""
    """The page."""


@attrs.frozen
class Problem:
    """Something in a form that has to be put right."""

    field: str
    """The id of the field; empty when it is about none alone."""
    text: str
    """What is wrong, and what to do."""


def form_targets(redirect_uri: str) -> tuple[str, ...]:
    """Where a form may lead that ends at a client, redirects included.

    Args:
        redirect_uri: Of the client, which was checked.

    Returns:
        Sources for `form-action`. Schemes, not hosts: a client's page may send the browser on, and the grammar of sources
        has no IPv6 addresses.
    """
    scheme = urlsplit(redirect_uri).scheme.lower()
    return tuple(dict.fromkeys((*OURSELVES, "https:", f"{scheme}:")))


class Templates:
    """Makes pages.

    Args:
        site: What stands above every page: the host of the authorization server.
        prefix: The path before all routes.
    """

    def __init__(self, site: str, prefix: str) -> None:
        self.style_path: Final = f"{prefix}/assets/{_STYLE_NAME}"
        """Where the stylesheet is. Its name changes with its content."""
        self._environment: Final = jinja2.Environment(
            loader=jinja2.PackageLoader("mcp_server.auth.authorization_server.pages", _FOLDER),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(site=site, stylesheet=self.style_path)

    def page(
        self,
        template: str,
        *,
        status: int = 200,
        headers: Sequence[tuple[str, str]] = (),
        targets: Sequence[str] = OURSELVES,
        last: bool = False,
        **values: object,
    ) -> PageAnswer:
        """Fills in a template.

        Args:
            template: Its name, without the ending.
            status: The status.
            headers: More headers.
            targets: Sources for `form-action`.
            last: Nothing leads on from here to a client. Only such a page parts with whoever opened its window: a client
                may have done so, and waits to hear of its own page in there.
            values: For the template.
        """
        policy = f"{_PAGE}; form-action {' '.join(targets)}"
        opener = (("Cross-Origin-Opener-Policy", "same-origin"),) if last else ()
        return PageAnswer(
            status=status,
            headers=(
                ("Content-Type", "text/html; charset=utf-8"),
                ("Cache-Control", "no-store"),
                ("Content-Security-Policy", policy),
                *_ALWAYS,
                *opener,
                *headers,
            ),
            body=self._environment.get_template(f"{template}.html").render(**values).encode(),
        )

    def message(
        self,
        status: int,
        heading: str,
        *texts: str,
        link: tuple[str, str] | None = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> PageAnswer:
        """A page that only says something.

        Args:
            status: The status.
            heading: In a few words.
            texts: A paragraph each.
            link: Where one can go from here, and in which words.
            headers: More headers.
        """
        target, words = link or (None, None)
        return self.page(
            "message",
            status=status,
            headers=headers,
            last=link is None,
            heading=heading,
            texts=texts,
            link=target,
            link_text=words,
        )

    def redirect(self, url: str, *, headers: Sequence[tuple[str, str]] = ()) -> PageAnswer:
        """Sends the browser elsewhere, by 303: no form is sent along. Spec: RFC 9700 section 4.12"""
        return PageAnswer(
            status=303,
            headers=(
                ("Location", url),
                ("Cache-Control", "no-store"),
                ("Content-Security-Policy", _NOTHING),
                *_ALWAYS,
                *headers,
            ),
        )

    def style(self) -> PageAnswer:
        """The stylesheet, to be kept for as long as a browser likes."""
        return PageAnswer(
            status=200,
            headers=(
                ("Content-Type", "text/css; charset=utf-8"),
                ("Cache-Control", f"public, max-age={_YEAR}, immutable"),
                ("Content-Security-Policy", _NOTHING),
                *_ALWAYS,
            ),
            body=_STYLE,
        )
