"""The command `mcp-client shell` as a user sees it: on a terminal, with real servers."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import trio

from mcp_client.cli.shell.terminal import PromptStream
from mcp_core.trio.guest import current_guest

if sys.platform == "win32":
    pytest.skip("Windows has no pseudoterminals in the standard library", allow_module_level=True)

from shell_terminal import CTRL_C, CTRL_D, TAB, UP, ShellTerminal

WEATHER: Final = '''
import os
import sys
from typing import Literal

import trio

from mcp_server import Context, Server, serve_http, serve_stdio

server = Server("weather", version="1.0", instructions="Ask for a forecast.")


@server.tool
async def forecast(
    city: str, days: int = 3, unit: Literal["celsius", "fahrenheit"] = "celsius", *, context: Context
) -> str:
    """Return the weather forecast."""
    for day in range(1, days + 1):
        await context.progress(day, days)
    return f"{city}: {days} days of sun in {unit}"


@server.tool
def area(points: list[list[int]]) -> int:
    """Return the number of points."""
    return len(points)


@server.tool
async def ask(context: Context) -> str:
    """Ask for a name."""
    answer = await context.elicit(str, "Your name?")
    return f"answer {answer!r}"


@server.tool
async def log(context: Context) -> str:
    """Emit a log message."""
    await context.info("a message")
    return "logged"


@server.tool
def change() -> str:
    """Change a resource and a list."""
    server.resource_updated("weather://units")
    server.add_tool(area, name="volume")
    return "changed"


@server.tool
def die() -> str:
    """End the server."""
    print("last words", file=sys.stderr, flush=True)
    os._exit(3)


@server.resource("weather://units")
def units() -> str:
    """Return the units."""
    return "the units"


@server.resource("weather://city/{city}")
def city(city: str) -> str:
    """Return the weather of a city."""
    return f"{city} is sunny"


@server.prompt
def plan(city: str, season: str = "summer") -> str:
    """Plan a trip."""
    return f"Plan a trip to {city} in {season}."


@server.completion(prompt="plan", argument="city")
@server.completion(resource="weather://city/{city}", argument="city")
def cities(value: str) -> list[str]:
    return [name for name in ("Ghent", "Geneva", "New York") if name.startswith(value)]


async def over_http() -> None:
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(serve_http, server, "127.0.0.1:0")
        print(urls[0], flush=True)


if "http" in sys.argv:
    trio.run(over_http)
else:
    trio.run(serve_stdio, server)
'''

SESSION: Final = """
# A server of 2025-06-18 that sends requests and notifications at any time.
import json
import sys


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def log(text):
    send(method="notifications/message", params={"level": "info", "data": text})


FORM = {"message": "Which day?", "requestedSchema": {"type": "object", "properties": {"day": {"type": "string"}}}}
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {"listChanged": True}, "prompts": {}, "completions": {}, "logging": {}},
        "serverInfo": {"name": "session", "version": "2"},
    },
    "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("wait", "flood")]},
    "prompts/list": {"prompts": [{"name": "plan", "arguments": [{"name": "city"}]}]},
    "ping": {},
}

for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method in RESULTS:
        send(id=id, result=RESULTS[method])
    elif method is None:
        log("the form has " + json.dumps(message["result"], sort_keys=True))
    elif method == "notifications/cancelled":
        log("the request was cancelled")
    elif method == "tools/call":
        if message["params"]["name"] == "flood":
            for number in range(2000):
                log(f"message {number}")
            send(id=id, result={"content": []})
        else:
            log("the tool waits")
    elif method == "completion/complete":
        value = message["params"]["argument"]["value"]
        if value == "form":
            send(id="form", method="elicitation/create", params=FORM)
            send(id=id, result={"completion": {"values": []}})
        elif value == "log":
            log("first")
            send(method="notifications/tools/list_changed")
            send(id=id, result={"completion": {"values": []}})
        else:
            log("no response to " + value)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "weather.py").write_text(WEATHER)
    (tmp_path / "session.py").write_text(SESSION)
    return tmp_path


def client(*words: str) -> list[str]:
    return [sys.executable, "-m", "mcp_client", *words]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "XDG_STATE_HOME": str(folder / "state")}


