"""Runs the checks of servers, clients and authorization servers."""
