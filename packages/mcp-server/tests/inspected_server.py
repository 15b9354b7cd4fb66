"""A server with something of each kind that the inspector shows. Tests copy the file and change it."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

import trio

from mcp_server import Context, ElicitationAccepted, Param, Server, TextContent

server = Server("weather", version="1.0")


@dataclass
class Trip:
    """A trip."""

    city: str
    kind: Literal["train", "bicycle"]
    days: int = 3
    stops: list[str] = field(default_factory=list)


@dataclass
class Order:
    """The form of an order."""

    city: str
    kind: Literal["train", "bicycle"]
    insured: bool = True


@server.tool
async def forecast(
    city: str, days: Annotated[int, Param(description="How far to look ahead.")] = 3, *, context: Context
) -> str:
    """Return the weather forecast."""
    for day in range(1, days + 1):
        await context.progress(day, days, f"day {day}")
    await context.warning("the station is offline", logger="stations")
    return f"{city}: {days} days of sun"


@server.tool
def plan(trip: Trip, note: str | None = None) -> Trip:
    """Plan a trip."""
    return trip


@server.tool
async def book(context: Context) -> str:
    """Ask the user about a trip."""
    answer = await context.elicit(Order, "Which trip do you want?")
    return f"booked {answer.value.city}" if isinstance(answer, ElicitationAccepted) else "nothing booked"


@server.tool
async def pay(context: Context) -> str:
    """Send the user to a page."""
    answer = await context.elicit_url("https://pay.example/1", "Pay for the trip.")
    return "paid" if isinstance(answer, ElicitationAccepted) else "not paid"


@server.tool
async def describe(city: str, context: Context) -> str:
    """Ask the model of the client."""
    result = await context.sample(f"Describe {city}.", max_tokens=100)
    assert isinstance(result.content, TextContent)
    return result.content.text


@server.tool
async def wait() -> str:
    """Wait until the call is cancelled."""
    await trio.Event().wait()
    return "never"


@server.tool
def warm(station: str) -> str:
    """Change the units, and add a tool."""
    server.resource_updated("weather://units")
    server.add_tool(lambda: "warm", name=f"heat_{station}")
    return station


@server.resource("weather://units")
def units() -> dict[str, str]:
    """Return the units of all values."""
    return {"temperature": "C"}


@server.resource("weather://stations/{id}")
def station(id: str) -> str:
    """Return a station."""
    return f"station {id}"


@server.prompt
def travel(city: str, season: str = "summer") -> str:
    """Plan a trip."""
    return f"Plan a trip to {city} in {season}."


@server.completion(prompt="travel", argument="city")
@server.completion(resource="weather://stations/{id}", argument="id")
def cities(value: str) -> list[str]:
    return [name for name in ("Ghent", "Geneva", "Turin") if name.lower().startswith(value.lower())]
