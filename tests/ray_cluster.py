"""A Ray cluster with two workers on this machine, whose driver is another process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

HOLD = """
import os, sys
from pact_eval.scoring.workers.cluster import connected
from pact_eval.scoring.workers.messages import WorkersRequest
with connected(WorkersRequest(2), device="cpu", threads=1, most=2):
    import ray
    address = ray.get_runtime_context().gcs_address
    print(address, os.environ["RAY_AUTH_TOKEN"], flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_cluster() -> Iterator[dict[str, str]]:
    """Runs a cluster for two workers: its address, and the environment that reaches it.

    Its token is its own, also if this process has had a Ray, whose token is in the environment.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=clean,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address, token = process.stdout.readline().split()
        secret = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
        yield {"address": address, **secret}


def token_of(cluster: dict[str, str]) -> dict[str, str]:
    """What the environment of a process needs, to be let in."""
    return {name: value for name, value in cluster.items() if name.startswith("RAY_")}
