"""Access control: what a principal must not see or use looks nonexistent on every route."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import pytest
from asgi_host import Client, hosted, session
from raw_client import as_list, as_object, connected

from mcp_core.errors import ErrorCode
from mcp_core.http.messages import HttpRequest
from mcp_core.jsonrpc.messages import JsonObject, JsonValue
from mcp_core.limits import Limits
from mcp_core.methods import METHODS, Side
from mcp_core.oauth.principal import Principal
from mcp_core.revisions import MODERN, R2025_11_25, R2026_07_28, Era, Revision
from mcp_server import AccessRequest, Param, Server

REVISIONS = pytest.mark.parametrize("revision", [R2025_11_25, R2026_07_28], ids=str)


async def identify(request: HttpRequest) -> str | None:
    return request.headers.get("authorization")


async def access(request: AccessRequest) -> bool:
    """Allow administrators everything, and others each name without `secret`."""
    return request.principal == Principal(subject="admin") or "secret" not in request.name


def make_server(
    record: Callable[[AccessRequest], None] = lambda _: None, path: Path | None = None, page_items: int = 1_000
) -> Server:
    async def decide(request: AccessRequest) -> bool:
        record(request)
        return await access(request)

    server = Server("s", version="0", access=decide, limits=Limits(page_items=page_items))

    def tool(region: Annotated[str, Param(header="Region")] = "eu") -> str:
        return region

    def by_id(id: str) -> str:
        return id

    def prompt(city: str) -> str:
        return city

    for name in ("open", "secret"):
        server.add_tool(tool, name=name)
        server.add_resource(lambda: "x", f"a:{name}", name=name)
        server.add_resource(by_id, f"b:{name}/{{id}}", name=name)
        server.add_resource(by_id, f"c:{name}/{{id}}", name=f"also-{name}")
        server.add_prompt(prompt, name=name)
        server.completion(prompt=name, argument="city")(lambda value: [value])
        server.completion(resource=f"b:{name}/{{id}}", argument="id")(lambda value: [value])
    if path is not None:
        (path / "open.txt").write_text("open")
        (path / "secret.txt").write_text("secret")
        server.add_directory(path, "docs://d/")
    return server


@asynccontextmanager
async def client_of(server: Server, revision: Revision, principal: str) -> AsyncIterator[Client]:
    app = server.asgi(authenticate=identify)
    async with hosted(app, revision) as client:
        client.headers["authorization"] = principal
        if revision.era is Era.LEGACY:
            await client.open()
        yield client


def completion(ref: JsonObject, argument: str) -> JsonObject:
    return {"ref": ref, "argument": {"name": argument, "value": "v"}}


ROUTES: dict[str, list[Callable[[str], JsonObject]]] = {
    "tools/list": [lambda _: {}],
    "tools/call": [lambda name: {"name": name}, lambda name: {"name": name, "arguments": {"no": 1}}],
    "resources/list": [lambda _: {}],
    "resources/templates/list": [lambda _: {}],
    "resources/read": [
        lambda name: {"uri": f"a:{name}"},
        lambda name: {"uri": f"b:{name}/1"},
        lambda name: {"uri": f"docs://d/{name}.txt"},
    ],
    "resources/subscribe": [lambda name: {"uri": f"a:{name}"}],
    "resources/unsubscribe": [lambda name: {"uri": f"a:{name}"}],
    "prompts/list": [lambda _: {}],
    "prompts/get": [lambda name: {"name": name}, lambda name: {"name": name, "arguments": {"city": "c"}}],
    "completion/complete": [
        lambda name: completion({"type": "ref/prompt", "name": name}, "city"),
        lambda name: completion({"type": "ref/prompt", "name": name}, "nothing"),
        lambda name: completion({"type": "ref/resource", "uri": f"b:{name}/{{id}}"}, "id"),
        lambda name: completion({"type": "ref/resource", "uri": f"a:{name}"}, "id"),
    ],
}
"""For each method with a target: its params as functions of the target's name. `subscriptions/listen` is a stream."""


def test_routes_table_has_all_methods_with_target() -> None:
    features = {"tools", "resources", "prompts", "completions"}
    names = {row.name for row in METHODS if Side.CLIENT in row.sender and features & {*(row.server_capability or ())}}
    assert names == set(ROUTES)


def normalized(answer: JsonObject) -> JsonObject:
    """Return the response as it would be for another name."""
    made: JsonObject = json.loads(json.dumps({**answer, "id": 0}).replace("secret", "gone"))
    return made


