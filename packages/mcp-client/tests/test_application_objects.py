"""Each object and function of the application that a client calls: written for asyncio, or rejected at once.

`ON_ASYNCIO` and `PLAIN` have all of them. A test compares the tables with the signatures of the public functions.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, cast

import pytest
import trio
import uvloop
from asyncio_server import served
from auth_testbed import AuthTestbed, authorization_headers, protected
from fake_http_server import ReceivedRequest, Reply, modern, serving
from test_plain_functions import ADD, AddParams, AddResult, Name

import mcp_client
import mcp_client.blocking.group
import mcp_client.group
from mcp_client import (
    ClientOptions,
    Handlers,
    HttpOptions,
    LocalProtocolError,
    blocking,
    open_http,
    open_stdio,
    open_stream,
)
from mcp_client.auth import CredentialStore, OAuth, Paste, Receiver, SystemBrowser, UserAgent
from mcp_client.auth.stores import FileStore, MemoryStore
from mcp_client.blocking.proxies import BlockingContextManager
from mcp_client.guards import Consent, RateLimit, ToolFilter
from mcp_client.transports.http.authorizer import ApplicationAuthorizer, ConnectionTarget, ObservedResponse
from mcp_core.errors import AuthorizationRefused, WrongAsyncLibrary
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.methods import NOTIFICATIONS_TOOLS_LIST_CHANGED
from mcp_core.middleware import Middleware, MiddlewareMessage, Proceed
from mcp_core.oauth.grants import ClientCredentials
from mcp_core.oauth.records import ClientRecord, TokenRecord
from mcp_core.revisions import R2025_11_25, R2026_07_28, Revision
from mcp_core.trio.owner_task import OwnerTask
from mcp_core.types import (
    CallToolRequestParams,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    Root,
    TextContent,
)
from mcp_server import Context, ElicitationAccepted, Server

_SECONDS = 20
"""Time after which a test that waits forever fails."""

_BOTH_ERAS = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=lambda each: each.name)

Run = Callable[[Callable[[], Coroutine[object, object, None]]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Run an asyncio function in a loop."""
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run_in_loop(function: Callable[[], Coroutine[object, object, None]]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(function(), _SECONDS))

    return run_in_loop


class Application:
    """The objects and functions of an application, written for asyncio. Each of them records its call."""

    def __init__(self) -> None:
        self.called: set[str] = set()
        self._locks: dict[str, asyncio.Lock] = {}

    async def ran(self, name: str) -> None:
        """Record a call. This works on asyncio only."""
        async with asyncio.timeout(_SECONDS):
            await asyncio.sleep(0)
        self.called.add(name)

    # --- handlers --------------------------------------------------------------------------------------------------

    async def elicit(self, _: ElicitRequestFormParams) -> dict[str, object]:
        await self.ran("Handlers.elicit")
        return {"name": "Ada"}

    async def elicit_url(self, _: ElicitRequestURLParams) -> ElicitResult:
        await self.ran("Handlers.elicit_url")
        return ElicitResult(action="accept")

    async def sample(self, _: CreateMessageRequestParams) -> CreateMessageResult:
        await self.ran("Handlers.sample")
        return CreateMessageResult(role="assistant", content=TextContent(text="Hello"), model="m")

    async def roots(self) -> list[Root]:
        await self.ran("Handlers.roots")
        return [Root(uri="file:///")]

    async def add(self, params: AddParams) -> AddResult:
        await self.ran("Handlers.methods")
        return AddResult(sum=params.a + params.b)

    def handlers(self) -> Handlers:
        return Handlers(elicit=self.elicit, elicit_url=self.elicit_url, sample=self.sample, roots=self.roots)

    # --- consent, headers, progress --------------------------------------------------------------------------------

    async def consent_to_call(self, _: CallToolRequestParams) -> bool:
        await self.ran("Consent.call")
        return True

    async def consent_to_sample(self, params: CreateMessageRequestParams) -> CreateMessageRequestParams:
        await self.ran("Consent.sample")
        return params

    async def consent_to_sampled(
        self, _: CreateMessageRequestParams, result: CreateMessageResult
    ) -> CreateMessageResult:
        await self.ran("Consent.sampled")
        return result

    async def consent_to_elicit(self, _: ElicitRequestFormParams | ElicitRequestURLParams) -> bool:
        await self.ran("Consent.elicit")
        return True

    async def consent_to_root(self, _: Root) -> bool:
        await self.ran("Consent.root")
        return True

    def consent(self) -> Consent:
        return Consent(
            call=self.consent_to_call,
            sample=self.consent_to_sample,
            sampled=self.consent_to_sampled,
            elicit=self.consent_to_elicit,
            root=self.consent_to_root,
        )

    async def headers(self) -> Mapping[str, str]:
        await self.ran("open_http.headers")
        return {"x-user": "ada"}

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        await self.ran("on_progress")

    # --- authorization ---------------------------------------------------------------------------------------------

    async def grant(self) -> ClientCredentials:
        await self.ran("OAuth.grant")
        return ClientCredentials()


