"""Threads of numpy in a command; the source of truth is what the library says of itself."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_PRINTED = """
import os, sys
from pact_cli.steps import load
load("numpy", one_thread=sys.argv[1] == "one")
from threadpoolctl import threadpool_info
print(*{pool["num_threads"] for pool in threadpool_info()}, os.environ.get("OPENBLAS_NUM_THREADS"))
"""


@pytest.mark.parametrize(
    ("threads", "variables", "number", "after"),
    [
        ("one", {}, 1, None),
        ("any", {"OPENBLAS_NUM_THREADS": "2"}, 2, "2"),
        ("one", {"OPENBLAS_NUM_THREADS": "2"}, 2, "2"),
        ("one", {"OMP_NUM_THREADS": "2"}, 2, None),
    ],
)
def test_one_thread_unless_the_user_has_set_a_number(
    threads: str, variables: dict[str, str], number: int, after: str | None
) -> None:
    if number > (os.cpu_count() or 1):
        pytest.skip("OpenBLAS starts no more threads than there are cores")
    ours = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    printed = subprocess.check_output(
        [sys.executable, "-c", _PRINTED, threads], env=kept | variables, text=True
    )
    assert printed.split() == [str(number), str(after)]
