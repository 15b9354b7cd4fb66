"""OAuth as decisions, without I/O: documents, requests and the client's flow. Each module has one subject."""
