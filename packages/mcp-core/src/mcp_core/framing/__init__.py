"""Framing of messages in byte streams: newline-delimited JSON and server-sent events."""
