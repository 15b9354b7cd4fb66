"""May this request come in at all? The Host, Origin and Sec-Fetch-Site headers, and what browsers are told of them.

*The attack.* A web page may send requests to a server on the visitor's own machine. Its browser then says from where,
in `Origin` and `Sec-Fetch-Site`. With DNS rebinding the page's name points to this machine, so that the browser takes
page and server for one site; what remains foreign is the name, in `Host`. Hence: the Host has to be one of ours, and
the Origin, when there is one, has to be the same as the Host or a listed one. Programs that are no browsers send no
Origin, and are not concerned.

*What is told.* A listed origin gets the headers of CORS, with its own name in them; nobody else gets any, and there is
no wildcard. A refusal is a sentence that names the header, its value and the setting, for the body of a 403.

Spec: basic/transports#security-warning; RFC 9110 section 7.2, RFC 6454, https://fetch.spec.whatwg.org/
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

if TYPE_CHECKING:
    from mcp_core.http.messages import Headers, HttpRequest

__all__ = [
    "LOOPBACK_HOSTS",
    "check_allowed",
    "cors_headers",
    "is_loopback",
    "preflight_headers",
    "refusal",
]

LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
"""The names under which a server that listens on the loopback interface is known, with any port."""

_Authority: TypeAlias = tuple[str, int | None]
"""A host, in the one spelling that is compared, and its port; `None` when it is not said."""

_AUTHORITY: Final = re.compile(r"([a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?(?::([0-9]{0,5}))?", re.IGNORECASE | re.ASCII)
_AUTHORITY_IPV6: Final = re.compile(r"\[([0-9a-f:.]+)\](?::([0-9]{0,5}))?", re.IGNORECASE | re.ASCII)
_ORIGIN: Final = re.compile(r"([a-z][a-z0-9+.-]*)://(.+)", re.IGNORECASE | re.ASCII)

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_LONGEST: Final = 300
"""A name in the DNS has 253 characters at most. What is longer is not looked at."""

_ANYWHERE: Final = frozenset({"0.0.0.0", "[::]"})  # noqa: S104 -- it is what is refused
"""Addresses to bind to. A browser that is sent to one of them ends at the loopback interface."""

_FOREIGN_SITES: Final = frozenset({"cross-site", "same-site"})
"""What `Sec-Fetch-Site` says of a page that is not from here. Another port of this machine is `same-site`."""

_ALLOWED_METHODS: Final = "GET, POST, DELETE"
_EXPOSED_HEADERS: Final = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"
_ALLOWED_HEADERS: Final = frozenset({"accept", "authorization", "content-type", "last-event-id"})
_OUR_HEADERS: Final = "mcp-"
"""All that begin so may be sent too: there is one for each designated parameter of a tool."""
_REQUESTED_HEADER: Final = re.compile(r"[a-z0-9!#$%&'*+.^_`|~-]+")
_PREFLIGHT_SECONDS: Final = "600"
"""How long a browser may remember the answer. Without a word it asks again after five seconds."""


@attrs.frozen
class _Rules:
    """What an endpoint allows, ready to be compared."""

    hosts: frozenset[_Authority] | None
    origins: frozenset[tuple[str, _Authority]]


def check_allowed(hosts: tuple[str, ...] | None, origins: tuple[str, ...]) -> None:
    """Makes sure that the two settings can be meant: a mistake has to be found before the first request.

    Args:
        hosts: See `EndpointPolicy.allowed_hosts`.
        origins: See `EndpointPolicy.allowed_origins`.

    Raises:
        ValueError: An entry is no host or origin, or one that must not be allowed; the sentence says which and why.
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
        raise ValueError(f"{setting}: there is no wildcard; None switches the check off")
    # Addresses of IPv6 are taken without brackets too: there is no other meaning.
    found = _authority(f"[{entry}]" if entry.count(":") > 1 and not entry.startswith("[") else entry)
    if found is None:
        raise ValueError(f"{setting} is no host, as 'mcp.example', 'mcp.example:8080' or '[::1]'")
    if found[0] in _ANYWHERE:
        raise ValueError(f"{setting} is an address to listen on; a client never addresses a server so")
    return found


def _listed_origin(entry: str) -> tuple[str, _Authority]:
    setting = f"EndpointPolicy.allowed_origins: {entry!a}"
    if entry in ("*", "null"):
        raise ValueError(f"{setting} would let in any web page; list the origins one by one")
    found = _origin(entry)
    if found is None:
        raise ValueError(f"{setting} is no origin, as 'https://app.example' or 'http://localhost:3000', without a path")
    return found


def _authority(text: str) -> _Authority | None:
    """The host and the port in `text`; `None` when it has something else."""
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
    """The scheme, the host and the port of an origin; a port that its scheme has anyway is always said."""
    parts = _ORIGIN.fullmatch(text)
    authority = None if parts is None else _authority(parts[2])
    if parts is None or authority is None:
        return None
    scheme, (name, port) = parts[1].lower(), authority
    return scheme, (name, _DEFAULT_PORTS.get(scheme) if port is None else port)


