"""Who asks: the person or program on whose behalf a request came, as the resource server knows it.

A subject is unique at its issuer only, and two clients of one person are two parties that must not reach into each
other's sessions: all three together are the identity.

Spec: basic/security_best_practices#session-hijacking; RFC 9068 section 2.2, RFC 7519 section 4.1.2
"""

from __future__ import annotations

import json

import attrs

__all__ = ["Principal"]


@attrs.frozen(kw_only=True)
class Principal:
    """An authenticated party."""

    issuer: str | None = None
    """Who vouches for it: the issuer of its token. `None`: this server itself, by a means of its own."""
    subject: str
    """Its name there: `sub`."""
    client_id: str | None = None
    """The client that asks in its name; `None` where that is not known."""
    key: str = attrs.field(init=False, repr=False, eq=False)
    """The three in one string, to which sessions, tasks and all other handles are bound. Equal for equal principals only."""

    @key.default
    def _key(self) -> str:
        # A JSON array: no choice of issuer and subject can look like another one, and a shared store can read it.
        return json.dumps([self.issuer, self.subject, self.client_id], separators=(",", ":"))

    @classmethod
    def of_key(cls, key: str) -> Principal:
        """The principal of a `key`.

        Raises:
            ValueError: It is none.
        """
        match json.loads(key):
            case [str() | None as issuer, str() as subject, str() | None as client_id]:
                return cls(issuer=issuer, subject=subject, client_id=client_id)
        raise ValueError("a principal's key is an array of issuer, subject and client")
