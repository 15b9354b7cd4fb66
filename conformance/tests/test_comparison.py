"""Tests of the command that compares two implementations, with real processes."""

from __future__ import annotations

import json
import os
import shlex
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from program_path import PROGRAM_PATH

from mcp_conformance.cli.main import main
from mcp_conformance.comparison.behavior import server_steps
from mcp_conformance.comparison.differences import CheckRecord, differences, differing
from mcp_conformance.model.check import Role
from mcp_conformance.model.verdict import Outcome, Run, Verdict
from mcp_conformance.runners.comparison import compare
from mcp_conformance.wire.transcript import Entry, Transcript
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from mcp_conformance.runners.check_run import Observe
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue
    from mcp_core.revisions import Revision

SERVER = shlex.join([sys.executable, "-m", "mutants.raw_server"])
OVER_HTTP = f"{SERVER} --port {{port}}"
CLIENT = shlex.join([sys.executable, "-m", "mutants.raw_client"])
EVERYTHING = f"{shlex.join([sys.executable, '-m', 'everything'])} --port {{port}}"
REVISION = "2025-11-25"
CHECK = "jsonrpc.unknown-method"


@pytest.fixture(autouse=True)
def _program_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([PROGRAM_PATH, os.environ.get("PYTHONPATH", "")]))


