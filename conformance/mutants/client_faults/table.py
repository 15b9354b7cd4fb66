"""The table of the raw client's faults.

A row names the checks that must detect the fault, and its leg. The results of all other checks must not change.
"""

from __future__ import annotations

from typing import Final

from mutants.client_faults.caching import FRESH_FAULTS
from mutants.client_faults.cancellation import CANCEL_FAULTS
from mutants.client_faults.client_requests import CLIENT_REQUEST_FAULTS
from mutants.client_faults.fault import ClientFault
from mutants.client_faults.fault import of as _of
from mutants.client_faults.fetches import FETCH_FAULTS
from mutants.client_faults.headers import HEADER_FAULTS
from mutants.client_faults.mrtr import MRTR_FAULTS
from mutants.client_faults.negotiation import ERA_FAULTS
from mutants.client_faults.param_values import PASSING_FAULTS
from mutants.client_faults.results import RESULT_FAULTS
from mutants.client_faults.robustness import BEARING_FAULTS
from mutants.client_faults.schemas import SCHEMA_FAULTS
from mutants.client_faults.skills import SKILL_FAULTS
from mutants.client_faults.tasks import TASK_FAULTS

__all__ = ["CLIENT_FAULTS", "ClientFault"]

_OLD = "2025-03-26"
_JUNE = "2025-06-18"
_LATE = "2025-11-25"
_MODERN = "2026-07-28"


