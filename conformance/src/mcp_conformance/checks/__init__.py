"""The checks of clients, one module for each subject, and the scenarios that they judge.

A module takes part by standing in this list.
"""

from __future__ import annotations

from mcp_conformance.checks.auth.clients import authorization_requests
from mcp_conformance.checks.auth.clients import discovery as authorization
from mcp_conformance.checks.auth.clients import dpop as authorization_proofs
from mcp_conformance.checks.auth.clients import extension_grants as authorization_extensions
from mcp_conformance.checks.auth.clients import registration as authorization_clients
from mcp_conformance.checks.client import caching as freshness
from mcp_conformance.checks.client import (
    cancellation,
    completion,
    elicitation,
    headers,
    lifecycle,
    messages,
    pagination,
    results,
    roots,
    sampling,
    schemas,
    stdio,
    streams,
)
from mcp_conformance.checks.client import fetches as access
from mcp_conformance.checks.client import meta as meta_keys
from mcp_conformance.checks.client import mrtr as rounds
from mcp_conformance.checks.client import negotiation as eras
from mcp_conformance.checks.client import param_headers as params
from mcp_conformance.checks.client import param_schemas as shapes
from mcp_conformance.checks.client import param_values as said
from mcp_conformance.checks.client import robustness as bearing
from mcp_conformance.checks.client import stale_schemas as changed_headers
from mcp_conformance.checks.client.tasks import calls as tasks_calls
from mcp_conformance.checks.client.tasks import cancellation as tasks_endings
from mcp_conformance.checks.client.tasks import client_task_results as tasks_outcomes
from mcp_conformance.checks.client.tasks import client_tasks as tasks_answers
from mcp_conformance.checks.client.tasks import extension as tasks_extension
from mcp_conformance.checks.registry.client import CLIENT_CHECKS
from mcp_conformance.scenarios.table import SCENARIOS

__all__ = ["CLIENT_CHECKS", "SCENARIOS"]
