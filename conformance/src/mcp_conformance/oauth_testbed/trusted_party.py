"""A party over https that an authorization server under test trusts.

It is an issuer of workload identities, an identity provider of an enterprise, and the host of Client ID Metadata
Documents. Its key is new in each run, so that an authorization server has to fetch it.
"""

from __future__ import annotations

import json
import secrets
import ssl
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import attrs
from joserfc import jws
from joserfc.jwk import ECKey

from mcp_conformance.oauth_testbed.changed_members import changed
from mcp_conformance.wire.http_server import open_http_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_conformance.oauth_testbed.changed_members import Changes
    from mcp_conformance.wire.http_server import ServerExchange
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["OTHER_WORKLOAD", "PLAIN", "PartyOptions", "TrustedParty", "open_party"]

PLAIN: Final = "/plain"
"""The path of an issuer whose keys are published without TLS."""
OTHER_WORKLOAD: Final = "conformance-other-workload"
"""The subject of a workload that gets no token."""

_JSON: Final = (("Content-Type", "application/json"),)
_WELLS: Final = ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")
_LIFETIME: Final = 300
"""Seconds for which a JWT is valid."""


@attrs.frozen(kw_only=True)
class PartyOptions:
    """The address of the party, and what the authorization server lets it do."""

    certificate: str
    """The PEM file of the certificate for `localhost`."""
    key: str
    """The PEM file of its private key."""
    port: int
    """The port."""
    workload: str | None = None
    """The subject of a workload that may have tokens; `None`: workload identities are not tested."""
    client: str | None = None
    """The client of an enterprise, with the keys of the party; `None`: enterprise grants are not tested."""
    resource: str | None = None
    """The MCP server for which tokens are requested; `None`: the first one in the metadata."""


class TrustedParty:
    """The party.

    Args:
        options: The options.
        plain: The URL of its server without TLS.
    """

    def __init__(self, options: PartyOptions, plain: str) -> None:
        self.options: Final = options
        self.url: Final = f"https://localhost:{options.port}"
        """The issuer, and the origin of the documents."""
        self.documents: Final[dict[str, bytes]] = {}
        """Client ID Metadata Documents, by path."""
        self.missing: Final[set[str]] = set()
        """The paths of documents that are sent with the status 404."""
        self.fetched: Final[list[str]] = []
        """The paths that were requested over https."""
        self.metadata: JsonObject | None = None
        """The metadata of the authorization server; `None` before they are requested."""
        self.plain_url: Final = plain
        """The URL of its server without TLS, which has the same documents."""
        self._kid: Final = secrets.token_hex(8)
        self._keys: Final = {name: ECKey.generate_key("P-256") for name in ("own", "plain", "unknown")}

    def jwt(
        self, claims: Changes, *, header: Changes | None = None, issuer: str | None = None, key: str = "own"
    ) -> str:
        """Return a signed JWT.

        Args:
            claims: Claims besides `iss`, `iat`, `exp` and `jti`, or other values for them, or without a value.
            header: Members of the header besides `alg`, `kid` and `typ`, or other values for them, or without a value.
            issuer: The issuer in place of the party's own.
            key: The key: `own`, `plain`, which is published without TLS, or `unknown`.
        """
        now = int(time.time())
        whole: JsonObject = {
            "iss": issuer or self.url,
            "iat": now,
            "exp": now + _LIFETIME,
            "jti": secrets.token_urlsafe(16),
        }
        members = changed({"alg": "ES256", "kid": self._kid, "typ": "JWT"}, header)
        return jws.serialize_compact(members, json.dumps(changed(whole, claims)), self._keys[key])

    async def handle(self, incoming: ServerExchange) -> None:
        """Respond to a request over https."""
        self.fetched.append(incoming.path)
        if incoming.path in self.documents:
            status = 404 if incoming.path in self.missing else 200
            await incoming.respond(status, _JSON, self.documents[incoming.path])
        elif incoming.path == "/jwks":
            await incoming.respond(200, _JSON, self._key_set("own"))
        elif any(incoming.path == well for well in _WELLS):
            await incoming.respond(200, _JSON, _metadata(self.url, f"{self.url}/jwks"))
        elif any(incoming.path in (f"{well}{PLAIN}", f"{PLAIN}{well}") for well in _WELLS):
            await incoming.respond(200, _JSON, _metadata(f"{self.url}{PLAIN}", f"{self.plain_url}/jwks"))
        else:
            await incoming.respond(404)

    async def handle_plain(self, incoming: ServerExchange) -> None:
        """Respond to a request without TLS."""
        await incoming.respond(200, _JSON, self.documents.get(incoming.path) or self._key_set("plain"))

    def public_key(self, name: str) -> JsonObject:
        """Return a key, as `jwt` names it, without its private part."""
        return {member: str(value) for member, value in self._keys[name].as_dict(private=False).items()}

    def _key_set(self, name: str) -> bytes:
        return json.dumps(
            {"keys": [{**self.public_key(name), "kid": self._kid, "alg": "ES256", "use": "sig"}]}
        ).encode()


def _metadata(issuer: str, keys: str) -> bytes:
    return json.dumps({"issuer": issuer, "jwks_uri": keys}).encode()


@asynccontextmanager
async def open_party(options: PartyOptions) -> AsyncIterator[TrustedParty]:
    """Serve the party on the loopback interface while the block runs.

    Raises:
        OSError: The port is not free, or the certificate cannot be read.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(options.certificate, options.key)
    parties: list[TrustedParty] = []

    async def handle(incoming: ServerExchange) -> None:
        await parties[0].handle(incoming)

    async def handle_plain(incoming: ServerExchange) -> None:
        await parties[0].handle_plain(incoming)

    async with open_http_server(handle_plain) as plain:
        parties.append(TrustedParty(options, f"http://localhost:{plain}"))
        async with open_http_server(handle, port=options.port, tls=context):
            yield parties[0]
