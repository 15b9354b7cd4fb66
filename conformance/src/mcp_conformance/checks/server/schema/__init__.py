"""The checks of servers that validate messages against the schema."""
