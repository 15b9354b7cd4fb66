"""The URL of a server: where to connect, and what to write into a request.

Spec: RFC 3986, RFC 9110 section 4.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

import attrs

from mcp_core.errors import LocalProtocolError
from mcp_core.field_methods import FieldValue

__all__ = ["HttpUrl", "parse_url"]

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f\\]")
"""Characters that a URL must not contain: blanks and control characters, which could end a line of the request, and the
backslash, which other parsers read as a slash."""

_SAFE: Final = "".join(chr(code) for code in range(0x21, 0x7F))
"""ASCII is sent as written; only other characters are percent-encoded."""

_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class HttpUrl(FieldValue):
    """A parsed URL. Created by `parse_url`."""

    scheme: str
    """`http` or `https`."""
    host: str
    """The host name or address, in lower case and ASCII; an IPv6 address without brackets."""
    port: int
    """The port; the default port of the scheme if the URL has none."""
    target: str
    """Path and query: `/mcp?x=1`."""
    authority: str
    """The value of the Host header: without the default port, IPv6 in brackets."""
    origin: str
    """Scheme and authority: `https://example.com:8443`."""

    @property
    def shown(self) -> str:
        """The URL for errors and logs, without the query, which may contain a secret."""
        return self.origin + self.target.partition("?")[0]

    def join(self, reference: str) -> HttpUrl:
        """Return the target of a `Location` header. Raises the errors of `parse_url`."""
        try:
            return parse_url(urljoin(str(self), reference))
        except ValueError as bad:
            raise LocalProtocolError(f"invalid URL: {_reason(bad)}") from None

    def __str__(self) -> str:
        return self.origin + self.target


# Cached: a client requests the same few URLs.
@lru_cache(maxsize=64)
def parse_url(text: str) -> HttpUrl:
    """Parse a URL.

    Args:
        text: An absolute URL with `http` or `https`. The fragment is dropped.

    Raises:
        LocalProtocolError: The URL cannot be requested. The message gives the reason, without parts that may be secret.
    """
    found = _FORBIDDEN.search(text)
    if found is not None:
        raise LocalProtocolError(f"a URL must not contain the character {found.group()!r} (at index {found.start()})")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as bad:
        raise LocalProtocolError(f"invalid URL: {_reason(bad)}") from None
    scheme = parts.scheme
    if scheme not in _DEFAULT_PORTS:
        raise LocalProtocolError(
            f"a URL must start with http:// or https://{f', not with {scheme}:' if scheme else ''}"
        )
    if "@" in parts.netloc:
        raise LocalProtocolError("a URL must not contain a user or password; send an Authorization header instead")
    if not parts.hostname:
        raise LocalProtocolError("the URL has no host")
    host = _host(parts.hostname, bracketed="[" in parts.netloc)
    if port == 0:
        raise LocalProtocolError("the URL has port 0, which cannot be connected to")
    target = quote(parts.path or "/", safe=_SAFE)
    if parts.query:
        target += "?" + quote(parts.query, safe=_SAFE)
    default = _DEFAULT_PORTS[scheme]
    authority = f"[{host}]" if ":" in host else host
    if port is not None and port != default:
        authority += f":{port}"
    return HttpUrl(
        scheme=scheme,
        host=host,
        port=port or default,
        target=target,
        authority=authority,
        origin=f"{scheme}://{authority}",
    )


def _reason(bad: ValueError) -> str:
    # The messages of the standard library quote the host or the port. Neither is a secret, but the user name and the
    # password precede them.
    return "its port is not a number from 0 to 65535" if "ort" in str(bad) else "its host is not a name or an address"


def _host(host: str, *, bracketed: bool) -> str:
    if bracketed:
        if "%" in host:
            raise LocalProtocolError(f"{host!r}: an address with a zone cannot be sent in a request; remove the zone")
        try:
            return ipaddress.IPv6Address(host).compressed
        except ValueError:
            raise LocalProtocolError(f"{host!r} is not an IPv6 address") from None
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        raise LocalProtocolError(f"{host!r} is not a host name") from None
    if _NAME.fullmatch(name) is None:
        raise LocalProtocolError(f"{host!r} is not a host name")
    return name
