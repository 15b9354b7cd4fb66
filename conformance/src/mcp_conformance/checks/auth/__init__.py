"""The checks of authorization: clients, resource servers and authorization servers."""
