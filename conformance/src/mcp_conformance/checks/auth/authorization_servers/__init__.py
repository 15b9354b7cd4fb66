"""The checks of authorization servers."""
