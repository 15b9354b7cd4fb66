"""A run, told to people and to programs."""
