from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.codec import Batch
from mcp_core.errors import LimitExceeded
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.http.header_parameters import ParamHeader
from mcp_core.http.messages import Headers, HttpRequest
from mcp_core.http.server import Post, Rejection, ServerExchange
from mcp_core.jsonrpc.messages import (
    ErrorResponse,
    JsonObject,
    JsonValue,
    Notification,
    Request,
    ResultResponse,
)
from mcp_core.limits import Limits
from mcp_core.revisions import (
    LEGACY,
    MODERN,
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    REVISIONS,
    Era,
    Revision,
)
from mcp_core.types.meta import CLIENT_CAPABILITIES, PROTOCOL_VERSION

ALL: Final = frozenset(REVISIONS.values())
MODERN_ONLY: Final = frozenset(MODERN)
LEGACY_ONLY: Final = frozenset(LEGACY)
VERSION: Final = "2026-07-28"

HEADERS: Final = {
    "Host": "localhost:8000",
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}
"""Headers of each POST of a correct client."""

ENVELOPE: Final[JsonObject] = {PROTOCOL_VERSION: VERSION, CLIENT_CAPABILITIES: {}}


def exchange(
    method: str = "POST",
    *,
    revisions: frozenset[Revision] = ALL,
    policy: EndpointPolicy | None = None,
    limits: Limits | None = None,
    without: Sequence[str] = (),
    more: Mapping[str, str] = MappingProxyType({}),
    **headers: str,
) -> ServerExchange:
    """Return an exchange with the usual headers and `headers`, in which an underscore stands for a hyphen."""
    given = {name: value for name, value in HEADERS.items() if name not in without}
    given |= {name.replace("_", "-"): value for name, value in {**headers, **more}.items()}
    request = HttpRequest(method=method, target="/mcp", headers=Headers(list(given.items())))
    return ServerExchange(request, policy or EndpointPolicy(), limits or Limits(), revisions)


def no_header_params(tool: str) -> Sequence[ParamHeader]:
    return ()


def request(method: str, *, id: int | str = 1, meta: JsonObject | None = None, **params: JsonValue) -> bytes:
    if meta is not None:
        params["_meta"] = meta
    return orjson.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


INITIALIZE: Final = request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={})


def modern(method: str, **headers: str) -> ServerExchange:
    return exchange(MCP_Protocol_Version=VERSION, Mcp_Method=method, more=headers)


def get_rejection(outcome: Rejection | Post | None, status: int) -> JsonObject:
    """Return the body of a rejection after checking its status and headers."""
    assert isinstance(outcome, Rejection)
    assert outcome.status == status
    head = outcome.head()
    assert head.status == status
    assert head.headers.get("content-type") == "application/json"
    assert head.headers.get("cache-control") == "no-store"
    assert head.headers.get("x-content-type-options") == "nosniff"
    assert head.headers.get("content-length") == str(len(outcome.body()))
    body = orjson.loads(outcome.body())
    assert isinstance(body, dict)
    assert body["error"]["message"] == outcome.reason
    return body


def code_of(body: JsonObject) -> JsonValue:
    error = body["error"]
    assert isinstance(error, dict)
    return error["code"]


def get_post(outcome: Rejection | Post, era: Era) -> Post:
    assert isinstance(outcome, Post), outcome
    assert outcome.era is era
    return outcome


# --- before the body


@pytest.mark.parametrize("revisions", [ALL, MODERN_ONLY, LEGACY_ONLY])
def test_post_correct_headers_admitted(revisions: frozenset[Revision]) -> None:
    assert exchange(revisions=revisions).admit() is None


@pytest.mark.spec(
    "http.origin-validate",
    "http.origin-403",
    "http.origin-validated",
    "http.origin-invalid-403",
    "http.origin-invalid-body",
)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS", "HEAD", "PUT"])
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:9"])
def test_origin_foreign_returns_403(method: str, origin: str) -> None:
    body = get_rejection(exchange(method, Origin=origin, Mcp_Session_Id="s").admit(), 403)
    assert "id" not in body
    assert code_of(body) == -32600


@pytest.mark.spec("http.origin-absent-ok")
def test_request_without_origin_admitted() -> None:
    assert "origin" not in HEADERS
    assert exchange().admit() is None


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "0.0.0.0"])
def test_host_foreign_returns_403_and_names_setting(method: str, host: str) -> None:
    outcome = exchange(method, without=["Host"], Host=host, Mcp_Session_Id="s").admit()
    get_rejection(outcome, 403)
    assert isinstance(outcome, Rejection)
    assert "EndpointPolicy.allowed_hosts" in outcome.reason


def test_origin_equal_to_host_admitted() -> None:
    assert exchange(Origin="http://localhost:8000", Sec_Fetch_Site="same-origin").admit() is None


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "text/json"]
)
def test_content_type_not_json_returns_415(kind: str) -> None:
    get_rejection(exchange(without=["Content-Type"], Content_Type=kind).admit(), 415)


