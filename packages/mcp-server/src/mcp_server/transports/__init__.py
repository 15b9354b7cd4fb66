"""The transports of a server: stdio, byte streams, and HTTP."""
