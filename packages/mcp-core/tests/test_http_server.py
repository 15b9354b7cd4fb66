from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_core.errors import LimitExceeded
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.http.header_parameters import ParamHeader
from mcp_core.http.messages import Headers, HttpRequest
from mcp_core.http.server import Post, Refusal, ServerExchange
from mcp_core.jsonrpc.messages import (
    Batch,
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
"""What every POST of a proper client has."""

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
    """An exchange with the usual headers and `headers`, where an underscore stands for a hyphen."""
    given = {name: value for name, value in HEADERS.items() if name not in without}
    given |= {name.replace("_", "-"): value for name, value in {**headers, **more}.items()}
    request = HttpRequest(method=method, target="/mcp", headers=Headers(list(given.items())))
    return ServerExchange(request, policy or EndpointPolicy(), limits or Limits(), revisions)


def none(tool: str) -> Sequence[ParamHeader]:
    return ()


def request(method: str, *, id: int | str = 1, meta: JsonObject | None = None, **params: JsonValue) -> bytes:
    if meta is not None:
        params["_meta"] = meta
    return orjson.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


INITIALIZE: Final = request("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={})


def modern(method: str, **headers: str) -> ServerExchange:
    return exchange(MCP_Protocol_Version=VERSION, Mcp_Method=method, more=headers)


def refused(outcome: Refusal | Post | None, status: int) -> JsonObject:
    """The error of a refusal with this status."""
    assert isinstance(outcome, Refusal)
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


def accepted(outcome: Refusal | Post, era: Era) -> Post:
    assert isinstance(outcome, Post), outcome
    assert outcome.era is era
    return outcome


# --- before the body


@pytest.mark.parametrize("revisions", [ALL, MODERN_ONLY, LEGACY_ONLY])
def test_a_proper_post_comes_in(revisions: frozenset[Revision]) -> None:
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
def test_a_foreign_origin_is_refused_whatever_the_method(method: str, origin: str) -> None:
    body = refused(exchange(method, Origin=origin, Mcp_Session_Id="s").admit(), 403)
    assert "id" not in body
    assert code_of(body) == -32600


@pytest.mark.spec("http.origin-absent-ok")
def test_a_program_that_is_no_browser_comes_in() -> None:
    assert "origin" not in HEADERS
    assert exchange().admit() is None


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "0.0.0.0"])
def test_a_foreign_host_is_refused_and_the_setting_is_named(method: str, host: str) -> None:
    outcome = exchange(method, without=["Host"], Host=host, Mcp_Session_Id="s").admit()
    refused(outcome, 403)
    assert isinstance(outcome, Refusal)
    assert "EndpointPolicy.allowed_hosts" in outcome.reason


def test_a_page_of_the_same_host_and_port_comes_in() -> None:
    assert exchange(Origin="http://localhost:8000", Sec_Fetch_Site="same-origin").admit() is None


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "text/json"]
)
def test_what_a_web_page_may_send_without_asking_is_no_message(kind: str) -> None:
    refused(exchange(without=["Content-Type"], Content_Type=kind).admit(), 415)


def test_a_body_without_a_type_is_refused() -> None:
    outcome = exchange(without=["Content-Type"]).admit()
    refused(outcome, 415)
    assert isinstance(outcome, Refusal)
    assert outcome.reason == "Content-Type must be application/json, not 'nothing'"


@pytest.mark.spec("http.content-type-charset")
@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_parameters_and_case_of_the_type_do_not_count(kind: str) -> None:
    assert exchange(without=["Content-Type"], Content_Type=kind).admit() is None


@pytest.mark.parametrize("coding", ["gzip", "deflate", "identity, br"])
def test_a_coded_body_is_not_unpacked(coding: str) -> None:
    outcome = exchange(Content_Encoding=coding).admit()
    refused(outcome, 415)
    assert isinstance(outcome, Refusal)
    assert ("accept-encoding", "identity") in outcome.headers


def test_a_body_as_it_is_may_say_so() -> None:
    assert exchange(Content_Encoding="Identity").admit() is None


