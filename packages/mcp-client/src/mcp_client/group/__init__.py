"""Several servers at once."""
