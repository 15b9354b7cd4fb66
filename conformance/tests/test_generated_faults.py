"""Tests of the generated faults: the proxy, the enumeration by schema, and the trial of a fault."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from program_path import PROGRAM_PATH

from mcp_conformance.checks import CLIENT_CHECKS
from mcp_conformance.checks.probes.near_misses import near_misses
from mcp_conformance.model.check import Role
from mcp_conformance.model.verdict import Outcome
from mcp_conformance.protocol.uri_syntax import is_uri, is_uri_template
from mcp_conformance.suite.checks import find
from mutants.generated.command import Selection, report
from mutants.generated.fault import ANY, GeneratedFault, Leg, Recording, Target
from mutants.generated.http_rewriter import RequestRewriter, ResponseRewriter
from mutants.generated.login_proxy import LoginRequest
from mutants.generated.logins.operator import LOGIN
from mutants.generated.logins.table import LOGIN_OPERATORS
from mutants.generated.operators import OPERATORS, generate
from mutants.generated.protected import PROTECTED, PROTECTED_OPERATORS
from mutants.generated.proxy import Conversation, Mutation, Observer, dumped
from mutants.generated.recording import SETTINGS, record_server, run_faulty_client, run_faulty_server
from mutants.generated.relevance import is_related, is_unrelated_must
from mutants.generated.schemas import schema_folder, schema_of
from mutants.generated.trial import Score, TrialResult, try_generated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

needs_schemas = pytest.mark.skipif(schema_folder() is None, reason="not run: no official schemas; set MCP_SCHEMA_DIR")

STDIO = Leg(role="server", revision="2025-06-18", transport="stdio")
HTTP = Leg(role="server", revision="2025-06-18", transport="http")
CHECKS = ("schema.tour", "ping.empty-result", "schema.list-tools-result", "schema.tool", "jsonrpc.response-ids")
EVENT = b'id: 1-0\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n\n'
RESPONSE = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}'
REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


STREAM = (
    b"HTTP/1.1 200 OK\r\ncontent-TYPE:  text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    + chunk(EVENT)
    + chunk(b"id: 1-1\ndata: \n\n")
    + chunk(b"data: " + RESPONSE + b"\n\n")
    + b"0\r\n\r\n"
)
BODY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(RESPONSE) + RESPONSE
EMPTY = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
UNTIL_CLOSED = b"HTTP/1.0 500 Broken\r\nX: y\r\n\r\nnot framed"
POST = b"POST /mcp HTTP/1.1\r\nHost:  here\r\naccept: */*\r\nContent-Length: %d\r\n\r\n" % len(REQUEST) + REQUEST


class Hits(Observer):
    def __init__(self) -> None:
        self.hits = 0
        self.names: list[str] = []

    def hit(self) -> None:
        self.hits += 1

    def noted(self, name: str, value: object) -> None:
        self.names.append(name)


def pieces(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = [0, *sorted(each % (len(data) + 1) for each in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


@pytest.mark.property
@given(
    st.lists(st.sampled_from([STREAM, BODY, EMPTY]), max_size=4), st.booleans(), st.lists(st.integers(0), max_size=12)
)
def test_responses_without_mutation_are_unchanged(parts: list[bytes], broken: bool, cuts: list[int]) -> None:
    data = b"".join(parts) + (UNTIL_CLOSED if broken else b"")
    conversation = Conversation(Mutation(), Observer())
    rewriter = ResponseRewriter(conversation, RequestRewriter(conversation))

    passed = b"".join(rewriter.feed(each) for each in pieces(data, cuts)) + rewriter.end()

    assert passed == data


@pytest.mark.property
@given(st.integers(0, 3), st.lists(st.integers(0), max_size=12))
def test_requests_without_mutation_are_unchanged(count: int, cuts: list[int]) -> None:
    data = POST * count + b"GET /mcp HTTP/1.1\r\nHost: here\r\n\r\n"
    rewriter = RequestRewriter(Conversation(Mutation(), Observer()))

    assert b"".join(rewriter.feed(each) for each in pieces(data, cuts)) == data


def test_responses_are_named_by_their_request() -> None:
    hits = Hits()
    conversation = Conversation(Mutation(), hits)
    requests = RequestRewriter(conversation)
    requests.feed(POST)

    ResponseRewriter(conversation, requests).feed(STREAM)

    assert hits.names == [
        "POST request 200 stream http",
        "notifications/message notification",
        "notifications/message notification on-POST",
        "POST request 200 stream event",
        "POST request 200 stream event",
        "tools/list result",
        "tools/list result on-POST",
        "POST request 200 stream event",
    ]


def stream(*messages: bytes) -> bytes:
    """Return an HTTP response that is a stream of messages."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(chunk(b"data: " + each + b"\n\n") for each in messages) + b"0\r\n\r\n"


