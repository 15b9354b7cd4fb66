"""Faults of the validator of a server."""

from __future__ import annotations

import json
import re
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, MODERN

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_core.jsonrpc.messages import JsonValue

__all__: list[str] = []

_URL: Final = re.compile(r"http://localhost:[0-9]+/[a-z.]+")
_ID: Final = re.compile(r"'\$id': '([^']+)'")
_RELATIVE: Final = re.compile(r"'\$ref': '(?!http)([^'#]+)")


@fault("dialect-ignored", "schema.unknown-dialect", revisions=(*LEGACY[3:], *MODERN))
class _DialectIgnored(Fault):
    def unusable_schema(self, problem: str, schema: str) -> bool:  # noqa: ARG002
        return problem != "unknown dialect"


@fault("reference-fetched", "schema.no-network-reference", revisions=MODERN)
class _ReferenceFetched(Fault):
    def unusable_schema(self, problem: str, schema: str) -> bool:
        url = _URL.search(schema)
        if url is not None:
            urllib.request.urlopen(url[0]).close()  # noqa: S310  the URL comes from the suite
        return problem != "external reference"


@fault("relative-reference-fetched", "schema.no-network-reference", revisions=MODERN)
class _RelativeReferenceFetched(Fault):
    """A server that refuses a URL as `$ref`, and resolves a relative one with `$id`."""

    def unusable_schema(self, problem: str, schema: str) -> bool:
        base, reference = _ID.search(schema), _RELATIVE.search(schema)
        if base is None or reference is None:
            return True
        urllib.request.urlopen(urllib.parse.urljoin(base[1], reference[1])).close()  # noqa: S310  the URL comes from the suite
        return problem != "external reference"


def _verdict_fault(name: str, changed: Callable[[JsonValue, JsonValue, bool], bool]) -> None:
    """Add a server whose validator errs."""

    class _Verdict(Fault):
        def valid(self, schema: JsonValue, value: JsonValue, *, good: bool) -> bool:
            return changed(schema, value, good)

    fault(name, "schema.verdicts", revisions=(*LEGACY[3:], *MODERN))(_Verdict)


def _has(schema: JsonValue, text: str) -> bool:
    return text in json.dumps(schema)


_verdict_fault("number-3.0-no-integer", lambda _, value, good: good and not isinstance(value, float))
_verdict_fault("flag-as-integer", lambda schema, value, good: good or (value is True and _has(schema, '"integer"')))
_verdict_fault("zero-as-false", lambda _, value, good: good or value == 0)
_verdict_fault("no-prefix-items", lambda schema, _, good: good or _has(schema, "prefixItems"))
_verdict_fault("no-unevaluated-properties", lambda schema, _, good: good or _has(schema, "unevaluated"))
_verdict_fault("no-anchors", lambda schema, _, good: good or _has(schema, "$anchor"))
_verdict_fault("draft-07-items-ignored", lambda schema, _, good: good or _has(schema, "additionalItems"))
_verdict_fault(
    "draft-07-as-2020-12", lambda schema, value, good: good and not (_has(schema, "draft-07") and value == {"a": 1})
)
_verdict_fault("no-local-references", lambda schema, _, good: good or _has(schema, "$ref"))


@fault("reference-ignored", "schema.unresolved-reference", revisions=MODERN)
class _ReferenceIgnored(Fault):
    def unusable_schema(self, problem: str, schema: str) -> bool:  # noqa: ARG002
        return problem != "external reference"
