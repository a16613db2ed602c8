"""Small records and files that tests are made of."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def question(kind: str = "choice", n: int = 3, **changes: Any) -> dict[str, Any]:
    criteria: Any = {f"answer_{index}": f"Use {index}." for index in range(n)}
    if kind == "score":
        criteria = [f"Level {index}" for index in range(n)]
    elif kind in ("noul", "boolean"):
        criteria = None
    return {"type": kind, "instructions": "Which one?", "criteria": criteria} | changes


def record(record_id: str = "f1-base", **changes: Any) -> dict[str, Any]:
    """Return the JSON of a healthy record; keyword arguments replace its top-level values."""
    decision = changes.pop("decision", question())
    state = changes.pop("state", "Clerk: The seal is intact.")
    target = {"choice": "answer_1", "noul": True, "boolean": True, "score": 1}
    return {
        "id": record_id,
        "family": record_id.rpartition("-")[0] or record_id,
        "source_family": "travel-01",
        "split": "validation",
        "domain": "travel",
        "variant": "counterfactual" if record_id.endswith("counterfactual") else "base",
        "input": {"state": state, "questions": {"decision": decision}},
        "reference": {"target": target.get(str(decision["type"]))},
        "provenance": {"source_id": "s1"},
    } | changes


def write_jsonl(path: Path, rows: Iterable[Any]) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8"))
    return path
