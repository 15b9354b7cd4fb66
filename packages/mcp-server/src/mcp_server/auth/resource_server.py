"""The resource server: authorization of requests to an MCP endpoint by access tokens and scopes.

Spec: basic/authorization; RFC 6750, RFC 9728, RFC 9449
"""

from __future__ import annotations

import logging
import math
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson
import trio

from mcp_core.excerpts import shown
from mcp_core.oauth.access_token import LEEWAY, AccessToken, InvalidToken, check_access_token
from mcp_core.oauth.dpop import DPOP
from mcp_core.oauth.dpop_verification import AcceptedProof, InvalidProof, NonceIssuer, ProofCheck, ProofReplayed
from mcp_core.oauth.protected_resource import (
    AccessDenial,
    Credentials,
    DpopUse,
    ProtectedResource,
    bearer_token,
    check_scopes,
)
from mcp_core.oauth.signatures import VERIFIED_ALGORITHMS
from mcp_core.trio.async_library import allow_asyncio, call_in
from mcp_server.auth.keys import JoseVerifier
from mcp_server.auth.scopes import Scopes
from mcp_server.auth.tokens import TokensUnavailable
from mcp_server.connection.authenticator import INTERNAL, Identity
from mcp_server.stores.sessions import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_core.codec import Batch
    from mcp_core.http.messages import HttpRequest
    from mcp_core.jsonrpc.messages import Message
    from mcp_core.trio.async_library import AsyncLibrary
    from mcp_server.auth.tokens import TokenVerifier
    from mcp_server.cluster import ReplayStore

__all__ = ["ResourceServer"]

_log: Final = logging.getLogger("mcp_server")


