"""The keys that seal request states and cursors, shared by all workers and replaced from time to time.

The first worker creates the first key. A key seals for a day. The next one is then created, and the previous one still
unseals for a day, which is longer than a state or a cursor is valid.

A new key does not seal at once, because the other workers do not know it yet: each of them asks for the keys every ten
seconds. A server that lost its data receives the keys that its workers have, so that states remain valid.
"""

from __future__ import annotations

import base64
import secrets
from typing import TYPE_CHECKING, Final

from mcp_server.cluster.redis.scripts import script

if TYPE_CHECKING:
    from mcp_server.cluster.protocol import ClusterReceiver
    from mcp_server.cluster.redis.connection import RedisConnection
    from mcp_server.cluster.redis.key_table import KeyNames

__all__ = ["SealingKeys"]

_KEY_BYTES: Final = 32

LOOK_SECONDS: Final = 10.0
"""Time between two looks at the keys, in seconds."""

_QUIET: Final = 3 * LOOK_SECONDS
"""Age at which a key begins to seal, in seconds."""

ROTATION: Final = 86_400
OVERLAP: Final = 86_400
"""Time for which a key seals, and for which it unseals after that, in seconds. A state is valid for
`InputPolicy.seconds`, 10 minutes by default, and a cursor for an hour."""


class SealingKeys:
    """The keys, as one worker knows them.

    Args:
        connection: The connection to Redis.
        names: The names of the keys in Redis.
        rotation: The time for which a key seals, in seconds.
        overlap: The time for which a key unseals after that, in seconds.
    """

    def __init__(
        self, connection: RedisConnection, names: KeyNames, *, rotation: int = ROTATION, overlap: int = OVERLAP
    ) -> None:
        self._connection: Final = connection
        self._names: Final = names
        self._times: Final = (b"%d" % rotation, b"%d" % overlap)
        self._ring = b""
        self._delivered: tuple[bytes, ...] = ()

    def __repr__(self) -> str:
        return f"<SealingKeys: {len(self._delivered)} keys>"

    async def look(self, receiver: ClusterReceiver) -> None:
        """Ask for the keys, and inform the receiver if they changed. Raises `StoreError`."""
        fresh = base64.urlsafe_b64encode(secrets.token_bytes(_KEY_BYTES))
        reply = await self._connection.run(script("keys_ring"), (self._names.keys,), self._ring, fresh, *self._times)
        match reply:
            case [bytes(time), bytes(ring)]:
                self._ring = ring
                keys = _in_order(ring, int(time))
            case _:
                raise TypeError("unexpected reply of the script keys_ring")
        if keys != self._delivered:
            self._delivered = keys
            receiver.keys_changed(keys)


def _in_order(ring: bytes, now: int) -> tuple[bytes, ...]:
    """Return the keys: first the one that seals, which is the newest that all workers know."""
    keys: list[bytes] = []
    new: list[bytes] = []
    for item in ring.split(b","):
        text, _, made = item.partition(b" ")
        (new if now - int(made) < _QUIET else keys).append(base64.urlsafe_b64decode(text))
    if not keys:
        # The oldest is the first key of the cluster: there is no earlier one that the others could use.
        keys.append(new.pop())
    return (*keys, *new)
