"""Classes of IP addresses: the check where a URL from a peer may lead, after its name was resolved.

The classes are those of the special-purpose registries (RFC 6890) and of the metadata services of clouds. This module
has its own table, because the properties of `ipaddress` differ between releases of Python. An address that embeds
another address (IPv4-mapped, NAT64, 6to4) has the class of the embedded address.

The rule: public addresses are allowed. Loopback, private, shared and link-local addresses are allowed only if the MCP
server has an address of the same class. Metadata services, multicast and all others are never allowed.
"""

from __future__ import annotations

import enum
import ipaddress
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Address", "AddressClass", "classify", "reachable"]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
"""An address to which a name resolved."""


class AddressClass(enum.Enum):
    """The purpose of an address."""

    PUBLIC = "public"
    """An address on the Internet."""
    LOOPBACK = "loopback"
    """This machine."""
    PRIVATE = "private"
    """A private network: RFC 1918, unique local addresses."""
    SHARED = "shared"
    """Behind carrier-grade NAT (RFC 6598); overlay networks use the range too."""
    LINK_LOCAL = "link-local"
    """The same network link."""
    METADATA = "cloud metadata"
    """A service that gives credentials to every process on this machine."""
    MULTICAST = "multicast"
    """A group of hosts."""
    UNSPECIFIED = "unspecified"
    """0.0.0.0 and its network: connections to it reach this machine."""
    RESERVED = "reserved"
    """Documentation, benchmarks, tunnels, and unassigned addresses."""


_NEVER_ELSEWHERE: Final = frozenset(
    {AddressClass.LOOPBACK, AddressClass.PRIVATE, AddressClass.SHARED, AddressClass.LINK_LOCAL}
)
"""Classes that are allowed only for a server in the same class."""

_CLASSES: Final[tuple[tuple[AddressClass, tuple[str, ...]], ...]] = (
    # Before the networks that contain them. 168.63.129.16 is a public address.
    (
        AddressClass.METADATA,
        (
            "169.254.169.254/32", "169.254.169.253/32", "169.254.169.123/32", "169.254.170.2/32", "169.254.170.23/32",
            "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32",
            "fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128", "fe80::a9fe:a9fe/128",
        ),
    ),
    (AddressClass.LOOPBACK, ("127.0.0.0/8", "::1/128")),
    (AddressClass.UNSPECIFIED, ("0.0.0.0/8", "::/128")),
    (AddressClass.PRIVATE, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "64:ff9b:1::/48")),
    (AddressClass.SHARED, ("100.64.0.0/10",)),
    (AddressClass.LINK_LOCAL, ("169.254.0.0/16", "fe80::/10")),
    (AddressClass.MULTICAST, ("224.0.0.0/4", "ff00::/8")),
    (
        AddressClass.RESERVED,
        (
            "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
            "240.0.0.0/4", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10",
        ),
    ),
    (AddressClass.PUBLIC, ("0.0.0.0/0", "2000::/3")),
    (AddressClass.RESERVED, ("::/0",)),
)  # fmt: skip

_TABLE: Final = tuple(
    (ipaddress.ip_network(network), address_class) for address_class, networks in _CLASSES for network in networks
)

_CARRIERS: Final = (
    (ipaddress.IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped
    (ipaddress.IPv6Network("::ffff:0:0:0/96"), 0),  # IPv4-translated
    (ipaddress.IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (ipaddress.IPv6Network("2002::/16"), 80),  # 6to4
)
"""Networks whose addresses embed an IPv4 address, and the number of bits after it."""

_COMPATIBLE: Final = ipaddress.IPv6Network("::/96")
"""IPv4-compatible addresses, deprecated. `::` and `::1` are in this network, but do not embed an address."""


def classify(address: Address) -> AddressClass:
    """Return the class of an address, or of the address embedded in it."""
    carried = _carried(address)
    if carried is not None:
        return classify(carried)
    return next(found for network, found in _TABLE if address.version == network.version and address in network)


def _carried(address: Address) -> ipaddress.IPv4Address | None:
    if isinstance(address, ipaddress.IPv4Address):
        return None
    bits = int(address)
    for network, behind in _CARRIERS:
        if address in network:
            return ipaddress.IPv4Address(bits >> behind & 0xFFFF_FFFF)
    return ipaddress.IPv4Address(bits) if address in _COMPATIBLE and bits > 1 else None


def reachable(server: Iterable[Address]) -> frozenset[AddressClass]:
    """Return the classes that are allowed for URLs from a peer.

    Args:
        server: All addresses to which the name of the MCP server resolved.

    Returns:
        The public class, and the class of the server if it allows others of its class. For a server with addresses in
        several classes, only the public class: a name with public and private addresses indicates an attack.
    """
    classes = {classify(address) for address in server}
    own = classes & _NEVER_ELSEWHERE if len(classes) == 1 else set()
    return frozenset({AddressClass.PUBLIC, *own})
