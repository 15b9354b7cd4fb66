"""One connection: pending and inbound requests, middleware, and the interfaces that a transport implements."""
