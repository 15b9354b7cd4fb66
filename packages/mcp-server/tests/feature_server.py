"""A server whose functions are written for asyncio: each kind of function, and each feature of a connection.

Hosts serve `feature_server:app`: without authentication at `/mcp` and `/sse`, and with access tokens at `/protected`. Each
function takes a step that only asyncio can run.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import attrs

from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.middleware import Middleware, MiddlewareMessage, Proceed
from mcp_core.oauth.access_token import InvalidToken
from mcp_core.types import TextContent
from mcp_server import Context, Depends, ElicitationAccepted, Server
from mcp_server.asgi import Receive, Scope, Send
from mcp_server.auth import AccessToken, ResourceServer
from mcp_server.handlers.access import AccessRequest

_SECONDS = 30

seen: list[str] = []
"""What happened, in order."""

_METHOD: contextvars.ContextVar[str] = contextvars.ContextVar("method", default="no middleware")
_USER: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="no host")


async def step(seconds: float = 0.001) -> None:
    """Wait in a way that only asyncio can."""
    async with asyncio.timeout(_SECONDS):
        await asyncio.sleep(seconds)
    assert asyncio.current_task() is not None


@attrs.frozen
class Name:
    name: str


@asynccontextmanager
async def lifespan(_: Server) -> AsyncIterator[Name]:
    await step()
    yield Name("state")
    await step()


class NamedMiddleware(Middleware):
    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        await step()
        _METHOD.set(message.method)
        return await proceed(message)


async def access(request: AccessRequest) -> bool:
    await step()
    return "secret" not in request.name


server = Server("features", version="1.0", lifespan=lifespan, middleware=[NamedMiddleware()], access=access)


@server.tool
async def variables(context: Context) -> list[str]:
    """Return the context variables of the middleware and of the host, and the state of the lifespan."""
    await step()
    return [_METHOD.get(), _USER.get(), context.state(Name).name]


@server.tool
async def secret() -> str:
    return "secret"


async def connection() -> AsyncIterator[str]:
    # The same task has to enter and leave a timeout.
    async with asyncio.timeout(_SECONDS):
        yield "connection"
        await asyncio.sleep(0)
    seen.append("connection closed")


@server.tool
async def query(of: Annotated[str, Depends(connection)]) -> str:
    await step()
    return of


@server.tool
async def events() -> list[str]:
    return seen


@server.tool
async def steps(context: Context) -> str:
    for number in range(3):
        await context.progress(number + 1, 3)
        await context.info(f"step {number + 1}")
        await step()
    return "done"


@server.tool
async def greet(context: Context) -> str:
    """Ask the user and the model at the same time."""
    async with asyncio.TaskGroup() as group:
        user = group.create_task(context.elicit(Name, "Who are you?", key="user"))
        model = group.create_task(context.sample("A greeting?", max_tokens=10, key="model"))
    await step()
    answer, said = user.result(), model.result().content
    assert isinstance(answer, ElicitationAccepted)
    assert isinstance(said, TextContent)
    return f"{said.text}, {answer.value.name}"


@server.tool
async def change() -> str:
    await step()
    server.resource_updated("features://item")
    server.add_tool(events, name="temporary")
    server.remove_tool("temporary")
    return "changed"


@server.tool
async def release(context: Context) -> str:
    """Close the stream before the result."""
    await context.release_stream()
    await step(0.05)
    return "resumed"


@server.tool(task="optional")
async def work(context: Context, ends: bool = True) -> str:
    try:
        await context.progress(1)
        await step(0.01 if ends else _SECONDS)
    except asyncio.CancelledError:
        await step()
        seen.append("work cancelled")
        raise
    return "worked"


@server.tool
async def wait(context: Context) -> str:
    try:
        await context.progress(1)
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await step()
        seen.append("wait cancelled")
        raise
    return ""


@server.tool
async def slow() -> str:
    async with asyncio.timeout(0.01):
        await asyncio.Event().wait()
    return ""


@server.tool
async def fail() -> str:
    await step()
    raise OSError("the disk is gone")


@server.resource("features://item")
async def item() -> str:
    await step()
    return "item"


@server.resource("features://numbered/{number}")
async def numbered(number: int) -> str:
    await step()
    return str(number)


@server.prompt
async def poem(of: str) -> str:
    await step()
    return f"About {of}"


@server.completion(prompt="poem", argument="of")
async def complete(value: str) -> list[str]:
    await step()
    return [word for word in ("rain", "snow") if word.startswith(value)]


class _Tokens:
    """A token verifier for asyncio."""

    async def verify(self, token: str) -> AccessToken:
        await step()
        if token == "invalid":
            raise InvalidToken("the token is not known")
        return AccessToken(
            issuer="https://as.example",
            subject=token,
            client_id=None,
            audience=("http://127.0.0.1/protected",),
            scopes=frozenset(),
            expires_at=None,
        )


@server.tool
async def user(context: Context) -> str:
    await step()
    return "" if context.principal is None else context.principal.subject


_auth = ResourceServer("http://127.0.0.1/protected", authorization_servers=["https://as.example"], tokens=_Tokens())
_public = server.asgi(legacy_sse=True, policy=EndpointPolicy(retry=0.001))
_protected = server.asgi(path="/protected", auth=_auth)


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve both endpoints, with a context variable of the host."""
    _USER.set("host")
    is_protected = scope["type"] == "http" and str(scope["path"]).startswith("/protected")
    await (_protected if is_protected else _public)(scope, receive, send)
