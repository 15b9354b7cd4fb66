"""The `mcpServers` JSON, in which applications configure their servers.

    {"mcpServers": {"weather": {"command": "weather-server", "env": {"KEY": "${WEATHER_KEY}"}},
                    "notes": {"type": "http", "url": "https://notes.example/mcp"}}}

No specification defines this format. The module reads the variants of Claude Desktop, Claude Code, VS Code, Cursor,
Gemini CLI, Windsurf and Zed, with comments and trailing commas. Unknown members are ignored and listed in
`ServerConfig.notes`, so files of other applications can be used.

An entry that cannot be used disables its server only. `ServerConfig.problem` has the reason.
"""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import orjson

from mcp_client.worker_threads import check_plain
from mcp_core.errors import McpError
from mcp_core.field_methods import FieldValue
from mcp_core.revisions import REVISIONS, Revision

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp_core.jsonrpc.messages import JsonValue

__all__ = ["AuthConfig", "ConfigError", "ConfigInput", "ServerConfig", "read_config", "read_server", "server_names"]

_log: Final = logging.getLogger("mcp_client")

_ROOTS: Final = (("mcpServers",), ("servers",), ("mcp", "servers"), ("context_servers",))
"""Paths to the servers in a file. The second is that of VS Code's `mcp.json`, the third that of its settings, the last
that of Zed."""

_STDIO: Final = frozenset({"stdio", "local"})
_HTTP: Final = frozenset({"http", "sse", "streamable-http", "streamableHttp", "streamable_http", "remote"})

_URLS: Final = ("httpUrl", "url", "serverUrl")
"""Names of the URL: Gemini CLI uses the first for Streamable HTTP, Windsurf the last."""

_KNOWN: Final = frozenset(
    {
        "type",
        "transport",
        "source",
        "command",
        "args",
        "env",
        "envFile",
        "cwd",
        *_URLS,
        "headers",
        "disabled",
        "enabled",
        "auth",
        "oauth",
        "revisions",
    }
)

_AUTH: Final = {
    "client_id": ("clientId", "CLIENT_ID", "client_id"),
    "client_secret": ("clientSecret", "CLIENT_SECRET", "client_secret"),
}
"""Names of the OAuth members in the files of applications."""

_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_PLAIN: Final = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_INPUT: Final = "input:"

# Strings and comments without an end go to the end of the file, so that reading takes linear time.
_STRING: Final = r'("(?:[^"\\]|\\.)*"?)'
_COMMENT: Final = re.compile(_STRING + r"|//[^\n]*|/\*(?:.*?\*/|.*)", re.DOTALL)
_NOT_LINE_END: Final = re.compile(r"[^\n]")
_TRAILING_COMMA: Final = re.compile(_STRING + r"|,(?=\s*[}\]])", re.DOTALL)

_ASSIGNMENT: Final = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*)")
_QUOTED: Final = re.compile(r"""(["'])(.*?)\1\s*(?:#.*)?""")

_BYTES: Final = 1 << 20


class ConfigError(McpError):
    """An invalid configuration. The message names the server and the member."""


