"""Values in the params of clients: subscriptions, log levels, arguments, and keys of `_meta`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import params_of
from mcp_conformance.checks.registry.client import check
from mcp_conformance.drivers.client.scripted_request import encoded
from mcp_conformance.model.check import Transport
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.protocol.message_schema import flaw, flaw_of_params
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import LEGACY, MODERN, R2025_06_18
from mcp_core.types import LOGGING_LEVELS
from mcp_core.types.meta import CLIENT_INFO, LOG_LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.scenarios.evidence import ClientUnderTest, Evidence
    from mcp_core.jsonrpc.messages import JsonObject

_LEGACY: Final = [each.name for each in LEGACY]
_MODERN: Final = [each.name for each in MODERN]
_LISTEN: Final = "subscriptions/listen"
_TRACEPARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]+")
_DEFINED: Final = frozenset(
    f"io.modelcontextprotocol/{name}"
    for name in (
        "protocolVersion",
        "clientInfo",
        "clientCapabilities",
        "logLevel",
        "subscriptionId",
        "related-task",
        "model-immediate-response",
    )
)
"""The keys with the reserved prefix that the protocol and its extensions define for clients."""
_RETRY_MEMBERS: Final = ("inputResponses", "requestState")
"""The members that only a retry has."""


def _metas(client: ClientUnderTest) -> Iterator[JsonObject]:
    for evidence in client.all(instructed=True):
        for message in evidence.messages:
            meta = params_of(message).get("_meta") if isinstance(message, dict) else None
            if isinstance(meta, dict):
                yield meta


def _sent(client: ClientUnderTest, method: str) -> list[JsonObject]:
    """Return every request of a method. Raise `NotApplicable` without any."""
    found = [each for evidence in client.all(instructed=True) for each in evidence.sent(method)]
    if not found:
        raise NotApplicable(f"the client sent no {method}")
    return found


@check("subscription.client-filter", proves=("subscription.filter-required", "subscription.filter-fields"))
async def listen_filter(client: ClientUnderTest) -> None:
    """A subscription has a filter in `notifications`, with flags and URIs."""
    for message in _sent(client, _LISTEN):
        requested = params_of(message).get("notifications")
        wrong = flaw(requested, "SubscriptionFilter", client.revision)
        if wrong is not None:
            raise Deviation("a filter according to the schema", wrong)


def _subscriptions(client: ClientUnderTest) -> tuple[Evidence, list[JsonObject]]:
    """Return the subscriptions of the basic scenario, for a client that finished it.

    Raises:
        NotApplicable: The client opened no subscription.
    """
    evidence = client.control()
    found = evidence.sent(_LISTEN)
    if not found:
        raise NotApplicable("the client opens no subscription")
    return evidence, found


@check(
    "subscription.client-ends-stdio",
    proves=("subscription.client-cancel-stdio",),
    transports=frozenset({Transport.STDIO}),
    needs=("scenario:tools_call",),
)
async def ends_stdio(client: ClientUnderTest) -> None:
    """A subscription over stdio is cancelled by a notification with its id."""
    evidence, found = _subscriptions(client)
    named = {encoded(params_of(each).get("requestId")) for each in evidence.sent("notifications/cancelled")}
    for message in found:
        if encoded(message["id"]) not in named:
            raise Deviation(f"notifications/cancelled with the requestId {brief(message['id'])}", evidence.ending)


@check(
    "subscription.client-ends-http",
    proves=("subscription.client-cancel-http",),
    transports=frozenset({Transport.HTTP}),
    needs=("scenario:tools_call",),
)
async def ends_http(client: ClientUnderTest) -> None:
    """A subscription over HTTP is cancelled by closing its connection, without a message."""
    evidence, _ = _subscriptions(client)
    for exchange in evidence.exchanges:
        if exchange.message.get("method") == _LISTEN and not exchange.gone.is_set():
            raise Deviation("the client to close the connection", evidence.ending)
    for message in evidence.sent("notifications/cancelled"):
        raise Deviation("no notifications/cancelled over HTTP", brief(message))


@check("logging.client-level", proves=("logging.client-log-level-values",))
async def log_level(client: ClientUnderTest) -> None:
    """The log level of a request is one of the eight levels."""
    levels = [meta[LOG_LEVEL] for meta in _metas(client) if LOG_LEVEL in meta]
    if not levels:
        raise NotApplicable("the client requests no log messages")
    for level in levels:
        if level not in LOGGING_LEVELS:
            raise Deviation("one of the eight levels", brief(level))


def _as_in_schema(client: ClientUnderTest, method: str) -> None:
    for message in _sent(client, method):
        # Other checks cover `_meta` and the members of retries.
        rest = {name: value for name, value in params_of(message).items() if name not in _RETRY_MEMBERS}
        wrong = flaw_of_params(method, {**rest, "_meta": {}}, client.revision)
        if wrong is not None and "_meta" not in wrong:
            raise Deviation(f"params of {method} according to the schema", wrong)


@check("prompts.client-arguments", proves=("prompts.arguments-strings",), revisions=_MODERN)
async def prompt_arguments(client: ClientUnderTest) -> None:
    """The arguments of a prompt are strings."""
    _as_in_schema(client, "prompts/get")


@check("tools.client-arguments", proves=("tools.call-arguments-object",), revisions=_MODERN)
async def tool_arguments(client: ClientUnderTest) -> None:
    """A tool call has a name, and arguments that are an object."""
    _as_in_schema(client, "tools/call")


@check("completion.client-reference", proves=("completion.ref-types",), revisions=_MODERN)
async def completion_reference(client: ClientUnderTest) -> None:
    """A completion request has a reference to a prompt or template, and an argument with name and value."""
    _as_in_schema(client, "completion/complete")


@check("meta.client-trace", proves=("meta.trace-context-format",))
async def trace(client: ClientUnderTest) -> None:
    """The traceparent of a request has the format of W3C Trace Context."""
    found = [meta["traceparent"] for meta in _metas(client) if "traceparent" in meta]
    if not found:
        raise NotApplicable("the client sends no traceparent")
    for value in found:
        if not isinstance(value, str) or not _TRACEPARENT.fullmatch(value):
            raise Deviation("a traceparent of W3C Trace Context", brief(value))


@check("schema.client-website", proves=("schema.implementation-website-url",))
async def website(client: ClientUnderTest) -> None:
    """The websiteUrl of a client is a URI."""
    infos = [meta.get(CLIENT_INFO) for meta in _metas(client)]
    found = [info["websiteUrl"] for info in infos if isinstance(info, dict) and "websiteUrl" in info]
    if not found:
        raise NotApplicable("the client sends no websiteUrl")
    for value in found:
        if not isinstance(value, str) or not _URI.fullmatch(value):
            raise Deviation("websiteUrl that is a URI", brief(value))


@check("schema.client-cursor", proves=("schema.paginated",), revisions=_LEGACY)
async def cursor(client: ClientUnderTest) -> None:
    """The cursor of a request is a string; the request for the first page has none."""
    for evidence in client.all(instructed=True):
        for message in evidence.requests:
            if "cursor" in params_of(message) and not isinstance(params_of(message)["cursor"], str):
                raise Deviation("a cursor that is a string, or no cursor", brief(message))


@check(
    "meta.client-reserved",
    proves=(
        "meta.reserved-keys-not-redefined",
        "meta.reserved-prefix-second-label",
        "meta.reserved-prefix-any",
    ),
)
async def reserved(client: ClientUnderTest) -> None:
    """Keys with the reserved prefix are only those that the specification defines."""
    # In 2025-06-18 the label before the last one decides, later the second one.
    place = -2 if client.revision is R2025_06_18 else 1
    for meta in _metas(client):
        for key in meta:
            prefix, slash, _ = key.partition("/")
            labels = prefix.split(".")
            if slash and len(labels) > 1 and labels[place] in ("modelcontextprotocol", "mcp") and key not in _DEFINED:
                raise Deviation("no undefined key with a reserved prefix", brief(key))


@check(
    "error.client-reserved-codes",
    proves=("error.reserved-range-only-defined", "error.reserved-codes-meaning"),
)
async def reserved_codes(client: ClientUnderTest) -> None:
    """The client sends no error with a code that is reserved for the protocol."""
    for evidence in client.all(instructed=True):
        for message in evidence.responses:
            error = message.get("error")
            code = error.get("code") if isinstance(error, dict) else None
            if isinstance(code, int) and -32099 <= code <= -32020:
                raise Deviation("no error from -32020 to -32099", brief(message))
