from __future__ import annotations

import json
import math
from collections.abc import Sequence

import attrs
import pytest
import trio
from trio.testing import memory_stream_pair

from bench import attack_server as attacks
from bench import soak
from bench.attacks.attacks import ATTACKS
from bench.attacks.connections import Broken, RawConnection
from bench.attacks.measure import Calls, Latency, Usage, status_mib
from bench.attacks.messages import (
    LARGE,
    LEGACY,
    MIB,
    MODERN,
    batch,
    bracket_bomb,
    call,
    empty_objects,
    initialize,
    listen,
    long_head,
    numbered_members,
    post,
    uris,
)
from bench.attacks.progress import Progress
from bench.attacks.trial import Setting, chosen, server_arguments
from bench.attacks.verdicts import AttackResult, Goals, SoakResult, growth, may_be_scattered, problems

LATENCY = Latency(calls=100, median=0.01, worst=0.5, slowest="legacy", failed=0, failure="")
IDLE = Usage(40.0, 13)
HARMLESS = AttackResult(
    attack="initialize",
    idle=IDLE,
    peak_mib=100.0,
    peak_descriptors=200,
    after=Usage(90.0, 14),
    kept=Usage(45.0, 14),
    attack_seconds=10.0,
    settle_seconds=5.0,
    cpu_seconds=3.0,
    latency_idle=LATENCY,
    latency=LATENCY,
    lag=0.0,
    sessions_lost=0,
    statuses={"200": 3, "429": 5},
    figures={"lived (s)": 3.0},
)
CALM = SoakResult(first=IDLE, last=Usage(50.0, 15), first_latency=LATENCY, last_latency=LATENCY, failed=0)


# --- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        initialize({"experimental": {"x": empty_objects(13, 99_000)}}),
        initialize(padding="t" * LARGE),
        listen(1_000, 3_900),
        listen(1_000, 64),
        call("wait", {"text": "x" * LARGE}, MODERN),
        call("echo", numbered_members(99_000), LEGACY),
        batch(1_000),
        bracket_bomb(100_000),
    ],
    ids=lambda body: f"{body[:60]!r}",
)
def test_body_within_message_limit(body: bytes) -> None:
    assert len(body) < 4 * MIB
    assert b" " not in body.replace(b"application/json", b"")


def test_request_has_metadata_of_revision() -> None:
    assert "_meta" not in json.loads(call("echo", {}, LEGACY))["params"]
    assert json.loads(call("echo", {}, MODERN, 7, task={}))["params"].keys() == {"name", "arguments", "task", "_meta"}


def test_uris_different_and_of_given_size() -> None:
    assert len(set(uris(1_000, 64))) == 1_000
    assert {len(uri) for uri in uris(10, 64)} == {64}


def test_bracket_bomb_has_given_depth() -> None:
    assert json.loads(bracket_bomb(2))["params"]["arguments"] == {"text": [[]]}


def test_batch_ids_different() -> None:
    assert [message["id"] for message in json.loads(batch(3))] == [0, 1, 2]


def test_post_has_head_and_body() -> None:
    assert post("/mcp", "127.0.0.1:1", b"{}", {"accept": "a/b"}) == (
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:1\r\naccept: a/b\r\ncontent-length: 2\r\n\r\n{}"
    )


def test_long_head_unfinished() -> None:
    head = long_head("127.0.0.1:1", 30_000)
    assert len(head) == 30_000
    assert b"\r\n\r\n" not in head


