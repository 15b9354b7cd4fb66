"""Invalid registrations, invalid requests and unserializable results of a server, in generated cases.

Each raises a typed error that names its cause. No operation is half done, and no connection ends.
"""

from __future__ import annotations

import collections
import datetime
import enum
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, NoReturn, Protocol, TypeAlias, TypedDict

import attrs
import pytest
from raw_client import RawClient, as_object, connected, text_of

from mcp_core.errors import ErrorCode
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.methods import INITIALIZE, LOGGING_SET_LEVEL, NOTIFICATIONS, PING, SERVER_DISCOVER, TOOLS_LIST, Side
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_server import Context, Depends, Param, RegistrationError, Server

BOTH_REVISIONS: Final = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)

Function: TypeAlias = Callable[..., object]  # type: ignore[explicit-any]  # of any signature, on purpose


@attrs.frozen
class InvalidUse:
    """An invalid use."""

    label: str
    """The label, for the name of the test."""
    run: Function
    """A function that makes the mistake."""
    culprit: str
    """A pattern that the message must match."""


# --- invalid registrations -------------------------------------------------------------------------------------------


class Plain:
    """A class without declared fields."""


class ProtocolClass(Protocol):
    """A protocol."""

    value: int


@attrs.define
class Record:
    """A record with a field of an unsupported class."""

    fine: int
    field: Plain


class TypedDictClass(TypedDict):
    """A `TypedDict` with a field of an unsupported class."""

    field: complex


class Letters(enum.Enum):
    """An enumeration with values that are not JSON."""

    A = object()


UNSUPPORTED: Final[dict[str, object]] = {
    "complex": complex,
    "a class": Plain,
    "a protocol": ProtocolClass,
    "type": type,
    "a callable": Callable[[int], str],
    "keys that are numbers": dict[float, str],
    "keys of a strange class": dict[complex, str],
    "a list of": list[complex],
    "a tuple of": tuple[Plain, ...],
    "a set of lists": set[list[int]],
    "a frozenset of": frozenset[Plain],
    "a mapping to": collections.abc.Mapping[str, complex],
    "optional": Plain | None,
    "a union with": int | Plain,
    "nested deeply": dict[str, list[tuple[Plain, int]]],
    "a field": Record,
    "a field of a TypedDict": TypedDictClass,
    "an enum": Letters,
    "a literal of bytes": Literal[b"x"],
    "an unknown name": "NoSuchName",
    "no syntax": "list[",
    "a number": 5,
    "a module": re,
    "an instance": Plain(),
    "an iterator": Iterator[int],
    "an async iterator": AsyncIterator[int],
    "an awaitable": Awaitable[int],
    "memoryview": memoryview,
    "range": range,
    "a pattern": re.Pattern[str],
    "NoReturn": NoReturn,
    "ClassVar": ClassVar[int],
    "contexts": list[Context],
    "a server": Server,
}
"""Annotations that neither parameters nor results can have."""


def annotated_function(annotation: object, result: object = str) -> Function:
    """Return a function whose parameter has the annotation."""

    async def culprit(value: object) -> object:
        return value

    culprit.__annotations__ = {"value": annotation, "return": result}
    return culprit


def _annotation_cases() -> Iterator[InvalidUse]:
    named = r"culprit.*'value'"
    for label, annotation in UNSUPPORTED.items():
        invalid = annotated_function(annotation)
        yield InvalidUse(f"a tool takes {label}", lambda server, f=invalid: server.add_tool(f), named)
        yield InvalidUse(f"a prompt takes {label}", lambda server, f=invalid: server.add_prompt(f), named)
        yield InvalidUse(
            f"a template takes {label}", lambda server, f=invalid: server.add_resource(f, "walk://{value}"), named
        )
        result_function = annotated_function(int, annotation)
        yield InvalidUse(
            f"a tool gives {label}",
            lambda server, f=result_function: server.add_tool(f),
            "culprit.*the return annotation",
        )


async def culprit(value: int) -> str:
    """Return the value as text."""
    return str(value)


async def no_parameters() -> str:
    """Return an empty text."""
    return ""


def plain() -> str:
    """Return an empty text, synchronously."""
    return ""


OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "tool": (
        *("name", "title", "description", "icons", "meta", "thread"),
        *("input_schema", "annotations", "task", "start_as_task", "resumable"),
    ),
    "resource": (
        "name",
        "title",
        "description",
        "icons",
        "meta",
        "thread",
        "mime_type",
        "annotations",
        "size",
        "cache",
    ),
    "prompt": ("name", "title", "description", "icons", "meta", "thread"),
}

INVALID_OPTIONS: Final[dict[str, object]] = {
    "bytes": b"x",
    "a list": ["a"],
    "an object": object(),
    "half of a pair": "\ud800",
}
"""Values that no option accepts. Only the last one is a string, and it is not valid Unicode."""


def register(server: Server, kind: str, function: Function, options: dict[str, object]) -> None:
    """Register a function as a tool, a resource or a prompt."""
    if kind == "tool":
        server.add_tool(function, **options)  # type: ignore[arg-type]  # invalid on purpose
    elif kind == "prompt":
        server.add_prompt(function, **options)  # type: ignore[arg-type]  # likewise
    else:
        server.add_resource(function, "walk://culprit", **options)  # type: ignore[arg-type]  # likewise


def _option_cases() -> Iterator[InvalidUse]:
    for kind, names in OPTIONS.items():
        invalid = no_parameters if kind == "resource" else culprit
        # The message names the option, or the member of the schema that it becomes.
        for name in names:
            member = {"mime_type": "mimeType", "meta": "_meta", "input_schema": "input_?[sS]chema"}.get(name, name)
            for label, value in INVALID_OPTIONS.items():
                yield InvalidUse(
                    f"{kind} with {name} of {label}",
                    lambda server, k=kind, f=invalid, o={name: value}: register(server, k, f, o),
                    rf"{invalid.__name__}.*({member}|{name}|surrogate|name of a tool)",
                )
        yield InvalidUse(
            f"{kind} with an unknown option",
            lambda server, k=kind, f=invalid: register(server, k, f, {"titel": "x"}),
            f"{invalid.__name__}.*'titel'",
        )


def generator(value: int) -> Iterator[int]:
    yield value


async def async_generator(value: int) -> AsyncIterator[int]:
    yield value


def positional(value: int, /) -> str:
    return str(value)


def many(*values: int) -> str:
    return str(values)


def named(**values: int) -> str:
    return str(values)


def _function_cases() -> Iterator[InvalidUse]:
    non_functions = {"a number": 5, "a text": "culprit", "None": None, "an object": object(), "a list": []}
    for kind in OPTIONS:
        for label, value in non_functions.items():
            yield InvalidUse(
                f"{kind} of {label}",
                lambda server, k=kind, f=value: register(server, k, f, {"name": "x"}),
                "function .*(callable|signature)",
            )
    for function in (generator, async_generator, positional, many, named):
        name = function.__name__
        yield InvalidUse(f"tool of {name}", lambda server, f=function: server.add_tool(f), name)
        yield InvalidUse(f"prompt of {name}", lambda server, f=function: server.add_prompt(f), name)
        yield InvalidUse(f"template of {name}", lambda server, f=function: server.add_resource(f, "a://{value}"), name)
    for option in ("tool", "resource", "prompt"):
        yield InvalidUse(
            f"{option} of a coroutine function in a thread",
            lambda server, k=option: register(server, k, no_parameters, {"thread": True}),
            "no_parameters.*thread",
        )


URIS: Final = {
    "nothing": "",
    "a word": "notes",
    "no scheme": "://x",
    "a blank in the scheme": "a b://c",
    "an open brace": "a://{",
    "nothing in braces": "a://{}",
    "no end of braces": "a://{value",
    "a name twice": "a://{value}{value}",
    "an unknown operator": "a://{!value}",
    "too long": "a://{value:99999999}",
    "a blank in a name": "a://{va lue}",
    "another name": "a://{other}",
    "one name too many": "a://{value}/{other}",
    "half of a pair": "a://\ud800",
    "a number": 5,
    "None": None,
    "bytes": b"a://b",
}


