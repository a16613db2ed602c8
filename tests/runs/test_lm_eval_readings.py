"""Random logs of lm-evaluation-harness of known truth: an import states it, or refuses.

The writer follows `process_results` of multiple-choice tasks in lm_eval 0.4.13: positions count
from 0, the first of equal scores is the answer, lengths are of the choices without the delimiter.
"""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from logs import read_rows
from pact_eval.errors import InputError
from pact_eval.importing.source import ImportedRows

DATE = "2026-01-05T10-00-00.000001"
METRICS = ("acc", "acc_norm", "acc_bytes", "acc_mutual_info")
WORDS = ("Ana", "Benjamin", "Zoë", "at home", "1", "2", "yes", "no", " spaced", "猫")


@dataclass
class Truth:
    """What a log was written from."""

    accuracy: float
    nll: float
    families: int


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def choices_of(draw: random.Random, kind: str) -> list[str]:
    count = draw.randint(2, 4)
    if kind == "words":
        return draw.sample(WORDS, count)
    first = {"letters": "A", "digits": "0", "digits from 1": "1", "one letter": "一"}[kind]
    return [chr(ord(first) + at) for at in range(count)]


def answers(
    lls: npt.NDArray[np.float64], alone: npt.NDArray[np.float64], choices: list[str]
) -> dict[str, npt.NDArray[np.float64]]:
    """The scores of each metric, as the harness computes them."""
    characters = np.array([float(len(choice)) for choice in choices])
    length_in_bytes = np.array([float(len(choice.encode())) for choice in choices])
    return {
        "acc": lls,
        "acc_norm": lls / characters,
        "acc_bytes": lls / length_in_bytes,
        "acc_mutual_info": lls - alone,
    }


