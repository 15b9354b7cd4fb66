"""The authorization checks of clients."""
