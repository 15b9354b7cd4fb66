from __future__ import annotations

import base64
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pytest

import mcp_client
from mcp_client.cli import main as cli_main
from mcp_client.cli.config_file import _ask
from mcp_client.cli.forms import _whose
from mcp_client.cli.main import main
from mcp_client.cli.output import Screen
from mcp_client.group import ConfigInput
from mcp_core.jsonrpc.messages import JsonObject, JsonValue

SERVER = r"""
import json, os, sys

FORECAST = {"name": "forecast", "description": "Shows the weather.\nOf tomorrow.", "inputSchema": {
    "type": "object", "required": ["city"], "additionalProperties": False, "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}, "hot": {"type": ["boolean", "null"]},
        "ratio": {"anyOf": [{"type": "number"}, {"type": "null"}]}, "tags": {"type": "array"}, "any": {}}},
    "outputSchema": {"type": "object", "required": ["echo"]}}
PLAIN = {"type": "object"}
FORM = {"type": "object", "required": ["name", "sure"], "properties": {
    "name": {"type": "string", "title": "Your name", "description": "As on the passport."},
    "age": {"type": "integer", "default": 7}, "size": {"type": "number"}, "sure": {"type": "boolean"},
    "color": {"type": "string", "oneOf": [{"const": "red", "title": "Red"}, {"const": "blue", "title": "Blue"}]},
    "fruit": {"type": "array", "items": {"type": "string", "enum": ["apple", "pear"]}}}}
CAPABILITIES = {"tools": {"listChanged": True}, "prompts": {}, "resources": {"subscribe": True}, "logging": {},
    "completions": {}}

def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def ask(method, params):
    send({"id": "q", "method": method, "params": params})
    return json.loads(sys.stdin.readline())

def text(text):
    return {"type": "text", "text": text}

def call(name, arguments, token):
    if name == "forecast":
        for done in (1, 2):
            send({"method": "notifications/progress",
                  "params": {"progressToken": token, "progress": done, "total": 2, "message": "looking"}})
        return {"content": [], "structuredContent": {"echo": arguments}}
    if name == "ask":
        answer = ask("elicitation/create", {"mode": "form", "message": "Who?", "requestedSchema": FORM})
        return {"content": [text(json.dumps(answer["result"]))]}
    if name == "visit":
        url = {"mode": "url", "message": "Sign in", "url": "https://example.com/\x1b[2J", "elicitationId": "1"}
        return {"content": [text(json.dumps(ask("elicitation/create", url)["result"]))]}
    if name in ("sample", "roots"):
        sample = {"maxTokens": 1, "messages": [{"role": "user", "content": text("?")}]}
        answer = ask("sampling/createMessage", sample) if name == "sample" else ask("roots/list", {})
        return {"content": [text(json.dumps(answer["error"]))]}
    if name == "fail":
        return {"content": [text("it is broken")], "isError": True}
    if name == "kinds":
        send({"method": "notifications/message", "params": {"level": "warning", "data": {"a": 1}}})
        send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 5}})
        return {"content": [text("\x1b]0;owned\x07 ok"), {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "!", "mimeType": "audio/wav"}, {"type": "new"},
            {"type": "resource_link", "uri": "a:b", "name": "it"},
            {"type": "resource", "resource": {"uri": "a:b", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "a:c", "blob": "AAAA"}}]}
    if name == "exit":
        print("no more cheese", file=sys.stderr, flush=True)
        os._exit(4)

def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": CAPABILITIES, "instructions": "Be kind.",
                "serverInfo": {"name": "weather", "version": os.environ.get("VERSION", "1")}}
    if method == "tools/list":
        return {"tools": [FORECAST] + [{"name": name, "inputSchema": PLAIN} for name in
                                       ("ask", "visit", "fail", "kinds", "exit", "sample", "roots")]}
    if method == "tools/call":
        return call(params["name"], params.get("arguments", {}), params["_meta"]["progressToken"])
    if method == "resources/list":
        return {"resources": [{"uri": "a:text", "name": "text", "mimeType": "text/plain"}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": [{"uriTemplate": "a:{b}", "name": "all"}]}
    if method == "resources/read" and params["uri"] == "a:text":
        return {"contents": [{"uri": "a:text", "text": "plain"}]}
    if method == "resources/read" and params["uri"] == "a:blob":
        return {"contents": [{"uri": "a:blob", "blob": "/wD+"}]}
    if method == "prompts/list":
        return {"prompts": [{"name": "poem", "arguments": [{"name": "of", "required": True}, {"name": "by"}]}]}
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": text("A poem of " + params["arguments"].get("of", "?"))}]}
    if method == "completion/complete":
        return {"completion": {"values": [params["argument"]["value"] + "nt"], "hasMore": True}}
    if method in ("resources/subscribe", "resources/unsubscribe", "logging/setLevel"):
        return {}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params", {}))
    if result is None:
        send({"id": message["id"], "error": {"code": -32601, "message": "no \x1b[31m" + message["method"]}})
    else:
        send({"id": message["id"], "result": result})
    if message["method"] == "resources/subscribe":
        send({"method": "notifications/resources/updated", "params": {"uri": "a:text"}})
        send({"method": "notifications/tools/list_changed"})
        break
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    path = tmp_path_factory.mktemp("server") / "server.py"
    path.write_text(SERVER)
    return ["--", sys.executable, "-I", "-S", str(path)]


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


class Run(Protocol):
    """A run of the command line in this process, which returns exit code, stdout and stderr."""

    def __call__(self, *words: str, server: Sequence[str] = ...) -> tuple[int, str, str]: ...


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], server: list[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    # Output without `rich`, which has a test of its own.
    monkeypatch.setitem(sys.modules, "rich.console", None)

    def run(*words: str, server: Sequence[str] = server) -> tuple[int, str, str]:
        try:
            code: object = main([*words, *server])
        except SystemExit as stop:
            code = stop.code
        assert isinstance(code, int)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def data(out: str) -> JsonObject:
    value: JsonObject = json.loads(out)
    return value


# --- commands --------------------------------------------------------------------------------------------------------


def test_probe_shows_era_revision_server_and_capabilities(run: Run) -> None:
    code, out, err = run("probe", "--env", "VERSION=7", "--env", "TOKEN=swordfish")
    assert (code, err) == (0, "")
    assert "weather 7" in out
    assert "2025-11-25 (legacy)" in out
    for capability in ("tools, tools.listChanged", "resources, resources.subscribe", "logging"):
        assert capability in out
    assert "Be kind." in out
    assert "TOKEN=***" in out
    assert "swordfish" not in out


def test_probe_json_output(run: Run) -> None:
    code, out, _ = run("probe", "--json", "--revision", "2025-03-26", "--env", "TOKEN=swordfish")
    found = data(out)
    assert code == 0
    assert (found["era"], found["revision"]) == ("legacy", "2025-03-26")
    assert found["server"] == {"name": "weather", "version": "1"}
    assert found["env"] == {"TOKEN": "***"}
    assert isinstance(found["seconds"], float)


def test_list_shows_every_kind(run: Run) -> None:
    code, out, _ = run("list")
    assert code == 0
    for expected in (
        "tools (8)", "forecast  city, [days], [hot], [ratio], [tags], [any]  Shows the weather. Of tomorrow.",
        "resources (1)", "a:text", "resource templates (1)", "a:{b}", "prompts (1)", "poem  of, [by]",
    ):  # fmt: skip
        assert expected in out


@pytest.mark.parametrize("kind", ["tools", "resources", "templates", "prompts"])
def test_list_shows_one_kind(kind: str, run: Run) -> None:
    code, out, _ = run("list", kind, "--json")
    assert code == 0
    assert [*data(out)] == [kind]


def test_call_arguments_typed_by_input_schema(run: Run) -> None:
    words = ["city=12", "days=3.0", "hot=true", "ratio=0.5", "tags=[1]", 'any={"a": 1}']
    code, out, _ = run("call", "forecast", *words, "--json")
    assert code == 0
    echo: JsonObject = {"city": "12", "days": 3, "hot": True, "ratio": 0.5, "tags": [1], "any": {"a": 1}}
    assert data(out)["structuredContent"] == {"echo": echo}
    code, out, _ = run("call", "forecast", "city=", "ratio=null", "any=word")
    assert data(out) == {"echo": {"city": "", "ratio": None, "any": "word"}}
    code, out, _ = run("call", "forecast", "--args", '{"city": "Ghent"}')
    assert data(out) == {"echo": {"city": "Ghent"}}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["forecast", "town=x"], "unknown argument 'town'"),
        (["forecast", "cty=x"], "did you mean 'city'?"),
        (["forecast", "days=many"], "'days' must have the type integer, not 'many'"),
        (["forecast", "tags=1"], "have the type array"),
        (["forecast", "hot=1"], "have the type boolean or null"),
        (["forecast", "city"], "NAME=VALUE, not 'city'"),
        (["forecast", "city=a", "city=b"], "'city' is given more than once"),
        (["forecast", "city=a", "--args", "{}"], "not both"),
        (["forecast", "--args", "{"], "--args is not JSON"),
        (["forecast", "--args", "[]"], "--args must be a JSON object"),
        (["forecats"], "no tool 'forecats' (did you mean 'forecast'?)"),
        (["nothing"], "no tool 'nothing'; known: forecast, ask, visit, fail, kinds, exit, sample, roots"),
        (["forecast", "--timeout", "soon"], "a number of seconds above 0, not 'soon'"),
        (
            ["forecast", "--revision", "2025-11-26"],
            "--revision: unknown value '2025-11-26' (did you mean '2025-11-25'?)",
        ),
        ([], "required: TOOL"),
        (["x\x1by"], r"no tool 'x\x1by'"),
        (["forecast", "--env", "=a"], "--env must have the form"),
        (["forecast", "--timeout", "0"], "--timeout"),
        (["forecast", "--env", "A=\0"], "NUL"),
    ],
)
def test_call_usage_error_explained(words: list[str], complaint: str, run: Run) -> None:
    code, out, err = run("call", *words)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.startswith("mcp-client")
    assert err.count("\n") == 1, "the message is longer than one line"


def test_call_usage_error_json_output(run: Run) -> None:
    code, out, _ = run("call", "forecats", "--json")
    message = "the server has no tool 'forecats' (did you mean 'forecast'?)"
    assert (code, data(out)) == (2, {"error": {"type": "UsageError", "message": message}})


def test_call_tool_error_exits_1(run: Run) -> None:
    code, out, err = run("call", "fail")
    assert (code, out, err) == (1, "it is broken\n", "The tool 'fail' reports an error.\n")
    code, out, err = run("call", "fail", "--json")
    assert (code, data(out)["isError"], err) == (1, True, "")


def test_call_control_characters_escaped(run: Run) -> None:
    code, out, err = run("call", "kinds", "--log-level", "debug")
    assert code == 0
    assert out.splitlines() == [
        r"\x1b]0;owned\x07 ok",
        "[image, image/png, 3 bytes]",
        "[audio, audio/wav, invalid base64]",
        "[new]",
        "[resource a:b, it]",
        "inside",
        "[a:c, binary, 3 bytes]",
    ]
    assert err == "warning: {'a': 1}\n"
    code, out, err = run("call", "forecast", "--stderr", "show", server=["--", "no\x1bsuch"])
    assert code == 3
    assert "\x1b" not in err


def test_read_resource_output(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: list[str]) -> None:
    assert run("read", "a:text")[:2] == (0, "plain\n")
    assert data(run("read", "a:text", "--json")[1])["contents"] == [{"uri": "a:text", "text": "plain"}]
    path = tmp_path / "blob"
    code, out, err = run("read", "a:blob", "--output", str(path))
    assert (code, out, err) == (0, "", f"3 bytes written to {path}\n")
    assert path.read_bytes() == base64.b64decode("/wD+")
    code, out, err = run("read", "a:blob", "--output", str(tmp_path / "no" / "such"))
    assert code == 1
    assert "No such file" in err
    # A terminal gets no binary content.
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert run("read", "a:blob")[0] == 0
    assert terminal.getvalue() == "[a:blob, binary, 3 bytes]\n"


def test_read_blob_to_pipe_unchanged(server: list[str]) -> None:
    command = [sys.executable, "-m", "mcp_client", "read", "a:blob", *server]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"\xff\x00\xfe", b"")


def test_read_server_error_exits_1(run: Run) -> None:
    code, out, err = run("read", "a:none")
    assert (code, out) == (1, "")
    assert err.startswith(r"error: no \x1b[31mresources/read (method resources/read, id ")
    code, out, err = run("read", "a:none", "--json")
    assert data(out)["error"] == {
        "type": "RequestFailed", "message": "no \x1b[31mresources/read", "code": -32601, "data": None,
    }  # fmt: skip


def test_prompt_and_complete_output(run: Run) -> None:
    assert run("prompt", "poem", "of=rain")[:2] == (0, "user: A poem of rain\n")
    assert "messages" in data(run("prompt", "poem", "--json")[1])
    assert run("complete", "poem", "by=Ada", "of=Ghe") == (0, "Ghent\n", "The server has more values.\n")
    assert data(run("complete", "a:{b}", "b=", "--json")[1])["values"] == ["nt"]


def test_listen_shows_changes_until_connection_lost(run: Run) -> None:
    code, out, err = run("listen", "--tools", "--uri", "a:text")
    assert code == 1
    assert out == "resource a:text\ntools\n"
    assert "Listening for changes of: tools, a:text. Press Ctrl-C to stop." in err
    assert "error: the server process exited" in err
    code, out, err = run("listen", "--uri", "a:text", "--json")
    assert data(out.splitlines()[0]) == {"kind": "resource", "uri": "a:text"}
    code, out, err = run("listen", "--prompts")
    assert (code, err) == (1, "The server does not send change notifications of these kinds.\n")


MODERN = r"""
import json, sys
def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "server/discover":
        send({"id": message["id"], "result": {"resultType": "complete", "supportedVersions": ["2026-07-28"],
              "capabilities": CAPABILITIES}})
    elif message["method"] == "subscriptions/listen":
        meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        send({"method": "notifications/subscriptions/acknowledged",
              "params": {"_meta": meta, "notifications": {"toolsListChanged": True}}})
        send({"method": "notifications/tools/list_changed", "params": {"_meta": meta}})
        send({"id": message["id"], "result": {"resultType": "complete", "_meta": meta}})
