"""A released result folder, made from tables of metrics and from what the paper prints.

runs/ARM/seed-SEED/{results,train_report,dev_history,calibration}.json, baselines.json
holdout_rows.json, figures/figure_data.json
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any, Final

from made_experiment import ARMS as SEVERAL_SEEDS
from published import printed_cells

_LABELS = ("run", "seed", "decoding", "group", "domain")


PAIRS: Final = 1_167
_KINDS_OF_VIEWS: Final = ("train/primary", "train/perm1", "train/necessity")


def write_result_folder(tables: Path, folder: Path) -> Path:
    """Write an experiment in the shape in which it was released.

    Metrics, calibrators and rows are those of `paper`. Costs and the best selection are those that
    the paper prints; other selections are made.
    """
    results: dict[tuple[str, str], dict[str, Any]] = {}
    for row in _rows(tables / "run_metrics.csv"):
        summary = _summary(results, row)
        summary[row["group"]] = _numbers(row)
    for row in _rows(tables / "run_domain_accuracy.csv"):
        _summary(results, row)["by_domain"][row["domain"]] = _numbers(row)
    fits, weights = (
        {(row["run"], row["seed"]): row for row in _rows(tables / name)}
        for name in ("run_calibration.csv", "calibrators.csv")
    )
    for (run, seed), holdout in results.items():
        name = f"runs/{run}/seed-{seed}/results.json" if seed else "baselines.json"
        value = {"run": run, "seed": int(seed) if seed else None, "holdout": holdout}
        path = folder / name
        if seed:
            value |= _write_training(path.parent, run, int(seed))
            value["calibration"] = _calibration(fits[run, seed])
            _write(path.with_name("calibration.json"), _calibrator(weights[run, seed]))
        _write(path, value | {"config": {"seeds": [17]}})
    _write_shipped(tables / "shipped_holdout_rows.jsonl", folder)
    return folder


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")


def _write_training(folder: Path, run: str, seed: int) -> dict[str, Any]:
    """Write the report and the selections of a training; return what the results say of it."""
    (cost,) = (row for row in printed_cells("cost") if row["arm"] == run)
    steps = int(cost["steps"])
    (printed,) = printed_cells("selection")
    is_printed = (run, str(seed)) == (printed["arm"], printed["seed"])
    lowest = float(printed["nll"]) if is_printed else 0.2 + (seed - 17) / 100
    correct = round(float(printed["accuracy"]) * 1.16) if is_printed else 108
    history = [
        {
            "step": step,
            "summary": {
                "all": {
                    "count": 116,
                    "nll": lowest + abs(at - 3) / 10,
                    "accuracy": (correct - 5 * abs(at - 3)) / 116,
                }
            },
        }
        for at, step in ((1, steps // 4), (2, steps // 2), (3, 3 * steps // 4), (4, steps))
    ]
    report = {
        "plan": {"train_groups": PAIRS, "total_steps": steps},
        "steps": steps,
        "best": {"step": 3 * steps // 4, "nll": lowest, "accuracy": correct / 116},
        # A minute apart, so that the mean is the printed one.
        "wall_seconds": 3600 * float(cost["hours"]) + 60 * (seed - 18) * (run in SEVERAL_SEEDS),
        "peak_gpu_gib": float(cost["peak"]) - (seed - 18) ** 2 / 10 * (run in SEVERAL_SEEDS),
    }
    # The last step is selected on twice, as in the released files.
    _write(folder / "dev_history.json", [*history, history[-1]])
    _write(folder / "train_report.json", report | {"history": history})
    views = round(float(cost["views"])) - 2
    counts = [2 * PAIRS, 2 * PAIRS * (views >= 2), PAIRS * (views % 2)]
    named = {name: n for name, n in zip(_KINDS_OF_VIEWS, counts, strict=True) if n}
    return {"views": {"views": {**named, "dev_calib/primary": 226}}}


def _calibration(fit: dict[str, str]) -> dict[str, float]:
    """Return the numbers of a fit; made files lack some, which the paper prints or nobody does."""
    names = ("temperature_mean", "temperature_min", "temperature_max", "ece_before", "ece_after")
    if "temperature_mean" in fit:
        return {name: float(fit[name]) for name in names}
    key = (fit["run"], fit["seed"])
    rows = [r for r in printed_cells("calibration") if (r["arm"], r["seed"]) == key]
    if not rows:
        return dict(zip(names, (1.5, 1.0, 2.0, 0.1, 0.05), strict=True))
    texts = re.findall(r"[0-9.]+", rows[0]["temperature"])
    eces = [float(rows[0][name]) / 100 for name in ("fit_ece", "fit_ece_after")]
    return dict(zip(names, [*map(float, texts), *eces], strict=True))


def _calibrator(row: dict[str, str]) -> dict[str, Any]:
    slopes = {name: float(row[name]) for name in ("log_choices", "log_tokens")}
    bias = [float(row[f"bias_{kind}"]) for kind in ("choice", "noul", "score")]
    return {"mode": "contextual", "weights": {"bias": bias, **slopes}}


def _write_shipped(path: Path, folder: Path) -> None:
    """Write the rows of the shipped run; their view TV is in another file, in the same order."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    tv = [row.pop("permutation_tv") for row in rows]
    _write(folder / "holdout_rows.json", {"summary": {}, "rows": rows})
    _write(folder / "figures" / "figure_data.json", {"permutation_tv": tv})


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
