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
    message_checks.lines_arrive_unchanged,
    message_checks.lines_arrive_in_any_chunks,
    message_checks.memoryviews_are_sent,
    message_checks.long_line_arrives_whole,
    message_checks.both_ends_can_send_at_once,
    message_checks.slow_reader_slows_sender,
    message_checks.cancelled_receive_loses_no_data,
    message_checks.clients_have_separate_connections,
    closing_checks.last_data_arrives_before_end,
    closing_checks.send_to_closed_peer_fails,
    closing_checks.closed_stream_stays_closed,
    closing_checks.close_wakes_receiver,
    closing_checks.close_wakes_sender,
    closing_checks.cancelled_send_can_be_closed,
    closing_checks.server_can_close_while_client_sends,
    closing_checks.close_in_cancelled_scope_closes,
    closing_checks.closed_connections_leave_no_resources,
    conversation_checks.calls_work_in_each_revision,
    conversation_checks.call_can_be_cancelled,
    conversation_checks.server_can_send_request_during_call,
)
"""The checks for every transport."""
