"""Conversion of a tool call to the record of its task, and back."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Final, cast

from mcp_core.conversion.converter import converter
from mcp_core.engine.events import ClientPeer, RequestReceived
from mcp_core.features.tasks import TaskState
from mcp_core.methods import TOOLS_CALL
from mcp_core.types import CallToolRequestParams, ClientCapabilities, Implementation
from mcp_server.stores.tasks import TaskRecord

if TYPE_CHECKING:
    from mcp_core.engine.mrtr import RequestState
    from mcp_core.revisions import Revision
    from mcp_server.features.tasks.policy import TaskPolicy

__all__ = ["new_record", "recalled"]

_ID_BYTES: Final = 24
"""Random bytes of an id, so that it cannot be guessed. The specification requires at least 16."""

_NOT_KEPT: Final = frozenset({"inputResponses", "requestState", "task"})
"""Members of a call that its task does not need."""


def new_record(request: RequestReceived, owner: str | None, done: RequestState, policy: TaskPolicy) -> TaskRecord:
    """Return the record of a new task.

    Args:
        request: The tool call that becomes the task.
        owner: The principal that started the task.
        done: The input responses and side effects of the call so far.
        policy: The time limits.
    """
    peer = cast("ClientPeer", request.peer)  # the peer of a server is a client
    params = cast("CallToolRequestParams", request.params)  # no other requests become tasks
    convert = converter(peer.revision)
    task = params.task if peer.revision.core_tasks else None
    now = time.time()
    info = peer.implementation
    return TaskRecord(
        state=TaskState(
            id=secrets.token_urlsafe(_ID_BYTES),
            created_at=now,
            updated_at=now,
            ttl=policy.ttl_for(None if task is None else task.ttl),
            poll_interval=int(policy.poll_interval * 1000),
        ),
        owner=owner,
        tool=params.name,
        params={name: value for name, value in request.raw.items() if name not in _NOT_KEPT},
        revision=peer.revision.name,
        capabilities=convert.unstructure(peer.capabilities),
        client_info=None if info is None else convert.unstructure(info),
        answers=dict(done.answers),
        once=dict(done.once),
    )


def recalled(record: TaskRecord, revision: Revision) -> RequestReceived:
    """Return the tool call of a task that an earlier process started. `revision` is that of the record."""
    convert = converter(revision)
    info = record.client_info
    peer = ClientPeer(
        revision=revision,
        capabilities=convert.structure(record.capabilities, ClientCapabilities),
        implementation=None if info is None else convert.structure(info, Implementation),
    )
    return RequestReceived(
        id=record.state.id,
        method=TOOLS_CALL.name,
        definition=TOOLS_CALL,
        params=convert.structure(record.params, CallToolRequestParams),
        raw=record.params,
        peer=peer,
        notes=(),
    )
