"""Protocol engine: lifecycle, negotiation, capabilities, and requests in flight, for client and server.

`ServerConnection` and `ClientConnection` are its public classes. Both accept decoded messages (`receive`) and commands,
and return the messages to send. The engine does not queue messages and does no I/O.
"""
