"""An HTTP API on a socket: it responds with the request that it received, and with the responses that tests need."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import hypercorn
import hypercorn.trio
import trio
from hypercorn.typing import Framework
from quart import Response, jsonify, request
from quart_trio import QuartTrio

from mcp_server.asgi import Application

METHODS = ["GET", "PUT", "POST", "DELETE", "PATCH"]


def echo_api() -> QuartTrio:
    """Return the API. Each path that has no response of its own responds with the request."""
    app = QuartTrio("api")
    app.url_map.merge_slashes = False

    @app.route("/status/<int:status>")
    async def with_status(status: int) -> Response:
        return Response("no such pet: \x1b[31m42", status=status, content_type="text/plain; charset=utf-8")

    @app.route("/picture")
    async def picture() -> Response:
        return Response(b"\x89PNG", content_type="image/png")

    @app.route("/archive")
    async def archive() -> Response:
        return Response(b"PK\x00\xff", content_type="application/zip")

    @app.route("/latin")
    async def latin() -> Response:
        return Response("Käse".encode("latin-1"), content_type="text/plain; charset=iso-8859-1")

    @app.route("/list")
    async def names() -> Response:
        return jsonify(["Ada", "Grace"])

    @app.route("/empty", methods=["DELETE"])
    async def empty() -> Response:
        return Response(b"", status=204)

    @app.route("/large")
    async def large() -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(1_000):
                yield b"x" * 10_000

        return Response(pieces(), content_type="text/plain")

    @app.route("/", methods=METHODS)
    @app.route("/<path:rest>", methods=METHODS)
    async def echo(rest: str = "") -> Response:
        del rest  # decoded; the raw path shows what the client sent
        body = await request.get_data(as_text=True)
        assert isinstance(body, str)
        return jsonify(
            method=request.method,
            path=request.scope["raw_path"].decode(),
            query=request.scope["query_string"].decode(),
            headers={name.decode(): value.decode() for name, value in request.scope["headers"]},
            body=body,
        )

    return app


@asynccontextmanager
async def served(app: Application | QuartTrio) -> AsyncIterator[str]:
    """Serve an application with hypercorn. Yield its URL."""
    config = hypercorn.Config()
    config.bind = ["127.0.0.1:0"]
    config.accesslog = config.errorlog = None
    async with trio.open_nursery() as nursery:
        stop = trio.Event()
        bound = await nursery.start(
            lambda task_status: hypercorn.trio.serve(
                cast("Framework", app), config, shutdown_trigger=stop.wait, task_status=task_status
            )
        )
        try:
            yield bound[0]
        finally:
            stop.set()