# --- raw connections ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ],
)
async def test_raw_connection_reads_successive_responses(sent: bytes) -> None:
    client_stream, server_stream = memory_stream_pair()
    connection = RawConnection(client_stream)
    await server_stream.send_all(sent)
    first = await connection.response()
    await server_stream.send_all(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n")
    second = await connection.response()
    assert (first.status, second.status) == (200, 429)
    assert b"{}" in first.body
    assert not connection.received


async def test_raw_connection_closed_by_server_raises() -> None:
    client_stream, server_stream = memory_stream_pair()
    connection = RawConnection(client_stream)
    await server_stream.aclose()
    with pytest.raises(Broken):
        await connection.response()
    with pytest.raises(Broken):
        await connection.send(b"x")


# --- measurements -------------------------------------------------------------------------------------------------------


def read_calls(*records: dict[str, object]) -> Calls:
    calls = Calls()
    for each in records:
        calls.read(json.dumps(each))
    return calls


def test_calls_counted_in_period_of_execution() -> None:
    calls = read_calls(
        {"kind": "legacy", "number": 0, "began": 1.0},
        {"kind": "legacy", "number": 0, "ended": 1.5, "error": None},
        {"kind": "modern", "number": 1, "began": 2.0},
        {"kind": "modern", "number": 1, "ended": 5.0, "error": None},
        {"kind": "modern", "number": 2, "began": 9.0},
        {"kind": "modern", "number": 2, "ended": 9.1, "error": None},
    )
    latency = calls.between(3.0, 4.0)
    assert (latency.calls, latency.worst, latency.slowest) == (1, 3.0, "modern")
    assert calls.between(0.0, 10.0).calls == 3
    assert math.isnan(calls.between(6.0, 7.0).worst)


def test_call_without_response_counts_with_elapsed_time() -> None:
    calls = read_calls({"kind": "legacy", "number": 0, "began": -50.0})
    assert calls.between(-1.0, 0.0).worst > 50.0
    assert not calls.answered(["legacy"])


def test_failed_call_reported_with_error() -> None:
    calls = read_calls(
        {"kind": "legacy", "number": 0, "began": 1.0}, {"kind": "legacy", "number": 0, "ended": 2.0, "error": "full"}
    )
    latency = calls.between(0.0, 3.0)
    assert (latency.failed, latency.failure) == (1, "legacy: full")
    assert not calls.answered(["legacy"])


def test_call_rejected_for_memory_counted_separately() -> None:
    calls = read_calls(
        {"kind": "legacy", "number": 0, "ended": 2.0, "error": "RequestFailed: the setting is Limits.total_bytes"},
        {"kind": "legacy", "number": 1, "ended": 2.0, "error": "ConnectionEnded: gone"},
    )
    latency = calls.between(1.0, 3.0)
    assert (latency.failed, latency.refused) == (2, 1)


def test_client_not_connected_counts_as_failed_call() -> None:
    calls = read_calls({"kind": "legacy", "number": 0, "ended": 2.0, "error": "not connected"})
    assert calls.between(1.0, 3.0).failed == 1


def test_lag_is_maximum_of_period() -> None:
    calls = read_calls(
        {"kind": "lag", "number": 0, "began": 1.0, "ended": 1.5},
        {"kind": "lag", "number": 1, "began": 2.0, "ended": 2.25},
        {"kind": "session lost", "number": 2, "ended": 2.0},
    )
    assert calls.lag_between(1.75, 3.0) == 0.25
    assert calls.lag_between(4.0, 5.0) == 0.0
    assert calls.sessions_lost == 1


def test_forget_before_keeps_running_calls() -> None:
    calls = read_calls(
        {"kind": "legacy", "number": 0, "began": 1.0},
        {"kind": "legacy", "number": 0, "ended": 2.0, "error": None},
        {"kind": "legacy", "number": 1, "began": 1.0},
    )
    calls.forget_before(3.0)
    assert calls.between(0.0, 4.0).calls == 1


def test_figure_read_from_process_status() -> None:
    assert status_mib("Name:\tpython\nVmHWM:\t  4096 kB\nVmRSS:\t  2048 kB\n", "VmRSS") == 2.0
    with pytest.raises(ProcessLookupError):
        status_mib("Name:\tpython\nState:\tZ (zombie)\n", "VmRSS")


# --- verdicts ----------------------------------------------------------------------------------------------------------


def test_attack_within_goals_passes() -> None:
    assert problems(HARMLESS) == ()


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"peak_mib": 40.0 + 257.0}, "memory rose by 257 MiB, more than 256"),
        ({"kept": Usage(73.0, 14)}, "33 MiB were kept after 5 s, more than 32"),
        ({"after": Usage(45.0, 30)}, "17 descriptors were left, more than 16"),
        ({"latency": attrs.evolve(LATENCY, worst=1.1)}, "a well-behaved client (legacy) waited 1.1 s, more than 1"),
        ({"latency": attrs.evolve(LATENCY, calls=0, worst=math.nan)}, "the well-behaved clients made no call"),
        (
            {"latency": attrs.evolve(LATENCY, failed=2, failure="legacy: full")},
            "2 of 100 well-behaved calls failed, the first: legacy: full",
        ),
        ({"stopped": "broken off at 3072 MiB"}, "broken off at 3072 MiB"),
        ({"figures_below": 3.0}, "lived (s) was 3, not less than 3"),
    ],
)
def test_attack_beyond_goal_fails(changed: dict[str, object], problem: str) -> None:
    assert problems(attrs.evolve(HARMLESS, **changed)) == (problem,)  # type: ignore[arg-type]  # the value of any field


def test_memory_permitted_by_limit_may_be_kept() -> None:
    assert problems(attrs.evolve(HARMLESS, kept=Usage(100.0, 14), kept_mib=64.0)) == ()


def test_memory_reused_by_second_run_is_not_leak() -> None:
    first = attrs.evolve(HARMLESS, kept=Usage(95.0, 14))
    assert problems(attrs.evolve(first, kept_again=Usage(96.0, 14))) == ()
    assert problems(attrs.evolve(first, kept_again=Usage(130.0, 14))) == (
        "55 MiB were kept after 5 s, more than 32, and 35 MiB after a second run",
    )