def refusal(request: HttpRequest, hosts: tuple[str, ...] | None, origins: tuple[str, ...]) -> str | None:
    """Why `request` must not come in, judged by where it comes from and to whom it is addressed.

    This is for endpoints that programs use. A page that people come to by a link from elsewhere, such as a consent
    page, is visited by `cross-site` requests.

    Args:
        request: The request.
        hosts: See `EndpointPolicy.allowed_hosts`; `None` switches the check of Host off, and with it the protection
            against DNS rebinding.
        origins: See `EndpointPolicy.allowed_origins`.

    Returns:
        `None` when it may. Else a sentence for the body of a 403.

    Raises:
        ValueError: See `check_allowed`.
    """
    rules = _rules(hosts, origins)
    headers = request.headers
    sentence = None if rules.hosts is None else _host_refusal(request, rules.hosts)
    if sentence is not None or not ("origin" in headers or "sec-fetch-site" in headers):
        return sentence
    given = headers.all("origin")
    if len(given) > 1:
        return _sentence("Origin", ", ".join(given), "came more than once", "origins")
    if given:
        origin = _origin(given[0])
        if origin in rules.origins:
            return None
        if origin is None or not _same_authority(origin, headers):
            return _sentence("Origin", given[0], "is neither that of this server nor listed", "origins")
    for site in headers.all("sec-fetch-site"):
        if site.strip().lower() in _FOREIGN_SITES:
            return _sentence("Sec-Fetch-Site", site, "tells of a web page whose origin is not listed", "origins")
    return None


def _host_refusal(request: HttpRequest, allowed: frozenset[_Authority]) -> str | None:
    given = request.headers.all("host")
    if len(given) != 1:
        return _sentence("Host", ", ".join(given), "came more than once" if given else "is missing", "hosts")
    found = _authority(given[0])
    if found is None or not _is_allowed(found, allowed):
        return _sentence("Host", given[0], "is no host" if found is None else "is not allowed", "hosts")
    if not request.target.startswith("/"):
        # The absolute form, meant for proxies. Its host would go before that of the header (RFC 9112 section 3.2.2).
        _, separator, rest = request.target.partition("://")
        addressed = re.split(r"[/?#]", rest, maxsplit=1)[0]
        if separator and _authority(addressed) != found:
            return _sentence("target", request.path, f"names another host than Host {given[0]!a:.80}", "hosts")
    return None


def _is_allowed(found: _Authority, allowed: frozenset[_Authority]) -> bool:
    name, port = found
    if found in allowed or (name, None) in allowed:
        return True
    # Which of the two it stands for, a proxy in front may hide.
    return port is None and any((name, default) in allowed for default in _DEFAULT_PORTS.values())


def _same_authority(origin: tuple[str, _Authority], headers: Headers) -> bool:
    """Whether a page of `origin` is from the host that the request is addressed to, whatever the scheme.

    Behind a proxy that ends TLS the page is from `https`, and this server knows of `http` only.
    """
    scheme, (name, port) = origin
    given = headers.all("host")
    host = _authority(given[0]) if len(given) == 1 else None
    if host is None or host[0] != name:
        return False
    return port == (_DEFAULT_PORTS.get(scheme) if host[1] is None else host[1])


def _sentence(header: str, value: str, problem: str, setting: str) -> str:
    # In ASCII and clipped: it goes to a peer and to a log.
    return f"{header} {value!a:.80} {problem}; the setting is EndpointPolicy.allowed_{setting}"


def _listed(headers: Headers, origins: tuple[str, ...]) -> str | None:
    """The origin of the request exactly as it came, if it is a listed one."""
    given = headers.all("origin")
    if len(given) != 1 or _origin(given[0]) not in _rules(None, origins).origins:
        return None
    return given[0]


def cors_headers(headers: Headers, origins: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """What has to be in a response so that a web page of a listed origin can read it.

    Args:
        headers: Those of the request.
        origins: See `EndpointPolicy.allowed_origins`.

    Returns:
        Headers for the response; none when there is no origin or it is not listed.

    Raises:
        ValueError: See `check_allowed`.
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
    """What a browser is told that asks, with `OPTIONS`, what a web page may send here.

    Args:
        request: The request.
        origins: See `EndpointPolicy.allowed_origins`.

    Returns:
        Headers for an answer 204; `None` when it is no such question, or that of an origin that is not listed.

    Raises:
        ValueError: See `check_allowed`.
    """
    headers = request.headers
    if request.method != "OPTIONS" or "access-control-request-method" not in headers:
        return None
    origin = _listed(headers, origins)
    if origin is None:
        return None
    asked = ",".join(headers.all("access-control-request-headers")).lower().split(",")
    ours = {
        name for name in map(str.strip, asked) if name.startswith(_OUR_HEADERS) and _REQUESTED_HEADER.fullmatch(name)
    }
    return (
        ("access-control-allow-origin", origin),
        ("access-control-allow-methods", _ALLOWED_METHODS),
        ("access-control-allow-headers", ", ".join(sorted(_ALLOWED_HEADERS | ours))),
        ("access-control-max-age", _PREFLIGHT_SECONDS),
        ("vary", "Origin"),
    )


def is_loopback(host: str) -> bool:
    """Whether a server that listens on `host` can be reached from this machine only.

    Args:
        host: A name or an address, with or without brackets. An empty one means all interfaces.
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