def test_content_type_missing_returns_415() -> None:
    outcome = exchange(without=["Content-Type"]).admit()
    get_rejection(outcome, 415)
    assert isinstance(outcome, Rejection)
    assert outcome.reason == "Content-Type must be application/json, not 'nothing'"


@pytest.mark.spec("http.content-type-charset")
@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_content_type_parameters_and_case_ignored(kind: str) -> None:
    assert exchange(without=["Content-Type"], Content_Type=kind).admit() is None


@pytest.mark.parametrize("coding", ["gzip", "deflate", "identity, br"])
def test_content_encoding_unsupported_returns_415(coding: str) -> None:
    outcome = exchange(Content_Encoding=coding).admit()
    get_rejection(outcome, 415)
    assert isinstance(outcome, Rejection)
    assert ("accept-encoding", "identity") in outcome.headers


def test_content_encoding_identity_admitted() -> None:
    assert exchange(Content_Encoding="Identity").admit() is None


@pytest.mark.parametrize("length", ["-1", "1e3", "", "1 1", "٣", "9" * 19])
def test_content_length_invalid_returns_400(length: str) -> None:
    get_rejection(exchange(Content_Length=length).admit(), 400)


def test_content_length_over_limit_returns_413() -> None:
    limits = Limits(message_bytes=100)
    assert exchange(limits=limits, Content_Length="100").admit() is None
    outcome = exchange(limits=limits, Content_Length="101").admit()
    get_rejection(outcome, 413)
    assert isinstance(outcome, Rejection)
    assert outcome.reason == "message size in bytes: 101 is over the limit of 100; the setting is Limits.message_bytes"


def test_body_over_limit_returns_413() -> None:
    limits = Limits(message_bytes=100)
    outcome = exchange(limits=limits).read(b" " * 101, no_header_params)
    assert outcome == exchange(limits=limits).too_large(101)
    get_rejection(outcome, 413)


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0, text/event-stream;q=0", "image/*"])
def test_accept_without_supported_type_returns_406(accept: str) -> None:
    get_rejection(exchange(without=["Accept"], Accept=accept).admit(), 406)


@pytest.mark.spec("http.post-accept")
@pytest.mark.parametrize(
    ("accept", "json", "stream"),
    [
        (None, True, True),
        ("*/*", True, True),
        ("application/json", True, False),
        ("text/event-stream", False, True),
        ("application/*, text/event-stream;q=0.1", True, True),
    ],
)
def test_accept_one_type_admitted(accept: str | None, json: bool, stream: bool) -> None:
    http_exchange = exchange(without=["Accept"]) if accept is None else exchange(without=["Accept"], Accept=accept)
    assert http_exchange.admit() is None
    assert (http_exchange.accepts_json, http_exchange.accepts_stream) == (json, stream)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("revisions", [ALL, LEGACY_ONLY])
def test_session_get_and_delete_admitted(method: str, revisions: frozenset[Revision]) -> None:
    http_exchange = exchange(method, revisions=revisions, Mcp_Session_Id="s", Last_Event_ID="3-17")
    assert http_exchange.admit() is None
    assert (http_exchange.session_id, http_exchange.last_event_id) == ("s", "3-17")


@pytest.mark.spec("session.missing-400")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("headers", [{}, {"Mcp_Session_Id": ""}])
def test_get_and_delete_without_session_id_return_400(method: str, headers: dict[str, str]) -> None:
    get_rejection(exchange(method, more=headers).admit(), 400)


def test_session_id_repeated_returns_400() -> None:
    pairs = [*HEADERS.items(), ("Mcp-Session-Id", "a"), ("mcp-session-id", "b")]
    for method in ("GET", "DELETE"):
        http_exchange = ServerExchange(
            HttpRequest(method=method, target="/mcp", headers=Headers(pairs)), EndpointPolicy(), Limits(), ALL
        )
        get_rejection(http_exchange.admit(), 400)
    post = ServerExchange(
        HttpRequest(method="POST", target="/mcp", headers=Headers(pairs)), EndpointPolicy(), Limits(), ALL
    )
    assert post.admit() is None
    assert get_rejection(post.read(request("ping"), no_header_params), 400)["id"] == 1


@pytest.mark.spec("http.get-response", "http.get-accept")
def test_get_without_event_stream_accept_returns_406() -> None:
    get_rejection(exchange("GET", without=["Accept"], Accept="application/json", Mcp_Session_Id="s").admit(), 406)
    assert exchange("DELETE", without=["Accept"], Accept="application/json", Mcp_Session_Id="s").admit() is None


