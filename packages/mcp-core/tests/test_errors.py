"""The error classes: blame, codes, context."""

from __future__ import annotations

import pytest

from mcp_core import errors
from mcp_core.errors import (
    ConnectionEnded,
    ErrorCode,
    ErrorContext,
    HeaderMismatch,
    InvalidValue,
    LimitExceeded,
    LocalProtocolError,
    McpError,
    MissingRequiredClientCapability,
    NegotiationFailed,
    Phase,
    ProcessFailed,
    ProtocolError,
    RemoteProtocolError,
    RequestFailed,
    RequestTimeout,
    ResourceNotFound,
    UnsupportedProtocolVersion,
    UrlElicitationRequired,
    request_failed,
)
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2026_07_28


def test_errors_derive_from_mcp_error() -> None:
    found = [getattr(errors, name) for name in errors.__all__]
    exceptions = [each for each in found if isinstance(each, type) and issubclass(each, Exception)]
    assert len(exceptions) > 15
    assert all(issubclass(each, McpError) for each in exceptions)


def test_protocol_error_without_blame_raises() -> None:
    with pytest.raises(TypeError, match="the blame must be known"):
        ProtocolError("a rule was broken")
    assert LocalProtocolError("local").code == ErrorCode.INVALID_REQUEST
    remote = RemoteProtocolError("remote", code=ErrorCode.INVALID_PARAMS, anchor="basic#meta")
    assert (remote.code, remote.anchor) == (ErrorCode.INVALID_PARAMS, "basic#meta")


def test_error_text_contains_context() -> None:
    error = RequestFailed("no such city", code=7)
    assert str(error) == "no such city [7]"
    error.context = ErrorContext(
        method="tools/call",
        request_id="a",
        peer="weather 1.2",
        phase=Phase.REQUEST,
        stderr_tail="Traceback\nKeyError\n",
        missing_env=("API_KEY", "API_URL"),
    )
    assert str(error) == (
        "no such city (method tools/call, id 'a', peer weather 1.2, phase request) [7]\n"
        "Last lines of stderr:\nTraceback\nKeyError\n"
        "The process may require an environment variable that was not passed to it: API_KEY, API_URL. Pass it with `env=`, "
        "or all variables of this process with `inherit_env=True`."
    )
    assert ErrorContext().describe() == ""


def test_limit_exceeded_names_setting() -> None:
    error = LimitExceeded("line length in bytes", observed=12, allowed=10, setting="Limits.message_bytes")
    assert str(error) == "line length in bytes: 12 is over the limit of 10; the setting is Limits.message_bytes"
    assert (error.observed, error.allowed) == (12, 10)


def test_invalid_value_names_path() -> None:
    assert (
        str(InvalidValue("expected a string", path="content[0].text", raw=[])) == "content[0].text: expected a string"
    )
    assert str(InvalidValue("expected an object")) == "expected an object"


@pytest.mark.spec("error.legacy-range-no-meaning")
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (-32002, ResourceNotFound),
        (-32020, HeaderMismatch),
        (-32021, MissingRequiredClientCapability),
        (-32022, UnsupportedProtocolVersion),
        (-32042, UrlElicitationRequired),
        (-32603, RequestFailed),
        (12, RequestFailed),
        (-32000, RequestFailed),
        (-32001, RequestFailed),
        (-32019, RequestFailed),
    ],
)
def test_request_failed_returns_specific_class_for_code(code: int, kind: type[RequestFailed]) -> None:
    error = request_failed(code, "text", {"a": 1})
    assert type(error) is kind
    assert (error.code, error.message, error.data) == (code, "text", {"a": 1})


@pytest.mark.spec("version.unsupported-data-supported", "version.unsupported-data-requested")
def test_unsupported_version_lists_supported_versions() -> None:
    error = UnsupportedProtocolVersion.of("2030-01-01", ["2026-07-28", "2025-11-25"])
    assert error.code == -32022
    assert error.data == {"supported": ["2026-07-28", "2025-11-25"], "requested": "2030-01-01"}
    assert error.supported == ("2026-07-28", "2025-11-25")
    assert request_failed(-32022, "no", {"supported": ["a", 1]}).__class__ is UnsupportedProtocolVersion
    assert UnsupportedProtocolVersion("no", data={"supported": ["a", 1]}).supported == ("a",)
    assert UnsupportedProtocolVersion("no", data="?").supported == ()
    assert UnsupportedProtocolVersion("no", data={"supported": "all"}).supported == ()


@pytest.mark.spec("capability.missing-required-data")
def test_missing_capability_and_resource_named() -> None:
    missing = MissingRequiredClientCapability.of({"sampling": {}}, "sampling/createMessage")
    assert missing.data == {"requiredCapabilities": {"sampling": {}}}
    assert "sampling/createMessage" in missing.message
    assert ResourceNotFound.of("note://x").data == {"uri": "note://x"}


def test_timeout_negotiation_and_process_errors_have_details() -> None:
    assert (
        str(RequestTimeout("no answer", deadline="idle", seconds=60)) == "no answer: the idle deadline of 60 s passed"
    )
    failed = NegotiationFailed("nothing in common", own_revisions=["a"], peer_revisions=["b"])
    assert (failed.own_revisions, failed.peer_revisions) == (("a",), ("b",))
    assert ProcessFailed("it ended", exit_code=3).exit_code == 3


@pytest.mark.spec("error.legacy-range-no-new-codes", "error.legacy-range-avoid")
def test_error_code_of_legacy_range_only_resource_not_found() -> None:
    assert {code for code in ErrorCode if -32019 <= code <= -32000} == {ErrorCode.RESOURCE_NOT_FOUND}
    assert R2026_07_28.resource_not_found == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("error.local-errors-distinct")
def test_local_errors_are_not_request_failed() -> None:
    for code in range(-32_800, 100):
        assert isinstance(request_failed(code, "x"), RequestFailed)
    for local in (LocalProtocolError, RequestTimeout, LimitExceeded, NegotiationFailed, ProcessFailed, ConnectionEnded):
        assert not issubclass(local, RequestFailed)


def test_missing_capabilities_named_with_dots() -> None:
    needed: JsonObject = {"sampling": {"tools": {}}, "roots": {}, "elicitation": {"url": {}, "form": {}}}
    error = MissingRequiredClientCapability.of(needed, "it")
    assert error.message.endswith("not declared: sampling.tools, roots, elicitation.url, elicitation.form")
