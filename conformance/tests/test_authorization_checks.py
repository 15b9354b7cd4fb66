"""Tests of the authorization checks: this project's sides and raw peers pass, and faulty peers fail."""

from __future__ import annotations

import base64
import json
import os
import shlex
import sys

import attrs
import pytest
import trio
from joserfc import jws
from joserfc.jwk import RSAKey
from program_path import PROGRAM_PATH

from authorization import make_authorization_server
from mcp_conformance.checks import CLIENT_CHECKS, SERVER_CHECKS
from mcp_conformance.cli.main import main
from mcp_conformance.drivers.server.protected_target import started_protected
from mcp_conformance.drivers.server.targets import free_port
from mcp_conformance.drivers.settings import Settings
from mcp_conformance.model.fixtures_manifest import Manifest
from mcp_conformance.model.verdict import Outcome, Run
from mcp_conformance.oauth_testbed.client_jwts import read_jwt
from mcp_conformance.oauth_testbed.token_issuer import open_issuer
from mcp_conformance.runners.authorization_server import run_authorization_server
from mcp_conformance.runners.client import ClientCommand, run_client
from mcp_conformance.runners.server import run_server
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import LATEST, REVISIONS
from mutants.auth.authorization_server import (
    ISSUER_FAULTS,
    ISSUER_VARIANTS,
    IssuerFault,
    open_raw_issuer,
    try_issuer,
)
from mutants.auth.client_faults import CLIENT_FAULTS_AUTH, try_login_fault
from mutants.auth.protected_server_faults import PROTECTED_FAULTS, ProtectedFault, try_protected
from mutants.client.login import DOCUMENT_URL
from mutants.client_faults.table import ClientFault
from mutants.runs.fork_server import peer_command

SETTINGS = Settings(timeout=10.0)
NOT_PASSED = {Outcome.FAILED, Outcome.BROKEN}
PROTECTED = f"{sys.executable} -m protected --port {{port}} --issuer {{issuer}} --resource {{resource}}"
AT = "http://localhost:{port}/mcp"


@pytest.fixture(autouse=True)
def _find_fixtures(monkeypatch: pytest.MonkeyPatch, forked_peers: None) -> None:
    monkeypatch.setenv("PYTHONPATH", PROGRAM_PATH)
    for name in [each for each in os.environ if each.startswith("MCP_CONFORMANCE_")]:
        monkeypatch.delenv(name)


def failures(run: Run) -> list[str]:
    """Return what did not pass."""
    return [
        *(f"{leg.revision}: {leg.refusal}" for leg in run.legs if leg.refusal is not None),
        *(
            f"{each.check} {each.outcome.value}: {each.reason}{each.expected}; {each.observed}"
            for each in run.verdicts
            if each.outcome is not Outcome.PASSED
        ),
    ]


def outcomes_of(run: Run) -> dict[str, Outcome]:
    """Return the outcome of each check."""
    return {verdict.check: verdict.outcome for verdict in run.verdicts}


ISSUER_FAULT_OF_CHECK = {each.caught_by[0]: each for each in ISSUER_FAULTS}
"""A fault of an authorization server for each check; `scripts/mutants` tries the others."""

CHOSEN = (
    "auth.client-flow",
    "auth.client-metadata-both-ways",
    "auth.client-iss-exact",
    "auth.client-change-reregisters",
    "auth.client-expired-token",
    "dpop.client-nonce",
    "ema.client-declared",
    "wif.client-refused-once",
    "client-credentials.client-assertion-claims",
    "client-credentials.client-scope",
    "ema.client-no-person",
)


@pytest.mark.parametrize("words", ["everything_client.__main__ {url}", "mutants.raw_client_auth --url {url}"])
async def test_own_and_raw_client_pass(words: str) -> None:
    module, *arguments = words.split()
    command = ClientCommand(http=f"{shlex.join(peer_command(module))} {' '.join(arguments)}")
    run = await run_client(command, SETTINGS, revisions=[LATEST], chosen=CHOSEN)
    assert failures(run) == []
    assert len(run.verdicts) == len(CHOSEN)


async def test_client_that_revokes_its_token_passes() -> None:
    chosen = ("auth.client-no-cross-credentials", "auth.client-refresh-confidential", "auth.client-oauth21")
    command = ClientCommand(http=f"{sys.executable} -m mutants.raw_client_auth --fault revokes --url {{url}}")
    run = await run_client(command, SETTINGS, revisions=[LATEST], chosen=chosen, within=["auth/metadata-default"])
    assert failures(run) == []
    assert len(run.verdicts) == len(chosen)


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
async def test_own_client_passes_in_legacy_revisions(revision: str) -> None:
    ids = {"auth.client-flow", "auth.client-default-endpoints", "auth.client-challenge-parsed"}
    command = ClientCommand(http=f"{sys.executable} -m everything_client")
    run = await run_client(command, SETTINGS, revisions=[REVISIONS[revision]], chosen=ids)
    assert failures(run) == []
    assert len(run.verdicts) == 2


DOCUMENT_CHECKS = ("auth.client-document-members", "auth.client-document-id")


