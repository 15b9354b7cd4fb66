"""The comparison of two implementations: what they do in the same conversations, and what decides a difference."""
