"""The place and the reason of a failure to load or to serve a server, for its author."""

from __future__ import annotations

import traceback
from typing import Final

import attrs

from mcp_core.field_methods import FieldValue
from mcp_server.cli.target import TargetError
from mcp_server.tracebacks import format_user_error, is_library_file

__all__ = ["LoadFailure"]

_CHARS: Final = 16_000
"""Most characters of a message or a traceback."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LoadFailure(FieldValue):
    """The place and the reason of a failure."""

    message: str
    """The error, as text."""
    file: str | None = None
    """The path of the file with the error, if it is known."""
    line: int | None = None
    """The line in the file, from 1."""
    traceback: str = ""
    """The frames of the author and of the libraries they call, from the outermost to the innermost."""

    def __str__(self) -> str:
        """Return the place and the message, as a compiler writes them."""
        place = "".join(f"{part}:" for part in (self.file, self.line) if part is not None)
        return f"{place} {self.message}".lstrip()

    @classmethod
    def of(cls, error: Exception) -> LoadFailure:
        """Describe an exception of loading or of serving.

        The place is the innermost line that the author wrote.
        """
        cause = error.__cause__ if isinstance(error, TargetError) else error
        while isinstance(cause, ExceptionGroup) and len(cause.exceptions) == 1:
            # The nurseries of the server are an implementation detail.
            cause = cause.exceptions[0]
        if cause is None:
            return cls(message=str(error)[:_CHARS])
        said = cause.msg if isinstance(cause, SyntaxError) else str(cause)
        message = f"{type(cause).__name__}: {said}".removesuffix(": ")
        file, line = _place(cause)
        return cls(message=message[:_CHARS], file=file, line=line, traceback=format_user_error(cause)[-_CHARS:])


def _place(cause: BaseException) -> tuple[str | None, int | None]:
    if isinstance(cause, SyntaxError) and cause.filename is not None:
        return cause.filename, cause.lineno
    for frame in reversed(traceback.extract_tb(cause.__traceback__)):
        if not is_library_file(frame.filename):
            return frame.filename, frame.lineno
    return None, None