def _uri_cases() -> Iterator[InvalidUse]:
    for label, uri in URIS.items():
        function = culprit if "{" in str(uri) else no_parameters
        yield InvalidUse(
            f"the URI is {label}",
            lambda server, f=function, u=uri: server.add_resource(f, u),
            function.__name__,
        )
    for name in ("", "a b", "é", "x" * 129, "a/b", "a\n"):
        yield InvalidUse(
            f"a tool named {name[:9]!r}", lambda server, n=name: server.add_tool(culprit, name=n), "culprit"
        )
    prefixes: tuple[object, ...] = ("", "a b", "x" * 65, "é", 5)
    for prefix in prefixes:
        mount = f"mounted with the prefix {prefix!s:.9}"
        yield InvalidUse(mount, lambda server, n=prefix: server.mount(Server("o", version="1"), prefix=n), "prefix")
    for header in ("", "a b", "é", "x\n", "A:B"):
        header_function = annotated_function(Annotated[str, Param(header=header)])
        yield InvalidUse(f"a header {header!r}", lambda server, f=header_function: server.add_tool(f), "culprit.*value")
    for kind in (float, list[int], dict[str, int], int | str):
        header_function = annotated_function(Annotated[kind, Param(header="X")])
        yield InvalidUse(f"a header of {kind}", lambda server, f=header_function: server.add_tool(f), "culprit.*value")


SCHEMAS: Final[dict[str, JsonObject]] = {
    "empty": {},
    "of a text": {"type": "string"},
    "of an unknown type": {"type": 5},
    "of two types": {"type": ["object", "null"]},
    "with properties that are a number": {"type": "object", "properties": 5},
    "with a property that is a number": {"type": "object", "properties": {"a": 5}},
    "with required that is a text": {"type": "object", "required": "a"},
    "from elsewhere": {"type": "object", "$ref": "http://x/y"},
    "from nowhere": {"type": "object", "$ref": "#/nope"},
    "with a broken pattern": {"type": "object", "properties": {"a": {"pattern": "("}}},
    "of an unknown dialect": {"type": "object", "$schema": "http://nope"},
    "with less than nothing": {"type": "object", "minProperties": -1},
    "with a NaN": {"type": "object", "x": float("nan")},
    "with an enum that is a number": {"type": "object", "properties": {"a": {"enum": 5}}},
    "with allOf nothing": {"type": "object", "allOf": []},
    "with additional numbers": {"type": "object", "additionalProperties": 5},
}


async def with_schema(arguments: JsonObject) -> str:
    return str(arguments)


def _other_cases() -> Iterator[InvalidUse]:
    for label, schema in SCHEMAS.items():
        yield InvalidUse(
            f"a schema {label}", lambda server, s=schema: server.add_tool(with_schema, input_schema=s), "with_schema"
        )
    invalid: dict[str, dict[str, object]] = {
        "of no prompt": {"argument": "x", "prompt": "nope"},
        "of no argument": {"argument": "nope", "prompt": "poem"},
        "of nothing": {"argument": "of"},
        "of both": {"argument": "of", "prompt": "poem", "resource": "fine://{value}"},
        "of no template": {"argument": "x", "resource": "no://{x}"},
    }
    for label, options in invalid.items():
        yield InvalidUse(f"a completion {label}", lambda server, o=options: server.completion(**o)(culprit), "culprit")
    for definition in (INITIALIZE, PING, SERVER_DISCOVER, LOGGING_SET_LEVEL):
        yield InvalidUse(
            f"a method {definition.name}", lambda server, r=definition: server.method(r)(culprit), definition.name
        )
    for value in (5, None, "tools/list", Plain):
        yield InvalidUse(
            f"a method {value!r:.9}", lambda server, r=value: server.method(r)(culprit), "culprit.*definition"
        )
        yield InvalidUse(
            f"a notification {value!r:.9}", lambda server, r=value: server.notification(r)(plain), "plain.*definition"
        )
        yield InvalidUse(f"{value!r:.9} is mounted", lambda server, o=value: server.mount(o), "mount accepts")
    yield InvalidUse("a method by a plain function", lambda server: server.method(TOOLS_LIST)(plain), "plain")
    for notification in NOTIFICATIONS:
        if Side.CLIENT not in notification.sender:
            name = notification.name
            yield InvalidUse(f"taking {name}", lambda server, r=notification: server.notification(r)(plain), name)
    for identifier in ("", "x", "a.b", "a/", "/b", "a b/c", "é/x", 5, None):
        yield InvalidUse(f"the extension {identifier!r}", lambda server, i=identifier: server.extension(i), "extension")
    yield InvalidUse("settings in a list", lambda server: server.extension("a.b/c", []), "a.b/c")
    for kind in ("tool", "resource", "prompt"):
        yield InvalidUse(f"no {kind} to remove", lambda server, k=kind: getattr(server, f"remove_{k}")("nope"), "nope")
    for path in ("/no/such", 5, None, __file__, "\x00"):
        yield InvalidUse(
            f"the directory {path!r:.9}", lambda server, p=path: server.add_directory(p, "a://b/"), "a://b/|director"
        )
    for uri in ("a://b", "a://{x}/", "", 5, None):
        yield InvalidUse(
            f"a directory at {uri!r}", lambda server, u=uri: server.add_directory(Path.cwd(), u), "director"
        )
    for provider in (5, "x", many, positional, annotated_function(int)):
        depends = annotated_function(Annotated[int, Depends(provider)])  # type: ignore[arg-type]  # likewise
        # Without the address: the workers of a test run must agree on the names of tests.
        name = repr(provider).partition(" at 0x")[0]
        yield InvalidUse(f"depends on {name:.30}", lambda server, f=depends: server.add_tool(f), "function ")


