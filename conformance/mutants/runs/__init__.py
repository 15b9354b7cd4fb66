"""Runs of the suite against raw servers and clients with a fault."""