CLIENT_FAULTS: Final = (
    _of("no-jsonrpc", _LATE, "http", "jsonrpc.client-version"),
    _of("no-jsonrpc", _MODERN, "stdio", "jsonrpc.client-version"),
    _of("latin-1", _LATE, "stdio", "jsonrpc.client-utf8", "stdio.client-lines"),
    _of("null-id", _LATE, "stdio", "jsonrpc.client-request-id"),
    _of("float-id", _MODERN, "http", "jsonrpc.client-request-id"),
    _of("same-id", _JUNE, "http", "jsonrpc.client-request-id-unique"),
    _of("notification-with-id", _LATE, "http", "jsonrpc.client-notification-id"),
    _of("array-params", _LATE, "http", "jsonrpc.client-params-object"),
    _of(
        "answers-notifications",
        _LATE,
        "stdio",
        "jsonrpc.client-notification-not-answered",
        "jsonrpc.client-response-once",
    ),
    _of(
        "answers-notifications",
        _MODERN,
        "stdio",
        "jsonrpc.client-notification-not-answered",
        "jsonrpc.client-no-responses",
    ),
    _of("both", _LATE, "http", "jsonrpc.client-response-shape"),
    _of("message-as-number", _LATE, "stdio", "jsonrpc.client-error-shape"),
    _of("rejected-by-number", _LATE, "stdio", "jsonrpc.client-error-shape"),
    _of("batches-in-older", _OLD, "stdio", "jsonrpc.client-version", "version.client-keeps-to-it"),
    _of("batches-in-older", _OLD, "http", "jsonrpc.client-version", "version.client-keeps-to-it"),
    _of("id-as-string", _JUNE, "stdio", "jsonrpc.client-response-id", "jsonrpc.client-response-once"),
    _of("ids-of-digits-as-numbers", _JUNE, "stdio", "jsonrpc.client-response-id"),
    _of("falsy-id-is-none", _LATE, "stdio", "jsonrpc.client-response-id"),
    _of("id-before-method", _LATE, "stdio", "jsonrpc.client-response-id"),
    _of("no-falsy-id-in-errors", _LATE, "stdio", "jsonrpc.client-response-id"),
    _of("never-reads-standalone", _LATE, "http", "jsonrpc.client-response-id", "ping.client-respond"),
    _of("dispatches-by-prefix", _LATE, "http", "jsonrpc.client-unknown-method"),
    _of("wrong-code", _LATE, "http", "jsonrpc.client-unknown-method"),
    _of("full-pong", _LATE, "http", "ping.client-respond"),
    _of("rejects-ping", _LATE, "stdio", "ping.client-respond"),
    _of("full-pong-later", _LATE, "stdio", "ping.client-respond"),
    _of("pongs-behind-calls", _LATE, "stdio", "ping.client-respond", "jsonrpc.client-response-id"),
    _of("roots-undeclared", _LATE, "http", "roots.client-undeclared"),
    _of("bad-meta-key", _MODERN, "http", "meta.client-keys"),
    _of("undeclared", _LATE, "http", "capability.client-only-declared"),
    _of("subscribes-undeclared", "2024-11-05", "http", "capability.client-only-declared"),
    _of("subscribes-undeclared", _JUNE, "http", "capability.client-only-declared"),
    _of("subscribes-by-presence", _LATE, "stdio", "capability.client-only-declared"),
    _of("asks-first", _LATE, "stdio", "lifecycle.client-initialize-first"),
    _of("no-initialized", _LATE, "http", "lifecycle.client-initialized", "version.client-goes-on"),
    _of("initialized-early", _JUNE, "stdio", "lifecycle.client-initialized", "version.client-disconnects"),
    _of("task-in-older", _LATE, "stdio", "version.client-keeps-to-it"),
    _of("any-version", _LATE, "http", "version.client-disconnects"),
    _of("any-version", "2024-11-05", "stdio", "version.client-disconnects"),
    _of(
        "no-meta",
        _MODERN,
        "stdio",
        "jsonrpc.client-params-object",
        "meta.client-version",
        "meta.client-capabilities",
        "meta.client-info",
    ),
    _of("no-capabilities", _MODERN, "stdio", "meta.client-capabilities"),
    _of("declares-for-tools", _MODERN, "http", "meta.client-capabilities-each"),
    _of("no-client-info", _MODERN, "http", "meta.client-info"),
    _of("info-without-version", _MODERN, "http", "meta.client-info-shape"),
    _of("discover-with-params", _MODERN, "http", "discover.client-params"),
    _of("no-probe", _MODERN, "stdio", "stdio.client-probe"),
    _of("tries-for-ever", _MODERN, "http", "version.client-no-mutual"),
    _of("tries-for-ever", _MODERN, "stdio", "version.client-no-mutual"),
    _of("leaves-behind-initialized", _LATE, "stdio", "version.client-goes-on"),
    _of("gives-up", _MODERN, "http", "version.client-retry"),
    _of("silent-failure", _MODERN, "http", "version.client-no-mutual"),
    _of("falls-back-always", _MODERN, "stdio", "compat.client-modern-error-no-fallback"),
    _of("falls-back-always", _MODERN, "http", "compat.client-modern-error-no-fallback"),
    _of("initializes", _MODERN, "http", "compat.client-stays-modern"),
    _of("pings", _MODERN, "http", "compat.client-no-legacy-methods"),
    _of("no-stream-accepted", _LATE, "http", "http.client-accept"),
    _of("no-stream-accepted", _MODERN, "http", "http.client-accept"),
    _of("get-accepts-all", _LATE, "http", "http.client-get-accept"),
    _of("text-plain", _MODERN, "http", "http.client-content-type"),
    _of("batched", _JUNE, "http", "http.client-one-message"),
    _of("batched", _MODERN, "stdio", "stdio.client-no-array"),
    _of("no-version-header", _JUNE, "http", "http.client-version-header"),
    _of("keeps-first-version", _JUNE, "http", "http.client-version-negotiated"),
    _of("resumes-without-version", _JUNE, "http", "http.client-version-header"),
    _of("offered-version-header", _LATE, "http", "http.client-version-negotiated"),
    _of("stream-in-offered-version", _LATE, "http", "http.client-version-negotiated"),
    _of("deletes-without-version", _JUNE, "http", "http.client-version-header"),
    _of("two-version-headers", _LATE, "http", "http.client-version-negotiated"),
    _of("deletes-in-another-version", _LATE, "http", "http.client-version-negotiated"),
    _of("no-version-header", _MODERN, "http", "header.client-version", "header.client-version-matches"),
    _of("other-version-header", _MODERN, "http", "header.client-version-matches"),
    _of("no-method-header", _MODERN, "http", "header.client-method"),
    _of("upper-method", _MODERN, "http", "header.client-method"),
    _of("no-name-tools/call", _MODERN, "http", "header.client-name-tools-call"),
    _of("no-name-resources/read", _MODERN, "http", "header.client-name-resources-read"),
    _of("no-name-prompts/get", _MODERN, "http", "header.client-name-prompts-get"),
    _of(
        "name-unencoded",
        _MODERN,
        "http",
        "header.client-name-encoded",
        "header.client-name-prompts-get",
        "header.client-name-resources-read",
        "header.client-name-tools-call",
        "tasks.client-mcp-name",
    ),
    _of("session-id", _MODERN, "http", "http.client-no-session-id"),
    _of("opens-stream", _MODERN, "http", "http.client-no-get"),
    _of("last-event-id", _MODERN, "http", "http.client-no-resumption"),
    _of("null-as-text", _MODERN, "http", "header.client-param-none"),
    _of("python-booleans", _MODERN, "http", "header.client-param-boolean"),
    _of("hexadecimal", _MODERN, "http", "header.client-param-integer"),
    _of("spaces-encoded", _MODERN, "http", "header.client-param-string"),
    _of("sentinel-plain", _MODERN, "http", "header.client-param-sentinel"),
    _of("top-level-only", _MODERN, "http", "header.client-param-nested"),
    _of("repeats-all", _MODERN, "http", "header.client-param-only-designated"),
    _of("drops-all", _MODERN, "http", "header.client-keeps-valid"),
    _of("json-only", _JUNE, "http", "http.client-both-kinds"),
    _of("json-only", _MODERN, "http", "http.client-both-kinds"),
    _of("no-session-id", _OLD, "http", "session.client-sends-id"),
    # The server rejects its responses.
    _of("answers-without-session", _LATE, "http", "session.client-sends-id", "jsonrpc.client-response-id"),
    _of("exact-session-header", _LATE, "http", "session.client-sends-id"),
    _of("needs-json-404", _OLD, "http", "session.client-reinitializes"),
    _of("session-lost", _LATE, "http", "session.client-reinitializes"),
    _of("reinitializes-once", _LATE, "http", "session.client-reinitializes"),
    _of("no-initialized-after-stream", _JUNE, "http", "lifecycle.client-initialized"),
    _of("no-initialized-again", _OLD, "http", "lifecycle.client-initialized"),
    _of("lowers-session-id", _JUNE, "http", "session.client-sends-id"),
    _of("old-session-id", _LATE, "http", "session.client-reinitializes"),
    _of("no-delete", _LATE, "http", "session.client-deletes"),
    _of("never-resumes", _LATE, "http", "sse.client-polls"),
    _of("impatient", _LATE, "http", "sse.client-respects-retry"),
    _of("retry-needs-data", _LATE, "http", "sse.client-respects-retry"),
    _of("keeps-first-retry", _LATE, "http", "sse.client-respects-retry"),
    _of("waits-once", _LATE, "http", "sse.client-respects-retry"),
    _of("other-event-id", _LATE, "http", "resume.client-last-event-id"),
    _of("endpoint-as-path", "2024-11-05", "http", "http-sse.client-posts", "jsonrpc.client-bears-unknown"),
    _of("endpoint-below-root", "2024-11-05", "http", "http-sse.client-posts"),
    _of("prefixes-whole-uris", "2024-11-05", "http", "http-sse.client-posts"),
    _of("posts-elsewhere", "2024-11-05", "http", "http-sse.client-posts"),
    _of("pretty", _JUNE, "stdio", "stdio.client-lines"),
    _of("chatty", _LATE, "stdio", "stdio.client-lines"),
    _of("unfinished-line", _LATE, "stdio", "stdio.client-lines"),
    _of("terminates-at-once", _LATE, "stdio", "stdio.client-closes-input"),
    _of("kills-at-once", _LATE, "stdio", "stdio.client-closes-input"),
    _of("never-terminates", _LATE, "stdio", "stdio.client-waits"),
    _of("leaves-it-running", _LATE, "stdio", "stdio.client-waits", "stdio.client-kills"),
    _of("only-terminates", _LATE, "stdio", "stdio.client-kills"),
    _of("info-without-version", _LATE, "stdio", "schema.client-initialize"),
    _of("list-arguments", _JUNE, "stdio", "schema.client-tools-call"),
    _of("list-arguments", _MODERN, "stdio", "schema.client-messages", "tools.client-arguments"),
    _of("number-arguments", _LATE, "stdio", "schema.client-prompts-get"),
    _of("null-token", _LATE, "stdio", "progress.client-token"),
    _of("null-params", _LATE, "stdio", "jsonrpc.client-params-object"),
    _of("float-token", _LATE, "stdio", "progress.client-token"),
    _of("takes-stderr-for-failure", _LATE, "stdio", "stdio.client-bears-stderr"),
    *BEARING_FAULTS,
    *ERA_FAULTS,
    *FRESH_FAULTS,
    *HEADER_FAULTS,
    *PASSING_FAULTS,
    *SCHEMA_FAULTS,
    *SKILL_FAULTS,
    *CLIENT_REQUEST_FAULTS,
    *CANCEL_FAULTS,
    *FETCH_FAULTS,
    *MRTR_FAULTS,
    *RESULT_FAULTS,
    *TASK_FAULTS,
)
"""All faults of the raw client."""
