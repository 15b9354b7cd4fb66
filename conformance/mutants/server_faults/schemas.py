"""Faults of the validator of a server."""

from __future__ import annotations

import re
import urllib.request
from typing import Final

from mutants.server.fault import Fault, fault
from mutants.server.protocol import LEGACY, MODERN

__all__: list[str] = []

_URL: Final = re.compile(r"http://localhost:[0-9]+/[a-z.]+")


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


@fault("reference-ignored", "schema.unresolved-reference", revisions=MODERN)
class _ReferenceIgnored(Fault):
    def unusable_schema(self, problem: str, schema: str) -> bool:  # noqa: ARG002
        return problem != "external reference"
