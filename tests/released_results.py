"""A released result folder, made from the tables of metrics: `runs/ARM/seed-SEED/results.json`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

_LABELS = ("run", "seed", "decoding", "group", "domain")


def write_result_folder(tables: Path, folder: Path) -> Path:
    """Write the metrics of `run_metrics.csv` and `run_domain_accuracy.csv` in released shape.

    Like the released folder, it holds a copy of the settings and the history of selection.
    """
    results: dict[tuple[str, str], dict[str, Any]] = {}
    for row in _rows(tables / "run_metrics.csv"):
        summary = _summary(results, row)
        summary[row["group"]] = _numbers(row)
    for row in _rows(tables / "run_domain_accuracy.csv"):
        _summary(results, row)["by_domain"][row["domain"]] = _numbers(row)
    for (run, seed), holdout in results.items():
        name = f"runs/{run}/seed-{seed}/results.json" if seed else "baselines.json"
        value = {"run": run, "seed": int(seed) if seed else None, "holdout": holdout}
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value | {"config": {"seeds": [17]}}, indent=2))
        (path.parent / "dev_history.json").write_text("[]")
    return folder


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _summary(results: dict[tuple[str, str], dict[str, Any]], row: dict[str, str]) -> dict[str, Any]:
    holdout = results.setdefault((row["run"], row["seed"]), {})
    scored = holdout.setdefault(row["decoding"], {"summary": {"by_domain": {}}})
    summary: dict[str, Any] = scored["summary"]
    return summary


def _numbers(row: dict[str, str]) -> dict[str, int | float]:
    return {
        name: int(text) if text.isdecimal() else float(text)
        for name, text in row.items()
        if name not in _LABELS and text
    }
