"""Stores in an SQLite file."""
