"""Bytes and frames: newline-delimited JSON and server-sent events."""