LOG = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'
LIST_ROOTS = b'{"jsonrpc":"2.0","id":"s1","method":"roots/list"}'
GET = b"GET /mcp HTTP/1.1\r\nHost: here\r\n\r\n"


def data_of(passed: bytes) -> list[bytes]:
    """Return the messages of a passed stream."""
    return [line.removeprefix(b"data: ") for line in passed.split(b"\n") if line.startswith(b"data: ")]


class Exchanges:
    """The exchanges of a server with a fault on other streams."""

    def __init__(self, operator: str, key: str, leg: Leg) -> None:
        self.conversation = Conversation(OPERATORS[operator].mutation(Target(key=key), leg), Observer())

    def served(self, request: bytes, *messages: bytes) -> list[bytes]:
        """Return the messages that the suite receives in response to a request, in place of those of the server."""
        requests = RequestRewriter(self.conversation)
        requests.feed(request)
        return data_of(ResponseRewriter(self.conversation, requests).feed(stream(*messages)))


def test_notification_for_end_of_stream_follows_response_of_this_stream() -> None:
    exchanges = Exchanges("notification-late", "notifications/message notification", HTTP)

    # The client disconnects from this stream.
    assert exchanges.served(POST, LOG) == []
    assert exchanges.served(numbered(POST, 2), LOG, numbered(RESPONSE, 2)) == [numbered(RESPONSE, 2), LOG]


def numbered(message: bytes, id: int) -> bytes:
    return message.replace(b'"id":1', b'"id":%d' % id)


@pytest.mark.parametrize(
    ("operator", "key", "moved", "next_one"),
    [
        ("notification-other-stream", "notifications/message notification", LOG, numbered(RESPONSE, 2)),
        ("request-other-stream", "roots/list request", LIST_ROOTS, LOG),
        ("response-other-stream", "tools/list result", RESPONSE, LOG),
    ],
)
def test_message_for_another_stream_is_sent_there_and_not_on_its_own(
    operator: str, key: str, moved: bytes, next_one: bytes
) -> None:
    exchanges = Exchanges(operator, key, HTTP)

    assert exchanges.served(POST, LOG, LIST_ROOTS, RESPONSE) == [
        each for each in (LOG, LIST_ROOTS, RESPONSE) if each != moved
    ]
    assert exchanges.served(numbered(POST, 2), next_one) == [moved, next_one]


def test_response_for_another_stream_is_missing_where_its_own_is_resumed() -> None:
    exchanges = Exchanges("response-other-stream", "tools/list result", HTTP)
    exchanges.served(POST, LOG, RESPONSE)

    assert exchanges.served(GET, LOG, RESPONSE) == [LOG]
    assert exchanges.served(numbered(POST, 2), LOG) == [RESPONSE, LOG]


def test_message_for_another_stream_is_sent_to_another_client_over_http_sse() -> None:
    leg = Leg(role="server", revision="2024-11-05", transport="http-sse")
    exchanges = Exchanges("notification-other-stream", "notifications/message notification", leg)

    assert exchanges.served(POST, LOG) == [LOG]
    assert exchanges.served(GET, LOG, RESPONSE) == [RESPONSE]
    assert exchanges.served(GET, RESPONSE) == [LOG, RESPONSE]


