"""The peers of an implementation under test, and the settings of a run."""
