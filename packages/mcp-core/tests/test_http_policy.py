from __future__ import annotations

import math

import pytest

from mcp_core.http.endpoint_policy import EndpointPolicy


@pytest.mark.spec("http.origin-validate", "http.origin-validated")
def test_default_policy_allows_local_host_and_no_origins() -> None:
    policy = EndpointPolicy()
    assert policy.allowed_hosts is not None
    assert "localhost" in policy.allowed_hosts
    assert policy.allowed_origins == ()


@pytest.mark.parametrize("setting", ["allowed_hosts", "allowed_origins"])
@pytest.mark.parametrize("value", ["localhost", ["localhost"], (1,), (b"localhost",)])
def test_allowed_names_not_tuple_of_strings_raise(setting: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"EndpointPolicy\.{setting} must be a tuple of strings"):
        EndpointPolicy(**{setting: value})  # type: ignore[arg-type]  # a value of a wrong type


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
def test_allowed_names_invalid_raise(setting: str, value: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=rf"EndpointPolicy\.{setting}"):
        EndpointPolicy(**{setting: value})  # type: ignore[arg-type]  # one of two settings


def test_allowed_hosts_none_disables_check() -> None:
    assert EndpointPolicy(allowed_hosts=None).allowed_hosts is None


def test_answer_setting_other_value_raises() -> None:
    assert EndpointPolicy(answer="stream").answer == "stream"
    with pytest.raises(ValueError, match=r"EndpointPolicy\.answer"):
        EndpointPolicy(answer="sse")  # type: ignore[arg-type]  # a value that is not allowed


TIMES = ["stream_after", "keep_alive", "retry", "session_idle"]


@pytest.mark.parametrize("setting", TIMES)
@pytest.mark.parametrize("value", [True, "5", None])
def test_times_not_numbers_raise(setting: str, value: object) -> None:
    with pytest.raises(TypeError, match=rf"EndpointPolicy\.{setting} must be a number of seconds"):
        EndpointPolicy(**{setting: value})  # type: ignore[arg-type]  # a value of a wrong type


@pytest.mark.parametrize("setting", TIMES)
@pytest.mark.parametrize("value", [-1, -0.5, math.nan, -math.inf])
def test_times_negative_raise(setting: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"EndpointPolicy\.{setting} must be"):
        EndpointPolicy(**{setting: value})  # type: ignore[arg-type]  # one of four settings


@pytest.mark.parametrize("setting", TIMES)
def test_times_infinite_accepted(setting: str) -> None:
    assert getattr(EndpointPolicy(**{setting: math.inf}), setting) == math.inf  # type: ignore[arg-type]  # one of four


@pytest.mark.parametrize("setting", ["keep_alive", "session_idle"])
def test_times_zero_raise_for_intervals(setting: str) -> None:
    with pytest.raises(ValueError, match=rf"EndpointPolicy\.{setting} must be more than 0 seconds"):
        EndpointPolicy(**{setting: 0})  # type: ignore[arg-type]  # one of two settings


@pytest.mark.parametrize("setting", ["stream_after", "retry"])
def test_times_zero_accepted_for_delays(setting: str) -> None:
    assert getattr(EndpointPolicy(**{setting: 0}), setting) == 0  # type: ignore[arg-type]  # one of two settings
