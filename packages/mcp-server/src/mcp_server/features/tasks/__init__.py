"""Tasks: tool calls whose result is fetched later."""
