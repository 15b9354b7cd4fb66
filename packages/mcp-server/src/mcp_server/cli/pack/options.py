"""The options of `mcp-server pack`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse

__all__ = ["EPILOG", "add_options"]

EPILOG: Final = """\
examples:
  mcp-server pack weather.py
  mcp-server pack weather.py --env API_KEY --output dist/weather.mcpb
  mcp-server pack weather.py --registry io.github.USER/weather \\
    --url https://github.com/USER/weather/releases/download/v1.0.0/weather-1.0.0.mcpb

TARGET is path/to/file.py or path/to/file.py:name, of which the whole folder is packed, or package.module:name of a package in
the current directory or in its folder src, of which the package is packed. Not packed: names that begin with a dot, compiled and
generated files, virtual environments, names that are usual for secrets, and the patterns in the file .mcpbignore of the folder.

Name, version, description and authors come from [project] in pyproject.toml, or from the Server; the dependencies from the block
'# /// script' of the file, from pyproject.toml, or from requirements.txt; the icon from icon.png in the folder, or from the Server.

exit status: 0 the files were written; 2 the target, an option or a file cannot be used, and nothing was written.
"""


def add_options(command: argparse.ArgumentParser) -> None:
    """Add the options of `mcp-server pack`."""
    command.add_argument("target", metavar="TARGET", help="the location of the server, see below")
    command.add_argument(
        "--output", metavar="FILE.mcpb", help="the bundle (default: NAME-VERSION.mcpb in the current directory)"
    )
    command.add_argument(
        "--env",
        metavar="NAME",
        action="append",
        default=[],
        help="an environment variable for which the host application asks the user; may be given several times",
    )
    group = command.add_argument_group("registry")
    group.add_argument(
        "--registry", metavar="NAME", help="write server.json beside the bundle, for the server of this name"
    )
    group.add_argument("--url", help="the URL at which you publish the bundle, for server.json")
    group.add_argument(
        "--pypi",
        action="store_true",
        help="the project is published on PyPI, with its name and version, for server.json",
    )