@needs_schemas
@pytest.mark.parametrize(
    ("revision", "transport", "found"),
    [
        ("2024-11-05", "http", []),
        ("2024-11-05", "http-sse", ["ping result"]),
        ("2025-11-25", "http", ["tools/call result"]),
        ("2025-11-25", "stdio", []),
    ],
)
def test_responses_on_other_streams_are_those_on_streams_of_the_transport(
    revision: str, transport: str, found: list[str]
) -> None:
    names = ("tools/call result on-POST", "ping result on-GET", "conformance/unknown error on-POST")
    samples: dict[str, tuple[JsonValue, ...]] = {each: ("",) for each in names if transport != "stdio"}
    leg = Leg(role="server", revision=revision, transport=transport)
    recording = Recording(leg=leg, samples=samples, seen_by={}, seconds={}, outcomes={})

    assert [each.key for each in OPERATORS["response-other-stream"].targets(recording)] == found


def errors(*codes: int) -> tuple[JsonValue, ...]:
    return tuple({"jsonrpc": "2.0", "id": 1, "error": {"code": each, "message": "x"}} for each in codes)


@needs_schemas
@pytest.mark.parametrize(
    ("transport", "found"),
    [
        # A rejection over HTTP has a status, and the code in its body is free; a ping is also sent as an invalid request.
        ("http", ["ping error", "tools/call error", " error"]),
        ("http-sse", ["tools/call error", " error"]),
        ("stdio", ["ping error", "prompts/get error", "tools/call error", " error"]),
    ],
)
def test_codes_of_errors_are_changed_unless_they_are_free(transport: str, found: list[str]) -> None:
    samples = {
        "ping error": errors(-32600),
        "prompts/get error": errors(-32600, -32602),
        "tools/call error": errors(-32602, -32603),
        "tools/list error": errors(-32602),
        " error": errors(-32700),
    }
    leg = Leg(role="server", revision="2024-11-05", transport=transport)
    recording = Recording(leg=leg, samples=samples, seen_by={}, seconds={}, outcomes={})

    assert [each.key for each in OPERATORS["error-code-params"].targets(recording)] == found


async def test_hanging_server_shortens_no_wait_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = attrs.evolve(SETTINGS, timeout=0.2)
    monkeypatch.setattr("mutants.generated.recording.SETTINGS", settings)

    for _ in range(3):
        await run_faulty_server(STDIO, fault("response-dropped:ping result").mutation(), Hits(), chosen=CHECKS)

    assert settings.timeouts.limit(settings.timeout, [""]) == settings.timeout


def test_requests_of_one_connection_are_numbered() -> None:
    requests = RequestRewriter(Conversation(Mutation(), Observer()))

    numbers = []
    for _ in range(2):
        requests.feed(POST)
        numbers.append(requests.head.number)

    assert numbers == [0, 1]


def test_changed_body_has_its_new_length() -> None:
    class Longer(Mutation):
        def body(self, body: bytes, kind: str) -> bytes:
            return body + b"  "

    conversation = Conversation(Longer(), Observer())
    found = ResponseRewriter(conversation, RequestRewriter(conversation)).feed(BODY)

    assert found.endswith(RESPONSE + b"  ")
    assert b"Content-Length: %d\r\n" % (len(RESPONSE) + 2) in found


def test_message_of_client_that_is_sent_twice_is_two_requests() -> None:
    class Twice(Mutation):
        def sent(self, message: JsonObject, seen: object, conversation: object) -> list[JsonValue | bytes]:
            return [message, message]

    requests = RequestRewriter(Conversation(Twice(), Observer()), sends=True)
    whole = b"POST /mcp HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(REQUEST) + REQUEST

    assert requests.feed(whole) == whole
    assert requests.further == [whole]


