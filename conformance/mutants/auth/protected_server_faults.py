"""The faults of the raw protected server, and the functions that test it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.drivers.server.protected_target import started_protected
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.fixtures_manifest import Manifest
from mcp_conformance.runners.server import run_server
from mcp_conformance.scoring.attribution import attributed
from mcp_core.revisions import REVISIONS
from mutants.runs.fork_server import peer_command
from mutants.runs.verdict import TIMEOUT, FaultResult, failed_checks

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_conformance.model.verdict import Run

__all__ = ["PROTECTED_FAULTS", "PROTECTED_SERVER", "ProtectedFault", "try_protected", "try_protected_fault"]

_LATE: Final = "2025-11-25"
_MODERN: Final = "2026-07-28"
_AT: Final = "http://localhost:{port}/mcp"
PROTECTED_SERVER: Final = "mutants.raw_protected_server"
"""The module of the raw protected server."""
_AREAS: Final = ("auth", "dpop")
_SESSIONS: Final = ("security.session-is-no-token", "security.session-of-another")


class ProtectedFault(NamedTuple):
    """A fault of the raw protected server."""

    name: str
    """The name of the fault."""
    revision: str
    """The revision in which it is tested."""
    caught_by: tuple[str, ...]
    """The checks that must detect it; none for a correct server."""


def _of(name: str, *caught_by: str, revision: str = _MODERN) -> ProtectedFault:
    return ProtectedFault(name, revision, caught_by)


_PROOFS: Final = tuple(
    f"dpop.server-proof-{each}"
    for each in (
        *("missing", "twice", "malformed", "signature", "type", "method", "url", "token", "no-token", "key", "no-id"),
        *("no-time", "time-text", "long-ago", "milliseconds", "old", "future", "symmetric", "private-key"),
    )
)

_TOKENS: Final = tuple(
    f"auth.server-token-{each}"
    for each in (
        *("key", "expired", "issuer", "audience", "no-audience", "early"),
        *("unsigned", "audience-near", "issuer-near"),
    )
)

PROTECTED_FAULTS: Final = (
    _of("missing-by-403", "auth.server-token-missing", "auth.server-every-request"),
    _of(
        "basic-challenge",
        "auth.server-challenge",
        "auth.server-metadata-named",
        "auth.server-scope",
        revision="2025-06-18",
    ),
    _of("invalid-unchallenged", "auth.server-challenge", revision=_LATE),
    _of("error-untold", "auth.server-challenge", "auth.server-scope", revision="2025-03-26"),
    _of("metadata-untold", "auth.server-metadata-named", revision="2025-06-18"),
    _of("no-metadata", "auth.server-metadata", revision=_LATE),
    _of("no-servers", "auth.server-metadata-servers"),
    _of("no-servers-at-path", "auth.server-metadata-servers"),
    _of("metadata-of-another", "auth.server-metadata-resource"),
    _of("metadata-of-another-at-path", "auth.server-metadata-resource"),
    _of("metadata-of-host-after-refusal", "auth.server-metadata-resource"),
    _of("metadata-of-another-issuer", "auth.server-metadata-servers", revision="2025-06-18"),
    _of("metadata-issuer-slash", "auth.server-metadata-servers"),
    _of("metadata-null", "auth.server-metadata"),
    _of("metadata-scopes-as-text", "auth.server-metadata", revision=_LATE),
    _of("metadata-as-text", "auth.server-metadata", revision="2025-06-18"),
    _of("relative-metadata-url", "auth.server-metadata", revision=_LATE),
    _of("relative-metadata-url", "auth.server-metadata"),
    _of("metadata-url-doubled", "auth.server-metadata", revision="2025-06-18"),
    _of("metadata-slash", "auth.server-metadata-no-slash", "auth.server-metadata-resource"),
    _of("challenge-without-scope", "auth.server-challenge-scope"),
    _of("offline", "auth.server-no-offline-access"),
    _of("takes-any-key", "auth.server-token-key", "auth.server-token-unsigned"),
    _of("takes-expired", "auth.server-token-expired", revision=_LATE),
    _of("takes-any-issuer", "auth.server-token-issuer", "auth.server-token-issuer-near"),
    _of(
        "takes-any-audience",
        "auth.server-token-audience",
        "auth.server-token-audience-near",
        "auth.server-token-no-audience",
        "dpop.server-audience",
    ),
    _of("takes-no-audience", "auth.server-token-no-audience"),
    _of("expired-by-403", "auth.server-token-expired", "auth.server-token-expires"),
    _of("takes-null-audience", "auth.server-token-no-audience", revision="2025-06-18"),
    _of("takes-no-issuer", "auth.server-token-issuer"),
    _of("takes-endless", "auth.server-token-expired", revision=_LATE),
    _of("takes-expired-bound", "auth.server-token-expired", "auth.server-token-expires"),
    _of("takes-any-bound-issuer", "auth.server-token-issuer", "auth.server-token-issuer-near"),
    _of("takes-any-key-if-bound", "auth.server-token-key"),
    _of("any-scope-if-bound", "auth.server-scope"),
    _of("answers-all-the-same", "auth.server-before-processing"),
    _of("lists-are-free", "auth.server-every-request", "auth.server-before-processing"),
    _of(
        "session-is-enough",
        "security.session-is-no-token",
        "security.session-of-another",
        "auth.server-scope",
        "auth.server-every-request",
        "auth.server-before-processing",
        "auth.server-every-message",
        "auth.server-every-method",
        revision=_LATE,
    ),
    _of("any-session", "security.session-of-another", revision=_LATE),
    _of("any-session-for-delete", "security.session-of-another", revision=_LATE),
    _of("any-session-for-get", "security.session-of-another", revision="2025-06-18"),
    _of("ends-before-validation", "auth.server-every-method", "security.session-of-another", revision=_LATE),
    _of("proof-for-post", "auth.server-every-method", revision=_LATE),
    _of("audience-by-beginning", "auth.server-token-audience-near"),
    _of("audience-by-origin", "auth.server-token-audience-near"),
    _of("issuer-by-beginning", "auth.server-token-issuer-near"),
    _of("takes-unsigned", "auth.server-token-unsigned"),
    _of("malformed-by-400", "auth.server-token-malformed", revision=_LATE),
    _of("bare-scheme-by-403", "auth.server-token-malformed"),
    _of("malformed-by-500", "auth.server-token-malformed"),
    _of("scheme-exact", "auth.server-token-forms", revision="2025-03-26"),
    _of("dpop-scheme-exact", "auth.server-token-forms", "dpop.server-proof-missing"),
    _of("url-with-query", "dpop.server-proof-query"),
    _of("audience-list-rejected", "auth.server-token-forms"),
    _of("scope-optional", "auth.server-scope-near", revision="2025-06-18"),
    _of("takes-any-scheme", "auth.server-token-elsewhere"),
    _of("scope-by-beginning", "auth.server-scope-near"),
    _of("connection-is-enough", "auth.server-same-connection"),
    _of("connection-takes-any-token", "auth.server-same-connection"),
    _of("processes-before-validation", "auth.server-before-processing", revision="2025-06-18"),
    _of("processes-before-validation", "auth.server-before-processing"),
    _of("notifications-are-free", "auth.server-every-message"),
    _of("responses-are-free", "auth.server-every-message", revision=_LATE),
    _of("streams-for-anyone", "auth.server-every-method", revision=_LATE),
    _of("ends-for-anyone", "auth.server-every-method", revision=_LATE),
    _of("url-by-beginning", "dpop.server-proof-near"),
    _of("url-by-origin", "dpop.server-proof-near"),
    _of("exact-audience", "auth.server-resource-upper-case"),
    _of("token-passed-upstream", "auth.server-no-passthrough", revision="2025-06-18"),
    _of("any-scope", "auth.server-scope", "auth.server-scope-near", revision=_LATE),
    _of("scope-at-opening", "auth.server-scope", revision=_LATE),
    _of("scope-of-first-word", "auth.server-token-forms"),
    _of("scope-by-401", "auth.server-scope"),
    _of("scope-by-result", "auth.server-scope"),
    _of("scope-of-token-named", "auth.server-scope-named"),
    _of("missing-scope-named", "auth.server-scope-named", revision=_LATE),
    _of("scopes-one-by-one", "auth.server-scope-named"),
    _of("error-untold-at-403", "auth.server-scope"),
    _of("scopes-by-commas", "auth.server-scope-named"),
    _of("scope-untold", "auth.server-scope-named"),
    _of("metadata-untold-at-403", "auth.server-scope-metadata"),
    _of("flat-scopes", "auth.server-scope-hierarchy"),
    _of("proof-not-needed", "dpop.server-proof-missing"),
    _of("proof-not-needed-in-lower-case", "dpop.server-proof-missing"),
    _of("takes-two-proofs", "dpop.server-proof-twice"),
    _of("takes-joined-proofs", "dpop.server-proof-twice"),
    _of("proof-unverified", "dpop.server-proof-signature"),
    _of("proof-unsigned", "dpop.server-proof-signature"),
    _of("nonce-any", "dpop.server-proof-nonce"),
    _of("nonce-empty", "dpop.server-proof-nonce"),
    _of("proof-any-type", "dpop.server-proof-type", "dpop.server-proof-near"),
    _of("proof-type-optional", "dpop.server-proof-type"),
    _of("proof-method-optional", "dpop.server-proof-method"),
    _of("proof-url-optional", "dpop.server-proof-url"),
    _of("proof-method-any-case", "dpop.server-proof-near"),
    _of("proof-url-in-one-case", "auth.server-token-forms"),
    _of("proof-any-method", "dpop.server-proof-method", "dpop.server-proof-near"),
    _of("proof-any-url", "dpop.server-proof-url", "dpop.server-proof-near"),
    _of("proof-any-token", "dpop.server-proof-token", "dpop.server-proof-no-token"),
    _of("proof-token-by-400", "dpop.server-proof-token"),
    _of("proof-ath-optional", "dpop.server-proof-no-token"),
    _of("proof-any-key", "dpop.server-proof-key", "dpop.server-unbound"),
    _of("proof-without-id", "dpop.server-proof-no-id"),
    _of("proof-null-id", "dpop.server-proof-no-id"),
    _of("proof-untimed", "dpop.server-proof-no-time"),
    _of("proof-time-as-text", "dpop.server-proof-time-text"),
    _of("proof-time-far", "dpop.server-proof-long-ago", "dpop.server-proof-milliseconds"),
    _of("proof-any-old", "dpop.server-proof-old"),
    _of("proof-any-future", "dpop.server-proof-future"),
    _of("takes-symmetric", "dpop.server-proof-symmetric"),
    _of("symmetric-offered", "dpop.server-proof-symmetric"),
    _of("proof-error-untold", *_PROOFS),
    _of("downgrades", "dpop.server-no-downgrade"),
    _of("downgrades-in-lower-case", "dpop.server-no-downgrade"),
    _of("downgrades-beside-a-proof", "dpop.server-no-downgrade"),
    _of(
        "takes-bound-for-others",
        "dpop.server-audience",
        "auth.server-token-audience",
        "auth.server-token-audience-near",
        "auth.server-token-no-audience",
    ),
    _of("no-es256", "dpop.server-algorithm"),
    _of("validates-opening-only", *_TOKENS, "auth.server-token-malformed"),
    _of("session-expired", "auth.server-token-expired", revision=_LATE),
    _of(
        "session-unsigned",
        "auth.server-token-key",
        "auth.server-token-unsigned",
        "auth.server-token-malformed",
        revision="2025-06-18",
    ),
    _of("methods-take-any-token", "auth.server-every-method", "security.session-of-another", revision=_LATE),
    _of("keeps-validated-bound", "auth.server-token-expires"),
    _of("keeps-validated", "auth.server-token-expires"),
    _of("keeps-payload", "auth.server-token-unsigned", "auth.server-token-expires"),
    _of("leeway-hour", "auth.server-token-expired", revision="2025-06-18"),
    _of("key-in-header", "auth.server-token-unsigned"),
    _of("takes-early", "auth.server-token-early"),
    _of("audience-list-unchecked", "auth.server-token-audience-near", revision=_LATE),
    _of("calls-are-free", "auth.server-every-request"),
    _of("completions-are-free", "auth.server-every-request", revision="2025-03-26"),
    _of("subscriptions-are-free", "auth.server-every-request"),
    _of("old-stream-is-free", "auth.server-every-request", revision="2025-03-26"),
    _of("old-messages-are-free", "auth.server-every-request", revision="2025-03-26"),
    _of("encoded-paths-are-free", "auth.server-every-request", revision=_LATE),
    _of("queries-are-free", "auth.server-every-request"),
    _of("slashed-paths-are-free", "auth.server-every-request", revision=_LATE),
    _of("pings-are-free", "auth.server-every-request", "security.session-is-no-token", revision="2025-06-18"),
    _of(
        "takes-opaque",
        "auth.server-token-malformed",
        "auth.server-before-processing",
        "auth.server-challenge",
        "auth.server-same-connection",
    ),
    _of("expired-to-login-page", "auth.server-token-expired", revision=_LATE),
    _of("alg-none-in-one-case", "auth.server-token-unsigned"),
    _of("batches-take-any-token", "auth.server-every-request", revision="2025-03-26"),
    _of("batches-are-free", "auth.server-every-request", revision="2025-03-26"),
    _of("token-in-url", "auth.server-token-elsewhere"),
    _of("refusal-kept", "auth.server-scope"),
    _of("scope-by-header", "auth.server-scope-beside"),
    _of("scope-of-first", "auth.server-scope-beside", revision="2025-03-26"),
    _of("scopes-shared", "auth.server-scope-beside"),
    _of("no-metadata-url-if-invalid", "auth.server-metadata-named", revision="2025-06-18"),
    _of("methods-unchallenged", "auth.server-challenge", "auth.server-metadata-named", revision="2025-06-18"),
    _of("opening-challenged-only", "auth.server-challenge", revision=_LATE),
    _of("challenge-without-commas", "auth.server-challenge", "auth.server-scope"),
    _of(
        "challenge-unquoted",
        "auth.server-challenge",
        "auth.server-scope",
        "auth.server-scope-named",
        revision=_LATE,
    ),
    _of("description-quotes", "auth.server-challenge", "auth.server-scope", revision="2025-03-26"),
    _of("realm-twice", "auth.server-challenge", "auth.server-scope", revision="2025-06-18"),
    _of("expired-error", "auth.server-challenge", revision=_LATE),
    _of("missing-as-invalid", "auth.server-challenge-no-error"),
    _of("missing-as-invalid", "auth.server-challenge-no-error", revision=_LATE),
    _of("proof-window", "dpop.server-proof-old"),
    _of("proof-private-key", "dpop.server-proof-private-key"),
    _of("proves-opening-only", *_PROOFS),
    _of("unbound-by-dpop", "dpop.server-unbound"),
    _of("scope-before-expiry", "auth.server-token-expired", revision=_LATE),
    _of("expiry-without-error", "auth.server-challenge"),
    _of("scope-in-text", "auth.server-scope-near"),
    _of("audience-first-only", "auth.server-token-forms"),
    _of("unknown-methods-are-free", "auth.server-every-request"),
    _of("expiry-whole", "auth.server-token-forms"),
    _of("unknown-key-by-500", "auth.server-token-key"),
    _of("url-by-path", "dpop.server-proof-near", "dpop.server-proof-url"),
    _of("proof-refused-as-bearer", *_PROOFS),
    # Correct servers with a behavior that is unusual. No check may fail for them.
    _of("metadata-with-query"),
    _of("nonce-required"),
)
"""All faults of the raw protected server."""


async def try_protected(fault: str | None, revision: str, chosen: Collection[str] | None = None) -> Run:
    """Test the raw protected server with a fault or without.

    Args:
        fault: The fault, or `None`.
        revision: The revision.
        chosen: The checks, or `None` for all checks of tokens.
    """
    words = f"{shlex.join(peer_command(PROTECTED_SERVER))} --port {{port}} --issuer {{issuer}} --resource {{resource}}"
    if fault is not None:
        words += f" --fault {fault}"
    all_ = {each.id for each in SERVER_CHECKS if each.area in _AREAS or each.id in _SESSIONS}
    sse_url = "http://localhost:{port}/sse" if fault in ("old-stream-is-free", "old-messages-are-free") else None
    async with started_protected(words, _AT, Settings(timeout=TIMEOUT), sse_url=sse_url) as (target, settings):
        return await run_server(
            target, settings, Manifest(), revisions=[REVISIONS[revision]], chosen=all_ if chosen is None else chosen
        )
    raise AssertionError("the block returns")


async def try_protected_fault(fault: ProtectedFault, *, own: bool = False) -> FaultResult:
    """Test the raw protected server with a fault.

    Args:
        fault: The fault.
        own: Run only the checks that must detect the fault, which is faster.
    """
    run = await try_protected(fault.name, fault.revision, (fault.caught_by or None) if own else None)
    return FaultResult.of(
        fault.name,
        fault.revision,
        "http",
        expected=fault.caught_by,
        failed=failed_checks(run),
        findings=failed_checks(attributed(run)),
    )
