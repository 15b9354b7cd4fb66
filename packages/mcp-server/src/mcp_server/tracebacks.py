"""Tracebacks for the author of a server: the lines of the author's files, with the frames of libraries folded.

An exception in a handler passes through a dozen frames of trio and of this package, and often through a nursery, which
wraps it in a group. The author needs the line in the own file. So a run of frames of libraries becomes one line, and a
group of one exception is shown as that exception.

A server can itself be installed in `site-packages`. The frames to fold are therefore decided in steps: all libraries,
or, if no frame would remain, only those that run a server, or none. An `McpError` needs no frame: its message has the
place.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from mcp_core.errors import McpError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["first_line_of_author", "fold_traceback", "format_user_error", "is_library_file"]

_OURS: Final = ("mcp_core", "mcp_server", "mcp_client", "mcp_conformance")

_RUNS_SERVERS: Final = frozenset(
    {
        *_OURS,
        *(
            "anyio",
            "asyncio",
            "attr",
            "attrs",
            "cattr",
            "cattrs",
            "concurrent",
            "contextlib",
            "exceptiongroup",
            "functools",
        ),
        *(
            "hypercorn",
            "importlib",
            "outcome",
            "quart",
            "quart_trio",
            "runpy",
            "sniffio",
            "threading",
            "trio",
            "uvicorn",
        ),
    }
)
"""Libraries whose frames are between the start of a process and a function of the author."""

_INSTALLED: Final = ("site-packages", "dist-packages")
"""Folders of installed packages."""

_STANDARD: Final = PurePath(os.__file__).parent
"""The folder of the standard library."""

_MOST_FRAMES: Final = 20
"""Most frames of the author that are shown of one exception. A recursion has a thousand."""

_MOST_NAMES: Final = 3
"""Most names of libraries in one line."""


def format_user_error(exception: BaseException, *, everything: bool = False) -> str:
    """Return the traceback of an exception, with its notes and causes.

    Args:
        exception: The exception.
        everything: Whether to show each frame and each group, as Python does.

    Returns:
        Lines of text, without a line break at the end.
    """
    whole = traceback.TracebackException.from_exception(exception, compact=True, lookup_lines=False)
    if not everything:
        whole, exception = _unwrapped(whole, exception)
        shown = list(_walk(whole, exception))
        is_folded = is_library_file if isinstance(exception, McpError) else _folds(shown)
        for each in shown:
            each.stack = _folded(each.stack, is_folded)
    return "".join(whole.format()).rstrip("\n")


def fold_traceback(record: logging.LogRecord) -> bool:
    """Fold the traceback of a log record, unless the logger logs at the debug level. A filter of a logger.

    A formatter of the standard library uses the text that it finds in the record.

    Returns:
        `True`: the record is logged.
    """
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and record.exc_text is None and not logging.getLogger(record.name).isEnabledFor(logging.DEBUG):
        record.exc_text = format_user_error(error)
    return True


def is_library_file(filename: str) -> bool:
    """Return whether a file belongs to a library, and not to the author of a server."""
    return _library(filename) is not None


def first_line_of_author(depth: int) -> tuple[str, int] | None:
    """Return the file and the line of the innermost running function of the author, or `None`.

    Args:
        depth: Number of frames above the caller at which the search begins.
    """
    frame = sys._getframe(depth + 1)  # noqa: SLF001  # documented; `inspect.currentframe` is the same
    while is_library_file(frame.f_code.co_filename):
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


# --- exceptions ------------------------------------------------------------------------------------------------------


def _walk(whole: traceback.TracebackException, exception: BaseException) -> Iterator[traceback.TracebackException]:
    """Yield the formatted form of an exception, its causes and its members, all of them with groups of one unwrapped."""
    waiting = [(whole, exception)]
    while waiting:
        each, error = waiting.pop()
        yield each
        if each.__cause__ is not None and error.__cause__ is not None:
            each.__cause__, cause = _unwrapped(each.__cause__, error.__cause__)
            if cause is error:
                # `raise error from group`, where the group contains only the error.
                each.__cause__ = None
            else:
                waiting.append((each.__cause__, cause))
        if each.__context__ is not None and error.__context__ is not None:
            each.__context__, context = _unwrapped(each.__context__, error.__context__)
            if context is error:
                each.__context__ = None
            else:
                waiting.append((each.__context__, context))
        if each.exceptions is not None and isinstance(error, BaseExceptionGroup):
            pairs = [_unwrapped(*pair) for pair in zip(each.exceptions, error.exceptions, strict=True)]
            each.exceptions = [member for member, _ in pairs]
            waiting.extend(pairs)


def _unwrapped(
    whole: traceback.TracebackException, error: BaseException
) -> tuple[traceback.TracebackException, BaseException]:
    """Return the only exception in a group, or the exception itself.

    The frames of the group stay: they lead to the nursery in which the exception was raised.
    """
    while isinstance(error, BaseExceptionGroup) and whole.exceptions is not None and len(error.exceptions) == 1:
        (member,) = whole.exceptions
        member.stack = traceback.StackSummary.from_list([*whole.stack, *member.stack])
        # `__notes__` is `None` without notes.
        member.__notes__ = [*(whole.__notes__ or ()), *(member.__notes__ or ())] or None
        if member.__cause__ is None and member.__context__ is None:
            member.__cause__, member.__context__ = whole.__cause__, whole.__context__
        whole, error = member, error.exceptions[0]
    return whole, error


# --- frames ----------------------------------------------------------------------------------------------------------


class _FoldedStack(traceback.StackSummary):
    """Frames, of which those without a file are lines of text."""

    def format_frame_summary(self, frame_summary: traceback.FrameSummary, **options: bool) -> str:
        """Return the lines of a frame."""
        if not frame_summary.filename:
            return f"  {frame_summary.name}\n"
        return super().format_frame_summary(frame_summary, **options)


def _folds(shown: Sequence[traceback.TracebackException]) -> Callable[[str], bool]:
    """Return the predicate of the files whose frames are folded. Some frame remains."""

    def is_machinery(filename: str) -> bool:
        return _library(filename) in _RUNS_SERVERS

    for is_folded in (is_library_file, is_machinery):
        if any(not is_folded(frame.filename) for each in shown for frame in each.stack):
            return is_folded
        # A syntax error names its file without a frame. Other exceptions do not have the attribute.
        files: list[str | None] = [getattr(each, "filename", None) for each in shown]
        if any(file is not None and not is_folded(file) for file in files):
            return is_folded
    return lambda _: False


def _folded(stack: Sequence[traceback.FrameSummary], is_folded: Callable[[str], bool]) -> traceback.StackSummary:
    kept = [number for number, frame in enumerate(stack) if not is_folded(frame.filename)]
    dropped = frozenset(kept[_MOST_FRAMES // 2 : -_MOST_FRAMES // 2])
    result = _FoldedStack()
    run: list[traceback.FrameSummary] = []
    for number, frame in enumerate(stack):
        if is_folded(frame.filename) or number in dropped:
            run.append(frame)
            continue
        result.extend(_line(run))
        run.clear()
        result.append(frame)
    result.extend(_line(run))
    return result


def _line(run: Sequence[traceback.FrameSummary]) -> Iterator[traceback.FrameSummary]:
    """Yield the line that stands for frames, if there are any."""
    if not run:
        return
    names = list(dict.fromkeys(_library(frame.filename) or PurePath(frame.filename).name for frame in run))
    if len(names) > _MOST_NAMES:
        names[_MOST_NAMES - 1 :] = ["others"]
    text = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    yield traceback.FrameSummary("", 0, f"… {len(run)} frame{'s'[: len(run) > 1]} of {text}", lookup_line=False)


def _library(filename: str) -> str | None:
    """Return the name of the library that a file belongs to, or `None` for a file of the author."""
    if filename.startswith("<"):
        # `<frozen importlib._bootstrap>`, `<attrs generated init server.Place>`
        match filename[1:-1].split():
            case ["frozen", name, *_]:
                return name.partition(".")[0]
            case [name, "generated", *_]:
                return name
        return None
    path = PurePath(filename)
    for folder in _INSTALLED:
        if folder in path.parts[:-1]:
            return _top(path.parts[path.parts.index(folder) + 1])
    for name in _OURS:
        # The packages of a checkout are not in a folder of installed packages.
        if any(path.is_relative_to(folder) for folder in getattr(sys.modules.get(name), "__path__", ())):
            return name
    return _top(path.relative_to(_STANDARD).parts[0]) if path.is_relative_to(_STANDARD) else None


def _top(part: str) -> str:
    return part.removesuffix(".py")