def test_message_of_client_that_is_held_back_is_counted_as_dropped() -> None:
    class Never(Mutation):
        def sent(self, message: JsonObject, seen: object, conversation: object) -> list[JsonValue | bytes]:
            return []

    requests = RequestRewriter(Conversation(Never(), Observer()), sends=True)

    assert requests.feed(POST) == b""
    assert requests.dropped == 1


@pytest.mark.parametrize("leg", [STDIO, HTTP], ids=str)
async def test_server_without_mutation_passes_behind_proxy(leg: Leg) -> None:
    hits = Hits()

    run = await run_faulty_server(leg, Mutation(), hits, chosen=CHECKS)

    assert {each.check: each.outcome.value for each in run.verdicts} == dict.fromkeys(CHECKS, "passed")
    assert "tools/list result" in hits.names
    assert hits.hits == 0


PROTECTED_LEG = Leg(role="server", revision="2026-07-28", transport=PROTECTED)


@pytest.mark.parametrize(
    ("operator", "check"),
    [
        ("protected-audience-prefix", "auth.server-token-audience-near"),
        ("protected-proof-url-port", "dpop.server-proof-near"),
        ("protected-absent-notification", "auth.server-every-message"),
        ("protected-connection-trusted", "auth.server-same-connection"),
        ("protected-metadata-resource-slash", "auth.server-metadata-no-slash"),
    ],
)
async def test_fault_of_protected_server_is_named(operator: str, check: str) -> None:
    recording = await record_server(PROTECTED_LEG, chosen=[check])
    fault = GeneratedFault(operator=OPERATORS[operator], target=Target(key="auth token"), leg=PROTECTED_LEG)

    result = await try_generated(fault, recording)

    assert recording.outcomes == {check: "passed"}
    assert (result.score, result.checks) == (Score.NAMED, (check,))


def test_operators_of_protected_servers_have_targets_in_their_legs_only() -> None:
    protected, plain = (
        Recording(leg=leg, samples={}, seen_by={}, seconds={}, outcomes={}) for leg in (PROTECTED_LEG, HTTP)
    )

    assert {each.operator.name for each in generate(protected)} <= {each.name for each in PROTECTED_OPERATORS}
    assert len(list(generate(protected))) > 50
    assert not any(each.operator in PROTECTED_OPERATORS for each in generate(plain))


LOGIN_LEG = Leg(role="client", revision="2026-07-28", transport=LOGIN)
LOGINS = ("auth/metadata-default", "auth/dpop", "auth/client-credentials-jwt")


@pytest.mark.usefixtures("_programs")
async def test_client_that_logs_in_without_mutation_passes_behind_proxy() -> None:
    found = await run_faulty_client(LOGIN_LEG, None, within=LOGINS)

    assert {each.outcome.value for each in found.run.verdicts} <= {"passed", "not applicable", "not testable"}
    assert found.hits == 0
    assert {name for name, _ in found.noted["auth/metadata-default"]} == {
        f"{kind} login" for kind in ("mcp", "resource-metadata", "server-metadata", "register", "authorize", "token")
    }