def _masked(values: Mapping[str, str]) -> str:
    return repr(dict.fromkeys(values, "***"))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AuthConfig(FieldValue):
    """The configured authorization of one server."""

    client_id: str | None = None
    """The client id at the authorization server; `None` to obtain it in another way."""
    client_secret: str | None = attrs.field(default=None, repr=lambda secret: "None" if secret is None else "***")
    """The client secret."""
    scopes: tuple[str, ...] | None = None
    """The scopes to request if the server does not specify them."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ConfigInput(FieldValue):
    """A value that the user enters for `${input:ID}`: an entry of `inputs` in the files of VS Code."""

    id: str
    """The id, which the entries of servers refer to."""
    description: str | None = None
    """The text of the prompt."""
    password: bool = False
    """Whether to hide the typed text."""
    default: str | None = None
    """The suggested value."""
    options: tuple[str, ...] = ()
    """The values to choose from; empty for any text."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ServerConfig(FieldValue):
    """The configuration of one server. Either `command` or `url` is set, unless the server is disabled."""

    name: str
    """The name of the server in the file."""
    command: tuple[str, ...] = ()
    """The program and its arguments; no shell is involved."""
    env: Mapping[str, str] = attrs.field(factory=dict, repr=_masked)
    """Environment variables of the process, including those of `envFile`."""
    cwd: str | None = None
    """The working directory of the process."""
    url: str | None = None
    """The URL of the endpoint."""
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=_masked)
    """Headers of each request."""
    auth: AuthConfig | None = None
    """The authorization; only with a URL."""
    revisions: tuple[Revision, ...] | None = None
    """The revisions to negotiate; `None` for all revisions of the client."""
    disabled: bool = False
    """Whether the server is disabled, by the file or because of a `problem`."""
    problem: str | None = None
    """The reason why the entry cannot be used, with the member and the remedy; `None` if the entry is valid."""
    notes: tuple[str, ...] = ()
    """Warnings about unknown members."""


def read_config(
    source: str | os.PathLike[str] | Mapping[str, JsonValue],
    *,
    environ: Mapping[str, str] | None = None,
    inputs: Callable[[ConfigInput], str | None] | None = None,
    workspace_folder: str | os.PathLike[str] | None = None,
) -> dict[str, ServerConfig]:
    """Read the servers of an application.

    All strings can contain variables: `${NAME}`, `${NAME:-default}` and `${env:NAME}` for environment variables,
    `${input:ID}` for a value that the user enters, `${workspaceFolder}` and `${workspaceFolderBasename}` for the folder
    that the user works in, `${userHome}` for the home directory, `${pathSeparator}` and `${/}` for the path separator.

    An entry that cannot be used (no command and no URL, or both; a member of the wrong type; a variable without a
    value) disables its server only. The server has a `problem`, which is also logged as a warning. `configured` makes
    it a failed server of the group.

    Args:
        source: The path of a JSON file, or its content as an object: with `mcpServers`, with `servers`, or with `mcp`
            and `servers` in it.
        environ: The environment variables; those of this process by default.
        inputs: Returns the value of an input, or `None` if the user gives none. It is called once for each input that
            an enabled server uses.
        workspace_folder: The folder that the user works in. A relative `envFile` starts there.

    Returns:
        The servers by their names, in the order of the file, disabled ones included.

    Raises:
        ConfigError: The file is not JSON, is too large, or does not contain servers.
        OSError: The file cannot be read.
        LocalProtocolError: `inputs` is a coroutine function.
    """
    check_plain(inputs, "inputs of read_config")
    file = _File.read(source)
    variables = _Variables(os.environ if environ is None else environ, workspace_folder, inputs, file.inputs)
    found: dict[str, ServerConfig] = {}
    for name in file.servers:
        try:
            found[name] = file.server(name, variables)
        except ConfigError as error:
            _log.warning("server disabled: %s", error.message)
            found[name] = ServerConfig(name=name, disabled=True, problem=error.message)
    return found


def server_names(path: str) -> list[str]:
    """Return the names of the servers of a file. Raise as `read_config` does."""
    return list(_File.read(path).servers)


def read_server(
    path: str, name: str, *, inputs: Callable[[ConfigInput], str | None] | None, workspace_folder: str
) -> ServerConfig:
    """Read one server of a file as `read_config` does, and request only the inputs of this server.

    Raises:
        ConfigError: The file is not JSON, is too large, or does not contain servers; or the entry cannot be used.
        OSError: The file cannot be read.
    """
    file = _File.read(path)
    return file.server(name, _Variables(os.environ, workspace_folder, inputs, file.inputs))


