"""The form of MCP messages: schemas, header parameters and responses."""
