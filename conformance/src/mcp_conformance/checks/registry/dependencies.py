"""The checks on which others depend, so that one fault is one finding.

A check depends on another one if what the other one requires is the precondition of what it judges: the schema of a list
on the schema of its entries, the content of a subscription on its acknowledgment. If both fail, the failure of the
dependent check may have the same cause, and the check is not testable until the other one passes.

*Basic* checks are those of message framing. Every check depends on them, but only as far as its own messages break them:
an unrelated failure remains one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CLIENT_DEPENDENCIES", "SERVER_BASICS", "SERVER_DEPENDENCIES"]

SERVER_BASICS: Final = (
    "http.content-type",
    "stdio.stdout-only-messages",
    "jsonrpc.utf8",
    "jsonrpc.version-member",
    "jsonrpc.response-shape",
    "jsonrpc.response-ids",
    "jsonrpc.error-shape",
    "jsonrpc.result-type",
)
"""The basic checks of servers. They judge recorded messages."""

_CACHED: Final = ("caching.ttl", "caching.scope")
_ENTRY: Final = ("schema.icon", "schema.annotations")
_ORIGIN: Final = ("http.origin-foreign",)
_SUBSCRIPTION: Final = (
    "subscription.served",
    "subscription.acknowledged-first",
    "subscription.acknowledged-filter",
    "subscription.tagged",
)

SERVER_DEPENDENCIES: Final[Mapping[str, tuple[str, ...]]] = {
    # Framing and JSON-RPC.
    "stdio.unicode": ("jsonrpc.utf8",),
    "stdio.stdout-only-messages": ("jsonrpc.utf8",),
    "sse.data": ("jsonrpc.version-member",),
    "http.array": ("batch.refused",),
    "batch.refused": ("jsonrpc.no-request-object",),
    "batch.element-kinds": ("batch.http-202",),
    **{
        f"jsonrpc.no-json-{each}": ("jsonrpc.parse-error",) for each in ("bad-utf8", "nan", "two-values", "deep", "cut")
    },
    **{f"jsonrpc.no-request-{each}": ("jsonrpc.no-request-object",) for each in ("string", "number")},
    "schema.empty-result": ("ping.empty-result",),
    "compat.modern-beside-legacy": ("compat.legacy-session",),
    "http.method-not-found": ("jsonrpc.unknown-method",),
    "http.removed-methods": ("http.method-not-found",),
    "http.legacy-initialize": ("compat.initialize-refused",),
    "mrtr.no-requests": ("jsonrpc.server-no-requests",),
    # Metadata and versions.
    "jsonrpc.stateless": ("meta.missing", "meta.missing-version", "meta.missing-capabilities"),
    "meta.missing-status": ("meta.missing-capabilities",),
    "http.meta-missing": ("meta.missing", "meta.missing-version", "meta.missing-capabilities", "meta.missing-status"),
    "version.unsupported-every-method": ("version.unsupported",),
    "discover.consistent": ("discover.supported-versions",),
    "discover.result": ("caching.discover",),
    "meta.server-info": ("discover.server-info", "jsonrpc.response-shape"),
    "jsonrpc.result-type": ("jsonrpc.response-shape",),
    "meta.key-label": ("meta.key-prefix",),
    "schema.implementation": ("meta.server-info-shape",),
    "capability.missing-required": ("jsonrpc.stateless-capabilities",),
    "http.missing-capability": ("jsonrpc.stateless-capabilities",),
    "capability.undeclared-not-served": (
        "tools.declared",
        "resources.declared",
        "prompts.declared",
        "completion.declared",
    ),
    **{f"{each}.undeclared": (f"{each}.declared",) for each in ("tools", "resources", "prompts", "completion")},
    "tools.embedded-resource-capability": ("resources.declared",),
    # HTTP.
    "http.origin-lookalike": _ORIGIN,
    "http.origin-null": _ORIGIN,
    "http.origin-notification": _ORIGIN,
    "header.method-case": ("header.method-mismatch",),
    "header.invalid-characters": ("header.name-mismatch",),
    "header.param-base64-invalid": ("header.param-mismatch",),
    "header.param-characters": ("header.param-mismatch",),
    **{
        f"header.{each}": ("header.method-missing",)
        for each in (
            "method-mismatch",
            "name-missing",
            "name-mismatch",
            "param-mismatch",
            "param-missing",
            "version-mismatch",
        )
    },
    "tasks.mcp-name": ("header.name-missing",),
    "security.session-ids": ("session.id-random",),
    # Lists and pages.
    "schema.paginated": ("pagination.cursor-is-a-string",),
    "pagination.walk": ("pagination.cursor-is-a-string",),
    "pagination.stable-cursor": ("pagination.cursor-is-a-string", "pagination.walk", "resources.same-everywhere"),
    "pagination.cursor-elsewhere": ("pagination.cursor-is-a-string", "pagination.walk", "resources.same-everywhere"),
    "caching.scope-of-pages": ("pagination.cursor-is-a-string", "caching.scope"),
    "resources.unique": ("pagination.walk",),
    "resources.same-everywhere": ("pagination.walk",),
    "tools.order": ("tools.same-everywhere",),
    "resources.listed-can-be-read": ("resources.uri-syntax", "resources.same-everywhere"),
    "schema.list-tools-result": ("caching.tools-list", *_CACHED),
    "schema.list-prompts-result": ("caching.prompts-list", *_CACHED),
    "schema.list-resources-result": ("caching.resources-list", *_CACHED),
    "schema.list-templates-result": ("caching.resources-templates-list", *_CACHED),
    "schema.read-resource-result": ("caching.resources-read", "resources.text"),
    "tools.list-schema": (
        "schema.list-tools-result",
        "schema.tool",
        "schema.tool-annotations",
        "schema.tool-output-schema",
        "schema.tool-execution",
        "schema.paginated",
        *_ENTRY,
    ),
    "prompts.list-schema": ("schema.list-prompts-result", "schema.prompt", "schema.paginated", *_ENTRY),
    "resources.list-schema": ("schema.list-resources-result", "schema.resource", "schema.paginated", *_ENTRY),
    "resources.templates-list-schema": (
        "schema.list-templates-result",
        "schema.resource-template",
        "schema.paginated",
        *_ENTRY,
    ),
    "schema.resource": ("resources.uri-syntax",),
    "schema.tool": ("tools.input-schema",),
    "schema.valid-schemas": ("tools.input-schema",),
    "tasks.not-augmentable": ("schema.list-tools-result",),
    # Tools, resources, prompts, completion.
    "resources.text": ("caching.resources-read", "schema.resource-contents"),
    "schema.base64": ("resources.binary", "prompts.image"),
    "schema.get-prompt-result": ("prompts.get", "jsonrpc.response-shape"),
    "schema.complete-result": ("completion.result",),
    "tools.invalid-arguments-result": ("tools.validates",),
    "schema.validates-2020-12": ("tools.validates",),
    "tools.structured-also-text": ("tools.structured",),
    "tools.failure": ("schema.call-tool-result",),
    "resources.not-found-code": ("resources.not-found-is-not-empty", "error.legacy-range"),
    "completion.unknown-reference": ("completion.validates",),
    "completion.missing-argument": ("completion.validates", "completion.unknown-reference"),
    # Notifications.
    "schema.log-message": ("logging.shape",),
    "logging.level": ("schema.logging-level",),
    "logging.shape": ("schema.logging-level",),
    "logging.not-without-level": ("logging.declared",),
    "logging.level-is-forgotten": ("logging.not-without-level",),
    "schema.progress": ("progress.shape",),
    "progress.increasing": ("progress.shape", "sse.get-no-response"),
    "schema.cancelled": ("cancellation.of-own-requests",),
    "stdio.cancelled-silent": ("cancellation.stops",),
    "resources.updated": ("http.get",),
    "resources.updated-only-if-subscribed": ("http.get", "resources.updated"),
    **{
        f"subscription.{each}": _SUBSCRIPTION
        for each in (
            "id",
            "not-offered",
            "stays-open",
            "event-stream",
            "ends-with-cancelled",
            "ends-with-a-result",
            "result-shape",
            "tools-changed",
            "prompts-changed",
            "resources-changed",
            "several",
            "cancelled",
        )
    },
    "subscription.acknowledged-first": ("subscription.served",),
    "subscription.acknowledged-filter": ("subscription.served",),
    "subscription.tagged": ("subscription.not-unasked",),
    "subscription.not-on-another-connection": ("subscription.not-unasked",),
    "subscription.only-what-was-asked": (
        "subscription.not-unasked",
        "subscription.acknowledged-first",
        "subscription.tagged",
    ),
    "subscription.only-these-resources": ("subscription.only-what-was-asked",),
    "tasks.listen": ("subscription.acknowledged-first", "subscription.acknowledged-filter"),
    # Client requests.
    "elicitation.fields": ("elicitation.message", "elicitation.form", "schema.elicit-primitives"),
    "schema.elicit-form": ("elicitation.message", "elicitation.form"),
    "schema.elicit-flat": ("elicitation.fields",),
    "schema.elicit-url": ("elicitation.url-params", "elicitation.url-valid", "elicitation.required"),
    "elicitation.url-params": ("elicitation.message",),
    "elicitation.url-https": ("elicitation.url-valid",),
    "elicitation.complete-id": ("elicitation.url-params",),
    "schema.elicitation-complete": ("elicitation.complete-id",),
    "elicitation.required": ("schema.url-elicitation-required",),
    "elicitation.required-only-then": ("schema.url-elicitation-required",),
    "capability.undeclared-not-asked": ("elicitation.only-declared-modes",),
    "mrtr.only-what-is-declared": ("elicitation.only-declared-modes",),
    "roots.not-without-capability": ("elicitation.only-declared-modes",),
    "mrtr.answers-of-another-kind": ("elicitation.validates",),
    "sampling.validates": ("elicitation.validates",),
    "schema.create-message-params": ("sampling.shape", "sampling.tool-choice"),
    "schema.model-preferences": ("sampling.priorities",),
    "roots.request-shape": ("mrtr.requests-shape",),
    "schema.input-required": ("mrtr.asks-or-has-state", "mrtr.state-is-a-string"),
    "mrtr.completes": ("mrtr.asks-or-has-state",),
    "mrtr.state-of-another-user": ("mrtr.state-of-another-request",),
    # Tasks.
    "tasks.transitions": ("tasks.status",),
    "tasks.get-at-once": ("tasks.status",),
    "tasks.other-user-extension": ("tasks.status",),
    "tasks.cancel-ended": ("tasks.cancelled",),
    "tasks.legacy-declaration": ("tasks.methods-undeclared",),
    "schema.call-tool-result": ("tasks.completed", "jsonrpc.result-type"),
    "schema.related-task": ("tasks.related",),
    "tasks.advertised": ("jsonrpc.result-type-not-unadvertised",),
    "tasks.fallback": ("jsonrpc.result-type-not-unadvertised",),
    # Authorization.
    "auth.server-metadata-named": ("auth.server-challenge",),
    "auth.server-scope": ("auth.server-challenge", "security.session-is-no-token"),
    "auth.server-every-request": ("auth.server-token-missing", "security.session-is-no-token"),
    "auth.server-before-processing": ("auth.server-every-request",),
    "auth.server-metadata-resource": ("auth.server-metadata-no-slash",),
    "security.session-of-another": ("security.session-is-no-token",),
    "dpop.server-audience": ("auth.server-token-audience",),
    "dpop.server-proof-no-token": ("dpop.server-proof-token",),
    **{
        f"dpop.server-proof-{each}": ("dpop.server-proof-missing",)
        for each in (
            "twice",
            "malformed",
            "signature",
            "type",
            "method",
            "url",
            "token",
            "key",
            "no-id",
            "old",
            "future",
            "symmetric",
        )
    },
    "auth.as-default-endpoints": ("auth.as-metadata-at-root",),
    "auth.as-redirect-exact": ("auth.as-registers",),
}
"""By check of a server, those on which it depends."""

_REQUEST: Final = ("jsonrpc.client-params-object",)

CLIENT_DEPENDENCIES: Final[Mapping[str, tuple[str, ...]]] = {
    # Messages.
    "stdio.client-lines": ("jsonrpc.client-utf8",),
    "meta.client-version": (*_REQUEST, "meta.client-retries"),
    "meta.client-capabilities": ("meta.client-version",),
    "meta.client-info": ("meta.client-version",),
    "jsonrpc.client-no-responses": ("jsonrpc.client-notification-not-answered", "error.client-reserved-codes"),
    "version.client-goes-on": ("lifecycle.client-initialized",),
    "jsonrpc.client-request-id-in-flight": ("http.client-reissues",),
    "batch.client-kinds": ("batch.client-post-body",),
    "batch.client-receives-stdio": ("batch.client-receives",),
    "stdio.client-kills": ("stdio.client-waits",),
    "schema.client-messages": (
        "completion.client-reference",
        "elicitation.client-result",
        "mrtr.client-decline",
        "mrtr.client-response-shape",
        "prompts.client-arguments",
        "sampling.client-result",
        "schema.client-task-requests",
        "subscription.client-filter",
        "tasks.client-update",
        "tools.client-arguments",
    ),
    "subscription.client-filter": ("tasks.client-listen",),
    "schema.client-tools-call": ("schema.client-task-metadata",),
    "http.client-accept": ("tasks.client-http",),
    # Headers.
    "header.client-version-matches": ("header.client-version",),
    "header.client-name-resources-read": ("header.client-name-encoded",),
    "tasks.client-mcp-name": ("header.client-name-encoded",),
    "header.client-param-nested": ("header.client-param-base64",),
    "header.client-param-base64": ("header.client-param-injection",),
    **{f"header.client-param-{each}": ("header.client-param-mirrored",) for each in ("string", "integer", "boolean")},
    # Pages.
    "pagination.client-session": ("pagination.client-cursor",),
    "pagination.client-lengths": ("pagination.client-cursor",),
    "pagination.client-whole": ("pagination.client-cursor", "pagination.client-empty-cursor"),
    # Tasks and progress.
    "tasks.client-keeps-polling": ("tasks.client-polls",),
    "tasks.client-both-results": ("tasks.client-polls",),
    "tasks.client-cancelled-stays": ("tasks.client-cancelled",),
    "tasks.client-transitions": ("tasks.client-cancelled-stays",),
    "progress.client-task-token": ("progress.client-unique",),
    "progress.client-task-same": ("progress.client-known",),
    "sampling.client-mixed-result": ("sampling.client-missing-result",),
    # Authorization.
    "auth.client-challenge-parsed": ("auth.client-metadata-named",),
    "auth.client-metadata-both-ways": ("auth.client-metadata-named",),
    "auth.client-flow": ("auth.client-resource-metadata",),
    "auth.client-server-metadata": ("auth.client-resource-metadata", "auth.client-metadata-first"),
    "auth.client-metadata-first": ("auth.client-base-url",),
    "auth.client-server-metadata-several": ("auth.client-server-metadata-kinds",),
    "auth.client-server-metadata-order-path": ("auth.client-server-metadata-kinds",),
    "auth.client-server-metadata-order-root": (
        "auth.client-server-metadata-kinds",
        "auth.client-server-metadata-order-path",
    ),
    "auth.client-resource-specific": ("auth.client-resource-identifies",),
    "client-credentials.client-resource": ("auth.client-resource-identifies", "auth.client-resource-in-token"),
    "wif.client-names-resource": ("auth.client-resource-identifies", "auth.client-resource-in-token"),
    "auth.client-iss-present": ("auth.client-iss-exact",),
    "auth.client-iss-before-token": ("auth.client-iss-exact",),
    "auth.client-iss-unexpected": ("auth.client-iss-exact",),
    "auth.client-preregistered": ("client-credentials.client-proves",),
    "ema.client-proves": ("client-credentials.client-proves",),
    "client-credentials.client-proves": ("client-credentials.client-assertion",),
    "auth.client-registration-priority": ("auth.client-preregistered", "auth.client-document"),
    "auth.client-native": ("auth.client-application-type",),
    "auth.client-registration-obtained": ("auth.client-registration-refused",),
    "auth.client-change-reregisters": ("auth.client-change-no-reuse",),
    "auth.client-scope-least": ("auth.client-scope-challenged",),
}
"""By check of a client, those on which it depends."""
