"""Runs of arms and seeds for figures: simulated scores, calibrators and training logs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
from run_frames import edit_run, write_run

from pact_eval._choices import Mode
from pact_eval.calibration import temperatures
from pact_eval.calibration.temperatures import Calibrator, Weights
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.runs.rows import SCHEMA

KINDS = ("choice", "boolean", "score")
DOMAINS = ("commerce", "housing", "public services", "travel")
SKILL = {"pact": 2.6, "nimble_recipe": 2.5, "ce_only": 2.2, "base": 0.9}
LEAN = {"pact": 0.4, "nimble_recipe": 0.9, "ce_only": 1.2, "base": 1.6}


def rows(seed: int, *, arm: str = "pact", families: int = 60, k: int = 4) -> pl.DataFrame:
    """Returns a run whose logits lean towards some letters, by arm, and towards the reference."""
    of_items, of_logits = np.random.default_rng(0), np.random.default_rng(seed)
    skill, lean = SKILL.get(arm, 2.0), LEAN.get(arm, 1.0)
    made = []
    for family in range(families):
        kind = KINDS[family % 3]
        n = 2 if kind == "boolean" else int(of_items.integers(2, 6))
        tokens = int(of_items.integers(250, 1200))
        hard = of_items.normal(0, 1.1)
        base = int(of_items.integers(n))
        for number, variant in enumerate(("base", "counterfactual")):
            reference = (base + number) % n
            mine = of_logits.normal(0, 1.0, n)
            mine[reference] += skill - hard + of_logits.normal(0, 0.8)
            for view in range(k):
                order = [(slot + view) % n for slot in range(n)]
                logits = 2.0 * mine + of_logits.normal(0, 0.2 * lean, n)
                logits[order[0]] += lean
                made.append(
                    {
                        "id": f"f{family}-{variant}",
                        "family": f"f{family}",
                        "source_family": f"s{family % 6}",
                        "domain": DOMAINS[family % len(DOMAINS)],
                        "kind": kind,
                        "variant": variant,
                        "reference": reference,
                        "n_choices": n,
                        "view": view,
                        "code_order": order,
                        "logits": logits.tolist(),
                        "prompt_tokens": tokens + number,
                        "answer_mass": 0.97,
                    }
                )
    return pl.DataFrame(made, schema=SCHEMA)


def write_calibrator(
    folder: Path, *, a: float = 1.2, b: float = 0.3, c: float = -0.4, mode: Mode = "contextual"
) -> Calibrator:
    """Puts a calibrator into a run folder."""
    calibrator = Calibrator(mode, Weights((a, a, a), b, c))
    temperatures.write_calibrator(folder / "calibration.json", calibrator)
    return calibrator


def write_log(folder: Path, *, seed: int = 0, steps: int = 300, select_every: int = 30) -> Path:
    """Writes a training log into an adapter folder; every fifth step lacks the ablated views."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    lines = []
    for step in range(1, steps + 1):
        done = step / steps
        row = {
            "step": step,
            "ce": 0.1 + 1.2 * np.exp(-4 * done) * rng.uniform(0.6, 1.4),
            "cf": 0.05 + 2.0 * np.exp(-5 * done) * rng.uniform(0.6, 1.4),
            "pc": 0.01 + 0.05 * np.exp(-2 * done) * rng.uniform(0.3, 1.7),
            "pair_margin": -0.3 + 9 * (1 - np.exp(-3 * done)) + rng.normal(0, 1.0),
            "ramp": min(1.0, 10 * done),
        }
        if step % 5:
            row["nr"] = 0.6 * np.exp(-3 * done) * rng.uniform(0.2, 1.8)
            row["ablated_gap"] = 0.4 + 1.0 * np.exp(-3 * done) + abs(rng.normal(0, 0.2))
        if step % 3 == 0:
            row["emd"] = 0.08 + 0.5 * np.exp(-4 * done) * rng.uniform(0.6, 1.4)
        if step % select_every == 0:
            row["selection_nll_nats"] = 0.2 + 0.8 * np.exp(-5 * done) + rng.uniform(0, 0.08)
        row["total"] = row["ce"] + row["cf"]
        rounded = {name: round(float(value), 6) for name, value in row.items()}
        lines.append(json.dumps(rounded | {"step": step}))
    (folder / "log.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "log.jsonl"


def name_adapter(run: Path, adapter: Path) -> None:
    """Lets a run's `run.json` name an adapter folder."""
    edit_run(run, adapter=str(adapter))


def simulated_folders(
    tmp: Path,
    *,
    arms: tuple[str, ...] = ("pact", "nimble_recipe", "ce_only"),
    seeds: tuple[int, ...] = (17, 18, 19),
    base: bool = True,
    families: int = 60,
    k: int = 4,
    calibrated: bool = True,
    logs: bool = True,
) -> list[Path]:
    """Writes runs of arms over seeds, and of a base model without a seed."""
    folders = []
    for number, arm in enumerate(arms):
        for seed in seeds:
            frame = rows(100 * number + seed, arm=arm, families=families, k=k)
            folder = write_run(tmp / f"run-{number}-{seed}", frame, arm=arm, seed=seed)
            if calibrated:
                write_calibrator(
                    folder, a=1.0 + 0.2 * number, b=0.4 - 0.2 * (seed - 17), c=-0.3 - 0.1 * number
                )
            if logs:
                adapter = tmp / f"adapter-{number}-{seed}"
                write_log(adapter, seed=100 * number + seed)
                name_adapter(folder, adapter)
            folders.append(folder)
    if base:
        frame = rows(7, arm="base", families=families, k=k)
        folders.append(write_run(tmp / "run-base", frame, arm="base"))
    return folders


def simulated(tmp: Path, **options: object) -> Experiment:
    return experiment_of(simulated_folders(tmp, **options))  # type: ignore[arg-type]


def experiment_of(folders: list[Path], resamples: int = 200) -> Experiment:
    return Experiment.read(folders, Settings(resamples=resamples))
