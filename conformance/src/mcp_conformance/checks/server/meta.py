"""`_meta`: required members of requests, members of results, and the format of keys."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.message_pairs import answered
from mcp_conformance.checks.probes.modern_requests import answered_requests, rejections
from mcp_conformance.checks.probes.waiting_call import waiting_call
from mcp_conformance.checks.registry.server import SERVER_CHECKS, check
from mcp_conformance.model.check import CheckScope, Transport
from mcp_conformance.model.verdict import Deviation, NotTestable
from mcp_conformance.protocol.response import brief
from mcp_core.types import meta as keys
from mcp_core.types.meta import (
    BAGGAGE,
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
    TRACEPARENT,
    TRACESTATE,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcp_conformance.drivers.server.under_test import ServerUnderTest
    from mcp_conformance.protocol.response import JsonRpcResponse
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

# --- required members of requests
# ---------------------------------------------------------------------------------------


async def _without(
    server: ServerUnderTest, change: Callable[[JsonObject], JsonObject], deviant: str
) -> JsonRpcResponse:
    """Send a request that succeeds, and then the same one with changed params."""
    control = await server.peer.request("server/discover")
    if control.is_error:
        raise NotTestable(f"the control request failed: {control}")
    message = server.peer.message("server/discover")
    params = message["params"]
    assert isinstance(params, dict)  # noqa: S101  `message` made it
    return await server.peer.exchange({**message, "params": change(params)}, deviant=deviant)


def _left_out(key: str) -> Callable[[JsonObject], JsonObject]:
    def change(params: JsonObject) -> JsonObject:
        meta = params["_meta"]
        kept = {name: value for name, value in meta.items() if name != key} if isinstance(meta, dict) else {}
        return {**params, "_meta": kept}

    return change


def _replaced(key: str, value: JsonValue) -> Callable[[JsonObject], JsonObject]:
    def change(params: JsonObject) -> JsonObject:
        meta = params["_meta"]
        return {**params, "_meta": {**meta, key: value} if isinstance(meta, dict) else {}}

    return change


_MISSING: Final = {
    "missing": ("meta.missing-meta-32602", "_meta", lambda params: {k: v for k, v in params.items() if k != "_meta"}),
    "missing-version": ("meta.missing-protocol-version-32602", PROTOCOL_VERSION, _left_out(PROTOCOL_VERSION)),
    "missing-capabilities": (
        "meta.missing-client-capabilities-32602",
        CLIENT_CAPABILITIES,
        _left_out(CLIENT_CAPABILITIES),
    ),
}
"""The last part of the id, the requirement, what is missing, and how it is removed."""


def _register() -> None:
    for words, (requirement, what, change) in _MISSING.items():

        async def run(
            server: ServerUnderTest, *, what: str = what, change: Callable[[JsonObject], JsonObject] = change
        ) -> None:
            answer = await _without(server, change, f"a request without {what}")
            answer.error(-32602, what=f"a request without {what}")
            await _refuses_after_failure(server, change, what)
            with suppress(NotTestable):  # a server without a tool that waits has passed what can be tested
                async with waiting_call(server):
                    answer = await _without(server, change, f"a request without {what}")
                answer.error(-32602, what=f"a request without {what}, while another one is in progress")
            if what == "_meta":
                await _refuses_absent_params(server)
            # Over stdio, a request without its version may be one of a legacy client.
            if server.transport is Transport.HTTP or what == CLIENT_CAPABILITIES:
                for each in await _of_each_method(server, change, f"a request without {what}"):
                    each.error(-32602, what=f"{each.method} without {what}")

        SERVER_CHECKS.add(
            f"meta.{words}", run, title=f"A request without {what} is answered with -32602.", proves=(requirement,)
        )


_register()


async def _refuses_after_failure(
    server: ServerUnderTest, change: Callable[[JsonObject], JsonObject], what: str
) -> None:
    """Require the same error after requests that fail, whose metadata a server may keep."""
    failing: tuple[tuple[str, str, JsonObject], ...] = (
        ("prompts", "prompts/get", {"name": "conformance-none"}),
        ("tools", "tools/call", {"name": "conformance-none", "arguments": {}}),
    )
    for capability, method, params in failing:
        if not server.inventory.has(capability):
            continue
        await server.peer.request(method, params)
        message = server.peer.message("server/discover")
        kept = message["params"]
        assert isinstance(kept, dict)  # noqa: S101  `message` made it
        answer = await server.peer.exchange({**message, "params": change(kept)}, deviant=f"a request without {what}")
        answer.error(-32602, what=f"a request without {what}, after one that fails")


async def _refuses_absent_params(server: ServerUnderTest) -> None:
    """Require the same error for requests that have no params, in which a server may not expect to miss the metadata."""
    for method, params in answered_requests(server):
        # Over stdio, a request without its version may be one of a legacy client, unless only modern ones have the method.
        if params or (server.transport is not Transport.HTTP and method != "server/discover"):
            continue
        message = {name: each for name, each in server.peer.message(method).items() if name != "params"}
        answer = await server.peer.exchange(message, deviant="a request without params")
        answer.error(-32602, what=f"{method} without params")


async def _of_each_method(
    server: ServerUnderTest, change: Callable[[JsonObject], JsonObject], deviant: str
) -> list[JsonRpcResponse]:
    """Send requests of all methods with changed params, and return the responses."""

    def changed(message: JsonObject) -> JsonObject:
        params = message["params"]
        return {**message, "params": change(params)} if isinstance(params, dict) else message

    return await rejections(server, changed, deviant)


@check("meta.missing-status", proves=("meta.missing-field-http-400",))
async def missing_status(server: ServerUnderTest) -> None:
    """A request without a required member of `_meta` is answered with HTTP status 400."""
    what = "a request without clientCapabilities"
    (await _without(server, _left_out(CLIENT_CAPABILITIES), what)).refused((400,))
    for answer in await _of_each_method(server, _left_out(CLIENT_CAPABILITIES), what):
        answer.refused((400,))


_NO_OBJECTS: Final[tuple[JsonValue, ...]] = (None, [], "", False)
"""Values that a lax test takes for an object or for nothing: null is an object in JavaScript."""
_NO_VERSIONS: Final[tuple[JsonValue, ...]] = (20260728, None, ["2026-07-28"])


@check("meta.wrong-type", proves=("meta.wrong-type-32602",))
async def wrong_type(server: ServerUnderTest) -> None:
    """A required member of `_meta` with a wrong type is answered with -32602, and so is a `_meta` that is no object."""
    change, what = _replaced(CLIENT_CAPABILITIES, ["sampling"]), "clientCapabilities that are an array"
    (await _without(server, change, what)).error(-32602, what=what)
    for answer in await _of_each_method(server, change, what):
        answer.error(-32602, what=f"{answer.method} with {what}")
    for value in _NO_OBJECTS:
        what = f"clientCapabilities {brief(value)}"
        (await _without(server, _replaced(CLIENT_CAPABILITIES, value), what)).error(-32602, what=what)
        what = f"_meta {brief(value)}"
        (await _without(server, partial(_with_meta, value), what)).error(-32602, what=what)
    for value in _NO_VERSIONS:
        what = f"protocolVersion {brief(value)}"
        answer = await _without(server, _replaced(PROTOCOL_VERSION, value), what)
        # Over HTTP, the header with the version does not match it either.
        answer.error(*((-32602, -32020) if server.transport is Transport.HTTP else (-32602,)), what=what)


def _with_meta(meta: JsonValue, params: JsonObject) -> JsonObject:
    return {**params, "_meta": meta}


@check("meta.without-client-info", proves=("meta.client-info-optional-for-server",))
async def without_client_info(server: ServerUnderTest) -> None:
    """A request without clientInfo is served."""
    # The schema makes clientInfo optional, so that this breaks no rule.
    (await _without(server, _left_out(CLIENT_INFO), "")).result()


@check("meta.any-client-info", proves=("meta.client-info-not-behavioral",))
async def any_client_info(server: ServerUnderTest) -> None:
    """A different clientInfo does not change the capabilities, versions or instructions of the server."""
    first = (await server.peer.request("server/discover")).result()
    other: JsonObject = {"name": "another-client", "version": "99.9", "title": "Another client"}
    now = (await _without(server, _replaced(CLIENT_INFO, other), "")).result()
    for member in ("capabilities", "supportedVersions", "instructions"):
        if first.get(member) != now.get(member):
            raise Deviation(f"the same {member} for any client: {brief(first.get(member))}", brief(now.get(member)))


@check("meta.unknown-keys", proves=("meta.object", "meta.unknown-keys-ignored"))
async def unknown_keys(server: ServerUnderTest) -> None:
    """Unknown keys of `_meta` are ignored, whatever the method."""
    await _require_results(server, {"com.example/anything": {"deep": [1, None]}, "plain": 1}, "unknown keys of _meta")


async def _require_results(server: ServerUnderTest, meta: JsonObject, what: str) -> None:
    """Require that each request that is served without some members of `_meta` is served with them.

    Raises:
        NotTestable: None is served without them.
    """
    served = 0
    for method, params in answered_requests(server):
        if (await server.peer.request(method, params)).is_error:
            continue
        served += 1
        answer = await server.peer.request(method, {**params, "_meta": meta})
        if answer.is_error:
            raise Deviation(f"a result of {method} in spite of {what}", str(answer))
    if not served:
        raise NotTestable("the server serves no request")


@check("meta.trace-context", proves=("meta.trace-context-accepted",))
async def trace_context(server: ServerUnderTest) -> None:
    """A request with traceparent, tracestate and baggage is served, whatever the method."""
    trace: JsonObject = {
        TRACEPARENT: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        TRACESTATE: "vendor=value",
        BAGGAGE: "key=value",
    }
    await _require_results(server, trace, "traceparent, tracestate and baggage")


# --- members of results
# -------------------------------------------------------------------------------------------------


@check("meta.keys-of-requests", proves=("meta.reserved-keys-not-redefined",), subject=CheckScope.EVIDENCE)
async def keys_of_requests(server: ServerUnderTest) -> None:
    """The `_meta` of a result has no key that is defined for requests only, such as the capabilities of the client."""
    for request, response in answered(server):
        result = response.get("result")
        meta = _object(result.get("_meta")) if isinstance(result, dict) else {}
        if found := sorted(meta.keys() & _OF_REQUESTS):
            raise Deviation(f"no {found[0]} in the result of {request['method']}", brief(meta))


@check("meta.server-info", proves=("meta.server-info-should",), subject=CheckScope.EVIDENCE)
async def server_info(server: ServerUnderTest) -> None:
    """Every result has serverInfo in its `_meta`."""
    for request, response in answered(server):
        result = response.get("result")
        if isinstance(result, dict) and SERVER_INFO not in _object(result.get("_meta")):
            raise Deviation(f"{SERVER_INFO} in the result of {request['method']}", brief(result))


@check("meta.server-info-shape", proves=("meta.server-info-shape",), subject=CheckScope.EVIDENCE)
async def server_info_shape(server: ServerUnderTest) -> None:
    """A serverInfo has a name and a version, which are strings."""
    count = 0
    for _, response in answered(server):
        result = response.get("result")
        meta = _object(result.get("_meta")) if isinstance(result, dict) else {}
        if SERVER_INFO in meta:
            count += 1
            info = _object(meta[SERVER_INFO])
            if not isinstance(info.get("name"), str) or not isinstance(info.get("version"), str):
                raise Deviation("serverInfo with a name and a version", brief(meta[SERVER_INFO]))
    if not count:
        raise NotTestable("no result had serverInfo")


_OF_REQUESTS: Final = frozenset({PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL})


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}


# --- format of keys
# -----------------------------------------------------------------------------------------------------

_OPAQUE: Final = frozenset(
    {
        "structuredContent",
        "inputSchema",
        "outputSchema",
        "requestedSchema",
        "data",
        "arguments",
        "experimental",
        "frontmatter",
    }
)
"""Members with free content, in which the name `_meta` has no meaning for the protocol."""
_LABEL: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_NAME: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?")
_OURS: Final = frozenset({"modelcontextprotocol", "mcp"})
_DEFINED: Final = frozenset(
    value
    for value in map(keys.__dict__.get, keys.__all__)
    if isinstance(value, str) and value.startswith("io.modelcontextprotocol/")
)
"""The keys that the specification and the official extensions define."""
_SKILLS_PREFIX: Final = "io.modelcontextprotocol.skills/"
"""The prefix of keys that the skills extension reserves for metadata of the server's choice."""
_TOP_LEVEL: Final = frozenset({"com", "org", "net", "io", "dev", "app", "ai", "edu", "gov", "co", "me"})
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")
_TRACESTATE: Final = re.compile(r"\s*[a-z0-9][a-z0-9_*/@-]*=[\x20-\x2b\x2d-\x3c\x3e-\x7e]*(?:\s*,.*)?")
_BAGGAGE: Final = re.compile(r"\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*=[^\s\",;\\]*.*")


