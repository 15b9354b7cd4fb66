"""The runners of the checks of servers, clients and authorization servers."""
