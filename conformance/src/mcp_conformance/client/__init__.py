"""The checks of clients, one module for each subject, and the scenarios that they judge.

A module takes part by standing in this list.
"""

from __future__ import annotations

from mcp_conformance.client import (  # noqa: F401  each enters its checks
    access,
    authorization,
    authorization_clients,
    authorization_extensions,
    authorization_proofs,
    authorization_requests,
    bearing,
    cancellation,
    changed_headers,
    completion,
    elicitation,
    eras,
    freshness,
    headers,
    lifecycle,
    messages,
    meta_keys,
    pagination,
    params,
    results,
    roots,
    rounds,
    said,
    sampling,
    schemas,
    shapes,
    stdio,
    streams,
    tasks_answers,
    tasks_calls,
    tasks_endings,
    tasks_extension,
    tasks_outcomes,
)
from mcp_conformance.client.registry import CLIENT_CHECKS
from mcp_conformance.client.scenarios import SCENARIOS

__all__ = ["CLIENT_CHECKS", "SCENARIOS"]
