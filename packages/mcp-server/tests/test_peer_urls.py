"""URLs that peers name, with host names that resolve to internal addresses: no request is sent there.

The Internet of these tests is a resolver, and one TLS server behind the address `PUBLIC_ADDRESS`. Connections are made
to loopback sockets; the intended address of each is recorded.
"""

from __future__ import annotations

import ast
import ipaddress
import json
import secrets
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final, Literal

import pytest
import trio
import trustme
from auth_keys import EC, token
from authorization_testbed import WEB, Key, open_testbed

import mcp_server
from mcp_core.errors import McpError
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.limits.rates import Rate
from mcp_core.oauth.addresses import AddressClass
from mcp_core.oauth.assertions import ASSERTION_TYPE, client_assertion
from mcp_core.oauth.metadata import read_authorization_server
from mcp_server.asgi import Receive, Scope, Send
from mcp_server.auth import JwtTokens
from mcp_server.auth.authorization_server import Delegation, RegistrationPolicy
from mcp_server.auth.authorization_server.pages.delegation import _Provider
from mcp_server.auth.fetch import fetch
from mcp_server.host.embedded import HttpHost
from mcp_server.host.listeners import listen

Entry = (
    tuple[Literal[socket.AddressFamily.AF_INET], socket.SocketKind, int, str, tuple[str, int]]
    | tuple[
        Literal[socket.AddressFamily.AF_INET6],
        socket.SocketKind,
        int,
        str,
        tuple[str, int, int, int] | tuple[int, bytes],
    ]
)
"""One address in the result of `getaddrinfo`."""

PUBLIC_ADDRESS: Final = "93.184.216.34"
PUBLIC: Final = frozenset({AddressClass.PUBLIC})
OPEN: Final = RegistrationPolicy(fetches=Rate(1000))

INTERNAL: Final = (
    ["127.0.0.1"], ["::1"], ["0.0.0.0"], ["::"], ["10.0.0.1"], ["192.168.1.1"], ["fd12::1"], ["100.64.0.1"], ["169.254.1.1"],
    ["fe80::1%1"], ["169.254.169.254"], ["fd00:ec2::254"], ["168.63.129.16"], ["::ffff:127.0.0.1"], ["::ffff:10.0.0.1"],
    ["64:ff9b::7f00:1"], ["64:ff9b::a9fe:a9fe"], ["2002:7f00:1::"], ["::ffff:0:10.0.0.1"], ["::10.0.0.1"], ["224.0.0.1"],
    [PUBLIC_ADDRESS, "10.0.0.1"], ["10.0.0.1", PUBLIC_ADDRESS], ["127.0.0.1", "::1"],
)  # fmt: skip
"""The addresses of an attacker's name."""

SPELLINGS: Final = (
    "localhost", "localhost.", "LOCALHOST", "x.localhost", "127.0.0.1", "127.0.0.1.", "127.1", "0177.0.0.1", "2130706433", "0x7f000001",
    "0x7f.1", "0", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[::]", "10.0.0.1", "012.0.0.1",
    "169.254.169.254", "[fd00:ec2::254]", "2852039166", "[0:0:0:0:0:ffff:a9fe:a9fe]",
)  # fmt: skip
"""Hosts that need no resolution, or that some resolvers treat as addresses."""


class Internet(trio.abc.HostnameResolver):
    """A resolver, and a server that responds for all names at its address."""

    def __init__(self) -> None:
        self.names: Final[dict[str, list[list[str]]]] = {}
        self.documents: Final[dict[str, JsonObject]] = {}
        self.redirects: Final[dict[str, str]] = {}
        self.connected: Final[list[str]] = []
        self.requests: Final[list[str]] = []
        self.port = 0

    async def getaddrinfo(
        self,
        host: bytes | None,
        port: bytes | str | int | None,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[Entry]:
        assert host is not None
        answers = self.names.get(host.decode().rstrip("."), [[PUBLIC_ADDRESS]])
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        return [entry(address, int(port or 0)) for address in found]

    async def getnameinfo(self, sockaddr: object, flags: int) -> tuple[str, str]:
        raise AssertionError

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])  # type: ignore[call-overload]  # the types of ASGI are broad
        url = f"https://{headers[b'host'].decode()}{scope['path']}"
        self.requests.append(url)
        status, more = (200, []) if url not in self.redirects else (302, [(b"location", self.redirects[url].encode())])
        await send({"type": "http.response.start", "status": status, "headers": more})
        await send({"type": "http.response.body", "body": json.dumps(self.documents.get(url, {})).encode()})


