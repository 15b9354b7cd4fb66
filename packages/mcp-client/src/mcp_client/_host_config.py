"""The `mcpServers` JSON in which applications write down their servers, as it is found in the field.

    {"mcpServers": {"weather": {"command": "weather-server", "env": {"KEY": "${WEATHER_KEY}"}},
                    "notes": {"type": "http", "url": "https://notes.example/mcp"}}}

There is no specification of it. Members that are not known are left alone and named in a note, so that a file which was
written for another application can be used.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import orjson

from mcp_core.errors import McpError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["AuthConfig", "ConfigError", "ServerConfig", "read_config"]

_ROOTS: Final = ("mcpServers", "servers")
"""Where the servers are; the second is that of VS Code."""

_STDIO: Final = frozenset({"stdio", "local"})
_HTTP: Final = frozenset({"http", "sse", "streamable-http", "streamableHttp", "streamable_http", "remote"})

_KNOWN: Final = frozenset(
    {"type", "transport", "command", "args", "env", "cwd", "url", "serverUrl", "headers", "disabled", "auth", "oauth"}
)

_AUTH: Final = {
    "client_id": ("clientId", "CLIENT_ID", "client_id"),
    "client_secret": ("clientSecret", "CLIENT_SECRET", "client_secret"),
}
"""How applications call them."""

_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_PLAIN: Final = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)

_BYTES: Final = 1 << 20


class ConfigError(McpError):
    """A configuration cannot be used. The message names the server and the member."""


def _masked(values: Mapping[str, str]) -> str:
    return repr(dict.fromkeys(values, "***"))


@attrs.frozen(kw_only=True)
class AuthConfig:
    """What is written down for the authorization at one server."""

    client_id: str | None = None
    """The client's id at the authorization server; `None`: it is found another way."""
    client_secret: str | None = attrs.field(default=None, repr=lambda secret: "None" if secret is None else "***")
    """Its secret there."""
    scopes: tuple[str, ...] | None = None
    """What to ask for where the server does not say."""


@attrs.frozen(kw_only=True)
class ServerConfig:
    """How to get at one server. Either `command` or `url` is given."""

    name: str
    """What it is called here."""
    command: tuple[str, ...] = ()
    """The program and its arguments; no shell is involved."""
    env: Mapping[str, str] = attrs.field(factory=dict, repr=_masked)
    """Environment variables of the process."""
    cwd: str | None = None
    """Its working directory."""
    url: str | None = None
    """Its endpoint."""
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=_masked)
    """Headers of each request."""
    auth: AuthConfig | None = None
    """What is known for the authorization there; only with a URL."""
    disabled: bool = False
    """It is written down, and not to be used."""
    notes: tuple[str, ...] = ()
    """What was not understood."""


def read_config(
    source: str | os.PathLike[str] | Mapping[str, JsonValue], *, environ: Mapping[str, str] | None = None
) -> dict[str, ServerConfig]:
    """Reads the servers of an application.

    `${NAME}`, `${NAME:-default}` and `${env:NAME}` stand for environment variables, in every text.

    Args:
        source: The path of a JSON file, or its content as an object: with `mcpServers` or `servers` in it.
        environ: The variables; those of this process by default.

    Returns:
        The servers by their names, in the order of the file, disabled ones included.

    Raises:
        ConfigError: It is no such file; or a server has neither a command nor a URL, or both; or a variable is not set.
        OSError: The file cannot be read.
    """
    if isinstance(source, (str, os.PathLike)):
        where = str(os.fspath(source))
        content = _parsed(Path(source), where)
    else:
        where, content = "the configuration", dict(source)
    root = next((name for name in _ROOTS if name in content), None)
    if root is None:
        raise ConfigError(f"{where} has no 'mcpServers'; it has {', '.join(map(repr, content)) or 'nothing'}")
    servers = content[root]
    if not isinstance(servers, dict):
        raise ConfigError(f"{where}: {root} has to be an object with the servers by their names, not {_kind(servers)}")
    variables = os.environ if environ is None else environ
    return {
        name: _Reader(f"{where}: server {name!r}", variables).server(name, entry) for name, entry in servers.items()
    }


def _parsed(path: Path, where: str) -> dict[str, JsonValue]:
    size = path.stat().st_size
    if size > _BYTES:
        raise ConfigError(f"{where} has {size} bytes; a configuration has at most {_BYTES}")
    try:
        content: JsonValue = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{where} is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{where} has to be an object with 'mcpServers', not {_kind(content)}")
    return content


def _kind(value: JsonValue) -> str:
    kinds = {bool: "a truth value", str: "a text", list: "a list", dict: "an object"}
    return "null" if value is None else kinds.get(type(value), "a number")


