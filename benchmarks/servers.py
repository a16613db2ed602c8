"""Requests per second and memory of the client, against a server that answers at once.

    python benchmarks/servers.py            # needs the extra `server`

The server is another process on the loopback interface that reads a request and sends the same
answer. What is measured is the rest: making, sending, reading and checking requests, and writing
the run.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from common import chosen_options, machine, parser, versions

ANSWER = {
    "model": "null",
    "answers": {"decision": {"type": "noul", "noul": 0.2517}},
    "usage": {"input_tokens": 300, "output_tokens": 0},
}


class NullServer(asyncio.Protocol):
    """Answers every request with the same bytes."""

    body = json.dumps(ANSWER).encode()
    response = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body

    def connection_made(self, transport: Any) -> None:
        """Keep the connection."""
        self.transport = transport
        self.read = b""

    def data_received(self, data: bytes) -> None:
        """Answer each request that is complete."""
        self.read += data
        while (end := self.read.find(b"\r\n\r\n")) >= 0:
            head = self.read[:end].lower()
            at = head.find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.read) < end + 4 + length:
                return
            self.read = self.read[end + 4 + length :]
            self.transport.write(self.response)


def serve(port: Any) -> None:
    """Serve on a free port, which is sent through a pipe."""

    async def forever() -> None:
        server = await asyncio.get_running_loop().create_server(NullServer, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(forever())


def write_records(path: Path, items: int) -> None:
    """Write booleans with a context of 2,000 characters."""
    with path.open("w") as file:
        for number in range(items):
            value = {
                "id": f"i{number}",
                "family": f"f{number // 2}",
                "source_family": f"s{number % 20}",
                "split": "validation",
                "domain": "d",
                "variant": "base" if number % 2 == 0 else "counterfactual",
                "input": {
                    "state": f"{number} " * (2000 // (len(str(number)) + 1)),
                    "questions": {"decision": {"type": "noul", "instructions": "Is it so?"}},
                },
                "reference": {"target": number % 2 == 0},
            }
            file.write(json.dumps(value) + "\n")


def main() -> None:
    """Print the rate and the memory."""
    made = parser(__doc__, blocks=None)
    made.add_argument("--items", type=int, default=100_000)
    made.add_argument("--concurrency", type=int, default=8)
    options = chosen_options(made, items=20)
    from pact_eval.scoring.servers.request import ServerRequest
    from pact_eval.scoring.servers.source import server_source
    from pact_eval.scoring.windows import read_dataset, score_windows

    here, there = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(there,), daemon=True)
    process.start()
    url = f"http://127.0.0.1:{here.recv()}"
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "d.jsonl"
        write_records(data, options.items)
        dataset = read_dataset(data, k=1)
        samples: list[float] = []
        ended = threading.Event()
        sampler = threading.Thread(target=sample, args=(samples, ended))
        sampler.start()
        request = ServerRequest((url,), "null", concurrency=options.concurrency, probe=False)
        started, cpu = time.perf_counter(), time.process_time()
        score_windows(server_source(request), dataset, Path(folder) / "run", labels={})
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    ended.set()
    sampler.join()
    process.terminate()
    memory = ", ".join(
        f"{samples[len(samples) * share // 100]:,.0f} MiB at {share}%" for share in (10, 50, 90)
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rate = f"{options.items:,} items, {options.items / seconds:,.0f} requests per second"
    sys.stdout.write(
        f"{machine()}; {versions('httpx2', 'polars')}\n"
        f"{rate}, {1000 * cpu / options.items:.2f} ms of CPU time per request\n"
        f"memory: {memory}; peak {peak:,.0f} MiB\n"
    )


def sample(samples: list[float], ended: threading.Event) -> None:
    """Note the memory, now and then twice a second."""
    samples.append(memory_mib())
    while not ended.wait(0.5):
        samples.append(memory_mib())


def memory_mib() -> float:
    """Return the memory of this process now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


if __name__ == "__main__":
    main()