class Writer:
    """Writes one random log."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        self.kind = draw.choice(("letters", "digits", "digits from 1", "one letter", "words"))
        self.fixed = choices_of(draw, self.kind) if self.kind != "words" else []
        self.form = draw.choice(("position", "text", "list"))
        logged = draw.choice(
            (("acc",), ("acc_norm",), ("acc", "acc_norm"), METRICS, ("acc_bytes",))
        )
        self.metrics = draw.choice((logged, logged, logged, ()))
        self.pairs = draw.sample(("f1", "mcc", "brier_score"), draw.choice((0, 0, 1)))
        self.chat = draw.random() < 0.3
        self.delimiter = draw.choice((" ", " ", "\n", ""))
        self.has_results = draw.random() < 0.8
        self.shown = "" if self.chat else self.delimiter
        self.old = draw.random() < 0.15
        self.skill = draw.random() * 4

    def line(
        self, doc_id: int, doc: dict[str, Any], gold: int
    ) -> tuple[dict[str, Any], float, bool]:
        choices = doc["choices"]
        lls = -np.array([self.draw.choice((1.0, 2.5, self.draw.random() * 9)) for _ in choices])
        lls[gold] = min(-0.01, lls[gold] + self.skill)
        alone = -np.array([self.draw.random() * 9 for _ in choices])
        scores = answers(lls, alone, choices)
        target = {"position": gold, "text": choices[gold], "list": [gold]}[self.form]
        pairs = [(f"q{doc_id}", self.shown + choice) for choice in choices]
        values = [*lls]
        if "acc_mutual_info" in self.metrics:
            pairs += [("", self.shown + choice) for choice in choices]
            values += [*alone]
        row = {
            "doc_id": doc_id,
            "doc": doc,
            "target": target if self.old else str(target),
            "arguments": pairs if self.old else self.requests(pairs),
            "filtered_resps": [[v, False] if self.old else [str(v), "False"] for v in values],
            "doc_hash": sha256(json.dumps(doc)),
            "prompt_hash": sha256(pairs[0][0]),
            "target_hash": sha256(str(target)),
            **{name: float(np.argmax(scores[name]) == gold) for name in self.metrics},
        }
        second = {"brier_score": "[0.5 0.5]"}
        row |= {name: [gold, second.get(name, int(np.argmax(lls)))] for name in self.pairs}
        used = scores[next((name for name in METRICS if name in self.metrics), "acc")]
        nll = float(np.log(np.exp(used - used.max()).sum()) + used.max() - used[gold])
        return row, nll, bool(np.argmax(used) == gold)

    @staticmethod
    def requests(pairs: list[tuple[str, str]]) -> dict[str, dict[str, str]]:
        named = ({"arg_0": context, "arg_1": continuation} for context, continuation in pairs)
        return {f"gen_args_{at}": request for at, request in enumerate(named)}

    def write(self, folder: Path) -> Truth:
        docs = []
        for at in range(self.draw.randint(1, 25)):
            listed = self.fixed or choices_of(self.draw, "words")
            docs.append(({"q": at, "choices": listed}, self.draw.randrange(len(listed))))
        docs += self.draw.sample(docs, self.draw.choice((0, 0, len(docs) // 2)))
        lines = [self.line(doc_id, *doc) for doc_id, doc in enumerate(docs)]
        rows = [row for row, _, _ in lines]
        name = "org__m_task.jsonl" if self.old else f"samples_task_{DATE}.jsonl"
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / name).write_text(json.dumps(rows, indent=2) if self.old else text, "utf-8")
        if self.has_results:
            self.write_results(folder, rows)
        families = len({row["doc_hash"] for row in rows})
        right = [counted for _, _, counted in lines]
        return Truth(float(np.mean(right)), float(np.mean([nll for _, nll, _ in lines])), families)

    def write_results(self, folder: Path, rows: list[dict[str, Any]]) -> None:
        means = {f"{name},none": np.mean([row[name] for row in rows]) for name in self.metrics}
        hashes = "".join(row["doc_hash"] + row["prompt_hash"] + row["target_hash"] for row in rows)
        results = {
            "results": {"task": means},
            "configs": {"task": {"target_delimiter": self.delimiter}},
            "n-shot": {"task": 0},
            "n-samples": {"task": {"original": len(rows), "effective": len(rows)}},
            "lm_eval_version": "0.4.13",
            "task_hashes": {"task": sha256(hashes)},
            "chat_template": "{{ messages }}" if self.chat else None,
        }
        name = "results.json" if self.old else f"results_{DATE}.json"
        (folder / name).write_text(json.dumps(results, indent=2))


def check(imported: ImportedRows, truth: Truth) -> None:
    frame = imported.frame
    correct, nll = [], []
    for logits, reference in zip(frame["logits"], frame["reference"], strict=True):
        values = np.array(logits)
        correct.append(np.argmax(values) == reference)
        nll.append(np.log(np.exp(values - values.max()).sum()) + values.max() - values[reference])
    assert np.mean(correct) == pytest.approx(truth.accuracy, abs=1e-9)
    assert np.mean(nll) == pytest.approx(truth.nll, abs=1e-9)
    assert frame["family"].n_unique() == truth.families


@pytest.mark.parametrize(
    "block", [0, *(pytest.param(block, marks=pytest.mark.slow) for block in range(1, 5))]
)
def test_a_random_log_is_read_right_or_refused(tmp_path: Path, block: int) -> None:
    read, refused = 0, []
    for seed in range(40 * block, 40 * block + 40):
        folder = tmp_path / str(seed)
        folder.mkdir()
        writer = Writer(seed)
        truth = writer.write(folder)
        try:
            imported = read_rows(folder)
        except InputError as error:
            proven = bool(writer.metrics or writer.pairs)
            refused += [str(error)] if proven else []
        else:
            check(imported, truth)
            read += 1
    assert read > 20
    # What the log proves is read, unless both readings fit all of it.
    expected = ("can be read in", "equal log-likelihoods")
    assert not [message for message in refused if not any(words in message for words in expected)]


def test_one_outcome_that_is_changed_is_refused(tmp_path: Path) -> None:
    changed = 0
    for seed in range(60):
        writer = Writer(seed)
        if writer.old or not writer.metrics or not writer.has_results:
            continue
        folder = tmp_path / str(seed)
        folder.mkdir()
        writer.write(folder)
        (path,) = folder.glob("samples_*")
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        rows[seed % len(rows)][writer.metrics[0]] = 1 - rows[seed % len(rows)][writer.metrics[0]]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        with pytest.raises(InputError):
            read_rows(folder)
        changed += 1
    assert changed > 20