class Recorder(Middleware):
    """A middleware for asyncio."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
        await self._application.ran("open_http.middleware")
        return await proceed(message)


class AsyncioStore:
    """A store of credentials for asyncio. Its lock belongs to the task that took it."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self.tokens: dict[str, TokenRecord | None] = {}
        self.clients: dict[str, ClientRecord | None] = {}
        self._lock = asyncio.Lock()

    async def load_tokens(self, server_url: str) -> TokenRecord | None:
        await self._application.ran("OAuth.store.load_tokens")
        return self.tokens.get(server_url)

    async def save_tokens(self, server_url: str, tokens: TokenRecord | None) -> None:
        await self._application.ran("OAuth.store.save_tokens")
        self.tokens[server_url] = tokens

    async def load_client(self, issuer: str) -> ClientRecord | None:
        await self._application.ran("OAuth.store.load_client")
        return self.clients.get(issuer)

    async def save_client(self, issuer: str, client: ClientRecord | None) -> None:
        await self._application.ran("OAuth.store.save_client")
        self.clients[issuer] = client

    @asynccontextmanager
    async def lock(self, server_url: str) -> AsyncIterator[None]:
        async with self._lock, asyncio.timeout(_SECONDS):
            task = asyncio.current_task()
            await self._application.ran("OAuth.store.lock")
            yield
            assert asyncio.current_task() is task


class AsyncioUserAgent:
    """A user agent for asyncio, whose user consents at once."""

    def __init__(self, application: Application, testbed: AuthTestbed) -> None:
        self._application = application
        self._testbed = testbed
        self.redirect_uri = "http://127.0.0.1:49152/callback"
        self._url = ""

    @asynccontextmanager
    async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
        async with asyncio.timeout(_SECONDS):
            await self._application.ran("OAuth.user_agent.receive")
            yield self

    async def ask_client(self, issuer: str, reason: str) -> ClientRecord | None:
        await self._application.ran("OAuth.user_agent.ask_client")
        return ClientRecord(client_id="asked", issuer=issuer)

    async def open(self, url: str) -> None:
        await self._application.ran("OAuth.user_agent.open")
        self._url = url

    async def redirected(self) -> str:
        await self._application.ran("OAuth.user_agent.redirected")
        return self._testbed.authorize(self._url)


class AsyncioAuthorization:
    """A source of credentials for asyncio: an `Authorization` and its `Authorizer`."""

    extensions = ()

    def __init__(self, application: Application) -> None:
        self._application = application
        self._token: str | None = None

    def authorizer(self, target: ConnectionTarget) -> AsyncioAuthorization:
        return self

    async def headers(self, method: str, url: str) -> tuple[tuple[str, str], ...]:
        await self._application.ran("open_http.auth.headers")
        return () if self._token is None else (("Authorization", f"Bearer {self._token}"),)

    async def identity(self) -> str | None:
        await self._application.ran("open_http.auth.identity")
        return self._token

    def answered(self, answer: ObservedResponse) -> bool:
        return answer.status == 401

    async def renew(self, answer: ObservedResponse) -> None:
        await self._application.ran("open_http.auth.renew")
        self._token = "secret"


