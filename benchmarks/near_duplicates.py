"""Near duplicates in a large dataset: time, memory, and how many planted ones are found.

    python benchmarks/near_duplicates.py [--records 300000] [--planted 1000] [--copies 10000]

Writes a dataset of two files, nine tenths of it for training: generated pairs with contexts of 600
to 1,100 characters; in the other file also training pairs of which 1 to 12% of the words were
replaced; and, in both files, copies of one template that differ in two numbers. How near a planted
copy is, scikit-learn says, with the document frequencies of 20,000 contexts.
"""

from __future__ import annotations

import argparse
import copy
import json
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import TfidfVectorizer

from pact_eval.audit.findings import Collector
from pact_eval.audit.neighbours import add_near_duplicates
from pact_eval.data import DataFile, Index, context_text
from pact_eval.data.index import index_of_records
from pact_eval.errors import Place
from pact_fixtures.generator import FULL, generate_base_records

Pair = list[dict[str, Any]]

TRAIN_SHARE = 0.9
MOST_EDITED_SHARE = 0.12
TEMPLATE = (
    "Clerk: The parcel {} reached the depot by the river gate before noon. Guard: It was weighed, "
    "sealed and entered in the ledger of the north hall. Clerk: The receipt names shelf {}. Guard: "
    "Nobody has asked for it since, and the seal was whole when the hall was closed for the night."
)


class Places(Collector):
    """Keeps no findings, but the ids of the records that are near duplicates across files."""

    def __init__(self) -> None:
        super().__init__("separation", keep=0)
        self.across: set[str | None] = set()

    def add(self, code: str, place: Place, expected: str, found: str, _: Any = None) -> None:
        """Count a finding."""
        super().add(code, place, expected, found)
        if code == "near-duplicate":
            self.across.add(place.record_id)


def main() -> None:
    """Write the dataset, index it, search it, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--planted", type=int, default=1_000, help="edited copies of pairs")
    parser.add_argument("--copies", type=int, default=10_000, help="pairs of one template")
    parser.add_argument("--threshold", type=float, default=0.8)
    arguments = parser.parse_args()
    packages = ("numpy", "scipy", "scikit-learn", "polars")
    sys.stdout.write(
        f"{platform.machine()}, {platform.python_implementation()} {platform.python_version()}; "
        + ", ".join(f"{name} {version(name)}" for name in packages)
        + "\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        files = [
            DataFile("train.jsonl", "train", Path(folder, "train.jsonl")),
            DataFile("eval.jsonl", "eval", Path(folder, "eval.jsonl")),
        ]
        started = time.perf_counter()
        planted = write_dataset(files, arguments.records, arguments.planted, arguments.copies)
        _print_cost("writing the dataset", started)
        started = time.perf_counter()
        index = index_of_records(files)
        _print_cost(f"index of {len(index):,} records", started)
        search(index, planted, arguments.threshold)


def search(index: Index, planted: list[tuple[Pair, Pair]], threshold: float) -> None:
    """Search near duplicates; print time, memory and how many planted ones were found."""
    places = Places()
    rng = np.random.default_rng(1)
    started = time.perf_counter()
    measured = add_near_duplicates(index, places, threshold=threshold, rng=rng)
    _print_cost("near duplicates", started)
    sys.stdout.write(f"{measured}\n{dict(places.result('').counts)}\n")
    found = np.array([any(each["id"] in places.across for each in pair) for _, pair in planted])
    cosine = planted_cosines(index, planted)
    bounds = [0.0, threshold - 0.02, threshold, threshold + 0.02, threshold + 0.1, 1.01]
    for low, high in pairwise(bounds):
        some = found[(cosine >= low) & (cosine < high)]
        sys.stdout.write(f"planted, cosine {low:.2f} to {high:.2f}: {some.sum()} of {len(some)}\n")


def planted_cosines(index: Index, planted: list[tuple[Pair, Pair]]) -> npt.NDArray[np.float64]:
    """Return the larger cosine of the two members of each planted pair, by scikit-learn.

    Its vocabulary holds the planted words too, its document frequencies are those of a sample.
    """
    rows = np.random.default_rng(2).choice(len(index), min(20_000, len(index)), replace=False)
    others = [context_text(each.record.state) for each in index.read(np.sort(rows).tolist())]
    texts = [
        [context_text(pair[member]["input"]["state"]) for pair in pairs]
        for member in (0, 1)
        for pairs in zip(*planted, strict=True)
    ]
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(5, 5))
    vectorizer.fit([*others, *(text for some in texts for text in some)])
    sampled = vectorizer.transform(others)
    frequency = np.bincount(sampled.indices, minlength=sampled.shape[1])
    vectorizer.idf_ = np.log((1 + len(others)) / (1 + frequency)) + 1
    vectors = [vectorizer.transform(some) for some in texts]
    cosines = [
        np.asarray(left.multiply(right).sum(axis=1)).ravel()
        for left, right in (vectors[:2], vectors[2:])
    ]
    larger: npt.NDArray[np.float64] = np.maximum(*cosines)
    return larger


def write_dataset(
    files: list[DataFile], n_records: int, n_planted: int, n_copies: int
) -> list[tuple[Pair, Pair]]:
    """Write the two files; return the planted copies, each behind what it is a copy of."""
    rng = np.random.default_rng(3)
    n_pairs = n_records // 2 - n_planted - n_copies
    n_train = int(n_pairs * TRAIN_SHARE)
    sources = set(rng.choice(n_train, n_planted, replace=False).tolist())
    planted: list[tuple[Pair, Pair]] = []
    with files[0].path.open("w") as train, files[1].path.open("w") as others:
        for number, pair in zip(range(n_pairs), generated_pairs(), strict=False):
            _write(train if number < n_train else others, pair)
            if number in sources:
                planted.append((pair, edited(pair, f"planted-{number}", rng)))
                _write(others, planted[-1][1])
        for number in range(n_copies):
            to_train = number < n_copies * TRAIN_SHARE
            _write(train if to_train else others, of_template(pair, f"copy-{number}", rng))
    return planted


def generated_pairs() -> Iterator[Pair]:
    """Yield pairs of records with longer contexts than those of the fixtures' dataset."""
    long = replace(FULL, n_turns=(9, 12), n_extra_sentences=(2, 5))
    records = generate_base_records(3, long)
    while True:
        yield [next(records), next(records)]


