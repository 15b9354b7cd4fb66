"""JSON and the types, for one revision: what a type looks like, conversion in both directions, compatibility repairs."""
