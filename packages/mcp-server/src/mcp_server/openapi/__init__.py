"""Servers of HTTP APIs that an OpenAPI document describes: each operation is a tool or a resource.

    async with httpx.AsyncClient(base_url="https://api.example.com", headers=credentials) as client:
        server = Server.from_openapi(document, client=client)
        await serve_stdio(server)

`Server.from_openapi` creates a server, and `Server.add_openapi` adds an API to one.
"""

from mcp_server.openapi.calls import HttpClient, HttpResponse
from mcp_server.openapi.document import Operation
from mcp_server.openapi.registration import Expose, OperationKind

__all__ = ["Expose", "HttpClient", "HttpResponse", "Operation", "OperationKind"]
