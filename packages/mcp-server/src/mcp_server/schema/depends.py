"""The annotation of parameters whose values are provided by a function."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from mcp_core.field_methods import FieldValue

if TYPE_CHECKING:
    from mcp_core.schema.annotations import Function

__all__ = ["Depends"]


@attrs.frozen(init=False, eq=False, repr=False)
class Depends(FieldValue):
    """A marker in an annotation: a provider function, not the client, provides the value of the parameter.

        async def database(context: Context) -> AsyncIterator[Database]:
            async with context.state(Pool).connection() as connection:
                yield Database(connection)

        @server.tool
        async def count(table: str, database: Annotated[Database, Depends(database)]) -> int: ...

    The provider is a plain function, which must not block, a coroutine function, or a generator function of either
    kind, which yields the value once and then cleans up. It can have a `Context` parameter and dependencies of its own.
    It is called once for each call of a handler, even if several parameters depend on it. If a client retries a
    request with input responses, it is called once for each round trip. `Server.override` replaces it in tests.

    Args:
        provider: The function that provides the value.
    """

    provider: Function
    """The function that provides the value."""

    def __init__(self, provider: Function, /) -> None:
        self.__attrs_init__(provider)
