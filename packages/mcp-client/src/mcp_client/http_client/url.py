"""The URL of a server: what is connected to, and what is written into a request.

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

__all__ = ["HttpUrl", "parse_url"]

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f\\]")
"""What no URL has: blanks and control characters, which could end a line of the request, and the backslash, which
others read as a slash."""

_SAFE: Final = "".join(chr(code) for code in range(0x21, 0x7F))
"""ASCII stays as it was written; only the rest is percent-encoded."""

_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")


@attrs.frozen(kw_only=True)
class HttpUrl:
    """A URL taken apart. Made by `parse_url`."""

    scheme: str
    """`http` or `https`."""
    host: str
    """The name or address, in lower case and ASCII, an IPv6 address without brackets."""
    port: int
    """The port, the default one if the URL names none."""
    target: str
    """Path and query: `/mcp?x=1`."""
    authority: str
    """As the Host header has it: without the default port, IPv6 in brackets."""
    origin: str
    """Scheme and authority: `https://example.com:8443`."""

    @property
    def shown(self) -> str:
        """For errors and logs: without the query, which may hold a secret."""
        return self.origin + self.target.partition("?")[0]

    def join(self, reference: str) -> HttpUrl:
        """Where a `Location` leads. Raises as `parse_url`."""
        try:
            return parse_url(urljoin(str(self), reference))
        except ValueError as bad:
            raise LocalProtocolError(f"the URL cannot be read: {_reason(bad)}") from None

    def __str__(self) -> str:
        return self.origin + self.target


# A client asks for the same few URLs again and again.
@lru_cache(maxsize=64)
def parse_url(text: str) -> HttpUrl:
    """Takes a URL apart.

    Args:
        text: An absolute URL with `http` or `https`. A fragment is dropped.

    Raises:
        LocalProtocolError: It cannot be asked for; the message says why, without what may be a secret.
    """
    found = _FORBIDDEN.search(text)
    if found is not None:
        raise LocalProtocolError(f"a URL must not have the character {found.group()!r} (at index {found.start()})")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as bad:
        raise LocalProtocolError(f"the URL cannot be read: {_reason(bad)}") from None
    scheme = parts.scheme
    if scheme not in _DEFAULT_PORTS:
        raise LocalProtocolError(
            f"a URL must begin with http:// or https://{f', not with {scheme}:' if scheme else ''}"
        )
    if "@" in parts.netloc:
        raise LocalProtocolError("a URL must not have a user or password before the host; send an Authorization header")
    if not parts.hostname:
        raise LocalProtocolError("the URL has no host")
    host = _host(parts.hostname, bracketed="[" in parts.netloc)
    if port == 0:
        raise LocalProtocolError("port 0 cannot be connected to")
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
    # The messages of the standard library quote the host or the port; neither is a secret, but user and password stand
    # right before them.
    return "its port is no number from 0 to 65535" if "ort" in str(bad) else "its host is no name and no address"


def _host(host: str, *, bracketed: bool) -> str:
    if bracketed:
        if "%" in host:
            raise LocalProtocolError(f"{host!r}: an address with a zone cannot be written into a request")
        try:
            return ipaddress.IPv6Address(host).compressed
        except ValueError:
            raise LocalProtocolError(f"{host!r} is no IPv6 address") from None
    try:
        name = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        raise LocalProtocolError(f"{host!r} is no name of a host") from None
    if _NAME.fullmatch(name) is None:
        raise LocalProtocolError(f"{host!r} is no name of a host")
    return name
