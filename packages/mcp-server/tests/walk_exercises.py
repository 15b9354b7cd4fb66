"""An exercise for each definition and each side that can send it.

An exercise makes one side send the message in the way an application would, and checks an effect on the peer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio
from walk_connections import Party
from walk_server import DEFINITIONS, AnyDefinition

from mcp_client.skills import get_skill, list_skills, read_directory
from mcp_core import methods as m
from mcp_core import types as t
from mcp_core.methods import Side

__all__ = ["EXERCISES", "is_sent"]

Exercise: TypeAlias = Callable[[Party], Awaitable[None]]

URI: Final = "walk://text"


def is_sent(definition: AnyDefinition, sender: Side, party: Party) -> bool:
    """Return whether the message is sent. Over HTTP, a modern side closes the stream instead of a cancellation."""
    spec = party.spec
    closes = spec.revision.disconnect_cancels and spec.over_http
    return not (definition is m.NOTIFICATIONS_CANCELLED and closes)


# --- from the client -------------------------------------------------------------------------------------------------


async def initialize(party: Party) -> None:
    assert party.client.server_info == t.Implementation(name="walk", version="0")
    assert party.client.instructions == "Walk."


async def initialized(party: Party) -> None:
    assert party.client.capabilities.tools is not None


async def discover(party: Party) -> None:
    result = await party.client.fresh().request(m.SERVER_DISCOVER, t.DiscoverRequestParams())
    assert party.spec.revision.name in result.supported_versions


async def ping(party: Party) -> None:
    await party.client.ping()


async def list_tools(party: Party) -> None:
    names = [tool.name for tool in await party.client.fresh().list_tools()]
    assert names == ["do", "echo", "reports", "hang", "cancels", "work", "elicits"]


async def call_tool(party: Party) -> None:
    (block,) = (await party.client.call_tool("echo", {"text": "hello"})).content
    assert block == t.TextContent(text="hello")


async def list_resources(party: Party) -> None:
    assert URI in [resource.uri for resource in await party.client.fresh().list_resources()]


async def list_templates(party: Party) -> None:
    templates = await party.client.fresh().list_resource_templates()
    assert "walk://page/{number}" in [template.uri_template for template in templates]


async def read_resource(party: Party) -> None:
    (contents,) = (await party.client.read_resource("walk://page/7")).contents
    assert isinstance(contents, t.TextResourceContents)
    assert contents.text == "7"


async def listen_to_resource(party: Party) -> None:
    async with party.client.listen(uris=[URI]) as changes:
        await party.call("change", target=URI)
        assert (await anext(changes)).uri == URI
    # The subscription has ended.
    await party.call("change", target=URI)
    assert [line for line in party.received if "updated" in line] == [
        "notifications/resources/updated NotificationReceived"
    ]


async def listen_to_lists(party: Party) -> None:
    async with party.client.listen(tools=True, prompts=True, resources=True) as changes:
        assert changes.granted.tools_list_changed
        for target in ("tools", "prompts", "resources"):
            await party.call("change", target=target)
            assert (await anext(changes)).kind.value == target


async def list_prompts(party: Party) -> None:
    assert [prompt.name for prompt in await party.client.fresh().list_prompts()] == ["poem"]


async def get_prompt(party: Party) -> None:
    (message,) = (await party.client.get_prompt("poem", {"of": "rain"})).messages
    assert message.content == t.TextContent(text="About rain.")


async def complete(party: Party) -> None:
    assert (await party.client.complete(t.PromptReference(name="poem"), "of", "ra")).values == ("rain",)


async def set_level(party: Party) -> None:
    await party.client.set_log_level("critical")
    await party.client.call_tool("reports")
    assert m.NOTIFICATIONS_MESSAGE not in party.notifications
    await party.client.set_log_level("info")


async def get_task(party: Party) -> None:
    task = await party.client.start_task("work")
    assert await task.refresh() == "working"
    await party.call("release_work")
    assert (await task.wait()).content == (t.TextContent(text="worked"),)
    assert task.status == "completed"


async def list_tasks(party: Party) -> None:
    task = await party.client.start_task("work")
    listed = await party.client.request(m.TASKS_LIST, t.ListTasksRequestParams())
    assert task.id in {each.task_id for each in listed.tasks}
    await task.cancel()


async def cancel_task(party: Party) -> None:
    task = await party.client.start_task("work")
    await task.cancel()
    assert await task.refresh() == "cancelled"


async def update_task(party: Party) -> None:
    task = await party.client.start_task("elicits")
    assert (await task.wait()).content == (t.TextContent(text="accept"),)


async def skills_list(party: Party) -> None:
    assert [skill.uri for skill in await list_skills(party.client.fresh())] == ["skill://tidy/SKILL.md"]


async def skills_get(party: Party) -> None:
    skill = await get_skill(party.client.fresh(), "skill://tidy/SKILL.md")
    assert skill.frontmatter["description"] == "About order."


async def directory_read(party: Party) -> None:
    assert [file.uri for file in await read_directory(party.client, "skill://tidy")] == ["skill://tidy/SKILL.md"]


async def cancel(party: Party) -> None:
    with anyio.CancelScope() as scope:
        await party.client.call_tool("hang", on_progress=lambda *_: scope.cancel())
    assert scope.cancelled_caught
    assert await party.call("until_cancelled")


async def progress_of_client(party: Party) -> None:
    assert await party.call("request_with_progress") == "ListRootsResult"


async def roots_changed(party: Party) -> None:
    await party.client.roots_changed()


async def task_of_client(party: Party) -> None:
    assert await party.call_by_tool("ask", target="task") == "accept"


# --- from the server -------------------------------------------------------------------------------------------------


def client_request_exercise(definition: AnyDefinition, *forms: tuple[str, str]) -> Exercise:
    """Return an exercise for a client request in its plain form and in others, with their results."""

    async def exercise(party: Party) -> None:
        plain = await party.call_by_tool("attempt", index=DEFINITIONS.index(definition), raw=False)
        assert plain == getattr(definition, "result").__name__  # noqa: B009  # of a method
        for form, answer in forms:
            if _has_form(form, party):
                assert await party.call_by_tool("ask", target=form) == answer

    return exercise


def _has_form(form: str, party: Party) -> bool:
    """Return whether a revision has a form: URL mode and tools since the revision with tasks, tasks only there."""
    revision = party.spec.revision
    return revision.core_tasks or (revision.result_type and form != "task")


def client_task(definition: AnyDefinition) -> Exercise:
    async def exercise(party: Party) -> None:
        assert await party.call_by_tool("client_task", index=DEFINITIONS.index(definition)) is True
        if definition is m.TASKS_CANCEL:
            await party.client_cancelled.acquire()

    return exercise


async def cancel_of_server(party: Party) -> None:
    revision = party.spec.revision
    if revision.server_requests:
        (block,) = (await party.client.call_tool("cancels")).content
        assert block == t.TextContent(text="gave up")
        await party.client_cancelled.acquire()
    elif not party.spec.over_http:
        async with party.client.listen(tools=True) as changes:
            await party.call("end_subscriptions")
            assert [change async for change in changes] == []
        # The notification may arrive after the end of the subscription, but not after a later response.
        await call_tool(party)


async def progress(party: Party) -> None:
    progress_values: list[float] = []
    await party.client.call_tool(
        "reports", on_progress=lambda progress, _total, _message: progress_values.append(progress)
    )
    assert progress_values == [1]


async def message(party: Party) -> None:
    await party.client.call_tool("reports")
    assert party.notifications == [m.NOTIFICATIONS_MESSAGE]


async def complete_elicitation(party: Party) -> None:
    assert (
        await party.call("attempt", index=DEFINITIONS.index(m.NOTIFICATIONS_ELICITATION_COMPLETE), raw=False) == "sent"
    )
    assert party.notifications == [m.NOTIFICATIONS_ELICITATION_COMPLETE]


async def task_status(party: Party) -> None:
    task = await party.client.start_task("work")
    await party.call("release_work")
    await task.wait()
    while m.NOTIFICATIONS_TASKS_STATUS not in party.notifications:
        await party.call("echo")


async def task_notification(party: Party) -> None:
    task = await party.client.start_task("work")
    async with anyio.create_task_group() as group:
        group.start_soon(task.wait)
        while m.NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED not in party.notifications:
            await party.call("echo")
        await party.call("release_work")
    while m.NOTIFICATIONS_TASKS not in party.notifications:
        await party.call("echo")


EXERCISES: Final[dict[tuple[AnyDefinition, Side], Exercise]] = {
    (m.INITIALIZE, Side.CLIENT): initialize,
    (m.PING, Side.CLIENT): ping,
    (m.PING, Side.SERVER): client_request_exercise(m.PING),
    (m.SERVER_DISCOVER, Side.CLIENT): discover,
    (m.TOOLS_LIST, Side.CLIENT): list_tools,
    (m.TOOLS_CALL, Side.CLIENT): call_tool,
    (m.RESOURCES_LIST, Side.CLIENT): list_resources,
    (m.RESOURCES_TEMPLATES_LIST, Side.CLIENT): list_templates,
    (m.RESOURCES_READ, Side.CLIENT): read_resource,
    (m.RESOURCES_SUBSCRIBE, Side.CLIENT): listen_to_resource,
    (m.RESOURCES_UNSUBSCRIBE, Side.CLIENT): listen_to_resource,
    (m.PROMPTS_LIST, Side.CLIENT): list_prompts,
    (m.PROMPTS_GET, Side.CLIENT): get_prompt,
    (m.COMPLETION_COMPLETE, Side.CLIENT): complete,
    (m.LOGGING_SET_LEVEL, Side.CLIENT): set_level,
    (m.SUBSCRIPTIONS_LISTEN, Side.CLIENT): listen_to_lists,
    (m.ROOTS_LIST, Side.SERVER): client_request_exercise(m.ROOTS_LIST),
    (m.SAMPLING_CREATE_MESSAGE, Side.SERVER): client_request_exercise(m.SAMPLING_CREATE_MESSAGE, ("tools", "dice")),
    (m.ELICITATION_CREATE, Side.SERVER): client_request_exercise(
        m.ELICITATION_CREATE, ("page", "accept"), ("task", "accept")
    ),
    (m.TASKS_GET, Side.CLIENT): get_task,
    (m.TASKS_GET, Side.SERVER): client_task(m.TASKS_GET),
    (m.TASKS_RESULT, Side.CLIENT): get_task,
    (m.TASKS_RESULT, Side.SERVER): client_task(m.TASKS_RESULT),
    (m.TASKS_LIST, Side.CLIENT): list_tasks,
    (m.TASKS_LIST, Side.SERVER): client_task(m.TASKS_LIST),
    (m.TASKS_CANCEL, Side.CLIENT): cancel_task,
    (m.TASKS_CANCEL, Side.SERVER): client_task(m.TASKS_CANCEL),
    (m.EXTENSION_TASKS_GET, Side.CLIENT): get_task,
    (m.EXTENSION_TASKS_UPDATE, Side.CLIENT): update_task,
    (m.EXTENSION_TASKS_CANCEL, Side.CLIENT): cancel_task,
    (m.SKILLS_LIST, Side.CLIENT): skills_list,
    (m.SKILLS_GET, Side.CLIENT): skills_get,
    (m.RESOURCES_DIRECTORY_READ, Side.CLIENT): directory_read,
    (m.NOTIFICATIONS_INITIALIZED, Side.CLIENT): initialized,
    (m.NOTIFICATIONS_CANCELLED, Side.CLIENT): cancel,
    (m.NOTIFICATIONS_CANCELLED, Side.SERVER): cancel_of_server,
    (m.NOTIFICATIONS_PROGRESS, Side.CLIENT): progress_of_client,
    (m.NOTIFICATIONS_PROGRESS, Side.SERVER): progress,
    (m.NOTIFICATIONS_MESSAGE, Side.SERVER): message,
    (m.NOTIFICATIONS_TOOLS_LIST_CHANGED, Side.SERVER): listen_to_lists,
    (m.NOTIFICATIONS_PROMPTS_LIST_CHANGED, Side.SERVER): listen_to_lists,
    (m.NOTIFICATIONS_RESOURCES_LIST_CHANGED, Side.SERVER): listen_to_lists,
    (m.NOTIFICATIONS_RESOURCES_UPDATED, Side.SERVER): listen_to_resource,
    (m.NOTIFICATIONS_SUBSCRIPTIONS_ACKNOWLEDGED, Side.SERVER): listen_to_lists,
    (m.NOTIFICATIONS_ROOTS_LIST_CHANGED, Side.CLIENT): roots_changed,
    (m.NOTIFICATIONS_ELICITATION_COMPLETE, Side.SERVER): complete_elicitation,
    (m.NOTIFICATIONS_TASKS_STATUS, Side.CLIENT): task_of_client,
    (m.NOTIFICATIONS_TASKS_STATUS, Side.SERVER): task_status,
    (m.NOTIFICATIONS_TASKS, Side.SERVER): task_notification,
}
"""The exercises by definition and sender."""
