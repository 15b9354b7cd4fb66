"""The suite as a pytest plugin: a test for each check in each revision over each transport.

    pytest --mcp-server "node server.js"
    pytest --mcp-server-url http://localhost:3000/mcp -k "tools and 2025-11-25"
    pytest --mcp-client "node client.js {url}" -m "mcp_conformance(level='must')"

Collection starts nothing. The first test starts the suite with all selected checks, like the command: the checks of a
revision share connections, and some judge the messages of others. The other tests only report their results. Without
its options the plugin does nothing.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.pytest_plugin.target import Case, Target

__all__ = ["pytest_addoption", "pytest_collection_modifyitems", "pytest_configure"]

_TARGETS: Final = ("--mcp-server", "--mcp-server-url", "--mcp-client", "--mcp-client-stdio")
_MARK: Final = (
    "mcp_conformance(role, revision, transport, area, level): a check of mcp-conformance, selected for "
    "instance by -m \"mcp_conformance(revision='2025-11-25')\""
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("mcp-conformance", "conformance of a Model Context Protocol server or client")
    group.addoption("--mcp-server", metavar="WORDS", help="test the server that this command starts, over stdio")
    group.addoption("--mcp-server-url", metavar="URL", help="test the server at this URL")
    group.addoption(
        "--mcp-client",
        metavar="WORDS",
        help="test the client that this command starts; {url} is replaced by the URL of the server",
    )
    group.addoption(
        "--mcp-client-stdio", metavar="WORDS", help="the same for a client that starts {command} as its server"
    )
    group.addoption("--mcp-fixtures", metavar="FILE", help="mapping of the fixtures to features of the server (TOML)")
    group.addoption("--mcp-allow-untested", action="store_true", help="skip checks that need a missing fixture")
    group.addoption(
        "--mcp-strict", action="store_true", help="failures of checks below the level MUST, which are warnings, fail"
    )
    group.addoption("--mcp-baseline", metavar="FILE", help="expected failures (TOML), or sdk:NAME@VERSION")


def _given(config: pytest.Config) -> bool:
    return any(config.getoption(option) is not None for option in _TARGETS)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    if _given(config):
        config.addinivalue_line("markers", _MARK)


@pytest.hookimpl(tryfirst=True)  # before the selection by -k and -m
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Add the tests."""
    if not _given(config):
        return
    from mcp_conformance.cli.options import CommandLineError  # lazy: pytest loads this module in every project
    from mcp_conformance.pytest_plugin.target import targets  # lazy: likewise

    def option(name: str) -> str | None:
        value = config.getoption(name)
        return None if value is None else str(value)

    try:
        found = list(
            targets(
                server=option("--mcp-server"),
                url=option("--mcp-server-url"),
                client=option("--mcp-client"),
                client_stdio=option("--mcp-client-stdio"),
                fixtures=option("--mcp-fixtures"),
                baseline=option("--mcp-baseline"),
                allow_untested=bool(config.getoption("--mcp-allow-untested")),
                strict=bool(config.getoption("--mcp-strict")),
            )
        )
    except CommandLineError as error:
        raise pytest.UsageError(str(error)) from error
    for target in found:
        checks: _Checks = _Checks.from_parent(session, name=target.name, nodeid=target.name)
        checks.target = target
        items.extend(checks.collect())


class _Checks(pytest.Collector):
    """The collector of the checks of one target."""

    target: Target

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test for each check."""
        for case in self.target.cases:
            test: _Test = _Test.from_parent(self, name=case.name)
            test.target, test.case = self.target, case
            test.add_marker(pytest.mark.mcp_conformance(**case.info))
            yield test


class _Test(pytest.Item):
    """The test of one check in one revision over one transport."""

    target: Target
    case: Case

    def runtest(self) -> None:
        """Report the result; the first test runs all selected checks."""
        if not self.target.ran:
            selected = [each for each in self.session.items if isinstance(each, _Test) and each.target is self.target]
            self.target.run([each.case for each in selected])
        ending = self.target.ending(self.case)
        if ending.skipped:
            pytest.skip(ending.text)  # reports a check that does not apply; skips no test of this project
        if ending.known:
            pytest.xfail(ending.text)  # reports a failure that the user's baseline expects
        if ending.warning:
            # `Item.warn` needs a line of a file, which a check does not have.
            warnings.warn(pytest.PytestWarning(ending.text), stacklevel=1)
        elif ending.text:
            raise _CheckFailed(ending.text)

    # The text of a check is complete: the source lines of the plugin do not matter.
    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # type: ignore[override]  # text alone, a part of what it may be
        """Return the report of a failure."""
        if isinstance(excinfo.value, _CheckFailed):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[str, None, str]:
        """Return the location, which is not in the sources."""
        return self.target.name, None, self.name


class _CheckFailed(Exception):
    """A failed check. The argument is the report."""
