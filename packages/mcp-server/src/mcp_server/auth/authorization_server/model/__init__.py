"""Stored data and shared types of the authorization server: settings, tables, records, messages."""
