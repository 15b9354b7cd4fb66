"""A store of ids that may be used once, in Redis.

The number of ids is bounded by their lifetime and the rate of requests, and by `maxmemory` of the server: a server without
memory rejects the request.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcp_server.cluster.redis.connection import RedisConnection
    from mcp_server.cluster.redis.key_table import KeyNames

__all__ = ["RedisReplays"]


class RedisReplays:
    """A `ReplayStore` in Redis.

    Args:
        connection: The connection to Redis.
        names: The names of the keys.
    """

    def __init__(self, connection: RedisConnection, names: KeyNames) -> None:
        self._connection: Final = connection
        self._names: Final = names

    async def take(self, id: bytes, seconds: float) -> bool:
        """Use an id, and return whether it was not used before. Raises `StoreError`."""
        key = self._names.replay(id)
        # Identifies this call: a command whose reply was lost is sent again, and must not find its own use.
        call = secrets.token_bytes(12)
        lifetime = b"%d" % max(1, seconds * 1000)
        found = await self._connection.command(key, b"SET", key, call, b"PX", lifetime, b"NX", b"GET")
        return found is None or found == call