REGISTRATIONS: Final = [*_annotation_cases(), *_option_cases(), *_function_cases(), *_uri_cases(), *_other_cases()]


@pytest.mark.parametrize(
    "name",
    [
        *("name", "version", "title", "description", "instructions", "icons", "website_url", "revisions", "limits"),
        *("input_policy", "lifespan", "middleware", "access", "redact", "tasks", "cache"),
    ],
)
@pytest.mark.parametrize("value", [5, [5], b"x"], ids=repr)
def test_server_invalid_option_raises(name: str, value: object) -> None:
    with_schema: dict[str, object] = {"name": "culprit", "version": "1", name: value}
    with pytest.raises(RegistrationError, match=re.sub("_url$", "Url", name)) as caught:
        Server(with_schema.pop("name"), **with_schema)  # type: ignore[arg-type]  # invalid on purpose
    assert name == "name" or "the server 'culprit'" in str(caught.value)


@pytest.mark.parametrize("name", ["path", "policy", "auth", "authenticate", "healthz"])
def test_asgi_invalid_option_raises(name: str) -> None:
    with pytest.raises(RegistrationError, match=f"the endpoint of 'fine'.*{name}"):
        make_server().asgi(**{name: 5})  # type: ignore[arg-type]  # invalid on purpose


def make_server() -> Server:
    """Return a server with a tool, a resource and a prompt."""
    server = Server("fine", version="1")

    @server.tool
    async def fine(value: int) -> str:
        return str(value)

    @server.resource("fine://{value}")
    async def page(value: str) -> str:
        return value

    @server.prompt
    async def poem(of: str) -> str:
        return of

    return server


@pytest.mark.parametrize("invalid", REGISTRATIONS, ids=lambda invalid: invalid.label.encode("unicode_escape").decode())
def test_invalid_registration_raises_and_changes_nothing(invalid: InvalidUse) -> None:
    server = make_server()
    before, capabilities = server.offered(), server.capabilities
    with pytest.raises(RegistrationError) as caught:
        invalid.run(server)
    assert re.search(invalid.culprit, str(caught.value), re.DOTALL), str(caught.value)
    assert server.offered() == before
    assert server.capabilities == capabilities


# --- invalid requests ------------------------------------------------------------------------------------------------


@attrs.define
class House:
    """A record as an argument."""

    name: str
    floors: list[int]


class Color(enum.Enum):
    RED = "red"


PARAMETER_TYPES: Final[dict[str, tuple[object, tuple[tuple[JsonValue, str], ...]]]] = {
    "int": (int, (("x", "value"), (1.5, "value"), (None, "value"), ([], "value"), ({}, "value"), (True, "value"))),
    "str": (str, ((5, "value"), (None, "value"), (["x"], "value"), ({}, "value"), (False, "value"))),
    "bool": (bool, ((0, "value"), ("true", "value"), (None, "value"), ([], "value"))),
    "float": (float, (("1", "value"), (None, "value"), (True, "value"), ([1.0], "value"))),
    "list": (list[int], (("x", "value"), ([1, "x"], r"value\[1\]"), ([[1]], r"value\[0\]"), ({}, "value"))),
    "dict": (dict[str, int], (([], "value"), ({"a": "x"}, r"value\.a"), ("x", "value"), (None, "value"))),
    "literal": (Literal["a", "b"], (("c", "value"), (5, "value"), (None, "value"), (["a"], "value"))),
    "enum": (Color, (("blue", "value"), (5, "value"), ({}, "value"), (None, "value"))),
    "date": (datetime.date, (("today", "value"), (5, "value"), ("2026-13-01", "value"), (None, "value"))),
    "data": (
        House,
        (
            ("x", "value"),
            ({}, "name"),
            ({"name": 5, "floors": []}, r"value\.name"),
            ({"name": "x", "floors": ["x"]}, r"value\.floors\[0\]"),
            ([], "value"),
        ),
    ),
    "union": (int | None, (("x", "value"), (1.5, "value"), ([], "value"))),
    "bounded": (Annotated[int, Param(minimum=1, maximum=3)], ((0, "value"), (4, "value"), ("2", "value"))),
    "short": (Annotated[str, Param(max_length=2)], (("abc", "value"), (5, "value"))),
}
"""Types of parameters with invalid values, and what the message must name."""

