"""Negotiation of era and revision: the client's probe and choice, as a state machine.

If the client supports a modern revision, it sends `server/discover` first. The response decides:

- a discover result, or error -32022: the server is modern; the newest common revision is used;
- another modern error code: the server is modern and rejects the request; the error is reported;
- anything else, or a timeout: the server is legacy; `initialize` follows if the client supports a legacy revision.

A client that knows the server as legacy can start with `initialize`. If the server rejects `initialize`, the server may
have changed, and the probe follows.

The state machine receives outcomes (`discovered`, `refused`, `silent`, `initialized`) and returns the next step. It
does no I/O and has no timers. Each revision is tried once. A revision is tried a second time if the server rejects it
and lists it as supported in the same error. The number of attempts is therefore limited.

Spec: basic/versioning (2026-07-28), basic/lifecycle#version-negotiation (legacy).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, TypeAlias

import attrs

from mcp_core.errors import (
    ErrorCode,
    InvalidValue,
    McpError,
    NegotiationFailed,
    RequestFailed,
    UnsupportedProtocolVersion,
)
from mcp_core.excerpts import quoted, shown
from mcp_core.field_methods import FieldRepr, FieldValue
from mcp_core.revisions import REVISIONS, Era, Revision, known, preferred

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_core.jsonrpc.messages import JsonObject

__all__ = [
    "Attempt",
    "NegotiatedRevision",
    "Negotiation",
    "NegotiationFailure",
    "Progress",
    "SendDiscover",
    "SendInitialize",
    "Step",
    "looks_like_discovery",
]

_MODERN_ERRORS: Final = frozenset(
    {
        ErrorCode.HEADER_MISMATCH,
        ErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY,
        ErrorCode.UNSUPPORTED_PROTOCOL_VERSION,
    }
)
"""The error codes that identify a modern server."""


_NAMED: Final = 10
"""The maximum number of server revisions that an error lists; there are fewer revisions than this."""


@attrs.frozen(eq=False, repr=False)
class SendDiscover(FieldValue):
    """A step that sends `server/discover` with this modern revision."""

    revision: Revision


@attrs.frozen(eq=False, repr=False)
class SendInitialize(FieldValue):
    """A step that sends `initialize` with a proposal of this legacy revision."""

    revision: Revision


@attrs.frozen(eq=False, repr=False)
class NegotiatedRevision(FieldValue):
    """The final step of a successful negotiation: the common revision."""

    revision: Revision


@attrs.frozen(eq=False, repr=False)
class NegotiationFailure(FieldValue):
    """The final step of a failed negotiation. The caller should close the connection."""

    error: McpError


Attempt: TypeAlias = SendDiscover | SendInitialize | NegotiationFailure
"""The next step while no revision is agreed."""

Step: TypeAlias = Attempt | NegotiatedRevision
"""The next step of the negotiation."""


class Progress(enum.Enum):
    """The state of the negotiation."""

    NEW = "not started"
    PROBING = "probing"
    INITIALIZING = "initializing"
    DONE = "done"


@attrs.define(eq=False, repr=False)
class Negotiation(FieldRepr):
    """The negotiation of a common revision (client)."""

    own_revisions: tuple[Revision, ...]
    """The revisions that the client supports."""
    progress: Progress = Progress.NEW
    _tried: set[Revision] = attrs.field(factory=set)
    _repeated: set[Revision] = attrs.field(factory=set)
    _untried_probe: Revision | None = None
    """The revision to probe with if the server rejects `initialize`; set only if the probe was skipped."""
    first_refusal: McpError | None = None
    """The error response to that `initialize`. It is reported if the probe fails too."""

    def start(self, era: Era | None = None) -> Attempt:
        """Return the first step: a probe if the client supports a modern revision, otherwise `initialize`.

        Args:
            era: The expected era of the server. With `LEGACY`, `initialize` is first if the client supports a legacy
                revision.
        """
        modern = preferred(self._of(Era.MODERN))
        if modern is None:
            return self._initialize("")
        legacy = preferred(self._of(Era.LEGACY)) if era is Era.LEGACY else None
        if legacy is None:
            return self._probe(modern)
        self._untried_probe = modern
        return self._propose(legacy)

    def again(self, revision: Revision) -> SendInitialize:
        """Restart with `initialize` and the agreed legacy `revision`, to open a new session. There is no probe."""
        self._tried.clear()
        self._untried_probe = self.first_refusal = None
        return self._propose(revision)

    def discovered(self, supported: Iterable[str]) -> Step | None:
        """Handle a discover result, which lists the names of the revisions that the server supports.

        Returns:
            The next step; `None` if the result is late and lists no modern revision that the client supports. The
            handshake in progress then continues.
        """
        names = tuple(supported)
        modern = preferred(revision for revision in self._common(names) if revision.era is Era.MODERN)
        if modern is None:
            if self.progress is Progress.INITIALIZING:
                return None
            return self._legacy_among(names)
        self.progress = Progress.DONE
        return NegotiatedRevision(modern)

    def refused(self, error: McpError) -> Attempt:
        """Handle an error response to the probe or to `initialize`, or an invalid response."""
        if self.progress is Progress.INITIALIZING:
            return self._initialize_refused(error)
        if isinstance(error, InvalidValue):
            # The result is an invalid discover result, so the server is modern.
            return self._fail(error)
        if isinstance(error, UnsupportedProtocolVersion):
            return self._probe_again(error.supported)
        if isinstance(error, RequestFailed) and error.code in _MODERN_ERRORS:
            return self._fail(error)
        return self._initialize(f"the server responded to server/discover with: {error.message}")

    def silent(self) -> Attempt:
        """Handle a timeout of the probe. The caller decides how long to wait."""
        return self._initialize("the server did not respond to server/discover")

    def initialized(self, version: str) -> Step:
        """Handle the result of `initialize`, which names the version that the server chose."""
        chosen = REVISIONS.get(version)
        if chosen is None or chosen not in self._of(Era.LEGACY):
            error = NegotiationFailed(
                f"the server chose protocol version {quoted(version)}, which this client does not support",
                own_revisions=self._names(),
                peer_revisions=(version,),
            )
            return self._fail(error)
        self.progress = Progress.DONE
        return NegotiatedRevision(chosen)

    def _probe_again(self, supported: tuple[str, ...]) -> Attempt:
        """Return the next step after a modern server rejected the revision of the probe."""
        named = [revision for revision in self._common(supported) if revision.era is Era.MODERN]
        modern = preferred(revision for revision in named if revision not in self._tried)
        if modern is None:
            # The server lists the revision that it has just rejected. Another instance of the server may have rejected
            # it.
            modern = preferred(revision for revision in named if revision not in self._repeated)
            if modern is None:
                return self._legacy_among(supported)
            self._repeated.add(modern)
        return self._probe(modern)

    def _legacy_among(self, supported: tuple[str, ...]) -> Attempt:
        """Return the next step if no listed modern revision is common: legacy revisions need `initialize`."""
        legacy = preferred(
            revision
            for revision in self._common(supported)
            if revision.era is Era.LEGACY and revision not in self._tried
        )
        if legacy is None:
            return self._fail(self._nothing_in_common(supported))
        return self._propose(legacy)

    def _initialize(self, why: str) -> Attempt:
        """Return the next step for a server that is treated as legacy."""
        if self.first_refusal is not None:
            return self._fail(self.first_refusal)
        legacy = preferred(self._of(Era.LEGACY))
        if legacy is None:
            complaint = f"this client supports modern revisions only ({', '.join(self._names())}) and {why}"
            return self._fail(NegotiationFailed(complaint, own_revisions=self._names()))
        return self._propose(legacy)

    def _initialize_refused(self, error: McpError) -> Attempt:
        """Return the next step after a rejected `initialize`. Old servers list their versions in the error."""
        named = _supported_of(error)
        again = preferred(
            revision for revision in self._common(named) if revision.era is Era.LEGACY and revision not in self._tried
        )
        if again is not None:
            return self._propose(again)
        refusal = self._nothing_in_common(named) if named else error
        if self._untried_probe is None:
            return self._fail(refusal)
        modern, self._untried_probe, self.first_refusal = self._untried_probe, None, refusal
        return self._probe(modern)

    def _probe(self, revision: Revision) -> SendDiscover:
        self._tried.add(revision)
        self.progress = Progress.PROBING
        return SendDiscover(revision)

    def _propose(self, revision: Revision) -> SendInitialize:
        self._tried.add(revision)
        self.progress = Progress.INITIALIZING
        return SendInitialize(revision)

    def _fail(self, error: McpError) -> Attempt:
        self.progress = Progress.DONE
        return NegotiationFailure(error)

    def _nothing_in_common(self, peer_revisions: tuple[str, ...]) -> NegotiationFailed:
        return NegotiationFailed(
            f"no protocol version in common: this client supports {', '.join(self._names())}, "
            f"the server {shown(', '.join(peer_revisions[:_NAMED])) if peer_revisions else 'named none'}",
            own_revisions=self._names(),
            peer_revisions=peer_revisions,
        )

    def _of(self, era: Era) -> tuple[Revision, ...]:
        return tuple(revision for revision in self.own_revisions if revision.era is era)

    def _common(self, names: Iterable[str]) -> tuple[Revision, ...]:
        return tuple(revision for revision in known(names) if revision in self.own_revisions)

    def _names(self) -> tuple[str, ...]:
        return tuple(revision.name for revision in self.own_revisions)


def looks_like_discovery(result: JsonObject) -> bool:
    """Return whether a result of the probe is a discover result.

    Some legacy servers respond to any method before `initialize` with a result of their own. A result without
    `supportedVersions` shows no more about the era than an error.
    """
    return isinstance(result.get("supportedVersions"), list)


def _supported_of(error: McpError) -> tuple[str, ...]:
    """Return the versions that an error lists in `data.supported`, for any error code."""
    data = error.data if isinstance(error, RequestFailed) else None
    listed = data.get("supported") if isinstance(data, dict) else None
    return tuple(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else ()