class ResourceServer:
    """An authenticator that requires access tokens, for `serve_http(server, auth=...)` and `server.asgi(auth=...)`.

    Args:
        resource: The URL of the MCP endpoint, as clients know it. Tokens must be issued for exactly this URL.
        authorization_servers: The issuers whose tokens are accepted.
        tokens: The verifier of access tokens: `JwtTokens`, `Introspection`, the `tokens` of an `AuthorizationServer`,
            or another object with their method.
        scopes: The scopes that requests need.
        dpop: Whether tokens bound to a key are accepted. `required`: only these. `off`: none of these.
        dpop_nonces: The key of the nonces: 32 secret bytes, the same in all processes of this server. If given, each
            DPoP proof needs a nonce, so that proofs cannot be prepared in advance.
        name: The name of this server, for display to users.
        documentation: The URL of a page for developers.
        clock: A function that returns the time in seconds since the epoch.

    Raises:
        TypeError: `authorization_servers` is a string.
        ValueError: An argument is invalid.
        UnsafeUrl: A URL is neither https nor on this machine, so tokens must not be sent to it.
    """

    def __init__(
        self,
        resource: str,
        *,
        authorization_servers: Iterable[str],
        tokens: TokenVerifier,
        scopes: Scopes | None = None,
        dpop: DpopUse = "accepted",
        dpop_nonces: bytes | None = None,
        name: str | None = None,
        documentation: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if isinstance(authorization_servers, str):
            raise TypeError(f"authorization_servers must be a list, not a string: [{authorization_servers!r}]")
        self.scopes: Final = scopes or Scopes()
        """The scopes that requests need."""
        self.protected: Final = ProtectedResource(
            resource,
            authorization_servers=authorization_servers,
            scopes=self.scopes.base,
            dpop=dpop,
            algorithms=VERIFIED_ALGORITHMS,
            name=name,
            documentation=documentation,
        )
        """The protected resource metadata of this server, and the responses that deny access."""
        check_scopes(self.scopes.all)
        self._tokens: Final = tokens
        self._library: Final[AsyncLibrary | None] = getattr(tokens, "async_library", None)
        self._clock: Final = clock
        self.replays: ReplayStore | None = None
        """The accepted DPoP proofs of all workers. The server sets it if it has a cluster; `None`: each process has its
        own."""
        self._proofs: Final = ProofCheck(
            JoseVerifier(), nonces=None if dpop_nonces is None else NonceIssuer(dpop_nonces)
        )

    def __repr__(self) -> str:
        return f"<ResourceServer {self.protected.resource}>"

    @property
    def documents(self) -> dict[str, bytes]:
        """The metadata document, by the paths at which it is served, from the root of the host.

        If another application mounts the server below a path, the server does not receive requests for these paths.
        The other application must then serve the document.
        """
        document = orjson.dumps(self.protected.metadata.to_json())
        return dict.fromkeys(self.protected.metadata_paths, document)

    @allow_asyncio
    async def authenticate(self, http: HttpRequest, *, before_message: bool = False) -> Identity | AccessDenial:
        """Authenticate the sender of a request by the header fields.

        Args:
            http: The request.
            before_message: Whether `check` follows, with the message in the body. If the scopes depend on the message, it
                then also requires those that every request needs.
        """
        try:
            credentials = bearer_token(http.headers.all("authorization"))
        except ValueError as bad:
            return self.protected.request_invalid(str(bad))
        if credentials is None or credentials.scheme not in self.protected.schemes:
            return self.protected.token_missing()
        try:
            token = await call_in(self._library, partial(self._tokens.verify, credentials.token))
            now = self._clock()
            proof = self._check(token, credentials, http, now)
            if proof is not None and self.replays is not None and not await self.replays.take(proof.id, proof.seconds):
                raise ProofReplayed
        except InvalidToken as bad:
            return self._invalid(credentials, bad)
        except InvalidProof as bad:
            return self.protected.proof_invalid(bad)
        except (StoreError, TokensUnavailable) as failed:
            _log.warning("access token not verified: %s", failed)
            return self.protected.unavailable()
        except Exception:  # noqa: BLE001 -- the author's verifier may raise anything; hidden from the client
            _log.exception("authentication failed for %s %s", http.method, shown(http.path))
            return INTERNAL
        scopes = self.scopes.granted(token.scopes)
        # One challenge should name all scopes that an operation needs (basic/authorization#runtime-insufficient-scope-errors).
        early = not (before_message and self.scopes.depend_on_message)
        if early and not scopes.issuperset(self.protected.scopes):
            return self.protected.scope_insufficient(credentials.scheme, ())
        rest = math.inf if token.expires_at is None else token.expires_at + LEEWAY - now
        return Identity(
            principal=token.principal, scopes=scopes, scheme=credentials.scheme, until=trio.current_time() + rest
        )

    def check(
        self, identity: Identity, message: Message | Batch, names: Callable[[str], Iterable[str]]
    ) -> AccessDenial | None:
        """Check whether the scopes of a request permit a message.

        Args:
            identity: The sender of the request.
            message: The message.
            names: A function that returns the resources and templates that match a URI, see `Scopes.needed`.

        Returns:
            The denial, or `None` if the scopes are sufficient.
        """
        needed = self.scopes.needed(message, names)
        if identity.scopes.issuperset((*self.protected.scopes, *needed)):
            return None
        return self.protected.scope_insufficient(identity.scheme, needed)

    def _invalid(self, credentials: Credentials, why: InvalidToken) -> AccessDenial:
        scheme = DPOP if isinstance(why, _Bound) else credentials.scheme
        return self.protected.token_invalid(scheme, why)

    def _check(
        self, token: AccessToken, credentials: Credentials, http: HttpRequest, now: float
    ) -> AcceptedProof | None:
        """Check the claims of a token and its proof of possession. Return the proof, if the token needs one.

        Raises:
            InvalidToken: The token is invalid.
            InvalidProof: The proof is invalid.
        """
        protected = self.protected
        check_access_token(token, resource=protected.resource, issuers=protected.authorization_servers, now=now)
        if credentials.scheme != DPOP:
            if token.confirmation is not None:
                raise _Bound("the access token is bound to a key: prove possession of the key with DPoP")
            return None
        if token.confirmation is None:
            raise InvalidToken("the access token is not bound to a key")
        # The URLs that the client may have used: a proxy may have changed the path, and `Host` is untrusted input.
        urls = (protected.resource, f"{protected.url.origin}{http.path}")
        proof = self._proofs.check(
            http.headers.all("dpop"), method=http.method, urls=urls, now=now, access_token=credentials.token
        )
        if proof.key != token.confirmation:
            raise InvalidToken("the access token is bound to another key")
        return proof


class _Bound(InvalidToken):
    """The error for a token bound to a key that was sent without a DPoP proof."""
