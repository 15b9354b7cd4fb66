"""The checks of servers, one module for each subject.

A module takes part by standing in this list.
"""

from __future__ import annotations

from mcp_conformance.server import (  # noqa: F401  each enters its checks
    asking,
    authorization,
    authorization_proofs,
    authorization_server,
    batch,
    caching,
    cancellation,
    capabilities,
    changes,
    compat,
    completion,
    elicitation,
    exchanges,
    header,
    header_params,
    http,
    http_clients,
    http_origin,
    http_sse,
    http_streams,
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
    resume,
    rights,
    schema_asked,
    schema_content,
    schema_dialects,
    schema_features,
    schema_messages,
    security,
    session,
    sse,
    stdio,
    subscription,
    task_owners,
    task_progress,
    task_words,
    tasks,
    tasks_core,
    tasks_extension,
    tools,
    tour,
    users,
)
from mcp_conformance.server.registry import SERVER_CHECKS

__all__ = ["SERVER_CHECKS"]
