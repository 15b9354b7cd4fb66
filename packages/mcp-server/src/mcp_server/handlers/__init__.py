"""The calls of a server author's functions, and the objects that these functions receive."""
