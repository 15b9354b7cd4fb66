"""Operators on clients that log in: what they send to the authorization server and to the protected server."""
