"""The features that the demonstration uses: one function for each, which uses it through the client."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Awaitable, Callable

import trio

from mcp_client import ChangeKind
from mcp_core.errors import RequestFailed, ResourceNotFound
from mcp_core.methods import ELICITATION_CREATE, PING, RequestMethod
from mcp_core.revisions import R2025_06_18, Revision, between
from mcp_core.types import (
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    PromptReference,
    ResourceTemplateReference,
    TextResourceContents,
)
from session import Feature, Session, Transport, text_of

__all__ = ["CLOSE", "FEATURES"]

CALLS = 100
"""The number of concurrent calls."""
SECONDS = 10
"""The timeout of a handwritten request."""


FEATURES: list[Feature] = []


def feature(
    name: str, supported_in: Callable[[Revision], bool] = lambda _: True
) -> Callable[[Callable[[Session], Awaitable[str]]], Callable[[Session], Awaitable[str]]]:
    """Return a decorator that adds a feature to the table."""

    def add(run: Callable[[Session], Awaitable[str]]) -> Callable[[Session], Awaitable[str]]:
        FEATURES.append(Feature(name, run, supported_in))
        return run

    return add


def has(row: RequestMethod[object, object]) -> Callable[[Revision], bool]:
    """Return a predicate: whether a revision has a method, as a request or an input request."""
    return lambda revision: revision in row.revisions or revision in row.input_request


def note(name: str) -> str:
    """Return the URI of a note."""
    return f"note:///{name}"


# --- connection --------------------------------------------------------------------------------------------------------


@feature("negotiate the revision")
async def negotiate(session: Session) -> str:
    assert session.client.revision is session.revision, f"negotiated {session.client.revision}"
    return f"{session.client.revision}, {session.client.revision.era.value}"


@feature("describe the server")
async def introduce(session: Session) -> str:
    info = session.client.server_info
    assert info is not None, "the server sent no serverInfo"
    assert info.name == "notebook", info.name
    assert session.client.instructions, "the server sent no instructions"
    assert session.client.capabilities.tools is not None, "the server did not declare tools"
    return f"{info.name} {info.version}"


@feature("ping", has(PING))
async def ping(session: Session) -> str:
    await session.client.ping()
    return "responded"


# --- tools -------------------------------------------------------------------------------------------------------------


@feature("list tools")
async def list_tools(session: Session) -> str:
    tools = {tool.name: tool for tool in await session.client.list_tools()}
    schema = tools["search"].input_schema
    assert schema["required"] == ["query"], schema
    return ", ".join(tools)


@feature("call a tool")
async def call_tool(session: Session) -> str:
    text = await session.text("search", query="roof")
    assert "The [roof] leaks" in text, text
    return text


@feature("structured output", lambda revision: revision in between(R2025_06_18))
async def structured_output(session: Session) -> str:
    result = await session.client.call_tool("search", {"query": "tulips OR belfry", "limit": 2})
    structured = result.structured_content
    assert isinstance(structured, dict), structured
    hits = structured["result"]
    assert isinstance(hits, list), hits
    names = sorted(str(hit["name"]) for hit in hits if isinstance(hit, dict))
    assert names == ["garden", "trips/ghent"], names
    return ", ".join(names)


@feature("an error for the model")
async def tool_error(session: Session) -> str:
    text = text_of(await session.client.call_tool("search", {"query": 'roof "'}, raise_on_error=False), failed=True)
    assert "quotes" in text, text
    return text


@feature("invalid arguments")
async def wrong_arguments(session: Session) -> str:
    try:
        text = text_of(
            await session.client.call_tool("search", {"query": "roof", "limit": 1000}, raise_on_error=False),
            failed=True,
        )
    except RequestFailed as error:
        assert not session.revision.bad_arguments_in_result, error
        text = error.message
    assert "limit" in text, text
    return text


@feature("a tool that does not exist")
async def unknown_tool(session: Session) -> str:
    try:
        await session.client.call_tool("serach")
    except RequestFailed as error:
        assert "search" in error.message, error
        return str(error)
    raise AssertionError("the request succeeded")


@feature("a picture from a tool")
async def picture(session: Session) -> str:
    result = await session.client.call_tool("picture", {"name": "pixel.png"})
    (block,) = result.content
    assert isinstance(block, ImageContent), block
    assert block.data_bytes().startswith(b"\x89PNG"), "the picture is not a PNG"
    return f"{block.mime_type}, {len(block.data_bytes())} bytes"


@feature(f"{CALLS} concurrent calls")
async def many_calls(session: Session) -> str:
    found: list[str] = []

    async def call(query: str) -> None:
        found.append(await session.text("search", query=query))

    started = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for number in range(CALLS):
            nursery.start_soon(call, ("roof", "tulips", "belfry")[number % 3])
    assert len(found) == CALLS, len(found)
    return f"{1000 * (time.perf_counter() - started):.0f} ms"


# --- resources ---------------------------------------------------------------------------------------------------------


@feature("list resources and templates")
async def list_resources(session: Session) -> str:
    uris = [resource.uri for resource in await session.client.list_resources()]
    templates = [template.uri_template for template in await session.client.list_resource_templates()]
    assert note("trips/ghent") in uris, uris
    assert "note:///{+name}" in templates, templates
    return ", ".join(uris + templates)


@feature("read a note")
async def read_text(session: Session) -> str:
    (contents,) = (await session.client.read_resource(note("house"))).contents
    assert isinstance(contents, TextResourceContents), contents
    assert contents.text.startswith("# The house"), contents.text
    assert contents.mime_type == "text/markdown", contents.mime_type
    return contents.text.splitlines()[0]


@feature("read a picture")
async def read_binary(session: Session) -> str:
    (contents,) = (await session.client.read_resource("picture:///pixel.png")).contents
    assert not isinstance(contents, TextResourceContents), contents
    assert contents.blob_bytes().startswith(b"\x89PNG"), "the picture is not a PNG"
    return f"{contents.mime_type}, {len(contents.blob_bytes())} bytes"


@feature("a note that does not exist")
async def not_found(session: Session) -> str:
    try:
        await session.client.read_resource(note("nothing"))
    except ResourceNotFound as error:
        assert error.code == session.revision.resource_not_found, error
        return str(error)
    raise AssertionError("the request succeeded")


@feature("confinement to the folder")
async def confined(session: Session) -> str:
    (session.folder.parent / "secret.md").write_text("# Secret\n")
    (session.folder / "link.md").symlink_to(session.folder.parent / "secret.md")
    names = ("../secret", "..%2Fsecret", "%2e%2e/secret", "link", "/etc/hosts", "trips/../../secret")
    for name in names:
        try:
            await session.client.read_resource(note(name))
        except RequestFailed:
            continue
        raise AssertionError(f"{name} was read")
    return f"{len(names)} attempts rejected"


# --- prompts -----------------------------------------------------------------------------------------------------------


@feature("prompts")
async def prompts(session: Session) -> str:
    (prompt,) = await session.client.list_prompts()
    assert [argument.name for argument in prompt.arguments or ()] == ["name"], prompt
    prompt_result = await session.client.get_prompt("review_note", {"name": "garden"})
    embedded = prompt_result.messages[1].content
    assert isinstance(embedded, EmbeddedResource), embedded
    return f"{prompt.name}: {len(prompt_result.messages)} messages"


@feature("completion")
async def completion(session: Session) -> str:
    of_prompt = await session.client.complete(PromptReference(name="review_note"), "name", "ga")
    of_template = await session.client.complete(ResourceTemplateReference(uri="note:///{+name}"), "name", "ghent")
    assert of_prompt.values == ("garden",), of_prompt
    assert of_template.values == ("trips/ghent",), of_template
    return ", ".join(of_prompt.values + of_template.values)


# --- during a call -----------------------------------------------------------------------------------------------------


@feature("progress")
async def progress(session: Session) -> str:
    values: list[float] = []
    total = await session.client.call_tool(
        "reindex", on_progress=lambda progress, _total, _message: values.append(progress)
    )
    assert values, "no progress notification arrived"
    assert values == sorted(set(values)), values
    return f"{values} of {text_of(total, failed=False)}"


@feature("log messages")
async def logging(session: Session) -> str:
    await session.client.set_log_level("info")
    session.logs.clear()
    await session.text("reindex")
    await session.until(lambda: bool(session.logs))
    await session.client.set_log_level("error")
    session.logs.clear()
    await session.text("reindex")
    assert not session.logs, session.logs
    await session.client.set_log_level("info")
    return "info messages arrive only at level info"


@feature("cancel a call")
async def cancel(session: Session) -> str:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.client.call_tool, "wait_for_change", {"name": "house"})
        await session.until(lambda: any("waiting for house" in line for line in session.logs))
        nursery.cancel_scope.cancel()
    await session.until(lambda: any("cancelled: waiting for house" in line for line in session.stderr))
    assert await session.text("search", query="roof"), "the connection is unusable"
    return "the handler was cancelled"


# --- client requests ---------------------------------------------------------------------------------------------------


@feature("elicitation, accepted", has(ELICITATION_CREATE))
async def elicit_accepted(session: Session) -> str:
    session.elicit_result = ElicitResult(action="accept", content={"write": True, "kind": "todo"})
    added = await session.text("add_note", title="The fence", text="Paint it.")
    content = (session.folder / "the-fence.md").read_text()
    assert "*todo*" in content, content
    assert len(session.elicitations) == 1, session.elicitations
    return added


@feature("elicitation, declined", has(ELICITATION_CREATE))
async def elicit_declined(session: Session) -> str:
    session.elicit_result = ElicitResult(action="decline")
    result = await session.client.call_tool(
        "add_note", {"title": "The shed", "text": "Paint it."}, raise_on_error=False
    )
    assert not (session.folder / "the-shed.md").exists(), "the note was written"
    return text_of(result, failed=True)


@feature("sampling")
async def sampling(session: Session) -> str:
    text = await session.text("summarize", name="garden")
    assert text == "A note of 18 words.", text
    return text


@feature("roots")
async def roots(session: Session) -> str:
    added = await session.text("import_from_roots")
    assert "the-attic" in added, added
    assert (session.folder / "the-attic.md").exists(), "the note was not copied"
    return added


# --- changes -----------------------------------------------------------------------------------------------------------


@feature("a note changes on disk")
async def updated(session: Session) -> str:
    async with session.client.listen(uris=[note("garden")]) as changes:
        with (session.folder / "garden.md").open("a") as file:
            file.write("Roses, too.\n")
        async for change in changes:
            assert change.kind is ChangeKind.RESOURCE, change
            assert change.uri == note("garden"), change
            break
    text = await session.text("search", query="roses")
    assert "garden" in text, text
    return "notified, and found by the search"


@feature("a note appears on disk")
async def list_changed(session: Session) -> str:
    async with session.client.listen(resources=True) as changes:
        (session.folder / "cellar.md").write_text("# The cellar\n\nWine and apples.\n")
        async for change in changes:
            assert change.kind is ChangeKind.RESOURCES, change
            break
    uris = [resource.uri for resource in await session.client.list_resources()]
    assert note("cellar") in uris, uris
    return f"notified; now {len(uris)} resources"


# --- the wire ----------------------------------------------------------------------------------------------------------


@feature("a batch of messages", lambda revision: revision.batching)
async def batch(session: Session) -> str:
    # The client accepts batches but sends none, so this one is handwritten.
    client_info = {"name": "handwritten", "version": "1"}
    initialize = {"protocolVersion": session.revision.name, "capabilities": {}, "clientInfo": client_info}
    call = {"name": "search", "arguments": {"query": "roof"}}
    messages: list[object] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        [
            {"jsonrpc": "2.0", "id": 2, "method": "ping"},
            {"jsonrpc": "2.0", "id": 3, "method": "tools/list"},
            {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": call},
        ],
    ]
    if session.transport is Transport.STDIO:
        sent = "".join(f"{json.dumps(message)}\n" for message in messages).encode()
        done = await trio.run_process(session.command, stdin=sent, capture_stdout=True, capture_stderr=True)
        _, responses = map(json.loads, done.stdout.splitlines())
    else:
        responses = await trio.to_thread.run_sync(post_messages, session.url, messages)
    ids = sorted(each["id"] for each in responses)
    assert ids == [2, 3, 4], responses
    return f"{len(responses)} responses in one array"


def post_messages(url: str, messages: list[object]) -> list[dict[str, object]]:
    """Post messages one after the other, in one session, and return the response to the last."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    responses: list[dict[str, object]] = []
    for message in messages:
        request = urllib.request.Request(url, json.dumps(message).encode(), headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as response:
            headers["Mcp-Session-Id"] = response.headers.get("Mcp-Session-Id") or headers["Mcp-Session-Id"]
            body = response.read()
        responses = json.loads(body) if body else []
    return responses


async def _close(session: Session) -> str:
    if session.transport is Transport.STDIO:
        assert session.stderr[-1:] == ["notebook: the client has disconnected"], session.stderr[-5:]
        return "the server exited at the end of its input"
    assert session.stderr[-1:] == ["notebook: stopped by a signal"], session.stderr[-5:]
    assert session.exit_code == 0, session.exit_code
    return "the session ended; the server exited at SIGTERM"


CLOSE = Feature("close", _close, lambda _: True)
"""The feature that is checked after the connection has ended."""
