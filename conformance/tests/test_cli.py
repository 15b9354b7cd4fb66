from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from program_path import PROGRAM_PATH

import mcp_conformance
from mcp_conformance.checks import SERVER_CHECKS
from mcp_conformance.cli.main import main

SERVER = shlex.join([sys.executable, "-m", "mutants.raw_server"])
BROKEN = f"{SERVER} --fault notification-answered"
_LONG = 60.0
_HUNG = """
import socket, sys
ours = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
with socket.create_server(("127.0.0.1", int(sys.argv[2]))) as listener:
    held = []
    while True:
        held.append(listener.accept()[0])
        if held[-1].recv(1):
            ours.sendall(b"a")
"""
"""A server that accepts requests, reports each to the test, and answers none."""
RECOMMENDATION = ("any-cursor", "pagination.invalid-cursor")
"""A fault, and the check of the level SHOULD that it fails."""
ONE = ("--revision", "2025-06-18", "--check", "jsonrpc.unknown-method")


@pytest.fixture(autouse=True)
def _program_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([PROGRAM_PATH, os.environ.get("PYTHONPATH", "")]))


def run_main(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_version_option_prints_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"mcp-conformance {mcp_conformance.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["server", "--help"], ["client", "--help"], ["compare", "--help"]])
def test_help_lists_exit_statuses(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for status in range(4):
        assert f"\n  {status}  " in text


def test_missing_arguments_return_usage_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, out, err = run_main(capsys)
    assert status == 2
    assert out == ""
    assert "usage:" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["server"], "there is nothing to test"),
        (["client"], "there is nothing to test"),
        (["server", "--command", "x", "--check", "jsonrpc.parse-eror"], "did you mean jsonrpc.parse-error"),
        (["server", "--command", "x", "--area", "jsonrcp"], "did you mean jsonrpc"),
        (["server", "--command", "x", "--area", "\N{SNOWMAN}"], "--area: there is no"),
        (["server", "--command", "x", "--profile", "none"], "there is no profile 'none'"),
        (["server", "--command", "x", "--baseline", "nowhere.toml"], "nowhere.toml"),
        (["server", "--command", "x", "--fixtures", "nowhere.toml"], "nowhere.toml"),
        (["server", "--command", "x", "--html", "nowhere/x.html"], "its folder must exist"),
        (["server", "--command", "x", "--timeout", "0"], "--timeout"),
        (["server", "--command", "x 'y"], "No closing quotation"),
        (["client", "--command", " "], "is empty"),
        (["server", "--url", "http://localhost", "--header", "x"], '--header is not "NAME: VALUE"'),
        (["server", "--url", "http://localhost", "--other-header", ":"], '--other-header is not "NAME: VALUE"'),
        (["server", "--command", "x", "--revision", "2024-11-05", "--check", "discover.result"], "select no check"),
        (["explain", "jsonrpc.parse-eror"], "did you mean jsonrpc.parse-error"),
    ],
)
def test_invalid_option_returns_usage_error_with_suggestion(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run_main(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert message in err


def test_baseline_with_unknown_check_returns_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "known.toml"
    path.write_text("[[known]]\ncheck = 'jsonrpc.parse-eror'\nreason = 'x'\n")
    status, _, err = run_main(capsys, "server", "--command", SERVER, "--baseline", str(path))
    assert status == 2
    assert "did you mean jsonrpc.parse-error" in err


def test_conforming_server_passes(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run_main(capsys, "server", "--command", SERVER, *ONE)
    assert status == 0
    assert out.splitlines()[-1] == f"server {SERVER}: passed"
    assert err == ""


def test_requested_check_that_does_not_apply_is_no_pass(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run_main(
        capsys, "server", "--command", SERVER, "--revision", "2025-06-18", "--check", "schema.cancelled"
    )
    assert (status, out.splitlines()[-1]) == (3, f"server {SERVER}: not applicable: schema.cancelled")


def test_http_server_is_started_and_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run_main(capsys, "server", "--start", f"{SERVER} --port {{port}}", *ONE)
    assert status == 0
    assert "2025-06-18  http" in out


def test_failure_prints_command_that_repeats_it(capsys: pytest.CaptureFixture[str]) -> None:
    fault = ("--revision", "2025-06-18", "--check", "jsonrpc.notification-not-answered")
    status, out, err = run_main(capsys, "server", "--command", BROKEN, *fault)
    assert status == 1
    assert "FAILED  jsonrpc.notification-not-answered" in out
    assert err.startswith("failed")
    (line,) = (each for each in out.splitlines() if each.startswith("  rerun: mcp-conformance "))
    status, again, _ = run_main(capsys, *shlex.split(line)[2:])
    assert status == 1
    assert again == out


@pytest.mark.parametrize(
    ("arguments", "workflow", "source"),
    [
        (["--command", "sh my/server.sh"], "", "my/server.sh"),
        (["--command", BROKEN, "--baseline", "known.toml"], "o/r/.github/workflows/ci.yml@main", "known.toml"),
        (["--command", BROKEN], "o/r/.github/workflows/ci.yml@refs/heads/main", ".github/workflows/ci.yml"),
        (["--command", BROKEN], "", None),
        (["--command", "sh .venv/bin/server.sh"], "", None),
    ],
)
def test_findings_refer_to_file_of_user(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    workflow: str,
    source: str | None,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_WORKFLOW_REF", workflow)
    for name in ("my/server.sh", ".venv/bin/server.sh", "known.toml", ".github/workflows/ci.yml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"exec {BROKEN}\n" if path.suffix == ".sh" else "")
    fault = ("--check", "jsonrpc.notification-not-answered", "--revision", "2025-11-25")
    assert run_main(capsys, "server", *arguments, *fault, "--sarif", "a.sarif")[0] == 1
    (log,) = json.loads((tmp_path / "a.sarif").read_text())["runs"]
    (location,) = log["results"][0]["locations"]
    file = location.get("physicalLocation")
    assert (file and file["artifactLocation"]["uri"]) == source


def test_reports_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"json": "a.json", "junit": "a.xml", "markdown": "a.md", "sarif": "a.sarif", "html": "a.html"}
    arguments = [word for option, name in names.items() for word in (f"--{option}", str(tmp_path / name))]
    picture, data = tmp_path / "badge.svg", tmp_path / "badge.json"
    assert run_main(capsys, "server", "--command", SERVER, *ONE, *arguments, "--badge", str(picture))[0] == 0
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["status"] == 0
    assert document["invocation"] == f"mcp-conformance server --command {shlex.quote(SERVER)}"
    assert fromstring((tmp_path / "a.xml").read_bytes()).get("tests") == "1"
    assert "passed" in (tmp_path / "a.md").read_text()
    assert json.loads((tmp_path / "a.sarif").read_text())["version"] == "2.1.0"
    assert (tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert picture.read_text().startswith("<svg")
    assert run_main(capsys, "server", "--command", SERVER, *ONE, "--badge", str(data))[0] == 0
    assert json.loads(data.read_text())["schemaVersion"] == 1


def test_baseline_is_written_applied_and_goes_stale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "known.toml")
    fault = ("--revision", "2025-06-18", "--check", "jsonrpc.notification-not-answered")
    assert run_main(capsys, "server", "--command", BROKEN, *fault, "--write-baseline", path)[0] == 0
    status, out, _ = run_main(capsys, "server", "--command", BROKEN, *fault, "--baseline", path)
    assert status == 0
    assert "known          jsonrpc.notification-not-answered" in out
    status, out, _ = run_main(capsys, "server", "--command", SERVER, *fault, "--baseline", path)
    assert status == 1
    assert "remove the entry" in out
    # The baseline is written again without entries that pass by now.
    assert run_main(capsys, "server", "--command", SERVER, *fault, "--write-baseline", path)[0] == 0
    assert "[[known]]" not in Path(path).read_text()


def test_untestable_check_fails_unless_allowed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "fixtures.toml"
    manifest.write_text('[tools.test_simple_text]\nname = "nowhere"\n')
    arguments = ("server", "--command", SERVER, "--fixtures", str(manifest), *ONE[:2], "--check", "tools.text")
    status, out, _ = run_main(capsys, *arguments)
    assert status == 1
    assert "not testable   " in out
    status, out, _ = run_main(capsys, *arguments, "--allow-untested")
    assert status == 0
    assert out.rstrip().endswith("passed, 1 not testable")


def test_command_not_found_returns_3(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run_main(capsys, "server", "--command", "nothing-of-this-name", *ONE)
    assert status == 3
    assert "nothing-of-this-name" in err
    status, _, err = run_main(capsys, "client", "--command", "nothing-of-this-name", "--revision", "2025-06-18")
    assert status == 3
    assert "nothing-of-this-name" in err


def test_stderr_of_failed_server_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    program = shlex.join([sys.executable, "-c", "raise SystemExit('the database is missing')"])
    status, out, _ = run_main(capsys, "server", "--command", program, *ONE)
    assert status == 3
    assert "the database is missing" in out


def test_secret_headers_are_redacted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    headers = ("--header", "X-Api-Key: hush", "--other-header", "X-Api-Key: hush")
    arguments = ("--url", "http://127.0.0.1:9/mcp", *headers, "--json", str(path))
    status, out, _ = run_main(capsys, "server", *arguments, *ONE)
    assert status == 3
    assert "hush" not in out + path.read_text()
    assert json.loads(path.read_text())["invocation"].count("X-Api-Key: <secret>") == 2


def test_list_filters_by_level_and_area(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run_main(capsys, "server", "--list", "--area", "jsonrpc", "--level", "must")
    assert status == 0
    assert {line.split()[0] for line in out.splitlines()} == {"MUST"}
    assert any("jsonrpc.parse-error" in line for line in out.splitlines())
    assert run_main(capsys, "client", "--list")[1].splitlines()


def test_explain_prints_requirement_of_check(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run_main(capsys, "explain", "jsonrpc.parse-error")
    assert status == 0
    for part in ("-32700", "MUST jsonrpc.parse-error", "2024-11-05", "stdio", "--check jsonrpc.parse-error"):
        assert part in out
    needy = next(check for check in SERVER_CHECKS if check.needs)
    assert needy.needs[0] in run_main(capsys, "explain", needy.id)[1]


def test_coverage_every_prints_rows(capsys: pytest.CaptureFixture[str]) -> None:
    _, short, _ = run_main(capsys, "coverage")
    _, long, _ = run_main(capsys, "coverage", "--every")
    assert "2026-07-28" in short
    assert len(long) > len(short)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends a process without a signal")
@pytest.mark.parametrize(
    ("signal_number", "sigint_handler"),
    [
        (signal.SIGINT, signal.SIG_DFL),
        (signal.SIGTERM, signal.SIG_DFL),
        # As for a job in the background of a shell.
        (signal.SIGTERM, signal.SIG_IGN),
    ],
)
def test_signal_stops_suite_and_started_server(signal_number: signal.Signals, sigint_handler: signal.Handlers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_LONG)
        hung = shlex.join(
            [sys.executable, "-c", _HUNG, str(listener.getsockname()[1]), "{port}"]  # it ends with its connection
        )
        arguments = [
            str(Path(sys.executable).with_name("mcp-conformance")),
            "server",
            "--start",
            hung,
            "--timeout",
            "600",
        ]
        with subprocess.Popen(
            arguments,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=partial(signal.signal, signal.SIGINT, sigint_handler),
        ) as suite:
            server, _ = listener.accept()
            try:
                server.settimeout(_LONG)
                assert server.recv(1) == b"a"
                suite.send_signal(signal_number)
                while server.recv(100):
                    pass
                _, stderr = suite.communicate(timeout=_LONG)
            finally:
                server.close()
                suite.kill()
    assert suite.returncode == 128 + signal_number
    assert stderr.endswith(f"mcp-conformance: stopped by {signal_number.name}\n")
    assert "Traceback" not in stderr


@pytest.mark.parametrize("words", [["--help"], ["coverage"], ["explain", "tools.text"]], ids=" ".join)
def test_closed_pipe_exits_141_without_traceback(words: list[str]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from mcp_conformance.cli.main import main; sys.exit(main())", *words],
        stdin=subprocess.DEVNULL,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
        # Without a buffer, argparse itself ignores that its help cannot be written.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["explian"], "argument COMMAND: unknown value 'explian'; did you mean explain?"),
        (["server", "--commnd", "x"], "mcp-conformance server: error: unknown option --commnd; did you mean --command"),
        (["coverage", "all"], "mcp-conformance coverage: error: unexpected word 'all'"),
    ],
)
def test_unknown_word_explained_with_nearest_name(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert complaint in capsys.readouterr().err


def test_failed_recommendation_fails_run_only_with_strict(capsys: pytest.CaptureFixture[str]) -> None:
    target = ("server", "--command", f"{SERVER} --fault {RECOMMENDATION[0]}")
    arguments = (*target, "--revision", "2025-11-25", "--check", RECOMMENDATION[1])
    status, out, err = run_main(capsys, *arguments)
    assert (status, out.splitlines()[-1].rpartition(": ")[2]) == (0, "passed, 1 warning")
    assert f"WARNING  {RECOMMENDATION[1]}" in out
    assert err.startswith("warning")
    status, out, _ = run_main(capsys, *arguments, "--strict")
    assert (status, out.splitlines()[-1].rpartition(": ")[2]) == (1, "1 failed")