def entry(address: str, port: int) -> Entry:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, 6, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def internet(authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Internet]:
    testbed = Internet()

    real = trio.open_tcp_stream

    async def connect(host: str, port: int, *, local_address: str | None = None) -> trio.SocketStream:
        if port not in (80, 443):
            return await real(host, port)  # a request of the test to the authorization server
        testbed.connected.append(host)
        if host != PUBLIC_ADDRESS:
            raise OSError(111, "Connection refused")
        return await real("127.0.0.1", testbed.port)

    trusting, context = ssl.create_default_context(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.configure_trust(trusting)
    authority.issue_cert(*(f"{name}.example" for name in ("app", "as", "op", "inner", "moving"))).configure_cert(
        context
    )
    monkeypatch.setattr("mcp_server.auth.fetch._tls", lambda: trusting)
    monkeypatch.setattr("trio.open_tcp_stream", connect)
    listeners = await listen("127.0.0.1:0")
    testbed.port = listeners[0].socket.getsockname()[1]
    before = trio.socket.set_custom_hostname_resolver(testbed)
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(HttpHost(testbed.app, tls=context).run, listeners)
            yield testbed
            nursery.cancel_scope.cancel()
    finally:
        trio.socket.set_custom_hostname_resolver(before)


# --- the URLs ---------------------------------------------------------------------------------------------------------


async def metadata_document(internet: Internet, url: str) -> None:
    """Use a client id that is a URL."""
    async with open_testbed(policy=OPEN) as testbed:
        assert (await testbed.authorize(client_id=f"{url}/client.json")).status == 400
        assert (await testbed.redeem("x", client_id=f"{url}/client.json")).error == "invalid_client"


async def keys_of_a_client(internet: Internet, url: str) -> None:
    """Use the keys that a client's metadata document names."""
    client = "https://app.example/client.json"
    internet.documents[client] = {
        "client_id": client,
        "client_name": "Reader",
        "redirect_uris": [WEB],
        "token_endpoint_auth_method": "private_key_jwt",
        "jwks_uri": f"{url}/jwks",
    }
    async with open_testbed(policy=OPEN) as testbed:
        assertion = client_assertion(
            client, audience=testbed.url, signer=Key(), now=testbed.clock(), random_bytes=secrets.token_bytes
        )
        form = {"grant_type": "authorization_code", "code": "x", "redirect_uri": WEB, "code_verifier": "x" * 43}
        reply = await testbed.post(
            "/token", form | {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
        )
        assert reply.error == "invalid_client"
    assert internet.requests[:1] == [client]


async def keys_of_an_issuer(internet: Internet, url: str) -> None:
    """Use the keys that the metadata of a configured authorization server name."""
    issuer = "https://as.example"
    internet.documents[f"{issuer}/.well-known/oauth-authorization-server"] = metadata_of(issuer, jwks_uri=f"{url}/jwks")
    with pytest.raises(McpError):
        await JwtTokens(issuer).verify(token(EC, iss=issuer))
    assert internet.requests


async def keys_of_a_provider(internet: Internet, url: str) -> None:
    """Use the keys that the metadata of an OpenID provider name."""
    issuer = "https://op.example"
    metadata = read_authorization_server(metadata_of(issuer, jwks_uri=f"{url}/jwks"))
    with pytest.raises(McpError):
        await Delegation(issuer, client_id="ours")._verified(metadata, token(EC, iss=issuer))


async def token_endpoint_of_a_provider(internet: Internet, url: str) -> None:
    """Use the token endpoint that the metadata of an OpenID provider name."""
    issuer = "https://op.example"
    provider = _Provider(
        metadata=read_authorization_server(metadata_of(issuer, token_endpoint=f"{url}/token")),
        token_endpoint=f"{url}/token",
    )
    with pytest.raises(McpError):
        await Delegation(issuer, client_id="ours", client_secret="s" * 40)._id_token(provider, "code", "v" * 43, WEB)


async def redirect_of_a_document(internet: Internet, url: str) -> None:
    """Follow a redirect to a document."""
    internet.redirects["https://as.example/document"] = f"{url}/x"
    with pytest.raises(McpError):
        await fetch("https://as.example/document", networks=PUBLIC)
    assert internet.requests == ["https://as.example/document"]


def metadata_of(issuer: str, **more: str) -> JsonObject:
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "response_types_supported": ["code"],
        **more,
    }


NAMED_BY_PEERS: Final[tuple[Callable[[Internet, str], Awaitable[None]], ...]] = (
    metadata_document,
    keys_of_a_client,
    keys_of_an_issuer,
    keys_of_a_provider,
    token_endpoint_of_a_provider,
    redirect_of_a_document,
)

each_url = pytest.mark.parametrize("use", NAMED_BY_PEERS, ids=lambda use: use.__name__)


@pytest.mark.spec("auth.cimd-as-ssrf", "security.block-private-ranges", "security.ssrf-considered")
@each_url
@pytest.mark.parametrize("addresses", INTERNAL, ids=",".join)
async def test_peer_url_with_internal_address_not_requested(
    use: Callable[[Internet, str], Awaitable[None]], addresses: list[str], internet: Internet
) -> None:
    internet.names["inner.example"] = [addresses]
    await use(internet, "https://inner.example")
    assert set(internet.connected) <= {PUBLIC_ADDRESS}
    assert not any("inner.example" in url for url in internet.requests)


@each_url
@pytest.mark.parametrize(
    ("scheme", "host"), [("http", "localhost"), ("http", "127.0.0.1"), *(("https", each) for each in SPELLINGS)]
)
async def test_peer_url_spelled_as_internal_address_not_requested(
    use: Callable[[Internet, str], Awaitable[None]], scheme: str, host: str, internet: Internet
) -> None:
    internet.names[host.rstrip(".").lower()] = [["127.0.0.1"]]
    await use(internet, f"{scheme}://{host}")
    assert set(internet.connected) <= {PUBLIC_ADDRESS}


@each_url
async def test_peer_url_rebound_to_internal_address_requested_at_checked_address(
    use: Callable[[Internet, str], Awaitable[None]], internet: Internet
) -> None:
    internet.names["moving.example"] = [[PUBLIC_ADDRESS], ["127.0.0.1"], [PUBLIC_ADDRESS], ["10.0.0.1"]]
    await use(internet, "https://moving.example")
    assert set(internet.connected) <= {PUBLIC_ADDRESS}


async def test_internal_issuer_may_name_urls_in_its_network(internet: Internet) -> None:
    internet.names.update(
        {"as.example": [["10.0.0.1"]], "keys.example": [["10.0.0.2"]], "other.example": [["127.0.0.1"]]}
    )
    for host, connects in (("keys", True), ("other", False)):
        provider = Delegation("https://as.example", client_id="ours")
        metadata = read_authorization_server(metadata_of("https://as.example", jwks_uri=f"https://{host}.example/jwks"))
        with pytest.raises(McpError):
            await provider._verified(metadata, token(EC, iss="https://as.example"))
        assert bool(internet.connected) is connects
        internet.connected.clear()


# --- calls that open connections --------------------------------------------------------------------------------------

REACHING: Final = {
    "auth/fetch.py": {"fetch": 1, "GuardedFetch": 1, "resolve_addresses": 1},
    "auth/introspection.py": {"fetch_json": 1},
    "auth/jwt.py": {"fetch_json": 2},
    "auth/authorization_server/pages/delegation.py": {"fetch": 2},
    "auth/authorization_server/clients/documents.py": {"fetch": 1},
    "cli/observability.py": {"getaddrinfo": 1},
    "cluster/redis/pipeline.py": {"open_tcp_stream": 1},
    "host/listeners.py": {"getaddrinfo": 1, "open_tcp_listeners": 1},
}
"""The calls that resolve a name, listen, or make a connection, by module. `auth.fetch` makes all connections to URLs of peers. A new
call needs a row in `NAMED_BY_PEERS`, unless the author of the server supplies the URL.
"""

NETWORK_CALLS: Final = frozenset({
    "GuardedFetch", "HttpPool", "resolve_addresses", "fetch", "fetch_json", "getaddrinfo", "gethostbyname", "open_tcp_stream", "open_ssl_over_tcp_stream", "open_tcp_listeners",
    "connect", "connect_tcp", "create_connection", "open_connection", "urlopen", "AsyncConnectionPool", "ConnectionPool", "TrioBackend",
    "HTTPConnection", "HTTPSConnection", "AsyncClient", "ClientSession",
})  # fmt: skip


def network_calls(folder: Path) -> dict[str, dict[str, int]]:
    """Return the calls of `NETWORK_CALLS` in each module of a package, except those of sqlite."""
    found: dict[str, dict[str, int]] = {}
    for path in sorted(folder.rglob("*.py")):
        names = Counter[str]()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in NETWORK_CALLS and "sqlite3" not in ast.unparse(node.func):
                names[name] += 1
        if names:
            found[path.relative_to(folder).as_posix()] = dict(names)
    return found


def test_network_calls_are_known() -> None:
    assert network_calls(Path(mcp_server.__file__).parent) == REACHING


def test_internal_addresses_are_not_public() -> None:
    from mcp_core.oauth.addresses import classify

    for addresses in INTERNAL:
        classes = {classify(ipaddress.ip_address(each.partition("%")[0])) for each in addresses}
        assert classes - PUBLIC
