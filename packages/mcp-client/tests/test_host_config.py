from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client.config import _without_comments
from mcp_client.group import AuthConfig, ConfigError, ConfigInput, ServerConfig, read_config
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.revisions import R2025_03_26, R2025_06_18

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["command", "args", "env", "url", "type", "headers", "auth", "revisions", "envFile", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def read_entry(entry: object, **environ: str) -> ServerConfig:
    (server,) = read_config({"mcpServers": {"it": entry}}, environ=environ).values()  # type: ignore[dict-item]  # JSON
    return server


def problem_of(entry: object) -> str:
    server = read_entry(entry)
    assert server.disabled
    assert server.problem is not None
    return server.problem


def test_config_command_and_url_servers_read(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(
        json.dumps(
            {
                "mcpServers": {
                    "weather": {
                        "command": "weather",
                        "args": ["--key", "${KEY}"],
                        "env": {"A": "${env:A}"},
                        "cwd": "/x",
                    },
                    "notes": {
                        "type": "http",
                        "url": "https://${HOST:-notes.example}/mcp",
                        "headers": {"Authorization": "Bearer ${TOKEN}"},
                        "autoApprove": [],
                    },
                    "off": {"command": "${NEVER}", "disabled": True},
                }
            }
        )
    )
    servers = read_config(path, environ={"KEY": "k", "A": "a", "TOKEN": "t"})
    assert servers == {
        "weather": ServerConfig(name="weather", command=("weather", "--key", "k"), env={"A": "a"}, cwd="/x"),
        "notes": ServerConfig(
            name="notes",
            url="https://notes.example/mcp",
            headers={"Authorization": "Bearer t"},
            notes=("'autoApprove' is not understood",),
        ),
        "off": ServerConfig(name="off", disabled=True),
    }


def test_config_repr_hides_secrets() -> None:
    shown = repr(read_entry({"command": "x", "env": {"KEY": "hunter2"}})) + repr(
        read_entry({"url": "https://x.example", "headers": {"Authorization": "hunter2"}})
    )
    assert "hunter2" not in shown
    assert "KEY" in shown


def test_config_servers_key_read() -> None:
    assert list(read_config({"servers": {"a": {"command": "x"}}})) == ["a"]
    assert list(read_config({"context_servers": {"a": {"source": "custom", "command": "x"}}})) == ["a"]


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ([], "server 'it' is a list, not an object"),
        ({}, "server 'it' has neither 'command' nor 'url'"),
        ({"command": "x", "url": "https://x.example"}, "has both a command and a URL"),
        ({"command": ""}, "command must be a string, not an empty one"),
        ({"command": ["x"]}, "command must be a string, not a list"),
        ({"command": "x", "args": "y"}, "args must be a list of strings, not a string"),
        ({"command": "x", "args": ["y", []]}, r"args\[1\] must be a string, not a list"),
        ({"command": "x", "env": []}, "env must be an object with strings, not a list"),
        ({"command": "x", "env": {"A": {}}}, "env.A must be a string, not an object"),
        ({"command": "${MISSING}"}, "command: the environment variable MISSING is not set"),
        ({"command": "${input:key}"}, r"command: \$\{input:key\} has no value; pass inputs= a function"),
        ({"command": "${workspaceFolder}/x"}, r"command: \$\{workspaceFolder\} has no value; pass workspace_folder="),
        ({"command": "${command:pick}"}, r"command: \$\{command:pick\} is not understood"),
        ({"command": "${1:-hush}"}, r"command: \$\{1\} is not understood"),
        ({"command": "x", "envFile": "/no/such/file"}, "envFile: '/no/such/file' cannot be read: No such file"),
        ({"command": "x", "envFile": "a\0b"}, "envFile: .* cannot be read: "),
        ({"command": "x", "revisions": "2025-01-01"}, "revisions has '2025-01-01'; known are 2024-11-05, "),
        ({"command": "x", "revisions": []}, "revisions is empty; known are "),
        ({"command": "x", "revisions": {}}, "revisions must be a list of strings, not an object"),
        ({"command": "x", "type": "ws"}, "has the type 'ws'; known are"),
        ({"command": "x", "type": "http"}, "is of type 'http', which needs 'url'"),
        ({"url": "https://x.example", "type": "stdio"}, "is of type 'stdio', which needs 'command'"),
    ],
)
def test_config_invalid_entry_reported(entry: object, complaint: str) -> None:
    assert re.search(complaint, problem_of(entry))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not valid JSON"),
        ("[]", "must be an object with 'mcpServers', not a list"),
        ('{"other": 1}', "has no 'mcpServers'; it has 'other'"),
        ("{}", "has no 'mcpServers'; it has nothing"),
        ('{"mcpServers": null}', "mcpServers must be an object with the servers by name, not null"),
        ('{"mcp": {"servers": []}}', r"mcp\.servers must be an object with the servers by name, not a list"),
        ('{"mcp": {}}', "has no 'mcpServers'; it has 'mcp'"),
        ('{"mcp": 1}', "has no 'mcpServers'; it has 'mcp'"),
        ("// nothing", "is not valid JSON"),
        ('{"a": 1} /* open', "has no 'mcpServers'; it has 'a'"),
        (" " * ((1 << 20) + 1), "has 1048577 bytes; a configuration has at most 1048576"),
    ],
)
def test_config_invalid_file_raises(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint) as caught:
        read_config(path)
    assert str(path) in caught.value.message