class _Reader:
    """Reads one server. Every error names where it is."""

    def __init__(self, where: str, variables: Mapping[str, str]) -> None:
        self._where: Final = where
        self._variables: Final = variables

    def server(self, name: str, entry: JsonValue) -> ServerConfig:
        if not isinstance(entry, dict):
            raise self._wrong(f"has to be an object, not {_kind(entry)}")
        if entry.get("disabled") is True:
            # It may name variables that are not set, for which it is disabled.
            return ServerConfig(name=name, disabled=True)
        command = self._text(entry, "command")
        url = self._text(entry, "url") or self._text(entry, "serverUrl")
        self._check_kind(entry, command, url)
        return ServerConfig(
            name=name,
            command=() if command is None else (command, *self._texts(entry, "args")),
            env=self._mapping(entry, "env"),
            cwd=self._text(entry, "cwd"),
            url=url,
            headers=self._mapping(entry, "headers"),
            auth=self._auth(entry),
            notes=tuple(f"{member!r} is not understood" for member in entry if member not in _KNOWN),
        )

    def _check_kind(self, entry: dict[str, JsonValue], command: str | None, url: str | None) -> None:
        kind = self._text(entry, "type") or self._text(entry, "transport")
        if kind is not None and kind not in _STDIO | _HTTP:
            raise self._wrong(f"has the type {kind!r}; known are 'stdio', 'http', 'streamable-http' and 'sse'")
        if command is not None and url is not None:
            raise self._wrong("has both a command and a URL; it is either started or called")
        if command is None and url is None:
            raise self._wrong("has neither 'command' nor 'url'")
        if kind is not None and (kind in _STDIO) != (command is not None):
            raise self._wrong(f"is of type {kind!r}, which needs {'command' if kind in _STDIO else 'url'!r}")

    def _auth(self, entry: dict[str, JsonValue]) -> AuthConfig | None:
        member = next((name for name in ("auth", "oauth") if name in entry), None)
        value = None if member is None else entry[member]
        if member is None or value is None:
            return None
        if not isinstance(value, dict):
            raise self._wrong(f"{member} has to be an object, not {_kind(value)}")
        if "command" in entry:
            raise self._wrong(f"{member} is for servers that have a URL; a process gets its credentials in env")
        found = {ours: self._one_of(value, names) for ours, names in _AUTH.items()}
        scopes = value.get("scopes")
        if isinstance(scopes, str):
            listed: list[str] | None = self._expanded(scopes, "scopes").split()
        else:
            listed = None if scopes is None else self._texts(value, "scopes")
        return AuthConfig(**found, scopes=None if listed is None else tuple(listed))

    def _one_of(self, entry: dict[str, JsonValue], names: Sequence[str]) -> str | None:
        return next((self._text(entry, name) for name in names if name in entry), None)

    def _text(self, entry: dict[str, JsonValue], member: str) -> str | None:
        value = entry.get(member)
        if value is None:
            return None
        if not isinstance(value, str) or not value:
            raise self._wrong(f"{member} has to be a text, not {'an empty one' if value == '' else _kind(value)}")
        return self._expanded(value, member)

    def _texts(self, entry: dict[str, JsonValue], member: str) -> list[str]:
        value = entry.get(member)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(f"{member} has to be a list of texts, not {_kind(value)}")
        found: list[str] = []
        for number, each in enumerate(value):
            if not isinstance(each, str):
                raise self._wrong(f"{member}[{number}] has to be a text, not {_kind(each)}")
            found.append(self._expanded(each, f"{member}[{number}]"))
        return found

    def _mapping(self, entry: dict[str, JsonValue], member: str) -> dict[str, str]:
        value = entry.get(member)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._wrong(f"{member} has to be an object with texts, not {_kind(value)}")
        found: dict[str, str] = {}
        for key, each in value.items():
            if not isinstance(each, str):
                raise self._wrong(f"{member}.{key} has to be a text, not {_kind(each)}")
            found[key] = self._expanded(each, f"{member}.{key}")
        return found

    def _expanded(self, text: str, member: str) -> str:
        def value(match: re.Match[str]) -> str:
            named = _PLAIN.fullmatch(match[1])
            if named is None:
                raise self._wrong(f"{member}: ${{{match[1]}}} is not understood; ${{NAME}} stands for a variable")
            found = self._variables.get(named[1], named[2])
            if found is None:
                raise self._wrong(f"{member}: the environment variable {named[1]} is not set")
            return found

        return _VARIABLE.sub(value, text)

    def _wrong(self, what: str) -> ConfigError:
        return ConfigError(f"{self._where} {what}" if not what[0].isupper() else f"{self._where}: {what}")
