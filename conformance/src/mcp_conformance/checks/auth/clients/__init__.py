"""Authorization checks of clients."""
