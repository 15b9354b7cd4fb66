"""Checks, verdicts and the fixtures manifest: the data that all parts of the suite share."""