def run_compare(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["compare", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def run_servers(capsys: pytest.CaptureFixture[str], a: str, b: str, *arguments: str) -> tuple[int, str, str]:
    return run_compare(capsys, "--server", a, "--server", b, *arguments)


def test_fixture_server_compared_to_same_server_has_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    # The areas whose messages depend on time.
    areas = [word for area in ("cancellation", "progress", "subscription", "tasks") for word in ("--area", area)]
    chosen = (*areas, "--revision", REVISION, "--revision", "2026-07-28")
    status, out, _ = run_servers(capsys, EVERYTHING, EVERYTHING, *chosen)
    assert (status, out.splitlines()[-1].partition(" (")[0]) == (0, "no difference"), out


def test_fault_that_a_check_of_all_messages_decides_refers_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ("--revision", REVISION, "--check", "tools.failure", "--check", "jsonrpc.version-member")
    status, out, _ = run_servers(capsys, OVER_HTTP, f"{OVER_HTTP} --fault no-jsonrpc-in-legacy-calls", *chosen)
    assert status == 1
    assert "decided by MUST jsonrpc.messages-conform: " in out
    assert "no requirement of this check decides it; see jsonrpc.version-member" in out
    assert "not specified" not in out


@pytest.mark.parametrize("revision", [REVISION, "2026-07-28"])
def test_same_server_has_no_difference(revision: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run_servers(capsys, OVER_HTTP, OVER_HTTP, "--revision", revision, "--area", "tools")
    assert (status, out.splitlines()[-1].partition(" (")[0], err) == (0, "no difference", "")


@pytest.mark.parametrize(
    ("fault", "check", "requirement", "fact"),
    [
        ("unknown-method-code", CHECK, "jsonrpc.unknown-method-error", "error.code"),
        ("failure-is-success", "tools.failure", "tools.execution-error-in-result", "result.isError"),
    ],
)
def test_fault_is_found_with_the_requirement_that_decides_it(
    fault: str, check: str, requirement: str, fact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ("--revision", REVISION, "--check", check, "--check", CHECK)
    status, out, _ = run_servers(capsys, OVER_HTTP, f"{OVER_HTTP} --fault {fault}", *chosen)
    assert status == 1
    assert f"OUTCOME  {check}  ({REVISION} over http)" in out
    assert f" {requirement}: " in out.partition("decided by ")[2]
    assert f"https://modelcontextprotocol.io/specification/{REVISION}/" in out
    assert fact in out


def test_legal_difference_is_not_specified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "found.json"
    chosen = ("--revision", REVISION, "--area", "tools", "--json", str(path))
    status, out, _ = run_servers(capsys, OVER_HTTP, f"{OVER_HTTP} --fault titled-tools", *chosen)
    assert status == 1
    assert "tools/list  result.tools[].title  absent  a string" in out
    assert "\n  not specified\n" in out
    assert "decided by" not in out
    document = json.loads(path.read_text())
    assert document["differs"]
    assert {each["a"]["outcome"] for each in document["differences"]} == {"passed"}
    assert all(not each["decided_by"] and each["wire"] for each in document["differences"])


def test_revision_of_only_one_server_is_a_difference(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = (
        "--revision",
        REVISION,
        "--revision",
        "2026-07-28",
        "--check",
        "ping.empty-result",
        "--check",
        "discover.supported-versions",
    )
    status, out, _ = run_servers(capsys, OVER_HTTP, f"{OVER_HTTP} --modern-only", *chosen)
    assert status == 1
    assert f"{REVISION} over http is supported only by A: " in out


def test_faulty_client_is_found_with_its_requirement(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ("--revision", "2026-07-28", "--check", "header.client-method")
    fault = f"{CLIENT} --fault no-method-header --url {{url}}"
    status, out, _ = run_compare(capsys, "--client", f"{CLIENT} --url {{url}}", "--client", fault, *chosen)
    assert status == 1
    assert "OUTCOME  header.client-method" in out
    assert "decided by MUST " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--server", SERVER], "compare needs --server twice, or --client twice"),
        (["--server", SERVER, "--client", CLIENT], "compare needs --server twice, or --client twice"),
        (["--server", SERVER, "--server", OVER_HTTP], "one server uses stdio and the other HTTP"),
        (["--server", SERVER, "--server", SERVER, "--check", "jsonrpc.parse-eror"], "did you mean jsonrpc.parse-error"),
        (["--server", SERVER, "--server", SERVER, "--json", "nowhere/x.json"], "its folder must exist"),
        (["--server", SERVER, "--server", SERVER, "--fixtures", "nowhere.toml"], "nowhere.toml"),
        (["--server", SERVER, "--server", " "], "is empty"),
    ],
)
def test_invalid_command_line_returns_usage_error(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run_compare(capsys, *arguments)
    assert (status, out) == (2, "")
    assert message in err


def test_server_that_does_not_start_leaves_nothing_to_compare(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run_servers(capsys, SERVER, "false", "--revision", REVISION, "--check", CHECK)
    assert (status, out) == (3, "")
    assert "there is no check that both take part in" in err


def _entries(answer: JsonObject, *, id: int) -> list[Entry]:
    transcript = Transcript()
    transcript.message(json.dumps({"jsonrpc": "2.0", "id": id, "method": "tools/list"}).encode(), sent=True)
    transcript.message(json.dumps({"jsonrpc": "2.0", "id": id, **answer}).encode(), sent=False)
    return transcript.entries


def _record(answer: JsonObject, *, id: int = 1, outcome: Outcome = Outcome.PASSED) -> CheckRecord:
    verdict = Verdict(check=CHECK, revision=REVISION, transport="stdio", outcome=outcome)
    return CheckRecord(verdict=verdict, steps=server_steps([_entries(answer, id=id)]))


def _calls(tokens: Sequence[JsonValue], *, at_once: bool) -> CheckRecord:
    """Return the record of calls with progress tokens, each with a progress notification before its response."""
    transcript = Transcript()

    def exchange(message: JsonObject, *, sent: bool) -> None:
        transcript.message(json.dumps({"jsonrpc": "2.0", **message}).encode(), sent=sent)

    def respond(id: int, token: JsonValue) -> None:
        exchange({"id": id, "method": "notifications/progress", "params": {"progressToken": token}}, sent=False)
        exchange({"id": id, "result": {}}, sent=False)

    for id, token in enumerate(tokens):
        params: JsonObject = {"name": "slow", "_meta": {"progressToken": token}}
        exchange({"id": id, "method": "tools/call", "params": params}, sent=True)
        if not at_once:
            respond(id, token)
    for id, token in enumerate(tokens) if at_once else ():
        respond(id, token)
    verdict = Verdict(check=CHECK, revision=REVISION, transport="stdio", outcome=Outcome.PASSED)
    return CheckRecord(verdict=verdict, steps=server_steps([transcript.entries]))


@pytest.mark.parametrize("at_once", [True, False])
def test_order_of_requests_counts_unless_they_are_sent_at_once(at_once: bool) -> None:
    a, b = _calls(["one", 1, "two"], at_once=at_once), _calls([1, "two", "one"], at_once=at_once)
    assert bool(differing({_KEY: ([a], [b])})) is not at_once


_KEY = (CHECK, REVISION, "stdio")
_TOOL: JsonObject = {"name": "a", "inputSchema": {"type": "object"}}


@pytest.mark.parametrize(
    "answer",
    [
        {"result": {"tools": [_TOOL], "nextCursor": "other"}},
        {"result": {"nextCursor": "here", "tools": [{"inputSchema": {"type": "object", "a": 1}, "name": "b"}]}},
        {"result": {"tools": [_TOOL, {**_TOOL, "name": "b"}], "nextCursor": "here"}},
    ],
)
def test_values_that_a_server_chooses_are_no_difference(answer: JsonObject) -> None:
    a = _record({"result": {"tools": [_TOOL], "nextCursor": "here"}})
    assert differing({_KEY: ([a], [_record(answer, id=7)])}) == frozenset()


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        ({"result": {"tools": []}}, {"result.tools": ("an array", "an empty array")}),
        ({"result": {"tools": [_TOOL], "more": True}}, {"result.more": ("absent", "true")}),
        ({"error": {"code": -32600, "message": ""}}, {"error.code": ("absent", "-32600")}),
        ({"result": {"tools": [{**_TOOL, "name": 7}]}}, {"result.tools[].name": ("a string", "a number")}),
    ],
)
def test_difference_of_a_member_names_it_with_both_values(
    answer: JsonObject, facts: dict[str, tuple[str, str]]
) -> None:
    records = {_KEY: ([_record({"result": {"tools": [_TOOL]}})], [_record(answer)])}
    (found,) = differences(records, Role.SERVER)
    assert {each.fact: (each.a, each.b) for each in found.wire}.items() >= facts.items()
    assert found.decided_by == ()


def test_difference_that_a_repetition_does_not_show_is_none() -> None:
    one, other = _record({"result": {}}), _record({"error": {"code": 1, "message": ""}}, outcome=Outcome.FAILED)
    assert differing({_KEY: ([one], [other])}) == {_KEY}
    assert differing({_KEY: ([one, one], [other, one])}) == frozenset()


class Varying:
    """A conversation whose first run has another outcome in a check that judges the messages of all checks."""

    CHECK = "jsonrpc.version-member"

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.chosen: list[frozenset[str]] = []

    async def __call__(self, *, revisions: Sequence[Revision], chosen: Collection[str], observe: Observe) -> Run:
        self.chosen.append(frozenset(chosen))
        outcome = self.outcomes.pop(0)
        for check in chosen:
            result = outcome if check == self.CHECK else Outcome.PASSED
            observe(Verdict(check=check, revision=revisions[0].name, transport="stdio", outcome=result), [])
        return Run(role=Role.SERVER, target="", legs=(), verdicts=())


@pytest.mark.parametrize(("second", "differs"), [(Outcome.PASSED, False), (Outcome.FAILED, True)])
def test_difference_in_a_check_of_all_messages_counts_only_when_a_whole_run_repeats_it(
    second: Outcome, differs: bool
) -> None:
    passed = Outcome.PASSED
    a, b = Varying(*[passed] * 2), Varying(Outcome.FAILED, second)
    chosen = frozenset({CHECK, Varying.CHECK})
    found = trio.run(partial(compare, a, b, Role.SERVER, revisions=[REVISIONS[REVISION]], chosen=chosen))
    assert found.differs is differs
    assert a.chosen == b.chosen == [chosen] * 2
