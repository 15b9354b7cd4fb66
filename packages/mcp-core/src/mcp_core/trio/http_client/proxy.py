"""Proxies: the selection of a proxy for a URL.

By default the environment decides: `http_proxy` applies to http, `https_proxy` to https, `all_proxy` to both, and
`no_proxy` lists exceptions. Each name can be in lower or upper case. Lower case has precedence, and an empty value
means no proxy. Two exceptions:

    HTTP_PROXY   is not read in a CGI program (one with REQUEST_METHOD): there a request can set it by a `Proxy` header
    loopback     `localhost`, 127.0.0.0/8 and ::1 are connected directly: a proxy could not reach them, and a local
                 server must work without `no_proxy`

An explicit mapping applies exactly, also to loopback addresses.

`no_proxy` is a list, separated by commas or blanks, of names with all their subdomains (`example.com`, `.example.com`
and `*.example.com` are equivalent), addresses, and networks (`10.0.0.0/8`), each with an optional port, or `*` for
everything.
"""

from __future__ import annotations

import ipaddress
import re
from base64 import b64encode
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote

import attrs

from mcp_core.errors import LocalProtocolError
from mcp_core.field_methods import FieldValue
from mcp_core.trio.http_client.url import HttpUrl, parse_url

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Proxies", "Proxy", "parse_proxy"]

_KINDS: Final = ("http", "https", "all")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Proxy(FieldValue):
    """A proxy. Created by `parse_proxy`."""

    url: HttpUrl
    """The URL of the proxy, without credentials."""
    authorization: str | None = attrs.field(default=None, repr=False)
    """The value of `Proxy-Authorization`."""

    def __str__(self) -> str:
        return self.url.origin


def parse_proxy(text: str, source: str) -> Proxy:
    """Parse the URL of a proxy. The default scheme is http.

    Args:
        text: `http://user:password@proxy.example:3128`, or a part of it.
        source: The setting that contains the URL, for errors.

    Raises:
        LocalProtocolError: The text is not the URL of a supported proxy. The message contains neither the user name nor
            the password.
    """
    scheme, mark, rest = text.strip().rpartition("://")
    scheme = scheme.lower() if mark else "http"
    if scheme not in ("http", "https"):
        raise LocalProtocolError(f"{source}: unsupported proxy scheme {scheme!r}; use http or https")
    place = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, at, place = place.rpartition("@")
    try:
        url = parse_url(f"{scheme}://{place}")
    except LocalProtocolError as bad:
        raise LocalProtocolError(f"{source}: {bad.message}") from None
    if not at:
        return Proxy(url=url)
    name, _, password = user.partition(":")
    credentials = f"{unquote(name)}:{unquote(password)}".encode()
    return Proxy(url=url, authorization="Basic " + b64encode(credentials).decode("ascii"))


class Proxies:
    """The proxies of one pool.

    Args:
        explicit: `None` reads the environment; `False` disables proxies; or a mapping from `http`, `https` and `all` to
            URLs, and from `no` to a list as in `no_proxy`.
        environment: The environment variables.

    Raises:
        LocalProtocolError: The mapping contains an unknown key.
    """

    def __init__(self, explicit: Mapping[str, str] | Literal[False] | None, environment: Mapping[str, str]) -> None:
        self._from_environment: Final = explicit is None
        self._urls: Final[dict[str, tuple[str, str]]] = {}
        bypass = ""
        if explicit is None:
            for kind in _KINDS:
                self._read(kind, environment)
            bypass = environment.get("no_proxy", environment.get("NO_PROXY", ""))
        elif explicit is not False:
            strange = set(explicit) - {*_KINDS, "no"}
            if strange:
                raise LocalProtocolError(f"proxies: unknown key {min(strange)!r}; use http, https, all or no")
            self._urls.update((kind, (explicit[kind], f"proxies[{kind!r}]")) for kind in _KINDS if explicit.get(kind))
            bypass = explicit.get("no", "")
        self._bypass: Final = _Bypass(bypass)

    def _read(self, kind: str, environment: Mapping[str, str]) -> None:
        lower, upper = f"{kind}_proxy", f"{kind.upper()}_PROXY"
        source = lower if lower in environment else upper
        if source == "HTTP_PROXY" and "REQUEST_METHOD" in environment:
            return
        if environment.get(source, "").strip():
            self._urls[kind] = (environment[source], source)

    def of(self, url: HttpUrl) -> Proxy | None:
        """Return the proxy for a URL; `None` for a direct connection.

        Raises:
            LocalProtocolError: The setting for the URL is not the URL of a supported proxy.
        """
        found = self._urls.get(url.scheme) or self._urls.get("all")
        if found is None or self._bypass.holds(url) or (self._from_environment and _is_loopback(url.host)):
            return None
        return parse_proxy(*found)


def _is_loopback(host: str) -> bool:
    name = host.rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


class _Bypass:
    """A parsed `no_proxy` list."""

    def __init__(self, text: str) -> None:
        self._entries: Final = [_split_port(entry) for entry in re.split(r"[,\s]+", text.lower()) if entry]

    def holds(self, url: HttpUrl) -> bool:
        host = url.host.rstrip(".")
        address = _address(host)
        for name, port in self._entries:
            if port is not None and port != url.port:
                continue
            if name == "*":
                return True
            if address is not None:
                if _in_network(address, name):
                    return True
                continue
            suffix = name.removeprefix("*").strip(".")
            if suffix and (host == suffix or host.endswith("." + suffix)):
                return True
        return False


def _split_port(entry: str) -> tuple[str, int | None]:
    """Split an entry into name and port: `name:80`, `[::1]:80`, `::1`."""
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(\d+))?", entry)
    if bracketed is not None:
        return bracketed[1], None if bracketed[2] is None else int(bracketed[2])
    name, colon, port = entry.rpartition(":")
    if colon and port.isdecimal() and ":" not in name:
        return name, int(port)
    return entry, None


def _in_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, name: str) -> bool:
    try:
        return address in ipaddress.ip_network(name, strict=False)
    except ValueError:
        return False
