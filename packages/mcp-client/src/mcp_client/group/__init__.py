"""Groups of clients: connections to several servers at once."""
