"""Recordings of conversations with a server: made by a proxy, and replayed in place of the server.

A recording is a file of JSON lines in UTF-8. The first line is the header, `{"mcpRecording": 1}`. Each further line is a
message in the order of the conversation, with its sender: `{"from": "client", "message": {...}}` or
`{"from": "server", "message": {...}}`. A message is a JSON-RPC message, or an array of them: a batch of 2025-03-26.

`Recorder` writes a recording, `read_recording` reads one, and `Replay` acts as the recorded server. On the command line:
`mcp-client record` and `mcp-client replay`.
"""

from __future__ import annotations

from mcp_client.recording.format import InvalidRecording, Recorder, Recording, read_recording
from mcp_client.recording.replay import Replay
from mcp_client.recording.stream import record_stream

__all__ = ["InvalidRecording", "Recorder", "Recording", "Replay", "read_recording", "record_stream"]
