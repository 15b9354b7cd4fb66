"""What MCP messages have to look like: schemas, header parameters and responses."""
