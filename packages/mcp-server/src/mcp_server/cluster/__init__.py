"""Clusters: what several workers of one server share."""

from __future__ import annotations

from mcp_server.cluster.local import LocalCluster
from mcp_server.cluster.protocol import Cluster, ClusterReceiver, RateStore, ReplayStore

__all__ = ["Cluster", "ClusterReceiver", "LocalCluster", "RateStore", "ReplayStore"]
