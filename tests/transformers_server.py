"""`transformers serve` as a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

SERVER = "from transformers.cli.transformers import main; main()"


@contextmanager
def serving(model: Path, *dtype: str) -> Iterator[str]:
    """Serve a folder on a free port on the CPU, in float32 unless words name another precision."""
    pytest.importorskip("uvicorn", reason="transformers[serving] is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-c", SERVER, "serve", str(model)),
        *("--host", "127.0.0.1", "--port", str(port), "--device", "cpu"),
        *(dtype or ("--dtype", "float32")),
    ]
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    with process_at(f"http://127.0.0.1:{port}", command, environment) as url:
        yield url


@contextmanager
def process_at(
    url: str, command: Sequence[str], environment: Mapping[str, str], health: str = "/health"
) -> Iterator[str]:
    """Start a server, and yield its address once a page of it answers; then end it."""
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=nowhere, stderr=nowhere, env=environment) as process:
        try:
            wait_for(url + health, process)
            yield url
        finally:
            process.terminate()


def wait_for(page: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a page answers, at most five minutes."""
    for _ in range(1500):
        assert process.poll() is None, "the server has ended"
        with suppress(httpx2.TransportError):
            if httpx2.get(page, trust_env=False).status_code == 200:
                return
        time.sleep(0.2)
    pytest.fail("the server did not start")
