"""The params of a client's requests and notifications, validated against the schema of their revision."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.probes.recorded_values import member
from mcp_conformance.checks.probes.subscription_stream import LISTEN
from mcp_conformance.checks.registry.client import CLIENT_CHECKS, check
from mcp_conformance.model.check import CheckScope
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.protocol.message_schema import flaw_of_params
from mcp_conformance.protocol.response import brief
from mcp_conformance.protocol.uri_syntax import is_uri
from mcp_core.revisions import LEGACY, MODERN
from mcp_core.types.meta import CLIENT_CAPABILITIES, PROGRESS_TOKEN, PROTOCOL_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_LEGACY: Final = [each.name for each in LEGACY]

_META: Final[JsonObject] = {PROTOCOL_VERSION: MODERN[-1].name, CLIENT_CAPABILITIES: {}}
"""A valid `_meta`."""
_BY_URI: Final = ("resources/read", "resources/subscribe", "resources/unsubscribe")

_ROWS: Final[tuple[tuple[str, tuple[str, ...], str], ...]] = (
    (
        "initialize",
        (
            "schema.initialize-params",
            "schema.implementation",
            "schema.client-capabilities",
            "schema.client-capability-elicitation",
            "schema.client-capability-sampling-details",
            "schema.client-capability-tasks",
        ),
        "`initialize` has a protocol version, capabilities, and the name and version of the client.",
    ),
    ("tools/call", ("schema.call-tool-params",), "`tools/call` has a name, and arguments that are an object."),
    ("prompts/get", ("schema.get-prompt-params",), "`prompts/get` has a name, and arguments that are strings."),
    ("resources/read", ("schema.resource-request-params",), "`resources/read` has a URI."),
    ("resources/subscribe", ("schema.resource-request-params",), "`resources/subscribe` has a URI."),
    ("resources/unsubscribe", ("schema.resource-request-params",), "`resources/unsubscribe` has a URI."),
    ("logging/setLevel", ("schema.set-level-params", "schema.logging-level"), "`logging/setLevel` has a level."),
    ("completion/complete", ("schema.complete-params",), "`completion/complete` has a reference and an argument."),
)
"""The method, the requirements for its params, and the title of the check."""


def _sent_messages(client: ClientUnderTest) -> Iterator[JsonObject]:
    """Yield every request and notification of scenarios with a given revision."""
    for evidence in client.all(instructed=True):
        for message in evidence.messages:
            # Another check covers params that are not an object.
            if isinstance(message, dict) and "method" in message and isinstance(message.get("params", {}), dict):
                yield message


def _add(method: str, requirements: tuple[str, ...], title: str) -> None:
    async def shape(client: ClientUnderTest) -> None:
        found = [each for each in _sent_messages(client) if each["method"] == method]
        for message in found:
            wrong = flaw_of_params(method, message.get("params"), client.revision)
            if wrong is not None:
                raise Deviation(f"params of {method} according to the schema", wrong)
        if not found:
            raise NotApplicable(f"the client sent no {method}")

    CLIENT_CHECKS.add(
        f"schema.client-{method.replace('/', '-')}",
        shape,
        title=title,
        proves=requirements,
        revisions=_LEGACY,
        subject=CheckScope.EVIDENCE,
    )


for _row in _ROWS:
    _add(*_row)


@check(
    "schema.client-messages",
    proves=("jsonrpc.schema-valid-messages",),
    revisions=[each.name for each in MODERN],
)
async def messages(client: ClientUnderTest) -> None:
    """The params of every request and notification conform to the schema."""
    for message in _sent_messages(client):
        params = message.get("params")
        if not isinstance(params, dict):
            continue
        meta = params.get("_meta")
        # Other checks cover the members of `_meta`.
        rest: JsonObject = {**params, "_meta": _META} if isinstance(meta, dict) else {}
        wrong = flaw_of_params(str(message["method"]), rest, client.revision) if rest else None
        if wrong is not None:
            raise Deviation(f"params of {message['method']} according to the schema", wrong)


@check(
    "schema.client-uris",
    proves=("schema.resource-request-params", "jsonrpc.schema-valid-messages", "subscription.filter-fields"),
)
async def uris(client: ClientUnderTest) -> None:
    """The URI in a request or subscription for a resource has the syntax of a URI, unless the server named it."""
    found = 0
    for evidence in client.all(instructed=True):
        for message in evidence.requests:
            for uri in _uris_of(message):
                found += 1
                if not is_uri(uri) and not any(_names(each, uri) for each in evidence.transcript.messages(sent=True)):
                    raise Deviation("a URI", brief(message))
    if not found:
        raise NotApplicable("the client sent no request for a resource")


def _uris_of(message: JsonObject) -> list[str]:
    """Return the URIs of the resources that a request concerns."""
    params = message.get("params")
    requested = params if isinstance(params, dict) else {}
    if message["method"] in _BY_URI:
        found: JsonValue = [requested.get("uri")]
    else:
        wanted = requested.get("notifications")
        listens = message["method"] == LISTEN and isinstance(wanted, dict)
        found = wanted.get("resourceSubscriptions") if listens and isinstance(wanted, dict) else None
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _names(message: JsonValue, text: str) -> bool:
    """Return whether a text is in the result of a message. An error may repeat the URI of the client."""
    return isinstance(message, dict) and json.dumps(text) in json.dumps(message.get("result"))


@check("progress.client-token", proves=("progress.token-type",))
async def progress_token(client: ClientUnderTest) -> None:
    """The progress token of a request is a string or an integer in `params._meta`, not in the arguments of a call."""
    tried = 0
    for message in _sent_messages(client):
        argument = member(message, "params", "arguments", "_meta")
        if isinstance(argument, dict) and PROGRESS_TOKEN in argument:
            # No tool of the scenarios has an argument `_meta`.
            raise Deviation("the progressToken in params._meta", brief(message))
        meta = member(message, "params", "_meta")
        if isinstance(meta, dict) and PROGRESS_TOKEN in meta:
            tried += 1
            token = meta[PROGRESS_TOKEN]
            if not isinstance(token, str | int) or isinstance(token, bool):
                raise Deviation("a progressToken that is a string or an integer", brief(token))
    if not tried:
        raise NotApplicable("the client requests no progress")
