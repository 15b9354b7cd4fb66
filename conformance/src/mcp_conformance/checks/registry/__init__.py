"""The registries of the checks of both sides."""
