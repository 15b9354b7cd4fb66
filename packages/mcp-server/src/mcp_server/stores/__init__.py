"""What survives a connection: sessions of Streamable HTTP, and tasks."""
