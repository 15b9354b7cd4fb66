"""The three forms of the client have the same names and signatures: for trio, for asyncio, and blocking.

`mcp_client.asyncio` and `mcp_client.group` have the classes for trio themselves, which work on both libraries. The blocking
classes are others: their methods, properties and attributes are compared, apart from the words for asynchronous code.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from types import ModuleType
from typing import get_args, get_origin

import pytest

import mcp_client
import mcp_client.asyncio
import mcp_client.blocking
import mcp_client.blocking.group
import mcp_client.group
from mcp_client.blocking.proxies import Proxy, blocking, describe

MODULES = [(mcp_client, mcp_client.blocking), (mcp_client.group, mcp_client.blocking.group)]
"""Each module for trio and asyncio, with its blocking form."""

NOT_BLOCKING = {"Changes": {"take", "anything", "finish"}, "Connector": {"run"}, "Member": {"run"}}
"""Public methods of the classes for trio that only this project or trio uses."""

BLOCKING_NAMES = {
    "aclose": "close",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}
"""The names of blocking methods that differ from those for trio."""

BLOCKING_TYPES = {"AbstractAsyncContextManager": "AbstractContextManager", "AsyncIterator": "Iterator"}
"""The names of blocking types in annotations."""

PYTHON = frozenset({"__init__", "__repr__", "__weakref__", "__dict__", "__module__", "__doc__", "__slots__"})
"""Special attributes that do not belong to the interface."""

LIBRARY = frozenset({"abc", "builtins", "collections.abc", "contextlib", "typing"})
"""Modules of base classes whose members are not compared."""


def classes() -> Iterator[tuple[type, type]]:
    """Return each class that has a blocking form, with that."""
    for ours, theirs in MODULES:
        for name in ours.__all__:
            value, form = getattr(ours, name), getattr(theirs, name)
            if value is not form and isinstance(value, type):
                yield value, form


def functions() -> Iterator[tuple[Callable[..., object], Callable[..., object]]]:  # type: ignore[explicit-any]  # any parameters
    """Return each function that has a blocking form, with that."""
    for ours, theirs in MODULES:
        for name in ours.__all__:
            value, form = getattr(ours, name), getattr(theirs, name)
            if value is not form and inspect.isfunction(value):
                yield value, form


def blocking_signature(function: Callable[..., object]) -> str:  # type: ignore[explicit-any]  # any parameters
    """Return the signature of the blocking form of a function."""
    signature = inspect.signature(function)
    parameters = [
        each.replace(annotation=each.empty) if each.name == "self" else each for each in signature.parameters.values()
    ]
    text = str(signature.replace(parameters=parameters))
    for name, replacement in BLOCKING_TYPES.items():
        text = text.replace(name, replacement)
    return text


def members(kind: type) -> dict[str, str]:
    """Return the signature of each public method, and the type of each property and attribute, by name."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__ in LIBRARY:
            continue
        for name, value in vars(base).items():
            if name in PYTHON or (name.startswith("_") and not name.startswith("__")):
                continue
            if isinstance(value, property):
                assert value.fget is not None
                found[name] = str(inspect.signature(value.fget).return_annotation)
            elif inspect.isfunction(value):
                found[name] = blocking_signature(value)
        found |= attributes(base)
    # The arguments of a generic base class.
    for base in getattr(kind, "__orig_bases__", ()):
        for parameter, argument in zip(getattr(get_origin(base), "__parameters__", ()), get_args(base), strict=False):
            found = {
                name: value.replace(f"'{parameter}'".replace("~", ""), f"'{getattr(argument, '__name__', argument)}'")
                for name, value in found.items()
            }
    return found