ARGUMENTS: Final = [
    (kind, value, culprit) for kind, (_, values) in PARAMETER_TYPES.items() for value, culprit in values
]


def make_server_with_tools() -> Server:
    """Return a server with a tool for each type of parameter."""
    server = make_server()
    for kind, (annotation, _) in PARAMETER_TYPES.items():
        server.add_tool(annotated_function(annotation), name=f"takes_{kind}")
    return server


async def check_alive(client: RawClient) -> None:
    """Check that the connection still works."""
    assert await client.text("fine", value=1) == "1"


@BOTH_REVISIONS
async def test_invalid_arguments_named_and_connection_continues(revision: Revision) -> None:
    async with connected(make_server_with_tools(), revision) as client:
        for kind, value, expected in ARGUMENTS:
            result = await client.tool(f"takes_{kind}", value=value)
            assert result["isError"] is True, (kind, value)
            assert re.search(expected, text_of(result)), (kind, value, text_of(result))
            await check_alive(client)
        incomplete: tuple[JsonObject, ...] = ({}, {"value": 1, "other": 2}, {"valu": 1})
        for arguments in incomplete:
            result = await client.call("tools/call", {"name": "takes_int", "arguments": arguments})
            assert result["isError"] is True
            assert re.search("value|other", text_of(result))
        non_objects: tuple[JsonValue, ...] = (5, "x", [1], True)
        for bad in non_objects:
            error = await client.fail("tools/call", {"name": "takes_int", "arguments": bad})
            assert error["code"] == ErrorCode.INVALID_PARAMS
            assert "arguments" in str(error["message"])
        await check_alive(client)


def _requests() -> Iterator[tuple[str, JsonObject, int, str]]:
    """Yield requests with unknown names or invalid params: method, params, code, and what the message must name."""
    bad = int(ErrorCode.INVALID_PARAMS)
    wrong_types: tuple[JsonValue, ...] = (5, None, True, [], {}, 1.5)
    for method, member in (("tools/call", "name"), ("prompts/get", "name"), ("resources/read", "uri")):
        for value in wrong_types:
            yield method, {member: value}, bad, member
        yield method, {}, bad, member
    yield "tools/call", {"name": "nope"}, bad, "nope"
    yield "tools/call", {"name": ""}, bad, "tool"
    yield "prompts/get", {"name": "nope"}, bad, "nope"
    yield "prompts/get", {"name": "poem"}, bad, "of"
    yield "prompts/get", {"name": "poem", "arguments": {"of": 5}}, bad, "of"
    yield "prompts/get", {"name": "poem", "arguments": ["of"]}, bad, "arguments"
    yield "prompts/get", {"name": "poem", "arguments": {"of": "x", "other": "y"}}, bad, "other"
    for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
        for value in ("garbage", "", "AAAA", "x" * 5_000, 5, [], {}, True):
            yield method, {"cursor": value}, bad, "cursor"
    for uri in ("nope://x", "", "fine:", "//", "fine://a/b/c"):
        yield "resources/read", {"uri": uri}, 0, re.escape(uri)
    for method in ("nope", "tools/nope", "Tools/list", "tools/list/", "rpc.discover", ""):
        yield method, {}, int(ErrorCode.METHOD_NOT_FOUND), method
    numbered: JsonObject = {"type": "ref/prompt", "name": 5}
    references: tuple[JsonValue, ...] = ({}, 5, "x", {"type": "ref/nope"}, {"type": "ref/prompt"}, numbered)
    for reference in references:
        yield "completion/complete", {"ref": reference, "argument": {"name": "of", "value": "x"}}, bad, "ref"
    requests: tuple[JsonValue, ...] = ({}, 5, {"name": "of"}, {"name": 5, "value": "x"}, {"name": "of", "value": 5})
    for argument in requests:
        invalid: JsonObject = {"ref": {"type": "ref/prompt", "name": "poem"}, "argument": argument}
        yield "completion/complete", invalid, bad, "argument"


