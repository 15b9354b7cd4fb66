"""Both ends of a connection to the implementation under test, and the settings of a run."""
