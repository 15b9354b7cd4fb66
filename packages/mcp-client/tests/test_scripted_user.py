from __future__ import annotations

from dataclasses import dataclass

import pytest

from mcp_client import ElicitationDeclined, ToolFailed
from mcp_client.testing import ConnectFixture, ScriptedUser
from mcp_core.errors import McpError
from mcp_core.revisions import R2025_06_18, R2025_11_25, R2026_07_28, REVISIONS, Revision
from mcp_core.types import CreateMessageResult, SamplingMessage, TextContent
from mcp_server import Context, ElicitationAccepted, Server

server = Server("inn", version="1.0")


@dataclass
class Stay:
    """A stay."""

    nights: int


@server.tool
async def book(*, context: Context) -> str:
    """Return the length of the stay."""
    answer = await context.elicit(Stay, "How long do you stay?")
    return f"{answer.value.nights} nights" if isinstance(answer, ElicitationAccepted) else "no stay"


@server.tool
async def pay(*, context: Context) -> str:
    """Return the outcome of the payment."""
    answer = await context.elicit_url("https://inn.example/pay", "Please pay")
    return type(answer).__name__


@server.tool
async def praise(*, context: Context) -> str:
    """Return the praise of a model."""
    message = SamplingMessage(role="user", content=TextContent(text="Praise the inn"))
    answer = await context.sample([message], max_tokens=10)
    assert isinstance(answer.content, TextContent)
    return answer.content.text


FORMS = (R2025_06_18, R2025_11_25, R2026_07_28)
"""The revisions with elicitation."""
with_forms = pytest.mark.parametrize("revision", FORMS, ids=str)
with_pages = pytest.mark.parametrize("revision", FORMS[1:], ids=str)


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
async def test_sampling_answered_in_order(
    revision: Revision, connect: ConnectFixture, scripted_user: ScriptedUser
) -> None:
    scripted_user.expect_sampling("Praise the inn", "Lovely")
    scripted_user.expect_sampling(
        "Praise the inn", CreateMessageResult(role="assistant", content=TextContent(text="Grand"), model="m")
    )
    client = await connect(server, revision=revision, handlers=scripted_user.handlers)
    assert (await client.call_tool("praise")).text == "Lovely"
    assert (await client.call_tool("praise")).text == "Grand"


@with_forms
async def test_form_answered_or_declined(
    revision: Revision, connect: ConnectFixture, scripted_user: ScriptedUser
) -> None:
    scripted_user.expect_form("How long do you stay?", {"nights": 3})
    scripted_user.expect_form("How long do you stay?", ElicitationDeclined())
    client = await connect(server, revision=revision, handlers=scripted_user.handlers)
    assert (await client.call_tool("book")).text == "3 nights"
    assert (await client.call_tool("book")).text == "no stay"


@with_pages
async def test_page_accepted_or_declined(
    revision: Revision, connect: ConnectFixture, scripted_user: ScriptedUser
) -> None:
    scripted_user.expect_page("Please pay", "https://inn.example/pay")
    scripted_user.expect_page("Please pay", "https://inn.example/pay", ElicitationDeclined())
    client = await connect(server, revision=revision, handlers=scripted_user.handlers)
    assert (await client.call_tool("pay")).text == "ElicitationAccepted"
    assert (await client.call_tool("pay")).text == "ElicitationDeclined"


@with_forms
async def test_unexpected_request_named(revision: Revision, connect: ConnectFixture) -> None:
    user = ScriptedUser()
    user.expect_form("How many guests?", {"nights": 3})
    client = await connect(server, revision=revision, handlers=user.handlers)
    with pytest.raises((McpError, ToolFailed, AssertionError)):
        await client.call_tool("book")
    message = "unexpected client request 1: a form: 'How long do you stay.'; expected a form: 'How many guests.'"
    with pytest.raises(AssertionError, match=message):
        user.check()


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=str)
async def test_request_after_last_expected_one_fails(revision: Revision, connect: ConnectFixture) -> None:
    user = ScriptedUser()
    client = await connect(server, revision=revision, handlers=user.handlers)
    with pytest.raises((McpError, ToolFailed, AssertionError)):
        await client.call_tool("praise")
    with pytest.raises(AssertionError, match="sampling: 'Praise the inn'; no further request is expected"):
        user.check()


def test_missing_requests_listed() -> None:
    user = ScriptedUser()
    user.expect_form("A", {})
    user.expect_page("B", "https://b")
    with pytest.raises(
        AssertionError, match="did not send 2 of 2 requests:\n  a form: 'A'\n  a page at https://b: 'B'"
    ):
        user.check()


@pytest.mark.parametrize("failure", [AssertionError, ZeroDivisionError])
def test_block_with_missing_request_raises_its_own_failure_first(failure: type[Exception]) -> None:
    def block() -> None:
        with ScriptedUser() as user:
            user.expect_form("A", {})
            if failure is ZeroDivisionError:
                raise ZeroDivisionError

    with pytest.raises(failure):
        block()
