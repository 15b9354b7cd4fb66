"""A real signing key, for tests that verify signatures."""

from __future__ import annotations

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.oauth.jws import base64url


class EcKey:
    """A signer with a key on the curve P-256."""

    algorithm = "ES256"

    def __init__(self) -> None:
        self._key = ec.derive_private_key(0x5EED, ec.SECP256R1())
        numbers = self._key.public_key().public_numbers()
        x, y = (base64url(each.to_bytes(32, "big")) for each in (numbers.x, numbers.y))
        self.jwk: JsonObject = {"kty": "EC", "crv": "P-256", "x": x, "y": y}

    def sign(self, data: bytes) -> bytes:
        r, s = decode_dss_signature(self._key.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")
