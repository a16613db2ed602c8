"""A released result folder, made from tables of metrics and from facts of the released files.

runs/ARM/seed-SEED/{results,train_report,dev_history,calibration}.json, baselines.json
significance.json, ensemble_sweep.json, preflight.json, holdout_rows.json, figures/figure_data.json
"""

from __future__ import annotations

import csv
import json
import math
import tomllib
from pathlib import Path
from typing import Any, Final

from published import table_rows

FACTS: Final = tomllib.loads(
    Path(__file__).with_name("released_facts.toml").read_text(encoding="utf-8")
)
"""Numbers of the released files, with their source."""

_LABELS = ("run", "seed", "decoding", "group", "domain")
_ITEMS: Final = 324
_METHOD: Final = "pact_full"


def facts(table: str) -> list[dict[str, str]]:
    """Return the rows of a table of facts, with their cells by column."""
    return table_rows(FACTS[table])


def write_result_folder(tables: Path, folder: Path) -> Path:
    """Write an experiment in the shape in which it was released.

    Metrics, calibrators and rows are those of `tables`. All else is `FACTS`; of the selections,
    only the best one is.
    """
    results: dict[tuple[str, str], dict[str, Any]] = {}
    for row in _rows(tables / "run_metrics.csv"):
        summary = _summary(results, row)
        summary[row["group"]] = _numbers(row)
    for row in _rows(tables / "run_domain_accuracy.csv"):
        _summary(results, row)["by_domain"][row["domain"]] = _numbers(row)
    weights = {(row["run"], row["seed"]): row for row in _rows(tables / "calibrators.csv")}
    for (run, seed), holdout in results.items():
        name = f"runs/{run}/seed-{seed}/results.json" if seed else "baselines.json"
        value = {"run": run, "seed": int(seed) if seed else None, "holdout": holdout}
        path = folder / name
        if seed:
            value |= _write_training(path.parent, run, seed)
            value |= {"views": _views(run), "config": _config(run, int(seed))}
            _write(path.with_name("calibration.json"), _calibrator(weights[run, seed]))
        _write(path, value)
    _write_comparisons(folder / "significance.json", results)
    sweep: dict[str, list[dict[str, Any]]] = {}
    for row in facts("sweep"):
        point = {
            "accuracy": int(row["right"]) / _ITEMS,
            "permutation_tv": float(row["permutation_tv"]),
        }
        sweep.setdefault(row["name"], []).append({"k": int(row["k"]), **point})
    _write(folder / "ensemble_sweep.json", sweep)
    _write(folder / "preflight.json", FACTS["preflight"])
    _write_shipped(tables / "shipped_holdout_rows.jsonl", folder)
    return folder


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2), encoding="utf-8")


