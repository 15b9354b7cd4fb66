"""The faults of the server in plain Python, one table row each."""
