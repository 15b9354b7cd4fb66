"""The suite as a whole: all its checks, the requirements that they cover, and profiles."""
