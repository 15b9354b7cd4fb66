"""Clusters on Redis."""

from __future__ import annotations

from mcp_server.cluster.redis.cluster import RedisCluster

__all__ = ["RedisCluster"]
