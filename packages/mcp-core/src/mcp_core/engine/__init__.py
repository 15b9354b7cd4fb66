"""The protocol engine: what may be said, by whom, when; and who still waits for what.

`ServerConnection` and `ClientConnection` are its two faces. Both take decoded messages (`receive`) and commands, and
return what is to be sent. Nothing is queued, nothing is hidden: what a call does is in what it returns.
"""
