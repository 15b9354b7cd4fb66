from __future__ import annotations

import random

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_client.testing import Faults, ScriptedPeer, Transcript, open_in_memory, replayed, scripted
from mcp_core.errors import ConnectionEnded, MalformedMessage, RequestTimeout
from mcp_core.jsonrpc.messages import JsonObject
from mcp_core.revisions import R2025_11_25

OK: JsonObject = {"content": [{"type": "text", "text": "ok"}]}


async def one_call(peer: ScriptedPeer) -> None:
    await peer.initialize(tools={})
    await peer.answer(await peer.receive("tools/call"), OK)


async def test_a_transcript_has_all_lines_in_their_order_and_can_be_replayed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    first, second = Transcript(), Transcript()
    async with open_in_memory(scripted(one_call), transcript=first) as client:
        expected = await client.call_tool("a")
    text = first.text()
    assert [line[:2] for line in text.splitlines()] == ["> ", "< ", "> ", "< ", "> ", "> ", "< "]
    async with open_in_memory(replayed(Transcript.of(text)), transcript=second) as client:
        assert await client.call_tool("a") == expected
    assert second.text() == text


def test_a_transcript_says_who_speaks() -> None:
    assert Transcript.of("> a\n\n< b\n").lines == [(">", b"a"), ("<", b"b")]
    with pytest.raises(ValueError, match="must start with '> ' or '< ', not 'a'"):
        Transcript.of("> a\na\n")


async def test_a_replay_ends_with_its_client(autojump_clock: trio.testing.MockClock) -> None:
    transcript = Transcript()
    async with open_in_memory(scripted(one_call), transcript=transcript) as client:
        await client.call_tool("a")
    async with open_in_memory(replayed(transcript)):
        pass


async def test_a_script_that_fails_fails_the_test(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.receive("tools/list")

    with pytest.raises(AssertionError, match=r"expected tools/list, not {.*tools/call"):
        async with open_in_memory(scripted(script)) as client:
            await client.call_tool("a")
    with pytest.raises(AssertionError, match="expected tools/list, not None"):
        async with open_in_memory(scripted(script)):
            pass


async def test_what_the_block_raises_is_raised_and_the_failure_of_the_server_noted(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        async with open_in_memory(scripted(one_call)):
            raise ZeroDivisionError
    assert caught.value.__notes__ == ["The server failed too: AssertionError('expected tools/call, not None')"]


async def test_a_server_that_does_not_end_is_ended(autojump_clock: trio.testing.MockClock) -> None:
    async def serve(stream: trio.abc.Stream) -> None:
        await ScriptedPeer(stream).initialize()  # type: ignore[arg-type]  # any stream of bytes
        await trio.sleep_forever()

    async with open_in_memory(serve):
        start = trio.current_time()
    assert trio.current_time() - start == 1


async def test_a_script_may_end_the_connection(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.aclose()

    async with open_in_memory(scripted(script)) as client:
        await client.wait_ended()


async def test_a_cut_ends_the_direction_that_it_is_in(autojump_clock: trio.testing.MockClock) -> None:
    with pytest.raises(ConnectionEnded):
        async with open_in_memory(replayed(RECORDED), to_client=Faults(cut_after=50)):
            raise AssertionError("it was never opened")
    transcript = Transcript()
    with pytest.raises(ConnectionEnded):
        async with open_in_memory(replayed(Transcript()), to_server=Faults(cut_after=50), transcript=transcript):
            raise AssertionError("it was never opened")
    assert transcript.lines == []


async def test_delays_pass_by_the_clock_of_trio(autojump_clock: trio.testing.MockClock) -> None:
    delays = iter([1.0, 2.0, 4.0, 0.0, 0.0, 0.0])
    async with open_in_memory(scripted(one_call), to_client=Faults(delay=lambda: next(delays))) as client:
        await client.call_tool("a")
    assert trio.current_time() == 1 + 2 + 4


async def test_a_function_spoils_what_it_likes(autojump_clock: trio.testing.MockClock) -> None:
    def drop_answers(data: bytes) -> bytes:
        return b"\n" if b"content" in data else data

    async with open_in_memory(scripted(one_call), to_client=Faults(corrupt=drop_answers)) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("a")


async def test_one_byte_is_spoilt_where_it_is_wanted(autojump_clock: trio.testing.MockClock) -> None:
    said = b"".join(line + b"\n" for direction, line in RECORDED.lines if direction == "<")
    place = len(said) - 10
    heard = Transcript()
    async with open_in_memory(
        replayed(RECORDED), transcript=heard, to_client=Faults(corrupt=place, split=60), revisions=[R2025_11_25]
    ) as client:
        with pytest.raises(MalformedMessage):
            await client.call_tool("a")
    other = b"".join(line + b"\n" for direction, line in heard.lines if direction == "<")
    assert len(other) == len(said)
    assert [index for index in range(len(said)) if said[index] != other[index]] == [place]
    assert other[place] == said[place] ^ 0xFF


@pytest.mark.property
@settings(max_examples=25)
@given(seed=st.integers(0, 1000), cut=st.none() | st.integers(0, 700), both=st.booleans())
def test_random_pieces_and_cuts_leave_nobody_waiting(seed: int, cut: int | None, both: bool) -> None:
    outcomes: list[str] = []

    async def main() -> None:
        generator = random.Random(seed)
        faults = Faults(split=generator, cut_after=cut, delay=generator.random)
        to_server = faults if both else Faults()
        try:
            async with open_in_memory(
                replayed(RECORDED), to_client=faults, to_server=to_server, revisions=[R2025_11_25]
            ) as client:
                await client.call_tool("a")
                outcomes.append("answer")
        except ConnectionEnded:
            outcomes.append("lost")

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert outcomes == ["answer"] if cut is None else len(outcomes) == 1


RECORDED = Transcript.of(
    """\
> {"jsonrpc":"2.0","id":1,"method":"initialize"}
< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
> {"jsonrpc":"2.0","id":2,"method":"tools/call"}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}
< {"jsonrpc":"2.0","id":2,"result":{"content":[]}}
"""
)
