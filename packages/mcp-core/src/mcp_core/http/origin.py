"""Checks of the Host, Origin and Sec-Fetch-Site headers (DNS rebinding, CSRF), and the CORS headers for browsers.

*Attack.* A web page can send requests to a server on the user's own machine. The browser then names the origin of the
page in `Origin` and `Sec-Fetch-Site`. With DNS rebinding the host name of the page resolves to this machine, so that
the browser treats page and server as one site. Only the name in `Host` is still foreign. Therefore the Host must be one
of the server's, and the Origin, if there is one, must equal the Host or be in the list. Programs other than browsers
send no Origin, and these checks do not affect them.

*Responses.* A listed origin receives CORS headers that name that origin. Other origins receive none, and there is no
wildcard. A rejection is one sentence for the body of a 403. It names the header, its value and the setting.

Spec: basic/transports#security-warning; RFC 9110 section 7.2, RFC 6454, https://fetch.spec.whatwg.org/
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from mcp_core.http.messages import Headers, HttpRequest

__all__ = [
    "LOOPBACK_HOSTS",
    "check_allowed",
    "cors_headers",
    "is_loopback",
    "preflight_headers",
    "rejection",
]

LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
"""The names of a server that listens on the loopback interface, with any port."""

_Authority: TypeAlias = tuple[str, int | None]
"""A host, normalized for comparison, and its port; `None` if the text has no port."""

_AUTHORITY: Final = re.compile(r"([a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?(?::([0-9]{0,5}))?", re.IGNORECASE | re.ASCII)
_AUTHORITY_IPV6: Final = re.compile(r"\[([0-9a-f:.]+)\](?::([0-9]{0,5}))?", re.IGNORECASE | re.ASCII)
_ORIGIN: Final = re.compile(r"([a-z][a-z0-9+.-]*)://(.+)", re.IGNORECASE | re.ASCII)

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_LONGEST: Final = 300
"""A name in the DNS has at most 253 characters. Longer text is rejected without parsing."""

_ANYWHERE: Final = frozenset({"0.0.0.0", "[::]"})  # noqa: S104 -- these are rejected
"""Addresses to listen on. A browser that connects to one of them reaches the loopback interface."""

_OF_PAGES: Final = ("origin", "sec-fetch-site")
"""The headers that browsers add to the requests of a page."""

_FOREIGN_SITES: Final = frozenset({"cross-site", "same-site"})
"""Values of `Sec-Fetch-Site` for a page of another origin. Another port of this machine is `same-site`."""

_ALLOWED_METHODS: Final = "GET, POST, DELETE"
_EXPOSED_HEADERS: Final = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"
_ALLOWED_HEADERS: Final = frozenset({"accept", "authorization", "content-type", "last-event-id"})
_OUR_HEADERS: Final = "mcp-"
"""The prefix of further allowed headers: each header parameter of a tool has one."""
_REQUESTED_HEADER: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_PREFLIGHT_SECONDS: Final = "600"
"""Time for which a browser may cache the response, in seconds. The default of browsers is five seconds."""


@attrs.frozen(eq=False, repr=False)
class _Rules(FieldValue):
    """The settings of an endpoint, parsed for comparison."""

    hosts: frozenset[_Authority] | None
    origins: frozenset[tuple[str, _Authority]]


def check_allowed(hosts: tuple[str, ...] | None, origins: tuple[str, ...]) -> None:
    """Check the two settings when they are configured, before the first request.

    Args:
        hosts: The setting `EndpointPolicy.allowed_hosts`.
        origins: The setting `EndpointPolicy.allowed_origins`.

    Raises:
        ValueError: An entry is not a host or an origin, or must not be allowed. The message names the entry and the
            reason.
    """
    _rules(hosts, origins)


@lru_cache(maxsize=64)
def _rules(hosts: tuple[str, ...] | None, origins: tuple[str, ...]) -> _Rules:
    return _Rules(
        None if hosts is None else frozenset(_listed_host(entry) for entry in hosts),
        frozenset(_listed_origin(entry) for entry in origins),
    )


def _listed_host(entry: str) -> _Authority:
    setting = f"EndpointPolicy.allowed_hosts: {entry!a}"
    if entry == "*":
        raise ValueError(f"{setting}: wildcards are not supported; None disables the check")
    # IPv6 addresses are accepted without brackets too: the text has no other meaning.
    found = _authority(f"[{entry}]" if entry.count(":") > 1 and not entry.startswith("[") else entry)
    if found is None:
        raise ValueError(f"{setting} is not a host such as 'mcp.example', 'mcp.example:8080' or '[::1]'")
    if found[0] in _ANYWHERE:
        raise ValueError(f"{setting} is an address to listen on, which clients do not use; list the server's host name")
    return found


def _listed_origin(entry: str) -> tuple[str, _Authority]:
    setting = f"EndpointPolicy.allowed_origins: {entry!a}"
    if entry in ("*", "null"):
        raise ValueError(f"{setting} would allow every web page; list each origin")
    found = _origin(entry)
    if found is None:
        raise ValueError(
            f"{setting} is not an origin such as 'https://app.example' or 'http://localhost:3000' (no path)"
        )
    return found


def _authority(text: str) -> _Authority | None:
    """Return the host and the port in `text`; `None` if the text has another form."""
    return _read_authority(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=256)
def _read_authority(text: str) -> _Authority | None:
    plain = _AUTHORITY.fullmatch(text)
    if plain is not None:
        name, port = plain[1].lower(), plain[2]
    else:
        numeric = _AUTHORITY_IPV6.fullmatch(text)
        if numeric is None:
            return None
        try:
            name, port = f"[{ipaddress.IPv6Address(numeric[1])}]", numeric[2]
        except ValueError:
            return None
    return name, int(port) if port else None


def _origin(text: str) -> tuple[str, _Authority] | None:
    """Return the scheme, the host and the port of an origin. The default port of the scheme replaces a missing port."""
    parts = _ORIGIN.fullmatch(text)
    authority = None if parts is None else _authority(parts[2])
    if parts is None or authority is None:
        return None
    scheme, (name, port) = parts[1].lower(), authority
    return scheme, (name, _DEFAULT_PORTS.get(scheme) if port is None else port)


def rejection(request: HttpRequest, hosts: tuple[str, ...] | None, origins: tuple[str, ...]) -> str | None:
    """Return why the origin or the host of `request` is not allowed.

    Use this check for endpoints that programs call. Do not use it for a page that users open by a link from another
    site, such as a consent page: those requests are `cross-site`.

    Args:
        request: The request.
        hosts: The setting `EndpointPolicy.allowed_hosts`. `None` disables the check of Host, and with it the protection
            against DNS rebinding.
        origins: The setting `EndpointPolicy.allowed_origins`.

    Returns:
        `None` if the request is allowed. Otherwise a sentence for the body of a 403.

    Raises:
        ValueError: A setting is invalid; see `check_allowed`.
    """
    rules = _rules(hosts, origins)
    headers = request.headers
    sentence = None if rules.hosts is None else _host_rejection(request, rules.hosts)
    if sentence is not None or not headers.has_any(_OF_PAGES):
        return sentence
    given = headers.all("origin")
    if len(given) > 1:
        return _sentence("Origin", ", ".join(given), "is repeated", "origins")
    if given:
        origin = _origin(given[0])
        if origin in rules.origins:
            return None
        if origin is None or not _same_authority(origin, headers):
            return _sentence("Origin", given[0], "is neither this server's own origin nor listed", "origins")
    for site in headers.all("sec-fetch-site"):
        if site.strip().lower() in _FOREIGN_SITES:
            return _sentence("Sec-Fetch-Site", site, "means a web page whose origin is not listed", "origins")
    return None


def _host_rejection(request: HttpRequest, allowed: frozenset[_Authority]) -> str | None:
    given = request.headers.all("host")
    if len(given) != 1:
        return _sentence("Host", ", ".join(given), "is repeated" if given else "is missing", "hosts")
    if len(given[0]) <= _LONGEST and request.target.startswith("/") and _is_allowed_host(given[0], allowed):
        return None
    found = _authority(given[0])
    if found is None or not _is_allowed(found, allowed):
        return _sentence("Host", given[0], "is not a host" if found is None else "is not allowed", "hosts")
    if not request.target.startswith("/"):
        # The absolute form, meant for proxies. Its host has precedence over the header (RFC 9112 section 3.2.2).
        _, separator, rest = request.target.partition("://")
        addressed = re.split(r"[/?#]", rest, maxsplit=1)[0]
        if separator and _authority(addressed) != found:
            return _sentence("target", request.path, f"names another host than Host {given[0]!a:.80}", "hosts")
    return None


# Clients send the same text each time.
@lru_cache(maxsize=256)
def _is_allowed_host(text: str, allowed: frozenset[_Authority]) -> bool:
    found = _read_authority(text)
    return found is not None and _is_allowed(found, allowed)


def _is_allowed(found: _Authority, allowed: frozenset[_Authority]) -> bool:
    name, port = found
    if found in allowed or (name, None) in allowed:
        return True
    # A proxy in front may hide the scheme, and with it which of the two default ports is meant.
    return port is None and any((name, default) in allowed for default in _DEFAULT_PORTS.values())


def _same_authority(origin: tuple[str, _Authority], headers: Headers) -> bool:
    """Return whether a page of `origin` has the host and port of the request, whatever the scheme.

    Behind a proxy that terminates TLS the page has the scheme `https`, but this server sees only `http`.
    """
    scheme, (name, port) = origin
    given = headers.all("host")
    host = _authority(given[0]) if len(given) == 1 else None
    if host is None or host[0] != name:
        return False
    return port == (_DEFAULT_PORTS.get(scheme) if host[1] is None else host[1])


def _sentence(header: str, value: str, problem: str, setting: str) -> str:
    # In ASCII and truncated, because a peer and a log receive the text.
    return f"{header} {value!a:.80} {problem}; the setting is EndpointPolicy.allowed_{setting}"


def _listed(headers: Headers, origins: tuple[str, ...]) -> str | None:
    """Return the origin of the request exactly as received, if the origin is listed."""
    given = headers.all("origin")
    if len(given) != 1 or _origin(given[0]) not in _rules(None, origins).origins:
        return None
    return given[0]


def cors_headers(headers: Headers, origins: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the headers that allow a web page of a listed origin to read the response.

    Args:
        headers: The headers of the request.
        origins: The setting `EndpointPolicy.allowed_origins`.

    Returns:
        Headers for the response; empty if there is no origin, or it is not listed.

    Raises:
        ValueError: A setting is invalid; see `check_allowed`.
    """
    origin = _listed(headers, origins) if "origin" in headers and origins else None
    if origin is None:
        return ()
    return (
        ("access-control-allow-origin", origin),
        ("access-control-expose-headers", _EXPOSED_HEADERS),
        ("vary", "Origin"),
    )


