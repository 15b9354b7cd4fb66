"""Principal: the authenticated user or program of a request.

A subject is unique only at its issuer, and two clients of one user are two principals that must not access each other's
sessions. Therefore issuer, subject and client together are the identity.

Spec: basic/security_best_practices#session-hijacking; RFC 9068 section 2.2, RFC 7519 section 4.1.2
"""

from __future__ import annotations

import json

import attrs

from mcp_core.field_methods import FieldValue

__all__ = ["Principal"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Principal(FieldValue):
    """An authenticated user or program."""

    issuer: str | None = None
    """The issuer of the token; `None` if this server authenticated the principal by other means."""
    subject: str
    """The name of the principal at the issuer: `sub`."""
    client_id: str | None = None
    """The client that acts for the subject; `None` if unknown."""
    key: str = attrs.field(init=False, repr=False, eq=False)
    """Issuer, subject and client in one string. Sessions, tasks and all other handles are bound to it. Different
    principals have different keys."""

    @key.default
    def _key(self) -> str:
        # A JSON array: different values cannot produce the same text, and a shared store can read it.
        return json.dumps([self.issuer, self.subject, self.client_id], separators=(",", ":"))

    @classmethod
    def of_key(cls, key: str) -> Principal:
        """Return the principal of a `key`.

        Raises:
            ValueError: The text is not a key.
        """
        match json.loads(key):
            case [str() | None as issuer, str() as subject, str() | None as client_id]:
                return cls(issuer=issuer, subject=subject, client_id=client_id)
        raise ValueError("not the key of a principal: expected a JSON array of issuer, subject and client")
