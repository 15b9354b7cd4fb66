from __future__ import annotations

import math

import pytest

from mcp_core.http.endpoint_policy import EndpointPolicy


@pytest.mark.spec("http.origin-validate", "http.origin-validated")
def test_unless_told_otherwise_only_this_machine_is_a_host_and_no_foreign_page_may_come() -> None:
    policy = EndpointPolicy()
    assert policy.allowed_hosts is not None
    assert "localhost" in policy.allowed_hosts
    assert policy.allowed_origins == ()


@pytest.mark.parametrize("setting", ["allowed_hosts", "allowed_origins"])
@pytest.mark.parametrize("value", ["localhost", ["localhost"], (1,), (b"localhost",)])
def test_names_come_as_a_tuple_of_strings(setting: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"EndpointPolicy\.{setting} must be a tuple of strings"):
        EndpointPolicy(**{setting: value})  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("allowed_hosts", ("*",)),
        ("allowed_hosts", ("",)),
        ("allowed_hosts", ("http://localhost",)),
        ("allowed_origins", ("*",)),
        ("allowed_origins", ("null",)),
        ("allowed_origins", ("app.example",)),
    ],
)
def test_a_name_that_would_never_match_or_match_all_is_refused(setting: str, value: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=rf"EndpointPolicy\.{setting}"):
        EndpointPolicy(**{setting: value})  # type: ignore[arg-type]  # one of two settings


def test_the_check_of_hosts_can_be_switched_off_in_so_many_words() -> None:
    assert EndpointPolicy(allowed_hosts=None).allowed_hosts is None


def test_an_answer_is_json_or_a_stream() -> None:
    assert EndpointPolicy(answer="stream").answer == "stream"
    with pytest.raises(ValueError, match=r"EndpointPolicy\.answer"):
        EndpointPolicy(answer="sse")  # type: ignore[arg-type]  # what is refused


TIMES = ["stream_after", "keep_alive", "retry", "session_idle"]


@pytest.mark.parametrize("setting", TIMES)
@pytest.mark.parametrize("value", [True, "5", None])
def test_times_are_numbers(setting: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"EndpointPolicy\.{setting} must be a number of seconds"):
        EndpointPolicy(**{setting: value})  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize("setting", TIMES)
@pytest.mark.parametrize("value", [-1, -0.5, math.nan, -math.inf])
def test_times_do_not_go_back(setting: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"EndpointPolicy\.{setting} must be"):
        EndpointPolicy(**{setting: value})  # type: ignore[arg-type]  # one of four settings


@pytest.mark.parametrize("setting", TIMES)
def test_times_may_be_endless(setting: str) -> None:
    assert getattr(EndpointPolicy(**{setting: math.inf}), setting) == math.inf  # type: ignore[arg-type]  # one of four


@pytest.mark.parametrize("setting", ["keep_alive", "session_idle"])
def test_what_would_never_rest_is_refused(setting: str) -> None:
    with pytest.raises(ValueError, match=rf"EndpointPolicy\.{setting} must be more than 0 seconds"):
        EndpointPolicy(**{setting: 0})  # type: ignore[arg-type]  # one of two settings


@pytest.mark.parametrize("setting", ["stream_after", "retry"])
def test_at_once_is_a_time(setting: str) -> None:
    assert getattr(EndpointPolicy(**{setting: 0}), setting) == 0  # type: ignore[arg-type]  # one of two settings
