"""The fast tests of a package, and the lines of the package that each of them runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest
from coverage import Coverage
from mutants.drawing import Mutant


class Reach:
    """A plugin of pytest that records which lines each test runs.

    What a shared fixture runs counts for every test that takes the fixture, and not only for the
    first one.
    """

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage
        self._current = ""
        self.fixtures: dict[str, list[str]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._current = item.nodeid
        self.fixtures[item.nodeid] = list(getattr(item, "fixturenames", ()))
        self._coverage.switch_context(self._current)
        result = yield
        self._coverage.switch_context("")
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        shared = fixturedef.scope != "function"
        if shared:
            self._coverage.switch_context(f"fixture {fixturedef.argname}")
        result = yield
        if shared:
            self._coverage.switch_context(self._current)
        return result

    def lines(self) -> dict[str, dict[int, list[str]]]:
        """Return the tests of each line of each file."""
        by_fixture: dict[str, list[str]] = {}
        for test, names in self.fixtures.items():
            for name in names:
                by_fixture.setdefault(f"fixture {name}", []).append(test)
        data = self._coverage.get_data()
        return {
            path: {
                line: sorted(
                    {
                        test
                        for context in contexts
                        for test in by_fixture.get(context, [context])
                        if test in self.fixtures
                    }
                )
                for line, contexts in data.contexts_by_lineno(path).items()
            }
            for path in data.measured_files()
        }


def tests_of(lines: dict[int, list[str]], mutant: Mutant) -> list[str]:
    """Return the tests of a mutant's statement, or of its module if it runs at import.

    The test that imports a module first is not the only one that may notice its constants. Tests
    in a file named like the module come first: most mutants are killed there, and the rest is
    then not run.
    """
    first, last = mutant.statement
    at_statement = [set(tests) for line, tests in lines.items() if first <= line <= last]
    if mutant.at_import:
        at_statement = [set(tests) for tests in lines.values()]
    own_file = f"/test_{PurePosixPath(mutant.path).stem}.py"
    tests: set[str] = set().union(*at_statement)
    return sorted(tests, key=lambda test: (own_file not in test, test))