@contextmanager
def open_shell(
    folder: Path, *options: str, server: Sequence[str] = (sys.executable, "weather.py")
) -> Iterator[ShellTerminal]:
    with ShellTerminal(client("shell", *options, "--", *server), folder, environment(folder)) as terminal:
        terminal.wait_for_prompt()
        yield terminal


@contextmanager
def http_server(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the server over HTTP. Yield its process and its URL."""
    server = subprocess.Popen([sys.executable, "weather.py", "http"], cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server, server.stdout.readline().strip()
    finally:
        server.kill()
        server.communicate()


@contextmanager
def shell_on(folder: Path, transport: str, *options: str) -> Iterator[ShellTerminal]:
    """Open a shell on the server over a transport, `stdio` or `http`."""
    if transport == "stdio":
        with open_shell(folder, *options) as shell:
            yield shell
    else:
        with (
            http_server(folder) as (_, url),
            ShellTerminal(client("shell", *options, url), folder, environment(folder)) as shell,
        ):
            yield shell


def open_session(folder: Path) -> ShellTerminal:
    command = client("shell", "--revision", "2025-06-18", "--", sys.executable, "session.py")
    return ShellTerminal(command, folder, environment(folder))


# --- commands --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_commands_of_the_shell_show_what_the_server_offers(folder: Path, revision: str) -> None:
    with open_shell(folder, "--revision", revision, "--env", "TOKEN=secret") as shell:
        for line, expected in [
            ("help", "complete REF [NAME=VALUE ...] NAME=VALUE  show values for the last argument"),
            ("help call", "call TOOL [NAME=VALUE ... | JSON]  call a tool"),
            ("info", "instructions  Ask for a forecast."),
            ("tools", "forecast │ city, [days], [unit]"),
            ("resources", "weather://units"),
            ("templates", "weather://city/{city}"),
            ("prompts", "plan │ city, [season]"),
            ('call forecast city="New York" days=2', "New York: 2 days of sun in celsius"),
            ('call forecast {"city": "Bern"}', "Bern: 3 days of sun in celsius"),
            ("call area points=[[1, 2], [3, 4]]", '{"result":2}'),
            ("read weather://units", "the units"),
            ("read weather://units --output units.txt", "9 bytes written to units.txt"),
            ("prompt plan city=Rome", "user: Plan a trip to Rome in summer."),
            ("complete plan city=Ge", "\nGeneva\n"),
            ("ping", " ms"),
        ]:
            shell.enter(line)
            shell.wait_for_prompt()
            assert expected in shell.text.rpartition(f"mcp> {line}")[2] + "\n"
        assert "TOKEN=***" in shell.text
        assert "secret" not in shell.text
        shell.type(CTRL_D)
        assert shell.end() == 0
    assert (folder / "units.txt").read_text() == "the units"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cal forecast", "error: unknown command 'cal' (did you mean 'call'?)"),
        ("call", "error: usage: call TOOL [NAME=VALUE ... | JSON]"),
        ("call forcast", "error: the server has no tool 'forcast' (did you mean 'forecast'?)"),
        ("call forecast days=x", "error: the argument 'days' must have the type integer, not 'x'"),
        ("call forecast {1}", "error: --args is not JSON"),
        ("call forecast", "city"),
        ("read weather://none", "error: "),
        ("read weather://units file", "error: usage: read URI [--output FILE]"),
        ("read weather://units --output none/x", "error: [Errno 2] No such file or directory: 'none/x'"),
        ("complete plan city", "error: an argument must have the form NAME=VALUE, not 'city'"),
        ("log loud", "error: unknown level 'loud'"),
        ("raw maybe", "error: usage: raw on|off"),
        ("help nothing", "error: unknown command 'nothing'"),
        ("unsubscribe weather://units", "error: there is no subscription to weather://units"),
        ("exit now", "error: usage: exit"),
    ],
)
def test_invalid_command_is_reported_and_the_shell_continues(shell: ShellTerminal, line: str, expected: str) -> None:
    shell.enter(line)
    shell.wait_for_prompt()
    assert expected in shell.text.rpartition(f"mcp> {line}")[2]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShellTerminal]:
    """A shell for commands that leave no state."""
    folder = tmp_path_factory.mktemp("shell")
    (folder / "weather.py").write_text(WEATHER)
    with open_shell(folder) as terminal:
        yield terminal


def test_results_of_the_shell_are_json_on_request(folder: Path) -> None:
    with open_shell(folder, "--json") as shell:
        shell.enter("read weather://units")
        shell.wait_until(lambda: '"text":"the units"' in shell.text.replace("\n", ""), "the result")


def test_messages_are_shown_between_raw_on_and_raw_off(folder: Path) -> None:
    with open_shell(folder) as shell:
        shell.enter("raw on")
        shell.enter("call area points=[]")
        call = shell.wait_for_message("-->", lambda message: message.get("method") == "tools/call")
        assert call["params"]["arguments"] == {"points": []}
        response = shell.wait_for_message("<--", lambda message: message.get("id") == call["id"])
        assert response["result"]["structuredContent"] == {"result": 0}
        shell.enter("read weather://none")
        shell.wait_for_message("<--", lambda message: message.get("error", {}).get("code", 0) <= -32000)
        shell.enter("raw off")
        shell.enter("call area points=[[1]]")
        shell.wait_for_prompt()
        assert len([each for each in shell.messages("-->") if each.get("method") == "tools/call"]) == 1


@pytest.mark.parametrize(
    ("server", "revision", "method"),
    [
        ("stdio", "2026-07-28", "server/discover"),
        ("stdio", "2025-06-18", "initialize"),
        ("http", "2026-07-28", "server/discover"),
        ("http", "2025-06-18", "initialize"),
    ],
)
def test_raw_shows_messages_of_the_handshake(folder: Path, server: str, revision: str, method: str) -> None:
    with shell_on(folder, server, "--revision", revision) as shell:
        shell.enter("ping")
        shell.wait_for(" ms")
        shell.enter("raw on")
        shell.wait_for_prompt()
        request, *others = shell.messages("-->")
        assert (request["jsonrpc"], request["method"]) == ("2.0", method)
        response = shell.messages("<--")[0]
        assert response["id"] == request["id"]
        assert "capabilities" in response["result"]
        if method == "initialize":
            assert others[0]["method"] == "notifications/initialized"
        # The next handshake is shown as it happens, and not again.
        shell.enter("reconnect")
        shell.wait_for("Connected to weather 1.0", count=2)
        assert [each for each in shell.messages("-->") if each["method"] == method] == [request, request]


def test_exit_leaves_the_shell_and_ends_the_server(folder: Path) -> None:
    with open_shell(folder) as shell:
        shell.enter("exit")
        assert shell.end() == 0


# --- the line --------------------------------------------------------------------------------------------------------


def test_names_and_values_are_completed_while_typing(folder: Path) -> None:
    with open_shell(folder) as shell:
        shell.type("call fo")
        shell.wait_for("Return the weather forecast.")
        shell.type(TAB)
        shell.wait_for_line("mcp> call forecast")
        shell.type(" ci")
        shell.wait_for("string, required")
        shell.type(f"{TAB}Ghent un")
        shell.wait_for_line("mcp> call forecast city=Ghent un")
        shell.wait_until(lambda: " unit " in shell.text, "the name of the argument")
        shell.type(f"{TAB}f")
        shell.wait_until(lambda: " fahrenheit " in f"{shell.text} ", "the value of the enum")
        shell.type(TAB)
        shell.wait_for_line("mcp> call forecast city=Ghent unit=fahrenheit")
        shell.type("\r")
        shell.wait_for("Ghent: 3 days of sun in fahrenheit")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("prompt plan city=N", 'mcp> prompt plan city="New York"'),
        ("read weather://city/Gh", "mcp> read weather://city/Ghent"),
    ],
)
def test_values_are_completed_by_the_server(folder: Path, typed: str, completed: str) -> None:
    with open_shell(folder) as shell:
        shell.type(typed)
        # The menu has the value.
        shell.wait_until(lambda: "New York" in shell.text or "city/Ghent" in shell.text, "the value")
        shell.type(TAB)
        shell.wait_for_line(completed)


def test_server_that_does_not_complete_does_not_block_the_line(folder: Path) -> None:
    with open_session(folder) as shell:
        shell.wait_for_prompt()
        shell.type("prompt plan city=slow")
        shell.wait_for("no response to slow")
        shell.type("er way")
        shell.wait_for_line("mcp> prompt plan city=slower way")
        # After the time for completion, the request is cancelled.
        shell.wait_for("the request was cancelled")
        shell.wait_for_line("mcp> prompt plan city=slower way")


def test_line_with_an_open_bracket_continues_on_the_next_one(folder: Path) -> None:
    with open_shell(folder) as shell:
        shell.enter("call area points=[")
        shell.wait_for_line("...>")
        shell.type("  [1, 2],\r")
        shell.wait_until(lambda: shell.text.count("...>") == 2, "a second line")
        shell.type("[3, 4]]\r")
        shell.wait_for('{"result":2}')


def test_history_is_stored_for_the_user_only_and_read_again(folder: Path) -> None:
    file = folder / "state" / "mcp-client" / "shell-history"
    file.parent.mkdir(parents=True)
    file.touch(mode=0o644)
    with open_shell(folder) as shell:
        shell.enter("call area points=[[1],")
        shell.wait_for_line("...>")
        shell.type("[2]]\r")
        shell.enter("exit")
        assert shell.end() == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with open_shell(folder) as shell:
        shell.type(UP)
        shell.wait_for_line("mcp> exit")
        shell.type(UP)
        shell.wait_for_line("...> [2]]")
        assert "mcp> call area points=[[1],\n...> [2]]" in shell.text


def test_history_that_cannot_be_stored_is_reported(folder: Path) -> None:
    (folder / "state").write_text("not a folder")
    with open_shell(folder) as shell:
        assert "The history is not stored: " in shell.text
        shell.enter("ping")
        shell.type(UP)
        shell.wait_for_line("mcp> ping")


def test_long_history_keeps_its_newer_half(folder: Path) -> None:
    file = folder / "state" / "mcp-client" / "shell-history"
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"\n# 2026-01-01\n+help {number:0100}\n" for number in range(12000)))
    before = file.stat().st_size
    with open_shell(folder) as shell:
        shell.type(UP)
        shell.wait_for("11999")
    assert before / 3 < file.stat().st_size < before / 2 + 200


# --- notifications and forms -----------------------------------------------------------------------------------------


def test_notifications_are_shown_above_the_typed_line(folder: Path) -> None:
    with open_session(folder) as shell:
        shell.wait_for_prompt()
        shell.type("prompt plan city=log")
        shell.wait_for("info: first\nThe list of tools has changed.\nmcp> prompt plan city=log")
        shell.wait_for_line("mcp> prompt plan city=log")
        shell.type("s")
        shell.wait_for_line("mcp> prompt plan city=logs")


def test_log_messages_progress_and_changes_are_shown(folder: Path) -> None:
    with open_shell(folder) as shell:
        shell.enter("log info")
        shell.enter("call log")
        shell.wait_for("info: a message")
        shell.enter("subscribe weather://units")
        shell.enter("subscribe")
        shell.wait_for("\nweather://units\n")
        shell.enter("call change")
        shell.wait_for("The resource weather://units has changed.")
        shell.wait_for("The list of tools has changed.")
        shell.wait_for_prompt()
        # Completion knows the new tool.
        shell.type("call vol")
        shell.wait_for("Return the number of points.")
        shell.type(CTRL_C)
        shell.enter("unsubscribe weather://units")
        shell.enter("subscribe")
        shell.wait_for("There are no subscriptions.")


def test_notifications_of_a_fast_server_keep_the_prompt(folder: Path) -> None:
    with open_session(folder) as shell:
        shell.enter("call flood")
        shell.wait_for("info: message 1999")
        shell.wait_for_prompt()


def test_output_above_the_prompt_is_bounded() -> None:
    out = io.StringIO()

    async def write() -> None:
        stream = PromptStream(out)
        stream.attach(lambda: True)
        for _ in range(300):
            stream.write("x" * 1024)
        # The prompt removes itself in a callback of the loop.
        assert out.getvalue() == ""
        while not out.getvalue():
            await trio.lowlevel.checkpoint()

    async def host() -> None:
        await current_guest().run(write)

    asyncio.run(host())
    shown, _, remark = out.getvalue().partition("(")
    assert shown == "x" * 256 * 1024
    assert remark == f"{44 * 1024} characters of output were dropped: the server sends too much.)\n"


def test_form_is_answered_on_the_terminal(folder: Path) -> None:
    with open_shell(folder) as shell:
        shell.enter("call ask")
        shell.wait_for("requests input: Your name?")
        shell.wait_for_line("value:")
        shell.type("Ann\r")
        shell.wait_for_line("Send it? [Y/n, or the name of a field to change it]")
        shell.type("\r")
        shell.wait_for("answer ElicitationAccepted(value='Ann')")
        # An answer is not a line of the shell.
        shell.wait_for_prompt()
        shell.type(UP)
        shell.wait_for_line("mcp> call ask")


def test_form_is_declined_with_ctrl_d(folder: Path) -> None:
    with open_shell(folder) as shell:
        shell.enter("call ask")
        shell.wait_for_line("value:")
        shell.type(CTRL_D)
        shell.wait_for("answer ElicitationDeclined(")


def test_form_that_opens_while_a_line_is_typed_keeps_the_line(folder: Path) -> None:
    with open_session(folder) as shell:
        shell.wait_for_prompt()
        shell.type("prompt plan city=form")
        shell.wait_for("requests input: Which day?")
        shell.wait_for_line("day (optional):")
        shell.type("Monday\r")
        shell.wait_for_line("Send it? [Y/n, or the name of a field to change it]")
        shell.type("\r")
        shell.wait_for('info: the form has {"action": "accept", "content": {"day": "Monday"}}')
        shell.wait_for_line("mcp> prompt plan city=form")


# --- Ctrl-C, lost connections, exit codes ----------------------------------------------------------------------------


def test_ctrl_c_clears_the_line(folder: Path) -> None:
    with open_shell(folder) as shell:
        shell.type("call something")
        shell.wait_for_line("mcp> call something")
        shell.type(CTRL_C)
        shell.enter("ping")
        shell.wait_for(" ms")


def test_ctrl_c_cancels_the_running_call(folder: Path) -> None:
    with open_session(folder) as shell:
        shell.enter("call wait")
        shell.wait_for("info: the tool waits")
        shell.type(CTRL_C)
        shell.wait_for("Cancelled.")
        shell.wait_for("info: the request was cancelled")
        shell.enter("ping")
        shell.wait_for(" ms")


def test_ctrl_c_in_a_form_cancels_the_running_call(folder: Path) -> None:
    with open_shell(folder) as shell:
        shell.enter("call ask")
        shell.wait_for_line("value:")
        shell.type(CTRL_C)
        shell.wait_for("Cancelled.")
        shell.enter("ping")
        shell.wait_for(" ms")


def test_server_that_ends_is_reported_and_connected_again(folder: Path) -> None:
    with open_shell(folder) as shell:
        shell.enter("subscribe weather://units")
        shell.enter("call die")
        shell.wait_for("error: the server process exited with status 3")
        shell.wait_for("last words")
        shell.wait_for("The connection is lost. `reconnect` opens a new one.")
        shell.enter("ping")
        shell.wait_for("error: there is no connection: `reconnect` opens one")
        shell.enter("reconnect")
        shell.wait_for("Connected to weather 1.0", count=2)
        # The subscription is opened again.
        shell.wait_for("Changes of weather://units are shown as they happen.", count=2)
        shell.enter("ping")
        shell.wait_for(" ms")


def test_server_that_cannot_start_again_is_reported(folder: Path) -> None:
    with open_shell(folder) as shell:
        (folder / "weather.py").write_text("raise SystemExit('out of order')")
        shell.enter("reconnect")
        shell.wait_for("out of order")
        shell.enter("ping")
        shell.wait_for("error: there is no connection: `reconnect` opens one")
        (folder / "weather.py").write_text(WEATHER)
        shell.enter("reconnect")
        shell.wait_for("Connected to weather 1.0", count=2)


def test_server_that_does_not_start_ends_the_shell(folder: Path) -> None:
    with ShellTerminal(client("shell", "--", "no-such-server"), folder, environment(folder)) as shell:
        assert shell.end() == 3
        assert "error: " in shell.text


def test_ctrl_c_while_connecting_interrupts_the_shell(folder: Path) -> None:
    (folder / "silent.py").write_text("import sys; print('started', file=sys.stderr, flush=True); sys.stdin.read()")
    command = client("shell", "--stderr", "show", "--", sys.executable, "silent.py")
    with ShellTerminal(command, folder, environment(folder)) as shell:
        shell.wait_for("stderr: started")
        shell.type(CTRL_C)
        assert shell.end() == 130


def test_terminal_is_restored_at_the_end(folder: Path) -> None:
    command = ["sh", "-c", 'before=$(stty -g); "$@"; test "$before" = "$(stty -g)" && echo restored', "sh"]
    shell_command = client("shell", "--", sys.executable, "weather.py")
    with ShellTerminal([*command, *shell_command], folder, environment(folder)) as shell:
        shell.enter("exit")
        shell.wait_for("restored")


def test_shell_without_a_terminal_names_the_other_commands(folder: Path) -> None:
    done = subprocess.run(
        client("shell", "--", sys.executable, "weather.py"), cwd=folder, input="ping\n", capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "error: the shell requires a terminal; without one, run a command for each step: probe, list" in done.stderr


def test_shell_without_prompt_toolkit_names_the_package(folder: Path) -> None:
    (folder / "prompt_toolkit.py").write_text("raise ImportError")
    env = {**environment(folder), "PYTHONPATH": str(folder)}
    with ShellTerminal(client("shell", "--", sys.executable, "weather.py"), folder, env) as shell:
        assert shell.end() == 2
        assert "the shell requires prompt_toolkit: pip install 'trio-mcp-client[cli]'" in shell.text.replace("\n", "")


# --- other servers ---------------------------------------------------------------------------------------------------


def test_shell_explores_a_server_over_http(folder: Path) -> None:
    with (
        http_server(folder) as (server, url),
        ShellTerminal(client("shell", url), folder, environment(folder)) as shell,
    ):
        shell.enter("call forecast city=Ghent")
        shell.wait_for("Ghent: 3 days of sun in celsius")
        shell.enter("call ask")
        shell.wait_for_line("value:")
        shell.type("Ann\r")
        shell.wait_for_line("Send it? [Y/n, or the name of a field to change it]")
        shell.type("\r")
        shell.wait_for("answer ElicitationAccepted(value='Ann')")
        shell.enter("subscribe weather://units")
        shell.enter("call change")
        shell.wait_for("The resource weather://units has changed.")
        shell.wait_for_prompt()
        server.send_signal(signal.SIGKILL)
        server.wait()
        shell.enter("ping")
        shell.wait_for("error: ")
        shell.wait_for_prompt()
        shell.type(CTRL_D)
        assert shell.end() == 0


def test_shell_takes_a_server_from_a_configuration_file(folder: Path) -> None:
    entry = {"command": sys.executable, "args": ["weather.py"]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"weather": entry}}))
    command = client("shell", "--config", "mcp.json", "--server", "weather")
    with ShellTerminal(command, folder, environment(folder)) as shell:
        shell.enter("call ask")
        shell.wait_for("weather requests input: Your name?")


# --- the documentation -----------------------------------------------------------------------------------------------

HOWTO: Final = Path(__file__).resolve().parents[3] / "docs" / "howto"


def test_documented_session_shows_what_the_page_shows(folder: Path) -> None:
    server = re.search(r"```python\n# weather.py\n(.*?)```", (HOWTO / "try-a-server.md").read_text(), re.DOTALL)
    page = re.search(r"```console\n\$ mcp-client (.*?)```", (HOWTO / "explore-a-server.md").read_text(), re.DOTALL)
    assert server is not None
    assert page is not None
    (folder / "weather.py").write_text(server[1])
    words, _, shown = page[1].partition("\n")
    command = client(*(sys.executable if word == "python" else word for word in words.split()))
    with ShellTerminal(command, folder, environment(folder)) as shell:
        for line in re.findall(r"^mcp> (.*)$", shown, re.MULTILINE):
            shell.enter(line)
        assert shell.end() == 0
        assert shell.text == shown.rstrip()
