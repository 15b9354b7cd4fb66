"""The reports of a run, for readers and for programs."""
