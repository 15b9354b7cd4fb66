"""URLs that came from a peer: which may be followed, and what of them is compared.

A URL in a challenge, in metadata or in a redirect is the word of a stranger. It may lead to a service of the local
network, to a program that takes it for a command, or to a spelling that two programs read differently. So it is read
by a narrow grammar, in ASCII, and everything that needs interpretation is refused: userinfo, backslashes, hosts that
some resolvers take for numbers. TLS is demanded everywhere but on the loopback interface, and that one is entered only
if the MCP server itself is there.

A host that is a name passes here. What it resolves to is judged by `mcp_core.oauth.addresses`, after resolution and for
the connection that is made.

Spec: basic/security_best_practices#server-side-request-forgery; RFC 9700 section 4.18, RFC 8252 section 7.3
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, urlencode

import attrs

from mcp_core.errors import UnsafeUrl
from mcp_core.oauth.addresses import AddressClass, classify, reachable

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Url",
    "canonical_resource",
    "check_browser_url",
    "check_peer_url",
    "check_redirect",
    "networks_of",
    "parse_url",
    "redirect_uri_matches",
    "same_origin",
    "with_query",
]

_LONGEST: Final = 4_096
"""Browsers and servers refuse longer ones sooner or later."""

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?")
_PRINTABLE: Final = re.compile(r"[!-~]+")
_AWKWARD: Final = frozenset('\\"<>^`{|}')
"""Characters that no URL has (RFC 3986), and that browsers and shells read each in their own way."""
_NAME: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\.?")
_NUMBER: Final = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\.?")
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]{0,5}))?")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_ESCAPE: Final = re.compile("%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


@attrs.frozen(kw_only=True)
class Url:
    """An http or https URL, taken apart."""

    text: str
    """As it came."""
    scheme: str
    """`http` or `https`."""
    host: str
    """In lower case, without brackets and without a dot at its end."""
    port: int
    """The port, said or not."""
    path: str
    """As it came, perhaps empty."""
    query: str | None
    """Without the question mark; `None` when there is none."""
    fragment: str | None
    """Without the number sign; `None` when there is none."""

    @property
    def origin(self) -> str:
        """Scheme, host and port, in one spelling."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}")

    @property
    def address(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """The host, if it is an address."""
        try:
            return ipaddress.ip_address(self.host)
        except ValueError:
            return None

    @property
    def is_loopback(self) -> bool:
        """Whether the host is this machine, by its spelling."""
        address = self.address
        if address is not None:
            return classify(address) is AddressClass.LOOPBACK
        return self.host == "localhost" or self.host.endswith(".localhost")

    @property
    def segments(self) -> tuple[str, ...]:
        """The path, with dots resolved and needless escapes undone; what is compared. No empty segment at the end."""
        kept: list[str] = []
        for raw in self.path.split("/")[1:]:
            segment = _ESCAPE.sub(_unescaped, raw)
            if segment == "..":
                del kept[-1:]
            elif segment != ".":
                kept.append(segment)
        while kept and not kept[-1]:
            del kept[-1]
        return tuple(kept)


def _unescaped(found: re.Match[str]) -> str:
    character = chr(int(found[1], 16))
    return character if character in _UNRESERVED else found[0].upper()


def parse_url(text: str, *, what: str) -> Url:
    """Reads an http or https URL.

    Args:
        text: The URL.
        what: What it is meant for, as `token_endpoint`; stands in the error.

    Raises:
        UnsafeUrl: It is none, or is written so that two readers might read two things.
    """
    if len(text) > _LONGEST:
        raise UnsafeUrl(text, f"it has {len(text)} characters, more than {_LONGEST}", what=what)
    if not _PRINTABLE.fullmatch(text) or not _AWKWARD.isdisjoint(text):
        raise UnsafeUrl(text, "it has characters that a URL cannot have", what=what)
    parts = _URL.fullmatch(text)
    if parts is None or parts[1].lower() not in _DEFAULT_PORTS:
        raise UnsafeUrl(text, "it is no absolute http or https URL", what=what)
    scheme, authority = parts[1].lower(), parts[2]
    if "@" in authority:
        raise UnsafeUrl(text, "it has a user or a password before the host", what=what)
    host, port = _host_and_port(authority, text, what)
    return Url(
        text=text,
        scheme=scheme,
        host=host,
        port=_DEFAULT_PORTS[scheme] if port is None else port,
        path=parts[3],
        query=parts[4],
        fragment=parts[5],
    )


def _host_and_port(authority: str, text: str, what: str) -> tuple[str, int | None]:
    found = _AUTHORITY.fullmatch(authority)
    host = "" if found is None else found[1].lower()
    port = int(found[2]) if found is not None and found[2] else None
    if port is not None and not 0 < port < 65_536:
        raise UnsafeUrl(text, f"there is no port {port}", what=what)
    if host.startswith("["):
        try:
            return str(ipaddress.IPv6Address(host[1:-1])), port
        except ValueError:
            raise UnsafeUrl(text, "its host is no IPv6 address", what=what) from None
    if not _NAME.fullmatch(host):
        raise UnsafeUrl(text, "its host is none; a name in another alphabet has to be written as xn--", what=what)
    host = host.removesuffix(".")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        # Resolvers read 127.1, 2130706433 and 0x7f000001 as addresses. Only one spelling of them is taken here.
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise UnsafeUrl(text, "its host looks like an IPv4 address, and is none", what=what) from None
    return host, port


def networks_of(server: Url) -> frozenset[AddressClass]:
    """Which classes of addresses a peer may send us to, as far as the server's own URL tells without resolution."""
    address = server.address
    if address is not None:
        return reachable([address])
    return frozenset({AddressClass.PUBLIC, AddressClass.LOOPBACK}) if server.is_loopback else reachable(())


def check_peer_url(text: str, *, what: str, networks: frozenset[AddressClass]) -> Url:
    """Checks a URL that came from a peer and is to be requested.

    Args:
        text: The URL.
        what: What it is meant for, as `token_endpoint`; stands in the error.
        networks: Classes of addresses that may be reached, see `networks_of` and `mcp_core.oauth.addresses.reachable`.

    Raises:
        UnsafeUrl: It must not be requested.
    """
    url = parse_url(text, what=what)
    if url.fragment is not None:
        raise UnsafeUrl(text, "it has a fragment", what=what)
    if url.scheme != "https" and not url.is_loopback:
        raise UnsafeUrl(text, "it is not https, which only the loopback interface may do without", what=what)
    if url.is_loopback and AddressClass.LOOPBACK not in networks:
        raise UnsafeUrl(text, "it leads to this machine, where the server is not", what=what)
    address = url.address
    if address is not None and classify(address) not in networks:
        text_of_class = classify(address).value
        raise UnsafeUrl(text, f"it leads to a {text_of_class} address, where the server is not", what=what)
    return url


def check_browser_url(text: str, *, what: str = "URL") -> Url:
    """Checks a URL that is about to be shown to a person or given to a browser.

    Raises:
        UnsafeUrl: It is neither https, nor http on the loopback interface.
    """
    url = parse_url(text, what=what)
    if url.scheme != "https" and not url.is_loopback:
        raise UnsafeUrl(text, "it is not https, which only the loopback interface may do without", what=what)
    return url


def check_redirect(source: str, target: str, *, followed: int, networks: frozenset[AddressClass]) -> Url:
    """Whether a GET for a document may follow a redirect: once, and within the origin. A POST never may.

    Args:
        source: The URL that was requested.
        target: `Location`, made absolute.
        followed: How many redirects were followed already.
        networks: See `check_peer_url`.

    Raises:
        UnsafeUrl: It may not.
    """
    url = check_peer_url(target, what="redirect", networks=networks)
    if followed:
        raise UnsafeUrl(target, "it is the second redirect", what="redirect")
    if not same_origin(parse_url(source, what="redirect"), url):
        raise UnsafeUrl(target, "it leads to another origin", what="redirect")
    return url


def same_origin(one: Url, other: Url) -> bool:
    """Whether scheme, host and port are the same, whatever the spelling."""
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def canonical_resource(server: Url) -> str:
    """The identifier of an MCP server as a resource: its URL without a fragment, without a slash alone at its end.

    Spec: basic/authorization#canonical-server-uri
    """
    path = "" if server.path == "/" else server.path
    query = "" if server.query is None else f"?{server.query}"
    return f"{server.origin}{path}{query}"


def with_query(endpoint: Url, parameters: Sequence[tuple[str, str]], *, what: str) -> str:
    """The endpoint with parameters behind those that it has.

    Raises:
        UnsafeUrl: It has one of them already: the authorization server would read one, and we mean the other.
    """
    given = {name for name, _ in parse_qsl(endpoint.query or "", keep_blank_values=True)}
    taken = sorted(given & {name for name, _ in parameters})
    if taken:
        raise UnsafeUrl(endpoint.text, f"its query has {', '.join(taken)} already", what=what)
    joint = "?" if endpoint.query is None else "&" if endpoint.query else ""
    return f"{endpoint.text}{joint}{urlencode(parameters, quote_via=quote, safe='')}"


def redirect_uri_matches(registered: str, used: str) -> bool:
    """Whether a redirect URI is a registered one: the same octets, but for the port on the loopback interface.

    Spec: RFC 8252 section 7.3
    """
    if registered == used:
        return True
    try:
        one, other = parse_url(registered, what="redirect URI"), parse_url(used, what="redirect URI")
    except UnsafeUrl:
        return False
    return (
        one.is_loopback
        and one.fragment is None
        and other.fragment is None
        and (one.scheme, one.host, one.path or "/", one.query)
        == (other.scheme, other.host, other.path or "/", other.query)
    )
