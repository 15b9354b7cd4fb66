"""The contract of transports, as checks for any implementation that carries MCP over another medium.

    @asynccontextmanager
    async def open_transport(serve_client: ServeClient) -> AsyncIterator[Connect]:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_somewhere, serve_client)
            yield connect_to_it
            nursery.cancel_scope.cancel()

    @pytest.mark.parametrize("check", TRANSPORT_CHECKS, ids=lambda check: check.__name__)
    async def test_the_transport_keeps_the_contract(check: TransportCheck) -> None:
        await check(open_transport)

A transport has two ends: byte streams, one for `mcp_client.open_stream` and one for `mcp_server.serve_stream`. The data
is lines of JSON in UTF-8. A transport that carries messages may therefore wait for the end of a line, and send each
line in a message of its own. A check serves, connects any number of times, and raises `AssertionError` with a sentence
if the transport breaks a rule. The checks contain their own server.

With real sockets the checks need real time; use `autojump_clock` only for transports in memory.
"""

from __future__ import annotations

from typing import Final

from mcp_client.testing import closing_checks, conversation_checks, message_checks
from mcp_client.testing.transport_checks import Connect, OpenTransport, ServeClient, ServedStream, TransportCheck

__all__ = [
    "TRANSPORT_CHECKS",
    "Connect",
    "OpenTransport",
    "ServeClient",
    "ServedStream",
    "TransportCheck",
]

TRANSPORT_CHECKS: Final[tuple[TransportCheck, ...]] = (
    message_checks.lines_come_as_they_were_sent,
    message_checks.it_does_not_matter_how_lines_are_cut,
    message_checks.views_of_memory_are_sent,
    message_checks.a_long_line_comes_whole,
    message_checks.both_ends_may_talk_at_once,
    message_checks.a_slow_reader_slows_the_sender,
    message_checks.a_cancelled_receive_loses_nothing,
    message_checks.clients_are_apart,
    closing_checks.what_was_said_last_arrives_and_then_the_end,
    closing_checks.sending_to_a_closed_peer_fails,
    closing_checks.a_closed_end_stays_closed,
    closing_checks.closing_wakes_who_receives,
    closing_checks.closing_wakes_who_sends,
    closing_checks.a_cancelled_send_can_be_closed,
    closing_checks.the_server_may_go_while_the_client_sends,
    closing_checks.closing_in_a_cancelled_scope_closes,
    closing_checks.nothing_is_left_behind,
    conversation_checks.a_conversation_goes_well_in_each_revision,
    conversation_checks.a_call_can_be_cancelled,
    conversation_checks.the_server_may_ask_in_the_middle_of_a_call,
)
"""The checks for every transport."""
