"""The `_meta` of clients: its keys and its values. Spec: basic#meta"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcp_conformance.checks.registry.client import check
from mcp_conformance.model.verdict import Deviation, NotApplicable
from mcp_conformance.protocol.response import brief
from mcp_core.revisions import LEGACY
from mcp_core.types.meta import CLIENT_CAPABILITIES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.scenarios.evidence import ClientUnderTest
    from mcp_core.jsonrpc.messages import JsonObject, JsonValue

_LEGACY: Final = [each.name for each in LEGACY]
_FEATURES: Final = frozenset({"elicitation", "sampling", "roots"})
"""The features of clients that a client declares in each request."""
_DECLARING: Final = ("conformance_asks", "conformance_rounds", "conformance_results", "conformance_broken_stream")
"""Scenarios in which a client declares the same in each request. In the last two, some requests get errors."""
_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_KEY: Final = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*/)?(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?")
_TOKEN: Final = r"[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]*"
_VALUE: Final = r"[ \t]*[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*[ \t]*"
_MEMBER: Final = rf"{_TOKEN}(?:={_VALUE})?"
_BAGGAGE: Final = re.compile(rf"(?:{_TOKEN}={_VALUE}(?:;{_MEMBER})*)(?:,{_TOKEN}={_VALUE}(?:;{_MEMBER})*)*")
_TOP_LEVEL: Final = frozenset({"com", "org", "net", "io", "dev", "edu", "gov", "app", "ai"})
"""Labels with which a domain name ends, and therefore a reversed one begins."""


def _messages(client: ClientUnderTest) -> Iterator[JsonObject]:
    """Yield every message that is an object, of scenarios with a given revision."""
    for evidence in client.all(instructed=True):
        for message in evidence.messages:
            if isinstance(message, dict):
                yield message


def _parts(value: JsonValue) -> Iterator[JsonValue]:
    """Yield every `_meta` in a message. Arguments and contents of users are not checked."""
    if isinstance(value, dict):
        for member in ("params", "result"):
            part = value.get(member)
            if isinstance(part, dict) and "_meta" in part:
                yield part["_meta"]


@check("meta.client-object", proves=("meta.object",), revisions=_LEGACY)
async def meta_object(client: ClientUnderTest) -> None:
    """Every `_meta` that the client sends is an object."""
    for message in _messages(client):
        for meta in _parts(message):
            if not isinstance(meta, dict):
                raise Deviation("_meta that is an object", brief(message))


@check(
    "meta.client-capabilities-each",
    proves=("elicitation.capability", "sampling.capability", "roots.capability"),
    needs=tuple(f"scenario:{each}" for each in _DECLARING),
)
async def capabilities_each(client: ClientUnderTest) -> None:
    """A client that supports elicitation, sampling or roots declares it in each request, also after an error."""
    for scenario in (each for each in _DECLARING if each in client.runs):
        declaring: dict[str, JsonObject] = {}
        declared: list[tuple[JsonObject, JsonObject]] = []
        for message in client.run(scenario).requests:
            params = message.get("params")
            meta = params.get("_meta") if isinstance(params, dict) else None
            capabilities = meta.get(CLIENT_CAPABILITIES) if isinstance(meta, dict) else None
            # Another check requires the capabilities as such.
            if isinstance(capabilities, dict):
                declared.append((message, capabilities))
                declaring.update(dict.fromkeys(_FEATURES & capabilities.keys(), message))
        for message, capabilities in declared:
            for missing in sorted(declaring.keys() - capabilities.keys()):
                raise Deviation(f"{missing} in the capabilities, as in {declaring[missing]['method']}", brief(message))


@check(
    "meta.client-keys",
    proves=("meta.prefix-format", "meta.label-format", "meta.prefix-label-format", "meta.name-format"),
)
async def meta_keys(client: ClientUnderTest) -> None:
    """Every key of `_meta` is a name, with or without a prefix of labels."""
    for message in _messages(client):
        for meta in _parts(message):
            for key in meta if isinstance(meta, dict) else ():
                if not _KEY.fullmatch(key):
                    raise Deviation("a key of _meta in the format of the specification", brief(key))


def _metas(client: ClientUnderTest) -> Iterator[JsonObject]:
    for message in _messages(client):
        for meta in _parts(message):
            if isinstance(meta, dict):
                yield meta


@check("meta.client-baggage", proves=("meta.baggage-format",))
async def baggage(client: ClientUnderTest) -> None:
    """Baggage in requests has the format of W3C Baggage."""
    found = [meta["baggage"] for meta in _metas(client) if "baggage" in meta]
    if not found:
        raise NotApplicable("the client sends no baggage")
    for value in found:
        if not isinstance(value, str) or not _BAGGAGE.fullmatch(value):
            raise Deviation("W3C Baggage", brief(value))


@check("meta.client-reverse-dns", proves=("meta.reverse-dns", "meta.prefix-reverse-dns"))
async def reverse_dns(client: ClientUnderTest) -> None:
    """The prefix of a key is a domain name in reverse order."""
    for meta in _metas(client):
        for key in meta:
            prefix, slash, _ = key.partition("/")
            labels = prefix.lower().split(".")
            if slash and len(labels) > 1 and labels[-1] in _TOP_LEVEL and labels[0] not in _TOP_LEVEL:
                raise Deviation("a prefix such as com.example/", brief(key))
