"""Errors of authorization and their lists of attempts."""

from __future__ import annotations

import attrs
import pytest

from mcp_core.errors import (
    Attempt,
    AuthorizationError,
    AuthorizationRefused,
    DiscoveryFailed,
    ErrorContext,
    InsufficientScope,
    IssuerMismatch,
    McpError,
    RegistrationFailed,
    TokenRefused,
    UnsafeUrl,
)


def test_authorization_error_lists_attempts() -> None:
    error = DiscoveryFailed("nothing was found")
    assert str(error) == "nothing was found"
    error.attempts = (
        Attempt("https://a.example/x", "issuer", "status 404"),
        Attempt("https://b.example/", "token", "gone"),
    )
    error.context = ErrorContext(method="tools/call")
    assert str(error) == (
        "nothing was found (method tools/call)\n"
        "  https://a.example/x (issuer): status 404\n"
        "  https://b.example/ (token): gone"
    )
    again = AuthorizationError("x", attempts=error.attempts)
    assert again.attempts == error.attempts


@pytest.mark.parametrize("kind", [RegistrationFailed, AuthorizationRefused, TokenRefused])
def test_oauth_error_has_code_description_and_status(
    kind: type[RegistrationFailed | AuthorizationRefused | TokenRefused],
) -> None:
    error = kind("no", error="invalid_grant", description="it ended", status=400)
    assert isinstance(error, AuthorizationError)
    assert isinstance(error, McpError)
    assert (error.error, error.description, error.status) == ("invalid_grant", "it ended", 400)
    assert (kind("no").error, kind("no").description, kind("no").status) == (None, None, None)


def test_authorization_errors_have_details() -> None:
    mismatch = IssuerMismatch("no", expected="a", received=None)
    assert (mismatch.expected, mismatch.received) == ("a", None)
    unsafe = UnsafeUrl("javascript:" + "x" * 300, "it is not a URL", what="logo_uri")
    assert (unsafe.reason, unsafe.what) == ("it is not a URL", "logo_uri")
    assert len(unsafe.message) < 300
    scope = InsufficientScope("no", required=["a"], granted=["b"])
    assert (scope.required, scope.granted, scope.authorization_url) == (("a",), ("b",), None)


def test_attempt_is_attrs_value() -> None:
    assert attrs.astuple(Attempt("u", "w", "v")) == ("u", "w", "v")
