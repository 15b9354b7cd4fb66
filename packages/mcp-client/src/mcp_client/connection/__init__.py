"""One connection: pending requests, middleware, the server's requests; and the protocols that a transport implements."""
