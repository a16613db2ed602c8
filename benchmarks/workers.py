"""Items per second of several workers on this machine, next to one process; and whether rows agree.

    python benchmarks/workers.py --device cuda --shape 8b --workers 1 2 4 8

The model is a randomly initialised Qwen3 of `scoring_device.py`, saved to a temporary folder and
loaded by every worker, with the prompts of `scoring.py` at K = 4. On a CPU, `OMP_NUM_THREADS` sets
the threads of one process and of each worker.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import transformers
from common import chosen_options, machine, markdown_table, parser, publish, versions
from scoring import FIXTURES, PROMPT_TOKENS, SEED, make_items
from scoring_device import SHAPES, check_device, make_model

from pact_eval._files import sha256_of_file
from pact_eval.data.records import Record
from pact_eval.prompts.encoding import Encoder
from pact_eval.prompts.nimble import NIMBLE
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.score import LocalSource
from pact_eval.scoring.windows import Backend, Dataset, score_windows
from pact_eval.scoring.workers.messages import WorkersRequest
from pact_eval.scoring.workers.source import worker_source


def repeated(records: Sequence[Record], count: int) -> list[Record]:
    """Return a number of records, with an id of its own for every copy."""
    copies = -(-count // len(records))
    return [
        replace(record, id=f"{record.id}-{copy}") for copy in range(copies) for record in records
    ][:count]


def measured(source: Backend, dataset: Dataset, out: Path) -> dict[str, Any]:
    """Score a dataset, and return the content of `run.json`, with the hash of the rows."""
    score_windows(source, dataset, out, labels={})
    provenance: dict[str, Any] = json.loads((out / "run.json").read_text(encoding="utf-8"))
    return provenance | {"sha256": sha256_of_file(out / "predictions.parquet")}


def row(name: str, run: dict[str, Any], items: int) -> list[str]:
    """Return a line of the table: the rate without starts, that of the command, and the hash."""
    workers = [worker for worker in run.get("workers", ()) if worker.get("windows")]
    rate = sum(worker["items"] / worker["seconds"] for worker in workers)
    return [
        name,
        f"{rate:.2f}" if workers else "–",
        f"{items / run['wall_seconds']:.2f}",
        f"{run['wall_seconds']:.0f}",
        run["sha256"][:8],
    ]


def main() -> None:
    """Run the benchmark."""
    options = parser(__doc__, blocks=None)
    options.add_argument("--device", default="cpu", help="cpu or cuda")
    options.add_argument("--shape", choices=list(SHAPES), default="small")
    options.add_argument("--dtype", default="float32", help="dtype of the weights on disk")
    options.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    options.add_argument("--items", type=int, default=512, help="records to score")
    options.add_argument("--tokens", type=int, default=PROMPT_TOKENS, help="of a prompt, at least")
    chosen = chosen_options(options, workers=[1], items=2, tokens=1)
    check_device(chosen.device)
    transformers.utils.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(FIXTURES / "model")
    records = make_items(Encoder(tokenizer, NIMBLE), 32, chosen.tokens).pairs
    data = FIXTURES / "data" / "holdout.jsonl"
    dataset = Dataset(data, sha256_of_file(data), repeated(records, chosen.items), 4, SEED)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name) / "base"
        make_model(chosen.shape, "cpu", chosen.dtype).save_pretrained(base)
        tokenizer.save_pretrained(base)
        request = ModelRequest(None, str(base), device=chosen.device)
        alone = measured(LocalSource(identify(request)), dataset, Path(name) / "alone")
        rows = [row("one process", alone, chosen.items)]
        for count in chosen.workers:
            source = worker_source(request, WorkersRequest(count))
            run = measured(source, dataset, Path(name) / str(count))
            rows.append(row(f"--workers {count}", run, chosen.items))
    threads = torch.get_num_threads()
    head = ["run", "items per second, scoring", "with the start", "wall time, s", "SHA-256 of rows"]
    parts = [
        f"{machine(chosen.device)}; {versions('torch', 'transformers', 'ray')}; {threads} thread"
        f"{'' if threads == 1 else 's'} each. A random Qwen3 of shape {chosen.shape}, "
        f"{chosen.items} records at K = 4.",
        markdown_table(head, rows),
    ]
    publish("workers", "\n\n".join(parts), chosen.write)


if __name__ == "__main__":
    main()
