"""The command `mcp-client` as a user runs it: a process of its own, with pipes and terminals."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest
from shell_terminal import ShellTerminal

from mcp_client.cli.arguments import _WITH_VALUE
from mcp_client.cli.main import _commands
from mcp_core.jsonrpc.messages import JsonObject, JsonValue

if sys.platform != "win32":
    from terminal import Terminal

WEATHER: Final = '''
import datetime
import enum
import os
from dataclasses import dataclass
from typing import Annotated, Literal

import trio

from mcp_server import Context, ElicitationAccepted, Param, Server, serve_stdio

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


class Extra(enum.Enum):
    SEA_VIEW = "sea"
    LATE_BREAKFAST = "late"


@dataclass
class Booking:
    name: str
    day: datetime.date
    mail: Annotated[str, Param(format="email")]
    extras: list[Extra]
    guests: Annotated[int, Param(minimum=1, maximum=4)] = 2


@server.tool
async def book(context: Context) -> str:
    """Book a table."""
    answer = await context.elicit(Booking, "Your booking?")
    match answer:
        case ElicitationAccepted(value):
            return f"{value.name} {value.day} {value.mail} {[extra.name for extra in value.extras]} {value.guests}"
    return repr(answer)


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


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Restore the default action of SIGINT for child processes. A shell ignores it for commands in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


@pytest.mark.skipif(sys.platform == "win32", reason="pseudoterminals")
@pytest.mark.spec("elicitation.client-validates", "elicitation.ui-review")
def test_form_prompts_again_for_invalid_fields_only(folder: Path) -> None:
    with Terminal([*CLIENT, "call", "book", *SERVER], folder) as terminal:
        terminal.answer("name: ", "Ada")
        terminal.answer("Enter a date, for example 2026-07-28.\nday: ", "tomorrow")
        terminal.answer("'tomorrow' is not a date, for example 2026-07-28\nday: ", "2027-01-02")
        terminal.answer("mail: ", "ada")
        terminal.answer("'ada' is not an email address, for example ada@example.com\nmail: ", "ada@example.com")
        terminal.answer("1. Sea view (sea)\n  2. Late breakfast (late)\n", "1, sun")
        terminal.answer("'sun' is not one of: Sea view (sea), Late breakfast (late)\nextras: ", "late breakfast, 1")
        terminal.answer("Enter a whole number, 1 to 4.\nguests [2]: ", "nan")
        terminal.answer("enter a whole number\nguests [2]: ", "5")
        terminal.answer("'5' is more than 4\nguests [2]: ", "")
        terminal.wait_for("name: Ada\n  day: 2027-01-02\n  mail: ada@example.com\n")
        terminal.answer("Send it?", "name")
        terminal.answer("name: ", "Eve")
        terminal.wait_for("name: Eve\n  day: 2027-01-02\n  mail: ada@example.com\n")
        terminal.answer("Send it?", "")
        code, out = terminal.end()
    assert (code, out) == (0, "Eve 2027-01-02 ada@example.com ['LATE_BREAKFAST', 'SEA_VIEW'] 2\n")


@pytest.mark.skipif(sys.platform == "win32", reason="pseudoterminals")
@pytest.mark.usefixtures("interruptible")
def test_form_interrupted_exits_130(folder: Path) -> None:
    with Terminal([*CLIENT, "call", "book", *SERVER], folder) as terminal:
        terminal.wait_for("name: ")
        terminal.interrupt()
        assert terminal.end() == (130, "")
    assert "Traceback" not in terminal.shown


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


# --- completions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["plan", "season=w"], "winter\n"),
        (["plan", "season="], "summer\nwinter\n"),
        (["plan", "city=Oslo", "season="], "winter\n"),
        (["weather://city/{city}", "city=G"], "Ghent\n"),
    ],
)
def test_complete_last_argument_with_known_others(words: list[str], values: str, folder: Path) -> None:
    assert run(folder, "complete", *words) == (0, values, "")


# --- invalid command lines -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["cal", "forecast"], "mcp-client: error: unknown command 'cal' (did you mean 'call'?)"),
        (["forecast"], "mcp-client: error: unknown command 'forecast'; known: probe, list, call, "),
        ([], "mcp-client: error: no command; see `mcp-client --help`"),
        (
            ["--revison", "2025-06-18", "list"],
            "mcp-client: error: unknown option --revison (did you mean '--revision'?)",
        ),
        (["call", "forecast", "--tiemout", "3"], "unknown option --tiemout (did you mean '--timeout'?)"),
        (["call", "--tiemout=3", "forecast"], "unknown option --tiemout (did you mean '--timeout'?)"),
        (["call", "forecast", "--time", "3"], "unknown option --time (did you mean '--timeout'?)"),
        (["list", "tolls"], "argument KIND: unknown value 'tolls' (did you mean 'tools'?)"),
        (["probe", "it"], "unexpected word 'it'; the command of a server follows `--`"),
        (["call", "forcast", "city=Ghent"], "the server has no tool 'forcast' (did you mean 'forecast'?)"),
        (["prompt", "plam"], "the server has no prompt 'plam' (did you mean 'plan'?)"),
        (["prompt", "plan", "ctiy=Ghent"], "the prompt 'plan' has no argument 'ctiy' (did you mean 'city'?)"),
        (["complete", "plam", "season="], "the server has no prompt 'plam' (did you mean 'plan'?)"),
        (["complete", "plan", "saeson="], "the prompt 'plan' has no argument 'saeson' (did you mean 'season'?)"),
        (["complete", "plan", "season"], "an argument must have the form NAME=VALUE, not 'season'"),
        (
            ["complete", "weather://city/{ctiy}", "ctiy="],
            "no resource template 'weather://city/{ctiy}' (did you mean 'weather://city/{city}'?)",
        ),
        (["record", "--outptu", "x"], "mcp-client record: error: unknown option --outptu (did you mean '--output'?)"),
        (["replay", "x"], "mcp-client replay: error: a recording replaces the server: pass no command"),
    ],
)
def test_invalid_word_explained_with_nearest_name(words: list[str], complaint: str, folder: Path) -> None:
    code, out, err = run(folder, *words)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


def test_server_without_separator_explained(folder: Path) -> None:
    code, _, err = run(folder, "list", "python", "weather.py", server=[])
    assert (code, err.startswith("mcp-client list: error: no server: pass its URL, or its command after `--`")) == (
        2,
        True,
    )


def test_unknown_resource_explained_with_nearest_name(folder: Path) -> None:
    code, out, err = run(folder, "read", "weather://unit")
    assert (code, out) == (1, "")
    assert err.endswith("\nDid you mean 'weather://units'?\n")
    assert "Did you mean" not in run(folder, "read", "other:thing")[2]


def test_server_option_without_file_explained(folder: Path) -> None:
    code, _, err = run(folder, "probe", "--server", "weather", server=[])
    assert (code, "error: --server requires --config FILE" in err) == (2, True)
    code, _, err = run(folder, "probe", "--config", "mpc.json", server=[])
    assert (code, err) == (2, "mcp-client: error: cannot read mpc.json: No such file or directory\n")


@pytest.mark.parametrize(
    ("words", "code", "output"),
    [
        (["probe"], 0, "server        weather 1.0"),
        (["list", "prompts"], 0, "prompts (1)"),
        (["call", "forecast", "city=Ghent"], 0, "Ghent: 3 days of sun"),
        (["read", "weather://units"], 0, "C"),
        (["read", "https://example.com/units"], 1, ""),
        (["prompt", "plan", "city=Ghent"], 0, "user: Plan a trip to Ghent in summer."),
        (["complete", "plan", "season=w"], 0, "winter"),
        (["listen", "--uri", "weather://none"], 1, ""),
    ],
)
def test_server_of_config_file_used_by_each_command(words: list[str], code: int, output: str, folder: Path) -> None:
    exit_code, out, err = run(folder, *words, "--config", "mcp.json", "--server", "weather", server=[])
    assert (exit_code, out.partition("\n")[0]) == (code, output), err


@pytest.mark.parametrize(
    "words",
    [
        ("--timeout", "60", "call", "forecast", "city=Ghent", "days=2"),
        ("call", "--timeout", "60", "forecast", "city=Ghent", "days=2"),
        ("call", "forecast", "--timeout", "60", "city=Ghent", "days=2"),
        ("call", "forecast", "city=Ghent", "--timeout=60", "days=2"),
        ("call", "forecast", "city=Ghent", "days=2", "--timeout", "60"),
    ],
)
def test_option_at_any_place_accepted(words: tuple[str, ...], folder: Path) -> None:
    assert run(folder, *words) == (0, "Ghent: 2 days of sun\n", "")


def test_options_with_values_known_before_parsing() -> None:
    commands = _commands().values()
    actions = [action for command in commands for action in command._option_string_actions.values()]
    taking = {name for action in actions if action.nargs is None for name in action.option_strings}
    assert taking == _WITH_VALUE


# --- help ------------------------------------------------------------------------------------------------------------

COMMANDS: Final = [
    "probe",
    "list",
    "call",
    "read",
    "prompt",
    "complete",
    "listen",
    "shell",
    "diagnose-auth",
    "logout",
    "record",
    "replay",
]


def examples(help_text: str) -> list[str]:
    """Return the command lines below the heading of a help text."""
    _, _, below = re.split(r"^(examples?:)\n", help_text, flags=re.MULTILINE)
    return [line.strip() for line in below.partition("\n\n")[0].splitlines()]


def test_help_of_program_lists_commands(folder: Path) -> None:
    code, out, err = run(folder, "--help", server=[])
    assert (code, err) == (0, "")
    assert (
        re.findall(r"^  ([a-z-]+) +[a-z]+", out.partition("commands:")[2].partition("\n\n")[0], re.MULTILINE)
        == COMMANDS
    )


def test_help_of_command_lists_options(folder: Path) -> None:
    code, out, err = run(folder, "call", "--help", server=[])
    assert (code, err) == (0, "")
    assert out.startswith("usage: mcp-client call TOOL [NAME=VALUE ...] [OPTIONS] {URL | -- COMMAND | --config FILE}\n")
    for option in (
        "--inherit-env",
        "--env NAME=VALUE",
        "--root DIRECTORY",
        "--revision REVISION",
        "--config FILE",
        "--server NAME",
    ):
        assert f"\n  {option} " in out


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("command", COMMANDS)
def test_examples_of_help_run(command: str, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    scripts = str(Path(sys.executable).parent)
    env = {
        "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
    }
    found = examples(run(folder, command, "--help", server=[])[1])
    assert found
    with ExitStack() as stack:
        if command == "replay":
            for example in examples(run(folder, "record", "--help", server=[])[1]):
                run_example(example, tmp_path, env)
        for example in found:
            if "https://example.com/mcp" in example:
                example = example.replace("https://example.com/mcp", stack.enter_context(weather_over_http(tmp_path)))
            if command == "listen":
                run_until_interrupted(example, tmp_path, env)
            elif command == "shell":
                with ShellTerminal(words_of(example), tmp_path, os.environ | env) as terminal:
                    terminal.enter("exit")
                    assert terminal.end() == 0
            else:
                run_example(example, tmp_path, env)
        if command == "record":
            assert (tmp_path / "session.jsonl").read_text()
        if command == "read":
            assert (tmp_path / "units.json").read_text() == "C"


def words_of(example: str) -> list[str]:
    program, *words = shlex.split(example)
    assert program == "mcp-client"
    return [*CLIENT, *words]


def run_example(example: str, folder: Path, env: dict[str, str]) -> None:
    done = subprocess.run(
        words_of(example), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120, cwd=folder,
        env=os.environ | env,
    )  # fmt: skip
    assert done.returncode == 0, f"{example}\n{done.stderr}"
    assert done.stdout or done.stderr


def run_until_interrupted(example: str, folder: Path, env: dict[str, str]) -> None:
    with subprocess.Popen(
        words_of(example), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        env=os.environ | env,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            assert line.startswith("Listening for changes of: "), line
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 130
        finally:
            process.kill()


@contextmanager
def weather_over_http(folder: Path) -> Iterator[str]:
    """Serve the weather over HTTP, and yield its URL."""
    command = [sys.executable, "-m", "mcp_server", "run", "weather.py:server", "--http", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder) as server:
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+/mcp", line)
            assert address, line
            yield address[0]
        finally:
            server.kill()


# --- pipes -----------------------------------------------------------------------------------------------------------


def test_piped_table_complete_and_one_line_per_row(folder: Path) -> None:
    code, out, _ = run(folder, "list", "tools")
    assert code == 0
    lines = out.splitlines()
    assert lines[:2] == ["tools (6)", "  name      arguments     description"]
    long = "Return the weather forecast, " + "hour by hour, " * 20 + "for a city. The source is a model."
    assert lines[2] == f"  forecast  city, [days]  {long}"
    assert len(lines) == 8


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["replay", "--help"],
        ["probe"],
        ["list"],
        ["call", "forecast", "city=Ghent"],
        ["call", "forecst", "--json"],
        ["complete", "plan", "season="],
    ],
    ids=" ".join,
)
def test_closed_pipe_exits_141_without_traceback(words: list[str], folder: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [*CLIENT, *words, *SERVER],
        stdin=subprocess.DEVNULL,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
        # Without a buffer, argparse itself ignores that its help cannot be written.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("options", [(), ("--output", "session.jsonl")], ids=["to stdout", "to a file"])
def test_record_whose_reader_ends_exits_141_without_traceback(options: tuple[str, ...], folder: Path) -> None:
    with subprocess.Popen(
        [*CLIENT, "record", *options, *SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        if not options:
            assert "mcpRecording" in process.stdout.readline()
        process.stdout.close()
        process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert (process.wait(timeout=120), process.stderr.read()) == (141, "")


def test_closed_pipe_of_stderr_does_not_end_command(folder: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    server = "import sys; print('ready', file=sys.stderr, flush=True); exec(open('weather.py').read())"
    done = subprocess.run(
        [*CLIENT, "call", "forecast", "city=Ghent", "--stderr", "show", "--", sys.executable, "-c", server],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=write_end,
        text=True,
        check=False,
        timeout=120,
        cwd=folder,
    )
    os.close(write_end)
    assert (done.returncode, done.stdout) == (0, "Ghent: 3 days of sun\n")


@pytest.mark.skipif(sys.platform == "win32", reason="a shell")
def test_output_piped_to_head_cut_without_traceback(folder: Path) -> None:
    script = 'set -o pipefail; "$0" -m mcp_client list -- "$0" weather.py | head -n 1'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable], capture_output=True, text=True, check=False, timeout=120, cwd=folder
    )
    assert done.returncode in {0, 141}
    assert (done.stdout, done.stderr) == ("tools (6)\n", "")
