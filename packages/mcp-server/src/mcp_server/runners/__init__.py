"""Run a server over stdio, a stream or HTTP, until it is cancelled."""
