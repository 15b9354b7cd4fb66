"""The checks of servers, one module for each subject.

A module takes part by standing in this list.
"""

from __future__ import annotations

from mcp_conformance.checks.auth.authorization_servers import endpoints as authorization_server
from mcp_conformance.checks.auth.authorization_servers import grants as authorization_grants
from mcp_conformance.checks.auth.resource_servers import dpop as authorization_proofs
from mcp_conformance.checks.auth.resource_servers import tokens as authorization
from mcp_conformance.checks.probes import second_user as users
from mcp_conformance.checks.probes import task_calls as task_words
from mcp_conformance.checks.registry.server import SERVER_CHECKS
from mcp_conformance.checks.server import access_control as rights
from mcp_conformance.checks.server import backward_compatibility as compat
from mcp_conformance.checks.server import (
    batch,
    caching,
    cancellation,
    capabilities,
    completion,
    elicitation,
    lifecycle,
    lists,
    logging,
    message_rules,
    messages,
    meta,
    mrtr,
    pagination,
    progress,
    prompts,
    resources,
    security,
    stdio,
    tools,
)
from mcp_conformance.checks.server import change_notifications as changes
from mcp_conformance.checks.server import client_requests as asking
from mcp_conformance.checks.server import feature_sweep as tour
from mcp_conformance.checks.server import invalid_requests as exchanges
from mcp_conformance.checks.server import subscriptions as subscription
from mcp_conformance.checks.server.http import clients as http_clients
from mcp_conformance.checks.server.http import endpoint as http
from mcp_conformance.checks.server.http import modern_streams as http_streams
from mcp_conformance.checks.server.http import origin as http_origin
from mcp_conformance.checks.server.http import param_headers as header_params
from mcp_conformance.checks.server.http import resumption as resume
from mcp_conformance.checks.server.http import session_streams as sse
from mcp_conformance.checks.server.http import sessions as session
from mcp_conformance.checks.server.http import sse_2024 as http_sse
from mcp_conformance.checks.server.http import standard_headers as header
from mcp_conformance.checks.server.schema import client_requests as schema_asked
from mcp_conformance.checks.server.schema import content as schema_content
from mcp_conformance.checks.server.schema import dialects as schema_dialects
from mcp_conformance.checks.server.schema import features as schema_features
from mcp_conformance.checks.server.schema import messages as schema_messages
from mcp_conformance.checks.server.tasks import core as tasks_core
from mcp_conformance.checks.server.tasks import extension as tasks_extension
from mcp_conformance.checks.server.tasks import lifecycle as tasks
from mcp_conformance.checks.server.tasks import ownership as task_owners
from mcp_conformance.checks.server.tasks import progress as task_progress

__all__ = ["SERVER_CHECKS"]
