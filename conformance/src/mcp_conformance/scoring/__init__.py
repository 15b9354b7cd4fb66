"""What the verdicts of a run amount to, with a baseline of expected failures."""
