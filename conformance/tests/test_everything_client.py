"""Tests of the client `everything_client` as a process, and of its example arguments."""

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
from everything_server import open_everything_server
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

NEED_ELICITATION = (
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
    """Return the lines of errors: features that the revision lacks, and tools that fail on purpose."""
    expected = {"tools/call 'protocol_error_job': error -32603"}
    expected |= {f"resources/read 'skill://1': error {revision.resource_not_found}"}
    if revision not in between(since=R2025_06_18):
        expected |= {f"{what}: error -32600" for what in NEED_ELICITATION}
    if revision not in between(since=R2025_11_25):
        expected |= {f"{what}: error -32600" for what in NEED_TASKS}
        # Arguments that the schema forbids are a protocol error here, and a tool error in later revisions.
        expected |= {"tools/call 'json_schema_2020_12_tool': error -32602"}
    return expected


async def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run the client with only the given variables of the official framework in the environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MCP_CONFORMANCE_")}
    return await trio.run_process(
        [sys.executable, "-m", "everything_client", *arguments],
        env={**inherited, "PYTHONPATH": PROGRAM_PATH, **environment},
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )


@pytest.mark.parametrize("revision", [R2024_11_05, R2025_11_25, LATEST])
async def test_client_uses_all_features_of_server(revision: Revision) -> None:
    # Without a version in the environment, the client negotiates the latest.
    environment = {} if revision is LATEST else {"MCP_CONFORMANCE_PROTOCOL_VERSION": revision.name}
    async with open_everything_server() as port:
        process = await run(f"http://127.0.0.1:{port}/mcp", **environment)
    lines = process.stdout.decode().splitlines()
    assert (process.returncode, process.stderr.decode(), lines[-1]) == (0, "", "done")
    assert lines[0] == f"connected: {revision.name}"
    # Fixtures of the suite fail in many ways, as their names say.
    assert {line for line in lines if ": error " in line and "conformance" not in line} == errors_of(revision)
    for method in ("tools/call", "resources/read", "prompts/get"):
        assert any(line.startswith(method) and line.endswith(": answered") for line in lines), method
    assert any(line.startswith("completion/complete") for line in lines) == (revision in between(since=R2025_03_26))
    assert "tools/call 'test_error_handling': failed" in lines
    assert "tools/call 'test_sampling': answered" in lines
    assert "tools/call 'test_input_required_result_list_roots': answered" in lines
    assert "listening: tools True" in lines
    assert any(line.startswith("log info: ") for line in lines)
    assert any(line.startswith("skill ") for line in lines) == (revision is LATEST)


async def test_client_without_server_exits_with_1_and_reason() -> None:
    with trio.socket.socket() as closed:
        await closed.bind(("127.0.0.1", 0))
        process = await run(f"http://127.0.0.1:{closed.getsockname()[1]}/mcp")
    assert process.returncode == 1
    assert process.stderr.startswith(b"everything-client: HttpConnectionEnded: cannot connect to http://127.0.0.1:")
    assert process.stderr.count(b"\n") == 1
    assert b"done" not in process.stdout


async def test_client_exits_with_1_if_expected_rejection_is_missing() -> None:
    async with open_everything_server() as port:
        process = await run(f"http://127.0.0.1:{port}/mcp", MCP_CONFORMANCE_SCENARIO="sep-2640-client-verify-digest")
    assert process.returncode == 1
    assert b"NotRefused: sep-2640-client-verify-digest should have ended with SkillChanged" in process.stderr


CONTEXTS: Mapping[str | None, Mapping[str, str]] = {
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
"""The context of the official framework, by scenario; the test adds keys and URLs."""


@pytest.mark.spec(
    "client-credentials.grant-type",
    "dpop.client-fresh-proof",
    "dpop.client-scheme",
    "ema.access-token-grant",
    "ema.token-exchange",
)
@pytest.mark.parametrize(("scenario", "dpop"), [(None, "off"), *((scenario, "required") for scenario in CONTEXTS)])
async def test_client_gets_token_by_each_grant(scenario: str | None, dpop: Literal["off", "required"]) -> None:
    key = PrivateKey.generate("ES256")
    basic: JsonObject = {
        "client_id": "c1",
        "client_secret": "quite-a-secret",
        "token_endpoint_auth_method": "client_secret_basic",
    }
    keys: JsonObject = {"keys": [dict(key.jwk)]}
    by_key: JsonObject = {"client_id": "c2", "token_endpoint_auth_method": "private_key_jwt", "jwks": keys}
    async with open_testbed(Quirks(dpop=dpop), clients=[basic, by_key]) as testbed:
        testbed.register({"client_id": "i1"}, at_idp=True)
        context = {
            **CONTEXTS[scenario],
            "private_key_pem": key.to_pem().decode() if scenario == "auth/client-credentials-jwt" else None,
            "valid_jwt": testbed.workload,
            "idp_id_token": testbed.id_token,
            "idp_issuer": testbed.idp.clients.issuer,
            "idp_token_endpoint": f"{testbed.idp.clients.issuer}/token",
        }
        given = {name: value for name, value in context.items() if value is not None}
        environment = {"MCP_CONFORMANCE_CONTEXT": json.dumps(given)}
        if scenario is not None:
            environment["MCP_CONFORMANCE_SCENARIO"] = scenario
        process = await run(testbed.places.resource, **environment)
        assert (process.returncode, process.stderr.decode()) == (0, "")
        assert "tools/call 'read': answered" in process.stdout.decode()
        assert testbed.violations == []
        assert not [secret for secret in testbed.secrets if secret in process.stdout.decode()]


@pytest.mark.spec("auth.iss-advertised-present", "auth.iss-validate-before-token")
async def test_issuer_mismatch_fails_unless_scenario_expects_it() -> None:
    async with open_testbed(Quirks(authorization={"iss": "https://evil.example"})) as testbed:
        expected = await run(testbed.places.resource, MCP_CONFORMANCE_SCENARIO="auth/iss-wrong-issuer")
        assert (expected.returncode, expected.stderr) == (0, b"")
        assert b"refused, as it should be: IssuerMismatch" in expected.stdout
        unexpected = await run(testbed.places.resource)
        assert unexpected.returncode == 1
        assert unexpected.stderr.startswith(b"everything-client: IssuerMismatch: ")
        assert [request.url for request in testbed.requests if "/authorize?" in request.url]
        assert not [request.url for request in testbed.requests if request.url.endswith("/token")]


async def test_client_with_invalid_environment_exits_with_2() -> None:
    process = await run("http://127.0.0.1:1/mcp", MCP_CONFORMANCE_PROTOCOL_VERSION="v999.0.0")
    assert process.returncode == 2
    assert b"MCP_CONFORMANCE_PROTOCOL_VERSION is 'v999.0.0'; it has to be one of 2024-11-05," in process.stderr


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("MCP_CONFORMANCE_PROTOCOL_VERSION", "draft", "has to be one of"),
        ("MCP_CONFORMANCE_CONTEXT", "{", "is not JSON"),
        ("MCP_CONFORMANCE_CONTEXT", "[]", "JSON object"),
    ],
)
def test_commission_with_invalid_variable_raises(name: str, value: str, message: str) -> None:
    with pytest.raises(InvalidInstructions, match=message) as raised:
        read_instructions({name: value})
    assert name in str(raised.value)


def test_commission_is_read_from_environment() -> None:
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
def test_example_is_valid_for_schema(schema: JsonObject) -> None:
    jsonschema.Draft202012Validator(schema).validate(example(schema))


def test_example_of_recursive_schema_terminates() -> None:
    schema: JsonObject = {"type": "object", "properties": {"child": {"$ref": "#"}}, "required": ["child"]}
    value: JsonValue = example(schema)
    for _ in range(10):
        value = value["child"] if isinstance(value, dict) else value
    assert value == "example"


def test_unresolved_reference_gives_default_example() -> None:
    assert example({"$ref": "http://127.0.0.1/schema.json"}) == "example"
    assert example({"$ref": "#/$defs/missing"}) == "example"


def test_arguments_hold_only_required_properties() -> None:
    assert arguments_for({"type": "object", "properties": {"a": {"type": "string"}}}) is None
    assert arguments_for({"properties": {"a": {"type": "string"}}, "required": ["a"]}) == {"a": "example"}