@pytest.mark.spec("http.get-405", "http.delete-405", "session.delete-405")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_session_method_modern_server_returns_405(method: str) -> None:
    outcome = exchange(method, revisions=MODERN_ONLY, Mcp_Session_Id="s").admit()
    get_rejection(outcome, 405)
    assert isinstance(outcome, Rejection)
    assert ("allow", "POST") in outcome.headers


@pytest.mark.spec("http.get-405", "http.delete-405", "http.session-id-ignored", "http.last-event-id-ignored")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_session_method_modern_version_returns_405(method: str) -> None:
    http_exchange = exchange(method, MCP_Protocol_Version=VERSION, Mcp_Session_Id="s", Last_Event_ID="1-1")
    assert (http_exchange.session_id, http_exchange.last_event_id) == (None, None)
    outcome = http_exchange.admit()
    get_rejection(outcome, 405)
    assert isinstance(outcome, Rejection)
    assert ("allow", "POST") in outcome.headers


@pytest.mark.spec("http.head-options-not-required")
@pytest.mark.parametrize("method", ["HEAD", "PUT", "PATCH", "OPTIONS", "BREW", "get"])
def test_http_method_other_returns_405(method: str) -> None:
    outcome = exchange(method, Mcp_Session_Id="s").admit()
    get_rejection(outcome, 405)
    assert isinstance(outcome, Rejection)
    assert ("allow", "GET, POST, DELETE") in outcome.headers


@pytest.mark.spec("http.protocol-version-400")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_session_method_unsupported_version_returns_400(method: str) -> None:
    get_rejection(exchange(method, MCP_Protocol_Version="1999-01-01", Mcp_Session_Id="s").admit(), 400)


APP: Final = EndpointPolicy(allowed_origins=("https://app.example",))


def test_preflight_allowed_origin_returns_204() -> None:
    outcome = exchange(
        "OPTIONS", policy=APP, Origin="https://app.example", Access_Control_Request_Method="POST"
    ).admit()
    assert isinstance(outcome, Rejection)
    head = outcome.head()
    assert (head.status, outcome.body()) == (204, b"")
    assert head.headers.get("access-control-allow-origin") == "https://app.example"
    assert "content-length" not in head.headers


def test_response_allowed_origin_has_cors_headers() -> None:
    http_exchange = exchange(policy=APP, Origin="https://app.example")
    assert http_exchange.admit() is None
    heads = [
        http_exchange.json_head(),
        http_exchange.stream_head(),
        http_exchange.empty_head(),
        http_exchange.unknown_session().head(),
        http_exchange.too_large(10**9).head(),
    ]
    assert {head.headers.get("access-control-allow-origin") for head in heads} == {"https://app.example"}
    assert {head.headers.get("vary") for head in heads} == {"Origin"}


def test_response_other_origin_has_no_cors_headers() -> None:
    for http_exchange in (exchange(policy=APP), exchange(policy=APP, Origin="https://evil.example")):
        heads = [
            http_exchange.json_head(),
            http_exchange.stream_head(),
            http_exchange.empty_head(),
            http_exchange.reject(403, "no").head(),
        ]
        assert not any(name.startswith("access-control") for head in heads for name, _ in head.headers)


# --- the body: modern


@pytest.mark.spec("compat.server-dual-modern-request")
@pytest.mark.parametrize("revisions", [ALL, MODERN_ONLY])
def test_modern_request_without_session_accepted(revisions: frozenset[Revision]) -> None:
    http_exchange = exchange(
        revisions=revisions, MCP_Protocol_Version=VERSION, Mcp_Method="tools/call", Mcp_Name="echo", Mcp_Session_Id="s"
    )
    assert http_exchange.admit() is None
    post = get_post(http_exchange.read(request("tools/call", name="echo", meta=ENVELOPE), no_header_params), Era.MODERN)
    assert isinstance(post.message, Request)
    assert post.message.method == "tools/call"
    assert post.answered
    assert post.notes == ()
    assert http_exchange.version == VERSION


@pytest.mark.spec("header.protocol-version-missing-rejected", "header.mismatch-error-id")
def test_modern_body_without_version_header_header_mismatch() -> None:
    http_exchange = exchange(Mcp_Method="tools/list", Mcp_Session_Id="s")
    body = get_rejection(http_exchange.read(request("tools/list", id="x", meta=ENVELOPE), no_header_params), 400)
    assert (code_of(body), body["id"]) == (-32020, "x")
    assert http_exchange.session_id is None


@pytest.mark.spec("header.protocol-version-mismatch-rejected", "header.mismatch-error-code")
@pytest.mark.parametrize("header", ["2025-11-25", "v999.0.0"])
def test_modern_body_other_version_header_header_mismatch(header: str) -> None:
    http_exchange = exchange(MCP_Protocol_Version=header, Mcp_Method="tools/list", Mcp_Session_Id="s")
    assert (
        code_of(get_rejection(http_exchange.read(request("tools/list", meta=ENVELOPE), no_header_params), 400))
        == -32020
    )


