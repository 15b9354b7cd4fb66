"""Conversion between JSON and wire types for one revision, with type descriptions and compatibility repairs."""
