"""Drives a server under test: targets, connections and the peers of each transport."""