class AsyncioStream:
    """A byte stream for asyncio."""

    def __init__(self, application: Application, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._application = application
        self._reader = reader
        self._writer = writer

    async def receive_some(self) -> bytes:
        await self._application.ran("open_stream.stream.receive_some")
        return await self._reader.read(65_536)

    async def send_all(self, data: bytes) -> None:
        await self._application.ran("open_stream.stream.send_all")
        self._writer.write(data)
        await self._writer.drain()

    async def aclose(self) -> None:
        await self._application.ran("open_stream.stream.aclose")
        self._writer.close()


def shop() -> Server:
    """Return a server with tools that send each client request, and progress."""
    server = Server("shop", version="1.0")

    @server.tool
    async def greet(context: Context) -> str:
        await context.progress(1, 1)
        name = await context.elicit(Name, "Who are you?")
        await context.elicit_url("https://example.com/", "Visit the page.")
        await context.sample("Hello?", max_tokens=10)
        await context.list_roots()
        assert isinstance(name, ElicitationAccepted)
        return name.value.name

    @server.tool
    async def user(context: Context) -> str:
        return ("" if context.http is None else context.http.headers.get("x-user")) or ""

    @server.tool(task="required")
    async def slow(context: Context) -> str:
        await asyncio.sleep(0.01)
        return "slow"

    return server


# --- the conversations -----------------------------------------------------------------------------------------------


async def greet(application: Application, revision: Revision) -> None:
    """Call a tool that sends each client request, over HTTP."""
    async with (
        served(shop()) as url,
        open_http(
            url,
            revisions=[revision],
            handlers=application.handlers(),
            middleware=[Recorder(application), application.consent()],
            headers=application.headers,
        ) as client,
    ):
        assert (await client.call_tool("greet", on_progress=application.on_progress)).text == "Ada"
        assert (await client.call_tool("user")).text == "ada"


async def wait_for_task(application: Application, revision: Revision) -> None:
    """Call a tool that runs as a task."""
    async with served(shop()) as url, open_http(url, revisions=[revision]) as client:
        await client.list_tools()
        assert (await client.call_tool("slow", on_progress=application.on_progress)).text == "slow"
        task = await client.start_task("slow")
        assert (await task.wait(on_progress=application.on_progress)).text == "slow"


async def add(application: Application) -> None:
    """Answer a request of an extension, over a stream for asyncio."""
    answers: asyncio.Queue[JsonObject] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def receive() -> JsonObject:
            message: JsonObject = json.loads(await reader.readline())
            return message

        def send(message: JsonObject) -> None:
            writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

        request = await receive()
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        send({"id": request["id"], "result": cast("JsonObject", result)})
        await receive()
        send({"id": 1, "method": ADD.name, "params": {"a": 1, "b": 2}})
        await answers.put(await receive())
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        stream = AsyncioStream(application, *await asyncio.open_connection(*server.sockets[0].getsockname()))
        handlers = Handlers(methods={ADD: application.add})
        async with open_stream(stream, handlers=handlers, revisions=[R2025_11_25]):
            assert (await answers.get())["result"] == {"sum": 3}


@asynccontextmanager
async def serve_testbed(testbed: AuthTestbed) -> AsyncIterator[str]:
    """Serve the testbed for authorization, whose servers are written for trio. Yield the URL."""
    async with OwnerTask(partial(protected, testbed), "testbed") as server:
        yield server.url


async def log_in(application: Application, *, registers: bool = True) -> None:
    """Log in with a user agent and a store for asyncio, and log out."""
    testbed = AuthTestbed(registers=registers)
    store = AsyncioStore(application)
    auth = OAuth("Tester", user_agent=AsyncioUserAgent(application, testbed), store=store)
    auth._clock = lambda: testbed.now
    async with serve_testbed(testbed) as url:
        async with open_http(url, auth=auth) as client:
            assert not (await client.call_tool("echo")).is_error
        tokens = store.tokens[url]
        assert tokens is not None
        assert authorization_headers(testbed)[-1] == f"Bearer {tokens.access_token}"
        assert await auth.log_out(url)
        assert store.tokens[url] is None


async def use_grant(application: Application) -> None:
    """Get a token by a grant that a function for asyncio returns."""
    testbed = AuthTestbed()
    auth = OAuth(
        "Tester",
        grant=application.grant,
        credentials=[ClientRecord(client_id="m", issuer=None, client_secret="s")],
    )
    auth._clock = lambda: testbed.now
    async with serve_testbed(testbed) as url, open_http(url, auth=auth) as client:
        assert not (await client.call_tool("echo")).is_error


async def use_authorization(application: Application) -> None:
    """Get credentials from an authorizer for asyncio."""
    inner = modern()

    async def answer(request: ReceivedRequest, reply: Reply) -> None:
        if request.headers.get("authorization") == "Bearer secret":
            await inner(request, reply)
        else:
            await reply.body(401, headers={"WWW-Authenticate": "Bearer"})

    auth = AsyncioAuthorization(application)
    async with OwnerTask(partial(serving, answer), "server") as server, open_http(server.url, auth=auth) as client:
        assert not (await client.call_tool("echo")).is_error
        # A list may be cached, for the user.
        with pytest.raises(mcp_client.RequestFailed):
            await client.list_tools()


Conversation = Callable[[Application], Awaitable[None]]

_GREET = [partial(greet, revision=each) for each in (R2025_11_25, R2026_07_28)]
_TASKS = [partial(wait_for_task, revision=each) for each in (R2025_11_25, R2026_07_28)]

ON_ASYNCIO: Mapping[str, list[Conversation]] = {
    "Handlers.elicit": [*_GREET],
    "Handlers.elicit_url": [*_GREET],
    "Handlers.sample": [*_GREET],
    "Handlers.roots": [*_GREET],
    "Handlers.methods": [add],
    "Consent.call": [*_GREET],
    "Consent.sample": [*_GREET],
    "Consent.sampled": [*_GREET],
    "Consent.elicit": [*_GREET],
    "Consent.root": [*_GREET],
    "on_progress": [*_GREET, *_TASKS],
    "open_http.headers": [*_GREET],
    "open_http.middleware": [*_GREET],
    "open_http.auth.headers": [use_authorization],
    "open_http.auth.identity": [use_authorization],
    "open_http.auth.renew": [use_authorization],
    "open_stream.stream.receive_some": [add],
    "open_stream.stream.send_all": [add],
    "open_stream.stream.aclose": [add],
    "OAuth.grant": [use_grant],
    "OAuth.store.load_tokens": [log_in],
    "OAuth.store.save_tokens": [log_in],
    "OAuth.store.load_client": [log_in],
    "OAuth.store.save_client": [log_in],
    "OAuth.store.lock": [log_in],
    "OAuth.user_agent.receive": [log_in],
    "OAuth.user_agent.open": [log_in],
    "OAuth.user_agent.redirected": [log_in],
    "OAuth.user_agent.ask_client": [partial(log_in, registers=False)],
}
"""The functions that may be coroutine functions for asyncio, with the conversations in which they are called."""


async def coroutine_function(*_: object) -> None:
    """Take the place of a plain function."""


class CoroutineKey:
    """A key whose methods are coroutine methods by mistake."""

    algorithm = "ES256"
    jwk: ClassVar[JsonObject] = {}
    token_type = "DPoP"
    key_id = "k"
    sign = headers = learn = coroutine_function


_WRONG = cast("Callable[..., None]", coroutine_function)  # type: ignore[explicit-any]  # mistakes of callers
_KEY = CoroutineKey()

PLAIN: Mapping[str, Callable[[], object]] = {
    "Handlers.log": lambda: Handlers(log=_WRONG),
    "Handlers.notifications": lambda: Handlers(notifications={NOTIFICATIONS_TOOLS_LIST_CHANGED: _WRONG}),
    "HttpOptions.on_session_lost": lambda: open_http("https://a.example", http=HttpOptions(on_session_lost=_WRONG)),
    "open_stdio.on_stderr": lambda: open_stdio(["a"], on_stderr=_WRONG),
    "open_stdio.on_junk": lambda: open_stdio(["a"], on_junk=_WRONG),
    "open_stream.on_junk": lambda: open_stream(cast("trio.SocketStream", None), on_junk=_WRONG),
    "open_group.servers": lambda: mcp_client.group.open_group({"a": _WRONG}),  # type: ignore[dict-item]  # on purpose
    "blocking.open_group.servers": lambda: mcp_client.blocking.group.open_group({"a": _WRONG}),  # type: ignore[dict-item]  # on purpose
    "configured.handlers": lambda: mcp_client.group.configured({}, handlers=_WRONG),  # type: ignore[arg-type]  # on purpose
    "configured.middleware": lambda: mcp_client.group.configured({}, middleware=_WRONG),  # type: ignore[arg-type]  # on purpose
    "configured.auth": lambda: mcp_client.group.configured({}, auth=_WRONG),
    "read_config.inputs": lambda: mcp_client.group.read_config({"mcpServers": {}}, inputs=_WRONG),
    "OAuth.signer": lambda: OAuth("a", signer=_KEY),  # type: ignore[arg-type]  # on purpose
    "OAuth.proof": lambda: OAuth("a", proof=_KEY),  # type: ignore[arg-type]  # on purpose
    "SystemBrowser.show_message": lambda: SystemBrowser(show_message=_WRONG),
    "Paste.show_message": lambda: Paste(show_message=_WRONG),
    "Paste.ask": lambda: Paste(ask=cast("Callable[[str], str]", _WRONG)),
}
"""The functions that must be plain functions, each with the use of a coroutine function, which is rejected."""


# --- the tables ------------------------------------------------------------------------------------------------------

_FUNCTIONS = re.compile(
    r"Callable|Handler|Consent|Middleware|Authorization|CredentialStore|UserAgent|HeadersGiven|Signer|Proof|ByteStream"
    r"|MakeConnector"
)
"""Words of the annotations of functions and of objects with methods."""

_PUBLIC: list[Callable[..., object]] = [  # type: ignore[explicit-any]  # any parameters
    *(open_http, open_stdio, open_stream, mcp_client.group.open_group, mcp_client.group.configured),
    *(mcp_client.group.read_config, OAuth, SystemBrowser, Paste, Consent, ToolFilter, RateLimit),
    *(Handlers, ClientOptions, HttpOptions),
]

_HOLDS_OTHERS = {
    *("open_http.handlers", "open_stdio.handlers", "open_stream.handlers"),
    *("open_stdio.middleware", "open_stream.middleware"),
}
"""Parameters of a class with a row for each member, or with the type of another row."""


def parameters() -> Iterator[str]:
    """Return each parameter of the public functions and classes that is a function or has methods."""
    for function in _PUBLIC:
        for name, parameter in inspect.signature(function).parameters.items():
            if _FUNCTIONS.search(str(parameter.annotation)) and f"{function.__name__}.{name}" not in _HOLDS_OTHERS:
                yield f"{function.__name__}.{name}"
    for kind in (mcp_client.Client, mcp_client.TaskHandle, mcp_client.group.ClientGroup):
        for method in vars(kind).values():
            if inspect.isfunction(method):
                for name, parameter in inspect.signature(method).parameters.items():
                    if _FUNCTIONS.search(str(parameter.annotation)) and not method.__name__.startswith("_"):
                        yield name


def test_tables_have_each_function_of_the_application() -> None:
    rows = {*ON_ASYNCIO, *PLAIN}
    missing = {name for name in parameters() if not any(row == name or row.startswith(f"{name}.") for row in rows)}
    assert missing == set()


@pytest.mark.parametrize("protocol", [CredentialStore, UserAgent, Receiver])
def test_tables_have_each_method_of_protocol(protocol: type) -> None:
    methods = [name for name, value in vars(protocol).items() if inspect.isfunction(value) and name[0] != "_"]
    for method in methods:
        assert any(row.endswith(f".{method}") for row in ON_ASYNCIO), method


@pytest.mark.parametrize(
    ("name", "number"), [(name, number) for name, each in ON_ASYNCIO.items() for number in range(len(each))]
)
def test_function_for_asyncio_is_called_on_asyncio(run: Run, name: str, number: int) -> None:
    application = Application()
    run(lambda: cast("Coroutine[object, object, None]", ON_ASYNCIO[name][number](application)))
    assert name in application.called


@pytest.mark.parametrize("name", PLAIN)
def test_coroutine_function_instead_of_plain_function_rejected_at_once(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="must be a plain function"):
        PLAIN[name]()


# --- objects that name their library ---------------------------------------------------------------------------------


class TrioStore(MemoryStore):
    """A store of the application for trio."""


class NamedUserAgent(AsyncioUserAgent):
    """A user agent that is always written for asyncio."""

    async_library: ClassVar[Literal["asyncio"]] = "asyncio"


def test_store_for_trio_used_in_asyncio(run: Run) -> None:
    async def main() -> None:
        application, testbed = Application(), AuthTestbed()
        auth = OAuth("Tester", user_agent=NamedUserAgent(application, testbed), store=TrioStore())
        auth._clock = lambda: testbed.now
        async with serve_testbed(testbed) as url, open_http(url, auth=auth) as client:
            assert not (await client.call_tool("echo")).is_error

    run(main)


async def test_user_agent_for_asyncio_rejected_on_trio_when_connection_opens() -> None:
    testbed = AuthTestbed()
    async with protected(testbed) as server:
        auth = OAuth("Tester", user_agent=NamedUserAgent(Application(), testbed))
        with pytest.raises(WrongAsyncLibrary, match=r"asyncio\.run"):
            async with open_http(server.url, auth=auth):
                pass


async def test_user_agent_for_asyncio_without_name_explained_on_trio() -> None:
    testbed = AuthTestbed()
    async with protected(testbed) as server:
        auth = OAuth("Tester", user_agent=AsyncioUserAgent(Application(), testbed))
        auth._clock = lambda: testbed.now
        with pytest.raises(mcp_client.McpError) as caught:
            async with open_http(server.url, auth=auth):
                pass
    assert "howto/asyncio" in str(getattr(caught.value.__cause__, "__notes__", ""))


def test_failing_user_agent_for_asyncio_ends_login(run: Run) -> None:
    class Refusing(AsyncioUserAgent):
        async def redirected(self) -> str:
            await asyncio.sleep(0)
            raise AuthorizationRefused("the window was closed")

    async def main() -> None:
        testbed = AuthTestbed()
        auth = OAuth("Tester", user_agent=Refusing(Application(), testbed))
        auth._clock = lambda: testbed.now
        async with serve_testbed(testbed) as url:
            with pytest.raises(AuthorizationRefused, match="the window was closed"):
                async with open_http(url, auth=auth):
                    pass

    run(main)


@pytest.mark.parametrize("where", ["receive", "redirected", "load_tokens", "lock"])
def test_cancelled_login_ends_function_for_asyncio(run: Run, where: str) -> None:
    ended: list[str] = []
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(where)

    class SlowUserAgent(AsyncioUserAgent):
        @asynccontextmanager
        async def receive(self, port: int | None = None) -> AsyncIterator[Receiver]:
            if where == "receive":
                await wait()
            yield self

        async def redirected(self) -> str:
            await wait()
            return ""

    class SlowStore(AsyncioStore):
        async def load_tokens(self, server_url: str) -> TokenRecord | None:
            if where == "load_tokens":
                await wait()
            return None

        @asynccontextmanager
        async def lock(self, server_url: str) -> AsyncIterator[None]:
            if where == "lock":
                await wait()
            yield

    async def main() -> None:
        testbed, application = AuthTestbed(), Application()
        auth = OAuth("Tester", user_agent=SlowUserAgent(application, testbed), store=SlowStore(application))
        auth._clock = lambda: testbed.now
        async with serve_testbed(testbed) as url:
            entering = asyncio.create_task(AsyncExitStack().enter_async_context(open_http(url, auth=auth)))
            await started.wait()
            entering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await entering

    run(main)
    assert ended == [where]


# --- objects of this project called from asyncio ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_store_called_from_asyncio(run: Run, tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        store = MemoryStore() if kind == "memory" else FileStore(tmp_path / "store", key=secrets.token_bytes(32))
        client = ClientRecord(client_id="a", issuer="https://issuer.example")
        async with store.lock("https://server.example/mcp"):
            await store.save_client("https://issuer.example", client)
        assert await store.load_client("https://issuer.example") == client
        assert await store.load_tokens("https://server.example/mcp") is None
        await store.save_tokens("https://server.example/mcp", None)

    run(main)


def test_user_agent_for_asyncio_wraps_system_browser(run: Run) -> None:
    shown: list[str] = []

    async def main() -> None:
        browser = SystemBrowser(show_message=shown.append, environment={})
        assert await browser.ask_client("https://issuer.example", "no registration") is None
        async with browser.receive() as receiver:
            await receiver.open("https://issuer.example/authorize")
            waiting = asyncio.ensure_future(receiver.redirected())
            address = receiver.redirect_uri.removeprefix("http://").partition("/")[0]
            host, port = address.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"GET /callback?code=1 HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
            await reader.read()
            writer.close()
            assert await waiting == f"{receiver.redirect_uri}?code=1"

    run(main)
    assert "https://issuer.example/authorize" in shown[0]


def test_terminal_called_from_asyncio(run: Run) -> None:
    async def main() -> None:
        agent = Paste(show_message=lambda _: None, ask=lambda _: "http://127.0.0.1:49152/callback?code=1\n")
        assert (await agent.ask_client("https://issuer.example", "no registration")) is not None
        async with agent.receive() as receiver:
            await receiver.open("https://issuer.example/authorize")
            assert await receiver.redirected() == "http://127.0.0.1:49152/callback?code=1"

    run(main)


# --- without a loop --------------------------------------------------------------------------------------------------


def test_blocking_client_logs_in_with_terminal() -> None:
    testbed = AuthTestbed()
    shown: list[str] = []

    def ask(_: str) -> str:
        # The user pastes the address to which the authorization server redirects.
        url = next(word for text in shown for word in text.split() if "/authorize" in word)
        return testbed.authorize(url)

    auth = OAuth("Tester", user_agent=Paste(show_message=shown.append, ask=ask), store=MemoryStore())
    auth._clock = lambda: testbed.now
    with (
        BlockingContextManager(OwnerTask(partial(protected, testbed), "testbed"), lambda server, _: server) as server,
        blocking.open_http(server.url, auth=auth) as client,
    ):
        assert not client.call_tool("echo").is_error
    assert authorization_headers(testbed)[-1] == "Bearer t3"


def test_authorizer_for_trio_not_adapted() -> None:
    class ForTrio(AsyncioAuthorization):
        async_library: ClassVar[Literal["trio"]] = "trio"

    authorizer = ForTrio(Application())
    assert ApplicationAuthorizer.of(authorizer) is authorizer