REQUESTS: Final = list(_requests())


@BOTH_REVISIONS
async def test_invalid_requests_named_and_connection_continues(revision: Revision) -> None:
    server = make_server_with_tools()

    @server.completion(prompt="poem", argument="of")
    async def complete(value: str) -> list[str]:
        return [value]

    async with connected(server, revision) as client:
        for method, params, code, expected in REQUESTS:
            error = await client.fail(method, params)
            assert error["code"] == (code or revision.resource_not_found), (method, params, error)
            assert re.search(expected, str(error["message"])), (method, params, error)
            await check_alive(client)
        levels: tuple[JsonValue, ...] = ("loud", 5, None, [], "INFO")
        for level in levels:
            if revision.session_log_level:
                error = await client.fail("logging/setLevel", {"level": level})
                assert error["code"] == ErrorCode.INVALID_PARAMS
                assert "level" in str(error["message"])
        await check_alive(client)


WRONG_MEMBERS: Final[dict[str, list[JsonValue]]] = {
    "protocolVersion": [5, None, [], "2099-01-01", ""],
    "clientCapabilities": [5, None, [], "x", {"elicitation": 5}, {"roots": []}],
    "clientInfo": [5, [], "x"],
    "logLevel": [5, [], "loud", ""],
}

INVALID_META: Final = [(member, value) for member, values in WRONG_MEMBERS.items() for value in values]


@pytest.mark.parametrize(("member", "value"), INVALID_META, ids=repr)
async def test_invalid_request_metadata_named_and_connection_continues(member: str, value: JsonValue) -> None:
    async with connected(make_server_with_tools(), R2026_07_28) as client:
        key = f"io.modelcontextprotocol/{member}"
        error = await client.fail("tools/call", {"name": "fine", "arguments": {"value": 1}, "_meta": {key: value}})
        assert re.search(f"{member}|protocol version", str(error["message"]))
        await check_alive(client)


IDS: Final[list[JsonValue]] = [None, 1.5, True, [], {}, [1], {"id": 1}]


@BOTH_REVISIONS
async def test_invalid_messages_return_errors_and_connection_continues(revision: Revision) -> None:
    names: tuple[JsonValue, ...] = (5, None, [], {})
    with_schema: tuple[JsonValue, ...] = (5, "x", [1], True)
    invalid: list[JsonValue] = [{"jsonrpc": "2.0", "id": id, "method": "tools/list"} for id in IDS]
    invalid += [{"jsonrpc": version, "id": "x", "method": "tools/list"} for version in ("1.0", 2.0, None, "")]
    invalid += [{"jsonrpc": "2.0", "id": "x", "method": method} for method in names]
    invalid += [{"jsonrpc": "2.0", "id": "x", "method": "tools/list", "params": params} for params in with_schema]
    invalid += [5, "x", None, True, [], {}, [5], {"id": 1}, {"jsonrpc": "2.0"}]
    async with connected(make_server_with_tools(), revision) as client:
        for message in invalid:
            # The error has no id, or the id that could be parsed.
            before = len(client.lines)
            client._responses.pop("x", None)
            client._responses.pop(None, None)
            client._methods["x"] = "tools/list"
            await client.send(message)
            await check_alive(client)
            answers = [line for line in client.lines[before:-1] if isinstance(line, dict)]
            assert all("error" in line for line in answers), (message, answers)


# --- invalid results -------------------------------------------------------------------------------------------------


def _cycle() -> list[object]:
    cycle: list[object] = []
    cycle.append(cycle)
    return cycle


def _deep() -> object:
    deep: object = 1
    for _ in range(5_000):
        deep = [deep]
    return deep


