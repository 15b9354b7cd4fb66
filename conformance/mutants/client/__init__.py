"""A correct client in plain Python, to which faults are added."""
