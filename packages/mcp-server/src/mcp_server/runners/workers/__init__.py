"""Several worker processes that serve clients at one address, and the supervisor that runs them."""

from __future__ import annotations

from mcp_server.runners.workers.supervisor import run_workers

__all__ = ["run_workers"]
