"""The requirements of the specification as data, and the reasons for those without a check."""
