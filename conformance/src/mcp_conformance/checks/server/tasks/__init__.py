"""The checks of servers about tasks."""
