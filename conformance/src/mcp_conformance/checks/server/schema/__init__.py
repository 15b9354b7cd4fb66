"""The checks of servers that hold messages against the schema."""