@pytest.mark.usefixtures("_programs")
@pytest.mark.parametrize(
    ("operator", "key", "scenario", "check"),
    [
        ("login-authorize-code-challenge-cut", "authorize", "auth/metadata-default", "auth.client-pkce"),
        (
            "login-metadata-server-openid-first",
            "server-metadata",
            "auth/metadata-var1",
            "auth.client-server-metadata-order-root",
        ),
        ("login-issuer-slash", "server-metadata", "auth/metadata-issuer-slash", "auth.client-issuer-identical"),
        ("login-bearer-absent-call", "mcp", "auth/metadata-default", "auth.client-every-request"),
        ("login-shown-code", "token", "auth/metadata-default", "auth.client-no-cross-credentials"),
        ("login-proof-jti-same", "proof", "auth/dpop", "dpop.client-fresh"),
        ("login-proof-as-bearer", "proof", "auth/dpop", "dpop.client-scheme"),
        ("login-refresh-token-new-ignored", "refresh", "auth/token-expiry", "auth.client-oauth21"),
        ("login-refresh-unauthenticated", "refresh", "auth/token-expiry-preregistered", "auth.client-oauth21"),
        ("login-refresh-other-issuer", "refresh", "auth/token-expiry", "auth.client-no-cross-credentials"),
        ("login-refresh-token-as-bearer", "refresh", "auth/token-expiry", "auth.client-refresh-confidential"),
        ("login-expired-token-kept", "refresh", "auth/token-expiry", "auth.client-expired-token"),
        (
            "login-assertion-aud-slash",
            "token",
            "auth/client-credentials-jwt",
            "client-credentials.client-assertion-claims",
        ),
    ],
)
async def test_fault_of_login_is_named(operator: str, key: str, scenario: str, check: str) -> None:
    within = {"auth/metadata-default", scenario}

    found = await run_faulty_client(LOGIN_LEG, (operator, f"{key} login", ""), within=within)

    assert found.hits > 0
    assert check in {each.check for each in found.run.verdicts if each.outcome is Outcome.FAILED}


@pytest.mark.usefixtures("_programs")
@pytest.mark.parametrize("operator", ["login-refresh-never", "login-refresh-scope-same"])
async def test_client_that_refreshes_in_a_permitted_way_fails_no_check(operator: str) -> None:
    within = {"auth/metadata-default", "auth/token-expiry", "auth/token-expiry-preregistered"}

    found = await run_faulty_client(LOGIN_LEG, (operator, "refresh login", ""), within=within)

    assert found.hits > 0
    assert [each.check for each in found.run.verdicts if each.outcome is Outcome.FAILED] == []
    assert OPERATORS[operator].invisible


@needs_schemas
def test_operators_of_logins_have_targets_in_their_legs_only() -> None:
    samples: dict[str, tuple[JsonValue, ...]] = {"token login": ({"fields": {"code": "x"}},)}
    login, plain = (
        Recording(leg=leg, samples=samples, seen_by={}, seconds={}, outcomes={})
        for leg in (LOGIN_LEG, attrs.evolve(LOGIN_LEG, transport="http"))
    )

    names = {each.operator.name for each in generate(login)}

    assert {"login-token-code-twice", "login-token-twice", "login-token-json"} <= names
    assert "login-token-assertion-twice" not in names
    assert not any(each.operator in LOGIN_OPERATORS for each in generate(plain))


def test_parameters_of_login_request_are_changed_in_form_and_query() -> None:
    form = LoginRequest(
        method="POST",
        url="http://127.0.0.1:1/token",
        headers=(("Content-Type", "application/x-www-form-urlencoded"),),
        body=b"a=1&b=%20",
    )
    query = LoginRequest(method="GET", url="http://127.0.0.1:1/authorize?a=1&b=%20", headers=(), body=b"")

    for each in (form, query):
        assert each.fields == [("a", "1"), ("b", " ")]
        assert each.with_fields([("a", "1"), ("a", "&")]).fields == [("a", "1"), ("a", "&")]


PASSIVE = [each.id for each in CLIENT_CHECKS if not each.needs]
SCENARIOS = ("initialize", "tools_call")


@pytest.fixture
def _programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)


@pytest.mark.usefixtures("_programs")
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_client_without_mutation_passes_behind_proxy(transport: str) -> None:
    leg = Leg(role="client", revision="2025-06-18", transport=transport)

    found = await run_faulty_client(leg, None, chosen=PASSIVE, looked_at=SCENARIOS)

    assert [each.refusal for each in found.run.legs] == [None]
    assert {each.outcome.value for each in found.run.verdicts} <= {"passed", "not applicable", "not testable"}
    assert found.hits == 0
    assert "tools/call request" in {name for name, _ in found.noted["tools_call"]}


