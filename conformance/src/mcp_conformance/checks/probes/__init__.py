"""Requests and evaluations that several checks of servers use."""
