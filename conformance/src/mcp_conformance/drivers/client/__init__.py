"""Drives a client under test: the fake server and its hosts, one for each transport."""
