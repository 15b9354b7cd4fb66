"""An HTTP server without an event loop: `mcp_core` behind `http.server` of the standard library.

It has one tool, and supports 2026-07-28, where each request is self-contained: there are no sessions and no state, and one
thread for each request is sufficient. `ServerExchange` implements the HTTP part (access, headers that must match the
body, status codes), `ServerConnection` implements MCP.

    python blocking_http_server.py HOST:PORT
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from mcp_core.codec import encode
from mcp_core.engine.events import MessageIgnored, RequestReceived
from mcp_core.engine.server import ServerConnection
from mcp_core.errors import ErrorCode, RequestFailed
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.http.header_parameters import ParamHeader
from mcp_core.http.messages import Headers, HttpHead, HttpRequest
from mcp_core.http.server import Rejection, ServerExchange
from mcp_core.http.statuses import status_of
from mcp_core.jsonrpc.messages import ErrorResponse, Request, ResultResponse
from mcp_core.limits import SERVER_LIMITS
from mcp_core.revisions import R2026_07_28
from mcp_core.types import (
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    ListToolsRequestParams,
    ListToolsResult,
    ServerCapabilities,
    TextContent,
    Tool,
    ToolsCapability,
)

REVISIONS = frozenset({R2026_07_28})
POLICY = EndpointPolicy()
"""The default policy: only host names of this machine, and no foreign web pages."""
ENGINE = ServerConnection(
    Implementation(name="greeter", version="1.0"), ServerCapabilities(tools=ToolsCapability()), revisions=(R2026_07_28,)
)
"""The engine from which the engines of all requests are created."""

GREET = Tool(
    name="greet",
    description="Return a greeting.",
    input_schema={"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
)


def perform(request: RequestReceived) -> ListToolsResult | CallToolResult:
    """Return the result of a request. Raises `RequestFailed`."""
    match request.params:
        case ListToolsRequestParams():
            return ListToolsResult(tools=(GREET,), ttl_ms=60_000, cache_scope="public")
        case CallToolRequestParams(name="greet", arguments={"name": str(name)}):
            return CallToolResult(content=(TextContent(text=f"Hello, {name}"),))
        case CallToolRequestParams(name="greet"):
            return CallToolResult(content=(TextContent(text="name must be a string"),), is_error=True)
        case CallToolRequestParams(name=name):
            raise RequestFailed(f"unknown tool: {name}", code=ErrorCode.INVALID_PARAMS)
    raise RequestFailed("Internal error")


def header_params(_: str) -> Sequence[ParamHeader]:
    """Return the header parameters of a tool: none."""
    return ()


class Handler(BaseHTTPRequestHandler):
    """A handler of the requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    timeout = 10

    def handle_any(self) -> None:
        """Respond to one request with any HTTP method."""
        http = HttpRequest(method=self.command, target=self.path, headers=Headers(self.headers.items()))
        if http.path.rstrip("/") != "/mcp":
            self.write(HttpHead(status=404, headers=Headers([("content-length", "0")])))
            return
        exchange = ServerExchange(http, POLICY, SERVER_LIMITS, REVISIONS)
        # The head is checked before the body is read, so that a rejected request cannot use resources.
        rejection = exchange.admit()
        length = http.headers.get("content-length")
        if rejection is None and length is None:
            rejection = exchange.reject(411, "Content-Length is missing")
        if rejection is not None:
            self.close_connection = True
            self.reject(rejection)
            return
        post = exchange.read(self.rfile.read(int(length or 0)), header_params)
        if isinstance(post, Rejection):
            self.reject(post)
        elif not isinstance(post.message, Request):
            self.write(exchange.empty_head())  # a notification: the response has no content
        else:
            response, rejected = self.respond(post.message)
            body = encode(response, null_id=False)
            self.write(exchange.json_head(status_of(response, post.era, refused=rejected)), body)

    do_POST = do_GET = do_DELETE = do_OPTIONS = do_PUT = handle_any  # noqa: N815  # names of the standard library

    def respond(self, request: Request) -> tuple[ResultResponse | ErrorResponse, bool]:
        """Return the response, and whether the engine rejected the request."""
        engine = ENGINE.exchange()
        received = engine.receive(request)
        outgoing = received.reply
        if isinstance(received.event, RequestReceived):
            try:
                outgoing = engine.respond(request.id, perform(received.event))
            except RequestFailed as failure:
                outgoing = engine.fail(request.id, failure)
        assert outgoing is not None
        assert isinstance(outgoing.message, ResultResponse | ErrorResponse)
        return outgoing.message, isinstance(received.event, MessageIgnored)

    def reject(self, rejection: Rejection) -> None:
        self.write(rejection.head(), rejection.body())

    def write(self, head: HttpHead, body: bytes = b"") -> None:
        self.send_response(head.status)
        for name, value in head.headers:
            self.send_header(name, value)
        if body and "content-length" not in head.headers:
            self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    host, _, port = sys.argv[1].rpartition(":")
    with ThreadingHTTPServer((host, int(port)), Handler) as served:
        print(f"greeter is served at http://{host}:{served.server_port}/mcp", file=sys.stderr, flush=True)
        served.serve_forever()