def edited(pair: Pair, family: str, rng: np.random.Generator) -> Pair:
    """Return a pair of another family with a share of the words of its contexts replaced."""
    share = rng.uniform(0.01, MOST_EDITED_SHARE)
    seed = int(rng.integers(2**32))
    records = renamed(pair, family)
    for record in records:
        state = record["input"]["state"]
        record["input"]["state"] = _replaced(state, share, np.random.default_rng(seed))
    return records


def of_template(pair: Pair, family: str, rng: np.random.Generator) -> Pair:
    """Return a pair of another family that has the template for its contexts."""
    records = renamed(pair, family)
    parcel, *shelves = rng.integers(10, 10_000, 3).tolist()
    for record, shelf in zip(records, shelves, strict=True):
        record["input"]["state"] = TEMPLATE.format(parcel, shelf)
    return records


def renamed(pair: Pair, family: str) -> Pair:
    """Return a copy of a pair under the name of another family."""
    records = copy.deepcopy(pair)
    for record in records:
        record |= {"id": f"{family}-{record['variant']}", "family": family}
    return records


def _replaced(value: Any, share: float, rng: np.random.Generator) -> Any:
    """Replace words in all texts of a JSON value."""
    if isinstance(value, str):
        words = value.split(" ")
        return " ".join(
            "".join(rng.choice(list("aeioulmnrst"), 6)) if rng.random() < share else word
            for word in words
        )
    if isinstance(value, list):
        return [_replaced(each, share, rng) for each in value]
    if isinstance(value, dict):
        return {key: _replaced(each, share, rng) for key, each in value.items()}
    return value


def _write(file: TextIO, pair: Pair) -> None:
    file.writelines(f"{json.dumps(record, ensure_ascii=False)}\n" for record in pair)


def _print_cost(what: str, started: float) -> None:
    seconds = time.perf_counter() - started
    mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"{what}: {seconds:.1f} s; peak RSS so far {mebibytes:,.0f} MiB\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
