"""Near duplicates in large datasets: time, memory, and recall on planted copies.

    python benchmarks/near_duplicates.py [--records 10000 20000 100000 1000000] [--write FILE]

Each size is a dataset of two files, nine tenths of it for training, searched in its own process. A
context has 13 random sentences of the fixtures' generator with changed digits. The second file also
has copies of training pairs with 1 to 12% of the words replaced. Both files have copies of one
template that differ in two numbers. The cosine of a copy and its source is estimated by
scikit-learn's `TfidfVectorizer` with the document frequencies of 20,000 contexts. It is up to 0.03
too high or too low, so copies with an estimate of 0.83 or more must be found. Times are CPU times
on one core, so the search has one process, and other processes on the machine do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from common import chosen_options, machine, markdown_table, parser, publish, versions
from sklearn.feature_extraction.text import TfidfVectorizer

from pact_eval.audit.findings import Collector
from pact_eval.audit.near_duplicates import add_near_duplicates
from pact_eval.data.contexts import context_text, folded, leaf_texts
from pact_eval.data.files import DataFile
from pact_eval.data.index import Index, index_of_records
from pact_eval.errors import Place
from pact_fixtures.generator.dataset import generate_base_records
from pact_fixtures.generator.difficulty import FULL

Pair = tuple[str, str]

VARIANTS = ("base", "counterfactual")
SIZES = (10_000, 20_000, 100_000, 1_000_000)
THRESHOLD = 0.8
SAMPLE = 20_000  # contexts for the document frequencies of the planted
TRAIN_SHARE = 0.9
PLANTED_SHARE, MOST_PLANTED = 0.02, 1_000  # pairs that are edited copies
COPIES_SHARE = 0.01  # pairs of the template
MOST_EDITED_SHARE = 0.12
N_SENTENCES = 13
TEMPLATE = (
    "Clerk: The parcel {} reached the depot by the river gate before noon. Guard: It was weighed, "
    "sealed and entered in the ledger of the north hall. Clerk: The receipt names shelf {}. Guard: "
    "Nobody has asked for it since, and the seal was whole when the hall was closed for the night."
)
HEAD = (
    "records",
    "index, CPU s",
    "near duplicates, CPU s",
    "peak memory, MiB",
    "exact",
    "planted, found",
)


class Places(Collector):
    """Keeps no findings, but the ids of the records that are near duplicates across files."""

    def __init__(self) -> None:
        super().__init__("separation", keep=0)
        self.across: set[str | None] = set()

    def add(self, code: str, place: Place, expected: str, actual: str, _: Any = None) -> None:
        """Count a finding."""
        super().add(code, place, expected, actual)
        if code == "near-duplicate":
            self.across.add(place.record_id)


def main() -> None:
    """Search datasets of growing size, each in a process, and publish the table."""
    options = parser(__doc__, blocks=None)
    options.add_argument("--records", type=int, nargs="+", default=SIZES)
    options.add_argument("--pool", type=int, default=4_000, help="contexts that give sentences")
    options.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = chosen_options(options, records=[1_000], pool=200)
    if arguments.one:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        sys.stdout.write(json.dumps(row_of(arguments.one, arguments.pool)))
        return
    rows = []
    for n_records in arguments.records:
        command = [sys.executable, __file__, "--one", str(n_records)]
        command += ["--pool", str(arguments.pool)]
        made = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 -- this script
        rows.append(json.loads(made.stdout))
        sys.stderr.write(f"{rows[-1]}\n")
    packages = versions("numpy", "scipy", "scikit-learn", "polars")
    text = f"{machine()}; {packages}; one run per size.\n\n{markdown_table(HEAD, rows)}"
    publish("near-duplicates", f"{text}\n\n`python benchmarks/near_duplicates.py`", arguments.write)


def row_of(n_records: int, n_pool: int) -> list[str]:
    """Write a dataset, index it, search it, and return time and memory."""
    with tempfile.TemporaryDirectory() as folder:
        files = [
            DataFile(f"{role}.jsonl", role, Path(folder, f"{role}.jsonl"))
            for role in ("train", "eval")
        ]
        planted = write_dataset(files, n_records, n_pool)
        started = time.process_time()
        index = index_of_records(files)
        indexed = time.process_time()
        places = Places()
        measured, _ = add_near_duplicates(index, places, threshold=THRESHOLD)
        searched = time.process_time()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        near = planted_cosines(index, planted) >= THRESHOLD + 0.03  # it is an estimate
    ids = [[f"planted-{n}-{variant}" for variant in VARIANTS] for n in range(len(planted))]
    detected = np.array([not places.across.isdisjoint(pair) for pair in ids])
    return [
        f"{n_records:,}",
        f"{indexed - started:.0f}",
        f"{searched - indexed:.0f}",
        f"{peak:,.0f}",
        "yes" if measured.exact else "no",
        f"{(detected & near).sum()} of {near.sum()}",
    ]


def write_dataset(files: list[DataFile], n_records: int, n_pool: int) -> list[tuple[Pair, Pair]]:
    """Write the two files; return the planted pairs, each behind its source.

    Sources are the first pairs of the training file.
    """
    rng = np.random.default_rng(3)
    n_pairs = n_records // 2
    n_planted = min(int(PLANTED_SHARE * n_pairs), MOST_PLANTED)
    n_copies = int(COPIES_SHARE * n_pairs)
    n_drawn = n_pairs - n_planted - n_copies
    pairs = drawn_pairs(rng, n_pool)
    numbers = rng.integers(1_000, 10_000, (n_copies, 3)).tolist()
    copies = [(TEMPLATE.format(n, one), TEMPLATE.format(n, other)) for n, one, other in numbers]
    n_train = int(TRAIN_SHARE * n_drawn)
    n_train_copies = int(TRAIN_SHARE * n_copies)
    sources = list(islice(pairs, n_planted))
    planted = []
    for pair in sources:
        share, seed = rng.uniform(0.01, MOST_EDITED_SHARE), int(rng.integers(2**32))
        base, other = (edited(text, share, np.random.default_rng(seed)) for text in pair)
        planted.append((base, other))
    drawn = islice(pairs, n_train - n_planted)
    with files[0].path.open("w") as train:
        for name, some in (("source", sources), ("train", drawn), ("of", copies[:n_train_copies])):
            train.writelines(lines(name, "train", some))
    drawn = islice(pairs, n_drawn - n_train)
    with files[1].path.open("w") as others:
        for name, some in (("eval", drawn), ("planted", planted), ("as", copies[n_train_copies:])):
            others.writelines(lines(name, "validation", some))
    return list(zip(sources, planted, strict=True))


def drawn_pairs(rng: np.random.Generator, n_pool: int) -> Iterator[Pair]:
    """Yield pairs of contexts of drawn sentences; the last sentence of a pair's members differs."""
    long = replace(FULL, n_turns=(9, 12), n_extra_sentences=(2, 5))
    pool = [
        sentence
        for record in islice(generate_base_records(3, long), n_pool)
        for text in leaf_texts(record["input"]["state"])
        for sentence in re.split(r"(?<=[.?!”]) |\n", text)
    ]
    while True:
        drawn = rng.integers(len(pool), size=(1_000, N_SENTENCES + 1)).tolist()
        other_digits = rng.permuted(np.tile(np.arange(10), (1_000, 1)), axis=1).tolist()
        for places, order in zip(drawn, other_digits, strict=True):
            digits = str.maketrans("0123456789", "".join(map(str, order)))
            *shared, one, other = (pool[place].translate(digits) for place in places)
            yield " ".join([*shared, one]), " ".join([*shared, other])