def test_modern_header_other_version_in_body_header_mismatch() -> None:
    body = request("server/discover", meta={**ENVELOPE, PROTOCOL_VERSION: "v999.0.0"})
    assert code_of(get_rejection(modern("server/discover").read(body, no_header_params), 400)) == -32020


@pytest.mark.spec("version.unsupported-every-method")
def test_unsupported_version_in_header_and_body_passed_to_engine() -> None:
    http_exchange = exchange(MCP_Protocol_Version="v999.0.0", Mcp_Method="server/discover")
    get_post(
        http_exchange.read(request("server/discover", meta={PROTOCOL_VERSION: "v999.0.0"}), no_header_params),
        Era.MODERN,
    )


@pytest.mark.spec("meta.missing-field-http-400")
@pytest.mark.parametrize("meta", [None, {}, {PROTOCOL_VERSION: 5}, {CLIENT_CAPABILITIES: {}}])
def test_modern_header_incomplete_meta_passed_to_engine(meta: JsonObject | None) -> None:
    get_post(modern("server/discover").read(request("server/discover", meta=meta), no_header_params), Era.MODERN)


@pytest.mark.spec("http.removed-methods-404")
@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "unknown/method"])
def test_removed_method_modern_request_passed_to_engine(method: str) -> None:
    get_post(modern(method).read(request(method, meta=ENVELOPE), no_header_params), Era.MODERN)


@pytest.mark.spec("header.mcp-method-missing-rejected")
def test_modern_request_without_method_header_header_mismatch() -> None:
    http_exchange = exchange(MCP_Protocol_Version=VERSION)
    assert (
        code_of(get_rejection(http_exchange.read(request("tools/list", meta=ENVELOPE), no_header_params), 400))
        == -32020
    )


@pytest.mark.spec("header.param-missing-but-in-body-rejected", "header.param-mismatch-rejected")
def test_header_params_taken_from_called_tool() -> None:
    tools: list[str] = []

    def header_params(tool: str) -> Sequence[ParamHeader]:
        tools.append(tool)
        return (ParamHeader("Region", ("region",), "string"),)

    body = request("tools/call", name="t", arguments={"region": "eu"}, meta=ENVELOPE)
    assert code_of(get_rejection(modern("tools/call", Mcp_Name="t").read(body, header_params), 400)) == -32020
    get_post(modern("tools/call", Mcp_Name="t", Mcp_Param_Region="eu").read(body, header_params), Era.MODERN)
    assert tools == ["t", "t"]


@pytest.mark.parametrize("params", [{"name": 5, "_meta": ENVELOPE}, {"_meta": ENVELOPE}, None])
def test_header_params_without_tool_name_not_requested(params: JsonObject | None) -> None:
    def never(tool: str) -> Sequence[ParamHeader]:
        raise AssertionError(tool)

    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    get_post(modern("tools/call").read(body, never), Era.MODERN)


def test_header_params_other_method_not_requested() -> None:
    def never(tool: str) -> Sequence[ParamHeader]:
        raise AssertionError(tool)

    http_exchange = modern("prompts/get", Mcp_Name="p")
    get_post(http_exchange.read(request("prompts/get", name="p", meta=ENVELOPE), never), Era.MODERN)


def test_extension_method_name_param_checked_against_header() -> None:
    http_exchange = modern("acme/run", Mcp_Name="other")
    body = request("acme/run", job="j", meta=ENVELOPE)
    assert code_of(get_rejection(http_exchange.read(body, no_header_params, names={"acme/run": "job"}), 400)) == -32020
    get_post(modern("acme/run", Mcp_Name="other").read(body, no_header_params), Era.MODERN)


@pytest.mark.spec("http.notification-accepted-202")
def test_modern_notification_expects_no_response() -> None:
    body = orjson.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}})
    post = get_post(modern("notifications/cancelled").read(body, no_header_params), Era.MODERN)
    assert isinstance(post.message, Notification)
    assert not post.answered


@pytest.mark.spec("http.batch-rejected")
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', "a batch"),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', "a response"),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}', "a response"),
    ],
)
def test_modern_batch_or_response_returns_400(body: bytes, kind: str) -> None:
    outcome = modern("ping").read(body, no_header_params)
    answer = get_rejection(outcome, 400)
    assert code_of(answer) == -32600
    assert "id" not in answer
    assert isinstance(outcome, Rejection)
    assert outcome.reason.startswith(f"{kind} is not allowed in revision 2026-07-28")


@pytest.mark.spec("subscription.http-sse")
def test_listen_without_event_stream_accept_returns_406() -> None:
    headers = {"MCP_Protocol_Version": VERSION, "Mcp_Method": "subscriptions/listen"}
    body = request("subscriptions/listen", notifications={}, meta=ENVELOPE)
    assert (
        get_rejection(
            exchange(without=["Accept"], Accept="application/json", more=headers).read(body, no_header_params), 406
        )["id"]
        == 1
    )
    get_post(exchange(more=headers).read(body, no_header_params), Era.MODERN)


