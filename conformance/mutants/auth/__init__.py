"""A protected server and an authorization server in plain Python, with their faults."""