def lines(name: str, split: str, pairs: Any) -> Iterator[str]:
    """Yield the records of pairs of contexts as JSON lines."""
    question = {"type": "noul", "instructions": "Is the seal intact?"}
    for number, pair in enumerate(pairs):
        for variant, state in zip(VARIANTS, pair, strict=True):
            record = {
                "id": f"{name}-{number}-{variant}",
                "family": f"{name}-{number}",
                "source_family": f"{name}-{number // 6}",
                "split": split,
                "domain": "travel",
                "variant": variant,
                "input": {"state": state, "questions": {"decision": question}},
                "reference": {"target": variant == "base"},
            }
            yield f"{json.dumps(record, ensure_ascii=False)}\n"


def edited(text: str, share: float, rng: np.random.Generator) -> str:
    """Replace a share of the words of a text."""
    words = text.split(" ")
    replaced = rng.random(len(words)) < share
    made = ["".join(rng.choice(list("aeioulmnrst"), 6)) for _ in words]
    return " ".join(
        new if chosen else old for chosen, new, old in zip(replaced, made, words, strict=True)
    )


def planted_cosines(index: Index, planted: list[tuple[Pair, Pair]]) -> npt.NDArray[np.float64]:
    """Return the cosine of the base context of each copy to that of its source, by scikit-learn.

    Its document frequencies are those of a sample, scaled, or of the planted pairs where larger.
    """
    n, n_sample = len(index), min(SAMPLE, len(index))
    rows = np.random.default_rng(2).choice(n, n_sample, replace=False)
    others = [context_text(member.record.state) for member in index.read(np.sort(rows).tolist())]
    texts = [folded(text) for pairs in planted for pair in pairs for text in pair]
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(5, 5))
    counts = vectorizer.fit_transform(texts)
    sampled = vectorizer.transform([folded(text) for text in others])
    frequency, least = (
        np.bincount(matrix.indices, minlength=counts.shape[1]) for matrix in (sampled, counts)
    )
    frequency = np.maximum(frequency * (n / n_sample), least)
    vectorizer.idf_ = np.log((1 + n) / (1 + frequency)) + 1
    vectors = vectorizer.transform(texts)
    left, right = vectors[0::4], vectors[2::4]
    cosines: npt.NDArray[np.float64] = np.asarray(left.multiply(right).sum(axis=1)).ravel()
    return cosines


if __name__ == "__main__":
    main()
