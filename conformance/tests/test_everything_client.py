"""The client `everything_client`, as a process, and what it makes up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Literal

import jsonschema
import pytest
import trio
from everything_server import everything
from program_path import PROGRAM_PATH

from everything_client.examples import arguments_for, example
from everything_client.instructions import Instructions, InvalidInstructions, read_instructions
from mcp_client.auth.keys import PrivateKey
from mcp_conformance.oauth_testbed.loopback import open_testbed
from mcp_conformance.oauth_testbed.quirks import Quirks
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import (
    LATEST,
    LEGACY,
    MODERN,
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    Revision,
    between,
)

ASKING_BY_FORM = (
    "prompts/get 'test_input_required_result_prompt'",
    "tools/call 'confirm_delete'",
    "tools/call 'test_elicitation'",
    "tools/call 'test_elicitation_sep1034_defaults'",
    "tools/call 'test_elicitation_sep1330_enums'",
    "tools/call 'test_input_required_result_elicitation'",
    "tools/call 'test_input_required_result_multi_round'",
    "tools/call 'test_input_required_result_multiple_inputs'",
    "tools/call 'test_input_required_result_request_state'",
    "tools/call 'test_input_required_result_tampered_state'",
    "tools/call 'test_streaming_elicitation'",
)
NEED_TASKS = ("tools/call 'failing_job'", "tools/call 'test_tool_with_task'")


def errors_of(revision: Revision) -> set[str]:
    """What the server answers by an error: what the revision lacks, and what is made to fail."""
    expected = {"tools/call 'protocol_error_job': error -32603"}
    expected |= {f"resources/read 'skill://1': error {revision.resource_not_found}"}
    if revision not in between(since=R2025_06_18):
        expected |= {f"{what}: error -32600" for what in ASKING_BY_FORM}
    if revision not in between(since=R2025_11_25):
        expected |= {f"{what}: error -32600" for what in NEED_TASKS}
        # What the schema forbids is an error of the protocol there, later one of the tool.
        expected |= {"tools/call 'json_schema_2020_12_tool': error -32602"}
    return expected


async def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Runs it, with nothing of the official suite in the environment but what is given."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MCP_CONFORMANCE_")}
    return await trio.run_process(
        [sys.executable, "-m", "everything_client", *arguments],
        env={**inherited, "PYTHONPATH": PROGRAM_PATH, **environment},
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )


@pytest.mark.parametrize("spoken", [R2024_11_05, R2025_11_25, LATEST])
async def test_it_uses_everything_that_the_server_offers(spoken: Revision) -> None:
    # Where nothing is said, the newest is found out.
    environment = {} if spoken is LATEST else {"MCP_CONFORMANCE_PROTOCOL_VERSION": spoken.name}
    async with everything() as port:
        ended = await run(f"http://127.0.0.1:{port}/mcp", **environment)
    lines = ended.stdout.decode().splitlines()
    assert (ended.returncode, ended.stderr.decode(), lines[-1]) == (0, "", "done")
    assert lines[0] == f"connected: {spoken.name}"
    # The fixtures of the suite fail in many ways, as their names say.
    assert {line for line in lines if ": error " in line and "conformance" not in line} == errors_of(spoken)
    for method in ("tools/call", "resources/read", "prompts/get"):
        assert any(line.startswith(method) and line.endswith(": answered") for line in lines), method
    assert any(line.startswith("completion/complete") for line in lines) == (spoken in between(since=R2025_03_26))
    assert "tools/call 'test_error_handling': failed" in lines
    assert "tools/call 'test_sampling': answered" in lines
    assert "tools/call 'test_input_required_result_list_roots': answered" in lines
    assert "listening: tools True" in lines
    assert any(line.startswith("log info: ") for line in lines)
    assert any(line.startswith("skill ") for line in lines) == (spoken is LATEST)


async def test_it_ends_with_1_and_says_why_when_nobody_is_there() -> None:
    with trio.socket.socket() as taken:
        await taken.bind(("127.0.0.1", 0))
        ended = await run(f"http://127.0.0.1:{taken.getsockname()[1]}/mcp")
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"everything-client: HttpConnectionEnded: cannot connect to http://127.0.0.1:")
    assert ended.stderr.count(b"\n") == 1
    assert b"done" not in ended.stdout


async def test_it_fails_where_it_should_have_refused_and_did_not() -> None:
    async with everything() as port:
        ended = await run(f"http://127.0.0.1:{port}/mcp", MCP_CONFORMANCE_SCENARIO="sep-2640-client-verify-digest")
    assert ended.returncode == 1
    assert b"NotRefused: sep-2640-client-verify-digest should have ended with SkillChanged" in ended.stderr


AGREED: Mapping[str | None, Mapping[str, str]] = {
    None: {},
    "auth/client-credentials-basic": {"client_id": "c1", "client_secret": "quite-a-secret"},
    "auth/client-credentials-jwt": {"client_id": "c2", "signing_algorithm": "ES256"},
    "auth/pre-registration": {"client_id": "c1", "client_secret": "quite-a-secret"},
    "auth/enterprise-managed-authorization": {
        "client_id": "c1",
        "client_secret": "quite-a-secret",
        "idp_client_id": "i1",
    },
    "auth/wif-jwt-bearer": {},
}
"""What is agreed before, by scenario; what depends on the place or is a key is added by the test."""


@pytest.mark.spec(
    "client-credentials.grant-type",
    "dpop.client-fresh-proof",
    "dpop.client-scheme",
    "ema.access-token-grant",
    "ema.token-exchange",
)
@pytest.mark.parametrize(("scenario", "dpop"), [(None, "off"), *((scenario, "required") for scenario in AGREED)])
async def test_it_gets_its_token_in_each_way(scenario: str | None, dpop: Literal["off", "required"]) -> None:
    key = PrivateKey.generate("ES256")
    basic: JsonObject = {
        "client_id": "c1",
        "client_secret": "quite-a-secret",
        "token_endpoint_auth_method": "client_secret_basic",
    }
    keys: JsonObject = {"keys": [dict(key.jwk)]}
    by_key: JsonObject = {"client_id": "c2", "token_endpoint_auth_method": "private_key_jwt", "jwks": keys}
    async with open_testbed(Quirks(dpop=dpop), clients=[basic, by_key]) as world:
        world.register({"client_id": "i1"}, at_idp=True)
        context = {
            **AGREED[scenario],
            "private_key_pem": key.to_pem().decode() if scenario == "auth/client-credentials-jwt" else None,
            "valid_jwt": world.workload,
            "idp_id_token": world.id_token,
            "idp_issuer": world.idp.clients.issuer,
            "idp_token_endpoint": f"{world.idp.clients.issuer}/token",
        }
        given = {name: value for name, value in context.items() if value is not None}
        environment = {"MCP_CONFORMANCE_CONTEXT": json.dumps(given)}
        if scenario is not None:
            environment["MCP_CONFORMANCE_SCENARIO"] = scenario
        ended = await run(world.places.resource, **environment)
        assert (ended.returncode, ended.stderr.decode()) == (0, "")
        assert "tools/call 'read': answered" in ended.stdout.decode()
        assert world.violations == []
        assert not [secret for secret in world.secrets if secret in ended.stdout.decode()]


@pytest.mark.spec("auth.iss-advertised-present", "auth.iss-validate-before-token")
async def test_a_refusal_is_an_error_unless_the_scenario_wants_it() -> None:
    async with open_testbed(Quirks(authorization={"iss": "https://evil.example"})) as world:
        wanted = await run(world.places.resource, MCP_CONFORMANCE_SCENARIO="auth/iss-wrong-issuer")
        assert (wanted.returncode, wanted.stderr) == (0, b"")
        assert b"refused, as it should be: IssuerMismatch" in wanted.stdout
        unwanted = await run(world.places.resource)
        assert unwanted.returncode == 1
        assert unwanted.stderr.startswith(b"everything-client: IssuerMismatch: ")
        assert [request.url for request in world.requests if "/authorize?" in request.url]
        assert not [request.url for request in world.requests if request.url.endswith("/token")]


async def test_an_environment_that_makes_no_sense_ends_it_with_2() -> None:
    ended = await run("http://127.0.0.1:1/mcp", MCP_CONFORMANCE_PROTOCOL_VERSION="v999.0.0")
    assert ended.returncode == 2
    assert b"MCP_CONFORMANCE_PROTOCOL_VERSION is 'v999.0.0'; it has to be one of 2024-11-05," in ended.stderr


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MCP_CONFORMANCE_PROTOCOL_VERSION", "draft", "has to be one of"),
        ("MCP_CONFORMANCE_CONTEXT", "{", "no JSON"),
        ("MCP_CONFORMANCE_CONTEXT", "[]", "JSON object"),
    ],
)
def test_the_environment_is_checked(name: str, value: str, said: str) -> None:
    with pytest.raises(InvalidInstructions, match=said) as raised:
        read_instructions({name: value})
    assert name in str(raised.value)


def test_the_environment_says_what_is_to_be_done() -> None:
    commission = read_instructions(
        {
            "MCP_CONFORMANCE_SCENARIO": "http-custom-headers",
            "MCP_CONFORMANCE_PROTOCOL_VERSION": "2025-11-25",
            "MCP_CONFORMANCE_CONTEXT": '{"name": "http-custom-headers", "client_id": "c1", "port": 1}',
        }
    )
    assert (commission.scenario, commission.revisions) == ("http-custom-headers", LEGACY)
    assert (commission.text("client_id"), commission.optional("client_secret")) == ("c1", None)
    with pytest.raises(InvalidInstructions, match="'port'"):
        commission.optional("port")
    assert read_instructions({"MCP_CONFORMANCE_PROTOCOL_VERSION": "2025-03-26"}).revisions == (R2024_11_05, R2025_03_26)
    assert read_instructions({"MCP_CONFORMANCE_PROTOCOL_VERSION": "2026-07-28"}).revisions == MODERN
    assert read_instructions({}) == Instructions()


SCHEMAS: list[JsonObject] = [
    {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
    {"type": "object", "properties": {"a": {"type": "string", "minLength": 20}}, "required": ["a"]},
    {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a~1b"}},
        "required": ["a"],
        "$defs": {"a/b": {"const": 7}},
    },
    {
        "allOf": [{"type": "object"}, {"anyOf": [{"required": ["x"]}, {"required": ["y"]}]}],
        "properties": {"x": {"type": "null"}},
    },
    {"type": "array", "items": {"type": "string", "enum": ["b", "c"]}, "minItems": 3},
    {"type": "string", "oneOf": [{"const": "v1", "title": "One"}, {"const": "v2", "title": "Two"}]},
    {"type": ["boolean", "null"]},
    {"type": "integer", "minimum": 30},
    {"type": "string", "format": "email"},
    {"type": "string", "enum": ["p", "q"], "default": "q"},
    {},
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_it_makes_up_fits_the_schema(schema: JsonObject) -> None:
    jsonschema.Draft202012Validator(schema).validate(example(schema))


def test_a_schema_within_itself_ends_somewhere() -> None:
    schema: JsonObject = {"type": "object", "properties": {"child": {"$ref": "#"}}, "required": ["child"]}
    made: JsonValue = example(schema)
    for _ in range(10):
        made = made["child"] if isinstance(made, dict) else made
    assert made == "example"


def test_references_lead_nowhere_but_into_the_schema() -> None:
    assert example({"$ref": "http://127.0.0.1/schema.json"}) == "example"
    assert example({"$ref": "#/$defs/missing"}) == "example"


def test_a_tool_that_needs_nothing_gets_nothing() -> None:
    assert arguments_for({"type": "object", "properties": {"a": {"type": "string"}}}) is None
    assert arguments_for({"properties": {"a": {"type": "string"}}, "required": ["a"]}) == {"a": "example"}