@pytest.mark.property
@given(JSON)
def test_config_any_entry_read_or_disabled(value: object) -> None:
    server = read_entry(value)
    assert server.disabled or bool(server.command) != bool(server.url)
    assert server.disabled or server.problem is None


@pytest.mark.parametrize(
    ("auth", "read"),
    [
        ({}, AuthConfig()),
        ({"clientId": "c", "scopes": ["a", "${B}"]}, AuthConfig(client_id="c", scopes=("a", "b"))),
        ({"CLIENT_ID": "c", "CLIENT_SECRET": "${B}"}, AuthConfig(client_id="c", client_secret="b")),
        ({"client_id": "c", "scopes": "a  b"}, AuthConfig(client_id="c", scopes=("a", "b"))),
        (None, None),
    ],
)
@pytest.mark.parametrize("member", ["auth", "oauth"])
def test_config_auth_read(member: str, auth: object, read: AuthConfig | None) -> None:
    server = read_entry({"url": "https://notes.example/mcp", member: auth}, B="b")
    assert server.auth == read
    assert server.notes == ()


def test_config_auth_repr_hides_client_secret() -> None:
    server = read_entry({"url": "https://notes.example/mcp", "auth": {"clientId": "c", "clientSecret": "hush"}})
    assert server.auth is not None
    assert "hush" not in repr(server)
    assert "client_secret=None" in repr(AuthConfig())


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"url": "https://x.example", "auth": "me"}, "auth must be an object, not a string"),
        ({"url": "https://x.example", "oauth": {"scopes": 1}}, "scopes must be a list of strings, not a number"),
        ({"command": "x", "auth": {}}, "auth requires a URL"),
    ],
)
def test_config_auth_invalid_reported(entry: object, complaint: str) -> None:
    assert re.search(complaint, problem_of(entry))


# --- the forms of applications ---------------------------------------------------------------------------------------


def test_config_unusable_entry_disables_only_that_server(caplog: pytest.LogCaptureFixture) -> None:
    config: JsonObject = {"mcpServers": {"bad": {"args": []}, "unset": {"command": "${NO}"}, "good": {"command": "x"}}}
    servers = read_config(config, environ={})
    assert list(servers) == ["bad", "unset", "good"]
    assert servers["good"] == ServerConfig(name="good", command=("x",))
    assert servers["bad"].disabled
    assert "server 'bad' has neither 'command' nor 'url'" in (servers["bad"].problem or "")
    assert "NO is not set; set it, or pass it in environ=" in (servers["unset"].problem or "")
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert logged == [f"server disabled: {servers[name].problem}" for name in ("bad", "unset")]


FORMS: Mapping[str, tuple[JsonObject, ServerConfig]] = {
    "Claude Desktop": (
        {"mcpServers": {"it": {"command": "npx", "args": ["-y", "files"], "env": {"A": "1"}}}, "preferences": {}},
        ServerConfig(name="it", command=("npx", "-y", "files"), env={"A": "1"}),
    ),
    "Claude Code": (
        {
            "mcpServers": {
                "it": {"type": "http", "url": "${BASE:-https://x.example}/mcp", "headers": {"K": "Bearer ${KEY:-none}"}}
            }
        },
        ServerConfig(name="it", url="https://x.example/mcp", headers={"K": "Bearer none"}),
    ),
    "VS Code, mcp.json": (
        {"inputs": [], "servers": {"it": {"type": "stdio", "command": "${userHome}${/}x", "env": {"A": 1, "B": None}}}},
        ServerConfig(name="it", command=(f"{os.path.expanduser('~')}{os.sep}x",), env={"A": "1"}),
    ),
    "VS Code, settings.json": (
        {"editor.fontSize": 12, "mcp": {"inputs": [], "servers": {"it": {"command": "x"}}}},
        ServerConfig(name="it", command=("x",)),
    ),
    "Cursor": (
        {"mcpServers": {"it": {"command": "${workspaceFolder}/x", "args": ["${workspaceFolderBasename}"]}}},
        ServerConfig(name="it", command=("/srv/place/x", "place")),
    ),
    "Gemini CLI": (
        {"mcpServers": {"it": {"httpUrl": "https://x.example/mcp"}}, "theme": "Default"},
        ServerConfig(name="it", url="https://x.example/mcp"),
    ),
    "Gemini CLI, both URLs": (
        {"mcpServers": {"it": {"url": "https://x.example/sse", "httpUrl": "https://x.example/mcp"}}},
        ServerConfig(name="it", url="https://x.example/mcp"),
    ),
    "Windsurf": (
        {"mcpServers": {"it": {"serverUrl": "https://x.example/mcp"}}},
        ServerConfig(name="it", url="https://x.example/mcp"),
    ),
    "numbers": (
        {
            "mcpServers": {
                "it": {"command": "x", "args": ["-p", 80], "env": {"A": 1.5, "B": 2.0, "C": True, "D": False}}
            }
        },
        ServerConfig(name="it", command=("x", "-p", "80"), env={"A": "1.5", "B": "2", "C": "true", "D": "false"}),
    ),
    "not enabled": (
        {"mcpServers": {"it": {"command": "${NEVER}", "enabled": False}}},
        ServerConfig(name="it", disabled=True),
    ),
}


