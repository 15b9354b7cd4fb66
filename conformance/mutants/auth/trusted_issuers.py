"""The trust of the raw authorization server in another issuer, and in documents of clients, with its faults."""

from __future__ import annotations

import json
import ssl
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import trustme

from mcp_conformance.drivers.server.targets import free_port
from mcp_conformance.oauth_testbed.client_jwts import read_jwt
from mcp_conformance.oauth_testbed.http_messages import json_object
from mcp_conformance.oauth_testbed.trusted_party import PLAIN, PartyOptions
from mcp_conformance.wire.http_client import Endpoint
from mcp_conformance.wire.transcript import Transcript
from mutants.client.fetch import texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.oauth_testbed.client_jwts import Jwt
    from mcp_core.jsonrpc.messages import JsonObject

__all__ = ["JWT_BEARER", "NotTrusted", "RawTrust", "make_party"]

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLIENT: Final = "conformance-enterprise-client"
_WORKLOAD: Final = "conformance-workload"
_RESOURCE: Final = "https://mcp.example/mcp"
_ID_JAG: Final = "oauth-id-jag+jwt"
_WELL: Final = "/.well-known/openid-configuration"
_CLIENT_FAULTS: Final = ("any-client-assertion", "any-client-assertion-audience", "takes-expired-client-assertion")
"""The faults by which a client authenticates for an ID-JAG with another key, for another audience, or too late."""
_KNOWN: Final = {
    *("client_id", "client_name", "redirect_uris", "grant_types", "response_types", "token_endpoint_auth_method"),
    "dpop_bound_access_tokens",
}
"""The members of documents that a fault knows."""
_MACHINE_FAULTS: Final = ("any-machine-assertion", "any-machine-assertion-audience", "takes-expired-machine-assertion")
"""The same for client credentials."""


class NotTrusted(Exception):
    """The rejection of a JWT or document; the only argument is the error code."""


@contextmanager
def make_party() -> Iterator[tuple[PartyOptions, ssl.SSLContext]]:
    """Make a certificate for a party of the suite, for a block.

    Yields:
        The options of the party, and the context of a client that trusts its certificate.
    """
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with TemporaryDirectory() as folder:
        certificate, key = Path(folder, "certificate.pem"), Path(folder, "key.pem")
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)
        options = PartyOptions(
            certificate=str(certificate),
            key=str(key),
            port=free_port(),
            workload=_WORKLOAD,
            client=_CLIENT,
            resource=_RESOURCE,
        )
        yield options, context


