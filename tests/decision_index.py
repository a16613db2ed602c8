"""Results of the Decision Index and their suite, as the format of the Decision Index has them."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from builders import write_jsonl

from pact_eval.importing.source import ImportOptions


def suite_row(run_id: str, expected: dict[str, Any], **changes: Any) -> dict[str, Any]:
    three = {"refund": "Pay back.", "repair": "Mend it.", "refuse": "Say no."}
    questions = {
        "action": {"type": "choice", "instructions": "What now?", "criteria": three},
        "angry": {"type": "noul", "instructions": "Is the customer angry?"},
    }
    state = {"ticket": run_id}
    payload = {"model": "jev-1.13.0", "state": state, "questions": questions}
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    evaluation = {
        "run_id": run_id,
        "payload_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "dataset": "Tickets",
        "catalog_id": 7,
        "group_id": f"case-{run_id[0]}",
        "track": "support",
    }
    row = {"id": run_id, "state": state, "questions": questions, "expected": expected}
    return row | {"metadata": {"shop": run_id[0]}, "_evaluation": evaluation} | changes


def result(suite: dict[str, Any], p: list[float], true: float, **changes: Any) -> dict[str, Any]:
    options = list(suite["questions"]["action"]["criteria"])
    answers = {
        "action": {
            "type": "choice",
            "choice": options[int(np.argmax(p))],
            # Maps have no order: that of the criteria counts.
            "probabilities": dict(reversed(list(zip(options, p, strict=True)))),
        },
        "angry": {"type": "noul", "noul": true},
    }
    evaluation = suite["_evaluation"]
    facts = {name: evaluation[name] for name in ("run_id", "payload_sha256", "dataset")}
    response = {"model": "jev-1.13.0", "answers": answers, "usage": {"input_tokens": 9}}
    return facts | {"engine": "http", "status": "ok", "response": response} | changes


RIGHT = {"action": "repair", "angry": True}
ROWS = [
    suite_row("a1", RIGHT),
    suite_row("a2", RIGHT),
    suite_row("b1", {"action": "refuse", "angry": None}),
    suite_row("b2", RIGHT, scoring={"type": "routing_outcome"}),
    suite_row("c1", RIGHT),
]


def written(folder: Path, results: list[dict[str, Any]]) -> tuple[Path, ImportOptions]:
    with gzip.open(folder / "selected-rows.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in ROWS)
    options = ImportOptions(suites=(folder / "selected-rows.jsonl.gz",))
    return write_jsonl(folder / "results.jsonl", results), options
