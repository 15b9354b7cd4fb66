"""The command `mcp-client` as a user runs it: a process of its own, with pipes and terminals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from mcp_core.jsonrpc.messages import JsonObject, JsonValue

if sys.platform != "win32":
    from terminal import Terminal

WEATHER: Final = '''
import os
from typing import Literal

import trio

from mcp_server import Context, Server, serve_stdio

server = Server("weather", version="1.0")
LONG = "Return the weather forecast, " + "hour by hour, " * 20 + "for a city.\\n\\nThe source is a model."


@server.tool(description=LONG)
async def forecast(city: str, days: int = 3) -> str:
    return f"{city}: {days} days of sun"


@server.tool
def variable(name: str) -> str:
    """Return an environment variable."""
    return os.environ.get(name, "unset")


@server.tool
async def folders(context: Context) -> list[str]:
    """Return the roots."""
    return [str(root.name) for root in await context.list_roots()]


@server.tool
async def ask(context: Context) -> str:
    """Ask for a name."""
    return repr(await context.elicit(str, "Your name?"))


@server.tool
async def offered(context: Context) -> str:
    """Return the capabilities of the client."""
    capabilities = context.peer.capabilities
    return f"elicitation {capabilities.elicitation is not None}, roots {capabilities.roots is not None}"


@server.resource("weather://units")
def units() -> str:
    """Return the units of all values."""
    return "C"


@server.resource("weather://city/{city}")
def city(city: str) -> str:
    """Return the weather of a city."""
    return f"{city} is sunny"


@server.prompt
def plan(city: str, season: Literal["summer", "winter"] = "summer") -> str:
    """Plan a trip."""
    return f"Plan a trip to {city} in {season}."


@server.completion(prompt="plan", argument="season")
def seasons(value: str, arguments: dict[str, str]) -> list[str]:
    cold = arguments.get("city") == "Oslo"
    return [each for each in ("summer", "winter") if each.startswith(value) and not (cold and each == "summer")]


@server.completion(resource="weather://city/{city}", argument="city")
def cities(value: str) -> list[str]:
    return [each for each in ("Ghent", "Oslo") if each.startswith(value)]


if __name__ == "__main__":
    trio.run(serve_stdio, server)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weather")
    (path / "weather.py").write_text(WEATHER)
    servers: JsonObject = {"weather": {"command": sys.executable, "args": ["weather.py"]}}
    (path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    return path


CLIENT: Final = [sys.executable, "-m", "mcp_client"]
SERVER: Final = ["--", sys.executable, "weather.py"]


def run(
    folder: Path, *words: str, server: Sequence[str] = SERVER, env: dict[str, str] | None = None
) -> tuple[int, str, str]:
    """Run the command without a terminal. Return its exit code, stdout and stderr."""
    done = subprocess.run(
        [*CLIENT, *words, *server],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
        cwd=folder,
        env={**os.environ, **(env or {})},
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


# --- client requests -------------------------------------------------------------------------------------------------


def test_elicitation_without_terminal_not_offered(folder: Path) -> None:
    assert run(folder, "call", "offered")[:2] == (0, "elicitation False, roots False\n")
    code, out, err = run(folder, "call", "ask")
    assert (code, out) == (1, "")
    assert "requires a client capability that was not declared: elicitation" in err
    assert err.endswith("The client offers elicitation on a terminal only: do not redirect stdin or stderr.\n")


@pytest.mark.skipif(sys.platform == "win32", reason="pseudoterminals")
def test_elicitation_on_terminal_offered(folder: Path) -> None:
    with Terminal([*CLIENT, "call", "ask", *SERVER], folder) as terminal:
        terminal.answer("value: ", "Ada")
        terminal.answer("Send it?", "y")
        assert terminal.end() == (0, "ElicitationAccepted(value='Ada')\n")


def test_roots_offered_to_server(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    options = ("--root", str(tmp_path / "one"), "--root", str(tmp_path / "two"))
    code, out, err = run(folder, *options, "call", "folders", "--json")
    value: JsonValue = json.loads(out)["structuredContent"]
    assert (code, value, err) == (0, {"result": ["one", "two"]}, "")
    code, out, err = run(folder, "call", "folders")
    assert code == 1
    assert err.endswith("Offer a folder with --root DIRECTORY.\n")


def test_root_that_is_no_directory_rejected(folder: Path) -> None:
    code, out, err = run(folder, "probe", "--root", "weather.py")
    assert (code, out, err) == (2, "", "mcp-client: error: --root 'weather.py' is not an existing directory\n")


# --- the environment of the server -----------------------------------------------------------------------------------


def test_environment_inherited_on_request(folder: Path) -> None:
    env = {"WEATHER_TOKEN": "t0k"}
    assert run(folder, "call", "variable", "name=WEATHER_TOKEN", env=env)[:2] == (0, "unset\n")
    assert run(folder, "call", "variable", "name=WEATHER_TOKEN", "--inherit-env", env=env)[:2] == (0, "t0k\n")
    words = ("call", "variable", "name=WEATHER_TOKEN", "--inherit-env", "--env", "WEATHER_TOKEN=own")
    assert run(folder, *words, env=env)[:2] == (0, "own\n")


def test_inherit_env_with_url_rejected(folder: Path) -> None:
    code, _, err = run(folder, "probe", "--inherit-env", server=["http://127.0.0.1:1/mcp"])
    assert (code, "--inherit-env requires a command" in err) == (2, True)


def test_server_without_variable_exits_with_advice(folder: Path) -> None:
    server = ["--", sys.executable, "-c", "import os; os.environ['WEATHER_TOKEN']"]
    code, out, err = run(folder, "probe", "--json", server=server, env={"WEATHER_TOKEN": "t0k"})
    assert (code, json.loads(out)["error"]["missingEnv"]) == (3, ["WEATHER_TOKEN"])
    assert "not passed to it: WEATHER_TOKEN. Pass it with `env=`" in err
    assert err.endswith("pass variables with --env NAME=VALUE, or all of them with --inherit-env.\n")