@pytest.mark.parametrize(("config", "server"), FORMS.values(), ids=FORMS)
def test_config_form_of_application_read(config: JsonObject, server: ServerConfig) -> None:
    assert read_config(config, environ={}, workspace_folder="/srv/place/") == {"it": server}


def test_config_comments_and_trailing_commas_accepted(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    text = """\ufeff{
        // the servers
        "mcpServers": {
            "a": {"command": "//x", "args": ["/*", "*/", "\\"//", ",]",], /* "cwd": "/", */},
        },
    }"""
    path.write_text(text, encoding="utf-8")
    assert read_config(path) == {"a": ServerConfig(name="a", command=("//x", "/*", "*/", '"//', ",]"))}


@pytest.mark.property
@given(JSON, st.sampled_from(["//,]\n", "/* } */", " ", "\n"]))
def test_config_comments_ignored(value: JsonValue, blank: str) -> None:
    text = json.dumps(value, separators=(f"{blank},{blank}", f"{blank}:{blank}"))
    assert json.loads(_without_comments(f"{blank}{text}{blank}")) == value


def test_config_input_requested_once_for_enabled_servers() -> None:
    requested: list[ConfigInput] = []

    def get_input(config_input: ConfigInput) -> str | None:
        requested.append(config_input)
        return {"key": "secret", "choice": "b"}.get(config_input.id)

    declared: JsonValue = [
        {"type": "promptString", "id": "key", "description": "The key", "password": True, "default": 7},
        {"type": "pickString", "id": "choice", "options": ["a", {"label": "B", "value": "b"}, []]},
        {"type": "command"},
        "nonsense",
    ]
    config: JsonObject = {
        "inputs": declared,
        "servers": {
            "first": {"command": "x", "args": ["${input:key}", "${input:choice}"], "env": {"K": "${input:key}"}},
            "second": {"url": "https://x.example", "headers": {"K": "${input:key}"}},
            "off": {"command": "${input:never}", "disabled": True},
            "without": {"command": "x", "env": {"A": "${input:other}"}},
        },
    }
    servers = read_config(config, environ={}, inputs=get_input)
    assert servers["first"].command == ("x", "secret", "b")
    assert servers["first"].env == {"K": "secret"}
    assert servers["second"].headers == {"K": "secret"}
    assert "env.A: ${input:other} has no value; the function inputs= returned None" in (
        servers["without"].problem or ""
    )
    assert requested == [
        ConfigInput(id="key", description="The key", password=True, default="7"),
        ConfigInput(id="choice", options=("a", "b")),
        ConfigInput(id="other"),
    ]


def test_config_variable_value_not_expanded_again() -> None:
    assert read_entry({"command": "${A}"}, A="${B}", B="b").command == ("${B}",)


def test_config_env_overrides_env_file(tmp_path: Path) -> None:
    (tmp_path / "some.env").write_text(
        "# a comment\n\nexport A=1\nB = two words # not this\nC=\"x # y\" # z\nD='$A'\nE=\nnonsense\nF=a#b\n"
    )
    entry: JsonObject = {"command": "x", "envFile": "some.env", "env": {"A": "mine"}}
    server = read_config({"servers": {"it": entry}}, environ={}, workspace_folder=tmp_path)["it"]
    assert server.env == {"A": "mine", "B": "two words", "C": "x # y", "D": "$A", "E": "", "F": "a#b"}
    assert "two words" not in repr(server)
    large = tmp_path / "large.env"
    large.write_bytes(b" " * ((1 << 20) + 1))
    assert "has more than 1048576 bytes" in problem_of({"command": "x", "envFile": str(large)})


@pytest.mark.parametrize("revisions", ["2025-06-18", ["2025-06-18"]])
def test_config_revisions_read(revisions: JsonValue) -> None:
    assert read_entry({"command": "x", "revisions": revisions}).revisions == (R2025_06_18,)
    assert read_entry({"command": "x", "revisions": ["2025-06-18", "2025-03-26"]}).revisions == (
        R2025_03_26,
        R2025_06_18,
    )
    assert read_entry({"command": "x"}).revisions is None
