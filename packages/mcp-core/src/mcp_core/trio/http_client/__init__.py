"""The HTTP/1.1 client: URLs, proxies, TLS, connections and the connection pool."""
