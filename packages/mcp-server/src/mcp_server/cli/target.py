"""The target of a command: the location of a server in a module or a file."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mcp_server.server import Server

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["DEFAULT", "TargetError", "load", "split"]

DEFAULT: Final = "server"
"""The name of the server if the target has no name."""


class TargetError(Exception):
    """The target cannot be used. The message names the problem and the remedy.

    Its cause is an exception of the author's code, which is shown with its place.
    """


def load(target: str) -> Server:
    """Load a server.

    Args:
        target: The location: `package.module:name` or `path/to/file.py:name`.

    Raises:
        TargetError: There is no such server, or its module cannot be loaded. The cause is the exception of the module.
    """
    place, name = split(target)
    module = _load_file(Path(place)) if place.endswith(".py") else _load_module(place)
    found: object = module
    for step in name.split("."):
        try:
            found = getattr(found, step)
        except AttributeError:
            known = sorted(key for key, value in vars(module).items() if isinstance(value, Server))
            hint = f"; use the server {known[0]!r}: {place}:{known[0]}" if known else ""
            raise TargetError(f"{place} has no {name!r}{hint}") from None
    if not isinstance(found, Server) and callable(found):
        try:
            found = found()
        except Exception as error:  # the author's function can raise anything
            raise TargetError(f"{target} failed to create a server") from error
    if not isinstance(found, Server):
        raise TargetError(
            f"{target} is of type {type(found).__name__}; it must be a Server, or a function that returns one"
        )
    return found


def split(target: str) -> tuple[str, str]:
    """Return the module or file, and the name in it."""
    place, colon, name = target.rpartition(":")
    if not colon or target.endswith(".py"):
        return target, DEFAULT
    return place, name or DEFAULT


def _load_module(name: str) -> ModuleType:
    # The first entry of the path is the directory of an installed command. Users expect the current directory.
    sys.path.insert(0, os.getcwd())  # entries of the path are strings
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise TargetError(
                f"no module {name!r}, neither installed nor in {Path.cwd()}; for a file write its path, with .py"
            ) from None
        raise TargetError(f"{name} cannot be imported") from error
    except Exception as error:  # the author's module can raise anything
        raise TargetError(f"{name} cannot be imported") from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise TargetError(f"no file {path}; the current directory is {Path.cwd()}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # As for a script: the file can import modules in its directory, and `sys.modules` is used for its annotations.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the author's file can raise anything
        raise TargetError(f"{path} cannot be loaded") from error
    return module
