"""Logs of decisions whose truth is planted, in the formats of the tools that `peers.py` runs."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

__all__ = ["LOGS", "Item", "write_log"]

OPTIONS: Final = ("billing", "delivery", "returns", "unknown")
ASKED: Final = "What is the ticket about?"
CRITERIA: Final = {name: f"It is about {name}." for name in OPTIONS}
MODEL: Final = "jev-1.13.0"
BIAS: Final = 0.42
"""Probability that the model which follows the order moves to the answer shown first."""

Sides = dict[str, "list[Item]"]


@dataclass(frozen=True)
class Item:
    """An answer of a model; `order` has positions of `OPTIONS` as they were shown."""

    id: str
    family: str
    gold: int
    chances: tuple[float, ...]
    model: str = MODEL
    order: tuple[int, ...] = (0, 1, 2, 3)

    @property
    def right(self) -> bool:
        """Whether the most probable answer is the right one."""
        return self.chances.index(max(self.chances)) == self.gold


def answered(rng: random.Random, number: int, *, right: bool, size: int = 1) -> Item:
    """Return an item that is answered rightly or not, with a probability of 0.7 to 0.95."""
    gold, other, third = rng.sample(range(3), 3)
    sure = rng.uniform(0.7, 0.95)
    chances = [0.0, 0.0, 0.0, 0.01]
    first, second = (gold, other) if right else (other, gold)
    chances[first], chances[second], chances[third] = sure, (0.99 - sure) * 0.7, (0.99 - sure) * 0.3
    return Item(f"t{number:05d}", f"f{number // size:05d}", gold, tuple(chances))


def calibrated(rng: random.Random, count: int, power: float = 1.0) -> Sides:
    """Draw right answers by probabilities; the model says these after raising them to a power."""
    made = []
    for number in range(count):
        chances = [math.exp(rng.gauss(0, 2)) for _ in range(3)]
        gold = rng.choices(range(3), chances)[0]
        sharp = [chance**power for chance in chances]
        shares = (*(0.998 * each / sum(sharp) for each in sharp), 0.002)
        made.append(Item(f"t{number:05d}", f"f{number:05d}", gold, shares))
    return {"new": made}


def better(rng: random.Random, count: int, size: int = 1) -> Sides:
    """Return a model of which 85% are right, and one before it of which 80% are.

    In 160 groups, both are right in 120, the new one alone in 16, and the old one alone in 8.
    """
    new, old = [], []
    shares = {(True, True): 120, (True, False): 16, (False, True): 8, (False, False): 16}
    rights = [pair for pair, share in shares.items() for _ in range(share * count // 160)]
    for number, pair in enumerate(rights):
        state = rng.getstate()
        for made, right in zip((new, old), pair, strict=True):
            rng.setstate(state)  # the same right answer for both models
            made.append(answered(rng, number, right=right, size=size))
    return {"new": new, "old": [replace(each, model="jev-1.12.0") for each in old]}


def ordered(rng: random.Random, count: int) -> Sides:
    """Return a model that moves probability to the first answer shown, in two orders."""
    plain = [answered(rng, number, right=rng.random() < 0.9) for number in range(count)]

    def shown(item: Item, order: Sequence[int]) -> Item:
        moved = [(1 - BIAS) * chance for chance in item.chances]
        moved[order[0]] += BIAS
        return replace(item, chances=tuple(moved), order=tuple(order))

    return {
        "old": [shown(each, each.order) for each in plain],
        "new": [shown(each, rng.sample(range(4), 4)) for each in plain],
        "plain": plain,
    }


def copied(rng: random.Random, count: int) -> Sides:
    """Return a model that is right in 95% of copies of its training items, and in 60% of others."""
    rates = (0.6, 0.95)
    made = [answered(rng, each, right=rng.random() < rates[each % 2]) for each in range(count)]
    return {"new": made, "train": made[1::2]}


def swapped(rng: random.Random, count: int) -> Sides:
    """Return a log before, and one in whose second half another, worse model answers."""
    rates = [0.85] * (count + count // 2) + [0.7] * (count - count // 2)
    made = [answered(rng, each, right=rng.random() < rate) for each, rate in enumerate(rates)]
    half = count + count // 2
    other = [replace(each, model="jev-1.14.0") for each in made[half:]]
    return {"old": made[:count], "new": made[count:half] + other}


LOGS: Final[Mapping[str, Callable[[random.Random, int], Sides]]] = {
    "calibrated": calibrated,
    "over-confident": lambda rng, count: calibrated(rng, count, power=5),
    "better by 5 points": better,
    "the same in families of four copies": lambda rng, count: better(rng, count, size=4),
    "order bias": ordered,
    "copies of training items": copied,
    "a swapped model": swapped,
}
"""By what is planted, what draws the answers: `new`, and `old` before it or in another order."""


def entries(item: Item, row: int, view: int) -> dict[str, dict[str, Any]]:
    """Return one answer in the format of each tool that reads lines."""
    named = {OPTIONS[position]: item.chances[position] for position in item.order}
    choice = max(named, key=lambda name: named[name])
    answer = {"choice": choice, "probabilities": named, "confidence": named[choice]}
    typed, gold, text = {"type": "choice", **answer}, OPTIONS[item.gold], f"ticket {item.id}."
    asked = {"type": "choice", "instructions": ASKED, "criteria": CRITERIA}
    hashes = {"question_hash": "q-topic", "state_hash": item.id, "state_chars": len(text)}
    cached = {"id": "topic", "type": "choice", "row": row, "meta": {}, **hashes}
    use = {"latency_ms": 30.0, "usage": {"input_tokens": 100, "output_tokens": 0}, "error": None}
    asks = {"schema": "s1-record/1", "question_id": "q-topic", "primitive": "choice"}
    served = {"model_requested": MODEL, "model_served": item.model}
    decided = {"probabilities": named, "selected": choice, "confidence": named[choice]}
    grade = {"passed": item.right, "score": float(item.right), "confidence": named[choice]}
    group = {"question_id": item.id, "cluster_id": item.family, "model": item.model}
    shown = {"probabilities": item.chances, "view": view, "code_order": item.order}
    return {
        "jev_eval": {**cached, "question": asked, "answer": typed, "gold": gold}
        | {"model": item.model},
        "jevassert": {"case_id": item.id, "model": item.model, "answers": {"topic": typed}} | use,
        "decguard": {"id": item.id, "decision": "topic", "input": text, "outcome": gold}
        | {**decided, "model": item.model},
        "s1ops": {**asks, "item_id": item.id, "label": gold, **served, **answer},
        "graded": {"case_id": item.id, **group, **grade},
        "rows": {"id": item.id, "family": item.family, "reference": item.gold, **shown},
        "texts": {"id": item.id, "text": text, "label": gold},
        "cases": {"id": item.id, "state": {"text": text}, "expect": {"topic": gold}},
        "golden": {"input": text, "expected": gold},
        "rules": {"contains": text, "probabilities": named},
        "evalsig": {"item_id": item.id, "score": float(item.right), "cluster_id": item.family},
    }


def settings(rules: Sequence[object], bias: float) -> dict[str, Any]:
    """Return a pack of jevassert and a contract of decguard, with gates of their READMEs."""
    question = {"type": "choice", "instructions": ASKED, "options": CRITERIA}
    state = {"description": "A ticket.", "fields": ["text"]}
    about = {"spec": 0, "id": "pack", "version": "0.1.0", "license": "MIT", "tested": MODEL}
    pack = {**about, "description": "Tickets.", "state": state, "questions": {"topic": question}}
    contract = {
        "schema_version": "0.1",
        "decision": {"name": "topic", "type": "choice", "options": OPTIONS},
        "backend": {"provider": "mock", "rules": rules, "position_bias": bias},
        "dataset": "plain.golden.jsonl",
        "production": {"requirements": {"max_ece": 0.05}},
        "properties": {"option_order": {"max_tv_distance": 0.03}},
    }
    return {"pack/pack.yaml": pack, "pack/gates.yaml": {"max_ece": 0.15}, "contract.json": contract}


def write_log(folder: Path, sides: Sides) -> None:
    """Write a log in every format, as `SIDE.FORMAT.jsonl`, and what the tools need beside it."""
    in_two_orders = "plain" in sides
    sides = {"plain": sides["new"], **sides}
    lines: dict[str, list[Any]] = {}
    for side, items in sides.items():
        for row, item in enumerate(items):
            for name, entry in entries(item, row, int(in_two_orders and side == "new")).items():
                lines.setdefault(f"{side}.{name}.jsonl", []).append(entry)
        about = {"run_id": side, "model_id": items[0].model, "task_id": "t", "metric_name": "acc"}
        lines[f"{side}.evalsig.jsonl"] = [{**about, "items": lines[f"{side}.evalsig.jsonl"]}]
    lines["pack/cases.jsonl"] = lines["new.cases.jsonl"]
    lines["orders.rows.jsonl"] = lines.get("old.rows.jsonl", []) + lines["new.rows.jsonl"]
    made = settings(lines["plain.rules.jsonl"], BIAS if in_two_orders else 0.0)
    for name, rows in {**lines, **{name: [each] for name, each in made.items()}}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