@REVISIONS
@pytest.mark.spec(
    "resources.access-control",
    "resources.access-controls",
    "resources.check-permissions",
    "resources.permissions-before-ops",
    "completion.access-control",
    "completion.no-disclosure",
    "completion.security-access",
    "caching.access-control",
    "caching.scope-not-access-control",
    "tools.access-control",
    "prompts.list-by-authorization",
    "security.access-controls",
)
async def test_denied_target_looks_nonexistent(revision: Revision, tmp_path: Path) -> None:
    # The other server does not have the secret items.
    server, bare = make_server(path=tmp_path), make_server()
    bare.add_directory(tmp_path, "docs://d/")
    for remove, name in (
        (bare.remove_tool, "secret"),
        (bare.remove_resource, "a:secret"),
        (bare.remove_resource, "b:secret/{id}"),
        (bare.remove_resource, "c:secret/{id}"),
        (bare.remove_prompt, "secret"),
    ):
        remove(name)
    async with client_of(server, revision, "guest") as client, client_of(bare, revision, "guest") as other:
        for method, many in ROUTES.items():
            if revision is R2026_07_28 and "subscribe" in method:
                continue
            for params in many:
                hidden = client.post(client.request(method, params("secret")))
                gone = other.post(other.request(method, params("gone")))
                answer, expected = await hidden.answer(), await gone.answer()
                if "/list" in method:
                    assert "secret" not in json.dumps(answer)
                elif method == "resources/unsubscribe":
                    assert "result" in answer
                else:
                    assert "error" in answer, method
                    assert normalized(answer) == normalized(expected), method
                    assert hidden.status == gone.status
        # The access hook may allow a template and deny one of its resources.
        for method in ("resources/read", "resources/subscribe")[: 1 if revision is R2026_07_28 else 2]:
            error = as_object((await client.ask(method, {"uri": "c:open/secret"}))["error"])
            assert error["message"] == "resource not found: c:open/secret"
            assert "result" in await client.ask(method, {"uri": "c:open/1"})


@REVISIONS
async def test_allowed_principal_sees_and_uses_everything(revision: Revision, tmp_path: Path) -> None:
    async with client_of(make_server(path=tmp_path), revision, "admin") as client:
        for method, many in ROUTES.items():
            if revision is R2026_07_28 and "subscribe" in method:
                continue
            answer = await client.ask(method, many[-1 if method == "prompts/get" else 0]("secret"))
            assert "result" in answer, answer
            if "/list" in method:
                assert "secret" in json.dumps(answer)


@pytest.mark.spec("tools.access-controls", "resources.list-by-authorization", "tools.list-by-authorization")
async def test_tools_list_differs_by_principal() -> None:
    app = make_server().asgi(authenticate=identify)
    async with hosted(app, R2026_07_28) as client:
        for principal, count in (("guest", 1), ("admin", 2), ("guest", 1)):
            client.headers["authorization"] = principal
            result = as_object((await client.ask("tools/list"))["result"])
            assert len(as_list(result["tools"])) == count
            assert result["cacheScope"] == "private"


async def test_subscription_omits_denied_resources(tmp_path: Path) -> None:
    server = make_server(path=tmp_path)
    uris: list[JsonValue] = [
        "a:secret",
        "a:open",
        "b:secret/1",
        "c:open/secret",
        "docs://d/secret.txt",
        "docs://d/open.txt",
    ]
    app = server.asgi(authenticate=identify)
    for principal, granted in (("guest", ["a:open", "docs://d/open.txt"]), ("admin", uris)):
        async with hosted(app, R2026_07_28) as client:
            client.headers["authorization"] = principal
            params: JsonObject = {"notifications": {"resourceSubscriptions": uris}}
            message = await client.post(client.request("subscriptions/listen", params)).message()
            granted_filter = as_object(as_object(message["params"])["notifications"])
            assert granted_filter["resourceSubscriptions"] == granted


async def test_header_mismatch_does_not_reveal_denied_tool() -> None:
    app = make_server().asgi(authenticate=identify)
    codes = {}
    async with hosted(app, R2026_07_28) as client:
        for principal in ("guest", "admin"):
            for name in ("open", "secret", "gone"):
                message = client.request("tools/call", {"name": name, "arguments": {"region": "eu"}})
                reply = client.post(message, authorization=principal, mcp_param_region="us")
                answer = await reply.answer()
                codes[principal, name] = as_object(answer["error"])["code"], reply.status
    mismatch, unknown = (ErrorCode.HEADER_MISMATCH, 400), codes["guest", "gone"]
    assert unknown[0] == ErrorCode.INVALID_PARAMS
    assert codes == {
        ("guest", "open"): mismatch,
        ("guest", "secret"): unknown,
        ("guest", "gone"): unknown,
        ("admin", "open"): mismatch,
        ("admin", "secret"): mismatch,
        ("admin", "gone"): unknown,
    }


async def test_matching_param_header_accepted() -> None:
    app = make_server().asgi(authenticate=identify)
    async with hosted(app, R2026_07_28) as client:
        message = client.request("tools/call", {"name": "open", "arguments": {"region": "eu"}})
        assert "result" in await client.post(message, mcp_param_region="eu").answer()
    async with session(make_server().asgi()) as client:
        assert "result" in await client.ask("tools/call", {"name": "open", "arguments": {"region": "eu"}})


