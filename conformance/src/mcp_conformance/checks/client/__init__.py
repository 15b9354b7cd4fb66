"""The checks of clients, one module for each subject."""
