"""The requirements of the specification, as data, and which of them have no check."""
