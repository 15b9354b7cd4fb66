"""HTTP as decisions, without sockets: admission of requests, contents of responses, and the next step of a client."""
