"""JSON-RPC 2.0: message classes, encoding and decoding, and batches."""
