"""The faults of the client in plain Python, one table row each."""
