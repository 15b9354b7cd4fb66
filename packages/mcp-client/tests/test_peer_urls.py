"""URLs that a server or its authorization server names, with a host in the network of the client.

The internet of these tests is a resolver, and one TLS server behind `PUBLIC_ADDRESS`. Connections are made on loopback
sockets; the address of each is recorded.
"""

from __future__ import annotations

import ast
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, Literal

import attrs
import pytest
import trio
import trustme
from auth_testbed import AuthTestbed, FakeUserAgent, call, oauth
from fake_http_server import ReceivedRequest, Reply, serving

import mcp_client
import mcp_core.trio
from mcp_client import HttpOptions, open_http
from mcp_core.errors import McpError
from mcp_core.jsonrpc.messages import JsonObject

AddressInfo = (
    tuple[Literal[socket.AddressFamily.AF_INET], socket.SocketKind, int, str, tuple[str, int]]
    | tuple[
        Literal[socket.AddressFamily.AF_INET6],
        socket.SocketKind,
        int,
        str,
        tuple[str, int, int, int] | tuple[int, bytes],
    ]
)
"""An entry of the result of `getaddrinfo`."""

PUBLIC_ADDRESS: Final = "93.184.216.34"
SERVER: Final = "https://mcp.example/mcp"
DOCUMENT: Final = "/.well-known/oauth-protected-resource/mcp"
METADATA: Final = "/.well-known/oauth-authorization-server"

INNER_ADDRESSES: Final = (
    ["127.0.0.1"], ["::1"], ["0.0.0.0"], ["10.0.0.1"], ["fd12::1"], ["100.64.0.1"], ["169.254.169.254"], ["::ffff:127.0.0.1"],
    ["64:ff9b::7f00:1"], ["64:ff9b::a9fe:a9fe"], ["2002:7f00:1::"], [PUBLIC_ADDRESS, "10.0.0.1"], ["10.0.0.1", PUBLIC_ADDRESS],
)  # fmt: skip
"""The addresses that an attacker's name resolves to."""

INNER_HOSTS: Final = (
    "localhost", "localhost.", "x.localhost", "127.0.0.1", "127.0.0.1.", "127.1", "0177.0.0.1", "2130706433", "0x7f000001", "0", "0.0.0.0",
    "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "10.0.0.1", "169.254.169.254", "[fd00:ec2::254]", "2852039166",
)  # fmt: skip
"""Hosts that need no resolution, or that some resolvers take for addresses."""

PLACES: Final = (
    "challenge", "resource metadata", "redirect of the resource metadata", "redirect of the server metadata", "registration_endpoint",
    "token_endpoint", "revocation_endpoint", "redirect of the registration", "redirect of the token", "redirect of the MCP server",
)  # fmt: skip
"""The places where a peer names a URL that the client may request. The application gets the URLs of icons, resources, skills and elicitations."""


@attrs.define
class AttackTestbed(AuthTestbed):
    """A server and an authorization server that name one URL of an attacker."""

    place: str = ""
    named_url: str = ""

    async def answer(self, request: ReceivedRequest, reply: Reply) -> None:
        path = request.target
        redirects = {
            "redirect of the resource metadata": DOCUMENT,
            "redirect of the server metadata": METADATA,
            "redirect of the registration": "/register",
            "redirect of the token": "/token",
            "redirect of the MCP server": "/mcp",
        }
        if redirects.get(self.place) == path:
            await reply.body(307, headers={"Location": f"{self.named_url}/x"})
        elif self.place == "challenge" and path == "/mcp":
            await reply.body(
                401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{self.named_url}{DOCUMENT}"'}
            )
        elif self.place == "resource metadata" and path == DOCUMENT:
            await reply.json({"resource": self.url, "authorization_servers": [self.named_url]})
        elif path == METADATA:
            metadata: JsonObject = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "registration_endpoint": f"{self.issuer}/register",
                "revocation_endpoint": f"{self.issuer}/revoke",
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }
            if self.place in metadata:
                metadata[self.place] = f"{self.named_url}/x"
            await reply.json(metadata)
        else:
            await super().answer(request, reply)


