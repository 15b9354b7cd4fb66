"""Rendering of the pages: templates, the stylesheet, and the header fields of every page.

All values are escaped when they are inserted into a page. No value is marked as safe. There are no scripts, images or
external resources, and the header fields forbid them, so injected markup would have no effect.

`form-action` is the only directive that depends on the page. Browsers apply it to every redirect that follows a form
submission, including those by the client's own page. A page whose form leads to a client therefore allows the schemes
that its redirect URI may lead to. All other pages, including the login page, allow only this server.

Spec: basic/security_best_practices#confused-deputy-problem; RFC 6749 section 10.13, RFC 9700 section 4.16
"""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import attrs
import jinja2

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OURSELVES", "PageAnswer", "Problem", "Templates", "form_targets"]

OURSELVES: Final = ("'self'",)
"""The `form-action` of most pages: this server only."""

_FOLDER: Final = "templates"
_STYLE: Final = (files("mcp_server.auth.authorization_server.pages") / _FOLDER / "style.css").read_bytes()
_STYLE_NAME: Final = f"style-{hashlib.sha256(_STYLE).hexdigest()[:16]}.css"
_YEAR: Final = 365 * 24 * 3600

_ALWAYS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    # Not `no-referrer`: it makes browsers send `Origin: null` with the forms of these pages.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
_NOTHING: Final = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
_PAGE: Final = f"{_NOTHING}; img-src 'none'; style-src 'self'"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PageAnswer(FieldValue):
    """A response to a browser."""

    status: int
    """The HTTP status."""
    headers: tuple[tuple[str, str], ...]
    """All header fields except the content length."""
    body: bytes = b""
    """The page."""


@attrs.frozen(eq=False, repr=False)
class Problem(FieldValue):
    """An error in a form that the user must correct."""

    field: str
    """The id of the field; empty if the error does not belong to one field."""
    text: str
    """The error and its correction, as text."""


def form_targets(redirect_uri: str) -> tuple[str, ...]:
    """Return the allowed targets of a form that leads to a client, including redirects.

    Args:
        redirect_uri: The validated redirect URI of the client.

    Returns:
        Sources for `form-action`. They are schemes, not hosts: a client's page may redirect the browser again, and the
        grammar of sources has no IPv6 addresses.
    """
    scheme = urlsplit(redirect_uri).scheme.lower()
    return tuple(dict.fromkeys((*OURSELVES, "https:", f"{scheme}:")))


class Templates:
    """The templates of the pages.

    Args:
        site: The heading of every page: the host of the authorization server.
        prefix: The start of the paths of all routes.
    """

    def __init__(self, site: str, prefix: str) -> None:
        self.style_path: Final = f"{prefix}/assets/{_STYLE_NAME}"
        """The path of the stylesheet. The name changes with the content."""
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
        """Render a template.

        Args:
            template: The name of the template, without the extension.
            status: The HTTP status.
            headers: Additional header fields.
            targets: Sources for `form-action`.
            last: Whether the page does not lead to a client. Only such a page is isolated from the window that opened
                it, because a client may have opened the window, and waits there for its own page.
            values: The variables of the template.
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
        """Render a page with a message.

        Args:
            status: The HTTP status.
            heading: The heading.
            texts: The paragraphs.
            link: The target and the text of a link to the next step.
            headers: Additional header fields.
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
        """Return a redirect with status 303, so that the browser does not send the form. Spec: RFC 9700 section 4.12"""
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
        """Return the stylesheet, which browsers may cache for a year."""
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
