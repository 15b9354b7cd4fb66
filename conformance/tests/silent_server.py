"""A server that answers `initialize` and `ping`, and does not answer invalid JSON."""

from __future__ import annotations

import json
import sys

_INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "serverInfo": {"name": "silent", "version": "1"},
}
_RESULTS: dict[str, object] = {"initialize": _INITIALIZED, "ping": {}}

for line in sys.stdin:
    try:
        message = json.loads(line)
    except ValueError:
        continue
    if message.get("method") in _RESULTS:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": _RESULTS[message["method"]]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
