"""The Lua scripts: each runs as one step on one server. They are in the files of the folder `lua`.

A script whose reply is lost is sent again, so most of them have the same effect and reply if they run twice. Exceptions:
a change that is recorded twice is notified twice, the receiver of a message recognizes the second one, and a rate limit
takes too many events.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

from mcp_server.cluster.redis.pipeline import encode_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SCRIPTS", "Script", "script"]

_COMMON: Final = "common"
"""The file whose functions all scripts can use."""


class Script:
    """A Lua script.

    Args:
        name: The name of its file.
        text: The text.
    """

    __slots__ = ("_head", "name", "text")

    def __init__(self, name: str, text: bytes) -> None:
        self.name: Final = name
        """The name of the file, without its ending."""
        self.text: Final = text
        """The text."""
        digest = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()  # chosen by Redis
        self._head: Final = encode_arguments((b"EVALSHA", digest))

    def encode(self, keys: Sequence[bytes], args: Sequence[bytes]) -> bytes:
        """Return the command that runs the script on a server that has it.

        Args:
            keys: The keys, all on the same server.
            args: The other arguments.
        """
        rest = encode_arguments((b"%d" % len(keys), *keys, *args))
        return b"*%d\r\n%b%b" % (3 + len(keys) + len(args), self._head, rest)

    def encode_whole(self, keys: Sequence[bytes], args: Sequence[bytes]) -> bytes:
        """Return the command that runs the script on a server that lacks it."""
        values = (b"EVAL", self.text, b"%d" % len(keys), *keys, *args)
        return b"*%d\r\n%b" % (len(values), encode_arguments(values))


SCRIPTS: Final = (
    "beat",
    "changes_read",
    "changes_record",
    "keys_ring",
    "leave",
    "rate_take",
    "send",
    "session_append",
    "session_begin",
    "session_compact",
    "session_delivered",
    "session_events",
    "session_index",
    "session_notified",
    "session_purge",
    "session_save",
    "session_subscribe",
    "session_touch",
    "task_claim",
    "task_create",
    "task_delete",
    "task_list",
    "task_read",
    "task_save",
)
"""The names of all scripts."""


@cache
def script(name: str) -> Script:
    """Return the script with a name of `SCRIPTS`."""
    folder = resources.files("mcp_server.cluster.redis") / "lua"
    common = (folder / f"{_COMMON}.lua").read_bytes()
    return Script(name, common + (folder / f"{name}.lua").read_bytes())
