"""What the authorization server stores and what all of its parts share: settings, tables, records, messages."""