@needs_schemas
@pytest.mark.usefixtures("_programs")
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_client_fault_is_named(transport: str) -> None:
    leg = Leg(role="client", revision="2025-06-18", transport=transport)
    fault = ("member-type", "tools/call request", "params.name")

    found = await run_faulty_client(leg, fault, chosen=PASSIVE, looked_at=SCENARIOS)

    assert found.hits > 0
    assert "schema.client-tools-call" in {each.check for each in found.run.verdicts if each.outcome is Outcome.FAILED}


@needs_schemas
def test_places_follow_schema_and_message() -> None:
    text: JsonObject = {"type": "text", "text": "x"}
    link: JsonObject = {"type": "resource_link", "name": "x", "uri": "x:"}
    message: JsonObject = {"jsonrpc": "2.0", "id": 1, "result": {"content": [text, link]}}

    places = {each.pattern: each for each in schema_of("2025-06-18").places("result", "tools/call", message)}

    assert {"id", "jsonrpc", "result", "result.content", "result.isError"} <= set(places)
    assert places["result.content[]<TextContent>.text"].required
    assert places["result.content[]<TextContent>.text"].holder is text
    assert places["result.content[]<ResourceLink>.type"].constants == ("resource_link",)
    assert not places["result.isError"].is_present
    assert "result.content[]<TextContent>.uri" not in places


@pytest.fixture
async def recording() -> Recording:
    return await record_server(STDIO, chosen=CHECKS)


def fault(name: str) -> GeneratedFault:
    operator, _, target = name.partition(":")
    key, _, detail = target.partition(":")
    return GeneratedFault(operator=OPERATORS[operator], target=Target(key=key, detail=detail), leg=STDIO)


@needs_schemas
@pytest.mark.parametrize(
    ("name", "score", "checks"),
    [
        ("member-omitted:tools/list result:result.tools[].inputSchema", Score.NAMED, "schema.tool"),
        ("member-order:tools/list result", Score.INVISIBLE, ""),
        ("member-type:roots/list request:params._meta", Score.UNREACHED, ""),
        # No check sends such an id here, so that the fault survives.
        ("request-id-32-bits:* result", Score.SURVIVED, ""),
        ("response-id-other:ping error", Score.UNREACHED, ""),
    ],
)
async def test_fault_has_its_score(recording: Recording, name: str, score: Score, checks: str) -> None:
    result = await try_generated(fault(name), recording)

    assert (result.score, " ".join(result.checks)) == (score, checks)


@pytest.mark.parametrize(
    ("name", "check", "related"),
    [
        ("member-omitted:tools/list result:result.tools[].name", "schema.tool", True),
        ("member-omitted:tools/list result:result.tools[].name", "logging.declared", False),
        ("member-null:initialize result:result.capabilities.logging", "logging.declared", True),
        ("member-added-type:roots/list request:params._meta.progressToken", "progress.own-token-type", True),
        ("member-added-type:roots/list request:params._meta", "progress.own-token-type", False),
        ("line-bom:* line", "stdio.stdout-only-messages", True),
        ("line-bom:* line", "schema.tool", False),
        ("near-cursor-lower:tools/list result", "pagination.invalid-cursor", True),
    ],
)
def test_check_is_related_if_it_proves_requirement_of_area(name: str, check: str, related: bool) -> None:
    info = find(check, Role.SERVER)

    assert is_related(info, fault(name)) is related
    assert is_unrelated_must(info, fault(name)) is (not related)


@needs_schemas
async def test_visible_fault_named_as_invisible_is_false(recording: Recording) -> None:
    visible = OPERATORS["member-omitted"]
    wrong = attrs.evolve(
        fault("member-omitted:tools/list result:result.tools"), operator=attrs.evolve(visible, invisible="a mistake")
    )

    result = await try_generated(wrong, recording)

    assert result.score is Score.FALSE
    assert not result.score.is_right


