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
from bench.attacks.verdicts import Goals, Measured, Soaked, growth, may_be_scattered, problems

LATENCY = Latency(calls=100, median=0.01, worst=0.5, slowest="legacy", failed=0, failure="")
IDLE = Usage(40.0, 13)
HARMLESS = Measured(
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
CALM = Soaked(first=IDLE, last=Usage(50.0, 15), first_latency=LATENCY, last_latency=LATENCY, failed=0)


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
def test_a_body_is_within_the_message_limit(body: bytes) -> None:
    assert len(body) < 4 * MIB
    assert b" " not in body.replace(b"application/json", b"")


def test_a_request_has_the_envelope_of_its_revision() -> None:
    assert "_meta" not in json.loads(call("echo", {}, LEGACY))["params"]
    assert json.loads(call("echo", {}, MODERN, 7, task={}))["params"].keys() == {"name", "arguments", "task", "_meta"}


def test_uris_are_different_and_of_one_size() -> None:
    assert len(set(uris(1_000, 64))) == 1_000
    assert {len(uri) for uri in uris(10, 64)} == {64}


def test_a_bracket_bomb_is_as_deep_as_asked() -> None:
    assert json.loads(bracket_bomb(2))["params"]["arguments"] == {"text": [[]]}


def test_a_batch_has_different_ids() -> None:
    assert [message["id"] for message in json.loads(batch(3))] == [0, 1, 2]


def test_a_post_is_a_head_and_its_body() -> None:
    assert post("/mcp", "127.0.0.1:1", b"{}", {"accept": "a/b"}) == (
        b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:1\r\naccept: a/b\r\ncontent-length: 2\r\n\r\n{}"
    )


def test_a_long_head_is_not_ended() -> None:
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
async def test_a_raw_connection_reads_one_response_after_the_other(sent: bytes) -> None:
    ours, theirs = memory_stream_pair()
    connection = RawConnection(ours)
    await theirs.send_all(sent)
    first = await connection.response()
    await theirs.send_all(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n")
    second = await connection.response()
    assert (first.status, second.status) == (200, 429)
    assert b"{}" in first.body
    assert not connection.received


async def test_a_raw_connection_reports_a_server_that_left() -> None:
    ours, theirs = memory_stream_pair()
    connection = RawConnection(ours)
    await theirs.aclose()
    with pytest.raises(Broken):
        await connection.response()
    with pytest.raises(Broken):
        await connection.send(b"x")


# --- what is measured --------------------------------------------------------------------------------------------------


def lines(*said: dict[str, object]) -> Calls:
    calls = Calls()
    for each in said:
        calls.read(json.dumps(each))
    return calls


def test_calls_are_counted_in_the_period_in_which_they_ran() -> None:
    calls = lines(
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


def test_a_call_without_an_answer_counts_as_long_as_it_has_waited() -> None:
    calls = lines({"kind": "legacy", "number": 0, "began": -50.0})
    assert calls.between(-1.0, 0.0).worst > 50.0
    assert not calls.answered(["legacy"])


def test_a_failed_call_is_reported_with_its_error() -> None:
    calls = lines(
        {"kind": "legacy", "number": 0, "began": 1.0}, {"kind": "legacy", "number": 0, "ended": 2.0, "error": "full"}
    )
    latency = calls.between(0.0, 3.0)
    assert (latency.failed, latency.failure) == (1, "legacy: full")
    assert not calls.answered(["legacy"])


def test_a_call_that_was_refused_for_lack_of_room_is_counted_by_itself() -> None:
    calls = lines(
        {"kind": "legacy", "number": 0, "ended": 2.0, "error": "RequestFailed: the setting is Limits.total_bytes"},
        {"kind": "legacy", "number": 1, "ended": 2.0, "error": "ConnectionEnded: gone"},
    )
    latency = calls.between(1.0, 3.0)
    assert (latency.failed, latency.refused) == (2, 1)


def test_a_client_that_cannot_connect_counts_as_a_failed_call() -> None:
    calls = lines({"kind": "legacy", "number": 0, "ended": 2.0, "error": "not connected"})
    assert calls.between(1.0, 3.0).failed == 1


def test_the_lag_is_the_latest_wake_up_of_the_period() -> None:
    calls = lines(
        {"kind": "lag", "number": 0, "began": 1.0, "ended": 1.5},
        {"kind": "lag", "number": 1, "began": 2.0, "ended": 2.25},
        {"kind": "session lost", "number": 2, "ended": 2.0},
    )
    assert calls.lag_between(1.75, 3.0) == 0.25
    assert calls.lag_between(4.0, 5.0) == 0.0
    assert calls.sessions_lost == 1


def test_forgotten_calls_leave_those_that_still_run() -> None:
    calls = lines(
        {"kind": "legacy", "number": 0, "began": 1.0},
        {"kind": "legacy", "number": 0, "ended": 2.0, "error": None},
        {"kind": "legacy", "number": 1, "began": 1.0},
    )
    calls.forget_before(3.0)
    assert calls.between(0.0, 4.0).calls == 1


def test_a_figure_is_found_in_the_status_of_a_process() -> None:
    assert status_mib("Name:\tpython\nVmHWM:\t  4096 kB\nVmRSS:\t  2048 kB\n", "VmRSS") == 2.0
    with pytest.raises(ProcessLookupError):
        status_mib("Name:\tpython\nState:\tZ (zombie)\n", "VmRSS")


# --- verdicts ----------------------------------------------------------------------------------------------------------


def test_an_attack_within_the_goals_passes() -> None:
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
def test_an_attack_beyond_a_goal_fails(changed: dict[str, object], problem: str) -> None:
    assert problems(attrs.evolve(HARMLESS, **changed)) == (problem,)  # type: ignore[arg-type]  # one change of any kind


def test_what_a_limit_permits_may_be_kept() -> None:
    assert problems(attrs.evolve(HARMLESS, kept=Usage(100.0, 14), kept_mib=64.0)) == ()


def test_what_a_second_run_uses_again_is_no_leak() -> None:
    first = attrs.evolve(HARMLESS, kept=Usage(95.0, 14))
    assert problems(attrs.evolve(first, kept_again=Usage(96.0, 14))) == ()
    assert problems(attrs.evolve(first, kept_again=Usage(130.0, 14))) == (
        "55 MiB were kept after 5 s, more than 32, and 35 MiB after a second run",
    )


@pytest.mark.parametrize(
    ("peak_mib", "kept_mib", "again"),
    [(200.0, 95.0, True), (200.0, 45.0, False), (200.0, 150.0, False), (1_000.0, 95.0, False)],
)
def test_a_second_run_is_made_where_it_decides(peak_mib: float, kept_mib: float, again: bool) -> None:
    assert may_be_scattered(IDLE, peak_mib, Usage(kept_mib, 14), 0.0) is again


def test_goals_can_be_stricter() -> None:
    assert problems(HARMLESS, Goals(rise_mib=10.0)) == ("memory rose by 60 MiB, more than 10",)


def test_a_soak_without_growth_passes() -> None:
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
def test_a_soak_with_growth_fails(changed: dict[str, object], problem: str) -> None:
    assert growth(attrs.evolve(CALM, **changed)) == (problem,)  # type: ignore[arg-type]  # one change of any kind


# --- command lines -----------------------------------------------------------------------------------------------------


def test_all_attacks_are_chosen_unless_some_are_named() -> None:
    assert chosen([]) == list(ATTACKS.values())
    assert [each.name for each in chosen(["bodies", "initialize*"])] == ["initialize", "initialize-text", "bodies"]


@pytest.mark.parametrize("arguments", [["--only", "nothing"], ["--host", "apache"]])
def test_an_argument_that_cannot_be_used_is_named(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        attacks.main(arguments)
    assert ended.value.code == 2
    assert arguments[1] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"), [(["--minutes", "0"], "--minutes"), (["--only", "descriptors-hard"], "few descriptors")]
)
def test_a_soak_that_cannot_run_says_why(
    arguments: Sequence[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        soak.main(arguments)
    assert ended.value.code == 2
    assert named in capsys.readouterr().err


def test_the_list_names_each_attack(capsys: pytest.CaptureFixture[str]) -> None:
    assert attacks.main(["--list"]) == 0
    said = capsys.readouterr().out
    assert [name for name in ATTACKS if name not in said] == []


def test_all_attacks_together_are_bounded() -> None:
    assert sum(each.seconds for each in ATTACKS.values()) < 10 * 60
    assert all(each.summary and each.run.__doc__ for each in ATTACKS.values())


def test_the_help_says_what_passes(capsys: pytest.CaptureFixture[str]) -> None:
    for made in (attacks.parser(), soak.parser()):
        with pytest.raises(SystemExit) as ended:
            made.parse_args(["--help"])
        assert ended.value.code == 0
        said = capsys.readouterr().out
        assert "32 MiB" in said
        assert "exit status" in said


def test_the_server_gets_the_limits_of_an_attack() -> None:
    assert server_arguments(Setting()) == ("--host", "embedded")
    assert server_arguments(Setting(host="hypercorn"), (1_024, 4_096)) == (
        *("--host", "hypercorn"),
        *("--nofile", "1024:4096"),
    )


def test_a_soak_runs_no_attack_that_needs_a_server_of_its_own() -> None:
    assert [each.name for each in soak.fit_for_soak([]) if each.nofile is not None] == []
    assert max(each.seconds for each in soak.fit_for_soak(["deadline"])) <= 15.0


def test_a_row_says_whether_an_attack_passed() -> None:
    assert attacks.row(HARMLESS).endswith("PASS")
    failed = attrs.evolve(HARMLESS, peak_mib=1_000.0, lag=0.5, sessions_lost=2)
    assert attacks.row(failed).endswith("FAIL")
    said = "\n".join(attacks.details(failed))
    assert "problem: memory rose by 960 MiB" in said
    assert "3 x 200, 5 x 429" in said
    assert "lived (s): 3" in said
    assert "busy" in said
    assert "lost 2 sessions" in said


def test_the_json_has_no_figure_that_json_lacks() -> None:
    nothing = attrs.evolve(LATENCY, calls=0, median=math.nan, worst=math.nan)
    document = attacks.as_json(attrs.evolve(HARMLESS, latency_idle=nothing))
    assert json.loads(json.dumps(document, allow_nan=False))["latency_idle"]["median"] is None
    assert document["verdict"] == "PASS"


async def test_a_progress_line_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress.after("one: ")("two")
    progress.clear()
    await trio.lowlevel.checkpoint()
    assert capsys.readouterr().err == ""