# --- the body: legacy


@pytest.mark.spec("compat.server-dual-initialize")
@pytest.mark.parametrize("headers", [{}, {"MCP_Protocol_Version": "2025-06-18"}, {"Mcp_Session_Id": "old"}])
def test_initialize_without_version_header_accepted(headers: dict[str, str]) -> None:
    http_exchange = exchange(more=headers)
    assert http_exchange.admit() is None
    post = get_post(http_exchange.read(INITIALIZE, no_header_params), Era.LEGACY)
    assert post.answered
    assert http_exchange.session_id == headers.get("Mcp_Session_Id")


@pytest.mark.spec("http.protocol-version-assume")
@pytest.mark.parametrize(
    "headers", [{}, {"MCP_Protocol_Version": "2025-06-18"}, {"MCP_Protocol_Version": "2024-11-05"}]
)
def test_session_message_missing_or_other_version_accepted(
    headers: dict[str, str],
) -> None:
    http_exchange = exchange(Mcp_Session_Id="s", more=headers)
    assert http_exchange.admit() is None
    get_post(http_exchange.read(request("tools/list"), no_header_params), Era.LEGACY)
    assert http_exchange.session_id == "s"


@pytest.mark.spec("http.protocol-version-400", "compat.server-dual-legacy-results")
@pytest.mark.parametrize("body", [request("tools/list"), INITIALIZE])
@pytest.mark.parametrize("revisions", [ALL, LEGACY_ONLY])
@pytest.mark.parametrize("version", ["1999-01-01", "", "2025-06-18, 2025-06-18", "x" * 5_000])
def test_unsupported_version_returns_supported_versions(
    body: bytes, revisions: frozenset[Revision], version: str
) -> None:
    http_exchange = exchange(revisions=revisions, Mcp_Session_Id="s", MCP_Protocol_Version=version)
    answer = get_rejection(http_exchange.read(body, no_header_params), 400)
    error = answer["error"]
    assert isinstance(error, dict)
    assert error["code"] == -32600
    assert error["data"] == {
        "supported": [r.name for r in REVISIONS.values() if r in revisions],
        "requested": version[:100],
    }
    assert answer["id"] == 1
    assert len(orjson.dumps(answer)) < 1_000


def test_modern_request_legacy_server_returns_400() -> None:
    http_exchange = exchange(revisions=LEGACY_ONLY, MCP_Protocol_Version=VERSION, Mcp_Method="server/discover")
    answer = get_rejection(http_exchange.read(request("server/discover", meta=ENVELOPE), no_header_params), 400)
    assert code_of(answer) == -32600
    without = exchange(revisions=LEGACY_ONLY).read(request("server/discover", meta=ENVELOPE), no_header_params)
    assert code_of(get_rejection(without, 400)) == -32600


@pytest.mark.spec("session.missing-400", "http.notification-reject", "http.reject-body-without-id")
@pytest.mark.parametrize(
    ("body", "id"),
    [
        (request("tools/list"), 1),
        (request("tools/list", meta={"progressToken": 1}), 1),
        (b'{"jsonrpc":"2.0","method":"notifications/initialized"}', None),
        (b'{"jsonrpc":"2.0","method":"initialize","params":{}}', None),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', None),
    ],
)
def test_session_message_without_session_id_returns_400(body: bytes, id: int | None) -> None:
    http_exchange = exchange()
    assert http_exchange.admit() is None
    answer = get_rejection(http_exchange.read(body, no_header_params), 400)
    assert answer.get("id") == id
    assert ("id" in answer) == (id is not None)
    assert code_of(answer) == -32600


@pytest.mark.spec("header.protocol-version-missing-rejected")
def test_message_without_version_and_session_version_header_required() -> None:
    both = frozenset({R2025_06_18, R2025_11_25, R2026_07_28})
    assert code_of(get_rejection(exchange(revisions=both).read(request("tools/list"), no_header_params), 400)) == -32020
    get_post(exchange(revisions=both).read(INITIALIZE, no_header_params), Era.LEGACY)
    get_post(exchange(revisions=both, Mcp_Session_Id="s").read(request("tools/list"), no_header_params), Era.LEGACY)
    missing = exchange(revisions=both, MCP_Protocol_Version="2025-06-18").read(request("tools/list"), no_header_params)
    assert code_of(get_rejection(missing, 400)) == -32600