UNSERIALIZABLE: Final[dict[str, object]] = {
    "an object": object(),
    "a class": Plain,
    "a function": no_parameters,
    "a complex number": 1j,
    "a list with an object": [1, object()],
    "a dict with an object": {"a": object()},
    "a dict with strange keys": {object(): 1},
    "a NaN": float("nan"),
    "an infinity in a list": [float("inf")],
    "half of a pair": {"a": "\ud800"},
    "a circle": _cycle(),
    "nesting that is too deep": _deep(),
    "an enum with no value for JSON": Letters.A,
    "an integer of a thousand digits": {"a": 10**1000},
    "an exception": ValueError("x"),
    "a generator": iter(()),
}

RETURN_TYPES: Final[dict[str, tuple[object, tuple[object, ...]]]] = {
    "int": (int, ("x", None, 1.5, [], object())),
    "str": (str, (5, None, b"x", ["x"], object(), "\ud800")),
    "float": (float, ("1", None, float("nan"), object())),
    "bool": (bool, (0, None, "true")),
    "list": (list[int], (5, None, "x", ["x"], [1, None], {})),
    "dict": (dict[str, int], (5, None, [], {"a": "x"}, {5: 1})),
    "literal": (Literal["a"], ("b", None, 5)),
    "data": (House, ("x", None, {}, Record(1, Plain()), House(5, []), House("x", ["x"]), object())),  # type: ignore[arg-type, list-item]  # invalid on purpose
}
"""Return annotations of tools, with values of other types."""


def _return_cases() -> Iterator[tuple[str, object, object]]:
    for label, value in UNSERIALIZABLE.items():
        # These two are valid as text of a tool: JSON in a text is a text.
        if label not in {"half of a pair", "an integer of a thousand digits"}:
            yield label, object, value
    for kind, (annotation, values) in RETURN_TYPES.items():
        for value in values:
            yield f"{value!r:.30} for {kind}", annotation, value


RETURN_CASES: Final = list(_return_cases())