def attributes(kind: type) -> dict[str, str]:
    """Return the type of each public attribute that the constructor sets, by name."""
    try:
        source = inspect.getsource(kind)
    except OSError:
        return {}
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(textwrap.dedent(source))):
        if isinstance(node, ast.AnnAssign | ast.Assign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self" and target.attr[0] != "_":
                found[target.attr] = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else ""
    return found


def differences(ours: type, theirs: type, *, without: frozenset[str] | set[str] = frozenset()) -> list[str]:
    """Return how the blocking form of a class differs from the class.

    Args:
        ours: The class for trio.
        theirs: Its blocking form.
        without: Names of `ours` that have no blocking form.
    """
    expected = {BLOCKING_NAMES.get(name, name): value for name, value in members(ours).items() if name not in without}
    # These only explain the mistake of writing `async with`.
    found = {name: value for name, value in members(theirs).items() if name not in {"__aenter__", "__aexit__"}}
    missing = [f"{name} is missing" for name in expected if name not in found]
    extra = [f"{name} is only blocking" for name in found if name not in expected]
    differing = [
        f"{name} is {found[name]}, not {expected[name]}"
        for name in expected
        # The type of an attribute may be inferred.
        if name in found and found[name] != expected[name] and expected[name] not in ("", "Final")
    ]
    waiting = [
        f"{name} is a coroutine function"
        for name in found
        if inspect.iscoroutinefunction(inspect.unwrap(getattr(theirs, name)))
    ]
    return [*missing, *extra, *differing, *waiting]


# --- the modules -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ours", "theirs"), MODULES, ids=["client", "group"])
def test_modules_have_same_names(ours: ModuleType, theirs: ModuleType) -> None:
    assert theirs.__all__ == ours.__all__
    for name in ours.__all__:
        value, form = getattr(ours, name), getattr(theirs, name)
        # All other names are the same objects: options, handlers, results, exceptions.
        assert value is form or (inspect.isclass(value) or inspect.isfunction(value)), name
        assert value is form or form.__module__.startswith("mcp_client.blocking"), name


def test_asyncio_module_has_objects_of_client() -> None:
    assert mcp_client.asyncio.__all__ == mcp_client.__all__
    for name in mcp_client.__all__:
        assert getattr(mcp_client.asyncio, name) is getattr(mcp_client, name), name


def test_class_of_client_has_blocking_form() -> None:
    assert {ours.__name__ for ours, _ in classes()} == {
        *("Changes", "Client", "Connector", "TaskHandle"),
        *("ClientGroup", "Member"),
    }
    assert {ours.__name__ for ours, _ in functions()} == {"open_http", "open_stdio", "open_stream", "open_group"}


@pytest.mark.parametrize(("ours", "theirs"), [*classes()], ids=lambda kind: kind.__qualname__)
def test_blocking_class_has_members_of_class(ours: type, theirs: type) -> None:
    assert differences(ours, theirs, without=NOT_BLOCKING.get(ours.__name__, set())) == []


@pytest.mark.parametrize(("ours", "theirs"), [*functions()], ids=lambda function: function.__qualname__)
def test_blocking_function_has_signature_of_function(ours: Callable[[], object], theirs: Callable[[], object]) -> None:
    assert str(inspect.signature(theirs)) == blocking_signature(ours)
    assert not inspect.iscoroutinefunction(theirs)


@pytest.mark.parametrize("kind", [kind for _, kind in classes()], ids=lambda kind: kind.__qualname__)
def test_docstrings_of_blocking_class_describe_no_coroutines(kind: type) -> None:
    for name in members(kind):
        text = inspect.getdoc(getattr(kind, name))
        assert text or name.startswith("__"), name
        check_words(text or "", name)


@pytest.mark.parametrize("function", [function for _, function in functions()], ids=lambda each: each.__qualname__)
def test_docstring_of_blocking_function_describes_no_coroutine(function: Callable[[], object]) -> None:
    assert function.__doc__
    check_words(function.__doc__, function.__name__)


def check_words(text: str, name: str) -> None:
    """Check that a docstring has no words for asynchronous code."""
    for word in (
        "await ",
        "async with",
        "async for",
        "aclose",
        "Any task",
        "thread or thread",
        "Cancelling the caller",
        "asynchronous iterator",
        "asynchronous context",
    ):
        assert word not in text, name


# --- the comparison itself -------------------------------------------------------------------------------------------


class Shop:
    def __init__(self) -> None:
        self.name = "shop"

    @property
    def size(self) -> int:
        return 1

    async def buy(self, article: str, *, number: int = 1) -> Sequence[str]:
        return [article] * number

    def visit(self) -> AbstractAsyncContextManager[int]:
        return entered()

    async def aclose(self) -> None:
        pass


@asynccontextmanager
async def entered() -> AsyncIterator[int]:
    yield 1


@contextmanager
def entered_at_once() -> Iterator[int]:
    yield 1


class BlockingShop(Proxy[Shop]):
    @property
    def name(self) -> str:
        return self._target.name

    @property
    def size(self) -> int:
        return self._target.size

    buy = blocking(Shop.buy)
    close = blocking(Shop.aclose)

    def visit(self) -> AbstractContextManager[int]:
        return entered_at_once()


def sell(self: BlockingShop) -> None:
    """Differ from each method."""


def buy_one(self: BlockingShop, article: str) -> Sequence[str]:
    """Take one parameter less."""
    return [article]


def buy_any(self: BlockingShop, article: str, *, number: float = 1) -> Sequence[str]:
    """Take a parameter of another type."""
    return [article]


def buy_none(self: BlockingShop, article: str, *, number: int = 0) -> Sequence[str]:
    """Take a parameter with another default value."""
    return [article]


def buy_mapping(self: BlockingShop, article: str, *, number: int = 1) -> Mapping[str, int]:
    """Return a value of another type."""
    return {article: number}


async def buy_later(self: BlockingShop, article: str, *, number: int = 1) -> Sequence[str]:
    """Return a coroutine."""
    return [article] * number


def size_of(self: BlockingShop) -> float:
    return 1.5


def test_comparison_of_same_classes_finds_nothing() -> None:
    assert differences(Shop, BlockingShop) == []


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"sell": sell}, "sell is only blocking"),
        ({"buy": buy_one}, "buy is"),
        ({"buy": buy_any}, "buy is"),
        ({"buy": buy_none}, "buy is"),
        ({"buy": buy_mapping}, "buy is"),
        ({"buy": buy_later}, "buy is a coroutine function"),
        ({"size": property(size_of)}, "size is"),
    ],
)
def test_comparison_of_changed_class_finds_difference(changes: dict[str, object], found: str) -> None:
    (difference,) = differences(Shop, type("ChangedShop", (BlockingShop,), {**changes, "__module__": __name__}))
    assert difference.startswith(found)


@pytest.mark.parametrize("name", ["buy", "close", "size", "name", "visit"])
def test_comparison_of_class_without_member_finds_it(name: str) -> None:
    rest = {each: value for each, value in vars(BlockingShop).items() if each not in (name, *PYTHON)}
    assert differences(Shop, type("SmallShop", (Proxy,), {**rest, "__module__": __name__})) == [f"{name} is missing"]


def test_described_function_is_no_coroutine_function() -> None:
    def buy(article: str) -> Sequence[str]:
        return [article]

    describe(buy, Shop.buy)
    assert not inspect.iscoroutinefunction(inspect.unwrap(buy))
