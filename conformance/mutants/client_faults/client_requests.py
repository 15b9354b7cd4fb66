"""Faults of the raw client's capabilities and of its answers to client requests."""

from __future__ import annotations

from typing import Final

from mutants.client_faults.fault import of

__all__ = ["CLIENT_REQUEST_FAULTS"]

_FIRST = "2024-11-05"
_OLD = "2025-03-26"
_JUNE = "2025-06-18"
_LATE = "2025-11-25"
_MODERN = "2026-07-28"

CLIENT_REQUEST_FAULTS: Final = (
    of("odd-modes", _LATE, "stdio", "elicitation.client-modes"),
    of("answers-undeclared-elicitation", _JUNE, "stdio", "elicitation.client-undeclared"),
    of("answers-undeclared-elicitation", _MODERN, "stdio", "elicitation.client-undeclared"),
    of("visits-undeclared", _LATE, "stdio", "elicitation.client-undeclared"),
    of("visits-undeclared", _MODERN, "http", "elicitation.client-undeclared"),
    of("mode-required", _LATE, "stdio", "elicitation.client-form-without-mode"),
    of("invalid-as-internal", _LATE, "stdio", "elicitation.client-invalid-params"),
    of("odd-action", _MODERN, "stdio", "elicitation.client-result", "schema.client-messages"),
    of("odd-action-later", _LATE, "stdio", "elicitation.client-result"),
    of("content-of-objects", _LATE, "stdio", "elicitation.client-result"),
    of("age-as-text", _JUNE, "stdio", "elicitation.client-content-fits"),
    of("age-as-text", _MODERN, "http", "elicitation.client-content-fits"),
    of("url-content", _LATE, "http", "elicitation.client-url-no-content"),
    of("url-content", _MODERN, "stdio", "elicitation.client-url-no-content"),
    of("reads-elicitation-id", _LATE, "stdio", "elicitation.client-id-opaque"),
    of("any-mode", _LATE, "stdio", "elicitation.client-undeclared-mode"),
    of("any-mode", _MODERN, "stdio", "elicitation.client-undeclared"),
    of("mode-as-invalid-request", _LATE, "stdio", "elicitation.client-undeclared-mode"),
    of("dies-of-unknown-completion", _LATE, "stdio", "elicitation.client-complete-unknown"),
    of("sends-unfit", _MODERN, "stdio", "elicitation.client-validates"),
    of("sends-unfit", _JUNE, "stdio", "elicitation.client-validates"),
    of("validates-no-length", _JUNE, "stdio", "elicitation.client-validates"),
    of("validates-no-minimum", _MODERN, "stdio", "elicitation.client-validates"),
    of("validates-no-maximum", _LATE, "http", "elicitation.client-validates"),
    of("validates-no-choice", _LATE, "stdio", "elicitation.client-validates"),
    of("validates-no-type", _MODERN, "http", "elicitation.client-validates"),
    of("validates-no-required", _MODERN, "stdio", "elicitation.client-validates"),
    of("no-false-defaults", _LATE, "stdio", "elicitation.client-defaults"),
    of("no-false-defaults", _MODERN, "stdio", "elicitation.client-defaults"),
    of("no-defaults", _MODERN, "stdio", "elicitation.client-defaults"),
    of("decline-content", _MODERN, "stdio", "elicitation.client-decline-no-content"),
    of("cancel-content", _MODERN, "stdio", "elicitation.client-decline-no-content"),
    of("completes-once", _LATE, "stdio", "elicitation.client-complete-unknown"),
    of("message-optional", _LATE, "stdio", "elicitation.client-invalid-params"),
    of("answers-undeclared-sampling", _FIRST, "stdio", "sampling.client-undeclared"),
    of("answers-undeclared-sampling", _MODERN, "http", "sampling.client-undeclared"),
    of("no-model", _OLD, "stdio", "sampling.client-result"),
    of("no-model", _MODERN, "stdio", "sampling.client-result", "schema.client-messages"),
    of("no-model-later", _JUNE, "http", "sampling.client-result"),
    of("content-in-capitals", _JUNE, "stdio", "sampling.client-result"),
    of("content-in-capitals", _MODERN, "stdio", "sampling.client-result"),
    of("says-as-user", _MODERN, "stdio", "sampling.client-role"),
    of("any-length", _MODERN, "stdio", "sampling.client-max-tokens"),
    of("no-images", _FIRST, "stdio", "sampling.client-bears-image"),
    of("no-audio", _LATE, "stdio", "sampling.client-bears-audio"),
    of("any-tools", _LATE, "stdio", "sampling.client-undeclared-tools"),
    of("any-tools", _MODERN, "stdio", "sampling.client-undeclared-tools"),
    of("never-uses-tools", _LATE, "stdio", "sampling.client-tool-required"),
    of("always-uses-tools", _LATE, "stdio", "sampling.client-tool-none"),
    of("use-without-input", _LATE, "stdio", "sampling.client-tool-use", "sampling.client-result"),
    of("missing-results", _LATE, "stdio", "sampling.client-missing-result"),
    of("missing-results", _MODERN, "stdio", "sampling.client-missing-result"),
    of("mixed-results", _LATE, "stdio", "sampling.client-mixed-result"),
    of("any-content", _JUNE, "stdio", "sampling.client-validates"),
    of("messages-optional", _LATE, "stdio", "sampling.client-invalid-params"),
    of("rejected-as-internal", _LATE, "stdio", "sampling.client-rejected"),
    of("unbalanced-as-internal", _LATE, "stdio", "sampling.client-missing-result", "sampling.client-mixed-result"),
    of("hints-backwards", _LATE, "stdio", "sampling.client-hints-order"),
    of("hints-exact", _OLD, "stdio", "sampling.client-hints-substring"),
    of("priorities-first", _LATE, "stdio", "sampling.client-hints-first"),
    of("answers-undeclared-roots", _LATE, "stdio", "roots.client-undeclared-answer"),
    of("answers-undeclared-roots", _MODERN, "stdio", "roots.client-undeclared-answer"),
    of("roots-path", _LATE, "stdio", "roots.client-result"),
    of("roots-unencoded", _LATE, "stdio", "roots.client-result"),
    of("roots-unencoded", _MODERN, "http", "roots.client-result"),
    of("roots-changes-undeclared", _JUNE, "stdio", "roots.client-list-changed-declared"),
    of("roots-http", _JUNE, "stdio", "roots.client-file"),
    of("roots-http", _MODERN, "stdio", "roots.client-file"),
    of("roots-http-later", _LATE, "http", "roots.client-file"),
    of("roots-traversal", _LATE, "stdio", "roots.client-no-traversal"),
    of("roots-fail-oddly", _LATE, "stdio", "roots.client-internal-error"),
    of("roots-fail-null", _FIRST, "http", "roots.client-internal-error", "jsonrpc.client-response-shape"),
    of("roots-silent", _LATE, "stdio", "roots.client-list-changed"),
    of("roots-list-changed", _MODERN, "stdio", "roots.client-no-list-changed"),
    of("forgets-capabilities", _LATE, "stdio", "capability.client-keeps-declared"),
    of("experimental-flag", _MODERN, "stdio", "capability.client-experimental"),
    of("extensions-list", _MODERN, "stdio", "capability.client-extensions"),
    of("extension-bare-name", _MODERN, "stdio", "capability.client-extension-names"),
    of("uses-extension", _MODERN, "stdio", "capability.client-extension-inactive"),
)
"""The faults of this module."""