@pytest.mark.parametrize(
    ("document", "outcome"),
    [
        (json.dumps({"client_id": DOCUMENT_URL, "client_name": "it", "redirect_uris": ["http://a"]}), Outcome.PASSED),
        ("[]", Outcome.FAILED),
        (None, Outcome.NOT_APPLICABLE),
    ],
)
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_document_of_client_is_judged_if_known(document: str | None, outcome: Outcome, revision: str) -> None:
    command = ClientCommand(http=f"{sys.executable} -m everything_client {{url}}")
    settings = attrs.evolve(SETTINGS, client_document=None if document is None else document.encode())
    run = await run_client(command, settings, revisions=[REVISIONS[revision]], chosen=DOCUMENT_CHECKS)
    assert outcomes_of(run) == dict.fromkeys(DOCUMENT_CHECKS, outcome)


def test_missing_client_document_returns_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["client", "--command", "client", "--client-document", "none.json"]) == 2
    assert "--client-document cannot be read" in capsys.readouterr().err


async def test_client_without_authorization_is_not_applicable() -> None:
    command = ClientCommand(http=f"{sys.executable} -m mutants.raw_client --url {{url}}")
    run = await run_client(command, SETTINGS, revisions=[LATEST], chosen=["auth.client-flow", "dpop.client-scheme"])
    assert {each.outcome for each in run.verdicts} == {Outcome.NOT_APPLICABLE}


# `nox -s mutants` runs all of them.
CLIENT_FAULT_NAMES = ("root-first", "revokes-in-query", "same-jti", "employee-undeclared")


@pytest.mark.parametrize(
    "fault", [each for each in CLIENT_FAULTS_AUTH if each.name in CLIENT_FAULT_NAMES], ids=lambda each: each.name
)
async def test_client_fault_fails_its_checks(fault: ClientFault) -> None:
    assert (await try_login_fault(fault)).missed == ()


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
async def test_protected_server_passes(revision: str) -> None:
    ids = {each.id for each in SERVER_CHECKS if each.area in ("auth", "dpop") and not each.needs}
    async with started_protected(PROTECTED, AT, SETTINGS) as (target, settings):
        run = await run_server(target, settings, Manifest(), revisions=[REVISIONS[revision]], chosen=ids)
    # This server tolerates clocks that differ by some seconds, and requires no nonces.
    optional = ("auth.server-token-expires", "dpop.server-proof-nonce")
    verdicts = tuple(each for each in run.verdicts if each.check not in optional)
    assert failures(attrs.evolve(run, verdicts=verdicts)) == []
    assert len(verdicts) > 10


async def test_protected_server_is_tested_over_http_sse_too() -> None:
    sse_url = "http://localhost:{port}/sse"
    async with started_protected(PROTECTED, AT, SETTINGS, sse_url=sse_url) as (target, settings):
        run = await run_server(
            target, settings, Manifest(), revisions=[REVISIONS["2024-11-05"]], chosen={"ping.empty-result"}
        )
    assert failures(run) == []
    assert [leg.transport for leg in run.legs] == ["http", "http-sse"]


# `nox -s mutants` runs all of them.
SERVER_FAULT_NAMES = ("takes-any-audience", "proof-any-key", "scopes-shared")


@pytest.mark.parametrize(
    "fault", [each for each in PROTECTED_FAULTS if each.name in SERVER_FAULT_NAMES], ids=lambda each: each.name
)
async def test_protected_server_fault_fails_only_its_checks(fault: ProtectedFault) -> None:
    outcomes = outcomes_of(await try_protected(fault.name, fault.revision))
    assert {check for check, outcome in outcomes.items() if outcome in NOT_PASSED} == set(fault.caught_by)


async def test_protected_server_without_fault_passes() -> None:
    outcomes = outcomes_of(await try_protected(None, LATEST.name))
    assert set(outcomes.values()) <= {Outcome.PASSED, Outcome.NOT_APPLICABLE}


async def test_protected_server_that_requires_nonces_passes_all_checks_of_proofs() -> None:
    ids = {each.id for each in SERVER_CHECKS if each.id.startswith("dpop.server-")}
    outcomes = outcomes_of(await try_protected("nonce-required", LATEST.name, ids))
    assert outcomes == dict.fromkeys(ids, Outcome.PASSED)


async def test_protected_server_with_metadata_at_url_with_query_passes() -> None:
    run = await try_protected("metadata-with-query", LATEST.name, ["auth.server-metadata"])
    assert outcomes_of(run) == {"auth.server-metadata": Outcome.PASSED}


async def test_own_authorization_server_passes() -> None:
    bind = f"127.0.0.1:{free_port()}"
    server = make_authorization_server(f"http://{bind}")
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, bind)
        run = await run_authorization_server(
            f"http://{bind}",
            SETTINGS,
            revisions=tuple(REVISIONS.values()),
            chosen={each.id for each in SERVER_CHECKS},
            show=lambda _: None,
        )
        nursery.cancel_scope.cancel()
    assert {each.outcome for each in run.verdicts} == {Outcome.PASSED, Outcome.NOT_APPLICABLE}


