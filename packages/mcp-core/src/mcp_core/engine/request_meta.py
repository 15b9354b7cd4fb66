"""Request metadata (`_meta`) of modern messages: the client's facts in each request, the server's in each result.

Spec: basic#meta, basic/versioning (2026-07-28).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from mcp_core.conversion.converter import converter
from mcp_core.engine.events import ClientPeer
from mcp_core.errors import ErrorCode, InvalidValue, RequestFailed, UnsupportedProtocolVersion
from mcp_core.excerpts import quoted
from mcp_core.field_methods import FieldRepr
from mcp_core.revisions import REVISIONS
from mcp_core.types import ClientCapabilities, Implementation
from mcp_core.types.logging import LOGGING_LEVELS
from mcp_core.types.meta import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, SERVER_INFO

if TYPE_CHECKING:
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision
    from mcp_core.types import LoggingLevel, WireObject

__all__ = ["EnvelopeReader", "missing_member", "read_server_info", "write_envelope"]

W = TypeVar("W", bound="WireObject")

_MEMBERS: Final = (PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL)


@attrs.define(eq=False, repr=False)
class EnvelopeReader(FieldRepr):
    """A reader of request metadata, for a server."""

    revisions: frozenset[Revision]
    """The modern revisions that the server supports."""
    supported: tuple[str, ...]
    """The names of all revisions of the server, for the error about an unsupported revision."""
    _last: tuple[JsonObject, ClientPeer] | None = None

    @property
    def last_revision(self) -> Revision | None:
        """The revision of the last request metadata that was read; `None` before the first."""
        return None if self._last is None else self._last[1].revision

    def read(self, meta: JsonObject) -> ClientPeer:
        """Return the client that `meta` describes.

        Raises:
            RequestFailed: A member is missing or malformed.
            UnsupportedProtocolVersion: The server does not support the revision.
        """
        # Clients repeat the same metadata in each request: comparing two small dicts costs less than reading one.
        facts: JsonObject = {}
        for key in _MEMBERS:
            if key in meta:
                facts[key] = meta[key]
        if self._last is not None and self._last[0] == facts:
            return self._last[1]
        peer = self._read(facts)
        self._last = (facts, peer)
        return peer

    def _read(self, facts: JsonObject) -> ClientPeer:
        version, capabilities = facts.get(PROTOCOL_VERSION), facts.get(CLIENT_CAPABILITIES)
        if not isinstance(version, str):
            raise missing_member(PROTOCOL_VERSION)
        if not isinstance(capabilities, dict):
            raise missing_member(CLIENT_CAPABILITIES)
        revision = REVISIONS.get(version)
        if revision is None or revision not in self.revisions:
            raise UnsupportedProtocolVersion.of(version, self.supported)
        info = facts.get(CLIENT_INFO)
        return ClientPeer(
            revision=revision,
            capabilities=_member(revision, CLIENT_CAPABILITIES, capabilities, ClientCapabilities),
            implementation=None if info is None else _member(revision, CLIENT_INFO, info, Implementation),
            log_level=_log_level(facts.get(LOG_LEVEL)),
        )


def _member(revision: Revision, key: str, value: JsonValue, cls: type[W]) -> W:
    """Return a member of the request metadata. Raises `RequestFailed`, which names the member."""
    try:
        return converter(revision).receive(value, cls)[0]
    except InvalidValue as bad:
        raise RequestFailed(f"invalid params: _meta[{key!r}]: {bad.message}", code=ErrorCode.INVALID_PARAMS) from bad


def write_envelope(revision: Revision, info: Implementation, capabilities: ClientCapabilities) -> JsonObject:
    """Return the metadata of a client's requests under `revision`, without the log level."""
    wire = converter(revision)
    return {
        PROTOCOL_VERSION: revision.name,
        CLIENT_CAPABILITIES: wire.unstructure(capabilities),
        CLIENT_INFO: wire.unstructure(info),
    }


def read_server_info(result: JsonObject, revision: Revision) -> Implementation | None:
    """Return the server's name and version from its result. A malformed value is ignored, because it has no effect."""
    meta = result.get("_meta")
    info = meta.get(SERVER_INFO) if isinstance(meta, dict) else None
    try:
        return None if info is None else converter(revision).receive(info, Implementation)[0]
    except InvalidValue:
        return None


def missing_member(key: str) -> RequestFailed:
    """Return the error for a request outside a session whose metadata lacks this member."""
    return RequestFailed(
        f"invalid params: _meta[{key!r}] is missing or of the wrong type, and no session was opened by initialize",
        code=ErrorCode.INVALID_PARAMS,
    )


def _log_level(level: JsonValue) -> LoggingLevel | None:
    if level is None:
        return None
    for known in LOGGING_LEVELS:
        if known == level:
            return known
    raise RequestFailed(
        f"invalid params: _meta[{LOG_LEVEL!r}] is {quoted(level)}, expected one of {', '.join(LOGGING_LEVELS)}",
        code=ErrorCode.INVALID_PARAMS,
    )