@pytest.mark.spec("compat.server-modern-initialize-error-http", "compat.server-modern-initialize-names-versions")
@pytest.mark.parametrize("headers", [{}, {"MCP_Protocol_Version": "2025-11-25"}])
def test_initialize_modern_server_returns_supported_versions(headers: dict[str, str]) -> None:
    answer = get_rejection(exchange(revisions=MODERN_ONLY, more=headers).read(INITIALIZE, no_header_params), 400)
    error = answer["error"]
    assert isinstance(error, dict)
    supported = [r.name for r in REVISIONS.values() if r in MODERN_ONLY]
    assert (error["code"], error["data"]) == (-32022, {"supported": supported, "requested": "2025-11-25"})
    assert answer["id"] == 1


@pytest.mark.parametrize("revisions", [frozenset({R2024_11_05}), frozenset({R2024_11_05, R2026_07_28})])
def test_server_only_legacy_revision_2024_11_05_serves_sessions(revisions: frozenset[Revision]) -> None:
    get_post(exchange(revisions=revisions).read(INITIALIZE, no_header_params), Era.LEGACY)
    get_post(
        exchange(revisions=revisions, Mcp_Session_Id="s").read(request("tools/list"), no_header_params), Era.LEGACY
    )
    assert (
        code_of(get_rejection(exchange(revisions=revisions).read(request("tools/list"), no_header_params), 400))
        == -32600
    )
    for method in ("GET", "DELETE"):
        assert exchange(method, revisions=revisions, Mcp_Session_Id="s").admit() is None


def test_initialize_without_version_modern_server_returns_unsupported_version() -> None:
    for body in (request("initialize", protocolVersion=7), b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'):
        assert code_of(get_rejection(exchange(revisions=MODERN_ONLY).read(body, no_header_params), 400)) == -32022


@pytest.mark.spec("header.protocol-version-missing-rejected")
@pytest.mark.parametrize(
    "body", [request("tools/list"), b'{"jsonrpc":"2.0","method":"notifications/initialized"}', b"[" + INITIALIZE + b"]"]
)
def test_message_without_version_header_modern_server_header_mismatch(body: bytes) -> None:
    answer = get_rejection(exchange(revisions=MODERN_ONLY, Mcp_Session_Id="s").read(body, no_header_params), 400)
    assert code_of(answer) == -32020


# --- the body: both


@pytest.mark.parametrize("headers", [{}, {"MCP_Protocol_Version": VERSION}, {"Mcp_Session_Id": "s"}])
@pytest.mark.parametrize(
    ("body", "code", "id"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b"5", -32600, None),
        (b"[]", -32600, None),
        (b'{"jsonrpc":"1.0","id":7,"method":"x"}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":"a","method":"x","params":[1]}', -32602, "a"),
        (b'{"jsonrpc":"2.0","id":1,"result":5}', -32600, None),
    ],
)
def test_body_not_message_returns_400(headers: dict[str, str], body: bytes, code: int, id: JsonValue) -> None:
    answer = get_rejection(exchange(more=headers).read(body, no_header_params), 400)
    assert code_of(answer) == code
    assert answer.get("id") == id
    # A request has a response with the id null if its id is unreadable, unless the revision leaves the id out.
    assert ("id" in answer) == (id is not None or (b"result" not in body and "MCP_Protocol_Version" not in headers))


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"jsonrpc":"2.0","id":null,"method":"ping"}'])
@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
def test_error_without_id_has_form_of_header_revision(revision: Revision, body: bytes) -> None:
    answer = get_rejection(exchange(MCP_Protocol_Version=revision.name).read(body, no_header_params), 400)
    assert ("id" in answer) is not revision.error_without_id
    # Without a header, the server's revisions have to agree.
    answer = get_rejection(exchange(revisions=frozenset({revision})).read(body, no_header_params), 400)
    assert ("id" in answer) is not revision.error_without_id


@pytest.mark.spec("batch.receive")
def test_batch_without_session_returns_null_id() -> None:
    batch = b"[" + INITIALIZE + b"]"
    for http_exchange in (exchange(), exchange(MCP_Protocol_Version="2025-06-18")):
        answer = get_rejection(http_exchange.read(batch, no_header_params), 400)
        assert "id" in answer
        assert answer["id"] is None
    assert "id" not in get_rejection(exchange(MCP_Protocol_Version="2025-11-25").read(batch, no_header_params), 400)
    # A notification has no response.
    notification = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    assert "id" not in get_rejection(exchange().read(notification, no_header_params), 400)


def test_message_over_limit_returns_null_id() -> None:
    small = Limits(message_bytes=50)
    assert "id" in get_rejection(exchange(limits=small).read(request("ping", pad="x" * 100), no_header_params), 413)
    assert "id" in get_rejection(exchange(limits=small).too_large(51), 413)
    modern_one = exchange(limits=small, MCP_Protocol_Version=VERSION)
    assert "id" not in get_rejection(modern_one.too_large(51), 413)