@BOTH_REVISIONS
async def test_tool_unserializable_result_fails_and_connection_continues(
    revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    for label, annotation, value in RETURN_CASES:
        server = make_server()

        async def result_function(value: object = value) -> object:
            return value

        result_function.__annotations__ = {"return": annotation}
        server.add_tool(_without_parameters(result_function), name="culprit")
        async with connected(server, revision) as client:
            caplog.clear()
            answer = await client.ask("tools/call", {"name": "culprit", "arguments": {}})
            if "error" in answer:
                assert as_object(answer["error"])["code"] == ErrorCode.INTERNAL_ERROR, label
            else:
                result = as_object(answer["result"])
                assert result.get("isError") is True, (label, str(result)[:200])
                assert text_of(result) == "The tool culprit failed. The log of the server contains the reason.", label
            # Only the log contains the reason.
            assert caplog.records, label
            await check_alive(client)


def _without_parameters(function: Function) -> Function:
    """Return the same function without its parameters."""

    async def culprit() -> object:
        awaitable = function()
        assert isinstance(awaitable, Awaitable)
        return await awaitable

    culprit.__annotations__ = dict(function.__annotations__)
    return culprit


@BOTH_REVISIONS
@pytest.mark.parametrize("label", UNSERIALIZABLE)
async def test_prompt_resource_completion_unserializable_result_fails_alone(
    label: str, revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server()
    value = UNSERIALIZABLE[label]

    @server.prompt(name="culprit")
    async def prompt(of: str = "") -> object:
        return value

    @server.resource("walk://culprit")
    async def resource() -> object:
        return value

    @server.completion(prompt="culprit", argument="of")
    async def complete(value: str) -> object:
        return UNSERIALIZABLE[label]

    reference: JsonObject = {"type": "ref/prompt", "name": "culprit"}
    async with connected(server, revision) as client:
        requests: dict[str, JsonObject] = {
            "prompts/get": {"name": "culprit"},
            "resources/read": {"uri": "walk://culprit"},
            "completion/complete": {"ref": reference, "argument": {"name": "of", "value": "x"}},
        }
        for method, params in requests.items():
            caplog.clear()
            error = await client.fail(method, params)
            assert (error["code"], error["message"]) == (ErrorCode.INTERNAL_ERROR, "Internal error")
            assert caplog.records
            await check_alive(client)


class Stop(BaseException):
    """An exception outside of `Exception`."""


RAISED: Final[dict[str, Callable[[], BaseException]]] = {
    "an exception": lambda: RuntimeError("secret"),
    "one that cannot be shown": lambda: type("Odd", (Exception,), {"__str__": lambda _: 5})(),
    "an end of the program": lambda: SystemExit(1),
    "too much recursion": RecursionError,
    "no memory": MemoryError,
    "an end of iteration": StopAsyncIteration,
    "a missing key": lambda: KeyError("secret"),
    "a group": lambda: ExceptionGroup("secret", [ValueError("secret")]),
}


@BOTH_REVISIONS
@pytest.mark.parametrize("label", RAISED)
async def test_handler_exception_hidden_from_client(
    label: str, revision: Revision, caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server()

    @server.tool(name="culprit")
    async def tool() -> str:
        raise RAISED[label]()

    @server.prompt(name="culprit")
    async def prompt() -> str:
        raise RAISED[label]()

    async with connected(server, revision) as client:
        await client.crash("culprit")
        assert "culprit" in caplog.text
        await check_alive(client)
        assert (await client.fail("prompts/get", {"name": "culprit"}))["message"] == "Internal error"
        await check_alive(client)


MISUSES: Final[dict[str, Callable[[Context], Awaitable[object]]]] = {
    "progress that is no number": lambda context: context.progress(float("nan")),
    "progress that is a text": lambda context: context.progress("1"),  # type: ignore[arg-type]  # invalid on purpose
    "no log level": lambda context: context.log("loud", "x"),  # type: ignore[arg-type]  # likewise
    "a log message of an object": lambda context: context.info(object()),  # type: ignore[arg-type]  # likewise
    "a log message with half of a pair": lambda context: context.error("\ud800"),
    "a client request without a definition": lambda context: context.request(5, 5),  # type: ignore[arg-type]  # likewise
    "a client request that clients send": lambda context: context.request(TOOLS_LIST, 5),
    "a form of no class": lambda context: context.elicit(Plain, "?"),
    "a form with a list": lambda context: context.elicit(House, "?"),
    "URL mode without a URL": lambda context: context.elicit_url("?", 5),  # type: ignore[arg-type]  # likewise
    "a notification without a definition": lambda context: context.notify(5, 5),  # type: ignore[arg-type]  # likewise
    "a once value that is not JSON": lambda context: context.once("key", lambda: object()),
    "no state": lambda context: _state(context),
}


async def _state(context: Context) -> object:
    return context.state(Plain)


@BOTH_REVISIONS
@pytest.mark.parametrize("label", MISUSES)
async def test_context_misuse_fails_alone(label: str, revision: Revision, caplog: pytest.LogCaptureFixture) -> None:
    server = make_server()

    @server.tool(name="culprit")
    async def tool(context: Context) -> str:
        await MISUSES[label](context)
        return "survived"

    async with connected(server, revision) as client:
        client.log_level = "debug"
        params: JsonObject = {"name": "culprit", "arguments": {}, "_meta": {"progressToken": "t"}}
        answer = await client.ask("tools/call", params)
        result = as_object(answer.get("result", {"isError": True}))
        assert result.get("isError") is True or caplog.records or text_of(result) == "survived"
        await check_alive(client)


# --- names of decorators ---------------------------------------------------------------------------------------------


def test_decorator_takes_name() -> None:
    server = Server("names", version="1")

    @server.tool("weather", title="Weather")
    @server.prompt("forecast")
    def anything() -> str:
        """Return nothing."""
        return ""

    assert [*server._service.tools._entries] == ["weather"]
    assert [*server._service.prompts._entries] == ["forecast"]


@pytest.mark.parametrize("kind", ["tool", "prompt"])
def test_decorator_with_two_names_raises(kind: str) -> None:
    decorator = getattr(Server("names", version="1"), kind)
    with pytest.raises(RegistrationError, match=r"@server\.\w+\('a', name='b'\) has two names: pass one of them"):
        decorator("a", name="b")


@pytest.mark.parametrize("kind", ["tool", "prompt"])
def test_decorator_with_wrong_name_raises(kind: str) -> None:
    decorator = getattr(Server("names", version="1"), kind)
    with pytest.raises(RegistrationError, match=rf"@server\.{kind} takes the name of the {kind}, .*, not 3"):
        decorator(3)


def test_resource_decorator_without_uri_raises() -> None:
    server = Server("names", version="1")

    def note() -> str:
        """Return nothing."""
        return ""

    with pytest.raises(RegistrationError, match=r"@server\.resource takes the URI: .*note"):
        server.resource(note)  # type: ignore[arg-type]  # invalid on purpose
