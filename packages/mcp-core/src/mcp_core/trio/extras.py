"""Imports of optional dependencies: a missing one is reported with the command that installs it."""

from __future__ import annotations

import importlib.util
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcp_core.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["extra", "require"]


@contextmanager
def extra(distribution: str, name: str) -> Iterator[None]:
    """Import packages of an extra in this block.

    Args:
        distribution: The distribution that has the extra.
        name: The extra.

    Raises:
        MissingExtra: A package cannot be imported.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if isinstance(error, MissingExtra) or error.name is None or error.name.startswith("mcp_"):
            raise
        raise MissingExtra(error.name.partition(".")[0], distribution=distribution, extra=name) from error


def require(distribution: str, name: str, *packages: str) -> None:
    """Check that packages of an extra are installed, without importing them.

    Args:
        distribution: The distribution that has the extra.
        name: The extra.
        *packages: The packages, by their import names.

    Raises:
        MissingExtra: A package is not installed.
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(package, distribution=distribution, extra=name)
