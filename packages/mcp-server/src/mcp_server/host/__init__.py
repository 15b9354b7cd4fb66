"""The embedded HTTP/1.1 host, and what any host needs: sockets, TLS, time-outs."""
