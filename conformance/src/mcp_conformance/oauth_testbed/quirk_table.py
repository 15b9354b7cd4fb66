"""What there is to be met, row by row: a quirk, and the requirement that it tries.

`mcp_conformance.oauth_testbed.tolerated_quirks` has the oddities of peers that mean well: a client that keeps the rules gets its token.
`mcp_conformance.oauth_testbed.refused_quirks` has those where it must not, or cannot: the peer is hostile, broken, or says no. What the
error is called is up to the client.
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
    """One thing to be met."""

    name: str
    """Words with hyphens. It stays the same from release to release."""
    quirks: Quirks
    """How to meet it."""
    requirement: str | None = None
    """The id of the requirement that it tries, where there is one."""


def rows(table: Mapping[str, tuple[Quirks, str | None]]) -> tuple[Row, ...]:
    """A table as rows."""
    return tuple(Row(name, quirks, requirement) for name, (quirks, requirement) in table.items())


WEB_PAGE: Final = Reply(
    status=200, headers=(("Content-Type", "text/html"),), body=b"<!doctype html><title>Welcome</title>"
)
"""What some servers answer to everything that they do not know."""

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
"""URLs that lead where nobody should go, by what is wrong with them."""
