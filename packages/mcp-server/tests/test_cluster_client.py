"""The client of this project against several workers over sockets, behind a load balancer without sticky sessions."""

from __future__ import annotations

import pytest
import trio
from cluster_deployment import Deployment, deployed
from http_hosts import served

from mcp_client import Handlers, ToolResult, open_http
from mcp_core.http.endpoint_policy import EndpointPolicy
from mcp_core.revisions import R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28, Era, Revision
from mcp_core.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestFormParams,
    ElicitResult,
    TextContent,
)

each_revision = pytest.mark.parametrize("revision", [R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28], ids=str)


async def elicit(_: ElicitRequestFormParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"name": "Ada"})


async def sample(_: CreateMessageRequestParams) -> CreateMessageResult:
    return CreateMessageResult(role="assistant", content=TextContent(text="hi"), model="m")


HANDLERS = Handlers(elicit=elicit, sample=sample, roots=[])


def text_of(result: ToolResult[object]) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@each_revision
async def test_client_calls_tools_of_all_workers(revision: Revision) -> None:
    async with (
        deployed() as there,
        served(there, "embedded") as url,
        open_http(f"{url}/mcp", revisions=[revision], handlers=HANDLERS) as client,
    ):
        for number in range(10):
            assert text_of(await client.call_tool("echo", {"text": str(number)})) == str(number)
        assert {0, 1, 2} == set(there.served)


@each_revision
async def test_client_requests_of_concurrent_calls_have_their_responses(revision: Revision) -> None:
    kinds = ["sample"] if revision is R2025_03_26 else ["sample", "elicit"]
    if revision.era is Era.MODERN:
        # The state of a round trip is sealed with the key of all workers.
        kinds = ["elicit", "sample"]

    async with (
        deployed() as there,
        served(there, "embedded") as url,
        open_http(f"{url}/mcp", revisions=[revision], handlers=HANDLERS) as client,
    ):

        async def call(kind: str) -> None:
            assert text_of(await client.call_tool(kind, {"name": "a"})) == {"sample": "m", "elicit": "Ada"}[kind]

        for _ in range(4):
            async with trio.open_nursery() as nursery:
                for kind in kinds * 4:
                    nursery.start_soon(call, kind)


@each_revision
async def test_client_is_notified_of_each_change(revision: Revision) -> None:
    async with (
        deployed() as there,
        served(there, "embedded") as url,
        open_http(f"{url}/mcp", revisions=[revision]) as client,
        client.listen(uris=["memo://a"]) as changes,
    ):
        for number in range(9):
            there.workers[number % 3].server.resource_updated("memo://a")
            change = await anext(changes)
            assert change.uri == "memo://a"


@pytest.mark.parametrize("revision", [R2025_03_26, R2025_06_18, R2025_11_25], ids=str)
async def test_call_cancelled_by_client_ends_at_its_worker(revision: Revision) -> None:
    async with (
        deployed() as there,
        served(there, "embedded") as url,
        open_http(f"{url}/mcp", revisions=[revision]) as client,
    ):
        for number in range(6):
            name = f"call {number}"
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.call_tool, "hold", {"name": name})
                await until_running(there, name)
                nursery.cancel_scope.cancel()
            at = there.running(name)
            with trio.fail_after(20):
                while name not in there.workers[at].controlled.cancelled:  # noqa: ASYNC110  # the handler has no event
                    await trio.sleep(0.01)


async def until_running(there: Deployment, name: str) -> None:
    with trio.fail_after(20):
        while not any(name in worker.controlled.running for worker in there.workers):  # noqa: ASYNC110  # as above
            await trio.sleep(0.01)


async def test_client_resumes_streams_that_the_server_releases() -> None:
    progress: list[float] = []

    def on_progress(value: float, total: float | None, message: str | None) -> None:  # its signature
        progress.append(value)

    async with (
        deployed(policy=EndpointPolicy(retry=0.05)) as there,
        served(there, "embedded") as url,
        open_http(f"{url}/mcp", revisions=[R2025_11_25]) as client,
    ):
        for number in range(6):
            name = f"call {number}"
            async with trio.open_nursery() as nursery:

                async def call(name: str = name) -> None:
                    result = await client.call_tool("release", {"name": name}, on_progress=on_progress)
                    assert text_of(result) == name

                nursery.start_soon(call)
                await until_running(there, name)
                there.workers[there.running(name)].controlled.let(name)
        assert progress == [1.0, 2.0] * 6


async def test_session_of_client_survives_loss_of_workers() -> None:
    async with (
        deployed() as there,
        served(there, "embedded") as url,
        open_http(f"{url}/mcp", revisions=[R2025_11_25], handlers=HANDLERS) as client,
        client.listen(uris=["memo://a"]) as changes,
    ):
        for number in range(6):
            await there.restart(number % 3)
            assert text_of(await client.call_tool("sample", {"name": "a"})) == "m"
            there.workers[(number + 1) % 3].server.resource_updated("memo://a")
            with trio.fail_after(20):
                assert (await anext(changes)).uri == "memo://a"


@pytest.mark.parametrize("revision", [R2024_11_05], ids=str)
async def test_client_over_http_sse_is_served_by_all_workers(revision: Revision) -> None:
    async with (
        deployed(legacy_sse=True) as there,
        served(there, "embedded") as url,
        open_http(f"{url}/sse", revisions=[revision], handlers=HANDLERS) as client,
        client.listen(uris=["memo://a"]) as changes,
    ):
        for number in range(6):
            assert text_of(await client.call_tool("sample", {"name": "a"})) == "m"
            there.workers[number % 3].server.resource_updated("memo://a")
            assert (await anext(changes)).uri == "memo://a"
