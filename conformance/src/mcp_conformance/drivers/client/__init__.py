"""The fake server for a client under test, with a host for each transport."""
