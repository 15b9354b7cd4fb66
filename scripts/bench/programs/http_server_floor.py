"""A minimal HTTP server: it reads a request and sends the same bytes each time.

`python http_server_floor.py HOST`: HOST is `h11` or `hypercorn`, both on trio, or `uvicorn-LOOP-PARSER`, such as
`uvicorn-uvloop-httptools`. The first line that it prints is its port.
"""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING, cast

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hypercorn.typing import Framework
    from uvicorn.config import HTTPProtocolType, LoopFactoryType

    Message = dict[str, object]

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}],"isError":false}}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]


async def on_h11(stream: trio.SocketStream) -> None:
    """Serve a connection with only h11."""
    import h11  # lazy: the other host does without

    connection = h11.Connection(h11.SERVER)
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some())
        elif isinstance(event, h11.EndOfMessage):
            out = connection.send(h11.Response(status_code=200, headers=HEADERS)) or b""
            out += connection.send(h11.Data(data=ANSWER)) or b""
            out += connection.send(h11.EndOfMessage()) or b""
            await stream.send_all(out)
            connection.start_next_cycle()
        elif isinstance(event, h11.ConnectionClosed):
            return


async def on_asgi(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Serve a request."""
    if scope["type"] == "lifespan":
        while True:
            kind = str((await receive())["type"])
            await send({"type": f"{kind}.complete"})
            if kind.endswith("shutdown"):
                return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


async def main() -> None:
    """Serve until the process is killed."""
    if sys.argv[1] == "h11":
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        print(listener.socket.getsockname()[1], flush=True)
        await trio.serve_listeners(on_h11, [listener])
    else:
        from hypercorn.config import Config  # lazy: the other host does without
        from hypercorn.trio import serve  # lazy: the other host does without

        # An ASGI application whose types are less precise than Hypercorn's.
        config = Config()
        config.bind = ["127.0.0.1:0"]
        config.backlog = 1024
        config.keep_alive_max_requests = 1_000_000
        config.errorlog = None
        async with trio.open_nursery() as nursery:
            binds = await nursery.start(lambda **started: serve(cast("Framework", on_asgi), config, **started))
            print(binds[0].rpartition(":")[2], flush=True)


def serve_uvicorn(loop: LoopFactoryType, parser: HTTPProtocolType) -> None:
    """Serve on asyncio until the process is killed."""
    import uvicorn  # lazy: the other hosts do without

    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(on_asgi, log_level="critical", access_log=False, backlog=1024, loop=loop, http=parser)
    uvicorn.Server(config).run(sockets=[listening])


if sys.argv[1].startswith("uvicorn-"):
    serve_uvicorn(
        "uvloop" if "uvloop" in sys.argv[1] else "asyncio", "httptools" if "httptools" in sys.argv[1] else "h11"
    )
else:
    trio.run(main)