@needs_schemas
async def test_sample_depends_on_its_seed_only(recording: Recording) -> None:
    drawn = [[each.name for each in Selection(sample=20, seed=seed).of([recording])] for seed in (1, 1, 2)]

    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 20
    assert all(OPERATORS[name.partition(":")[0]] for name in drawn[0])


@needs_schemas
async def test_selection_by_name_has_faults_that_begin_so(recording: Recording) -> None:
    names = {each.name for each in Selection(only=("response-id-null:",)).of([recording])}

    assert names == {f"response-id-null:{ANY} {kind}" for kind in ("result", "error")}


def result(operator: str, leg: Leg, score: Score, *checks: str) -> TrialResult:
    return TrialResult(fault=f"{operator}:x", operator=operator, area="tools", leg=leg, score=score, checks=checks)


def test_report_has_score_by_role_and_lists_what_is_wrong() -> None:
    client = attrs.evolve(STDIO, role="client")
    lines = list(
        report(
            [
                *[result("first", STDIO, Score.NAMED)] * 19,
                result("second", STDIO, Score.SURVIVED),
                result("first", client, Score.FALSE, "ping.respond"),
                result("second", client, Score.INVISIBLE),
            ]
        )
    )

    role = lines.index("by role:")
    assert [line.split() for line in lines[role + 1 : role + 3]] == [
        ["client", "0", "/", "0", "-,", "1", "invisible,", "1", "false"],
        ["server", "19", "/", "20", "95.0", "%"],
    ]
    assert [line.split() for line in lines[lines.index("these need a look:") + 1 : -1]] == [
        ["false", "client", "2025-06-18", "stdio", "--only", "'first:x'", "ping.respond"],
        ["survived", "server", "2025-06-18", "stdio", "--only", "'second:x'"],
    ]
    assert lines[-1].split() == ["all", "19", "/", "20", "95.0", "%,", "1", "invisible,", "1", "false"]


@pytest.mark.parametrize(
    ("operator", "key", "check"),
    [
        ("task-status-back", "tasks/get result", "tasks.stable"),
        ("open-refuses-early", "ping result", "ping.before-initialized"),
    ],
)
async def test_fault_in_transition_is_named(operator: str, key: str, check: str) -> None:
    leg = attrs.evolve(STDIO, revision="2025-11-25")
    recording = await record_server(leg, chosen=[check])
    wrong = GeneratedFault(operator=OPERATORS[operator], target=Target(key=key), leg=leg)

    found = await try_generated(wrong, recording)

    assert (found.score, found.checks) == (Score.NAMED, (check,))


def test_dumped_json_is_that_of_the_raw_peers() -> None:
    assert dumped(json.loads(RESPONSE)) == RESPONSE


def test_near_misses_differ_from_text_and_from_known_ones() -> None:
    assert near_misses("Name") == ["nAME", "Name ", " Name", "Name/"]
    assert near_misses("42", ["42/"]) == ["42 ", " 42"]


@pytest.mark.parametrize(
    ("template", "valid"),
    [
        ("test://{id}/x", True),
        ("file:///{+path}{?first,rest*,cut:3}", True),
        ("test://{unclosed", False),
        ("test://closed}", False),
        ("test://{}", False),
        ("with space", False),
    ],
)
def test_uri_template_is_read_by_rfc_6570(template: str, valid: bool) -> None:
    assert is_uri_template(template) is valid


@pytest.mark.parametrize(
    ("uri", "valid"),
    [
        ("http://[::1]:80/a?b=/?#c?", True),
        ("http://user@[::1]/", True),
        ("file:///app/[slug]/page.tsx", False),
        ("test://a?b[]=1", False),
        ("test://a#b#c", False),
    ],
)
def test_uri_characters_depend_on_its_part(uri: str, valid: bool) -> None:
    assert is_uri(uri) is valid


def test_uri_needs_scheme_and_allowed_characters() -> None:
    assert [is_uri(each) for each in ("test://a", "urn:x", "no-uri", "test:// a", "test://%zz")] == [
        True,
        True,
        False,
        False,
        False,
    ]
