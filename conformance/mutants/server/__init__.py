"""A correct server in plain Python, to which faults are added."""