class RawTrust:
    """The trust in one party.

    Args:
        fault: The fault, or `None`.
        issuer: The URL of the authorization server.
        port: The port of the party.
        context: Trusts the certificate of the party.
    """

    def __init__(self, fault: str | None, issuer: str, port: int, context: ssl.SSLContext) -> None:
        self._fault: Final = fault
        self._issuer: Final = issuer
        self._party: Final = f"https://localhost:{port}"
        self._context: Final = context
        self.bound: Final[set[str]] = set()
        """The clients whose documents demand tokens that are bound to a key."""
        self._fetched: Final[dict[str, JsonObject]] = {}
        self._misnamed: Final[set[str]] = set()
        """The URLs of documents with another client_id, for a fault that validates a document only once."""

    async def grant(self, fields: dict[str, str]) -> JsonObject:
        """Return the token response for a JWT.

        Raises:
            NotTrusted: The JWT is rejected.
        """
        if fields.get("grant_type") == "client_credentials":
            return await self._of_machine(fields)
        assertion, fault = fields.get("assertion", ""), self._fault
        named = str(_claims(assertion).get("iss"))
        trusted = {self._party, f"{self._party}{PLAIN}"}
        if fault == "http-issuer":
            named = named.replace("http:", "https:")
        if named not in trusted:
            untyped = _part(assertion, 0).get("typ") != _ID_JAG
            if fault != "any-issuer" and (untyped or fault != "any-jag-issuer"):
                raise NotTrusted("invalid_grant")
            named = self._party
        header_key = _part(assertion, 0).get("jwk")
        is_jag = _part(assertion, 0).get("typ") == _ID_JAG
        takes_key = fault == ("key-in-jag" if is_jag else "key-in-jwt")
        own_key = header_key if takes_key and isinstance(header_key, dict) else None
        jwt = read_jwt(assertion, own_key or await self._key(named))
        header = _part(assertion, 0) if jwt is None else jwt.header
        claims = _claims(assertion) if jwt is None else jwt.claims
        unsigned = fault == "unsigned-jwt" and assertion.endswith(".")
        if jwt is None and fault != "any-signature" and not unsigned:
            raise NotTrusted("invalid_grant")
        begins = claims.get("nbf", 0)
        if fault != ("early-jag" if is_jag else "early-jwt") and isinstance(begins, int) and begins > time.time():
            raise NotTrusted("invalid_grant")
        endless = fault == ("endless-jag" if is_jag else "endless-jwt") and "exp" not in claims
        ends = int(time.time()) + 60 if endless else claims.get("exp")
        if not isinstance(ends, int) or (ends < time.time() and fault != "takes-expired-jwt"):
            raise NotTrusted("invalid_grant")
        anonymous = fault == "client-unauthenticated" and header.get("typ") == _ID_JAG
        if "client_assertion" in fields or anonymous:
            return await self._of_employee(fields, header, claims)
        right = {
            "any-jwt-audience": claims.get("aud") == f"{self._issuer}/token"
            or (fault == "jwt-audience-optional" and "aud" not in claims)
            or (fault == "jwt-audiences-unchecked" and bool(claims.get("aud")) and isinstance(claims["aud"], list)),
            "any-workload": claims.get("sub") == _WORKLOAD
            or (fault == "workload-by-end" and str(claims.get("sub")).endswith(_WORKLOAD))
            or (fault == "workload-without-case" and str(claims.get("sub")).lower() == _WORKLOAD),
        }
        return self._token(fields.get("resource"), right)

    async def _of_machine(self, fields: dict[str, str]) -> JsonObject:
        given = fields.get("client_assertion", "")
        if not self._authenticates(read_jwt(given, await self._key(self._party)), given, machine=True):
            raise NotTrusted("invalid_client")
        return self._token(fields.get("resource"), {})

    async def _of_employee(self, fields: dict[str, str], header: JsonObject, claims: JsonObject) -> JsonObject:
        fault, given = self._fault, fields.get("client_assertion")
        if given is not None and not self._authenticates(read_jwt(given, await self._key(self._party)), given):
            raise NotTrusted("invalid_client")
        right = {
            "any-typ": header.get("typ") == _ID_JAG or (fault == "typ-optional" and "typ" not in header),
            "jag-subject-optional": isinstance(claims.get("sub"), str),
            "any-jag-audience": claims.get("aud") == self._issuer
            or (fault == "jag-audience-optional" and "aud" not in claims)
            or (fault == "jag-audience-token-endpoint" and claims.get("aud") == f"{self._issuer}/token")
            or (fault == "jag-audience-among-others" and self._issuer in texts(claims.get("aud")))
            or (fault == "jag-audiences-unchecked" and bool(claims.get("aud")) and isinstance(claims["aud"], list)),
            "any-jag-client": claims.get("client_id") == fields.get("client_id") == _CLIENT
            or (fault == "jag-client-optional" and not claims.get("client_id")),
        }
        resource = "https://other.example/mcp" if fault == "jag-token-elsewhere" else claims.get("resource")
        if fault == "jag-token-for-form":
            resource = fields.get("resource", resource)
        return self._token(str(resource), right)

    def _authenticates(self, proof: Jwt | None, given: str, *, machine: bool = False) -> bool:
        """Return whether a JWT authenticates the client, for an ID-JAG or for client credentials."""
        claims, fault = _claims(given) if proof is None else proof.claims, self._fault
        ends, begins, own = claims.get("exp"), claims.get("nbf", 0), _MACHINE_FAULTS if machine else _CLIENT_FAULTS
        return (
            (proof is not None or fault == own[0])
            and (claims.get("iss"), claims.get("sub")) == (_CLIENT, _CLIENT)
            and (claims.get("aud") == self._issuer or fault == own[1])
            and ((isinstance(ends, int) and ends > time.time()) or fault == own[2])
            and isinstance(begins, int)
            and begins <= time.time()
        )

    def _token(self, resource: str | None, right: dict[str, bool]) -> JsonObject:
        if not all(good or self._fault == fault for fault, good in right.items()):
            raise NotTrusted("invalid_grant")
        parts: tuple[JsonObject, ...] = ({"alg": "none"}, {"aud": resource}, {})
        token = ".".join(urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in parts)
        return {"access_token": token, "token_type": "Bearer", "expires_in": 600}

    async def _key(self, issuer: str) -> JsonObject:
        """Return the key of an issuer."""
        place = str((await self._fetch(f"{issuer}{_WELL}")).get("jwks_uri"))
        if not place.startswith("https:") and self._fault != "keys-over-http":
            raise NotTrusted("invalid_grant")
        keys = (await self._fetch(place)).get("keys")
        first = keys[0] if isinstance(keys, list) else None
        return first if isinstance(first, dict) else {}

    async def redirect_uris(self, client_id: str) -> list[str]:
        """Return the redirect URIs in the document of a client.

        Raises:
            NotTrusted: The document is rejected.
        """
        if not client_id.startswith((f"{self._party}/", *(("http:",) if self._fault == "document-over-http" else ()))):
            raise NotTrusted("invalid_client")
        if self._fault == "documents-unread":
            return [""]
        document, fault = await self._fetch(client_id), self._fault
        if document.get("dpop_bound_access_tokens") is True and fault != "binding-in-documents-ignored":
            self.bound.add(client_id)
        named = document.get("client_id")
        near = {
            "document-id-by-beginning": isinstance(named, str) and client_id.startswith(named),
            "document-id-without-case": isinstance(named, str) and client_id.lower() == named.lower(),
            "document-id-without-query": isinstance(named, str) and client_id == named.partition("?")[0],
            "document-id-in-list": isinstance(named, list) and client_id in named,
            # The document is in a cache before it is validated.
            "document-id-verified-once": client_id in self._misnamed,
        }
        if named != client_id:
            self._misnamed.add(client_id)
        if named != client_id and fault not in ("any-document-id", "any-document") and not near.get(fault or ""):
            raise NotTrusted("invalid_client")
        unnamed = not document.get("client_name") and not (fault == "null-name" and "client_name" in document)
        if unnamed and fault not in ("nameless-document", "any-document"):
            raise NotTrusted("invalid_client")
        if fault == "unknown-members-refused" and document.keys() - _KNOWN:
            raise NotTrusted("invalid_client")
        listed = document.get("redirect_uris")
        if fault == "any-document" and not isinstance(listed, list):
            return [""]
        if fault == "redirect-uris-as-text" and isinstance(listed, str):
            return [listed]
        if isinstance(listed, list) or (fault == "redirect-uris-as-object" and isinstance(listed, dict)):
            return [str(each) for each in listed]
        return []

    async def _fetch(self, url: str) -> JsonObject:
        """Return the JSON object at a URL, empty for something else. It is fetched once."""
        if url not in self._fetched:
            async with Endpoint(url, self._context).exchange(Transcript(), "GET") as exchange:
                answer = await exchange.answer()
                read = answer.status == 200 or self._fault == "document-of-any-status"
                self._fetched[url] = (json_object(answer.body) if read else None) or {}
        return self._fetched[url]


def _part(token: str, index: int) -> JsonObject:
    parts = token.split(".")
    try:
        return json_object(urlsafe_b64decode(parts[index] + "=" * (-len(parts[index]) % 4))) or {}
    except (ValueError, IndexError):
        return {}


def _claims(token: str) -> JsonObject:
    return _part(token, 1)
