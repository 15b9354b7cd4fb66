"""Names of a package whose modules are imported when a program uses the names (PEP 562).

    if TYPE_CHECKING:
        from mcp_server.runners.http import serve_http

    __all__ = ["serve_http"]

    _LAZY: Final = {"serve_http": "mcp_server.runners.http"}


    def __getattr__(name: str) -> object:
        return import_on_use(__name__, name, _LAZY)


    def __dir__() -> list[str]:
        return sorted({*globals(), *_LAZY})

Programs that do not use the names start sooner.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["import_on_use"]


def import_on_use(package: str, name: str, modules: Mapping[str, str]) -> object:
    """Return the value of a name that a package does not have yet, and add it to the package.

    Args:
        package: The name of the package.
        name: The name.
        modules: The modules of the names that are imported on use.

    Raises:
        AttributeError: The name is another one.
    """
    module = sys.modules[package]
    if name not in modules:
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=module)
    value: object = getattr(import_module(modules[name]), name)
    setattr(module, name, value)
    return value
