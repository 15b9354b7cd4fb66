"""No command passes control characters from a server to the terminal."""

from __future__ import annotations

import json
import sys
import unicodedata
from pathlib import Path

import pytest

from mcp_client.cli.commands import COMMANDS
from mcp_client.cli.main import main
from mcp_core.jsonrpc.messages import JsonValue

# Sets the title, sets a color by the one-character form of CSI, deletes, and reverses the direction of writing.
EVIL = "\x1b]0;owned\x07\x9b31m\x7f\u202eevil\u2066"

SERVER = r"""
import json, sys
EVIL = "\x1b]0;owned\x07\x9b31m\x7f\u202eevil\u2066"
TEXT = {"type": "text", "text": EVIL}
CAPABILITIES = {"tools": {"listChanged": True}, "prompts": {}, "resources": {"subscribe": True}, "logging": {},
    "completions": {}, EVIL: {EVIL: True}}
FORM = {"type": "object", "required": [], "properties": {EVIL: {"type": "string", "title": EVIL, "description": EVIL}}}

def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()

def answer(method):
    return {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "instructions": EVIL,
            "serverInfo": {"name": EVIL, "version": EVIL}},
        "logging/setLevel": {},
        "resources/subscribe": {},
        "tools/list": {"tools": [{"name": "evil", "description": EVIL, "inputSchema": {"type": "object",
            "required": [EVIL], "properties": {EVIL: {}}}}]},
        "tools/call": {"content": [TEXT, {"type": EVIL}, {"type": "image", "mimeType": EVIL, "data": "AAAA"},
            {"type": "resource_link", "uri": "a:" + EVIL, "name": EVIL},
            {"type": "resource", "resource": {"uri": EVIL, "blob": "AAAA", "mimeType": EVIL}}], "isError": True},
        "resources/list": {"resources": [{"uri": EVIL, "name": EVIL, "mimeType": EVIL}]},
        "resources/templates/list": {"resourceTemplates": [{"uriTemplate": EVIL, "name": EVIL}]},
        "resources/read": {"contents": [{"uri": EVIL, "text": EVIL}]},
        "prompts/list": {"prompts": [{"name": EVIL, "arguments": [{"name": EVIL}]}]},
        "prompts/get": {"messages": [{"role": "user", "content": TEXT}]},
        "completion/complete": {"completion": {"values": [EVIL], "hasMore": True}},
    }.get(method)

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    sys.stderr.write(EVIL + "\n")
    sys.stderr.flush()
    method, id = message["method"], message["id"]
    if method == "ping":
        send({"id": id, "result": {}})
        continue
    if method not in ("initialize", "server/discover", "logging/setLevel"):
        token = message.get("params", {}).get("_meta", {}).get("progressToken")
        if token is not None:
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "message": EVIL}})
        send({"method": "notifications/message", "params": {"level": "error", "data": EVIL, "logger": EVIL}})
        send({"method": "notifications/message", "params": {"level": "error", "data": {EVIL: EVIL}}})
        send({"id": "q", "method": "elicitation/create", "params": {"message": EVIL, "requestedSchema": FORM}})
    result = answer(method)
    if result is None or "missing" in line:
        send({"id": id, "error": {"code": -32601, "message": EVIL, "data": EVIL}})
    else:
        send({"id": id, "result": result})
    if method == "resources/subscribe":
        send({"method": "notifications/resources/updated", "params": {"uri": "a:x/" + EVIL}})
        break
"""

WORDS = {
    "probe": (["probe"],),
    "list": (["list"],),
    "call": (["call", "evil"], ["call", "missing"]),
    "read": (["read", "a:x"], ["read", "a:missing"]),
    "prompt": (["prompt", "p"], ["prompt", "missing"]),
    "complete": (["complete", "p", "a"], ["complete", "missing", "a"]),
    "listen": (["listen", "--uri", "a:x"],),
}


def harmless(text: str) -> bool:
    """Return whether a terminal shows the text without acting on it."""
    return all(each in "\n\t" or unicodedata.category(each) not in {"Cc", "Cf", "Cs"} for each in text)


def test_table_has_every_command() -> None:
    assert set(WORDS) == set(COMMANDS)
    assert not harmless(EVIL)


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "rich"])
@pytest.mark.parametrize("json_output", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("words", [each for many in WORDS.values() for each in many], ids=" ".join)
def test_command_output_has_no_control_characters(
    words: list[str],
    json_output: bool,
    plain: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    if plain:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    options = ["--log-level", "debug", "--stderr", "show", *(["--json"] if json_output else [])]
    main([*words, *options, "--", sys.executable, "-I", "-S", str(path)])
    captured = capsys.readouterr()
    assert "evil" in captured.out + captured.err
    assert harmless(captured.out), captured.out
    assert harmless(captured.err), captured.err


def test_json_output_keeps_server_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    assert main(["read", "a:x", "--json", "--", sys.executable, "-I", "-S", str(path)]) == 0
    read: dict[str, list[dict[str, JsonValue]]] = json.loads(capsys.readouterr().out)
    assert read["contents"][0]["text"] == EVIL
