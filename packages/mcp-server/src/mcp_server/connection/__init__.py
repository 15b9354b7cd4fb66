"""One connection: its channel, the requests in progress, their queue, and requests to the client."""
