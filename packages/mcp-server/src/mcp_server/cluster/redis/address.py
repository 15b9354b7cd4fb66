"""The address of Redis: one server, servers behind Sentinel, or a Redis Cluster, with the credentials and certificates.

    redis://user:password@host:port/database
    redis+sentinel://user:password@host:port,host:port/service/database
    redis+cluster://user:password@host:port,host:port

`rediss` in place of `redis` encrypts the connections. The query has the files of the certificates: `ca`, `cert` and
`key`. With Sentinel, `sentinel_user` and `sentinel_password` are the credentials for the sentinels themselves.
"""

from __future__ import annotations

import enum
import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs

from mcp_core.field_methods import FieldValue
from mcp_server.stores.sessions import StoreError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Credentials", "Endpoint", "RedisAddress", "Topology"]

_PORT: Final = 6379
_SENTINEL_PORT: Final = 26379

_EXAMPLE: Final = "redis://user:password@host:6379/0"


class Topology(enum.Enum):
    """The relation between the servers of a deployment."""

    SERVER = "standalone"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


@attrs.frozen(order=True)
class Endpoint:
    """The host and port of one server."""

    host: str
    """The name or the IP address of the host."""
    port: int
    """The port."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@attrs.frozen(eq=False, repr=False)
class Credentials(FieldValue):
    """The name and password of a user. Neither is shown in logs and errors."""

    user: str = attrs.field(default="", repr=False)
    """The ACL user; empty for the default user."""
    password: str = attrs.field(default="", repr=False)
    """The password; empty without authentication."""

    @property
    def arguments(self) -> tuple[bytes, ...]:
        """The arguments of `HELLO` that authenticate the connection; empty without a password."""
        if not self.password and not self.user:
            return ()
        return (b"AUTH", (self.user or "default").encode(), self.password.encode())


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RedisAddress(FieldValue):
    """A parsed URL."""

    topology: Topology
    """How the servers belong together."""
    endpoints: tuple[Endpoint, ...]
    """The server, the sentinels, or some nodes of the Redis Cluster."""
    service: str = ""
    """The name under which the sentinels know the servers."""
    database: int = 0
    """The number of the database."""
    credentials: Credentials = attrs.field(repr=False)
    """The credentials for the servers."""
    sentinel_credentials: Credentials = attrs.field(repr=False)
    """The credentials for the sentinels."""
    tls: ssl.SSLContext | None = attrs.field(default=None, repr=False)
    """The settings of encrypted connections; `None` if connections are not encrypted."""

    def __str__(self) -> str:
        places = ",".join(map(str, self.endpoints))
        return f"{places}/{self.service}" if self.service else places

    @classmethod
    def parse(cls, url: str) -> RedisAddress:
        """Return the address that a URL states.

        Args:
            url: The URL.

        Raises:
            StoreError: The URL is not valid, or a certificate cannot be read. The message does not contain the URL,
                because a URL can contain a password.
        """
        scheme, topology = _scheme(url)
        try:
            parts = urlsplit(url)
            options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        except ValueError:
            raise StoreError(f"the URL of Redis cannot be parsed: write it as in {_EXAMPLE}") from None
        known = {"ca", "cert", "key"} | ({"sentinel_user", "sentinel_password"} if "sentinel" in scheme else set())
        for name in options.keys() - known:
            raise StoreError(
                f"the URL of Redis has the unknown parameter {name!r}: it may have {', '.join(sorted(known))}"
            )
        credentials, hosts = _credentials(parts.netloc)
        port = _SENTINEL_PORT if topology is Topology.SENTINEL else _PORT
        endpoints = tuple([_endpoint(each, port) for each in hosts.split(",")])
        if topology is Topology.SERVER and len(endpoints) > 1:
            raise StoreError(
                "the URL of Redis names several hosts: begin it with redis+sentinel:// or redis+cluster://"
            )
        service, database = _path(unquote(parts.path), topology)
        return cls(
            topology=topology,
            endpoints=endpoints,
            service=service,
            database=database,
            credentials=credentials,
            sentinel_credentials=Credentials(options.get("sentinel_user", ""), options.get("sentinel_password", "")),
            tls=_tls(scheme, options),
        )


def _scheme(url: str) -> tuple[str, Topology]:
    scheme = url.partition("://")[0].lower()
    kind, _, topology = scheme.partition("+")
    known = {"": Topology.SERVER, "sentinel": Topology.SENTINEL, "cluster": Topology.CLUSTER}
    if "://" not in url or kind not in ("redis", "rediss") or topology not in known:
        raise StoreError(
            f"the URL of Redis must begin with redis:// or rediss://, or with one of these followed by +sentinel or "
            f"+cluster, for example {_EXAMPLE}"
        )
    return scheme, known[topology]


def _credentials(netloc: str) -> tuple[Credentials, str]:
    user, at, hosts = netloc.rpartition("@")
    if not at:
        return Credentials(), hosts
    name, _, password = user.partition(":")
    return Credentials(unquote(name), unquote(password)), hosts


def _endpoint(text: str, port: int) -> Endpoint:
    try:
        parts = urlsplit(f"//{text}")
        host, found = parts.hostname, parts.port
    except ValueError:
        host = found = None
    if not host:
        raise StoreError(f"the URL of Redis has no valid host and port: write it as in {_EXAMPLE}")
    return Endpoint(host, port if found is None else found)


def _path(path: str, topology: Topology) -> tuple[str, int]:
    parts = path.strip("/").split("/")
    service = parts.pop(0) if topology is Topology.SENTINEL else ""
    if topology is Topology.SENTINEL and not service:
        raise StoreError("the URL of Redis lacks the service name: write it as in redis+sentinel://host:26379/mymaster")
    text = parts.pop(0) if parts else ""
    if parts or (text and not text.isdecimal()) or (text.strip("0") and topology is Topology.CLUSTER):
        raise StoreError(
            "the path of the URL of Redis must be the number of a database, after the service name of Sentinel; "
            "a Redis Cluster has only database 0"
        )
    return service, int(text or 0)


def _tls(scheme: str, options: Mapping[str, str]) -> ssl.SSLContext | None:
    if not scheme.startswith("rediss"):
        if options.keys() & {"ca", "cert", "key"}:
            raise StoreError("the URL of Redis names certificates but not TLS: begin it with rediss")
        return None
    ca, cert, key = (options.get(name) or None for name in ("ca", "cert", "key"))
    if key and not cert:
        raise StoreError("the URL of Redis names a key without a certificate: add the parameter cert")
    try:
        context = ssl.create_default_context(cafile=ca)
        if cert:
            context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        raise StoreError(
            f"the certificates for Redis cannot be read: {error}; the parameters ca, cert and key name files in PEM format"
        ) from error
    return context