@pytest.mark.parametrize("length", ["-1", "1e3", "", "1 1", "٣", "9" * 19])
def test_a_length_that_is_no_number_is_refused(length: str) -> None:
    refused(exchange(Content_Length=length).admit(), 400)


def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    limits = Limits(message_bytes=100)
    assert exchange(limits=limits, Content_Length="100").admit() is None
    outcome = exchange(limits=limits, Content_Length="101").admit()
    refused(outcome, 413)
    assert isinstance(outcome, Refusal)
    assert outcome.reason == "message size in bytes: 101 is over the limit of 100; the setting is Limits.message_bytes"


def test_a_body_that_turns_out_too_large_is_refused_likewise() -> None:
    limits = Limits(message_bytes=100)
    outcome = exchange(limits=limits).read(b" " * 101, none)
    assert outcome == exchange(limits=limits).too_large(101)
    refused(outcome, 413)


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0, text/event-stream;q=0", "image/*"])
def test_who_takes_neither_form_of_an_answer_is_told_so(accept: str) -> None:
    refused(exchange(without=["Accept"], Accept=accept).admit(), 406)


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
def test_who_takes_one_form_is_served(accept: str | None, json: bool, stream: bool) -> None:
    made = exchange(without=["Accept"]) if accept is None else exchange(without=["Accept"], Accept=accept)
    assert made.admit() is None
    assert (made.accepts_json, made.accepts_stream) == (json, stream)


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("revisions", [ALL, LEGACY_ONLY])
def test_get_and_delete_of_a_session_come_in(method: str, revisions: frozenset[Revision]) -> None:
    made = exchange(method, revisions=revisions, Mcp_Session_Id="s", Last_Event_ID="3-17")
    assert made.admit() is None
    assert (made.session_id, made.last_event_id) == ("s", "3-17")


@pytest.mark.spec("session.missing-400")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("headers", [{}, {"Mcp_Session_Id": ""}])
def test_without_a_session_they_do_not(method: str, headers: dict[str, str]) -> None:
    refused(exchange(method, more=headers).admit(), 400)


def test_a_session_id_comes_once() -> None:
    pairs = [*HEADERS.items(), ("Mcp-Session-Id", "a"), ("mcp-session-id", "b")]
    for method in ("GET", "DELETE"):
        made = ServerExchange(
            HttpRequest(method=method, target="/mcp", headers=Headers(pairs)), EndpointPolicy(), Limits(), ALL
        )
        refused(made.admit(), 400)
    post = ServerExchange(
        HttpRequest(method="POST", target="/mcp", headers=Headers(pairs)), EndpointPolicy(), Limits(), ALL
    )
    assert post.admit() is None
    assert refused(post.read(request("ping"), none), 400)["id"] == 1


@pytest.mark.spec("http.get-response", "http.get-accept")
def test_a_get_has_to_take_a_stream() -> None:
    refused(exchange("GET", without=["Accept"], Accept="application/json", Mcp_Session_Id="s").admit(), 406)
    assert exchange("DELETE", without=["Accept"], Accept="application/json", Mcp_Session_Id="s").admit() is None


@pytest.mark.spec("http.get-405", "http.delete-405", "session.delete-405")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_where_there_are_no_sessions_there_is_only_post(method: str) -> None:
    outcome = exchange(method, revisions=MODERN_ONLY, Mcp_Session_Id="s").admit()
    refused(outcome, 405)
    assert isinstance(outcome, Refusal)
    assert ("allow", "POST") in outcome.headers


@pytest.mark.spec("http.get-405", "http.delete-405", "http.session-id-ignored", "http.last-event-id-ignored")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_modern_client_finds_only_post_whatever_session_it_names(method: str) -> None:
    made = exchange(method, MCP_Protocol_Version=VERSION, Mcp_Session_Id="s", Last_Event_ID="1-1")
    assert (made.session_id, made.last_event_id) == (None, None)
    outcome = made.admit()
    refused(outcome, 405)
    assert isinstance(outcome, Refusal)
    assert ("allow", "POST") in outcome.headers


@pytest.mark.spec("http.head-options-not-required")
@pytest.mark.parametrize("method", ["HEAD", "PUT", "PATCH", "OPTIONS", "BREW", "get"])
def test_other_methods_are_not_allowed(method: str) -> None:
    outcome = exchange(method, Mcp_Session_Id="s").admit()
    refused(outcome, 405)
    assert isinstance(outcome, Refusal)
    assert ("allow", "GET, POST, DELETE") in outcome.headers


@pytest.mark.spec("http.protocol-version-400")
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_get_under_a_version_that_nobody_speaks_is_refused(method: str) -> None:
    refused(exchange(method, MCP_Protocol_Version="1999-01-01", Mcp_Session_Id="s").admit(), 400)


APP: Final = EndpointPolicy(allowed_origins=("https://app.example",))


def test_a_page_of_a_listed_origin_is_told_what_it_may_send() -> None:
    outcome = exchange(
        "OPTIONS", policy=APP, Origin="https://app.example", Access_Control_Request_Method="POST"
    ).admit()
    assert isinstance(outcome, Refusal)
    head = outcome.head()
    assert (head.status, outcome.body()) == (204, b"")
    assert head.headers.get("access-control-allow-origin") == "https://app.example"
    assert "content-length" not in head.headers


def test_a_page_of_a_listed_origin_may_read_every_response() -> None:
    made = exchange(policy=APP, Origin="https://app.example")
    assert made.admit() is None
    heads = [
        made.json_head(),
        made.stream_head(),
        made.empty_head(),
        made.unknown_session().head(),
        made.too_large(10**9).head(),
    ]
    assert {head.headers.get("access-control-allow-origin") for head in heads} == {"https://app.example"}
    assert {head.headers.get("vary") for head in heads} == {"Origin"}


def test_nobody_else_is_told_anything_of_it() -> None:
    for made in (exchange(policy=APP), exchange(policy=APP, Origin="https://evil.example")):
        heads = [made.json_head(), made.stream_head(), made.empty_head(), made.refuse(403, "no").head()]
        assert not any(name.startswith("access-control") for head in heads for name, _ in head.headers)


# --- the body: modern


@pytest.mark.spec("compat.server-dual-modern-request")
@pytest.mark.parametrize("revisions", [ALL, MODERN_ONLY])
def test_a_modern_request_is_complete_in_itself(revisions: frozenset[Revision]) -> None:
    made = exchange(
        revisions=revisions, MCP_Protocol_Version=VERSION, Mcp_Method="tools/call", Mcp_Name="echo", Mcp_Session_Id="s"
    )
    assert made.admit() is None
    post = accepted(made.read(request("tools/call", name="echo", meta=ENVELOPE), none), Era.MODERN)
    assert isinstance(post.message, Request)
    assert post.message.method == "tools/call"
    assert post.answered
    assert post.notes == ()
    assert made.version == VERSION


@pytest.mark.spec("header.protocol-version-missing-rejected", "header.mismatch-error-id")
def test_a_modern_body_without_the_header_is_a_mismatch_and_has_no_session() -> None:
    made = exchange(Mcp_Method="tools/list", Mcp_Session_Id="s")
    body = refused(made.read(request("tools/list", id="x", meta=ENVELOPE), none), 400)
    assert (code_of(body), body["id"]) == (-32020, "x")
    assert made.session_id is None


@pytest.mark.spec("header.protocol-version-mismatch-rejected", "header.mismatch-error-code")
@pytest.mark.parametrize("header", ["2025-11-25", "v999.0.0"])
def test_a_modern_body_under_another_version_is_a_mismatch(header: str) -> None:
    made = exchange(MCP_Protocol_Version=header, Mcp_Method="tools/list", Mcp_Session_Id="s")
    assert code_of(refused(made.read(request("tools/list", meta=ENVELOPE), none), 400)) == -32020


def test_a_modern_header_over_another_version_in_the_body_is_a_mismatch() -> None:
    body = request("server/discover", meta={**ENVELOPE, PROTOCOL_VERSION: "v999.0.0"})
    assert code_of(refused(modern("server/discover").read(body, none), 400)) == -32020


@pytest.mark.spec("version.unsupported-every-method")
def test_a_version_that_nobody_speaks_is_for_the_engine_to_refuse_when_header_and_body_agree() -> None:
    made = exchange(MCP_Protocol_Version="v999.0.0", Mcp_Method="server/discover")
    accepted(made.read(request("server/discover", meta={PROTOCOL_VERSION: "v999.0.0"}), none), Era.MODERN)


@pytest.mark.spec("meta.missing-field-http-400")
@pytest.mark.parametrize("meta", [None, {}, {PROTOCOL_VERSION: 5}, {CLIENT_CAPABILITIES: {}}])
def test_a_body_that_lacks_what_its_header_promises_is_for_the_engine_to_refuse(meta: JsonObject | None) -> None:
    accepted(modern("server/discover").read(request("server/discover", meta=meta), none), Era.MODERN)


@pytest.mark.spec("http.removed-methods-404")
@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "unknown/method"])
def test_removed_methods_are_for_the_engine_to_refuse_when_they_come_in_the_modern_way(method: str) -> None:
    accepted(modern(method).read(request(method, meta=ENVELOPE), none), Era.MODERN)


@pytest.mark.spec("header.mcp-method-missing-rejected")
def test_a_modern_request_names_its_method() -> None:
    made = exchange(MCP_Protocol_Version=VERSION)
    assert code_of(refused(made.read(request("tools/list", meta=ENVELOPE), none), 400)) == -32020


@pytest.mark.spec("header.param-missing-but-in-body-rejected", "header.param-mismatch-rejected")
def test_designated_parameters_are_those_of_the_called_tool() -> None:
    asked: list[str] = []

    def designated(tool: str) -> Sequence[ParamHeader]:
        asked.append(tool)
        return (ParamHeader("Region", ("region",), "string"),)

    body = request("tools/call", name="t", arguments={"region": "eu"}, meta=ENVELOPE)
    assert code_of(refused(modern("tools/call", Mcp_Name="t").read(body, designated), 400)) == -32020
    accepted(modern("tools/call", Mcp_Name="t", Mcp_Param_Region="eu").read(body, designated), Era.MODERN)
    assert asked == ["t", "t"]


@pytest.mark.parametrize("params", [{"name": 5, "_meta": ENVELOPE}, {"_meta": ENVELOPE}, None])
def test_a_call_of_no_tool_in_particular_designates_nothing(params: JsonObject | None) -> None:
    def never(tool: str) -> Sequence[ParamHeader]:
        raise AssertionError(tool)

    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    accepted(modern("tools/call").read(body, never), Era.MODERN)


def test_other_methods_designate_nothing() -> None:
    def never(tool: str) -> Sequence[ParamHeader]:
        raise AssertionError(tool)

    made = modern("prompts/get", Mcp_Name="p")
    accepted(made.read(request("prompts/get", name="p", meta=ENVELOPE), never), Era.MODERN)


def test_the_methods_of_an_extension_may_name_what_they_are_about() -> None:
    made = modern("acme/run", Mcp_Name="other")
    body = request("acme/run", job="j", meta=ENVELOPE)
    assert code_of(refused(made.read(body, none, names={"acme/run": "job"}), 400)) == -32020
    accepted(modern("acme/run", Mcp_Name="other").read(body, none), Era.MODERN)


@pytest.mark.spec("http.notification-accepted-202")
def test_a_modern_notification_is_owed_no_answer() -> None:
    body = orjson.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}})
    post = accepted(modern("notifications/cancelled").read(body, none), Era.MODERN)
    assert isinstance(post.message, Notification)
    assert not post.answered


@pytest.mark.spec("http.batch-rejected")
@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', "a batch"),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', "a response"),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""}}', "a response"),
    ],
)
def test_neither_batches_nor_responses_are_modern(body: bytes, what: str) -> None:
    outcome = modern("ping").read(body, none)
    answer = refused(outcome, 400)
    assert code_of(answer) == -32600
    assert "id" not in answer
    assert isinstance(outcome, Refusal)
    assert outcome.reason.startswith(f"{what} is not allowed in revision 2026-07-28")


@pytest.mark.spec("subscription.http-sse")
def test_who_takes_no_stream_cannot_listen() -> None:
    headers = {"MCP_Protocol_Version": VERSION, "Mcp_Method": "subscriptions/listen"}
    body = request("subscriptions/listen", notifications={}, meta=ENVELOPE)
    assert (
        refused(exchange(without=["Accept"], Accept="application/json", more=headers).read(body, none), 406)["id"] == 1
    )
    accepted(exchange(more=headers).read(body, none), Era.MODERN)


# --- the body: legacy


@pytest.mark.spec("compat.server-dual-initialize")
@pytest.mark.parametrize("headers", [{}, {"MCP_Protocol_Version": "2025-06-18"}, {"Mcp_Session_Id": "old"}])
def test_initialize_opens_a_session_without_any_header(headers: dict[str, str]) -> None:
    made = exchange(more=headers)
    assert made.admit() is None
    post = accepted(made.read(INITIALIZE, none), Era.LEGACY)
    assert post.answered
    assert made.session_id == headers.get("Mcp_Session_Id")


@pytest.mark.spec("http.protocol-version-assume")
@pytest.mark.parametrize(
    "headers", [{}, {"MCP_Protocol_Version": "2025-06-18"}, {"MCP_Protocol_Version": "2024-11-05"}]
)
def test_a_message_of_a_session_may_lack_the_version_or_name_another_one_that_is_spoken(
    headers: dict[str, str],
) -> None:
    made = exchange(Mcp_Session_Id="s", more=headers)
    assert made.admit() is None
    accepted(made.read(request("tools/list"), none), Era.LEGACY)
    assert made.session_id == "s"


@pytest.mark.spec("http.protocol-version-400", "compat.server-dual-legacy-results")
@pytest.mark.parametrize("body", [request("tools/list"), INITIALIZE])
@pytest.mark.parametrize("revisions", [ALL, LEGACY_ONLY])
@pytest.mark.parametrize("version", ["1999-01-01", "", "2025-06-18, 2025-06-18", "x" * 5_000])
def test_a_version_that_nobody_speaks_is_refused_and_the_others_are_named(
    body: bytes, revisions: frozenset[Revision], version: str
) -> None:
    made = exchange(revisions=revisions, Mcp_Session_Id="s", MCP_Protocol_Version=version)
    answer = refused(made.read(body, none), 400)
    error = answer["error"]
    assert isinstance(error, dict)
    assert error["code"] == -32600
    assert error["data"] == {
        "supported": [r.name for r in REVISIONS.values() if r in revisions],
        "requested": version[:100],
    }
    assert answer["id"] == 1
    assert len(orjson.dumps(answer)) < 1_000


def test_a_server_without_modern_revisions_refuses_a_modern_request_so_that_the_client_falls_back() -> None:
    made = exchange(revisions=LEGACY_ONLY, MCP_Protocol_Version=VERSION, Mcp_Method="server/discover")
    answer = refused(made.read(request("server/discover", meta=ENVELOPE), none), 400)
    assert code_of(answer) == -32600
    without = exchange(revisions=LEGACY_ONLY).read(request("server/discover", meta=ENVELOPE), none)
    assert code_of(refused(without, 400)) == -32600


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
def test_what_belongs_to_a_session_has_to_name_it(body: bytes, id: int | None) -> None:
    made = exchange()
    assert made.admit() is None
    answer = refused(made.read(body, none), 400)
    assert answer.get("id") == id
    assert ("id" in answer) == (id is not None)
    assert code_of(answer) == -32600


@pytest.mark.spec("header.protocol-version-missing-rejected")
def test_a_message_of_no_version_and_no_session_belongs_to_none_that_has_the_header() -> None:
    both = frozenset({R2025_06_18, R2025_11_25, R2026_07_28})
    assert code_of(refused(exchange(revisions=both).read(request("tools/list"), none), 400)) == -32020
    accepted(exchange(revisions=both).read(INITIALIZE, none), Era.LEGACY)
    accepted(exchange(revisions=both, Mcp_Session_Id="s").read(request("tools/list"), none), Era.LEGACY)
    missing = exchange(revisions=both, MCP_Protocol_Version="2025-06-18").read(request("tools/list"), none)
    assert code_of(refused(missing, 400)) == -32600


@pytest.mark.spec("compat.server-modern-initialize-error-http", "compat.server-modern-initialize-names-versions")
@pytest.mark.parametrize("headers", [{}, {"MCP_Protocol_Version": "2025-11-25"}])
def test_where_there_are_no_sessions_initialize_is_told_what_is_spoken(headers: dict[str, str]) -> None:
    answer = refused(exchange(revisions=MODERN_ONLY, more=headers).read(INITIALIZE, none), 400)
    error = answer["error"]
    assert isinstance(error, dict)
    supported = [r.name for r in REVISIONS.values() if r in MODERN_ONLY]
    assert (error["code"], error["data"]) == (-32022, {"supported": supported, "requested": "2025-11-25"})
    assert answer["id"] == 1


@pytest.mark.parametrize("revisions", [frozenset({R2024_11_05}), frozenset({R2024_11_05, R2026_07_28})])
def test_server_whose_only_legacy_revision_is_2024_11_05_serves_sessions(revisions: frozenset[Revision]) -> None:
    accepted(exchange(revisions=revisions).read(INITIALIZE, none), Era.LEGACY)
    accepted(exchange(revisions=revisions, Mcp_Session_Id="s").read(request("tools/list"), none), Era.LEGACY)
    assert code_of(refused(exchange(revisions=revisions).read(request("tools/list"), none), 400)) == -32600
    for method in ("GET", "DELETE"):
        assert exchange(method, revisions=revisions, Mcp_Session_Id="s").admit() is None


def test_also_when_it_asks_for_nothing() -> None:
    for body in (request("initialize", protocolVersion=7), b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'):
        assert code_of(refused(exchange(revisions=MODERN_ONLY).read(body, none), 400)) == -32022


@pytest.mark.spec("header.protocol-version-missing-rejected")
@pytest.mark.parametrize(
    "body", [request("tools/list"), b'{"jsonrpc":"2.0","method":"notifications/initialized"}', b"[" + INITIALIZE + b"]"]
)
def test_where_there_are_no_sessions_the_version_has_to_be_named(body: bytes) -> None:
    answer = refused(exchange(revisions=MODERN_ONLY, Mcp_Session_Id="s").read(body, none), 400)
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
def test_what_is_no_message_is_refused(headers: dict[str, str], body: bytes, code: int, id: JsonValue) -> None:
    answer = refused(exchange(more=headers).read(body, none), 400)
    assert code_of(answer) == code
    assert answer.get("id") == id
    # What is no answer is owed one, and its id cannot be read: null, unless the revision is known to leave it out.
    assert ("id" in answer) == (id is not None or (b"result" not in body and "MCP_Protocol_Version" not in headers))


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"jsonrpc":"2.0","id":null,"method":"ping"}'])
@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
def test_error_without_id_has_the_form_of_the_revision_that_the_header_names(revision: Revision, body: bytes) -> None:
    answer = refused(exchange(MCP_Protocol_Version=revision.name).read(body, none), 400)
    assert ("id" in answer) is not revision.error_without_id
    # Without a header, those that the server speaks have to agree.
    answer = refused(exchange(revisions=frozenset({revision})).read(body, none), 400)
    assert ("id" in answer) is not revision.error_without_id


@pytest.mark.spec("batch.receive")
def test_batch_outside_of_a_session_is_refused_with_a_null_id() -> None:
    batch = b"[" + INITIALIZE + b"]"
    for made in (exchange(), exchange(MCP_Protocol_Version="2025-06-18")):
        answer = refused(made.read(batch, none), 400)
        assert "id" in answer
        assert answer["id"] is None
    assert "id" not in refused(exchange(MCP_Protocol_Version="2025-11-25").read(batch, none), 400)
    # Nothing is owed an answer here.
    note = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    assert "id" not in refused(exchange().read(note, none), 400)


def test_message_that_is_too_large_is_refused_with_a_null_id() -> None:
    small = Limits(message_bytes=50)
    assert "id" in refused(exchange(limits=small).read(request("ping", pad="x" * 100), none), 413)
    assert "id" in refused(exchange(limits=small).too_large(51), 413)
    modern_one = exchange(limits=small, MCP_Protocol_Version=VERSION)
    assert "id" not in refused(modern_one.too_large(51), 413)


def test_what_may_have_been_an_answer_says_whose_waiting_is_over() -> None:
    outcome = exchange(more={"Mcp-Session-Id": "s"}).read(b'{"jsonrpc":"2.0","id":1,"result":5}', none)
    assert isinstance(outcome, Refusal)
    assert outcome.answers is not None
    assert outcome.answers.id == 1
    assert "id" not in refused(outcome, 400)
    large = exchange(limits=Limits(message_bytes=50)).read(
        b'{"jsonrpc":"2.0","id":1,"result":{"a":"%b"}}' % (b"x" * 50), none
    )
    assert isinstance(large, Refusal)
    refused(large, 413)
    assert exchange().refuse(400, "no").answers is None


def test_the_size_of_what_was_posted_is_told() -> None:
    body = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    outcome = exchange(more={"Mcp-Session-Id": "s"}).read(body, none)
    assert isinstance(outcome, Post)
    assert outcome.size == len(body)


def test_a_bound_that_is_hit_is_named_with_its_setting() -> None:
    outcome = exchange(limits=Limits(nesting_depth=3)).read(b'{"id":1,"x":[[[1]]]}', none)
    refused(outcome, 400)
    assert isinstance(outcome, Refusal)
    assert "Limits.nesting_depth" in outcome.reason


def test_deviations_that_were_survived_are_noted() -> None:
    post = accepted(exchange(Mcp_Session_Id="s").read(b'{"id":1,"method":"ping"}', none), Era.LEGACY)
    assert post.notes == ("the member jsonrpc is missing",)
    modern_post = accepted(modern("ping").read(b'{"id":1,"method":"ping"}', none), Era.MODERN)
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
def test_only_what_has_a_request_or_rubbish_in_it_is_owed_an_answer(body: bytes, answered: bool) -> None:
    post = accepted(exchange(Mcp_Session_Id="s").read(body, none), Era.LEGACY)
    assert post.answered is answered


@pytest.mark.spec("batch.receive", "http.post-single-message")
@pytest.mark.parametrize("revision", LEGACY)
def test_batches_are_for_sessions_whose_revision_has_them(revision: Revision) -> None:
    made = exchange(Mcp_Session_Id="s")
    post = accepted(made.read(b"[" + request("ping") + b"]", none), Era.LEGACY)
    assert isinstance(post.message, Batch)
    outcome = made.check(post, revision)
    if revision is R2025_03_26:
        assert outcome is None
    else:
        assert ("id" in refused(outcome, 400)) is not revision.error_without_id
    single = accepted(made.read(request("ping"), none), Era.LEGACY)
    assert made.check(single, revision) is None


# --- responses


@pytest.mark.spec("session.terminated-404")
def test_a_session_that_is_not_there_is_404_and_says_what_to_do() -> None:
    made = exchange("GET", Mcp_Session_Id="s")
    answer = refused(made.unknown_session(), 404)
    assert "id" not in answer
    assert code_of(answer) == -32600
    post = Post(message=Request(0, "ping"), era=Era.LEGACY)
    assert refused(made.unknown_session(post), 404)["id"] == 0
    note = Post(message=ResultResponse(5, {}), era=Era.LEGACY)
    assert made.unknown_session(note) == made.unknown_session()


def test_when_there_is_no_room_the_client_is_told_when_to_come_again() -> None:
    excess = LimitExceeded("sessions", observed=2, allowed=1, setting="Limits.sessions")
    outcome = exchange().busy(excess)
    answer = refused(outcome, 503)
    assert code_of(answer) == -32603
    assert "Limits.sessions" in outcome.reason
    after = outcome.head().headers.get("retry-after")
    assert after is not None
    assert int(after) > 0
    assert refused(exchange().busy(excess, id="x"), 503)["id"] == "x"
    own = exchange().busy(excess, id="x", own=True)
    assert code_of(refused(own, 429)) == -32603
    assert own.head().headers.get("retry-after") == after


def test_any_refusal_can_be_made_with_headers_of_its_own() -> None:
    outcome = exchange().refuse(401, "who are you", id=4, data={"a": 1}, headers=(("www-authenticate", "Bearer"),))
    assert isinstance(outcome.error, ErrorResponse)
    assert outcome.error.error.data == {"a": 1}
    assert refused(outcome, 401)["id"] == 4
    assert outcome.head().headers.get("www-authenticate") == "Bearer"


@pytest.mark.spec("http.request-response-type", "http.request-response-content-type")
def test_an_answer_in_json_is_kept_by_nobody() -> None:
    head = exchange().json_head()
    assert head.status == 200
    assert head.headers.get("content-type") == "application/json"
    assert head.headers.get("cache-control") == "no-store"
    assert exchange().json_head(404).status == 404
    assert exchange().json_head(404).headers == head.headers


@pytest.mark.spec("http.sse-x-accel-buffering", "http.request-response-content-type")
def test_a_stream_is_neither_held_back_nor_changed() -> None:
    head = exchange().stream_head()
    assert head.status == 200
    assert head.headers.get("content-type") == "text/event-stream"
    assert head.headers.get("cache-control") == "no-cache, no-transform"
    assert head.headers.get("x-accel-buffering") == "no"


@pytest.mark.spec("session.assign", "http.session-id-not-minted")
def test_the_session_is_named_in_the_answer_that_opens_it_and_in_no_other() -> None:
    made = exchange()
    for head in (made.json_head(session_id="s"), made.stream_head(session_id="s")):
        assert (head.status, head.headers.get("mcp-session-id")) == (200, "s")
    for head in (made.json_head(), made.stream_head(), made.empty_head()):
        assert "mcp-session-id" not in head.headers


@pytest.mark.spec("http.notification-202", "http.notification-accepted-202")
def test_what_is_owed_no_answer_gets_a_response_without_a_body() -> None:
    head = exchange().empty_head()
    assert (head.status, head.headers.get("content-length")) == (202, "0")
    assert "content-type" not in head.headers
    assert exchange("DELETE").empty_head(200).status == 200


def test_the_revisions_may_come_in_any_collection() -> None:
    made = ServerExchange(
        HttpRequest(method="GET", target="/mcp", headers=Headers(list(HEADERS.items()))),
        EndpointPolicy(),
        Limits(),
        [R2026_07_28],
    )
    refused(made.admit(), 405)


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
def test_whatever_comes_is_either_taken_or_refused_with_an_error(
    method: str, pairs: list[tuple[str, str]], proper: bool, revisions: frozenset[Revision], body: bytes
) -> None:
    headers = Headers([*(HEADERS.items() if proper else ()), *pairs])
    made = ServerExchange(
        HttpRequest(method=method, target="/mcp", headers=headers), EndpointPolicy(), Limits(), revisions
    )
    outcome = made.admit() or made.read(body, none)
    if isinstance(outcome, Refusal):
        assert 400 <= outcome.status < 500
        refused(outcome, outcome.status)
    else:
        assert outcome.era is Era.LEGACY or made.session_id is None
        opens = isinstance(outcome.message, Request) and outcome.message.method == "initialize"
        assert outcome.era is Era.MODERN or opens or made.session_id is not None


@pytest.mark.parametrize(
    ("accept", "answer", "preferred"),
    [
        ("application/json, text/event-stream", "json", False),
        ("application/json, text/event-stream", "stream", True),
        ("application/json", "stream", False),
        ("text/event-stream", "json", True),
    ],
)
def test_an_answer_is_a_stream_by_the_policy_or_where_the_client_takes_nothing_else(
    accept: str, answer: Literal["json", "stream"], preferred: bool
) -> None:
    request = HttpRequest(method="POST", target="/mcp", headers=Headers([("accept", accept)]))
    exchange = ServerExchange(request, EndpointPolicy(answer=answer), Limits(), frozenset(REVISIONS.values()))
    assert exchange.prefers_stream is preferred