def preflight_headers(request: HttpRequest, origins: tuple[str, ...]) -> tuple[tuple[str, str], ...] | None:
    """Return the headers of the response to a CORS preflight request.

    Args:
        request: The request.
        origins: The setting `EndpointPolicy.allowed_origins`.

    Returns:
        Headers for a response 204; `None` if the request is not a preflight request, or its origin is not listed.

    Raises:
        ValueError: A setting is invalid; see `check_allowed`.
    """
    headers = request.headers
    if request.method != "OPTIONS" or "access-control-request-method" not in headers:
        return None
    origin = _listed(headers, origins)
    if origin is None:
        return None
    requested = ",".join(headers.all("access-control-request-headers")).lower().split(",")
    ours = {
        name
        for name in map(str.strip, requested)
        if name.startswith(_OUR_HEADERS) and _REQUESTED_HEADER.fullmatch(name)
    }
    return (
        ("access-control-allow-origin", origin),
        ("access-control-allow-methods", _ALLOWED_METHODS),
        ("access-control-allow-headers", ", ".join(sorted(_ALLOWED_HEADERS | ours))),
        ("access-control-max-age", _PREFLIGHT_SECONDS),
        ("vary", "Origin"),
    )


def is_loopback(host: str) -> bool:
    """Return whether a server that listens on `host` is reachable only from this machine.

    Args:
        host: A name or an address, with or without brackets. An empty text means all interfaces.
    """
    name = host.removeprefix("[").removesuffix("]").lower()
    if name.removesuffix(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address.is_loopback if mapped is None else mapped.is_loopback
