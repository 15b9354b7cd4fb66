"""Stores of the data that outlives a connection: sessions of Streamable HTTP, and tasks."""
