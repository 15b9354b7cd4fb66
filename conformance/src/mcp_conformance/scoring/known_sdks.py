"""The known failures of released SDKs: a server or client that is built on one has them too.

Each file `known_sdks/ROLE/NAME@VERSION.toml` is a baseline: the failures of a small program on the SDK, all of them
confirmed. `nox -s peers -- --record` writes the files from runs of the suite. A program may avoid a failure of its SDK;
therefore all entries are `flaky`.

An SDK is stated with `--sdk`, or recognized by its behavior: by the failures that the run and the table have in common,
as a part of all failures of the run and of all entries of the table that it tested.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

import attrs

from mcp_conformance.model.verdict import Outcome
from mcp_conformance.scoring.baseline import Baseline, parse_baseline
from mcp_core.errors import InvalidValue

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from mcp_conformance.model.check import Role
    from mcp_conformance.model.verdict import Run, Verdict
    from mcp_conformance.scoring.baseline import ExpectedFailure

__all__ = ["KnownSdk", "known_sdk", "recognized", "sdk_names"]

_LEAST_CHECKS: Final = 4
"""Minimum number of different failed checks by which an SDK is recognized."""
_LEAST_SIMILARITY: Final = 0.6
"""Minimum similarity (Dice coefficient) of the failures of a run and of an SDK."""


@attrs.frozen(kw_only=True)
class KnownSdk:
    """A released version of an SDK with known failures."""

    name: str
    """Name and version: `typescript@1.32.2`."""
    baseline: Baseline
    """The known failures."""

    def find(self, verdict: Verdict) -> ExpectedFailure | None:
        """Return the known failure of the SDK that a failed verdict shows; `None` without one."""
        if verdict.outcome is not Outcome.FAILED:
            return None
        return next((entry for entry in self.baseline.known if entry.covers(verdict)), None)


def _folder(role: Role) -> Traversable:
    return resources.files(__package__ or "").joinpath("known_sdks", role.value)


@cache
def sdk_names(role: Role) -> tuple[str, ...]:
    """Return the names and versions of the SDKs with known failures in a role."""
    suffix = ".toml"
    return tuple(
        sorted(each.name.removesuffix(suffix) for each in _folder(role).iterdir() if each.name.endswith(suffix))
    )


@cache
def known_sdk(name: str, role: Role) -> KnownSdk:
    """Return an SDK by name and version, with its failures in a role.

    Raises:
        InvalidValue: Its failures are not known.
    """
    if name not in sdk_names(role):
        raise InvalidValue(f"there is no SDK {name!r}; available: {', '.join(sdk_names(role))}", path="--sdk")
    text = _folder(role).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return KnownSdk(name=name, baseline=parse_baseline(tomllib.loads(text), f"known_sdks/{role.value}/{name}.toml"))


def recognized(run: Run) -> KnownSdk | None:
    """Return the SDK whose failures a run has; `None` when no SDK is similar enough."""
    found = [(_similarity(run, known_sdk(name, run.role)), name) for name in sdk_names(run.role)]
    similarity, name = max(found, default=(0.0, ""))
    return known_sdk(name, run.role) if similarity >= _LEAST_SIMILARITY else None


def _similarity(run: Run, sdk: KnownSdk) -> float:
    """Return the Dice coefficient of the failures of a run and of an SDK, as far as the run tested them; from 0 to 1."""
    failed = [verdict for verdict in run.verdicts if verdict.outcome is Outcome.FAILED]
    shared = [verdict for verdict in failed if sdk.find(verdict) is not None]
    if len({verdict.check for verdict in shared}) < _LEAST_CHECKS:
        return 0.0
    passed = [verdict for verdict in run.verdicts if verdict.outcome is Outcome.PASSED]
    missing = [verdict for verdict in passed if any(entry.covers(verdict) for entry in sdk.baseline.known)]
    return 2 * len(shared) / (len(failed) + len(shared) + len(missing))