@pytest.mark.parametrize("revision", REVISIONS)
async def test_authorization_server_without_fault_passes(revision: str) -> None:
    outcomes = outcomes_of(await try_issuer(None, revision))
    assert set(outcomes.values()) <= {Outcome.PASSED, Outcome.NOT_APPLICABLE}
    trusting = {id: outcome for id, outcome in outcomes.items() if id.startswith(("wif.", "ema.", "auth.as-document-"))}
    assert set(trusting.values()) <= {Outcome.PASSED}
    assert len(trusting) == {"2025-06-18": 1, "2025-11-25": 7, "2026-07-28": 18}.get(revision, 0)


@pytest.mark.parametrize("fault", ISSUER_FAULT_OF_CHECK.values(), ids=lambda each: f"{each.name}-{each.revision}")
async def test_authorization_server_fault_fails_only_its_checks(fault: IssuerFault) -> None:
    outcomes = outcomes_of(await try_issuer(fault.name, fault.revision))
    assert {check for check, outcome in outcomes.items() if outcome in NOT_PASSED} == set(fault.caught_by)


@pytest.mark.parametrize("variant", ISSUER_VARIANTS, ids=lambda each: f"{each.name}-{each.revision}")
async def test_unusual_authorization_server_passes(variant: IssuerFault) -> None:
    outcomes = outcomes_of(await try_issuer(variant.name, variant.revision))
    assert set(outcomes.values()) <= {Outcome.PASSED, Outcome.NOT_APPLICABLE}


async def redirect_outcome(variant: str) -> Outcome:
    """Return the outcome of the check of redirect URIs in a run without a browser."""
    async with open_raw_issuer(variant) as issuer:
        run = await run_authorization_server(
            issuer, SETTINGS, revisions=[LATEST], chosen={"auth.as-redirect-exact"}, show=lambda _: None
        )
    return outcomes_of(run)["auth.as-redirect-exact"]


@pytest.mark.parametrize(
    ("variant", "outcome"),
    [
        ("error-page", Outcome.PASSED),
        ("error-redirect", Outcome.PASSED),
        ("authorizes-by-post", Outcome.PASSED),
        ("redirects-decoded", Outcome.FAILED),
        ("redirects-to-last", Outcome.FAILED),
        ("redirects-by-post", Outcome.FAILED),
        ("redirects-to-any-port", Outcome.FAILED),
        # Whether the user who logs in is redirected is unknown.
        ("login-page-first", Outcome.NOT_TESTABLE),
        ("redirects-after-a-page", Outcome.NOT_TESTABLE),
    ],
)
async def test_redirects_without_browser_are_judged_if_known(variant: str, outcome: Outcome) -> None:
    assert await redirect_outcome(variant) is outcome


async def test_issuers_of_suite_have_distinct_keys() -> None:
    async with open_issuer() as one, open_issuer() as other:
        assert one.url != other.url
        assert one.keys != other.keys
        assert read_jwt(one.token(), _key(one.keys)) is not None
        assert read_jwt(one.token(foreign_key=True), _key(one.keys)) is None
        assert read_jwt(other.token(), _key(one.keys)) is None


def _key(keys: JsonObject) -> JsonObject:
    listed = keys["keys"]
    assert isinstance(listed, list)
    assert isinstance(listed[0], dict)
    return listed[0]


def test_proof_with_large_key_is_read() -> None:
    key = RSAKey.generate_key(4096)
    header = {"typ": "dpop+jwt", "alg": "RS256", "jwk": dict(key.as_dict(private=False))}
    proof = read_jwt(jws.serialize_compact(header, "{}", key))
    assert proof is not None
    assert base64.urlsafe_b64decode(proof.thumbprint + "=")


def test_auth_option_without_start_returns_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["server", "--auth", "--url", "http://localhost:1/mcp"]) == 2
    assert "--auth needs --start" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "needs --issuer"),
        (("--issuer", "as.example"), "is not a URL"),
        (("--issuer", "https://as.example", "--https-cert", "cert.pem"), "--https-port belong together"),
        (("--issuer", "https://as.example", "--workload", "job"), "need --https-cert"),
        (("--issuer", "https://as.example", "--resource", "https://mcp.example"), "needs --browser or --https-cert"),
        (
            (
                "--issuer",
                "http://localhost:1",
                "--https-cert",
                "none.pem",
                "--https-key",
                "none.pem",
                "--https-port",
                "0",
            ),
            "No such file",
        ),
    ],
)
def test_authorization_server_without_issuer_returns_usage_error(
    words: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["authorization-server", *words]) == 2
    assert why in capsys.readouterr().err


def test_authorization_server_checks_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["authorization-server", "--list"]) == 0
    listed = capsys.readouterr().out
    assert "auth.as-metadata" in listed
    assert "auth.server-token-missing" not in listed


def test_authorization_faults_name_existing_checks() -> None:
    ids = {check.id for check in (*CLIENT_CHECKS, *SERVER_CHECKS)}
    for fault in (*CLIENT_FAULTS_AUTH, *PROTECTED_FAULTS, *ISSUER_FAULTS, *ISSUER_VARIANTS):
        assert set(fault.caught_by) <= ids, fault.name