def test_malformed_response_rejection_has_answered_id() -> None:
    outcome = exchange(more={"Mcp-Session-Id": "s"}).read(b'{"jsonrpc":"2.0","id":1,"result":5}', no_header_params)
    assert isinstance(outcome, Rejection)
    assert outcome.answers is not None
    assert outcome.answers.id == 1
    assert "id" not in get_rejection(outcome, 400)
    large = exchange(limits=Limits(message_bytes=50)).read(
        b'{"jsonrpc":"2.0","id":1,"result":{"a":"%b"}}' % (b"x" * 50), no_header_params
    )
    assert isinstance(large, Rejection)
    get_rejection(large, 413)
    assert exchange().reject(400, "no").answers is None


def test_post_size_equals_body_length() -> None:
    body = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    outcome = exchange(more={"Mcp-Session-Id": "s"}).read(body, no_header_params)
    assert isinstance(outcome, Post)
    assert outcome.size == len(body)


def test_body_over_nesting_limit_names_setting() -> None:
    outcome = exchange(limits=Limits(nesting_depth=3)).read(b'{"id":1,"x":[[[1]]]}', no_header_params)
    get_rejection(outcome, 400)
    assert isinstance(outcome, Rejection)
    assert "Limits.nesting_depth" in outcome.reason


def test_tolerated_deviation_recorded_in_notes() -> None:
    post = get_post(exchange(Mcp_Session_Id="s").read(b'{"id":1,"method":"ping"}', no_header_params), Era.LEGACY)
    assert post.notes == ("the member jsonrpc is missing",)
    modern_post = get_post(modern("ping").read(b'{"id":1,"method":"ping"}', no_header_params), Era.MODERN)
    assert modern_post.notes == ("the member jsonrpc is missing",)


@pytest.mark.spec("http.notification-202", "batch.http-202", "batch.http-requests-response")
@pytest.mark.parametrize(
    ("body", "answered"),
    [
        (b'{"id":1,"method":"x"}', True),
        (b'{"method":"x"}', False),
        (b'{"id":1,"result":{}}', False),
        (b'{"id":1,"error":{"code":1,"message":""}}', False),
        (b'[{"method":"x"},{"method":"y"}]', False),
        (b'[{"id":1,"result":{}}]', False),
        (b'[{"method":"x"},{"id":0,"method":"y"}]', True),
        (b'[{"method":"x"},5]', True),
        (b'[{"id":1,"result":5}]', False),
    ],
)
def test_response_expected_only_for_requests_and_malformed_messages(body: bytes, answered: bool) -> None:
    post = get_post(exchange(Mcp_Session_Id="s").read(body, no_header_params), Era.LEGACY)
    assert post.answered is answered


@pytest.mark.spec("batch.receive", "http.post-single-message")
@pytest.mark.parametrize("revision", LEGACY)
def test_batch_accepted_only_in_2025_03_26(revision: Revision) -> None:
    http_exchange = exchange(Mcp_Session_Id="s")
    post = get_post(http_exchange.read(b"[" + request("ping") + b"]", no_header_params), Era.LEGACY)
    assert isinstance(post.message, Batch)
    outcome = http_exchange.check(post, revision)
    if revision is R2025_03_26:
        assert outcome is None
    else:
        assert ("id" in get_rejection(outcome, 400)) is not revision.error_without_id
    single = get_post(http_exchange.read(request("ping"), no_header_params), Era.LEGACY)
    assert http_exchange.check(single, revision) is None


# --- responses


@pytest.mark.spec("session.terminated-404")
def test_session_unknown_returns_404() -> None:
    http_exchange = exchange("GET", Mcp_Session_Id="s")
    answer = get_rejection(http_exchange.unknown_session(), 404)
    assert "id" not in answer
    assert code_of(answer) == -32600
    post = Post(message=Request(0, "ping"), era=Era.LEGACY)
    assert get_rejection(http_exchange.unknown_session(post), 404)["id"] == 0
    response = Post(message=ResultResponse(5, {}), era=Era.LEGACY)
    assert http_exchange.unknown_session(response) == http_exchange.unknown_session()


def test_server_at_capacity_returns_retry_after() -> None:
    excess = LimitExceeded("sessions", observed=2, allowed=1, setting="Limits.sessions")
    outcome = exchange().busy(excess)
    answer = get_rejection(outcome, 503)
    assert code_of(answer) == -32603
    assert "Limits.sessions" in outcome.reason
    retry_after = outcome.head().headers.get("retry-after")
    assert retry_after is not None
    assert int(retry_after) > 0
    assert get_rejection(exchange().busy(excess, id="x"), 503)["id"] == "x"
    own = exchange().busy(excess, id="x", own=True)
    assert code_of(get_rejection(own, 429)) == -32603
    assert own.head().headers.get("retry-after") == retry_after