def _metas(value: JsonValue) -> Iterator[JsonObject]:
    if isinstance(value, list):
        for each in value:
            yield from _metas(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name == "_meta" and isinstance(each, dict):
                yield each
            elif name not in _OPAQUE:
                yield from _metas(each)


def _all_keys(server: ServerUnderTest) -> list[tuple[str, JsonValue]]:
    """Return all `_meta` keys that the server sent, with their values.

    Raises:
        NotTestable: The server sent no `_meta`.
    """
    found = [
        (key, value)
        for transcript in server.evidence
        for message in transcript.messages(sent=False)
        for meta in _metas(message)
        for key, value in meta.items()
    ]
    if not found:
        raise NotTestable("the server sent no _meta")
    return found


def _labels(key: str) -> list[str]:
    """Return the labels of the prefix; empty when there is no prefix."""
    prefix, slash, _ = key.rpartition("/")
    return prefix.split(".") if slash else []


def _bad_prefix(key: str) -> bool:
    return key.count("/") > 1 or any("/" in label for label in _labels(key)) or key.startswith("/")


def _bad_label(key: str) -> bool:
    return any(_LABEL.fullmatch(label) is None for label in _labels(key))


def _bad_name(key: str) -> bool:
    return _NAME.fullmatch(key.rpartition("/")[2]) is None


def _is_defined(key: str) -> bool:
    return key in _DEFINED or key.startswith(_SKILLS_PREFIX)


def _reserved_anywhere(key: str) -> bool:
    labels = _labels(key)
    return len(labels) >= 2 and labels[-2] in _OURS and not _is_defined(key)


def _reserved_second(key: str) -> bool:
    labels = _labels(key)
    return len(labels) >= 2 and labels[1] in _OURS and not _is_defined(key)


def _not_reversed(key: str) -> bool:
    labels = _labels(key)
    return len(labels) > 1 and labels[-1] in _TOP_LEVEL and labels[0] not in _TOP_LEVEL


_KEYS: Final = {
    "prefix": (("meta.prefix-format",), _bad_prefix, "a prefix of labels separated by dots, and one slash"),
    "label": (
        ("meta.label-format", "meta.prefix-label-format"),
        _bad_label,
        "labels of letters, digits and hyphens that start with a letter and end with a letter or digit",
    ),
    "name": (("meta.name-format",), _bad_name, "a name that starts and ends with a letter or digit"),
    "reserved-before-last": (("meta.reserved-prefix-any",), _reserved_anywhere, "no reserved prefix"),
    "reserved-second": (
        ("meta.reserved-prefix-second-label", "meta.reserved-keys-not-redefined"),
        _reserved_second,
        "no reserved prefix except in keys of the specification",
    ),
    "reverse-dns": (("meta.reverse-dns", "meta.prefix-reverse-dns"), _not_reversed, "a prefix in reverse DNS order"),
}
"""The last part of the id, the requirements, the violation, and the rule."""


def _register_keys() -> None:
    for words, (proves, wrong, right) in _KEYS.items():

        async def run(server: ServerUnderTest, *, wrong: Callable[[str], bool] = wrong, right: str = right) -> None:
            for key, _ in _all_keys(server):
                if wrong(key):
                    raise Deviation(f"{right}, in each key of _meta", repr(key))

        SERVER_CHECKS.add(
            f"meta.key-{words}",
            run,
            title=f"The keys of `_meta` have {right}.",
            proves=proves,
            subject=CheckScope.EVIDENCE,
        )


_register_keys()


@check("meta.trace-context-format", proves=("meta.trace-context-format",), subject=CheckScope.EVIDENCE)
async def trace_context_format(server: ServerUnderTest) -> None:
    """The traceparent and tracestate have the format of W3C Trace Context."""
    _formats(server, {TRACEPARENT: _TRACEPARENT, TRACESTATE: _TRACESTATE})


@check("meta.baggage-format", proves=("meta.baggage-format",), subject=CheckScope.EVIDENCE)
async def baggage_format(server: ServerUnderTest) -> None:
    """Baggage has the format of W3C Baggage."""
    _formats(server, {BAGGAGE: _BAGGAGE})


def _formats(server: ServerUnderTest, formats: dict[str, re.Pattern[str]]) -> None:
    found = [(key, value) for key, value in _all_keys(server) if key in formats]
    if not found:
        raise NotTestable(f"the server sent no {' and no '.join(formats)}")
    for key, value in found:
        if not isinstance(value, str) or formats[key].fullmatch(value) is None:
            raise Deviation(f"{key} in the format of W3C", brief(value))
