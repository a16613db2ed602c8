"""The border of `make test` finds long tests, shared fixtures and child processes."""

from __future__ import annotations

import border
import pytest

PLANTED = """
import subprocess, sys, time
from pathlib import Path
import pytest

def busy(): sum(range(10 ** 7))

@pytest.fixture(scope="module")
def shared():
    busy()

@pytest.fixture(scope="module")
def missing():
    pytest.skip("this machine lacks it")

@pytest.fixture
def teardown():
    yield
    busy()

def test_of_shared(shared): pass
def test_of_missing(missing): pass
def test_teardown(teardown): pass
def test_busy(): busy()
def test_listed(): busy()
def test_waiting(): time.sleep(0.5)
def test_child(): subprocess.run([sys.executable, "-c", "sum(range(10 ** 7))"])
def test_import(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    import long_import
@pytest.mark.slow
def test_fast(): pass
"""
OPTIONS = ("-p", "border", "--border-limit=0.04")
LISTED = "test_planted.py::test_listed   # a reason\n"


@pytest.fixture
def planted(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with planted tests, of which the long ones take about 0.1 s."""
    pytester.makepyfile(test_planted=PLANTED, long_import="sum(range(10 ** 7))")
    pytester.makeini("[pytest]\nmarkers = slow")
    pytester.mkdir("tests")
    (pytester.path / border.LISTED).write_text(LISTED)
    return pytester


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n1", "--border-limit=0.02"), marks=pytest.mark.slow)]
)
def test_what_takes_long_fails_the_run(planted: pytest.Pytester, workers: tuple[str, ...]) -> None:
    result = planted.runpytest_inprocess(*OPTIONS, "--border=fail", "-k", "not missing", *workers)
    assert result.ret == 1
    result.assert_outcomes(passed=8)
    text = result.stdout.str().partition("over the border")[2]
    named = {line.partition(" took")[0] for line in text.splitlines() if " took " in line}
    over = ("shared", "test_teardown", "test_busy", "test_child")
    assert named == {f"test_planted.py::{name}" for name in over}


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        (LISTED * 41, "has 41 lines"),
        ("test_planted.py::test_gone   # reason\n", "no such test"),
        ("test_gone.py   # reason\n", "no such test"),
        ("test_planted.py\n", "no reason"),
        ("test_planted.py::missing   # a fixture that skips\n", ""),
        ("test_planted.py   # all of it\n", ""),
    ],
)
def test_the_list_is_short_and_true(planted: pytest.Pytester, listed: str, problem: str) -> None:
    (planted.path / border.LISTED).write_text(listed)
    options = ("-p", "border", "--border=fail", "-k", "waiting or missing or test_fast")
    result = planted.runpytest_inprocess(*options)
    assert (result.ret == 1) == bool(problem)
    assert problem in result.stdout.str()


def test_a_listed_test_has_a_limit_too(
    planted: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(border, "TIMES_LISTED", 1)
    result = planted.runpytest_inprocess(*OPTIONS, "--border=fail", "-k", "listed")
    assert result.ret == 1
    assert "test_listed took" in result.stdout.str()


def test_slow_tests_that_are_fast_are_shown(planted: pytest.Pytester) -> None:
    result = planted.runpytest_inprocess(*OPTIONS, "--border=show", "-k", "fast")
    assert result.ret == 0
    shown = result.stdout.str().partition("marked slow")[2]
    assert "test_planted.py::test_fast" in shown