def test_rejection_has_given_headers() -> None:
    outcome = exchange().reject(401, "who are you", id=4, data={"a": 1}, headers=(("www-authenticate", "Bearer"),))
    assert isinstance(outcome.error, ErrorResponse)
    assert outcome.error.error.data == {"a": 1}
    assert get_rejection(outcome, 401)["id"] == 4
    assert outcome.head().headers.get("www-authenticate") == "Bearer"


@pytest.mark.spec("http.request-response-type", "http.request-response-content-type")
def test_json_response_not_cached() -> None:
    head = exchange().json_head()
    assert head.status == 200
    assert head.headers.get("content-type") == "application/json"
    assert head.headers.get("cache-control") == "no-store"
    assert exchange().json_head(404).status == 404
    assert exchange().json_head(404).headers == head.headers


@pytest.mark.spec("http.sse-x-accel-buffering", "http.request-response-content-type")
def test_stream_response_not_buffered_or_transformed() -> None:
    head = exchange().stream_head()
    assert head.status == 200
    assert head.headers.get("content-type") == "text/event-stream"
    assert head.headers.get("cache-control") == "no-cache, no-transform"
    assert head.headers.get("x-accel-buffering") == "no"


@pytest.mark.spec("session.assign", "http.session-id-not-minted")
def test_session_id_header_only_in_opening_response() -> None:
    http_exchange = exchange()
    for head in (http_exchange.json_head(session_id="s"), http_exchange.stream_head(session_id="s")):
        assert (head.status, head.headers.get("mcp-session-id")) == (200, "s")
    for head in (http_exchange.json_head(), http_exchange.stream_head(), http_exchange.empty_head()):
        assert "mcp-session-id" not in head.headers


@pytest.mark.spec("http.notification-202", "http.notification-accepted-202")
def test_response_without_body_returns_202() -> None:
    head = exchange().empty_head()
    assert (head.status, head.headers.get("content-length")) == (202, "0")
    assert "content-type" not in head.headers
    assert exchange("DELETE").empty_head(200).status == 200


def test_revisions_as_list_accepted() -> None:
    http_exchange = ServerExchange(
        HttpRequest(method="GET", target="/mcp", headers=Headers(list(HEADERS.items()))),
        EndpointPolicy(),
        Limits(),
        [R2026_07_28],
    )
    get_rejection(http_exchange.admit(), 405)


header_values = st.text(st.characters(max_codepoint=255, blacklist_characters="\r\n\x00"), max_size=30)
known = st.sampled_from(
    [
        "",
        "s",
        "2025-06-18",
        VERSION,
        "application/json",
        "text/event-stream",
        "localhost",
        "*/*",
        "tools/list",
        "1",
        "gzip",
    ]
)
names = st.sampled_from(
    [
        "host", "origin", "accept", "content-type", "content-length", "content-encoding", "mcp-protocol-version",
        "mcp-session-id", "mcp-method", "mcp-name", "last-event-id", "sec-fetch-site",
    ]
)  # fmt: skip


@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "OPTIONS", "X"]) | st.text(max_size=30),
    pairs=st.lists(st.tuples(names, known | header_values), max_size=8),
    proper=st.booleans(),
    revisions=st.sets(st.sampled_from(sorted(ALL, key=str))).map(frozenset),
    body=st.binary(max_size=30)
    | st.sampled_from([INITIALIZE, request("tools/list", meta=ENVELOPE), b"[" + INITIALIZE + b"]"]),
)
def test_arbitrary_request_accepted_or_rejected(
    method: str, pairs: list[tuple[str, str]], proper: bool, revisions: frozenset[Revision], body: bytes
) -> None:
    headers = Headers([*(HEADERS.items() if proper else ()), *pairs])
    http_exchange = ServerExchange(
        HttpRequest(method=method, target="/mcp", headers=headers), EndpointPolicy(), Limits(), revisions
    )
    outcome = http_exchange.admit() or http_exchange.read(body, no_header_params)
    if isinstance(outcome, Rejection):
        assert 400 <= outcome.status < 500
        get_rejection(outcome, outcome.status)
    else:
        assert outcome.era is Era.LEGACY or http_exchange.session_id is None
        opens = isinstance(outcome.message, Request) and outcome.message.method == "initialize"
        assert outcome.era is Era.MODERN or opens or http_exchange.session_id is not None


@pytest.mark.parametrize(
    ("accept", "answer", "preferred"),
    [
        ("application/json, text/event-stream", "json", False),
        ("application/json, text/event-stream", "stream", True),
        ("application/json", "stream", False),
        ("text/event-stream", "json", True),
    ],
)
def test_response_form_follows_policy_and_accept(
    accept: str, answer: Literal["json", "stream"], preferred: bool
) -> None:
    request = HttpRequest(method="POST", target="/mcp", headers=Headers([("accept", accept)]))
    exchange = ServerExchange(request, EndpointPolicy(answer=answer), Limits(), frozenset(REVISIONS.values()))
    assert exchange.prefers_stream is preferred
