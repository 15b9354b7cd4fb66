"""A check, and its description, which is known before it runs.

Checks are functions. A decorator names the requirements that they prove and what they need; revisions, transports and
level follow from the requirements. The table of coverage is therefore available without a run.

    @check("tools.unknown-name", proves=("tools.unknown-tool-error",), needs=("capability:tools",))
    async def unknown_name(server: ServerUnderTest) -> None:
        '''A call of an unknown tool returns an error.'''
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import attrs

from mcp_conformance.catalogue.requirements import Level, Party, catalogue
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from mcp_conformance.catalogue.requirements import Requirement

__all__ = ["Check", "CheckInfo", "CheckScope", "Registry", "Role", "Transport"]

P = TypeVar("P")


class Role(enum.Enum):
    """The side under test."""

    SERVER = "server"
    CLIENT = "client"


class Transport(enum.Enum):
    """The transport of a connection."""

    STDIO = "stdio"
    HTTP = "http"
    """Streamable HTTP."""
    HTTP_SSE = "http-sse"
    """The two endpoints of 2024-11-05."""


_ALL_TRANSPORTS: Final = frozenset(Transport)
_TRANSPORTS: Final = {
    "any": _ALL_TRANSPORTS,
    "stdio": frozenset({Transport.STDIO}),
    "http": frozenset({Transport.HTTP}),
    "http-sse": frozenset({Transport.HTTP_SSE}),
}
_ACTORS: Final = {
    Role.SERVER: frozenset({Party.SERVER, Party.BOTH, Party.AUTHORIZATION_SERVER}),
    Role.CLIENT: frozenset({Party.CLIENT, Party.BOTH, Party.HOST}),
}


class CheckScope(enum.Enum):
    """The state that a check disturbs, which decides whether it can share a connection."""

    SHARED = "shared"
    """Sends what any client sends. Shares a connection with other checks, one after another."""
    RECOVERING = "recovering"
    """Sends unusual messages that a connection must tolerate. Shares a connection with such checks while it works."""
    CONNECTION = "connection"
    """Needs an unused connection. Has its own connection."""
    LEAVING = "leaving"
    """May leave late messages behind, and judges only its own. Shares a connection with such checks, after the recovering ones."""
    PROCESS = "process"
    """Opens its own connections: it may stop the implementation, or observes its start and exit."""
    EVIDENCE = "evidence"
    """Sends nothing. Judges the recorded messages of the other checks, and therefore runs last."""


@attrs.frozen(kw_only=True)
class CheckInfo:
    """The description of a check."""

    id: str
    """Permanent name: an area, a period, and a few words."""
    title: str
    """What is tested, in a sentence."""
    role: Role
    """The side that is tested."""
    proves: tuple[str, ...]
    """Ids of the requirements."""
    revisions: frozenset[str]
    """Revisions in which the check runs."""
    transports: frozenset[Transport]
    """Transports over which the check runs."""
    needs: tuple[str, ...]
    """What the implementation has to offer: `capability:tools`, `fixture:test_simple_text`, `auth`."""
    scope: CheckScope
    """What the check disturbs."""
    depends_on: tuple[str, ...] = ()
    """Ids of the checks without whose rules this one cannot judge: if one fails too, this one is not testable."""

    @property
    def area(self) -> str:
        """The first part of the id."""
        return self.id.partition(".")[0]

    def requirements(self, revision: str) -> tuple[Requirement, ...]:
        """Return the requirements that the check proves in a revision."""
        rows = (catalogue().find(id, revision) for id in self.proves)
        return tuple(row for row in rows if row is not None)

    def level(self, revision: str) -> Level:
        """Return the highest level among the check's requirements in a revision."""
        levels = {row.level for row in self.requirements(revision)}
        return next(level for level in Level if level in levels)


@attrs.frozen(kw_only=True)
class Check(CheckInfo, Generic[P]):
    """A check with its function."""

    run: Callable[[P], Awaitable[None]]
    """The function that performs the check."""


class Registry(Generic[P]):
    """The checks of one role.

    Args:
        role: The side that the checks test.
        dependencies: By id of a check, those of the checks on which it depends; `None`: no check depends on another.
    """

    def __init__(self, role: Role, dependencies: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.role: Final = role
        self._dependencies: Final = dependencies or {}
        self._checks: Final[dict[str, Check[P]]] = {}

    def __iter__(self) -> Iterator[Check[P]]:
        return iter(self._checks.values())

    def __len__(self) -> int:
        return len(self._checks)

    def __getitem__(self, id: str) -> Check[P]:
        return self._checks[id]

    def add(
        self,
        id: str,
        run: Callable[[P], Awaitable[None]],
        *,
        title: str,
        proves: Iterable[str],
        needs: Iterable[str] = (),
        revisions: Iterable[str] | None = None,
        transports: Iterable[Transport] | None = None,
        subject: CheckScope = CheckScope.SHARED,
    ) -> None:
        """Add a check, for checks that are built from a table.

        Args:
            id: The id.
            run: The function that performs the check.
            title: What is tested, in a sentence.
            proves: The requirements, at least one.
            needs: What the implementation has to offer.
            revisions: Revisions in which the check runs; `None`: all that have one of the requirements.
            transports: Transports over which it runs; `None`: all for which one of the requirements is valid.
            subject: What the check disturbs.

        Raises:
            ValueError: The id is taken, a requirement is unknown or obliges another party, or the check would run in no
                revision.
        """
        proven = tuple(proves)
        if id in self._checks:
            raise ValueError(f"duplicate check {id!r}")
        if not proven:
            raise ValueError(f"the check {id!r} proves nothing")
        unknown = [each for each in proven if each not in catalogue().ids]
        if unknown:
            raise ValueError(f"the check {id!r} proves unknown requirements: {', '.join(unknown)}")
        requested = frozenset(REVISIONS if revisions is None else revisions)
        rows = [row for row in catalogue().rows if row.id in proven and row.revisions & requested]
        # What one side MAY do, the peer has to accept.
        foreign = [row.id for row in rows if row.actor not in _ACTORS[self.role] and row.level is not Level.MAY]
        if foreign:
            raise ValueError(f"the check {id!r} is for a {self.role.value}, which {', '.join(foreign)} does not oblige")
        alive = requested & frozenset(revision for row in rows for revision in row.revisions)
        if not alive:
            raise ValueError(f"the check {id!r} runs in no revision")
        over = frozenset(each for row in rows for each in _TRANSPORTS[row.transport])
        self._checks[id] = Check(
            id=id,
            title=title,
            role=self.role,
            proves=proven,
            revisions=alive,
            transports=over if transports is None else frozenset(transports),
            needs=tuple(needs),
            scope=subject,
            depends_on=self._dependencies.get(id, ()),
            run=run,
        )

    def check(
        self,
        id: str,
        *,
        proves: Iterable[str],
        needs: Iterable[str] = (),
        revisions: Iterable[str] | None = None,
        transports: Iterable[Transport] | None = None,
        subject: CheckScope = CheckScope.SHARED,
    ) -> Callable[[Callable[[P], Awaitable[None]]], Callable[[P], Awaitable[None]]]:
        """Register a function as a check. Its docstring is the title. The arguments are those of `add`."""

        def register(run: Callable[[P], Awaitable[None]]) -> Callable[[P], Awaitable[None]]:
            title = (run.__doc__ or "").strip().partition("\n")[0]
            if not title:
                raise ValueError(f"the check {id!r} has no docstring, which is its title")
            self.add(
                id,
                run,
                title=title,
                proves=proves,
                needs=needs,
                revisions=revisions,
                transports=transports,
                subject=subject,
            )
            return run

        return register
