from __future__ import annotations

import os

from hypothesis import settings

# Whoever runs the tests has a keyring, perhaps, and it is not to be asked by any program that they start.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"

# For `nox -s fuzz`: new examples in each run, many of them, and long runs of the state machines.
settings.register_profile("deep", max_examples=5_000, stateful_step_count=200, deadline=None, print_blob=True)
