"""A check: a rule put to the test, and all that is known of it before it runs.

Checks are functions. A decorator says which requirements they prove, and what they need; from the requirements follow
revisions, transports and level. So the table of what is covered is there without running anything.

    @server_check("tools.unknown-name", proves=("tools.unknown-tool-error",), needs=(Capability("tools"),))
    async def unknown_name(peer: SuiteConnection) -> None:
        '''A call of a tool that does not exist is answered by an error.'''
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import attrs

from mcp_conformance.catalogue.requirements import Actor, Level, catalogue
from mcp_core.revisions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from mcp_conformance.catalogue.requirements import Requirement

__all__ = ["Check", "Facts", "Registry", "Role", "Subject", "Transport"]

P = TypeVar("P")


class Role(enum.Enum):
    """Which side is put to the test."""

    SERVER = "server"
    CLIENT = "client"


class Transport(enum.Enum):
    """Over what is spoken."""

    STDIO = "stdio"
    HTTP = "http"
    """Streamable HTTP."""
    HTTP_SSE = "http-sse"
    """The pair of endpoints of 2024-11-05."""


_ALL_TRANSPORTS: Final = frozenset(Transport)
_TRANSPORTS: Final = {
    "any": _ALL_TRANSPORTS,
    "stdio": frozenset({Transport.STDIO}),
    "http": frozenset({Transport.HTTP}),
    "http-sse": frozenset({Transport.HTTP_SSE}),
}
_ACTORS: Final = {
    Role.SERVER: frozenset({Actor.SERVER, Actor.BOTH, Actor.AUTHORIZATION_SERVER}),
    Role.CLIENT: frozenset({Actor.CLIENT, Actor.BOTH, Actor.HOST}),
}


class Subject(enum.Enum):
    """What a check disturbs, and therefore what it can share."""

    SHARED = "shared"
    """Asks what any client asks: it may share a connection with others, one after another."""
    RECOVERING = "recovering"
    """Does odd things that a connection has to bear: it shares one with its like, for as long as that is borne."""
    CONNECTION = "connection"
    """Wants a connection that nothing was said on, or leaves something behind on it: it has one of its own."""
    PROCESS = "process"
    """Opens what it needs: it may bring the implementation down, or watches how it starts and ends."""
    EVIDENCE = "evidence"
    """Says nothing: it looks at what went over the wire for the others, so it comes last."""


@attrs.frozen(kw_only=True)
class Facts:
    """All that is known of a check before it runs."""

    id: str
    """Its name, for ever: an area, a full stop, and a few words."""
    title: str
    """What is put to the test, in a sentence."""
    role: Role
    """Whom it is for."""
    proves: tuple[str, ...]
    """The requirements, by their ids."""
    revisions: frozenset[str]
    """The revisions that it runs in."""
    transports: frozenset[Transport]
    """What it runs over."""
    needs: tuple[str, ...]
    """What the implementation has to offer: `capability:tools`, `fixture:test_simple_text`, `auth`."""
    subject: Subject
    """What it disturbs."""

    @property
    def area(self) -> str:
        """The first part of its name."""
        return self.id.partition(".")[0]

    def requirements(self, revision: str) -> tuple[Requirement, ...]:
        """What it proves in a revision."""
        rows = (catalogue().find(id, revision) for id in self.proves)
        return tuple(row for row in rows if row is not None)

    def level(self, revision: str) -> Level:
        """How much the gravest of its requirements obliges."""
        levels = {row.level for row in self.requirements(revision)}
        return next(level for level in Level if level in levels)


@attrs.frozen(kw_only=True)
class Check(Facts, Generic[P]):
    """One check."""

    run: Callable[[P], Awaitable[None]]
    """Puts it to the test."""


class Registry(Generic[P]):
    """The checks of one role.

    Args:
        role: Whom they are for.
    """

    def __init__(self, role: Role) -> None:
        self.role: Final = role
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
        subject: Subject = Subject.SHARED,
    ) -> None:
        """Adds a check; for those that are made from a table.

        Args:
            id: Its name.
            run: Puts it to the test.
            title: What that is, in a sentence.
            proves: The requirements, at least one.
            needs: What the implementation has to offer.
            revisions: The revisions that it runs in; `None`: all that have one of the requirements.
            transports: What it runs over; `None`: wherever one of the requirements holds.
            subject: What it disturbs.

        Raises:
            ValueError: It cannot be: the name is taken, a requirement is unknown or obliges somebody else, or there
                is no revision to run in.
        """
        proven = tuple(proves)
        if id in self._checks:
            raise ValueError(f"there are two checks {id!r}")
        if not proven:
            raise ValueError(f"the check {id!r} proves nothing")
        unknown = [each for each in proven if each not in catalogue().ids]
        if unknown:
            raise ValueError(f"the check {id!r} proves what is no requirement: {', '.join(unknown)}")
        wanted = frozenset(REVISIONS if revisions is None else revisions)
        rows = [row for row in catalogue().rows if row.id in proven and row.revisions & wanted]
        # What one side may do obliges the other to bear it.
        foreign = [row.id for row in rows if row.actor not in _ACTORS[self.role] and row.level is not Level.MAY]
        if foreign:
            raise ValueError(f"the check {id!r} is for a {self.role.value}, whom {', '.join(foreign)} does not oblige")
        alive = wanted & frozenset(revision for row in rows for revision in row.revisions)
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
            subject=subject,
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
        subject: Subject = Subject.SHARED,
    ) -> Callable[[Callable[[P], Awaitable[None]]], Callable[[P], Awaitable[None]]]:
        """Makes a check of a function; its docstring is the title. The arguments are those of `add`."""

        def register(run: Callable[[P], Awaitable[None]]) -> Callable[[P], Awaitable[None]]:
            title = (run.__doc__ or "").strip().partition("\n")[0]
            if not title:
                raise ValueError(f"the check {id!r} has no docstring: it is the title")
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
