"""Checks of authorization servers."""
