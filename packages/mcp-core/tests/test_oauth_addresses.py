"""Classes of network addresses, including disguised ones, and the classes that a peer may name."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.oauth.addresses import AddressClass, classify, reachable

ADDRESSES = {
    AddressClass.PUBLIC: ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "192.0.1.1"],
    AddressClass.LOOPBACK: ["127.0.0.1", "127.255.1.2", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"],
    AddressClass.PRIVATE: [
        "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fdab::1", "::ffff:10.1.2.3",
        "2002:c0a8:101::5", "::ffff:0:10.0.0.1", "64:ff9b:1::1", "::10.0.0.1",
    ],
    AddressClass.SHARED: ["100.64.0.1", "100.127.255.255"],
    AddressClass.LINK_LOCAL: ["169.254.1.1", "fe80::1", "::ffff:169.254.9.9"],
    AddressClass.METADATA: [
        "169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254", "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "fd20:ce::254",
    ],
    AddressClass.MULTICAST: ["224.0.0.1", "239.255.255.250", "ff02::1"],
    AddressClass.UNSPECIFIED: ["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"],
    AddressClass.RESERVED: [
        "240.0.0.1", "255.255.255.255", "192.0.2.1", "198.51.100.1", "203.0.113.9", "198.18.0.1", "192.0.0.8",
        "2001:db8::1", "2001::1", "100::1", "fec0::1", "4000::1", "192.88.99.1",
    ],
}  # fmt: skip


@pytest.mark.spec("security.block-private-ranges")
@pytest.mark.parametrize(
    ("address", "expected"), [(address, kind) for kind, addresses in ADDRESSES.items() for address in addresses]
)
def test_address_class_of_embedded_address(address: str, expected: AddressClass) -> None:
    assert classify(ipaddress.ip_address(address)) is expected


@pytest.mark.spec("security.block-private-ranges", "security.ssrf-considered")
@pytest.mark.parametrize(
    ("server", "expected"),
    [
        ([], set()),
        (["8.8.8.8"], set()),
        (["127.0.0.1", "::1"], {AddressClass.LOOPBACK}),
        (["10.0.0.1", "192.168.0.1"], {AddressClass.PRIVATE}),
        (["100.64.0.1"], {AddressClass.SHARED}),
        (["fe80::1"], {AddressClass.LINK_LOCAL}),
        (["169.254.169.254"], set()),
        (["224.0.0.1"], set()),
        (["0.0.0.0"], set()),
        (["8.8.8.8", "10.0.0.1"], set()),
        (["127.0.0.1", "10.0.0.1"], set()),
    ],
)
def test_reachable_classes_public_and_class_of_server(server: list[str], expected: set[AddressClass]) -> None:
    assert reachable(ipaddress.ip_address(each) for each in server) == {AddressClass.PUBLIC, *expected}


@pytest.mark.property
@given(st.ip_addresses(v=4))
def test_embedded_ipv4_address_determines_class(embedded: ipaddress.IPv4Address) -> None:
    expected = classify(embedded)
    bits = int(embedded)
    for address in (
        f"::ffff:{embedded}",
        f"64:ff9b::{embedded}",
        str(ipaddress.IPv6Address(0x2002 << 112 | bits << 80 | 5)),
    ):
        assert classify(ipaddress.ip_address(address)) is expected


@pytest.mark.property
@given(st.ip_addresses())
def test_public_class_excludes_special_addresses(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if classify(address) is AddressClass.PUBLIC:
        assert not address.is_loopback
        assert not address.is_multicast
        assert not address.is_unspecified
        assert not address.is_link_local
