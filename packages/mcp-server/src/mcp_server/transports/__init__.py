"""The transports: stdio, byte streams, and HTTP."""
