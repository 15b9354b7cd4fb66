"""The response cache of a client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import orjson
import pytest
import trio
import trio.testing
from fake_http_server import ELICIT, LIST_FIELDS, ReceivedRequest, Reply, Responder, decline, modern, serving
from hypothesis import given
from hypothesis import strategies as st

from mcp_client import Client, ClientOptions, Handlers, ResponseCache, open_http
from mcp_client.connection.response_cache import _Key, _Store
from mcp_client.guards import ToolFilter
from mcp_client.testing import ScriptedPeer, open_in_memory, scripted
from mcp_core.errors import ConnectionEnded, LocalProtocolError, RequestFailed
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.methods import TOOLS_LIST
from mcp_core.middleware import Middleware, MiddlewareMessage, Proceed
from mcp_core.revisions import R2025_11_25
from mcp_core.types import ListToolsRequestParams, TextResourceContents
from mcp_server import CacheHint, Server, serve_http, serve_stream

DAY = 24 * 60 * 60


class CacheableServer:
    """A modern server that numbers its results and sets their cache lifetime."""

    def __init__(self, ttl_ms: JsonValue = 60_000, scope: str = "private") -> None:
        self.requests: list[JsonObject] = []
        self.fields: JsonObject = {"resultType": "complete", "ttlMs": ttl_ms, "cacheScope": scope}
        self.pages: dict[str | None, str | None] = {None: None}
        self.before_answer: Callable[[ScriptedPeer], object] | None = None
        self.peer: ScriptedPeer | None = None

    def result(self, method: str, params: JsonObject) -> JsonObject:
        number = len(self.requests)
        if method == "resources/read":
            return {"contents": [{"uri": str(params["uri"]), "text": str(number)}], **self.fields}
        cursor = params.get("cursor")
        following = self.pages[cursor if isinstance(cursor, str) else None]
        more: JsonObject = {} if following is None else {"nextCursor": following}
        items: dict[str, JsonObject] = {
            "tools/list": {"name": str(number), "inputSchema": {"type": "object"}},
            "prompts/list": {"name": str(number)},
            "resources/list": {"name": str(number), "uri": "a:b"},
            "resources/templates/list": {"name": str(number), "uriTemplate": "a:{b}"},
        }
        member = {"resources/templates/list": "resourceTemplates"}.get(method, method.split("/", maxsplit=1)[0])
        return {member: [items[method]], **more, **self.fields}

    async def script(self, peer: ScriptedPeer) -> None:
        self.peer = peer
        every: JsonObject = {"listChanged": True}
        await peer.discover(tools=every, prompts=every, resources={**every, "subscribe": True})
        while (line := await peer.receive_line()) is not None:
            request = _json(line)
            if request["method"] == "subscriptions/listen":
                await self.notify("subscriptions/acknowledged", request["id"], notifications={})
            elif "id" in request:
                self.requests.append(request)
                params = request["params"]
                assert isinstance(params, dict)
                cursor = params.get("cursor")
                if cursor is not None and cursor not in self.pages:
                    await peer.refuse(request, -32602, "bad cursor")
                    continue
                result = self.result(str(request["method"]), params)
                if self.before_answer is not None:
                    self.before_answer(peer)
                    await trio.testing.wait_all_tasks_blocked()
                await peer.answer(request, result)

    async def notify(self, method: str, subscription: JsonValue, **params: JsonValue) -> None:
        assert self.peer is not None
        meta: JsonObject = {"io.modelcontextprotocol/subscriptionId": subscription}
        await self.peer.send(
            {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {**params, "_meta": meta}}
        )

    @asynccontextmanager
    async def client(self, **options: bool) -> AsyncIterator[Client]:
        async with open_in_memory(
            scripted(self.script), options=ClientOptions(cache=options.get("cache", True))
        ) as client:
            yield client


def _json(line: bytes) -> JsonObject:
    value = orjson.loads(line)
    assert isinstance(value, dict)
    return value


async def name_of_tool(client: Client) -> str:
    return ",".join(tool.name for tool in await client.list_tools())


async def text_of(client: Client, uri: str = "a:b") -> str:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    return contents.text


@pytest.mark.spec("caching.positive-ttl-fresh", "caching.stale-refetch", "caching.no-polling")
async def test_result_cached_until_ttl_passed(autojump_clock: trio.testing.MockClock) -> None:
    server = CacheableServer(ttl_ms=60_000)
    async with server.client() as client:
        assert await name_of_tool(client) == "1"
        await trio.sleep(59.9)
        assert await name_of_tool(client) == "1"
        await trio.sleep(0.2)
        assert len(server.requests) == 1  # an expired result is not requested until it is needed
        assert await name_of_tool(client) == "2"
        assert await name_of_tool(client) == "2"


@pytest.mark.parametrize("ttl", [0, -1, None])
@pytest.mark.spec("caching.zero-ttl-stale", "caching.negative-ttl-zero", "caching.absent-ttl-zero")
async def test_result_without_ttl_not_cached(ttl: JsonValue, autojump_clock: trio.testing.MockClock) -> None:
    server = CacheableServer(ttl_ms=ttl)
    if ttl is None:
        del server.fields["ttlMs"]
    async with server.client() as client:
        assert [await name_of_tool(client), await name_of_tool(client)] == ["1", "2"]


async def test_cache_disabled_result_not_cached(autojump_clock: trio.testing.MockClock) -> None:
    async with CacheableServer().client(cache=False) as client:
        assert [await name_of_tool(client), await name_of_tool(client)] == ["1", "2"]


@pytest.mark.spec("caching.early-refetch")
async def test_fresh_view_requests_and_replaces_cached_result(autojump_clock: trio.testing.MockClock) -> None:
    server = CacheableServer()
    async with server.client() as client:
        assert await name_of_tool(client) == "1"
        assert await name_of_tool(client.fresh()) == "2"
        assert await name_of_tool(client) == "2"
        server.fields["ttlMs"] = 0
        assert await name_of_tool(client.fresh()) == "3"
        assert await name_of_tool(client) == "4"


@pytest.mark.parametrize("ttl", [DAY * 10_000, 2**62])
async def test_result_ttl_over_day_cached_one_day(ttl: int, autojump_clock: trio.testing.MockClock) -> None:
    async with CacheableServer(ttl_ms=ttl).client() as client:
        assert await name_of_tool(client) == "1"
        await trio.sleep(DAY - 1)
        assert await name_of_tool(client) == "1"
        await trio.sleep(2)
        assert await name_of_tool(client) == "2"


@pytest.mark.spec("caching.key-method-and-params")
async def test_cache_key_includes_method_and_params(autojump_clock: trio.testing.MockClock) -> None:
    server = CacheableServer()
    async with server.client() as client:
        assert await text_of(client, "a:b") == "1"
        assert await text_of(client, "a:c") == "2"
        assert (await client.list_resources())[0].name == "3"
        assert (await client.list_resource_templates())[0].name == "4"
        assert (await client.list_prompts())[0].name == "5"
        assert await text_of(client, "a:b") == "1"
        assert await text_of(client.with_meta({"com.example/tenant": 1}), "a:b") == "6"
        assert (await client.list_prompts())[0].name == "5"


async def test_cache_key_ignores_trace_context(autojump_clock: trio.testing.MockClock) -> None:
    async with CacheableServer().client() as client:
        for number in range(3):
            view = client.with_meta({"traceparent": f"00-{number + 1:032x}-00f067aa0ba902b7-01"})
            assert await name_of_tool(view) == "1"


@pytest.mark.parametrize(
    ("notification", "params", "outdated"),
    [
        ("tools/list_changed", {}, {"tools"}),
        ("prompts/list_changed", {}, {"prompts"}),
        ("resources/list_changed", {}, {"resources", "templates", "a:b", "a:b/c"}),
        ("resources/updated", {"uri": "a:b"}, {"a:b"}),
        ("resources/updated", {"uri": "a:b/c"}, {"a:b", "a:b/c"}),
        ("resources/updated", {"uri": "z:z"}, set()),
        ("progress", {"progressToken": 99, "progress": 1}, set()),
    ],
)
@pytest.mark.spec("caching.notification-invalidates", "caching.data-may-change-within-ttl")
async def test_change_notification_invalidates_affected_results(
    notification: str, params: JsonObject, outdated: set[str], autojump_clock: trio.testing.MockClock
) -> None:
    server = CacheableServer()

    async def every(client: Client) -> dict[str, str]:
        return {
            "tools": await name_of_tool(client),
            "prompts": (await client.list_prompts())[0].name,
            "resources": (await client.list_resources())[0].name,
            "templates": (await client.list_resource_templates())[0].name,
            "a:b": await text_of(client, "a:b"),
            "a:b/c": await text_of(client, "a:b/c"),
        }

    async with server.client() as client, client.listen(tools=True):
        before = await every(client)
        await server.notify(notification, 2, **params)
        await trio.testing.wait_all_tasks_blocked()
        after = await every(client)
    assert {kind for kind in before if before[kind] != after[kind]} == outdated


async def test_result_in_flight_during_change_not_cached(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = CacheableServer()
    async with server.client() as client, client.listen(tools=True), trio.open_nursery() as nursery:
        server.before_answer = lambda peer: nursery.start_soon(server.notify, "tools/list_changed", 2)
        assert await name_of_tool(client) == "1"
        server.before_answer = None
        assert await name_of_tool(client) == "2"
        assert await name_of_tool(client) == "2"


@pytest.mark.spec("caching.page-refetch-by-cursor", "caching.ttl-may-differ-by-page")
async def test_pages_cached_with_own_ttl(autojump_clock: trio.testing.MockClock) -> None:
    server = CacheableServer(ttl_ms=60_000)
    server.pages = {None: "more", "more": None}
    async with server.client() as client:
        server.before_answer = lambda _: server.fields.update(ttlMs=10_000)  # for the next page
        assert await name_of_tool(client) == "1,2"
        await trio.sleep(30)
        assert await name_of_tool(client) == "1,3"
    params = server.requests[-1]["params"]
    assert isinstance(params, dict)
    assert params["cursor"] == "more"


@pytest.mark.spec("caching.invalid-cursor-discard", "caching.snapshot-from-start")
async def test_cached_cursor_invalid_list_fetched_from_start(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = CacheableServer(ttl_ms=60_000)
    server.pages = {None: "old", "old": None}
    async with server.client() as client:
        server.before_answer = lambda _: server.fields.update(ttlMs=10_000)
        assert await name_of_tool(client) == "1,2"
        await trio.sleep(30)
        server.pages = {None: "new", "new": None}
        assert await name_of_tool(client) == "4,5"  # request 3 was rejected
        server.pages = {None: "gone"}
        count = len(server.requests)
        with pytest.raises(RequestFailed, match="bad cursor"):
            await name_of_tool(client.fresh())
        assert len(server.requests) == count + 4  # the list was fetched from its start once more


@pytest.mark.spec("caching.invalid-cursor-discard")
async def test_new_cursor_invalid_raises(autojump_clock: trio.testing.MockClock) -> None:
    server = CacheableServer(ttl_ms=0)
    server.pages = {None: "gone"}
    async with server.client() as client:
        with pytest.raises(RequestFailed, match="bad cursor"):
            await client.list_tools()
    assert len(server.requests) == 2


@pytest.mark.spec("caching.no-cache-of-mrtr-results")
async def test_mrtr_result_not_cached(autojump_clock: trio.testing.MockClock) -> None:
    retries: list[JsonObject] = []
    text: JsonObject = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}

    async def script(peer: ScriptedPeer) -> None:
        await peer.discover(resources={})
        for number in (1, 2):
            input_request: JsonObject = {"a": {"method": "elicitation/create", "params": {"mode": "form", **ELICIT}}}
            await peer.answer(
                await peer.receive("resources/read"),
                {"resultType": "input_required", "inputRequests": input_request, "requestState": "s"},
            )
            retries.append(await peer.receive("resources/read"))
            await peer.answer(retries[-1], {"contents": [{"uri": "a:b", "text": str(number)}], **text})

    async with open_in_memory(scripted(script), handlers=Handlers(elicit=decline)) as client:
        assert [await text_of(client), await text_of(client)] == ["1", "2"]


async def test_legacy_result_not_cached(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        for _ in range(2):
            await peer.answer(await peer.receive("tools/list"), {"tools": [], "ttlMs": 60_000, "cacheScope": "public"})

    async with open_in_memory(scripted(script), revisions=[R2025_11_25]) as client:
        await client.list_tools()
        await client.list_tools()


async def test_closed_connection_serves_no_cached_result(autojump_clock: trio.testing.MockClock) -> None:
    async with CacheableServer().client() as client:
        await client.list_tools()
        await client.aclose()
        with pytest.raises(ConnectionEnded):
            await client.list_tools()


async def test_low_level_request_shares_cache(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = CacheableServer()
    async with server.client() as client:
        first = await client.request(TOOLS_LIST, ListToolsRequestParams())
        assert await client.request(TOOLS_LIST, ListToolsRequestParams()) is first
        with pytest.raises(LocalProtocolError, match="expected ListToolsRequestParams"):
            await client.request(TOOLS_LIST, {"cursor": "a"})
        for _ in range(2):
            await client.request(TOOLS_LIST, ListToolsRequestParams(meta={"com.example/n": 2**70}))
    assert len(server.requests) == 3


# --- principals ------------------------------------------------------------------------------------------------------


def numbered(scope: str = "private") -> Responder:
    count = 0

    async def calls(request: ReceivedRequest, reply: Reply) -> None:
        nonlocal count
        count += 1
        await reply.result(
            {
                "tools": [{"name": str(count), "inputSchema": {"type": "object"}}],
                **LIST_FIELDS,
                "ttlMs": 60_000,
                "cacheScope": scope,
            }
        )

    return modern(calls)


@pytest.mark.parametrize("scope", ["private", "public"])
@pytest.mark.spec("caching.private-not-shared", "caching.private-reuse")
async def test_cache_separates_tokens(scope: str) -> None:
    async with serving(numbered(scope)) as server, open_http(server.url, headers={"authorization": "a"}) as client:
        ada, bob = client.with_headers({"Authorization": "ada"}), client.with_headers({"authorization": "bob"})
        assert [await name_of_tool(each) for each in (client, ada, bob, client, ada, bob)] == list("123123")
        traced = ada.with_headers({"traceparent": "00-1", "User-Agent": "x"})
        assert await name_of_tool(traced) == "2"
        assert await name_of_tool(ada.with_headers({"x-api-key": "k"})) == "4"


async def test_headers_function_called_once_per_request() -> None:
    tokens_used: list[str] = []
    token = "ada"

    async def headers() -> dict[str, str]:
        tokens_used.append(token)
        return {"authorization": token}

    async with serving(numbered()) as server, open_http(server.url, headers=headers) as client:
        del tokens_used[:]
        assert await name_of_tool(client) == "1"
        assert tokens_used == ["ada"]
        token = "bob"
        assert await name_of_tool(client) == "2"
        token = "ada"
        assert await name_of_tool(client) == "1"
        assert tokens_used == ["ada", "bob", "ada"]
        assert [each.headers["authorization"] for each in server.of("tools/list")] == ["ada", "bob"]


@pytest.mark.spec("caching.public-shareable", "caching.private-not-shared")
async def test_shared_cache_shares_public_results_of_same_url() -> None:
    shared = ResponseCache()
    async with serving(numbered("public")) as server, serving(numbered("private")) as other:
        async with (
            open_http(server.url, options=ClientOptions(cache=shared), headers={"authorization": "ada"}) as ada,
            open_http(server.url, options=ClientOptions(cache=shared), headers={"authorization": "bob"}) as bob,
            open_http(server.url + "?x", options=ClientOptions(cache=shared)) as elsewhere,
            open_http(server.url) as alone,
        ):
            assert await name_of_tool(ada) == await name_of_tool(bob) == "1"
            assert await name_of_tool(elsewhere) == "2"
            assert await name_of_tool(alone) == "3"
            assert len(shared) == 2
            assert await name_of_tool(bob.fresh()) == "4"
            assert await name_of_tool(ada) == "4"
            shared.clear()
            assert await name_of_tool(ada) == "5"
        async with (
            open_http(other.url, options=ClientOptions(cache=shared), headers={"authorization": "ada"}) as ada,
            open_http(other.url, options=ClientOptions(cache=shared), headers={"authorization": "bob"}) as bob,
        ):
            assert [await name_of_tool(each) for each in (ada, bob, ada)] == ["1", "2", "1"]
        assert len(shared) == 1
        async with open_http(other.url, options=ClientOptions(cache=False)) as client:
            assert [await name_of_tool(client), await name_of_tool(client)] == ["3", "4"]


def test_empty_cache_is_truthy() -> None:
    assert ResponseCache()
    assert len(ResponseCache()) == 0


# --- bounds ----------------------------------------------------------------------------------------------------------


def key(name: str) -> _Key:
    return _Key("", b"", name, "", b"")


@pytest.mark.property
@given(
    st.integers(1, 4),
    st.integers(1, 30),
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.sampled_from("abcdef"), st.integers(0, 40), st.integers(1, 10)),
            st.tuples(st.just("get"), st.sampled_from("abcdef"), st.just(0), st.just(0)),
            st.tuples(st.just("drop"), st.sampled_from("abcdef"), st.just(0), st.just(0)),
            st.tuples(st.just("wait"), st.just(""), st.integers(1, 6), st.just(0)),
        ),
        max_size=40,
    ),
)
def test_cache_bounded_and_never_stale(entries: int, max_size: int, steps: list[tuple[str, str, int, int]]) -> None:
    async def run() -> None:
        store, model = _Store(entries, max_size), dict[str, tuple[int, float, int]]()
        for number, (action, name, size, seconds) in enumerate(steps):
            if action == "put":
                store.put(key(name), number, size, seconds)
                model[name] = (number, trio.current_time() + seconds, size)
            elif action == "drop":
                store.drop(key(name))
                model.pop(name, None)
            elif action == "wait":
                await trio.sleep(size)
            else:
                found = store.get(key(name))
                if found is not None:
                    assert found == model[name][0]
                    assert trio.current_time() < model[name][1]
            assert len(store) <= entries
            assert store._size == sum(entry.size for entry in store._entries.values()) <= max_size

    trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0))


async def test_cache_evicts_least_recently_used(autojump_clock: trio.testing.MockClock) -> None:
    store = _Store(2, 100)
    for name in "ab":
        store.put(key(name), name, 1, 60)
    assert store.get(key("a")) == "a"
    store.put(key("c"), "c", 1, 60)
    assert [store.get(key(name)) for name in "abc"] == ["a", None, "c"]
    store.put(key("d"), "d", 101, 60)
    assert store.get(key("d")) is None
    assert store.get(key("a")) == "a"


def test_cache_entries_of_previous_run_dropped() -> None:
    store = _Store(2, 100)

    async def put() -> None:
        store.put(key("a"), "a", 1, 10**9)

    async def get() -> object:
        return store.get(key("a"))

    trio.run(put)
    assert trio.run(get) is None


async def test_cache_keeps_integers_over_64_bits() -> None:
    methods: list[str] = []

    class Counting(Middleware):
        async def request(self, message: MiddlewareMessage, proceed: Proceed) -> object:
            methods.append(message.method)
            return await proceed(message)

    server = Server("large", version="1", cache=CacheHint(60), middleware=[Counting()])
    server.add_tool(lambda: "", name="one", meta={"com.example/count": 2**70})
    async with open_in_memory(lambda stream: serve_stream(server, stream), options=ClientOptions(cache=True)) as client:
        for _ in range(2):
            (tool,) = await client.list_tools()
            assert tool.meta == {"com.example/count": 2**70}
    assert methods == ["tools/list"]


async def test_shared_cache_results_pass_middleware_of_each_client() -> None:
    server, shared = Server("tools", version="1", cache=CacheHint(60, "public")), ResponseCache()
    for name in ("read", "delete"):
        server.add_tool(lambda: "", name=name)
    async with trio.open_nursery() as nursery:
        (url,) = await nursery.start(lambda task_status: serve_http(server, "127.0.0.1:0", task_status=task_status))
        for deny, names in (["delete"], ["read"]), ([], ["read", "delete"]), (["read"], ["delete"]):
            async with open_http(
                url, options=ClientOptions(cache=shared), middleware=[ToolFilter(deny=deny)]
            ) as client:
                assert [tool.name for tool in await client.list_tools()] == names
                assert [tool.name for tool in await client.list_tools()] == names
        nursery.cancel_scope.cancel()
    assert len(shared) == 1
