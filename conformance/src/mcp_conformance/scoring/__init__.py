"""The score of a run, with a baseline of expected failures."""
