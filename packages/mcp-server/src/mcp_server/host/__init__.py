"""The embedded HTTP/1.1 host, and the parts that every host uses: sockets, TLS, timeouts, and limits on open files."""