"""


def modern(capabilities: JsonValue) -> list[str]:
    return ["--", sys.executable, "-I", "-S", "-c", MODERN.replace("CAPABILITIES", repr(capabilities))]


def test_listen_modern_server_ends_subscription_exits_0(run: Run) -> None:
    code, out, err = run("listen", server=modern({"tools": {"listChanged": True}}))
    assert (code, out) == (0, "tools\n")
    assert err.endswith("The server ended the subscription.\n")


def test_list_server_without_features_says_so(run: Run) -> None:
    server = modern({})
    assert run("list", server=server) == (0, "", "The server does not offer tools, resources or prompts.\n")
    code, out, _ = run("probe", server=server)
    assert (code, "capabilities  none" in out, "server        unnamed\n" in out) == (0, True, True)
    code, out, err = run("list", "tools", server=server)
    assert code == 1
    assert "`mcp-client probe` shows what the server offers." in err


# --- without a connection --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "words", "message"),
    [
        (["no-such-program"], [], "it is searched on PATH"),
        ([sys.executable, "-c", "print('hello')"], [], "Run the server manually"),
        ([sys.executable, "-c", "input();input();input()"], ["--timeout", "0.2"], "--timeout SECONDS"),
        ([], ["--revision", "2026-07-28"], "Omit --revision"),
    ],
)
def test_connection_failure_exits_3_with_advice(
    program: list[str], words: list[str], message: str, run: Run, server: list[str]
) -> None:
    command = ["--", *program] if program else server
    code, out, err = run("probe", *words, server=command)
    assert (code, out) == (3, "")
    assert message in err
    code, out, err = run("probe", "--json", *words, server=command)
    assert "error" in data(out)


def test_call_process_exit_shows_stderr_tail(run: Run) -> None:
    code, _, err = run("call", "exit")
    assert code == 1
    assert "exited with status 4" in err
    assert "Last lines of stderr:\nno more cheese" in err
    assert "stderr: no more cheese" in run("call", "exit", "--stderr", "show")[2]


def test_probe_without_server_exits_2(run: Run) -> None:
    code, _, err = run("probe", server=[])
    assert code == 2
    assert "mcp-client probe -- python weather.py" in err
    assert run(server=[])[0] == 2


def test_help_and_version(run: Run) -> None:
    code, out, _ = run("--help", server=[])
    assert code == 0
    assert "exit codes:" in out
    assert run("--version", server=[])[1] == f"mcp-client {mcp_client.__version__}\n"


@pytest.mark.parametrize(
    "words",
    [
        ("--json", "call", "forecast", "city=a", "--timeout", "20"),
        ("--timeout", "20", "--json", "call", "forecast", "city=a"),
        ("--timeout=20", "--env", "A=b", "call", "--json", "forecast", "city=a", "--env", "C=d"),
    ],
)
def test_options_before_command_accepted(words: tuple[str, ...], run: Run) -> None:
    code, out, err = run(*words)
    assert (code, err) == (0, "")
    assert data(out)["structuredContent"] == {"echo": {"city": "a"}}


def test_options_around_command_merged(run: Run) -> None:
    code, out, _ = run("--env", "A=b", "--json", "probe", "--env", "C=d")
    assert (code, data(out)["env"]) == (0, {"A": "***", "C": "***"})


def test_help_before_command_shows_program_help(run: Run) -> None:
    for words in (("--help", "call"), ("--json", "--help"), ("--json", "-h", "call")):
        code, out, _ = run(*words)
        assert code == 0
        assert out.startswith("usage: mcp-client COMMAND")
    assert run("--json", "call", "--help")[1].startswith("usage: mcp-client call")


def test_options_without_command_exits_2(run: Run) -> None:
    for words in (("--json",), ("--timeout",)):
        code, _, err = run(*words)
        assert code == 2
        assert "no command" in err


def test_help_names_rejected_client_requests(run: Run) -> None:
    assert "rejects `sampling/createMessage` and `roots/list`" in run("--help")[1]


def test_sampling_and_roots_rejected_with_missing_capability(run: Run) -> None:
    for tool, path in {"sample": "sampling", "roots": "roots"}.items():
        code, out, _ = run("call", tool)
        assert code == 0
        answer = data(out)
        assert answer["code"] == -32601
        assert f"this client did not declare {path}" in str(answer["message"])


def test_interrupt_exits_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_main, "_run", interrupted)
    assert run("probe")[0] == 130


def test_library_warning_written_to_stderr(run: Run, server: list[str]) -> None:
    noisy = ["--", sys.executable, "-c", f"print('banner\\x1b', flush=True)\nexec(open({server[-1]!r}).read())"]
    code, out, err = run("prompt", "poem", "of=rain", server=noisy)
    assert (code, out) == (0, "user: A poem of rain\n")
    assert "invalid line received" in err
    assert "\x1b" not in err


# --- on a terminal ---------------------------------------------------------------------------------------------------


def on_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, typed: str, *words: str) -> tuple[int, str, str]:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    monkeypatch.setattr(sys, "stderr", terminal)
    code, out, _ = run(*words)
    return code, out, terminal.getvalue()


def test_progress_bar_drawn_and_erased(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, err = on_terminal(run, monkeypatch, "", "call", "forecast", "city=Ghent")
    assert "\r\x1b[K[########################] 100% looking\r\x1b[K" in err
    _, _, err = on_terminal(run, monkeypatch, "", "call", "kinds")
    assert "\r\x1b[K5 " in err


@pytest.mark.spec(
    "elicitation.defaults-prefill",
    "elicitation.clear-purpose",
    "elicitation.accept-form-content",
    "elicitation.accept-content",
    "elicitation.ui-server",
    "elicitation.ui-server-should",
    "elicitation.client-ui-identify-server",
    "elicitation.ui-review",
    "elicitation.ui-review-should",
    "elicitation.client-ui-review",
)
def test_form_prompts_for_each_field(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = "\n  Eve \n\nx\n1.5\nperhaps\nyes\ngreen\nRed\napple, plum\n1, pear\nnane\nYour Name\nAda\n\n"
    code, out, err = on_terminal(run, monkeypatch, typed, "call", "ask")
    content: JsonObject = {
        "name": "Ada", "age": 7, "size": 1.5, "sure": True, "color": "red", "fruit": ["apple", "pear"],
    }  # fmt: skip
    assert (code, data(out)) == (0, {"action": "accept", "content": content})
    assert "\n  Your name: Eve\n" in err
    assert "\n  Your name: Ada\n" in err
    assert err.count("Send it? [Y/n, or the name of a field to change it] ") == 3
    assert err.count("age [7]: ") == 1
    for expected in (
        f"{sys.executable} ",
        " requests input: Who?",
        "As on the passport.",
        "Your name: ",
        "(optional)",
        "1. Red (red)\n  2. Blue (blue)\n  Enter one of these.\n",
        "Enter any of these, with commas between them.",
    ):
        assert expected in err
    for complaint in (
        "a value is required",
        "enter a number",
        "enter yes or no",
        "'green' is not one of: Red (red), Blue (blue)",
        "'plum' is not one of: apple, pear",
        "there is no field 'nane' (did you mean 'name'?)",
    ):
        assert complaint in err


@pytest.mark.spec(
    "elicitation.ui-decline",
    "elicitation.ui-decline-should",
    "elicitation.client-ui-decline",
    "elicitation.allow-decline",
    "elicitation.decline-no-content",
    "mrtr.decline-is-an-answer",
)
def test_form_end_of_input_declines(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = on_terminal(run, monkeypatch, "Ada\n12\n", "call", "ask")
    assert data(out) == {"action": "decline"}


@pytest.mark.spec("elicitation.ui-decline", "elicitation.allow-decline", "elicitation.client-ui-decline")
def test_form_completed_then_declined(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = "Ada\n\n1\nyes\nred\napple\nn\n"
    _, out, err = on_terminal(run, monkeypatch, typed, "call", "ask")
    assert data(out) == {"action": "decline"}
    assert "To be sent:" in err


@pytest.mark.spec(
    "elicitation.ui-url-host",
    "elicitation.client-ui-domain",
    "elicitation.show-full-url",
    "elicitation.url-show-full",
    "elicitation.no-open-without-consent",
    "elicitation.url-no-open-without-consent",
    "elicitation.client-url-care",
    "elicitation.url-careful",
    "elicitation.result-action",
    "elicitation.url-accept-no-content",
    "elicitation.accept-url-no-content",
    "elicitation.ui-decline",
    "elicitation.open-securely",
    "elicitation.url-secure-open",
)
@pytest.mark.parametrize(
    ("typed", "action"), [("y\n", "accept"), ("\n", "decline"), ("what\n", "decline"), ("", "cancel")]
)
def test_url_elicitation_shown_and_accepted_by_consent(
    typed: str, action: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, err = on_terminal(run, monkeypatch, typed, "call", "visit")
    assert data(out) == {"action": action}
    assert r"https://example.com/\x1b[2J" in err


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com:8443/pay?id=1", "  Host: example.com"),
        (
            "https://xn--pple-43d.example/",
            "  Host: xn--pple-43d.example\n  Warning: the host name contains letters that may look like others.",
        ),
        (
            "https://\u0430pple.example/",
            "  Host: \u0430pple.example\n  Warning: the host name contains letters that may look like others.",
        ),
        (
            "https://bank.example@evil.example/",
            "  Host: evil.example\n  Warning: the text before the @ is not the host.",
        ),
        ("http://example.com/", "  Host: example.com\n  Warning: the connection is not encrypted (http)."),
        ("javascript:alert(1)", "  The URL does not have a host."),
        ("https://[::1", "  This is not a valid URL."),
    ],
)
@pytest.mark.spec("elicitation.highlight-domain", "elicitation.warn-suspicious", "elicitation.url-highlight-domain")
def test_elicitation_url_host_shown_with_warnings(url: str, shown: str) -> None:
    assert _whose(url) == shown


# --- output ----------------------------------------------------------------------------------------------------------


def test_rich_table_control_characters_escaped() -> None:
    out = Terminal()
    Screen(out=out, err=io.StringIO()).table("things", ["a", "b"], [["[bold]x", "\x1b[2J"], ["y" * 90, "two\nlines"]])
    shown = out.getvalue()
    assert "[bold]x" in shown
    assert r"\x1b[2J" in shown
    assert "\x1b[2J" not in shown
    assert "two..." in shown


def test_unencodable_characters_escaped() -> None:
    buffer = io.BytesIO()
    out = io.TextIOWrapper(buffer, encoding="ascii")
    Screen(out=out).text("caf\u00e9 \u202e \u00a0")
    assert buffer.getvalue() == b"caf\\xe9 \\u202e \\xa0\n"


# --- servers of a configuration file ---------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path, server: list[str]) -> Path:
    path = tmp_path / "mcp.json"
    command, *args = server[1:]
    weather = {"command": command, "args": args, "revisions": "2025-06-18"}
    servers = {
        "weather": weather,
        "keyed": {**weather, "args": [*args, "${input:key}"]},
        "unset": {"command": "${NO_SUCH_VARIABLE}"},
        "off": {"command": "x", "disabled": True},
    }
    path.write_text(json.dumps({"inputs": [{"id": "key", "description": "Key", "password": True}], "servers": servers}))
    return path


def test_config_server_used_with_its_revision(run: Run, config: Path) -> None:
    code, out, err = run("probe", "--json", "--config", str(config), "--server", "weather", server=[])
    assert (code, data(out)["revision"], err) == (0, "2025-06-18", "")
    code, out, err = run("--config", str(config), "--server", "weather", "--revision", "2025-03-26", "probe", server=[])
    assert (code, err) == (0, "")
    assert "2025-03-26" in out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--config", "{}"], "choose a server with --server NAME: weather, keyed, unset, off"),
        (["--config", "{}", "--server", "wether"], "no server 'wether' (did you mean 'weather'?)"),
        (
            ["--config", "{}", "--server", "unset"],
            "server 'unset': command: the environment variable NO_SUCH_VARIABLE is",
        ),
        (["--config", "{}", "--server", "keyed"], "No terminal to prompt for 'Key'."),
        (["--config", "{}", "--server", "off"], "server 'off' is disabled"),
        (["--config", "{}", "--server", "weather", "--header", "A: b"], "--header requires a server with a URL"),
        (["--config", "{}", "--server", "weather", "--", "x"], "both --config and a URL or command name a server"),
        (["--config", "no-such-file", "--server", "x"], "No such file"),
        (["--server", "weather", "--", "x"], "--server requires --config FILE"),
    ],
)
def test_config_server_unusable_exits_2(run: Run, config: Path, words: list[str], complaint: str) -> None:
    code, out, err = run("probe", *[word.replace("{}", str(config)) for word in words], server=[])
    assert (code, out) == (2, "")
    assert complaint in err


def test_config_single_server_needs_no_name(run: Run, config: Path) -> None:
    content = json.loads(config.read_text())
    content["servers"] = {"weather": content["servers"]["weather"]}
    config.write_text(json.dumps(content))
    assert run("probe", "--config", str(config), server=[])[0] == 0


def test_config_input_prompted_on_terminal(run: Run, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts: list[str] = []

    def answer(prompt: str, stream: object = None) -> str:
        prompts.append(prompt)
        return "secret"

    monkeypatch.setattr("getpass.getpass", answer)
    monkeypatch.setattr(Screen, "interactive", True)
    assert run("probe", "--config", str(config), "--server", "keyed", server=[])[0] == 0
    assert prompts == ["Key: "]


@pytest.mark.parametrize(("typed", "value"), [("b\n", "b"), ("\n", "a"), ("", None)])
def test_config_input_with_options_and_default_prompted(
    typed: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    monkeypatch.setattr(Screen, "interactive", True)
    config_input = ConfigInput(id="which", options=("a", "b"), default="a")
    assert _ask(config_input, Screen(err=terminal)) == value
    assert terminal.getvalue() == "which (a, b) [a]: "