@attrs.frozen(eq=False, repr=False)
class _File(FieldValue):
    """A file with servers."""

    where: str
    """The name of the file in errors."""
    servers: dict[str, JsonValue]
    """The entries of the servers, by name."""
    inputs: JsonValue
    """The member `inputs` next to the servers."""

    @classmethod
    def read(cls, source: str | os.PathLike[str] | Mapping[str, JsonValue]) -> _File:
        """Read a file, or take its content. Raise as `read_config` does."""
        if isinstance(source, (str, os.PathLike)):
            where = str(os.fspath(source))
            content = _parsed(Path(source), where)
        else:
            where, content = "the configuration", dict(source)
        for path in _ROOTS:
            holder: JsonValue = content
            for member in path[:-1]:
                holder = holder.get(member) if isinstance(holder, dict) else None
            if isinstance(holder, dict) and path[-1] in holder:
                servers = holder[path[-1]]
                if not isinstance(servers, dict):
                    wanted = "must be an object with the servers by name"
                    raise ConfigError(f"{where}: {'.'.join(path)} {wanted}, not {_kind(servers)}")
                return cls(where, servers, holder.get("inputs"))
        raise ConfigError(f"{where} has no 'mcpServers'; it has {', '.join(map(repr, content)) or 'nothing'}")

    def server(self, name: str, variables: _Variables) -> ServerConfig:
        """Read one server. Raise `ConfigError` when its entry cannot be used."""
        return _Reader(f"{self.where}: server {name!r}", variables).server(name, self.servers[name])


def _parsed(path: Path, where: str) -> dict[str, JsonValue]:
    size = path.stat().st_size
    if size > _BYTES:
        raise ConfigError(f"{where} has {size} bytes; a configuration has at most {_BYTES}")
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    try:
        content: JsonValue = orjson.loads(_without_comments(data.decode()))
    except (UnicodeDecodeError, orjson.JSONDecodeError) as error:
        raise ConfigError(f"{where} is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{where} must be an object with 'mcpServers', not {_kind(content)}")
    return content


def _without_comments(text: str) -> str:
    """Return JSON with blanks for the comments and trailing commas that VS Code and Gemini CLI allow."""
    text = _COMMENT.sub(lambda match: match[1] or _NOT_LINE_END.sub(" ", match[0]), text)
    return _TRAILING_COMMA.sub(lambda match: match[1] or " ", text)


def _kind(value: JsonValue) -> str:
    kinds = {bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return "null" if value is None else kinds.get(type(value), "a number")


def _spelled(value: JsonValue) -> str | None:
    """Return a string, a number or a boolean as a string, written as in JSON; `None` for other types."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # JSON does not distinguish 1.0 and 1.
        return str(int(value) if value.is_integer() else value)
    return str(value) if isinstance(value, (int, str)) else None


class _NoValueError(Exception):
    """A variable without a value. The message has the remedy."""


class _Variables:
    """The values of `${...}`.

    Args:
        environ: The environment variables.
        workspace_folder: The folder that the user works in.
        ask: Returns the value of an input.
        declared: The member `inputs` of the file.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        workspace_folder: str | os.PathLike[str] | None,
        ask: Callable[[ConfigInput], str | None] | None,
        declared: JsonValue,
    ) -> None:
        self.folder: Final = None if workspace_folder is None else os.path.abspath(workspace_folder)
        self._environ: Final = environ
        self._ask: Final = ask
        self._declared: Final = _inputs(declared)
        self._entered: Final[dict[str, str | None]] = {}
        self._predefined: Final = {"userHome": os.path.expanduser("~"), "pathSeparator": os.sep, "/": os.sep}
        if self.folder is not None:
            self._predefined["workspaceFolder"] = self.folder
            self._predefined["workspaceFolderBasename"] = os.path.basename(self.folder)

    def value(self, name: str) -> str:
        """Return the value of `${name}`. Raise `_NoValueError` when it has none."""
        if name in self._predefined:
            return self._predefined[name]
        if name.startswith(_INPUT):
            return self._input(name.removeprefix(_INPUT))
        plain = _PLAIN.fullmatch(name)
        if plain is None:
            shown = name.partition(":-")[0]
            raise _NoValueError(f"${{{shown}}} is not understood; ${{NAME}} stands for an environment variable")
        default: str | None = plain[2]
        value = self._environ.get(plain[1], default)
        if value is None and name.startswith("workspaceFolder"):
            raise _NoValueError(f"${{{name}}} has no value; pass workspace_folder= the folder that the user works in")
        if value is None:
            raise _NoValueError(f"the environment variable {plain[1]} is not set; set it, or pass it in environ=")
        return value

    def _input(self, id: str) -> str:
        if self._ask is None:
            raise _NoValueError(f"${{{_INPUT}{id}}} has no value; pass inputs= a function that asks the user for it")
        if id not in self._entered:
            self._entered[id] = self._ask(self._declared.get(id) or ConfigInput(id=id))
        value = self._entered[id]
        if value is None:
            raise _NoValueError(f"${{{_INPUT}{id}}} has no value; the function inputs= returned None for {id!r}")
        return value


