"""Against the system's own count of page faults, in processes of their own."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

_CHILD = """
import resource
import torch
from pact_eval.scoring.cpu_tuning import keep_freed_memory

if {keep}:
    assert keep_freed_memory()
for _ in range(20):  # the heap grows until blocks fit into what others left
    torch.ones(10_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    torch.ones(10_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(*, keep: bool) -> int:
    command = [sys.executable, "-c", _CHILD.format(keep=keep)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no mallopt")
def test_freed_memory_is_kept_against_the_count_of_page_faults() -> None:
    given_back, kept = _faults(keep=False), _faults(keep=True)
    assert given_back > 50_000
    assert kept < given_back / 4
