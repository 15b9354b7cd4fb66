"""Handlers of extensions and of roots, and the errors when they are invalid."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from mcp_client import ClientOptions, Handlers
from mcp_client.testing import ScriptedPeer, Transcript, open_in_memory, scripted
from mcp_core.engine.connection import Extensions
from mcp_core.errors import LocalProtocolError, RequestFailed
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.methods import (
    ELICITATION_CREATE,
    NOTIFICATIONS_TOOLS_LIST_CHANGED,
    NotificationMethod,
    RequestMethod,
    Side,
)
from mcp_core.revisions import R2025_11_25, R2026_07_28
from mcp_core.types import NotificationParams, RequestParams, Result, Root
from mcp_core.types.wire_object import wire


@wire()
class SearchParams(RequestParams):
    words: tuple[str, ...]


@wire()
class SearchResult(Result):
    found: int


@wire()
class IndexedParams(NotificationParams):
    count: int


SEARCH = RequestMethod(
    name="example/search",
    sender=Side.SERVER,
    params=SearchParams,
    result=SearchResult,
    extension="com.example/search",
)
INDEXED = NotificationMethod(name="notifications/example/indexed", sender=Side.SERVER, params=IndexedParams)


async def search(params: SearchParams) -> SearchResult:
    return SearchResult(found=len(params.words))


async def raw_search(params: SearchParams) -> JsonObject:
    return {"found": len(params.words), "more": True}


async def declared_and_response(
    handlers: Handlers, extensions: Extensions | None = None
) -> tuple[JsonObject, JsonObject]:
    """Return what a client declares, and its response to a request of the extension."""
    messages: list[JsonObject] = []

    async def script(peer: ScriptedPeer) -> None:
        messages.append(await peer.initialize(tools={"listChanged": True}))
        await peer.send({"jsonrpc": "2.0", "id": 1, "method": "example/search", "params": {"words": ["a", "b"]}})
        messages.append(await peer.receive())
        done.set()

    done = trio.Event()
    async with open_in_memory(
        scripted(script), handlers=handlers, options=ClientOptions(extensions=extensions), revisions=[R2025_11_25]
    ):
        await done.wait()
    return messages[0], messages[1]


async def test_extension_request_handled_and_extension_declared() -> None:
    first, answer = await declared_and_response(Handlers(methods={SEARCH: search}))
    assert answer["result"] == {"found": 2}
    params = first["params"]
    assert isinstance(params, dict)
    assert "'com.example/search': {}" in str(params["capabilities"])


async def test_extension_settings_declared_and_wire_result_sent() -> None:
    handlers = Handlers(methods={SEARCH: raw_search}, extensions={"com.example/search": {"fuzzy": True}})
    first, answer = await declared_and_response(handlers, Extensions())
    assert answer["result"] == {"found": 2, "more": True}
    assert "fuzzy" in str(first)


async def test_extension_handler_error_hides_details(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(params: SearchParams) -> SearchResult:
        raise ValueError("s3cr3t")

    async def refuses(params: SearchParams) -> SearchResult:
        raise RequestFailed("not today", code=-5)

    _, answer = await declared_and_response(Handlers(methods={SEARCH: broken}))
    assert answer["error"] == {"code": -32603, "message": "Internal error"}
    assert "s3cr3t" in caplog.text
    _, answer = await declared_and_response(Handlers(methods={SEARCH: refuses}))
    assert answer["error"] == {"code": -5, "message": "not today"}


async def test_extension_request_without_handler_rejected() -> None:
    _, answer = await declared_and_response(Handlers())
    assert answer["error"] == {"code": -32601, "message": "method not found: example/search"}


@pytest.mark.parametrize("modern", [False, True])
async def test_notification_handlers_called(modern: bool, caplog: pytest.LogCaptureFixture) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await (peer.discover if modern else peer.initialize)(tools={"listChanged": True})
        await peer.receive("tools/list")
        for number in (1, 2):
            await peer.send(
                {"jsonrpc": "2.0", "method": INDEXED.name, "params": {"count": number}},
            )
        await peer.send({"jsonrpc": "2.0", "method": NOTIFICATIONS_TOOLS_LIST_CHANGED.name})
        await done.wait()

    done, counts = trio.Event(), list[int]()

    def indexed(params: IndexedParams) -> None:
        counts.append(params.count)
        if params.count == 1:
            raise ValueError("broken")

    handlers = Handlers(
        notifications={INDEXED: indexed, NOTIFICATIONS_TOOLS_LIST_CHANGED: lambda _: done.set()},
    )
    async with open_in_memory(scripted(script), handlers=handlers) as client, trio.open_nursery() as nursery:
        nursery.start_soon(client.list_tools)
        await done.wait()
        nursery.cancel_scope.cancel()
    assert counts == [1, 2]
    assert f"notification handler failed: method={INDEXED.name}" in caplog.text


class AsyncCallable:
    async def __call__(self, params: SearchParams) -> SearchResult:
        return await search(params)


def test_handler_coroutine_functions_accepted() -> None:
    Handlers(methods={SEARCH: partial(search)})
    Handlers(methods={SEARCH: AsyncCallable()})


def test_handler_invalid_function_rejected() -> None:
    with pytest.raises(LocalProtocolError, match="elicitation/create belongs to the specification"):
        Handlers(methods={ELICITATION_CREATE: search})
    with pytest.raises(LocalProtocolError, match="the handler of example/search must be a function"):
        Handlers(methods={SEARCH: 3})  # type: ignore[dict-item]  # on purpose
    with pytest.raises(LocalProtocolError, match=f"the handler of {INDEXED.name} must be a plain function"):
        Handlers(notifications={INDEXED: search})  # type: ignore[dict-item]  # a coroutine function, which is rejected
    with pytest.raises(LocalProtocolError, match=f"the handler of {INDEXED.name} must be a plain function"):
        Handlers(notifications={INDEXED: AsyncCallable()})  # type: ignore[dict-item]  # its call is a coroutine function, which is rejected
    with pytest.raises(LocalProtocolError, match=f"the handler of {INDEXED.name} must be a plain function"):
        Handlers(notifications={INDEXED: 3})  # type: ignore[dict-item]  # on purpose
    with pytest.raises(LocalProtocolError, match="invalid extension identifier 'search'"):
        Handlers(extensions={"search": {}})


# --- roots -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "name", "end"),
    [
        *(("file://", name, "") for name in ("plain", "with blank", "ä€", "100%", "a..b")),
        *((start, "plain", "") for start in ("file://localhost", "FILE://", "file://LOCALHOST")),
        ("file://", "plain", "/"),
    ],
)
@pytest.mark.spec("roots.file-uri", "roots.uri-file-scheme", "roots.validate-uris")
def test_root_local_folder_accepted(tmp_path: Path, start: str, name: str, end: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    root = Root(uri=folder.as_uri().replace("file://", start) + end)

    assert Handlers(roots=[root]).roots == (root,)


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("https://example.com/", "does not begin with file://"),
        ("/home/ada", "does not begin with file://"),
        ("file:/home/ada", "does not begin with file://"),
        ("file:home", "does not begin with file://"),
        ("file://home", "its path is not absolute"),
        ("file:///home/../etc", "its path has '..'"),
        ("file:///home/%2e%2E/etc", "its path has '..'"),
        ("file:///home/..%5cetc", "its path has '..'"),
        ("file:///home/..", "its path has '..'"),
        ("file:///a%00b", "control characters"),
        ("file:///a\nb", "control characters"),
        ("file:///a?b", "a query or a fragment"),
        ("file:///a#b", "a query or a fragment"),
        ("file://[a/b", "Invalid IPv6 URL"),
        ("file://server/", "it is on the host 'server'"),
        ("file://localhost:80/", "it is on the host 'localhost:80'"),
        ("file:///\ud800", "its path cannot be looked up"),
        ("file:///no/such/folder", "its path cannot be looked up: No such file or directory"),
    ],
)
@pytest.mark.spec("roots.file-uri", "roots.uri-file-scheme", "roots.validate-uris")
def test_root_invalid_rejected(uri: str, reason: str) -> None:
    with pytest.raises(LocalProtocolError, match=re.escape(reason)) as refused:
        Handlers(roots=[Root(uri="file:///"), Root(uri=uri)])
    assert "Handlers.roots" in str(refused.value)
    assert repr(uri) in str(refused.value)


def test_root_file_rejected() -> None:
    with pytest.raises(LocalProtocolError, match="it is not a folder"):
        Handlers(roots=[Root(uri=Path(__file__).as_uri())])


def test_root_uri_of_wrong_type_rejected() -> None:
    with pytest.raises(LocalProtocolError, match="its uri is of the class int"):
        Handlers(roots=[Root(uri=5)])  # type: ignore[arg-type]  # on purpose


def test_roots_list_changed_later_leaves_handlers_unchanged() -> None:
    given = [Root(uri="file:///")]
    handlers = Handlers(roots=given)
    given.append(Root(uri="https://example.com"))

    assert handlers.roots == (Root(uri="file:///"),)


def test_root_string_rejected() -> None:
    with pytest.raises(LocalProtocolError, match="it is of the class str"):
        Handlers(roots=["file:///home"])  # type: ignore[list-item]  # on purpose


@pytest.mark.spec("roots.internal-error")
@pytest.mark.parametrize(
    ("uri", "reason"),
    [("http://example.com", "it does not begin with file://"), ("file:///no/such/example.com", "cannot be looked up")],
)
async def test_roots_function_invalid_root_returns_internal_error(
    uri: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def roots() -> list[Root]:
        return [Root(uri=uri)]

    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize()
        await peer.send({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
        answer.append(await peer.receive())
        done.set()

    answer: list[JsonObject] = []
    done = trio.Event()
    transcript = Transcript()
    async with open_in_memory(scripted(script), handlers=Handlers(roots=roots), transcript=transcript):
        await done.wait()
    assert answer[0]["error"] == {"code": -32603, "message": "Internal error"}
    assert reason in caplog.text
    assert "example.com" not in transcript.text()


# --- members of _meta ------------------------------------------------------------------------------------------------

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)
@pytest.mark.spec("meta.trace-context-format")
async def test_with_meta_members_sent_with_each_request(
    revision: object, autojump_clock: trio.testing.MockClock
) -> None:
    metas: dict[str, object] = {}
    modern = revision is R2026_07_28

    async def script(peer: ScriptedPeer) -> None:
        await (peer.discover if modern else peer.initialize)(tools={}, resources={"subscribe": True})
        while (line := await peer.receive_line()) is not None:
            request: JsonObject = json.loads(line)
            params = request.get("params")
            assert isinstance(params, dict)
            metas[str(request["method"])] = params.get("_meta")
            if request["method"] == "tools/list":
                await peer.answer(request, {"tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})
            elif request["method"] == "subscriptions/listen":
                await peer.send(
                    {
                        "jsonrpc": "2.0",
                        "method": "notifications/subscriptions/acknowledged",
                        "params": {
                            "notifications": {},
                            "_meta": {"io.modelcontextprotocol/subscriptionId": request["id"]},
                        },
                    }
                )
            elif "id" in request:
                await peer.answer(request, {})

    async with open_in_memory(scripted(script)) as client:
        view = client.with_meta({"traceparent": TRACE, "com.example/tenant": 7}).with_meta({"com.example/tenant": 8})
        await view.list_tools()
        assert application_members(metas["tools/list"]) == {"traceparent": TRACE, "com.example/tenant": 8}
        async with view.listen(uris=["a:b"]):
            pass
        await client.list_tools()
    assert application_members(metas["tools/list"]) == {}
    for method in ["subscriptions/listen"] if modern else ["resources/subscribe", "resources/unsubscribe"]:
        assert application_members(metas[method]) == {"traceparent": TRACE, "com.example/tenant": 8}


def application_members(meta: object) -> dict[str, object]:
    """Return the members of `_meta` that are not the protocol's."""
    return {
        key: value
        for key, value in (meta.items() if isinstance(meta, dict) else ())
        if key != "progressToken" and "modelcontextprotocol" not in key
    }


@pytest.mark.spec("meta.reserved-keys-not-redefined", "meta.baggage-format")
async def test_with_meta_reserved_or_invalid_members_rejected() -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.discover()

    async with open_in_memory(scripted(script)) as client:
        for key in ("io.modelcontextprotocol/clientInfo", "progressToken", "baggage"):
            with pytest.raises(LocalProtocolError, match=key):
                client.with_meta({key: "?"})
