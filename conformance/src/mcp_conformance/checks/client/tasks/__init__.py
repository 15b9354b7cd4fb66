"""The checks of clients about tasks."""
