"""A server of both eras whose era is set by the first message after `server/discover`: a request means modern."""

from __future__ import annotations

import json
import sys

_FOUND: dict[str, object] = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {},
    "ttlMs": 0,
    "cacheScope": "private",
}
modern: bool | None = None

for line in sys.stdin:
    message = json.loads(line)
    if modern is None and message["method"] != "server/discover":
        modern = "id" in message
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        if modern is not False and message["method"] == "server/discover":
            answer["result"] = _FOUND
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