@attrs.define
class Internet(trio.abc.HostnameResolver):
    """A resolver of names, and a route to the one server."""

    testbed: AttackTestbed
    tls: ssl.SSLContext
    names: dict[str, list[list[str]]] = attrs.field(factory=dict)
    connected_addresses: list[tuple[str, int]] = attrs.field(factory=list)

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[AddressInfo]:
        assert host is not None
        answers = self.names.get(host.decode().rstrip("."), [[PUBLIC_ADDRESS]])
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        assert isinstance(port, int)
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0))
            if ":" in address
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in addresses
        ]

    async def getnameinfo(self, sockaddr: tuple[str, int] | tuple[str, int, int, int], flags: int) -> tuple[str, str]:
        raise AssertionError

    async def log_in(self) -> None:
        """Connect, log in, call a tool, and log out, as far as possible."""
        user_agent = FakeUserAgent(self.testbed)
        auth = oauth(self.testbed, user_agent)
        async with open_http(SERVER, auth=auth, http=HttpOptions(tls=self.tls, proxies=False)) as client:
            await call(client)
        await auth.log_out(SERVER, tls=self.tls, proxies=False)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def internet(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Internet]:
    trusting, context = ssl.create_default_context(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.configure_trust(trusting)
    authority.issue_cert(*(f"{name}.example" for name in ("mcp", "inner", "moving"))).configure_cert(context)
    net = Internet(AttackTestbed(), trusting)
    real = trio.open_tcp_stream
    before = trio.socket.set_custom_hostname_resolver(net)
    try:
        async with serving(net.testbed.answer, tls=context) as server:
            port_of_server = int(server.url.rpartition(":")[2].removesuffix("/mcp"))
            net.testbed.origin, net.testbed.url = "https://mcp.example", SERVER

            async def connect(host: str, port: int) -> trio.SocketStream:
                found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                address = str(found[0][4][0])
                net.connected_addresses.append((address, port))
                if address != PUBLIC_ADDRESS:
                    raise OSError(111, "Connection refused")
                stream = await real("127.0.0.1", port_of_server)
                monkeypatch.setattr(stream.socket, "getpeername", lambda: (PUBLIC_ADDRESS, port))
                return stream

            monkeypatch.setattr("trio.open_tcp_stream", connect)
            yield net
    finally:
        trio.socket.set_custom_hostname_resolver(before)


async def test_login_with_public_names_succeeds(internet: Internet) -> None:
    await internet.log_in()
    assert internet.testbed.revoked
    assert set(internet.connected_addresses) == {(PUBLIC_ADDRESS, 443)}


@pytest.mark.spec("security.ssrf-considered", "security.block-private-ranges")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("addresses", INNER_ADDRESSES, ids=",".join)
async def test_named_url_resolving_to_inner_address_not_requested(
    place: str, addresses: list[str], internet: Internet
) -> None:
    internet.names["inner.example"] = [addresses]
    internet.testbed.place, internet.testbed.named_url = place, "https://inner.example"
    with pytest.raises(McpError):
        await internet.log_in()
    assert set(internet.connected_addresses) == {(PUBLIC_ADDRESS, 443)}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("scheme", "host"), [("http", "localhost"), ("http", "127.0.0.1"), *(("https", each) for each in INNER_HOSTS)]
)
async def test_named_url_with_inner_host_not_requested(place: str, scheme: str, host: str, internet: Internet) -> None:
    internet.names[host.rstrip(".")] = [["127.0.0.1"]]
    internet.testbed.place, internet.testbed.named_url = place, f"{scheme}://{host}:9200"
    with pytest.raises(McpError):
        await internet.log_in()
    assert set(internet.connected_addresses) == {(PUBLIC_ADDRESS, 443)}


@pytest.mark.parametrize("place", PLACES)
async def test_server_name_rebound_once_allows_no_inner_address(place: str, internet: Internet) -> None:
    # The MCP connection, the resolution of the name for the login, and later ones.
    internet.names["mcp.example"] = [[PUBLIC_ADDRESS], ["127.0.0.1"], [PUBLIC_ADDRESS]]
    internet.names["localhost"] = [["127.0.0.1"]]
    internet.testbed.place, internet.testbed.named_url = place, "http://localhost:9200"
    with pytest.raises(McpError):
        await internet.log_in()
    # Only the server's own origin may be requested at the rebound address.
    assert set(internet.connected_addresses) <= {(PUBLIC_ADDRESS, 443), ("127.0.0.1", 443)}


# --- calls that make connections -------------------------------------------------------------------------------------

REACHING: Final = {
    "auth/fetch.py": {"GuardedFetch": 1, "resolve_addresses": 1},
    "auth/login.py": {"open_fetch": 1},
    "auth/loopback.py": {"open_tcp_listeners": 2},
    "auth/revocation.py": {"open_fetch": 1},
    "cli/auth_diagnosis.py": {"open_fetch": 1},
    "connectors/http.py": {"HttpPool": 1},
    "trio/guarded_fetch.py": {"HttpPool": 1, "getaddrinfo": 1, "open_tcp_stream": 1, "resolve_addresses": 1},
    "trio/http_client/addresses.py": {"open_tcp_stream": 1},
}
"""The calls of each module that resolve a name, listen, or make a connection. `connectors/http.py` requests the URL of the user,
and `GuardedFetch` the URLs of peers. A new call needs a row in `PLACES`, unless the user gives the URL."""

NETWORK_CALLS: Final = frozenset({
    "GuardedFetch", "HttpPool", "open_fetch", "resolve_addresses", "getaddrinfo", "gethostbyname", "open_tcp_stream", "open_ssl_over_tcp_stream", "open_tcp_listeners",
    "connect_tcp", "create_connection", "open_connection", "urlopen", "HTTPConnection", "HTTPSConnection", "AsyncClient", "ClientSession",
    "AsyncConnectionPool", "ConnectionPool",
})  # fmt: skip


def test_network_calls_all_known() -> None:
    client, shared = Path(mcp_client.__file__).parent, Path(mcp_core.trio.__file__).parent
    found: dict[str, dict[str, int]] = {}
    for path in [*client.rglob("*.py"), *shared.rglob("*.py")]:
        names = Counter[str]()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                names[name] += name in NETWORK_CALLS
        if +names:
            folder = client if path.is_relative_to(client) else shared.parent
            found[path.relative_to(folder).as_posix()] = dict(+names)
    assert found == REACHING
