"""Puts raw servers and clients with a fault to the test."""
