"""The checks of servers, one module per subject."""
