"""JWT client assertions, which authenticate a client instead of a secret (`private_key_jwt`).

Spec: RFC 7523 section 2.2 and 3, RFC 7521 section 4.2; MCP extension io.modelcontextprotocol/oauth-client-credentials
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_core.oauth.jws import base64url, sign

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonObject
    from mcp_core.oauth.jws import Signer

__all__ = ["ASSERTION_TYPE", "client_assertion"]

ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
"""The value of `client_assertion_type`."""

_SECONDS: Final = 120
"""Validity of an assertion, in seconds: enough for one request, and for clocks that differ by a minute."""

_ID_BYTES: Final = 16


def client_assertion(
    client_id: str, *, audience: str, signer: Signer, now: float, random_bytes: Callable[[int], bytes]
) -> str:
    """Create a client assertion for one request.

    Args:
        client_id: The id of the client.
        audience: The issuer of the authorization server. If the audience were the token endpoint, another authorization
            server that names the same endpoint could replay the assertion.
        signer: The client's key, whose public key the authorization server knows.
        now: Seconds since the epoch.
        random_bytes: Returns the given number of unpredictable bytes.
    """
    issued = int(now)
    claims: JsonObject = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "iat": issued,
        "exp": issued + _SECONDS,
        "jti": base64url(random_bytes(_ID_BYTES)),
    }
    key_id = signer.jwk.get("kid")
    return sign(claims, signer, header={"typ": "JWT"} | ({} if key_id is None else {"kid": key_id}))