def _inputs(declared: JsonValue) -> dict[str, ConfigInput]:
    """Return the inputs that a file declares. Invalid entries are skipped: an input works without a declaration."""
    found: dict[str, ConfigInput] = {}
    for each in declared if isinstance(declared, list) else ():
        if not isinstance(each, dict):
            continue
        id = each.get("id")
        if not isinstance(id, str):
            continue
        description, default, options = each.get("description"), each.get("default"), each.get("options")
        choices = [_choice(option) for option in options] if isinstance(options, list) else []
        found[id] = ConfigInput(
            id=id,
            description=description if isinstance(description, str) else None,
            password=each.get("password") is True,
            default=_spelled(default),
            options=tuple(choice for choice in choices if choice is not None),
        )
    return found


def _choice(option: JsonValue) -> str | None:
    """Return the value of an option, with or without a label."""
    return _spelled(option.get("value")) if isinstance(option, dict) else _spelled(option)


class _Reader:
    """A reader of one server's entry. Every error names the file and the server."""

    def __init__(self, where: str, variables: _Variables) -> None:
        self._where: Final = where
        self._variables: Final = variables

    def server(self, name: str, entry: JsonValue) -> ServerConfig:
        if not isinstance(entry, dict):
            raise self._wrong(f"is {_kind(entry)}, not an object")
        if entry.get("disabled") is True or entry.get("enabled") is False:
            # The rest is not read: the server may be disabled because its variables are not set.
            return ServerConfig(name=name, disabled=True)
        command = self._text(entry, "command")
        url = self._one_of(entry, _URLS)
        self._check_kind(entry, command, url)
        return ServerConfig(
            name=name,
            command=() if command is None else (command, *self._texts(entry, "args")),
            env=self._env_file(entry) | self._mapping(entry, "env"),
            cwd=self._text(entry, "cwd"),
            url=url,
            headers=self._mapping(entry, "headers"),
            auth=self._auth(entry),
            revisions=self._revisions(entry),
            notes=tuple(f"{member!r} is not understood" for member in entry if member not in _KNOWN),
        )

    def _check_kind(self, entry: dict[str, JsonValue], command: str | None, url: str | None) -> None:
        kind = self._text(entry, "type") or self._text(entry, "transport")
        if kind is not None and kind not in _STDIO | _HTTP:
            raise self._wrong(f"has the type {kind!r}; known are 'stdio', 'http', 'streamable-http' and 'sse'")
        if command is not None and url is not None:
            raise self._wrong("has both a command and a URL; remove one of them")
        if command is None and url is None:
            raise self._wrong("has neither 'command' nor 'url'")
        if kind is not None and (kind in _STDIO) != (command is not None):
            raise self._wrong(f"is of type {kind!r}, which needs {'command' if kind in _STDIO else 'url'!r}")

    def _revisions(self, entry: dict[str, JsonValue]) -> tuple[Revision, ...] | None:
        if isinstance(entry.get("revisions"), str):
            names = [entry["revisions"]]
        elif entry.get("revisions") is None:
            return None
        else:
            names = list(self._texts(entry, "revisions"))
        unknown = [name for name in names if name not in REVISIONS]
        if unknown or not names:
            said = f"has {', '.join(map(repr, unknown))}" if unknown else "is empty"
            raise self._wrong(f"revisions {said}; known are {', '.join(REVISIONS)}")
        return tuple(revision for name, revision in REVISIONS.items() if name in names)

    def _env_file(self, entry: dict[str, JsonValue]) -> dict[str, str]:
        """Return the variables of `envFile`: lines `NAME=value`, as shells and Docker have them."""
        path = self._text(entry, "envFile")
        if path is None:
            return {}
        file = Path(self._variables.folder or "", path)
        try:
            if file.stat().st_size > _BYTES:
                raise self._wrong(f"envFile: {str(file)!r} has more than {_BYTES} bytes")
            lines = file.read_text(encoding="utf-8-sig", errors="replace").splitlines()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise self._wrong(f"envFile: {str(file)!r} cannot be read: {reason}") from error
        found = {}
        for line in lines:
            assignment = _ASSIGNMENT.fullmatch(line.strip())
            if assignment is not None:
                quoted = _QUOTED.fullmatch(assignment[2])
                found[assignment[1]] = quoted[2] if quoted else assignment[2].partition(" #")[0].rstrip()
        return found

    def _auth(self, entry: dict[str, JsonValue]) -> AuthConfig | None:
        member = next((name for name in ("auth", "oauth") if name in entry), None)
        value = None if member is None else entry[member]
        if member is None or value is None:
            return None
        if not isinstance(value, dict):
            raise self._wrong(f"{member} must be an object, not {_kind(value)}")
        if "command" in entry:
            raise self._wrong(f"{member} requires a URL; pass the credentials of a process in env")
        found = {ours: self._one_of(value, names) for ours, names in _AUTH.items()}
        scopes = value.get("scopes")
        if isinstance(scopes, str):
            listed: list[str] | None = self._expanded(scopes, "scopes").split()
        else:
            listed = None if scopes is None else self._texts(value, "scopes")
        return AuthConfig(**found, scopes=None if listed is None else tuple(listed))

    def _one_of(self, entry: dict[str, JsonValue], names: Sequence[str]) -> str | None:
        return next((self._text(entry, name) for name in names if entry.get(name) is not None), None)

    def _text(self, entry: dict[str, JsonValue], member: str) -> str | None:
        value = entry.get(member)
        if value is None:
            return None
        if not isinstance(value, str) or not value:
            raise self._wrong(f"{member} must be a string, not {'an empty one' if value == '' else _kind(value)}")
        return self._expanded(value, member)

    def _texts(self, entry: dict[str, JsonValue], member: str) -> list[str]:
        value = entry.get(member)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(f"{member} must be a list of strings, not {_kind(value)}")
        found: list[str] = []
        for number, each in enumerate(value):
            text = _spelled(each)
            if text is None:
                raise self._wrong(f"{member}[{number}] must be a string, not {_kind(each)}")
            found.append(self._expanded(text, f"{member}[{number}]"))
        return found

    def _mapping(self, entry: dict[str, JsonValue], member: str) -> dict[str, str]:
        value = entry.get(member)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._wrong(f"{member} must be an object with strings, not {_kind(value)}")
        found: dict[str, str] = {}
        for key, each in value.items():
            if each is None:
                # As in VS Code, null removes the variable.
                continue
            text = _spelled(each)
            if text is None:
                raise self._wrong(f"{member}.{key} must be a string, not {_kind(each)}")
            found[key] = self._expanded(text, f"{member}.{key}")
        return found

    def _expanded(self, text: str, member: str) -> str:
        def value(match: re.Match[str]) -> str:
            try:
                return self._variables.value(match[1])
            except _NoValueError as error:
                raise self._wrong(f"{member}: {error}") from None

        return _VARIABLE.sub(value, text)

    def _wrong(self, what: str) -> ConfigError:
        separator = "" if what.startswith(("has ", "is ")) else ":"
        return ConfigError(f"{self._where}{separator} {what}")
