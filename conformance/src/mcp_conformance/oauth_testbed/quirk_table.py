"""The rows of the tables of quirks, with the requirements that they test.

`mcp_conformance.oauth_testbed.tolerated_quirks` has the deviations of well-meaning servers: a conforming client gets
its token. `mcp_conformance.oauth_testbed.refused_quirks` has those of hostile, broken or denying servers, where a
client must not or cannot get one. The client may report any error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.oauth_testbed.quirks import Reply

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_conformance.oauth_testbed.quirks import Quirks

__all__ = ["STRANGE_URLS", "WEB_PAGE", "Row", "rows"]


@attrs.frozen
class Row:
    """A row of a table."""

    name: str
    """The name: words with hyphens. It does not change between releases."""
    quirks: Quirks
    """The deviations."""
    requirement: str | None = None
    """The id of the requirement that the row tests, if there is one."""


def rows(table: Mapping[str, tuple[Quirks, str | None]]) -> tuple[Row, ...]:
    """Return the rows of a table."""
    return tuple(Row(name, quirks, requirement) for name, (quirks, requirement) in table.items())


WEB_PAGE: Final = Reply(
    status=200, headers=(("Content-Type", "text/html"),), body=b"<!doctype html><title>Welcome</title>"
)
"""The response of some servers to any unknown URL."""

STRANGE_URLS: Final[Mapping[str, str]] = {
    "javascript": "javascript:alert(1)",
    "data": "data:text/html,<script>alert(1)</script>",
    "file": "file:///etc/passwd",
    "vbscript": "vbscript:msgbox(1)",
    "handler": "ms-calculator:",
    "no-scheme": "//evil.example/authorize",
    "relative": "/authorize",
    "option": "-option",
    "shell": 'http://x" & calc',
    "expansion": "https://%COMSPEC%.example/authorize",
    "newline": "https://as.example/authorize\r\nHost: evil.example",
    "space": "https://as.example/auth orize",
    "backslash": "https://as.example\\@evil.example/",
    "userinfo": "https://as.example@evil.example/authorize",
    "fragment": "https://as.example/authorize#x",
    "plain-http": "http://as.example/authorize",
    "cloud": "http://169.254.169.254/latest/meta-data/",
    "cloud-tls": "https://169.254.169.254/latest/meta-data/",
    "private": "https://10.0.0.1/authorize",
    "loopback": "http://127.0.0.1:8080/authorize",
    "loopback-name": "http://localhost/authorize",
    "loopback-six": "http://[::1]/authorize",
    "mapped": "https://[::ffff:169.254.169.254]/authorize",
    "decimal": "http://2130706433/authorize",
    "hexadecimal": "http://0x7f000001/authorize",
    "short": "http://127.1/authorize",
    "unspecified": "http://0.0.0.0/authorize",
    "port": "https://as.example:99999/authorize",
    "idn": "https://\u0430s.example/authorize",
    "long": "https://as.example/" + "a" * 10_000,
    "empty": "",
}
"""URLs that no client may open, by kind of defect."""