def _write_training(folder: Path, run: str, seed: str) -> dict[str, Any]:
    """Write the report and the selections of a training; return what the results say of it."""
    (fact,) = (row for row in facts("runs") if (row["arm"], row["seed"]) == (run, seed))
    steps, best = int(fact["steps"]), int(fact["best_step"])
    lowest, accuracy = float(fact["best_nll"]), float(fact["best_accuracy"])
    history = [
        {
            "step": step,
            "summary": {
                "all": {
                    "count": 116,
                    "nll": lowest + abs(step - best) / steps,
                    "accuracy": accuracy - 0.1 * abs(step - best) / steps,
                }
            },
        }
        for step in range(steps // 4, steps + 1, steps // 4)
    ]
    report = {
        "plan": {"train_groups": FACTS["views"]["necessity"], "total_steps": steps},
        "steps": steps,
        "best": {"step": best, "nll": lowest, "accuracy": accuracy},
        "wall_seconds": float(fact["wall_seconds"]),
        "peak_gpu_gib": float(fact["peak_gpu_gib"]),
    }
    # The last step is selected on twice, as in the released files.
    _write(folder / "dev_history.json", [*history, history[-1]])
    _write(folder / "train_report.json", report | {"history": history})
    names = ("temperature_mean", "temperature_min", "temperature_max", "ece_before", "ece_after")
    return {"calibration": {name: float(fact[name]) for name in names}}


def _views(run: str) -> dict[str, Any]:
    """Return the numbers of views of every split, and of its records by kind."""
    counted, content = facts("views"), FACTS["views"]
    views = {f"{row['split']}/primary": int(row["primary"]) for row in counted}
    views |= {
        f"train/{name}": content[name]
        for name in ("perm1", "necessity")
        if run not in content[f"without_{name}"]
    }
    kinds = {
        f"{row['split']}/{kind}": int(row[kind])
        for row in counted
        for kind in ("choice", "noul", "score")
    }
    return {"views": views, "primary_kinds": kinds, "max_tokens": content["max_tokens"]}


def _config(run: str, seed: int) -> dict[str, Any]:
    changed = FACTS["overrides"].get(run, {})
    config = {name: section | changed.get(name, {}) for name, section in FACTS["config"].items()}
    config["optim"] = config["optim"] | {"seed": seed}
    return config | {"output_dir": ".cache", "seeds": [17], "runs": [{"name": run}]}


def _write_comparisons(path: Path, results: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Write the paired tests; the base model of these is another run than that with metrics."""
    comparisons = []
    for row in facts("comparisons"):
        right = {side: int(row[f"right_{side}"]) for side in "ab"}
        comparison: dict[str, Any] = {
            "run_a": _METHOD,
            "run_b": row["run_b"],
            "seed": int(row["seed"]),
            "n": _ITEMS,
            **{f"accuracy_{side}": number / _ITEMS for side, number in right.items()},
            "mcnemar": {"b": int(row["b"]), "c": int(row["c"]), "exact_p": float(row["exact_p"])},
            "bootstrap": {
                "point": (right["a"] - right["b"]) / _ITEMS,
                "ci95": [int(row[end]) / _ITEMS for end in ("low", "high")],
            },
        }
        if row["run_b"] != "base_model":
            a, b = (
                results[arm, row["seed"]]["single"]["summary"] for arm in (_METHOD, row["run_b"])
            )
            kinds = {kind: (a[kind], b[kind]) for kind in ("choice", "noul", "score")}
            names = a["by_domain"]
            domains = {name: (names[name], b["by_domain"][name]) for name in names}
            for key, groups in (("by_kind", kinds), ("by_domain", domains)):
                of_groups = {
                    group: {"n": one["count"], "a_acc": one["accuracy"], "b_acc": two["accuracy"]}
                    for group, (one, two) in groups.items()
                }
                right_a = sum(group["n"] * group["a_acc"] for group in of_groups.values())
                # Made accuracies by domain do not add up to that of all items.
                comparison |= {key: of_groups} if abs(right_a - right["a"]) < 0.01 else {}
        comparisons.append(comparison)
    wrong = {
        row["name"]: [{"confidence": float(row["lowest"])}] * int(row["answers"])
        for row in facts("confident")
    }
    _write(path, {"comparisons": comparisons, "confidently_wrong": wrong})


def _calibrator(row: dict[str, str]) -> dict[str, Any]:
    slopes = {name: float(row[name]) for name in ("log_choices", "log_tokens")}
    bias = [float(row[f"bias_{kind}"]) for kind in ("choice", "noul", "score")]
    return {"mode": "contextual", "weights": {"bias": bias, **slopes}}


def _write_shipped(path: Path, folder: Path) -> None:
    """Write the rows of the shipped run; their view TV is in another file, in the same order."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    tv = [row.pop("permutation_tv") for row in rows]
    _write(folder / "holdout_rows.json", {"summary": {}, "rows": rows})
    figures = {"permutation_tv": tv, "train_log": _log(), **_curves(rows)}
    _write(
        folder / "figures" / "figure_data.json",
        {"run_dir": FACTS["train_log"]["run_dir"]} | figures,
    )


def _log() -> list[dict[str, float]]:
    """Return the training log; loss terms are those that the paper defines for its distances."""
    log = FACTS["train_log"]
    steps = (1, *range(10, 590, 10))
    return [
        {
            "step": step,
            "cf": math.log1p(math.exp(2 - distance)),
            "nr": gap**2,
            "cf_delta": distance,
            "necessity_gap": gap,
        }
        for step, distance, gap in zip(steps, log["cf_delta"], log["necessity_gap"], strict=True)
    ]


def _curves(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the bins of 1/15 and every sixth point of risk against coverage."""
    outcomes = sorted(
        (
            (
                max(row["probabilities"]),
                row["probabilities"][row["gold"]] == max(row["probabilities"]),
            )
            for row in rows
        ),
        reverse=True,
    )
    bins = []
    for at in range(15):
        inside = [each for each in outcomes if at / 15 < each[0] <= (at + 1) / 15]
        means = [sum(column) / len(inside) for column in zip(*inside, strict=True)]
        bins.append(
            {"count": len(inside), **dict(zip(("confidence", "accuracy"), means, strict=False))}
        )
    wrong = [sum(not right for _, right in outcomes[:kept]) for kept in range(1, len(rows) + 1)]
    risks = [errors / kept for kept, errors in enumerate(wrong, start=1)]
    points = [
        {"coverage": (at + 1) / len(rows), "risk": risks[at]} for at in range(0, len(rows), 6)
    ]
    curve = {"aurc": sum(risks) / len(rows), "curve": points}
    return {"reliability_uncalibrated": bins, "risk_coverage_uncalibrated": curve}


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
