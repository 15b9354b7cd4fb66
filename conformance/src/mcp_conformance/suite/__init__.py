"""The whole suite: its checks, the requirements that they cover, and profiles."""
