"""OAuth as pure decisions: documents, requests and the client's flow. Each module has one subject; see its docstring."""
