from __future__ import annotations

from hypothesis import settings

# For `nox -s fuzz`: new examples in each run, many of them, and long runs of the state machines.
settings.register_profile("deep", max_examples=5_000, stateful_step_count=200, deadline=None, print_blob=True)
