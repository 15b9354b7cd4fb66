"""The checks of clients, one module per subject."""
