"""Servers with asyncio functions on other hosts than those of the unit tests, and mounted by web frameworks."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from mcp_client import ElicitationAccepted, Handlers, open_http
from mcp_conformance.drivers.server.targets import free_port
from mcp_core.revisions import REVISIONS, Era, Revision

SECONDS = 60
"""Time after which a test that waits forever fails."""

SERVER = """
import asyncio
from contextlib import asynccontextmanager

import attrs

from mcp_server import Context, Server

events = []


@attrs.frozen
class Name:
    name: str


@asynccontextmanager
async def state(server):
    async with asyncio.timeout(600):
        events.append("started")
        yield Name("state of " + server.info.name)


async def authenticate(request):
    await asyncio.sleep(0)
    return request.headers.get("x-user")


server = Server("hosted", version="1.0", lifespan=state)


@server.tool
async def steps(context: Context) -> str:
    for step in range(3):
        await context.progress(step + 1, 3)
        await asyncio.sleep(0.01)
    return "done"


@server.tool
async def greet(context: Context) -> str:
    answer = await context.elicit(Name, "Who are you?")
    return f"Hello {answer.value.name}"


@server.tool
async def wait() -> str:
    events.append("wait started")
    try:
        await asyncio.Event().wait()
    finally:
        events.append("wait ended")


@server.tool
async def seen() -> list[str]:
    return events


@server.tool
async def user(context: Context) -> str:
    return "" if context.principal is None else context.principal.subject


@server.tool
async def kept(context: Context) -> str:
    return context.state(Name).name


@server.tool
async def update() -> str:
    server.resource_updated("hosted://item")
    return ""


@server.tool(task="optional")
async def slow() -> str:
    await asyncio.sleep(0.01)
    return "slow"


@server.resource("hosted://item")
async def item() -> str:
    return "item"


mcp = server.asgi(path=PATH, authenticate=authenticate)
"""

PLAIN = "\napp = mcp\n"

STARLETTE = """
from starlette.applications import Starlette
from starlette.routing import Mount

app = Starlette(routes=[Mount("/tools", mcp)])
"""

FASTAPI = """
from fastapi import FastAPI


@asynccontextmanager
async def lifespan(_):
    async with server.running():
        yield


app = FastAPI(lifespan=lifespan)
app.mount("/tools", mcp)


@app.get("/health")
async def health():
    return {"events": events}
"""

DJANGO = """
import django.conf
from django.core.asgi import get_asgi_application

django.conf.settings.configure(ALLOWED_HOSTS=["127.0.0.1"], SECRET_KEY="0123456789", ROOT_URLCONF=__name__)
urlpatterns = []
pages = get_asgi_application()


async def app(scope, receive, send):
    is_mcp = scope["type"] == "http" and scope["path"].startswith("/tools/")
    await (mcp if is_mcp else pages)(scope, receive, send)
"""

HOSTS = {
    "uvicorn": ("uvicorn", "--port", "{port}", "--timeout-graceful-shutdown", "2"),
    "hypercorn": ("hypercorn", "--worker-class", "asyncio", "--bind", "127.0.0.1:{port}"),
    "granian": ("granian", "--interface", "asgi", "--host", "127.0.0.1", "--port", "{port}"),
    "daphne": ("daphne", "-b", "127.0.0.1", "-p", "{port}"),
}
"""The command of each host, without the application."""


@attrs.frozen
class Application:
    """An application and its host."""

    host: str
    text: str
    """The end of the program, which defines `app`."""
    path: str = "/mcp"
    """The path of the endpoint on the host."""
    own_path: str = "/mcp"
    """The path of the endpoint within its mount."""


APPLICATIONS = {
    "uvicorn": Application("uvicorn", PLAIN),
    "hypercorn": Application("hypercorn", PLAIN),
    "granian": Application("granian", PLAIN),
    "daphne": Application("daphne", PLAIN),
    "starlette": Application("uvicorn", STARLETTE, path="/tools/mcp"),
    "fastapi": Application("uvicorn", FASTAPI, path="/tools/mcp"),
    "fastapi-granian": Application("granian", FASTAPI, path="/tools/mcp"),
    "django": Application("daphne", DJANGO, path="/tools/mcp", own_path="/tools/mcp"),
}


@pytest.fixture(params=APPLICATIONS)
def application(request: pytest.FixtureRequest) -> Application:
    return APPLICATIONS[request.param]


@asynccontextmanager
async def served(folder: Path, application: Application) -> AsyncIterator[str]:
    """Serve the application during the block. Yield its URL. Then stop the host with SIGTERM."""
    (folder / "hosted.py").write_text(SERVER.replace("PATH", repr(application.own_path)) + application.text)
    async with hosted(folder, application.host, "hosted:app") as address:
        yield f"{address}{application.path}"


@asynccontextmanager
async def hosted(folder: Path, host: str, application: str) -> AsyncIterator[str]:
    """Run a host during the block. Yield its address, as a URL without a path. Then stop the host with SIGTERM.

    Args:
        folder: The folder of the application.
        host: The name of the host.
        application: The module and the name of the application.
    """
    port = free_port()
    program, *options = HOSTS[host]
    command = [str(Path(sys.executable).parent / program), *(each.format(port=port) for each in options), application]
    log = folder / "log"
    with trio.fail_after(SECONDS), log.open("wb") as output:
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        process = await trio.lowlevel.open_process(command, stdout=output, stderr=output, cwd=folder, env=environment)
        try:
            while True:
                try:
                    await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
                    break
                except OSError:
                    assert process.poll() is None, log.read_text()
                    await trio.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
            process.send_signal(signal.SIGTERM)
            await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                with trio.CancelScope(shield=True):
                    await process.wait()
    assert "Traceback" not in log.read_text(), log.read_text()


@attrs.frozen
class Answer:
    name: str


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)
async def test_application_serves_asyncio_functions(
    tmp_path: Path, application: Application, revision: Revision
) -> None:
    async def answer(*_: object) -> ElicitationAccepted[Answer]:
        return ElicitationAccepted(Answer("Ada"))

    progress: list[float] = []
    async with (
        served(tmp_path, application) as url,
        open_http(url, revisions=[revision], handlers=Handlers(elicit=answer), headers={"X-User": "ada"}) as client,
    ):
        report = await client.call_tool("steps", on_progress=lambda at, total, message: progress.append(at))
        assert report.text == "done"
        assert progress == [1, 2, 3]
        assert (await client.call_tool("user")).text == "ada"
        assert "item" in repr(await client.read_resource("hosted://item"))
        if revision.name >= "2025-06-18":
            assert (await client.call_tool("greet")).text == "Hello Ada"
        assert (await client.call_tool("kept")).text == "state of hosted"
        if revision.name >= "2025-11-25":
            task = await client.start_task("slow")
            assert (await task.wait()).text == "slow"
        async with client.listen(uris=["hosted://item"]) as changes:
            await client.call_tool("update")
            assert (await anext(changes)).uri == "hosted://item"


@pytest.mark.parametrize("era", Era, ids=lambda era: era.name)
async def test_call_cancelled_ends_asyncio_function(tmp_path: Path, application: Application, era: Era) -> None:
    revision = [each for each in REVISIONS.values() if each.era is era][-1]
    async with served(tmp_path, application) as url, open_http(url, revisions=[revision]) as client:
        seen = partial(client.call_tool, "seen", returns=list[str])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "wait")
            while "wait started" not in (await seen()).data:
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        while "wait ended" not in (await seen()).data:
            await trio.lowlevel.checkpoint()
