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


async def test_transcript_has_lines_in_order_and_replays(
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


def test_transcript_lines_have_direction() -> None:
    assert Transcript.of("> a\n\n< b\n").lines == [(">", b"a"), ("<", b"b")]
    with pytest.raises(ValueError, match="must start with '> ' or '< ', not 'a'"):
        Transcript.of("> a\na\n")


async def test_replay_ends_with_client(autojump_clock: trio.testing.MockClock) -> None:
    transcript = Transcript()
    async with open_in_memory(scripted(one_call), transcript=transcript) as client:
        await client.call_tool("a")
    async with open_in_memory(replayed(transcript)):
        pass


async def test_script_failure_raises(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.receive("tools/list")

    with pytest.raises(AssertionError, match=r"expected tools/list, not {.*tools/call"):
        async with open_in_memory(scripted(script)) as client:
            await client.call_tool("a")
    with pytest.raises(AssertionError, match="expected tools/list, not None"):
        async with open_in_memory(scripted(script)):
            pass


async def test_exception_of_block_raised_with_note_on_server_failure(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        async with open_in_memory(scripted(one_call)):
            raise ZeroDivisionError
    assert caught.value.__notes__ == ["The server failed too: AssertionError('expected tools/call, not None')"]


async def test_server_not_ending_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    async def serve(stream: trio.abc.Stream) -> None:
        await ScriptedPeer(stream).initialize()  # type: ignore[arg-type]  # the peer accepts any stream of bytes
        await trio.sleep_forever()

    async with open_in_memory(serve):
        start = trio.current_time()
    assert trio.current_time() - start == 1


async def test_script_closes_connection(autojump_clock: trio.testing.MockClock) -> None:
    async def script(peer: ScriptedPeer) -> None:
        await peer.initialize(tools={})
        await peer.aclose()

    async with open_in_memory(scripted(script)) as client:
        await client.wait_ended()


async def test_cut_ends_its_direction(autojump_clock: trio.testing.MockClock) -> None:
    with pytest.raises(ConnectionEnded):
        async with open_in_memory(replayed(RECORDED), to_client=Faults(cut_after=50)):
            raise AssertionError("the connection was opened")
    transcript = Transcript()
    with pytest.raises(ConnectionEnded):
        async with open_in_memory(replayed(Transcript()), to_server=Faults(cut_after=50), transcript=transcript):
            raise AssertionError("the connection was opened")
    assert transcript.lines == []


async def test_delays_use_trio_clock(autojump_clock: trio.testing.MockClock) -> None:
    delays = iter([1.0, 2.0, 4.0, 0.0, 0.0, 0.0])
    async with open_in_memory(scripted(one_call), to_client=Faults(delay=lambda: next(delays))) as client:
        await client.call_tool("a")
    assert trio.current_time() == 1 + 2 + 4


async def test_corrupt_function_changes_data(autojump_clock: trio.testing.MockClock) -> None:
    def drop_results(data: bytes) -> bytes:
        return b"\n" if b"content" in data else data

    async with open_in_memory(scripted(one_call), to_client=Faults(corrupt=drop_results)) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("a")


async def test_corrupt_offset_changes_one_byte(autojump_clock: trio.testing.MockClock) -> None:
    sent = b"".join(line + b"\n" for direction, line in RECORDED.lines if direction == "<")
    offset = len(sent) - 10
    transcript = Transcript()
    async with open_in_memory(
        replayed(RECORDED), transcript=transcript, to_client=Faults(corrupt=offset, split=60), revisions=[R2025_11_25]
    ) as client:
        with pytest.raises(MalformedMessage):
            await client.call_tool("a")
    received = b"".join(line + b"\n" for direction, line in transcript.lines if direction == "<")
    assert len(received) == len(sent)
    assert [index for index in range(len(sent)) if sent[index] != received[index]] == [offset]
    assert received[offset] == sent[offset] ^ 0xFF


@pytest.mark.property
@settings(max_examples=25)
@given(seed=st.integers(0, 1000), cut=st.none() | st.integers(0, 700), both=st.booleans())
def test_random_faults_call_ends(seed: int, cut: int | None, both: bool) -> None:
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
