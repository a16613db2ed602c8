"""The border between `make test` and `make test-all`: processor time of every test, measured.

`--border=fail` fails the run if a test or a shared fixture takes over 1 s of processor time, or
over 20 s if `over_a_second.txt` names it. `--border=show` lists slow tests that are fast. Processor
time is that of this process and of all processes below it, without imports of modules and without
the teardown of shared fixtures.

1 s is of one quiet core of an AMD EPYC in 2026, with Python 3.11: there `_loop` took 0.0135 s, the
least of 60 tries. Where it takes longer, the limits are as much longer; they are never shorter.
Workers of pytest-xdist share the cores with each other and with the type checker, where the same
test took up to 2.9 times as long as alone: their limits are three times as long.
"""

from __future__ import annotations

import importlib._bootstrap_external as imports
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import pytest

LISTED, MOST_LISTED, SHOWN = "tests/over_a_second.txt", 40, 20
FAST_S, REFERENCE_S = 0.3, 0.0135
# A listed test is one real run of its kind. Without a limit, nobody would see that it grows until
# it holds up one of the three workers.
TIMES_LISTED = 20
TIMES_SHARED = 3


def _loop() -> float:
    start, total = time.process_time(), 0
    for number in range(200_000):
        total += number * number % 7
    return time.process_time() - start


def slowness() -> float:
    """Return how many times as long as on the reference a computation takes now; at least 1."""
    return max(1.0, min(_loop() for _ in range(7)) / REFERENCE_S)


def _below(process: int) -> float:
    """Return the seconds of the processes below one, and of those that they have waited for."""
    seconds = 0.0
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            for child in listed.read_text().split():
                fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                seconds += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
                seconds += _below(int(child))
        except OSError:  # it has just ended
            continue
    return seconds


class Border:
    """Measures tests in the process that runs them, and judges them in the one that reports."""

    def __init__(self, config: pytest.Config) -> None:
        self.fails = config.option.border == "fail"
        shared = TIMES_SHARED if hasattr(config, "workerinput") else 1
        self.limit_s = config.option.border_limit * shared
        self.start = self.end = 0.0
        self.left_out = 0.0  # seconds of imports and of shared fixtures
        self.shared: list[tuple[str, Any]] = []
        self.shared_seconds: dict[str, float] = {}
        self.entries: dict[str, tuple[float, float, bool]] = {}
        self.problems: list[str] = []
        plain, is_outer = imports.SourceFileLoader.exec_module, True

        def timed(loader: Any, module: Any) -> None:
            nonlocal is_outer
            if not is_outer:
                return plain(loader, module)
            is_outer, start = False, time.process_time()
            try:
                return plain(loader, module)
            finally:
                is_outer = True
                self.left_out += time.process_time() - start

        imports.SourceFileLoader.exec_module = timed  # type: ignore[assignment, method-assign]
        config.add_cleanup(lambda: setattr(imports.SourceFileLoader, "exec_module", plain))

    def seconds(self) -> float:
        """Return the seconds of processor time that count, since some fixed time."""
        times = os.times()
        waited_for = times.children_user + times.children_system
        return time.process_time() + waited_for + _below(os.getpid()) - self.left_out

    def entry(self, name: str, seconds: float, *, slow: bool = False) -> tuple[str, Any]:
        """Return what reports carry: name, seconds, limit, whether it is slow by its mark alone."""
        start = time.process_time()
        limit = self.limit_s * (slowness() if seconds > self.limit_s else 1)
        self.left_out += time.process_time() - start
        return "border", (name, seconds, limit, slow)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        self.start = self.seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function":
            return (yield)
        start = self.seconds()
        try:
            return (yield)
        finally:  # also if it skips or fails
            seconds = self.seconds() - start
            self.left_out += seconds
            self.shared_seconds[fixturedef.argname] = seconds
            self.shared.append(self.entry(f"{fixturedef.baseid}::{fixturedef.argname}", seconds))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        self.end = self.seconds()

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        # Of a fixture that has been torn down already, pytest calls this again without a result.
        if fixturedef.scope == "function" and fixturedef.cached_result is not None:
            self.end = self.seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        if call.when == "teardown":
            uses = [self.shared_seconds.get(name, 0) for name in getattr(item, "fixturenames", ())]
            slow = item.get_closest_marker("slow") is not None and max(uses, default=0) < FAST_S
            measured = self.entry(item.nodeid, self.end - self.start, slow=slow)
            item.user_properties += [measured, *self.shared]
            self.shared = []
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":
            for key, value in report.user_properties:
                if key == "border":
                    name, seconds, limit, slow = cast("tuple[str, float, float, bool]", value)
                    measured = (seconds, limit, slow)
                    self.entries[name] = max(measured, self.entries.get(name, measured))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self.fails or hasattr(session.config, "workerinput"):
            return
        text = (session.config.rootpath / LISTED).read_text(encoding="utf-8")
        listed = [line.partition(" # ") for line in text.splitlines()]
        names = tuple(name.strip() for name, _, _ in listed)
        if len(listed) > MOST_LISTED:
            self.problems.append(f"{LISTED} has {len(listed)} lines: at most {MOST_LISTED}")
        for name, (_, _, reason) in zip(names, listed, strict=True):
            file = name.partition("::")[0]
            ran = [entry for entry in self.entries if entry.startswith(file)]
            is_gone = ran and session.exitstatus == 0 and not any(e.startswith(name) for e in ran)
            if is_gone or not (session.config.rootpath / file).exists() or not reason:
                self.problems.append(f"{LISTED}: {name}: no such test or no reason")
        for name, (seconds, limit, _) in sorted(self.entries.items()):
            is_listed = name.startswith(names or ("\0",))
            most = limit * TIMES_LISTED if is_listed else limit
            if seconds > most:
                remedy = "" if is_listed else f" or list it in {LISTED} with a reason"
                self.problems.append(
                    f"{name} took {seconds:.1f} s of CPU, over {most:.1f} s: mark it slow{remedy}"
                )
        if self.problems:
            session.exitstatus = session.exitstatus or 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        slowest = sorted(self.entries.items(), key=lambda entry: -entry[1][0])
        terminalreporter.section(f"most processor time (here x{slowness():.2f})", "-")
        for name, (seconds, *_) in slowest[:SHOWN]:
            terminalreporter.line(f"{seconds:7.2f} s {name}")
        fast = [f"{s:7.2f} s {name}" for name, (s, _, slow) in slowest if slow and s < FAST_S]
        if fast and not self.fails:
            terminalreporter.section(f"marked slow, but under {FAST_S} s", "-")
            terminalreporter.line("\n".join(fast))
        if self.problems:
            terminalreporter.section("over the border", "=", red=True)
            terminalreporter.line("\n".join(self.problems))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--border", choices=("fail", "show"), help="measure processor time of tests")
    parser.addoption("--border-limit", type=float, default=1.0, help="seconds, 1 without it")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.border and sys.platform == "linux":
        config.pluginmanager.register(Border(config), "border of tests")
