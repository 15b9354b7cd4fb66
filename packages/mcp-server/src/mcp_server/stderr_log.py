"""Log messages on stderr, by a thread: a host application that does not read stderr must not stop the server.

A host application that starts a server over stdio often reads its stderr late, or never. Once the pipe is full, each write
to it blocks. The handlers of the standard library write in the task that logs, which stops the event loop and so all
requests. Here a thread writes. Its queue is bounded, and messages above its capacity are counted and dropped.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["StderrHandler", "show_warnings", "stderr_handler"]

_QUEUED: Final = 256 * 1024
"""Maximum size of the messages that wait for the thread, in bytes: some hundred tracebacks."""

_FLUSH: Final = 0.5
"""Maximum time that the end of the process waits for queued messages, in seconds. Clients usually wait two seconds."""

_IN_ORDER: Final = 0.05
"""Maximum time to wait for the thread, in seconds, so that messages keep their order with other output. A write takes 0.1
milliseconds. After a wait that was too short, messages are not waited for until the reader reads again."""

_LOGGER: Final = "mcp_server"


class StderrHandler(logging.Handler):
    """A log handler that writes to a descriptor in a thread, and does not wait for a reader that does not read.

    Args:
        descriptor: The descriptor. It stays open until the process ends.
        encoding: The encoding of the messages.
    """

    def __init__(self, descriptor: int, encoding: str) -> None:
        super().__init__()
        self._descriptor: Final = descriptor
        self._encoding: Final = encoding
        self._queue: list[bytes] = []
        self._size = 0
        self._dropped = 0
        self._is_writing = False
        self._is_late = False
        self._thread: threading.Thread | None = None
        # `logging` renews the lock in the child of a fork.
        self._changed: Final = threading.Condition(self.lock)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a message, or count it if the queue is full."""
        try:
            line = f"{self.format(record)}\n".encode(self._encoding, "backslashreplace")
        except Exception:  # noqa: BLE001  # a message of the application that cannot be formatted must not end its request
            self.handleError(record)
            return
        with self._changed:
            if self._queue and self._size + len(line) > _QUEUED:
                self._dropped += 1
                return
            self._queue.append(line)
            self._size += len(line)
            # The thread of the parent does not exist in the child of a fork.
            if self._thread is None or not self._thread.is_alive():
                self._is_writing = self._is_late = False
                self._thread = threading.Thread(target=self._write, name="log to stderr", daemon=True)
                self._thread.start()
            self._changed.notify_all()
            if not self._is_late:
                self._is_late = not self._changed.wait_for(self._is_written, _IN_ORDER)

    def flush(self) -> None:
        """Wait until the queued messages are written, at most half a second. Called when the process ends."""
        with self._changed:
            if self._thread is not None and self._thread.is_alive():
                self._changed.wait_for(self._is_written, _FLUSH)

    def _is_written(self) -> bool:
        return not self._queue and not self._is_writing

    def _write(self) -> None:
        while True:
            with self._changed:
                self._is_writing = False
                self._is_late = bool(self._queue)
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._queue)
                lines, self._queue, self._size = self._queue, [], 0
                dropped, self._dropped = self._dropped, 0
                self._is_writing = True
            if dropped:
                lines.append(b"%d log messages were dropped: stderr was not read in time\n" % dropped)
            try:
                _write_all(self._descriptor, b"".join(lines))
            except OSError:
                # Nothing reads stderr, or it is closed: there is no other place for the messages.
                continue


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, and block as long as that takes."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            # Another process that shares the descriptor has changed its mode.
            import select  # lazy: this is rare

            select.select((), (descriptor,), ())


def stderr_handler() -> logging.Handler:
    """Return a new handler for stderr. It does not wait for the reader of stderr, unless a program replaced `sys.stderr`."""
    stream = sys.__stderr__
    if stream is None or sys.stderr is not stream:
        return logging.StreamHandler(sys.stderr)
    return StderrHandler(stream.fileno(), stream.encoding)


def show_warnings() -> None:
    """Write the warnings of servers to stderr from now on, as long as the program has not configured logging.

    Python does the same for loggers without a handler. The logger of a library has a handler that does nothing, so that a
    program which only imports the library prints nothing.
    """
    logger = logging.getLogger(_LOGGER)
    if any(handler.get_name() == _LOGGER for handler in logger.handlers):
        return
    handler = stderr_handler()
    handler.set_name(_LOGGER)
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    handler.addFilter(_unless_configured(handler))
    logger.addHandler(handler)


def _unless_configured(own: logging.Handler) -> Callable[[logging.LogRecord], bool]:
    """Return a filter that drops a message if a handler of the program receives it too."""

    def is_needed(record: logging.LogRecord) -> bool:
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(handler is not own and not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
                return False
            logger = logger.parent if logger.propagate else None
        return True

    return is_needed
