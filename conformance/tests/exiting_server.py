"""A server that exits with status 7 at an unknown method.

    exiting_server.py PORT [STAMP]
    exiting_server.py stdio

With STAMP, the path of a file, it starts only once.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_STATUS = 7


def _answer(message: dict[str, object]) -> dict[str, object] | None:
    params = message.get("params")
    if "id" not in message:
        return None
    if message["method"] == "initialize" and isinstance(params, dict):
        result: dict[str, object] = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {},
            "serverInfo": {"name": "dying", "version": "1"},
        }
    elif message["method"] == "ping":
        result = {}
    else:
        os._exit(_STATUS)
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        answer = _answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        body = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(202 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if sys.argv[1] == "stdio":
    for line in sys.stdin:
        if answer := _answer(json.loads(line)):
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
else:
    if sys.argv[2:]:
        Path(sys.argv[2]).touch(exist_ok=False)
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()
