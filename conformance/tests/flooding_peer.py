"""A peer that sends one notification after another without end.

flooding_peer.py stdio            a server over standard input and output
flooding_peer.py PORT             a server of Streamable HTTP, which floods the stream of the response to a ping
flooding_peer.py client COMMAND   a client that starts a server, or with a URL uses one over HTTP
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_INFO: dict[str, object] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "serverInfo": {"name": "x", "version": "1"},
}
_FLOOD = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'


def _responses(message: dict[str, object]) -> Iterator[bytes]:
    if message["method"] == "initialize":
        yield json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": _INFO}).encode()
        return
    while "id" in message:
        yield _FLOOD


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200 if "id" in message else 202)
        if "id" in message:
            self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for each in _responses(message):
            self.wfile.write(b"data: " + each + b"\n\n")


def _serve() -> None:
    for line in sys.stdin.buffer:
        for each in _responses(json.loads(line)):
            sys.stdout.buffer.write(each + b"\n")
            sys.stdout.buffer.flush()


def _flood(server: list[str]) -> None:
    if not server[0].startswith("http"):
        with subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            while process.stdin is not None:
                process.stdin.write(_FLOOD + b"\n")
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    while True:
        # It opens no session, so that the responses are errors.
        with suppress(urllib.error.HTTPError):
            urllib.request.urlopen(urllib.request.Request(server[0], _FLOOD, headers)).close()


if sys.argv[1] == "client":
    _flood(sys.argv[2:])
elif sys.argv[1] == "stdio":
    _serve()
else:
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Handler).serve_forever()
