"""A client of the official SDK that uses the notebook server and prints the results as JSON.

    python official_client.py MODE (URL | PROGRAM [ARGUMENT ...])

MODE is `legacy`, `auto` or a modern revision, as the SDK calls them.
"""

from __future__ import annotations

import json
import sys

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    ListRootsResult,
    PromptReference,
    Root,
    TextContent,
)


async def confirm(context: object, params: ElicitRequestFormParams) -> ElicitResult:
    """Accept the form."""
    return ElicitResult(action="accept", content={"write": True, "kind": "log"})


async def think(context: object, params: CreateMessageRequestParams) -> CreateMessageResult:
    """Return a short answer of the model."""
    return CreateMessageResult(role="assistant", model="none", content=TextContent(type="text", text="In short: yes."))


async def roots(context: object) -> ListRootsResult:
    """Return one root."""
    return ListRootsResult(roots=[Root(uri="file:///nowhere", name="nowhere")])


async def main(mode: str, command: list[str]) -> None:
    """Use the server and print the results."""
    found: dict[str, object] = {}
    over_http = command[0].startswith("http")
    server = command[0] if over_http else StdioServerParameters(command=command[0], args=command[1:])
    if command[0].endswith("/sse"):
        server = sse_client(command[0])
    async with Client(
        server,
        mode=mode,
        elicitation_callback=confirm,
        sampling_callback=think,
        list_roots_callback=roots,
        read_timeout_seconds=20,
    ) as client:
        found["version"] = client.protocol_version
        found["tools"] = sorted(tool.name for tool in (await client.list_tools()).tools)
        added = await client.call_tool("add_note", {"title": "From outside", "text": "A note of another program."})
        found["added"] = [added.is_error, added.content[0].text]
        hits = await client.call_tool("search", {"query": "another program"})
        found["structured"] = hits.structured_content
        found["bad"] = (await client.call_tool("search", {"query": 7})).is_error if mode != "refused" else None
        summary = await client.call_tool("summarize", {"name": "from-outside"})
        found["summary"] = [summary.is_error, summary.content[0].text]
        steps: list[float] = []

        async def show(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        await client.call_tool("reindex", progress_callback=show)
        found["progress"] = steps
        resources = (await client.list_resources()).resources
        found["resources"] = len(resources)
        found["templates"] = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
        read = await client.read_resource(str(resources[0].uri))
        found["read"] = bool(read.contents[0].text)
        try:
            await client.read_resource("note:///there/is/no/such/note")
        except MCPError as error:
            found["missing"] = error.error.code
        prompt = await client.get_prompt("review_note", {"name": "from-outside"})
        found["prompt"] = [message.content.type for message in prompt.messages]
        completed = await client.complete(
            PromptReference(type="ref/prompt", name="review_note"), {"name": "name", "value": "from"}
        )
        found["completed"] = completed.completion.values
        answers: dict[int, object] = {}

        async def call(number: int) -> None:
            answers[number] = (await client.call_tool("search", {"query": "note", "limit": 1})).is_error

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(call, number)
        found["at once"] = sum(1 for failed in answers.values() if not failed)
    print(json.dumps(found))


anyio.run(main, sys.argv[1], sys.argv[2:])
