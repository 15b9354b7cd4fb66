"""URLs from peers: the checks before a request, and the comparison of URLs.

A URL in a challenge, in metadata or in a redirect is not trustworthy. It may lead to a service of the local network, to
a program that treats it as a command, or be spelled so that two programs read it differently. Therefore the parser
accepts only a narrow grammar in ASCII, and rejects everything that requires interpretation: user information,
backslashes, hosts that some resolvers treat as numbers. TLS is required except on the loopback interface, and the
loopback interface is allowed only if the MCP server is on it.

A host name passes the checks here. `mcp_core.oauth.addresses` checks the addresses to which it resolves, for the
connection that is made.

Spec: basic/security_best_practices#server-side-request-forgery; RFC 9700 section 4.18, RFC 8252 section 7.3
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, urlencode

import attrs

from mcp_core.errors import UnsafeUrl
from mcp_core.field_methods import FieldValue
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
"""The maximum length of a URL, in characters. Many browsers and servers reject longer URLs."""

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?([^#]*))?(?:#(.*))?")
_PRINTABLE: Final = re.compile(r"[!-~]+")
_AWKWARD: Final = frozenset('\\"<>^`{|}')
"""Characters that are not allowed in a URL (RFC 3986), and that browsers and shells interpret differently."""
_NAME: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*\.?")
_NUMBER: Final = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\.?")
_AUTHORITY: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]{0,5}))?")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_ESCAPE: Final = re.compile("%([0-9A-Fa-f]{2})")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Url(FieldValue):
    """A parsed http or https URL."""

    text: str
    """The URL as received."""
    scheme: str
    """`http` or `https`."""
    host: str
    """The host in lower case, without brackets and without a dot at its end."""
    port: int
    """The port, explicit or by default."""
    path: str
    """The path as received; may be empty."""
    query: str | None
    """The query without the question mark; `None` if it is missing."""
    fragment: str | None
    """The fragment without the number sign; `None` if it is missing."""

    @property
    def origin(self) -> str:
        """Scheme, host and port, normalized."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}")

    @property
    def address(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
        """The host as an address; `None` for a name."""
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
        """The normalized path for comparison: without dot segments, needless escapes, and empty segments at the end."""
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
    """Parse an http or https URL.

    Args:
        text: The URL.
        what: The purpose of the URL, for the error, for example `token_endpoint`.

    Raises:
        UnsafeUrl: The text is not such a URL, or two programs might read it differently.
    """
    if len(text) > _LONGEST:
        raise UnsafeUrl(text, f"it has {len(text)} characters, more than the limit of {_LONGEST}", what=what)
    if not _PRINTABLE.fullmatch(text) or not _AWKWARD.isdisjoint(text):
        raise UnsafeUrl(text, "it contains characters that are not allowed in a URL", what=what)
    parts = _URL.fullmatch(text)
    if parts is None or parts[1].lower() not in _DEFAULT_PORTS:
        raise UnsafeUrl(text, "it is not an absolute http or https URL", what=what)
    scheme, authority = parts[1].lower(), parts[2]
    if "@" in authority:
        raise UnsafeUrl(text, "it contains a user name or a password before the host", what=what)
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
        raise UnsafeUrl(text, f"the port {port} is out of range", what=what)
    if host.startswith("["):
        try:
            return str(ipaddress.IPv6Address(host[1:-1])), port
        except ValueError:
            raise UnsafeUrl(text, "its host is not an IPv6 address", what=what) from None
    if not _NAME.fullmatch(host):
        raise UnsafeUrl(text, "its host is not a valid name; write names in other alphabets as xn--", what=what)
    host = host.removesuffix(".")
    if _NUMBER.fullmatch(host.rpartition(".")[2]):
        # Resolvers read 127.1, 2130706433 and 0x7f000001 as addresses. The parser accepts only the dotted form.
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise UnsafeUrl(text, "its host looks like an IPv4 address, but is invalid", what=what) from None
    return host, port


def networks_of(server: Url) -> frozenset[AddressClass]:
    """Return the classes of addresses that are allowed for URLs from peers, judged by the server's unresolved URL."""
    address = server.address
    if address is not None:
        return reachable([address])
    return frozenset({AddressClass.PUBLIC, AddressClass.LOOPBACK}) if server.is_loopback else reachable(())


def check_peer_url(text: str, *, what: str, networks: frozenset[AddressClass]) -> Url:
    """Check a URL from a peer before a request.

    Args:
        text: The URL.
        what: The purpose of the URL, for the error, for example `token_endpoint`.
        networks: The allowed classes of addresses, see `networks_of` and `mcp_core.oauth.addresses.reachable`.

    Raises:
        UnsafeUrl: The client must not send requests to the URL.
    """
    url = parse_url(text, what=what)
    if url.fragment is not None:
        raise UnsafeUrl(text, "it has a fragment", what=what)
    if url.scheme != "https" and not url.is_loopback:
        raise UnsafeUrl(text, "it is not https, which is required except on the loopback interface", what=what)
    if url.is_loopback and AddressClass.LOOPBACK not in networks:
        raise UnsafeUrl(text, "it leads to this machine, but the server is not on this machine", what=what)
    address = url.address
    if address is not None and classify(address) not in networks:
        text_of_class = classify(address).value
        raise UnsafeUrl(text, f"it leads to a {text_of_class} address, but the server has none", what=what)
    return url


def check_browser_url(text: str, *, what: str = "URL") -> Url:
    """Check a URL before it is shown to a user or opened in a browser.

    Raises:
        UnsafeUrl: The URL is neither https, nor http on the loopback interface.
    """
    url = parse_url(text, what=what)
    if url.scheme != "https" and not url.is_loopback:
        raise UnsafeUrl(text, "it is not https, which is required except on the loopback interface", what=what)
    return url


def check_redirect(source: str, target: str, *, followed: int, networks: frozenset[AddressClass]) -> Url:
    """Check a redirect of a GET for a document. One redirect within the origin is allowed. Never follow one for a POST.

    Args:
        source: The URL of the request.
        target: The absolute URL of `Location`.
        followed: The number of redirects that were already followed.
        networks: The allowed classes of addresses; see `check_peer_url`.

    Raises:
        UnsafeUrl: The redirect must not be followed.
    """
    url = check_peer_url(target, what="redirect", networks=networks)
    if followed:
        raise UnsafeUrl(target, "it is the second redirect", what="redirect")
    if not same_origin(parse_url(source, what="redirect"), url):
        raise UnsafeUrl(target, "it leads to another origin", what="redirect")
    return url


def same_origin(one: Url, other: Url) -> bool:
    """Return whether two URLs have the same scheme, host and port, regardless of spelling."""
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def canonical_resource(server: Url) -> str:
    """Return the resource identifier of an MCP server: its URL without a fragment, and without a path of only a slash.

    Spec: basic/authorization#canonical-server-uri
    """
    path = "" if server.path == "/" else server.path
    query = "" if server.query is None else f"?{server.query}"
    return f"{server.origin}{path}{query}"


def with_query(endpoint: Url, parameters: Sequence[tuple[str, str]], *, what: str) -> str:
    """Append parameters to the query of an endpoint.

    Raises:
        UnsafeUrl: The query has one of the parameters already, and the authorization server might use the wrong value.
    """
    given = {name for name, _ in parse_qsl(endpoint.query or "", keep_blank_values=True)}
    taken = sorted(given & {name for name, _ in parameters})
    if taken:
        raise UnsafeUrl(endpoint.text, f"its query has {', '.join(taken)} already", what=what)
    joint = "?" if endpoint.query is None else "&" if endpoint.query else ""
    return f"{endpoint.text}{joint}{urlencode(parameters, quote_via=quote, safe='')}"


def redirect_uri_matches(registered: str, used: str) -> bool:
    """Return whether a redirect URI is registered: the same octets, except for the port on the loopback interface.

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
