from __future__ import annotations

import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import open_stdio
from mcp_client.transports.stdio.missing_variables import missing_variables
from mcp_core.errors import ConnectionEnded


@pytest.mark.parametrize(
    ("stderr", "names"),
    [
        ("KeyError: 'API_KEY'\n", ["API_KEY"]),
        ("error: API_KEY is not set", ["API_KEY"]),
        ("API_KEY environment variable is required", ["API_KEY"]),
        ('"API_KEY" must be set', ["API_KEY"]),
        ("Error: Missing environment variable: API_KEY", ["API_KEY"]),
        ("set $API_KEY and $API_URL must be defined", ["API_KEY", "API_URL"]),
        ("cannot log in: OUR_TOKEN", ["OUR_TOKEN"]),
        ("KeyError: 'city'", []),
        ("HTTP_ERROR 500 in MODULE", []),
        ("PASSED is not set", []),
        ("DEBUG is not set, OUR_TOKENS, XOUR_TOKEN", []),
        ("no data", []),
        (" ".join(f"NAME_{number} is required;" for number in range(9)), [f"NAME_{number}" for number in range(5)]),
    ],
)
def test_missing_variables_named_by_stderr_found(stderr: str, names: list[str]) -> None:
    assert [*missing_variables(stderr, ours={"OUR_TOKEN", "DEBUG"}, passed={"PASSED"})] == names


@pytest.mark.property
@given(
    st.lists(
        st.sampled_from(["A_B", " is ", "not set", "required ", "KeyError: '", "'", "env var ", "$", "\n", "A" * 99])
    )
)
def test_missing_variables_of_any_stderr_are_names_in_it(parts: list[str]) -> None:
    stderr = "".join(parts)
    found = missing_variables(stderr, ours=(), passed=())
    assert all(name in stderr and name.isupper() for name in found)
    assert not missing_variables(stderr, ours=(), passed=found) or len(found) == 5


def server(line: str) -> Sequence[str]:
    return [sys.executable, "-I", "-S", "-c", f"import os; {line}"]


async def test_server_exit_for_missing_variable_names_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEATHER_TOKEN", "swordfish")
    with pytest.raises(ConnectionEnded) as caught:
        async with open_stdio(server("os.environ['WEATHER_TOKEN']")):
            pytest.fail("the server does not respond")
    assert caught.value.context.missing_env == ("WEATHER_TOKEN",)
    assert "`env=`, or all variables of this process with `inherit_env=True`" in str(caught.value)
    assert "swordfish" not in str(caught.value)


async def test_server_exit_with_passed_variables_names_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEATHER_TOKEN", "swordfish")
    failing = server("raise SystemExit('bad ' + 'WEATHER_TOKEN ' + os.environ['WEATHER_TOKEN'][:0])")
    for connector in (open_stdio(failing, inherit_env=True), open_stdio(failing, env={"WEATHER_TOKEN": ""})):
        with pytest.raises(ConnectionEnded) as caught:
            async with connector:
                pytest.fail("the server does not respond")
        assert caught.value.context.missing_env == ()
        assert "inherit_env" not in str(caught.value)
