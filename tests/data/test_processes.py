"""Work in another process; the source of truth is the same work in this one."""

from __future__ import annotations

import os
import subprocess
import time
from functools import partial

import pytest

from pact_eval.data.processes import another_process

DIES = "__import__('os')._exit(1) if __import__('os').getpid() != {here} else 7"


def test_the_result_is_that_of_another_process_whatever_it_prints() -> None:
    with another_process(os.getpid) as result:
        assert result() != os.getpid()
    with another_process(partial(print, "loud")) as nothing:
        assert nothing() is None


def test_an_error_is_raised_here() -> None:
    with another_process(partial(int, "x")) as result, pytest.raises(ValueError, match="invalid"):
        result()


def test_work_of_a_process_that_dies_is_done_here() -> None:
    with another_process(partial(eval, DIES.format(here=os.getpid()))) as result:
        assert result() == 7


def test_the_process_ends_with_the_block() -> None:
    started = time.monotonic()
    with another_process(partial(time.sleep, 600)):
        pass
    assert time.monotonic() - started < 60
    children = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "args="],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "work_for_parent" not in children.stdout
