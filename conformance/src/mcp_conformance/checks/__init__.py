"""The checks of servers, clients and authorization.

Each module of checks is in this list. The order of the list is the order of a run.
"""

from __future__ import annotations

# ruff: noqa: F401  each module enters its checks
# isort: off
import mcp_conformance.checks.client.fetches
import mcp_conformance.checks.auth.clients.discovery
import mcp_conformance.checks.auth.clients.registration
import mcp_conformance.checks.auth.clients.documents
import mcp_conformance.checks.auth.clients.extension_grants
import mcp_conformance.checks.auth.clients.dpop
import mcp_conformance.checks.auth.clients.authorization_requests
import mcp_conformance.checks.auth.clients.token_expiry
import mcp_conformance.checks.client.robustness
import mcp_conformance.checks.client.cancellation
import mcp_conformance.checks.client.stale_schemas
import mcp_conformance.checks.client.completion
import mcp_conformance.checks.client.elicitation
import mcp_conformance.checks.client.negotiation
import mcp_conformance.checks.client.caching
import mcp_conformance.checks.client.headers
import mcp_conformance.checks.client.lifecycle
import mcp_conformance.checks.client.messages
import mcp_conformance.checks.client.meta
import mcp_conformance.checks.client.pagination
import mcp_conformance.checks.client.param_headers
import mcp_conformance.checks.client.results
import mcp_conformance.checks.client.roots
import mcp_conformance.checks.client.mrtr
import mcp_conformance.checks.client.param_values
import mcp_conformance.checks.client.sampling
import mcp_conformance.checks.client.schemas
import mcp_conformance.checks.client.param_schemas
import mcp_conformance.checks.client.skills
import mcp_conformance.checks.client.stdio
import mcp_conformance.checks.client.streams
import mcp_conformance.checks.client.tasks.client_tasks
import mcp_conformance.checks.client.tasks.calls
import mcp_conformance.checks.client.tasks.cancellation
import mcp_conformance.checks.client.tasks.extension
import mcp_conformance.checks.client.tasks.client_task_results

import mcp_conformance.checks.server.client_requests
import mcp_conformance.checks.auth.resource_servers.tokens

# Its first token request precedes all others: the grant of a workload must not depend on them.
import mcp_conformance.checks.auth.authorization_servers.assertions
import mcp_conformance.checks.auth.authorization_servers.grants
import mcp_conformance.checks.auth.authorization_servers.documents
import mcp_conformance.checks.auth.resource_servers.dpop
import mcp_conformance.checks.auth.resource_servers.near_misses
import mcp_conformance.checks.auth.authorization_servers.endpoints
import mcp_conformance.checks.auth.authorization_servers.redirects
import mcp_conformance.checks.server.batch
import mcp_conformance.checks.server.caching
import mcp_conformance.checks.server.cancellation
import mcp_conformance.checks.server.capabilities
import mcp_conformance.checks.server.change_notifications
import mcp_conformance.checks.server.backward_compatibility
import mcp_conformance.checks.server.completion
import mcp_conformance.checks.server.elicitation
import mcp_conformance.checks.server.invalid_requests
import mcp_conformance.checks.server.http.standard_headers
import mcp_conformance.checks.server.http.param_headers
import mcp_conformance.checks.server.http.endpoint
import mcp_conformance.checks.server.http.clients
import mcp_conformance.checks.server.http.origin
import mcp_conformance.checks.server.http.sse_2024
import mcp_conformance.checks.server.http.modern_streams
import mcp_conformance.checks.server.lifecycle
import mcp_conformance.checks.server.lists
import mcp_conformance.checks.server.logging
import mcp_conformance.checks.server.message_rules
import mcp_conformance.checks.server.messages
import mcp_conformance.checks.server.meta
import mcp_conformance.checks.server.mrtr
import mcp_conformance.checks.server.pagination
import mcp_conformance.checks.server.progress
import mcp_conformance.checks.server.prompts
import mcp_conformance.checks.server.resources
import mcp_conformance.checks.server.http.resumption
import mcp_conformance.checks.server.access_control
import mcp_conformance.checks.server.schema.client_requests
import mcp_conformance.checks.server.schema.content
import mcp_conformance.checks.server.schema.dialects
import mcp_conformance.checks.server.schema.features
import mcp_conformance.checks.server.schema.messages
import mcp_conformance.checks.server.schema.validator
import mcp_conformance.checks.server.security
import mcp_conformance.checks.server.third_party
import mcp_conformance.checks.server.skills
import mcp_conformance.checks.server.http.sessions
import mcp_conformance.checks.server.http.session_streams
import mcp_conformance.checks.server.stdio
import mcp_conformance.checks.server.subscriptions
import mcp_conformance.checks.server.tasks.ownership
import mcp_conformance.checks.server.tasks.progress
import mcp_conformance.checks.server.tasks.requestor
import mcp_conformance.checks.server.tasks.http
import mcp_conformance.checks.probes.task_calls
import mcp_conformance.checks.server.tasks.lifecycle
import mcp_conformance.checks.server.tasks.core
import mcp_conformance.checks.server.tasks.extension
import mcp_conformance.checks.server.tools
import mcp_conformance.checks.server.feature_sweep
import mcp_conformance.checks.probes.second_user

# isort: on
from mcp_conformance.checks.registry.client import CLIENT_CHECKS
from mcp_conformance.checks.registry.server import SERVER_CHECKS

__all__ = ["CLIENT_CHECKS", "SERVER_CHECKS"]
