"""Cost of the chain of custody for `pact-eval score`, and the size of a training record.

    python benchmarks/custody.py [--records 100000 300000] [--blocks 5] [--write FILE]

An adapter with a record of random hashes, and a training file of as many records in the manifest:
the bundled records under new names. Each turn opens the bundled evaluation file (324 records) and
compares it with both; the next turn scores its first 64 records with K = 4 and the bundled adapter.
Times are CPU times, because the checks use both cores.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from common import (
    Contest,
    Timed,
    chosen_options,
    machine,
    markdown_table,
    parser,
    publish,
    versions,
)

import pact_fixtures
from pact_eval._files import sha256_of_file
from pact_eval.custody.hashed_data import HashedData, UsedFile
from pact_eval.custody.overlap import overlap_with
from pact_eval.custody.training_record import (
    TRAINING_RECORD,
    TrainingRecord,
    adapter_record,
    write_training_record,
)
from pact_eval.data.manifest import write_manifest
from pact_eval.data.opening import open_dataset
from pact_eval.models.folders import ADAPTER_WEIGHTS, read_adapter_files
from pact_eval.scoring.model import identify
from pact_eval.scoring.request import ModelRequest
from pact_eval.scoring.score import score
from pact_eval.scoring.windows import read_dataset

FIXTURES = Path(pact_fixtures.__file__).parent
ADAPTER = FIXTURES / "adapters" / "pact"
HOLDOUT = FIXTURES / "data" / "holdout.jsonl"


def make_adapter(folder: Path, records: int) -> Path:
    """Copy the bundled adapter with a record of random hashes: two records in a family."""
    folder.mkdir(parents=True)
    for name in ("adapter_config.json", ADAPTER_WEIGHTS):
        shutil.copyfile(ADAPTER / name, folder / name)
    rng = np.random.default_rng(records)
    numbers = {"records": records, "contexts": records, "families": records // 2}
    numbers["source_families"] = 34
    hashes = {
        name: np.unique(rng.integers(0, 2**64, n, dtype=np.uint64)) for name, n in numbers.items()
    }
    data = HashedData((UsedFile("train.jsonl", "0" * 64, records, None),), hashes)
    weights = sha256_of_file(folder / ADAPTER_WEIGHTS)
    write_training_record(folder, TrainingRecord(weights, {"train": data}, {}))
    return folder


def make_data(folder: Path, records: int) -> Path:
    """Write a manifest with the bundled evaluation file and a training file of many records."""
    folder.mkdir()
    shutil.copyfile(HOLDOUT, folder / "holdout.jsonl")
    lines = (FIXTURES / "data" / "train.jsonl").read_text("utf-8").split("\n")[:-1]
    with (folder / "train.jsonl").open("w", encoding="utf-8") as file:
        for number in range(records):
            line = lines[number % len(lines)]
            copy = f"copy-{number // len(lines)}-"
            line = line.replace('"id": "', f'"id": "{copy}', 1)
            file.write(line.replace('"family": "', f'"family": "{copy}', 1) + "\n")
    write_manifest(folder)
    return folder / "holdout.jsonl"


def check(adapter: Path, data: Path) -> Timed:
    """Open the data and compare them with manifest and record, as `score` does."""
    started = time.process_time()
    opened = open_dataset(data)
    record = adapter_record(read_adapter_files(adapter))
    assert record is not None  # noqa: S101 - it was written above
    overlap_with(record, opened.records)
    return Timed(time.process_time() - started)


def scored(folder: Path, records: int) -> Timed:
    """Score some records, without a training record of many records."""
    model = identify(ModelRequest(ADAPTER))
    dataset = read_dataset(HOLDOUT, k=4, limit=records)
    started = time.process_time()
    with tempfile.TemporaryDirectory(dir=folder) as out:
        score(model, dataset, Path(out) / "run", labels={})
    return Timed(time.process_time() - started)


def main() -> None:
    """Write the files, time, and print the section."""
    options = parser(__doc__)
    options.add_argument("--records", type=int, nargs="+", default=[100_000, 300_000])
    options.add_argument("--scored", type=int, default=64, help="records that a turn scores")
    arguments = chosen_options(options, blocks=1, records=[100], scored=2)
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        turn = partial(scored, home, arguments.scored)
        for records in arguments.records:
            adapter = make_adapter(home / f"adapter-{records}", records)
            data = make_data(home / f"data-{records}", records)
            contest = Contest({"check": partial(check, adapter, data), "score": turn})
            contest.run(arguments.blocks)
            size = (adapter / TRAINING_RECORD).stat().st_size / 1e6
            train = data.with_name("train.jsonl").stat().st_size / 1e6
            seconds = contest.seconds("score") / arguments.scored
            lines.append(
                [
                    f"{records:,}",
                    f"{size:.1f}",
                    f"{train:,.0f}",
                    f"{contest.seconds('check'):.2f}",
                    f"{contest.seconds('check') / seconds:.1f}",
                ]
            )
    columns = [
        "training records",
        "record, MB",
        "training file, MB",
        "check, CPU s",
        "as many items",
    ]
    text = (
        f"{machine()}; {versions('polars', 'numpy', 'torch')}; medians of {arguments.blocks} "
        "interleaved blocks, CPU times. *As many items*: how many items with K = 4 are scored in "
        f"the time of the check, on the tiny base.\n\n{markdown_table(columns, lines)}\n\n"
        "`python benchmarks/custody.py`"
    )
    publish("custody", text, arguments.write)


if __name__ == "__main__":
    main()
