"""Rate limits in Redis, which hold for all workers together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_server.cluster.redis.scripts import script

if TYPE_CHECKING:
    from mcp_server.cluster.redis.connection import RedisConnection
    from mcp_server.cluster.redis.key_table import KeyNames

__all__ = ["RedisRates"]


class RedisRates:
    """A `RateStore` in Redis: token buckets, whose time is that of Redis.

    Args:
        connection: The connection to Redis.
        names: The names of the keys.
    """

    def __init__(self, connection: RedisConnection, names: KeyNames) -> None:
        self._connection: Final = connection
        self._names: Final = names

    async def take(self, key: str, *, count: int, per_second: float, burst: int) -> int:
        """Take events out of a limit, and return their number. Raises `StoreError`."""
        args = (b"%d" % count, repr(per_second).encode(), b"%d" % burst)
        taken = await self._connection.run(script("rate_take"), (self._names.rate(key),), *args)
        return taken if isinstance(taken, int) else 0