@pytest.mark.parametrize(
    ("peak_mib", "kept_mib", "expected"),
    [(200.0, 95.0, True), (200.0, 45.0, False), (200.0, 150.0, False), (1_000.0, 95.0, False)],
)
def test_second_run_only_if_decisive(peak_mib: float, kept_mib: float, expected: bool) -> None:
    assert may_be_scattered(IDLE, peak_mib, Usage(kept_mib, 14), 0.0) is expected


def test_stricter_goals_applied() -> None:
    assert problems(HARMLESS, Goals(rise_mib=10.0)) == ("memory rose by 60 MiB, more than 10",)


def test_soak_without_growth_passes() -> None:
    assert growth(CALM) == ()


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"last": Usage(73.0, 13)}, "memory grew by 33 MiB, more than 32"),
        ({"last": Usage(40.0, 30)}, "descriptors grew by 17, more than 16"),
        ({"last_latency": attrs.evolve(LATENCY, median=0.04)}, "the median latency grew from 0.010 to 0.040 s"),
        ({"last_latency": attrs.evolve(LATENCY, calls=0)}, "the well-behaved clients made no call in the end"),
        ({"failed": 3}, "3 calls of well-behaved clients failed"),
        ({"stopped": "the server ended"}, "the server ended"),
    ],
)
def test_soak_with_growth_fails(changed: dict[str, object], problem: str) -> None:
    assert growth(attrs.evolve(CALM, **changed)) == (problem,)  # type: ignore[arg-type]  # the value of any field


# --- command lines -----------------------------------------------------------------------------------------------------


def test_attacks_chosen_by_name_or_all() -> None:
    assert chosen([]) == [each for each in ATTACKS.values() if not each.only_by_name]
    assert [each.name for each in chosen(["million-*"])] == ["million-streams"]
    assert [each.name for each in chosen(["bodies", "initialize*"])] == ["initialize", "initialize-text", "bodies"]


@pytest.mark.parametrize("arguments", [["--only", "nothing"], ["--host", "apache"]])
def test_unusable_argument_reported(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        attacks.main(arguments)
    assert ended.value.code == 2
    assert arguments[1] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"), [(["--minutes", "0"], "--minutes"), (["--only", "descriptors-hard"], "few descriptors")]
)
def test_soak_with_unusable_arguments_reported(
    arguments: Sequence[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        soak.main(arguments)
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err


def test_list_option_names_each_attack(capsys: pytest.CaptureFixture[str]) -> None:
    assert attacks.main(["--list"]) == 0
    output = capsys.readouterr().out
    assert [name for name in ATTACKS if name not in output] == []


def test_attacks_have_bounded_total_duration() -> None:
    assert sum(each.seconds for each in chosen([])) < 10 * 60
    assert all(each.summary and each.run.__doc__ for each in ATTACKS.values())


def test_help_describes_passing_result(capsys: pytest.CaptureFixture[str]) -> None:
    for parser in (attacks.parser(), soak.parser()):
        with pytest.raises(SystemExit) as ended:
            parser.parse_args(["--help"])
        assert ended.value.code == 0
        output = capsys.readouterr().out
        assert "32 MiB" in output
        assert "exit status" in output


def test_server_receives_limits_of_attack() -> None:
    assert server_arguments(Setting()) == ("--host", "embedded")
    assert server_arguments(Setting(host="hypercorn"), (1_024, 4_096)) == (
        *("--host", "hypercorn"),
        *("--nofile", "1024:4096"),
    )


def test_soak_excludes_attacks_with_own_server() -> None:
    assert [each.name for each in soak.fit_for_soak([]) if each.nofile is not None] == []
    assert max(each.seconds for each in soak.fit_for_soak(["deadline"])) <= 15.0


def test_result_row_shows_verdict() -> None:
    assert attacks.row(HARMLESS).endswith("PASS")
    failed = attrs.evolve(HARMLESS, peak_mib=1_000.0, lag=0.5, sessions_lost=2)
    assert attacks.row(failed).endswith("FAIL")
    details = "\n".join(attacks.details(failed))
    assert "problem: memory rose by 960 MiB" in details
    assert "3 x 200, 5 x 429" in details
    assert "lived (s): 3" in details
    assert "busy" in details
    assert "lost 2 sessions" in details


def test_json_report_has_no_nan() -> None:
    no_calls = attrs.evolve(LATENCY, calls=0, median=math.nan, worst=math.nan)
    document = attacks.as_json(attrs.evolve(HARMLESS, latency_idle=no_calls))
    assert json.loads(json.dumps(document, allow_nan=False))["latency_idle"]["median"] is None
    assert document["verdict"] == "PASS"


async def test_progress_line_silent_without_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress.after("one: ")("two")
    progress.clear()
    await trio.lowlevel.checkpoint()
    assert capsys.readouterr().err == ""
