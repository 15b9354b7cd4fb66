"""Metadata of an author's project: `pyproject.toml`, the metadata block of a script, and `requirements.txt`.

Sources: the specification of `pyproject.toml`, and of inline script metadata (PEP 723), of the Python Packaging User Guide.
"""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Final

import attrs

from mcp_core.field_methods import FieldValue
from mcp_server.cli.pack.errors import PackError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

__all__ = ["Author", "Project", "read_project", "requirement_name"]

_MAX_FILE: Final = 4 * 1024 * 1024
"""The largest file with metadata in bytes."""

_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?=$|[\[<>=!~;@(])")

_OTHER_SOURCES: Final = ("sources", "index", "index-url", "extra-index-url", "find-links")
"""Keys of `[tool.uv]` that change where a dependency comes from. A bundle would take a package of the same name from PyPI."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Author(FieldValue):
    """The author of a project."""

    name: str
    email: str | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Project(FieldValue):
    """The metadata of a project. A member that no file has is `None` or empty."""

    file: Path
    """The `pyproject.toml`. It may be missing: it is the file in which an author writes what is missing."""
    name: str | None = None
    version: str | None = None
    description: str | None = None
    author: Author | None = None
    license: str | None = None
    keywords: tuple[str, ...] = ()
    urls: Mapping[str, str] = attrs.field(factory=dict)
    """URLs by label, in lower case without spaces and punctuation."""
    readme: Path | None = None
    scripts: frozenset[str] = frozenset()
    """The commands that the distribution installs."""
    requires_python: str | None = None
    dependencies: tuple[str, ...] | None = None
    """The requirements; `None`: no file has them."""


def read_project(folder: Path, script: Path | None) -> Project:
    """Read the metadata of a project.

    `pyproject.toml` is that of the folder or of the nearest parent, if it has a table `[project]`. The dependencies are those of
    the script, of `pyproject.toml`, or of `requirements.txt` in the folder; the first of these that has any is used.

    Args:
        folder: The folder of the server, as an absolute path.
        script: The file of the server; `None`: the server is in a package.

    Raises:
        PackError: A file cannot be read, is not valid, or has a dependency that a bundle cannot have.
    """
    project = Project(file=folder / "pyproject.toml")
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if file.is_file():
            content = _toml(_read(file), str(file))
            if "project" in content:
                project = _project(file, content)
                break
    inline = None if script is None else _script_metadata(script)
    requirements = folder / "requirements.txt"
    if script is not None and inline is not None:
        _check_sources(inline, str(script))
        project = attrs.evolve(
            project,
            dependencies=_texts(inline, "dependencies", str(script)) or (),
            requires_python=_text(inline, "requires-python", str(script)) or project.requires_python,
        )
    elif project.dependencies is None and requirements.is_file():
        project = attrs.evolve(project, dependencies=_requirements(requirements))
    for requirement in project.dependencies or ():
        _check_requirement(requirement)
    return project


def requirement_name(requirement: str) -> str | None:
    """Return the normalized name of the distribution in a requirement, or `None` if the requirement has no name."""
    found = _REQUIREMENT.match(requirement)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else None


def _project(file: Path, content: Mapping[str, object]) -> Project:
    place = f"{file}, [project]"
    table = _table(content, "project", str(file))
    _check_sources(content, str(file))
    dynamic = _texts(table, "dynamic", place) or ()
    if "dependencies" in dynamic:
        raise PackError(f"{place}: dependencies are dynamic; write them as dependencies = [...]")
    readme = table.get("readme")
    if isinstance(readme, dict):
        readme = readme.get("file")
    license_ = table.get("license")
    return Project(
        file=file,
        name=_text(table, "name", place),
        version=_text(table, "version", place),
        description=_text(table, "description", place),
        author=_author(table, place),
        license=license_ if isinstance(license_, str) else None,
        keywords=_texts(table, "keywords", place) or (),
        urls={
            re.sub(r"[\W_]", "", label).lower(): url
            for label, url in _table(table, "urls", place).items()
            if isinstance(url, str) and url.startswith(("https://", "http://"))
        },
        readme=file.parent / readme if isinstance(readme, str) else None,
        scripts=frozenset(_table(table, "scripts", place)),
        requires_python=_text(table, "requires-python", place),
        dependencies=_texts(table, "dependencies", place),
    )


def _author(table: Mapping[str, object], place: str) -> Author | None:
    authors = table.get("authors", [])
    if not isinstance(authors, list):
        raise PackError(f"{place}: authors must be an array of tables")
    for each in authors:
        name = _text(each, "name", place) if isinstance(each, dict) else None
        if name:
            return Author(name=name, email=_text(each, "email", place))
    return None


def _script_metadata(script: Path) -> Mapping[str, object] | None:
    """Return the metadata block `script` of a Python file, or `None` if the file has none."""
    lines = _read(script).splitlines()
    starts = [number for number, line in enumerate(lines) if line.rstrip() == "# /// script"]
    if not starts:
        return None
    if len(starts) > 1:
        raise PackError(f"{script} has two blocks '# /// script', at lines {starts[0] + 1} and {starts[1] + 1}")
    content: list[str] = []
    for line in lines[starts[0] + 1 :]:
        if line.rstrip() == "# ///":
            return _toml("\n".join(content), f"{script}, block '# /// script'")
        if line != "#" and not line.startswith("# "):
            break
        content.append(line[2:])
    raise PackError(f"{script}: the block '# /// script' at line {starts[0] + 1} has no end; write a line '# ///'")


def _requirements(file: Path) -> tuple[str, ...]:
    found = []
    for number, line in enumerate(_read(file).splitlines(), 1):
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if text.startswith("-") or text.endswith("\\"):
            raise PackError(
                f"{file}, line {number}: {text!r} is an option of pip, which a bundle cannot use; write the dependencies"
                " in pyproject.toml, as dependencies = [...]"
            )
        if text:
            found.append(text)
    return tuple(found)


def _check_sources(content: Mapping[str, object], place: str) -> None:
    uv = _table(_table(content, "tool", place), "uv", place)
    for key in _OTHER_SOURCES:
        if uv.get(key):
            raise PackError(
                f"{place}: [tool.uv] has {key!r}, which a bundle does not use: a host application would install a package of"
                " the same name from PyPI; write such a dependency as 'name @ URL'"
            )


def _check_requirement(requirement: str) -> None:
    if requirement_name(requirement) is None:
        raise PackError(f"{requirement!r} is not a requirement: write a name and versions, as in 'httpx>=0.28'")
    _, at, url = requirement.partition("@")
    if re.search(r"://[^/\s]*@", url):
        # The message does not repeat the password.
        raise PackError(
            f"the URL of the dependency {requirement_name(requirement)!r} has a user or a password; remove it"
        )
    if at and not url.strip().startswith(("https://", "git+https://")):
        raise PackError(f"{requirement!r} has a URL that other machines cannot reach; use https:// or git+https://")


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAX_FILE + 1)
    except OSError as error:
        raise PackError(f"cannot read {file}: {error.strerror}") from error
    if len(content) > _MAX_FILE:
        raise PackError(f"{file} has more than {_MAX_FILE} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise PackError(f"{file} is not UTF-8 at byte {error.start}; save it as UTF-8") from error


def _toml(text: str, place: str) -> Mapping[str, object]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PackError(f"{place} is not valid TOML: {error}") from error


def _table(table: Mapping[str, object], key: str, place: str) -> Mapping[str, object]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise PackError(f"{place}: {key} must be a table")
    return value


def _text(table: Mapping[str, object], key: str, place: str) -> str | None:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        raise PackError(f"{place}: {key} must be a string")
    return value


def _texts(table: Mapping[str, object], key: str, place: str) -> tuple[str, ...] | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise PackError(f"{place}: {key} must be an array of strings")
    items: Sequence[str] = value
    return tuple(items)
