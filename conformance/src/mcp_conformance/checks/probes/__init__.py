"""Requests and readings that the checks of servers share."""
