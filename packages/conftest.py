from __future__ import annotations

import os

from hypothesis import settings

# Programs that tests start must not use the keyring of the user who runs the tests.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"

# The profile of `nox -s fuzz`: new examples in each run, many of them, and long runs of the state machines.
settings.register_profile("deep", max_examples=5_000, stateful_step_count=200, deadline=None, print_blob=True)
