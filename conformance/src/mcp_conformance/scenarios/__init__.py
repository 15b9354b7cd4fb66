"""Scenarios that clients under test run through, and the evidence that each leaves."""
