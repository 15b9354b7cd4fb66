"""Python types as JSON Schemas: a schema, and values that are checked and converted with it."""
