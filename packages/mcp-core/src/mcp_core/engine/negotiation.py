"""Which era and which revision: the client's probe and choice, as a machine.

The client asks `server/discover` first, if it speaks a modern revision. What comes back decides:

- a discover result, or error -32022: the server is modern; the newest revision in common is used;
- another of the modern error codes: the server is modern and refuses; that is reported;
- anything else, or silence: the server is legacy; `initialize` follows, if the client speaks a legacy revision.

Who knows from earlier that the server is legacy may begin with `initialize`. If that is refused, the knowledge may have
become wrong, and the probe follows.

The machine takes what came (`discovered`, `refused`, `silent`, `initialized`) and returns the next step. It sends
nothing and waits for nothing. Each revision is tried once, and once more where a server refuses the very revision that
it names instead; so it ends.

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
from mcp_core.revisions import REVISIONS, Era, Revision, known, preferred

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_core.jsonrpc.messages import JsonObject

__all__ = [
    "Agreed",
    "Attempt",
    "Failed",
    "Initialize",
    "Negotiation",
    "Probe",
    "Progress",
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
"""The codes by which a server shows itself to be modern."""


_NAMED: Final = 10
"""Revisions of a server that an error lists; there are not as many."""


@attrs.frozen
class Probe:
    """Send `server/discover` under this modern revision."""

    revision: Revision


@attrs.frozen
class Initialize:
    """Send `initialize`, proposing this legacy revision."""

    revision: Revision


@attrs.frozen
class Agreed:
    """Both sides speak this revision."""

    revision: Revision


@attrs.frozen
class Failed:
    """It cannot be done; the connection should be closed."""

    error: McpError


Attempt: TypeAlias = Probe | Initialize | Failed
"""What to do next, as long as nothing is agreed."""

Step: TypeAlias = Attempt | Agreed
"""What to do next."""


class Progress(enum.Enum):
    """How far the negotiation is."""

    NEW = "not begun"
    PROBING = "probing"
    INITIALIZING = "initializing"
    DONE = "done"


@attrs.define(eq=False)
class Negotiation:
    """The client's side of finding a common revision."""

    ours: tuple[Revision, ...]
    """The revisions that the client is willing to speak."""
    progress: Progress = Progress.NEW
    _tried: set[Revision] = attrs.field(factory=set)
    _repeated: set[Revision] = attrs.field(factory=set)
    _untried_probe: Revision | None = None
    """What to probe with if `initialize` is refused, where the probe was left out."""
    first_refusal: McpError | None = None
    """How `initialize` was refused then: what is reported when the probe comes to nothing, too."""

    def start(self, era: Era | None = None) -> Attempt:
        """The first step: a probe when a modern revision is among ours, else `initialize`.

        Args:
            era: What the server is thought to speak. `LEGACY`: `initialize` comes first, if a legacy revision is ours.
        """
        modern = preferred(self._of(Era.MODERN))
        if modern is None:
            return self._initialize("")
        legacy = preferred(self._of(Era.LEGACY)) if era is Era.LEGACY else None
        if legacy is None:
            return self._probe(modern)
        self._untried_probe = modern
        return self._propose(legacy)

    def again(self, revision: Revision) -> Initialize:
        """A session with the legacy `revision` that was agreed on is to be had again. There is no probe."""
        self._tried.clear()
        self._untried_probe = self.first_refusal = None
        return self._propose(revision)

    def discovered(self, supported: Iterable[str]) -> Step | None:
        """The server answered the probe with the names of the revisions that it supports.

        Returns:
            The next step; `None` when the answer came too late and names nothing better than the handshake under way.
        """
        names = tuple(supported)
        modern = preferred(revision for revision in self._common(names) if revision.era is Era.MODERN)
        if modern is None:
            if self.progress is Progress.INITIALIZING:
                return None
            return self._legacy_among(names)
        self.progress = Progress.DONE
        return Agreed(modern)

    def refused(self, error: McpError) -> Attempt:
        """The probe or `initialize` was answered by an error, or by something that makes no sense."""
        if self.progress is Progress.INITIALIZING:
            return self._initialize_refused(error)
        if isinstance(error, InvalidValue):
            # It is a discover result, so the server is modern; but a broken one.
            return self._fail(error)
        if isinstance(error, UnsupportedProtocolVersion):
            return self._probe_again(error.supported)
        if isinstance(error, RequestFailed) and error.code in _MODERN_ERRORS:
            return self._fail(error)
        return self._initialize(f"the server answered server/discover with: {error.message}")

    def silent(self) -> Attempt:
        """The probe was not answered within the time that the caller gives it."""
        return self._initialize("the server did not answer server/discover")

    def initialized(self, version: str) -> Step:
        """The server answered `initialize`, naming a version."""
        chosen = REVISIONS.get(version)
        if chosen is None or chosen not in self._of(Era.LEGACY):
            error = NegotiationFailed(
                f"the server chose protocol version {quoted(version)}, which this client does not speak",
                ours=self._names(),
                theirs=(version,),
            )
            return self._fail(error)
        self.progress = Progress.DONE
        return Agreed(chosen)

    def _probe_again(self, supported: tuple[str, ...]) -> Attempt:
        """The server is modern, and does not speak the revision of the probe."""
        named = [revision for revision in self._common(supported) if revision.era is Era.MODERN]
        modern = preferred(revision for revision in named if revision not in self._tried)
        if modern is None:
            # It wants what it has just refused. What it says counts, and another of its instances may have refused.
            modern = preferred(revision for revision in named if revision not in self._repeated)
            if modern is None:
                return self._legacy_among(supported)
            self._repeated.add(modern)
        return self._probe(modern)

    def _legacy_among(self, supported: tuple[str, ...]) -> Attempt:
        """A modern server may list legacy revisions too; those are spoken after `initialize` only."""
        legacy = preferred(
            revision
            for revision in self._common(supported)
            if revision.era is Era.LEGACY and revision not in self._tried
        )
        if legacy is None:
            return self._fail(self._nothing_in_common(supported))
        return self._propose(legacy)

    def _initialize(self, why: str) -> Attempt:
        """The server is taken for a legacy one."""
        if self.first_refusal is not None:
            return self._fail(self.first_refusal)
        legacy = preferred(self._of(Era.LEGACY))
        if legacy is None:
            complaint = f"this client speaks modern revisions only ({', '.join(self._names())}) and {why}"
            return self._fail(NegotiationFailed(complaint, ours=self._names()))
        return self._propose(legacy)

    def _initialize_refused(self, error: McpError) -> Attempt:
        """Old servers answer a version that they do not support by an error naming others, not by a result."""
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

    def _probe(self, revision: Revision) -> Probe:
        self._tried.add(revision)
        self.progress = Progress.PROBING
        return Probe(revision)

    def _propose(self, revision: Revision) -> Initialize:
        self._tried.add(revision)
        self.progress = Progress.INITIALIZING
        return Initialize(revision)

    def _fail(self, error: McpError) -> Attempt:
        self.progress = Progress.DONE
        return Failed(error)

    def _nothing_in_common(self, theirs: tuple[str, ...]) -> NegotiationFailed:
        return NegotiationFailed(
            f"no protocol version in common: this client speaks {', '.join(self._names())}, "
            f"the server {shown(', '.join(theirs[:_NAMED])) if theirs else 'named none'}",
            ours=self._names(),
            theirs=theirs,
        )

    def _of(self, era: Era) -> tuple[Revision, ...]:
        return tuple(revision for revision in self.ours if revision.era is era)

    def _common(self, names: Iterable[str]) -> tuple[Revision, ...]:
        return tuple(revision for revision in known(names) if revision in self.ours)

    def _names(self) -> tuple[str, ...]:
        return tuple(revision.name for revision in self.ours)


def looks_like_discovery(result: JsonObject) -> bool:
    """Whether a result of the probe is a discover result at all.

    Some legacy servers answer any method before `initialize` with a result of their own; a result without
    `supportedVersions` says no more about the era than an error would.
    """
    return isinstance(result.get("supportedVersions"), list)


def _supported_of(error: McpError) -> tuple[str, ...]:
    """The versions that an error names in `data.supported`, whatever its code."""
    data = error.data if isinstance(error, RequestFailed) else None
    listed = data.get("supported") if isinstance(data, dict) else None
    return tuple(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else ()
