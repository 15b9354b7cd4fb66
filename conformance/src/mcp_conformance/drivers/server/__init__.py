"""The suite as a client of a server under test: targets, and a connection type for each transport."""
