from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import AuthConfig, ConfigError, ServerConfig, read_config

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["command", "args", "env", "url", "type", "headers", "auth", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


def one(entry: object, **environ: str) -> ServerConfig:
    (server,) = read_config({"mcpServers": {"it": entry}}, environ=environ).values()  # type: ignore[dict-item]  # JSON
    return server


def test_a_process_and_an_endpoint_are_read(tmp_path: Path) -> None:
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


def test_secrets_are_not_shown() -> None:
    shown = repr(one({"command": "x", "env": {"KEY": "hunter2"}})) + repr(
        one({"url": "https://x.example", "headers": {"Authorization": "hunter2"}})
    )
    assert "hunter2" not in shown
    assert "KEY" in shown


def test_the_servers_of_visual_studio_code_are_found() -> None:
    assert list(read_config({"servers": {"a": {"command": "x"}}})) == ["a"]


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ([], "server 'it' has to be an object, not a list"),
        ({}, "server 'it' has neither 'command' nor 'url'"),
        ({"command": "x", "url": "https://x.example"}, "has both a command and a URL"),
        ({"command": ""}, "command has to be a text, not an empty one"),
        ({"command": ["x"]}, "command has to be a text, not a list"),
        ({"command": "x", "args": "y"}, "args has to be a list of texts, not a text"),
        ({"command": "x", "args": ["y", 1]}, r"args\[1\] has to be a text, not a number"),
        ({"command": "x", "env": []}, "env has to be an object with texts, not a list"),
        ({"command": "x", "env": {"A": True}}, "env.A has to be a text, not a truth value"),
        ({"command": "${MISSING}"}, "command: the environment variable MISSING is not set"),
        ({"command": "${input:key}"}, r"command: \$\{input:key\} is not understood"),
        ({"command": "x", "type": "ws"}, "has the type 'ws'; known are"),
        ({"command": "x", "type": "http"}, "is of type 'http', which needs 'url'"),
        ({"url": "https://x.example", "type": "stdio"}, "is of type 'stdio', which needs 'command'"),
    ],
)
def test_what_is_wrong_is_named(entry: object, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        one(entry)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is no JSON"),
        ("[]", "has to be an object with 'mcpServers', not a list"),
        ('{"other": 1}', "has no 'mcpServers'; it has 'other'"),
        ("{}", "has no 'mcpServers'; it has nothing"),
        ('{"mcpServers": null}', "mcpServers has to be an object with the servers by their names, not null"),
        (" " * ((1 << 20) + 1), "has 1048577 bytes; a configuration has at most 1048576"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint) as caught:
        read_config(path)
    assert str(path) in caught.value.message


@pytest.mark.property
@given(JSON)
def test_anything_else_is_read_or_refused(value: object) -> None:
    try:
        servers = read_config({"mcpServers": {"it": value}}, environ={})  # type: ignore[dict-item]  # JSON
    except ConfigError:
        return
    assert servers["it"].disabled or bool(servers["it"].command) != bool(servers["it"].url)


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
def test_what_is_known_for_the_authorization_is_read(member: str, auth: object, read: AuthConfig | None) -> None:
    server = one({"url": "https://notes.example/mcp", member: auth}, B="b")
    assert server.auth == read
    assert server.notes == ()


def test_the_secret_of_a_client_is_not_shown() -> None:
    server = one({"url": "https://notes.example/mcp", "auth": {"clientId": "c", "clientSecret": "hush"}})
    assert server.auth is not None
    assert "hush" not in repr(server)
    assert "client_secret=None" in repr(AuthConfig())


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"url": "https://x.example", "auth": "me"}, "auth has to be an object, not a text"),
        ({"url": "https://x.example", "oauth": {"scopes": 1}}, "scopes has to be a list of texts, not a number"),
        ({"command": "x", "auth": {}}, "auth is for servers that have a URL"),
    ],
)
def test_what_is_wrong_with_the_authorization_is_named(entry: object, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        one(entry)