@pytest.mark.parametrize("spelling", ["c:open/%73ecret", "c:open/secre%74"])
async def test_access_hook_receives_normalized_uri(spelling: str) -> None:
    names: list[tuple[str, str]] = []
    server = make_server(lambda request: names.append((request.kind, request.name)))
    async with connected(server, R2026_07_28) as client:
        await client.fail("resources/read", {"uri": spelling})
        assert names == [("template", "c:open/{id}"), ("resource", "c:open/secret")]


async def test_access_hook_receives_normalized_file_uri(tmp_path: Path) -> None:
    (tmp_path / "a b?#%.txt").write_text("x")
    names: list[str] = []
    server = make_server(lambda request: names.append(request.name), tmp_path)
    uri = "docs://d/a%20b%3F%23%25.txt"
    async with connected(server, R2026_07_28) as client:
        listed = await client.call("resources/list")
        assert uri in [as_object(each)["uri"] for each in as_list(listed["resources"])]
        names.clear()
        for spelling in (uri, "docs://d/%61 b%3f%23%25.txt"):
            await client.call("resources/read", {"uri": spelling})
        assert names == ["docs://d/{+path}", uri] * 2


async def test_denied_template_falls_back_to_next_template() -> None:
    async def decide(request: AccessRequest) -> bool:
        return request.name != "x:{id}"

    server = Server("s", version="0", access=decide)

    @server.resource("x:{id}")
    def first(id: str) -> str:
        return "first"

    @server.resource("x:{+path}")
    def second(path: str) -> str:
        return "second"

    async with connected(server, R2026_07_28) as client:
        (contents,) = as_list((await client.call("resources/read", {"uri": "x:1"}))["contents"])
        assert as_object(contents)["text"] == "second"


async def test_list_pages_omit_denied_items_without_trace(tmp_path: Path) -> None:
    server = make_server(path=tmp_path, page_items=2)
    for name in ("b", "secret-c", "secret-d"):
        server.add_tool(lambda: "x", name=name)
        (tmp_path / name).write_text("x")
    async with connected(server, R2026_07_28) as client:
        result = await client.call("tools/list")
        assert [as_object(each)["name"] for each in as_list(result["tools"])] == ["open", "b"]
        assert "nextCursor" not in result
        listed_uris: list[object] = []
        cursor: JsonValue = None
        pages = 0
        while pages == 0 or cursor is not None:
            result = await client.call("resources/list", {} if cursor is None else {"cursor": cursor})
            listed_uris += [as_object(each)["uri"] for each in as_list(result["resources"])]
            cursor = result.get("nextCursor")
            pages += 1
        assert listed_uris == ["a:open", "docs://d/b", "docs://d/open.txt"]
        assert pages == 2


@pytest.mark.parametrize("answer", [None, 1, "yes"])
async def test_access_hook_must_return_true(answer: object) -> None:
    async def decide(_: AccessRequest) -> bool:
        return answer  # type: ignore[return-value]  # the tested case

    server = Server("s", version="0", access=decide)
    server.add_tool(lambda: "x", name="t")
    async with connected(server, R2026_07_28) as client:
        assert (await client.call("tools/list"))["tools"] == []
        assert (await client.fail("tools/call", {"name": "t"}))["code"] == ErrorCode.INVALID_PARAMS


async def test_failing_access_hook_denies(caplog: pytest.LogCaptureFixture) -> None:
    async def decide(_: AccessRequest) -> bool:
        raise ValueError("swordfish")

    server = Server("s", version="0", access=decide)
    server.add_tool(lambda: "x", name="t")
    async with connected(server, R2026_07_28) as client:
        cases: list[tuple[str, JsonObject]] = [("tools/list", {}), ("tools/call", {"name": "t"})]
        for method, params in cases:
            error = await client.fail(method, params)
            assert (error["code"], error["message"]) == (ErrorCode.INTERNAL_ERROR, "Internal error")
    assert "swordfish" in caplog.text


async def test_access_request_has_principal_and_request() -> None:
    listed_uris: list[AccessRequest] = []
    app = make_server(listed_uris.append).asgi(authenticate=identify)
    async with hosted(app, R2026_07_28) as client:
        await client.post(client.request("prompts/get", {"name": "open"}), authorization="guest").answer()
    (request,) = listed_uris
    assert (request.kind, request.name, request.principal) == ("prompt", "open", Principal(subject="guest"))
    assert request.peer.revision in MODERN
    assert request.http is not None
    assert request.scopes == frozenset()
    assert "authorization" not in request.http.headers


async def test_error_suggests_no_names_with_access_hook() -> None:
    async with connected(make_server(), R2026_07_28) as client:
        cases: list[tuple[str, JsonObject]] = [
            ("tools/call", {"name": "opem"}),
            ("prompts/get", {"name": "opem"}),
            ("completion/complete", completion({"type": "ref/prompt", "name": "opem"}, "city")),
        ]
        for method, params in cases:
            assert "did you mean" not in str((await client.fail(method, params))["message"])
