"""Scenarios for clients under test, and the evidence of each run."""
