"""Time and memory of imports of 100,000 items in every format, and of what reads them.

    python benchmarks/imports.py [--items 100000] [--only lm-eval]

Each item is a question of four choices, five of them on each of 20,000 articles. Each step runs in
its own process; memory is its largest resident size. Seconds are of CPU (user and system), which
other programs on the machine change little.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import chosen_options, machine, parser, versions

PER_ARTICLE = 5
LETTERS = "ABCD"
TEXT = "Some text of a usual length. " * 20
NAME = "samples_big_2026-01-01T00-00-00.000000.jsonl"


@dataclass(frozen=True)
class Item:
    """One question with the answer of a model.

    Attributes:
        number: from 0.
        gold: the right choice.
        log_probs: of the four choices.
    """

    number: int
    gold: int
    log_probs: tuple[float, ...]

    @property
    def answer(self) -> int:
        """The most probable choice."""
        return self.log_probs.index(max(self.log_probs))

    @property
    def article(self) -> str:
        """Topic of the question."""
        return f"a{self.number // PER_ARTICLE}"

    @property
    def choices(self) -> list[str]:
        """The texts of the choices, in their alphabetical order."""
        return [f"{letter} of {self.number}" for letter in LETTERS]


def items(number: int, seed: int) -> Iterator[Item]:
    """Yield questions whose right choice tends to be the most probable one."""
    draw = random.Random(seed)
    for at in range(number):
        gold = at % 4
        logits = [draw.gauss(2 * (answer == gold), 2) for answer in range(4)]
        total = math.log(math.fsum(map(math.exp, logits)))
        yield Item(at, gold, tuple(logit - total for logit in logits))


def write_lm_eval(folder: Path, test_items: Iterator[Item]) -> list[str]:
    """Write samples of a task of lm-evaluation-harness."""
    with (folder / NAME).open("w", encoding="utf-8") as file:
        for item in test_items:
            context = f"Article {item.article}. {TEXT}"
            requests = {
                f"gen_args_{at}": {"arg_0": context, "arg_1": f" {letter}"}
                for at, letter in enumerate(LETTERS)
            }
            line = {
                "doc_id": item.number,
                "doc": {"article": item.article, "text": context},
                "target": str(item.gold),
                "arguments": requests,
                "filtered_resps": [[str(log_prob), "False"] for log_prob in item.log_probs],
                "filter": "none",
                "metrics": ["acc"],
                "doc_hash": hashlib.sha256(str(item.number).encode()).hexdigest(),
                "acc": float(item.answer == item.gold),
            }
            file.write(json.dumps(line) + "\n")
    return [str(folder / NAME), "--family-from", "doc.article"]


def write_inspect(folder: Path, test_items: Iterator[Item]) -> list[str]:
    """Write a log of Inspect with log-probabilities; members are deflated."""
    path, summaries = folder / "big.eval", []
    keys = ("id", "epoch", "input", "choices", "target", "metadata", "scores")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for item in test_items:
            letter = LETTERS[item.answer]
            top = [
                {"token": f" {answer_letter}", "logprob": value}
                for answer_letter, value in zip(LETTERS, item.log_probs, strict=True)
            ]
            token = {"token": f" {letter}", "logprob": max(item.log_probs), "top_logprobs": top}
            start = [{"token": word, "logprob": -0.01} for word in ("ANSWER", ":")]
            value = "C" if item.answer == item.gold else "I"
            sample: dict[str, Any] = {
                "id": item.number,
                "epoch": 1,
                "input": TEXT,
                "choices": item.choices,
                "target": LETTERS[item.gold],
                "metadata": {"article": item.article},
                "output": {"choices": [{"logprobs": {"content": [*start, token]}}]},
                "scores": {"choice": {"value": value, "answer": letter}},
            }
            archive.writestr(f"samples/{item.number}_epoch_1.json", json.dumps(sample))
            summaries.append({key: sample[key] for key in keys})
        archive.writestr("summaries.json", json.dumps(summaries))
        header = {
            "version": 2,
            "status": "success",
            "eval": {"task": "big", "model": "m", "model_generate_config": {"logprobs": True}},
        }
        archive.writestr("header.json", json.dumps(header))
    return [str(path), "--family-from", "metadata.article"]


def write_decision_index(folder: Path, test_items: Iterator[Item]) -> list[str]:
    """Write results of the Decision Index and the rows of its suite."""
    results, suite = folder / "results.jsonl", folder / "suite.jsonl"
    with results.open("w", encoding="utf-8") as answers, suite.open("w", encoding="utf-8") as rows:
        for item in test_items:
            state = f"Article {item.article}. {TEXT}"
            question = {"type": "choice", "criteria": dict.fromkeys(LETTERS, "A choice.")}
            payload = {"model": "jev-1.13.0", "state": state, "questions": {"q": question}}
            text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
            common = {
                "run_id": str(item.number),
                "payload_sha256": hashlib.sha256(text.encode()).hexdigest(),
            }
            evaluation = common | {"group_id": item.article, "track": "t", "dataset": "big"}
            row = {"state": state, "questions": {"q": question}, "_evaluation": evaluation}
            rows.write(json.dumps(row | {"expected": {"q": LETTERS[item.gold]}}) + "\n")
            answer = {
                "type": "choice",
                "choice": LETTERS[item.answer],
                "probabilities": dict(zip(LETTERS, map(math.exp, item.log_probs), strict=True)),
            }
            response = {"model": "m", "answers": {"q": answer}}
            result = common | {"engine": "e", "status": "ok", "response": response}
            answers.write(json.dumps(result | {"payload": payload}) + "\n")
    return [str(results), "--suite", str(suite)]


def write_helm(folder: Path, test_items: Iterator[Item]) -> list[str]:
    """Write the state and the statistics of a HELM run."""
    states, stats = [], []
    for item in test_items:
        name = f"id{item.number}"
        references = [
            {"output": {"text": text}, "tags": ["correct"] if at == item.gold else []}
            for at, text in enumerate(item.choices)
        ]
        states.append(
            {
                "instance": {"id": name, "split": "test", "references": references},
                "train_trial_index": 0,
                "output_mapping": dict(zip(LETTERS, item.choices, strict=True)),
                "request": {"prompt": f"Article {item.article}. {TEXT}"},
                "result": {
                    "success": True,
                    "completions": [{"text": f" {LETTERS[item.answer]}", "logprob": -0.1}],
                },
            }
        )
        right = {"name": {"name": "exact_match"}, "mean": float(item.answer == item.gold)}
        stats.append({"instance_id": name, "train_trial_index": 0, "stats": [right]})
    adapter = {"method": "multiple_choice_joint", "model": "m"}
    state = {"adapter_spec": adapter, "request_states": states}
    (folder / "scenario_state.json").write_text(json.dumps(state), "utf-8")
    (folder / "per_instance_stats.json").write_text(json.dumps(stats), "utf-8")
    return [str(folder), "--family-from", r"request.prompt~^Article \w+"]


def write_rows(folder: Path, test_items: Iterator[Item]) -> list[str]:
    """Write rows of our own format."""
    path = folder / "rows.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for item in test_items:
            row = {"id": str(item.number), "family": item.article, "reference": item.gold}
            p = [math.exp(log_prob) for log_prob in item.log_probs]
            file.write(json.dumps(row | {"probabilities": p}) + "\n")
    return [str(path)]


WRITERS: dict[str, Callable[[Path, Iterator[Item]], list[str]]] = {
    "lm-eval": write_lm_eval,
    "inspect": write_inspect,
    "decision-index": write_decision_index,
    "helm": write_helm,
    "rows": write_rows,
}


def timed(name: str, *arguments: str) -> None:
    """Run a command in a process of its own, and print its time and largest size.

    Raises:
        SystemExit: the command failed.
    """
    started = time.monotonic()
    child = os.fork()
    if not child:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.execv(sys.executable, [sys.executable, "-m", "pact_cli", *arguments])  # noqa: S606
    _, status, used = os.wait4(child, 0)
    took = time.monotonic() - started
    cpu, size = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    line = f"{name:<24} {cpu:6.1f} s of CPU  {took:6.1f} s  {size:6.0f} MiB"
    print(line, flush=True)  # noqa: T201
    if status:
        raise SystemExit(f"{name} failed: pact-eval {' '.join(arguments)}")


def main() -> None:
    """Measure."""
    options = parser(__doc__, blocks=None)
    options.add_argument("--items", type=int, default=100_000)
    options.add_argument("--only", choices=WRITERS, help="import this format alone")
    chosen = chosen_options(options, items=100)
    print(f"{machine()}; {versions('polars', 'numpy')}; {chosen.items:,} items", flush=True)  # noqa: T201
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for source, write in WRITERS.items():
            if chosen.only in (None, source):
                (folder / source).mkdir()
                arguments = write(folder / source, items(chosen.items, 1))
                out = ["--out", str(folder / f"run-{source}"), "--arm", source, "--train-seed", "1"]
                timed(f"import {source}", "import", *arguments, *out)
        if chosen.only is not None:
            return
        (folder / "other").mkdir()
        other = write_lm_eval(folder / "other", items(chosen.items, 2))
        runs = [str(folder / "run-lm-eval"), str(folder / "run-other")]
        timed("import another", "import", *other, "--out", runs[1], "--arm", "b")
        timed("report --full", "report", runs[0], "--full")
        timed("compare", "compare", *runs)
        timed(
            "calibrate", "calibrate", runs[0], "--force", "--out", str(folder / "calibration.json")
        )
        gates = ["--target-error", "0.3", "--out", str(folder / "thresholds.json")]
        timed("thresholds", "thresholds", runs[0], *gates)
        timed("report --html", "report", *runs, "--html", str(folder / "page.html"))


if __name__ == "__main__":
    main()
