"""How a parameter says what provides its value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from mcp_server.schema.annotations import Function

__all__ = ["Depends"]


@attrs.frozen(init=False)
class Depends:
    """In an annotation: the parameter is no argument of the client, a function provides its value.

        async def database(context: Context) -> AsyncIterator[Database]:
            async with context.state(Pool).connection() as connection:
                yield Database(connection)

        @server.tool
        async def count(table: str, database: Annotated[Database, Depends(database)]) -> int: ...

    The provider may be a plain function, which must not block, a coroutine function, or a generator function of either
    kind, which yields the value once and cleans up afterwards. It may take a `Context`, and depend on others itself. It is
    called once for each call of a handler, however many parameters depend on it; over several rounds of questions, once
    for each round. `Server.override` replaces it, in a test.
    """

    provider: Function
    """Provides the value."""

    def __init__(self, provider: Function, /) -> None:
        self.__attrs_init__(provider)
