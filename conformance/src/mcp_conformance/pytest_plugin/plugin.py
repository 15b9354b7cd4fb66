"""The suite as a plugin of pytest: a test for each check in each revision over each transport.

    pytest --mcp-server "node server.js"
    pytest --mcp-server-url http://localhost:3000/mcp -k "tools and 2025-11-25"
    pytest --mcp-client "node client.js {url}" -m "mcp_conformance(level='must')"

Collecting starts nothing. The first test that runs starts the suite, with all checks that are selected, as the command
would: the checks of a revision share connections, and some look at what others exchange. The other tests only tell what came
of it. Without its options the plugin does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_conformance.pytest_plugin.target import Case, Target

__all__ = ["pytest_addoption", "pytest_collection_modifyitems", "pytest_configure"]

_TARGETS: Final = ("--mcp-server", "--mcp-server-url", "--mcp-client", "--mcp-client-stdio")
_MARK: Final = (
    "mcp_conformance(role, revision, transport, area, level): a check of mcp-conformance, "
    "chosen as by -m \"mcp_conformance(revision='2025-11-25')\""
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    group = parser.getgroup("mcp-conformance", "conformance of a Model Context Protocol server or client")
    group.addoption("--mcp-server", metavar="WORDS", help="test the server that is started so, over its pipes")
    group.addoption("--mcp-server-url", metavar="URL", help="test the server at this URL")
    group.addoption("--mcp-client", metavar="WORDS", help="test the client that is started so; {url} is where to")
    group.addoption("--mcp-client-stdio", metavar="WORDS", help="the same, where it starts {command} as its server")
    group.addoption("--mcp-fixtures", metavar="FILE", help="what the server has for the fixtures (TOML)")
    group.addoption("--mcp-allow-untested", action="store_true", help="skip what needs a fixture that is missing")
    group.addoption("--mcp-baseline", metavar="FILE", help="what is known to fail (TOML)")


def _given(config: pytest.Config) -> bool:
    return any(config.getoption(option) is not None for option in _TARGETS)


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marker known."""
    if _given(config):
        config.addinivalue_line("markers", _MARK)


@pytest.hookimpl(tryfirst=True)  # before -k and -m choose
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Adds the tests."""
    if not _given(config):
        return
    from mcp_conformance.cli.options import NotUnderstood  # lazy: pytest loads this module in every project
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
            )
        )
    except NotUnderstood as error:
        raise pytest.UsageError(str(error)) from error
    for target in found:
        checks: _Checks = _Checks.from_parent(session, name=target.name, nodeid=target.name)
        checks.target = target
        items.extend(checks.collect())


class _Checks(pytest.Collector):
    """All checks of one target."""

    target: Target

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each."""
        for case in self.target.cases:
            test: _Test = _Test.from_parent(self, name=case.name)
            test.target, test.case = self.target, case
            test.add_marker(pytest.mark.mcp_conformance(**case.facts))
            yield test


class _Test(pytest.Item):
    """One check in one revision over one transport."""

    target: Target
    case: Case

    def runtest(self) -> None:
        """Tells what came of it; the first test has all run that were selected."""
        if not self.target.ran:
            mine = [each for each in self.session.items if isinstance(each, _Test) and each.target is self.target]
            self.target.run([each.case for each in mine])
        ending = self.target.ending(self.case)
        if ending.skipped:
            pytest.skip(ending.text)  # what does not apply to a server is told as skipped: no test of ours
        if ending.known:
            pytest.xfail(ending.text)  # what the baseline of the user knows to fail: no test of ours
        if ending.text:
            raise _Red(ending.text)

    # What a check has to say stands in its text: the lines of the plugin are nobody's business.
    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # type: ignore[override]  # text alone, a part of what it may be
        """The report of a failure."""
        if isinstance(excinfo.value, _Red):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[str, None, str]:
        """Where it is: nowhere in the sources."""
        return self.target.name, None, self.name


class _Red(Exception):
    """The check is red. The report is the only argument."""
