"""Faults that are generated from the official schemas and a recorded healthy run, not from the checks."""
