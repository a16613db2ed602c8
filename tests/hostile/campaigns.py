"""Seeded campaigns, one per reader: a healthy folder, one mutation of it, and what must hold.

`main` runs inputs one after the other in a process of its own, and writes one line before each.
`test_campaigns.py` reads these lines, so it can name the input that hangs or ends the process.
"""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import os
import random
import re
import resource
import shutil
import sys
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
from builders import question, record, write_jsonl
from click.testing import CliRunner, Result
from decision_index import ROWS as SUITE
from decision_index import result
from decision_index import written as write_index
from decision_models import TEMPLATES, write_decision_folder
from experiments.plans import write_plan
from hostile.row_edits import ROWS
from labelled_files import FILES
from mutations import BYTES, JSON, TEXT, Mutation
from run_frames import edit_run, forge_seal, other_items, rows, write_run
from tool_logs.exchange_logs import GRADED, WRITERS, cases, tickets, write

from pact_cli.audit.main import main as pact_audit
from pact_cli.main import main as pact_eval
from pact_eval._files import sha256_of_file
from pact_eval.calibration.runs import fit_on_run
from pact_eval.data.splits import write_manifest
from pact_eval.importing.zip_members import ZipMembers
from pact_eval.preregistration.registration import register

CPU_SECONDS: Final = 20.0
MORE_BYTES: Final = 1 << 30
"""An input may take this much memory more than the process had before it."""

_GUARD_BYTES: Final = (
    6 << 30
)  # beyond it, the system refuses memory: the machine is not put at risk
_EXIT_CODES: Final = {0, 1, 2, 3, 4, 5}
_ROOT: Final = Path(__file__).parents[2]
_FIXTURES: Final = _ROOT / "fixtures" / "pact_fixtures"


@dataclass(frozen=True)
class Campaign:
    """One reader.

    Attributes:
        file: the file that is mutated, in the healthy folder.
        mutations: what may be done to it.
        command: the command that reads it.
        numbers: whether the output has the numbers of the healthy folder.
        forged: the run of the file is sealed again after the mutation, so that its content is read.
        then: a command that reads what the first one wrote, if that succeeded.
        weight: how often it is drawn; a command that loads a model takes seconds.
        source: the format of logs that it imports; "" if it imports none.
        without: files that the healthy folder has for other campaigns.
    """

    file: str
    mutations: tuple[Mutation, ...]
    command: tuple[str, ...]
    numbers: bool = False
    forged: bool = False
    then: tuple[str, ...] = ()
    weight: float = 1.0
    source: str = ""
    without: tuple[str, ...] = ()


def _packed(mutation: Mutation) -> Mutation:
    """Return a mutation of what a gzip file holds."""
    return lambda draw, content: gzip.compress(mutation(draw, gzip.decompress(content)))


def _in_a_member(mutation: Mutation) -> Mutation:
    """Return a mutation of one member of a zip file."""

    def changed(draw: random.Random, content: bytes) -> bytes:
        written = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(written, "w") as new:
            members = old.infolist()
            at = draw.randrange(len(members))
            for number, member in enumerate(members):
                text = old.read(member)
                new.writestr(member.filename, mutation(draw, text) if number == at else text)
        return written.getvalue()

    return changed


def _in_custody(mutation: Mutation) -> Mutation:
    """Return a mutation of what a run says of its training data."""

    def changed(draw: random.Random, content: bytes) -> bytes:
        recorded = json.loads(content)
        text = mutation(draw, json.dumps(recorded["custody"]).encode()).decode(errors="replace")
        recorded["custody"] = "MUTATED"
        return json.dumps(recorded).replace('"MUTATED"', text).encode(errors="surrogatepass")

    return changed


_FEW: Final = ("--resamples", "100")
_REPORT: Final = ("report", "run", "--json", *_FEW)
_CALIBRATED: Final = (*_REPORT, "--calibration", "calibration.json")
_ADAPTER: Final = ("audit", "adapter", "adapter")
_SCORECARD: Final = ("scorecard", "h.toml", "run", *_FEW)
_DRY_RUN: Final = ("experiment", "plan/plan.toml", "--dry-run")
_ROWS: Final = "run/predictions.parquet"
_CONFIG: Final = "adapter/adapter_config.json"
_SCHEMA: Final = "adapter/schema_config.json"
_HOLDOUT: Final = "data/holdout.jsonl"
_DECIDE: Final = (
    *("decide", "adapter", "--base-model", "model", "--device", "cpu"),
    *("--context", "context.json", "--schema", "schema.json", "--json"),
)
_FIGURES: Final = ("paper", "run", "--out", "figures", "--figures", "reliability", *_FEW)
_TABLES: Final = ("paper", "run", "--out", "tables", "--tables", "ablations,main", *_FEW)
_LM_EVAL: Final = (
    *("import", "samples_tiny_wino_2026-11-23T00-00-23.360231.jsonl", "--out", "imported"),
    *("--family-from", "doc_id"),
)
_INSPECT: Final = ("import", "answers.json", "--out", "imported")
_HELM: Final = ("import", "helm", "--out", "imported", "--multi", "any")
_SUITE: Final = "index/selected-rows.jsonl.gz"
_INDEX: Final = ("import", "index", "--suite", _SUITE, "--out", "imported")
_ANSWERS: Final = "exchanges/cases.jsonl"
_DECISION: Final = ("audit", "adapter", "decision")
_VERIFY: Final = ("verify", "run", "--json", "--adapter", "adapter")
_VERIFY_THRESHOLDS: Final = ("verify", "run", "--json", "--thresholds", "thresholds.json")
_RECORD: Final = "adapter/training_data.json"
_LOGGED: Final = ("report", "logged", "--json", *_FEW)
_COST: Final = ("paper", "run", "--out", "tables", "--tables", "cost", *_FEW)
_TRAINING: Final = ("paper", "run", "--out", "figures", "--figures", "training", *_FEW)
_TABLES_OF_RELEASED: Final = "cost,selection,calibration"
_RELEASED: Final = ("paper", "released", "--out", "tables", "--tables", _TABLES_OF_RELEASED)
_CHECK_SETS: Final = ("thresholds", "run", "--check", "sets.json", "--json")
_LENGTHS: Final = ("audit", "data", "data", "--tokenizer", "model")
_BASE: Final = (*_ADAPTER, "--base-model", "model")
_PAGE: Final = ("report", "run", "--html", "new.html", "--data", _HOLDOUT, *_FEW)

CAMPAIGNS: Final = {
    "records": Campaign(_HOLDOUT, JSON, ("audit", "data", "data")),
    "split records": Campaign(
        _HOLDOUT, JSON, ("audit", "split", _HOLDOUT, "--out", "parts"), weight=0.5
    ),
    "changed records": Campaign(
        _HOLDOUT, JSON, ("audit", "diff", _HOLDOUT, "healthy.jsonl"), weight=0.5
    ),
    "families of training files": Campaign(
        "data/train.jsonl", JSON, ("verify", "run", "--json", "--data", _HOLDOUT), weight=0.5
    ),
    "manifest": Campaign("data/manifest.json", JSON, ("audit", "data", "data")),
    "adapter config": Campaign(_CONFIG, JSON, _ADAPTER),
    "adapter schema": Campaign(_SCHEMA, JSON, _ADAPTER),
    "adapter weights": Campaign("adapter/adapter_model.safetensors", BYTES, _ADAPTER),
    "base config": Campaign("model/config.json", JSON, _BASE),
    "tokenizer": Campaign("model/tokenizer.json", JSON, _BASE, weight=0.3),
    "tokenizer config": Campaign(
        "model/tokenizer_config.json",
        JSON,
        _BASE,
        weight=0.5,
        without=("model/chat_template.jinja",),
    ),
    "chat template": Campaign("model/chat_template.jinja", TEXT, _BASE, weight=0.3),
    "loaded tokenizer": Campaign("model/tokenizer.json", JSON, _LENGTHS, weight=0.1),
    "training record": Campaign(_RECORD, JSON, _ADAPTER),
    "training record of a verified run": Campaign(_RECORD, JSON, _VERIFY, weight=0.5),
    "run.json": Campaign("run/run.json", JSON, _REPORT, numbers=True),
    "forged run.json": Campaign("run/run.json", JSON, _REPORT, forged=True),
    "verified run.json": Campaign("run/run.json", JSON, ("verify", "run", "--json"), weight=0.5),
    "custody of a run": Campaign("run/run.json", (*map(_in_custody, JSON),), _REPORT, forged=True),
    "custody of a verified run": Campaign(
        "run/run.json", (*map(_in_custody, JSON),), _VERIFY, forged=True, weight=0.5
    ),
    "unanswered rows": Campaign("logged/unanswered.parquet", BYTES, _LOGGED, numbers=True),
    "forged unanswered rows": Campaign("logged/unanswered.parquet", BYTES, _LOGGED, forged=True),
    "bits of rows": Campaign(_ROWS, BYTES, _REPORT, numbers=True),
    "forged bits of rows": Campaign(_ROWS, BYTES, _REPORT, forged=True),
    "edited rows": Campaign(_ROWS, ROWS, _REPORT, numbers=True),
    "forged edits of rows": Campaign(_ROWS, ROWS, _REPORT, forged=True),
    "verified rows": Campaign(_ROWS, ROWS, ("verify", "run", "--json"), forged=True, weight=0.5),
    "calibrator": Campaign("calibration.json", JSON, _CALIBRATED, numbers=True),
    "thresholds": Campaign(
        "thresholds.json", JSON, ("thresholds", "run", "--check", "thresholds.json", "--json")
    ),
    "verified thresholds": Campaign("thresholds.json", JSON, _VERIFY_THRESHOLDS, weight=0.5),
    "answer sets": Campaign("sets.json", JSON, _CHECK_SETS),
    "audit of the data": Campaign(
        "audit.json", JSON, ("sweep", "run", "--audit", "audit.json", "--json", *_FEW)
    ),
    "training facts": Campaign("adapter/training.json", JSON, _COST, weight=0.3),
    "training record of a cost": Campaign(_RECORD, JSON, _COST, weight=0.3),
    "training log": Campaign("adapter/log.jsonl", JSON, _TRAINING, weight=0.3),
    "portable temperatures": Campaign(
        "exported/decision.json",
        JSON,
        (
            "calibrate",
            "fitted",
            "--force",
            "--out",
            "t.json",
            "--export",
            "exported/decision.json",
            "--overwrite",
        ),
        weight=0.5,
    ),
    "hypotheses": Campaign("h.toml", TEXT, _SCORECARD, weight=0.5),
    "lock": Campaign("h.lock", JSON, _SCORECARD, weight=0.5),
    "plan": Campaign("plan/plan.toml", TEXT, _DRY_RUN, weight=0.5),
    "model card": Campaign("card.md", TEXT, ("paper", "run", "--model-card", "card.md", *_FEW)),
    "table of metrics": Campaign("metrics.csv", TEXT, ("scorecard", "h.toml", "metrics.csv")),
    "released results": Campaign("results.json", JSON, ("scorecard", "h.toml", "results.json")),
    **{
        f"released {name}": Campaign(
            f"released/method/seed-1/{name}.json", JSON, _RELEASED, weight=0.3
        )
        for name in ("results", "train_report", "dev_history", "calibration")
    },
    "imported rows": Campaign(
        "rows.jsonl",
        JSON,
        ("import", "rows.jsonl", "--out", "imported"),
        then=("report", "imported", *_FEW),
        source="rows",
    ),
    "Parquet rows": Campaign(
        "rows.parquet",
        (*BYTES, *ROWS),
        ("import", "rows.parquet", "--out", "imported"),
        source="rows",
    ),
    "samples of lm-eval": Campaign(
        "samples_tiny_wino_2026-11-23T00-00-23.360231.jsonl", JSON, (*_LM_EVAL,), source="lm-eval"
    ),
    "results of lm-eval": Campaign(
        "results_2026-11-23T00-00-23.360231.json", JSON, (*_LM_EVAL,), source="lm-eval", weight=0.5
    ),
    "old samples of lm-eval": Campaign(
        "old/m_task.jsonl", JSON, ("import", "old", "--out", "imported"), source="lm-eval"
    ),
    "log of Inspect": Campaign("answers.json", JSON, _INSPECT, source="inspect"),
    "packed log of Inspect": Campaign(
        "logprobs.eval",
        (*BYTES, *map(_in_a_member, JSON)),
        ("import", "logprobs.eval", "--out", "imported"),
        source="inspect",
    ),
    "state of HELM": Campaign("helm/scenario_state.json", JSON, _HELM, source="helm"),
    "statistics of HELM": Campaign("helm/per_instance_stats.json", JSON, _HELM, source="helm"),
    "means of HELM": Campaign("helm/stats.json", JSON, _HELM, source="helm", weight=0.5),
    "settings of HELM": Campaign("helm/run_spec.json", JSON, _HELM, source="helm", weight=0.5),
    "results of the Decision Index": Campaign(
        "index/results.jsonl", JSON, _INDEX, source="decision-index"
    ),
    "suite of the Decision Index": Campaign(
        _SUITE, (*BYTES, *map(_packed, JSON)), _INDEX, source="decision-index"
    ),
    **{
        f"exchanges of {name}": Campaign(
            f"exchanges/{name}.jsonl",
            JSON,
            ("import", f"exchanges/{name}.jsonl", "--data", _ANSWERS, "--out", "imported"),
            source=name,
            weight=0.5,
        )
        for name in WRITERS
    },
    **{
        f"grades of {name}": Campaign(
            f"exchanges/{file}",
            TEXT if name == "errorbars" else JSON,
            ("import", f"exchanges/{file}", "--out", "imported"),
            source=name,
            weight=0.5,
        )
        for name, (file, _) in GRADED.items()
    },
    **{
        f"drift of {file}": Campaign(file, mutations, ("drift", file, file, *words), weight=0.5)
        for file, mutations, words in (
            ("exchanges/chat.jsonl", JSON, ("--options", "A,B,C")),
            ("exchanges/system-one.jsonl", JSON, ()),
            ("rows.jsonl", JSON, ("--below", "0.8")),
            ("answers.json", JSON, ()),
        )
    },
    "right answers of exchanges": Campaign(
        _ANSWERS,
        JSON,
        ("import", "exchanges/jevassert.jsonl", "--data", _ANSWERS, "--out", "imported"),
        weight=0.5,
    ),
    "decision files": Campaign("decision/decision.json", JSON, _DECISION),
    "decision template": Campaign("decision/decision_template.jinja", TEXT, _DECISION, weight=0.5),
    "palette": Campaign("palette.toml", TEXT, _FIGURES, weight=0.3),
    "clear changes": Campaign(
        "clear.toml", TEXT, (*_TABLES, "--clear-changes", "clear.toml"), weight=0.3
    ),
    "texts of a page": Campaign(_HOLDOUT, JSON, _PAGE, weight=0.1),
    "settings": Campaign("pact.toml", TEXT, _REPORT),
    "listed runs": Campaign(
        "run/run.json", JSON, ("report", ".", "--json"), weight=0.5, without=("trained/run.json",)
    ),  # whose data have changed: the list exits with 5
    "page": Campaign("page.html", TEXT, ("verify", "page.html", "run")),
    "report": Campaign("report.json", JSON, ("verify", "report.json", "run")),
    **{
        f"labelled {name}": Campaign(
            f"labelled/{file}",
            mutations,
            ("audit", "convert", f"labelled/{file}", "full/eval.jsonl", *FILES[name].options),
            weight=0.5,
        )
        for name, file, mutations in (
            ("questions", "questions.jsonl", JSON),
            ("labels", "items.jsonl", JSON),
            ("requests", "requests.jsonl", JSON),
            ("suite", "selected-rows.jsonl.gz", (*BYTES, *map(_packed, JSON))),
            ("jevbench", "easy.jsonl", JSON),
            ("science", "science.jsonl", JSON),
            ("table", "reviews.csv", (*TEXT, *BYTES)),
            ("spreadsheet", "quiz.csv", TEXT),
            ("exam", "exam.parquet", BYTES),
            ("typed-decisions", "test-00000-of-00001.parquet", BYTES),
        )
    },
    "questions of labelled items": Campaign(
        "labelled/items.questions.json",
        JSON,
        ("audit", "convert", "labelled/items.jsonl", "full/eval.jsonl"),
        weight=0.5,
    ),
    "audited labelled entries": Campaign(
        "labelled/questions.jsonl",
        JSON,
        ("audit", "data", "--eval", "labelled/questions.jsonl"),
        weight=0.5,
    ),
    "split labelled entries": Campaign(
        "labelled/questions.jsonl",
        JSON,
        (
            *("audit", "split", "labelled/questions.jsonl", "--out", "parts"),
            *("--select", "1", "--calibrate", "1"),
        ),
        weight=0.3,
    ),
    "schema": Campaign("schema.json", JSON, _DECIDE, weight=0.3),
    "context": Campaign("context.json", JSON, _DECIDE, weight=0.1),
    "loaded adapter config": Campaign(_CONFIG, JSON, _DECIDE, weight=0.2),
    "loaded adapter schema": Campaign(_SCHEMA, JSON, _DECIDE, weight=0.1),
    "loaded base config": Campaign("model/config.json", JSON, _DECIDE, weight=0.1),
}


def _records_of(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Returns records with the items of a run."""
    made = []
    for row in frame.filter(pl.col("view") == 0).iter_rows(named=True):
        kind, reference = row["kind"], row["reference"]
        answers = {"choice": f"answer_{reference}", "boolean": bool(reference), "score": reference}
        made.append(
            record(
                row["id"],
                source_family=row["source_family"],
                domain=row["domain"],
                state=f"Clerk: parcel {row['family']} has the stamp {reference}.",
                decision=question(kind, row["n_choices"]),
                reference={"target": answers[kind]},
            )
        )
    return made


def make_healthy(home: Path) -> Path:
    """Writes the files that the campaigns mutate, and returns their folder."""
    frame = rows(1, families=6, k=2)
    (home / "data").mkdir(parents=True)
    for path in (home / _HOLDOUT, home / "healthy.jsonl"):
        write_jsonl(path, _records_of(frame))
    write_jsonl(home / "data" / "train.jsonl", _records_of(other_items(frame)))
    write_manifest(home / "data")
    for name, source in (("adapter", "adapters/pact"), ("model", "model")):
        shutil.copytree(_FIXTURES / source, home / name)
    shutil.copytree(home / "adapter", home / "decision")
    write_decision_folder(home / "decision", TEMPLATES["own"])
    (home / "labelled").mkdir()
    for file in FILES.values():
        file.write(home / "labelled")
    _write_logs(home)
    _write_runs(home, frame)
    example = _ROOT / "pact_eval" / "preregistration" / "example.toml"
    shutil.copy(example, home / "h.toml")
    register(home / "h.toml", now=dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    (home / "metrics.csv").write_text(
        "run,seed,decoding,group,count,pairs,accuracy,pair_accuracy\n"
        "method,1,single,all,12,6,0.75,0.5\nbaseline,1,single,all,12,6,0.5,0.5\n"
    )
    numbers = {"count": 12, "correct": 9, "accuracy": 0.75, "pairs": 6, "pair_accuracy": 0.5}
    summary = {"all": numbers, "choice": numbers, "by_domain": {"d": {"accuracy": 0.75}}}
    holdout = {decoding: {"summary": summary} for decoding in ("single", "single_calibrated")}
    result = {"run": "method", "seed": 1, "holdout": holdout}
    (home / "results.json").write_text(json.dumps(result))
    _write_released(home / "released" / "method" / "seed-1", result)
    probabilities = {"reference": 1, "probabilities": [0.25, 0.75]}
    names = frame["id"].unique(maintain_order=True)
    write_jsonl(home / "rows.jsonl", [{"id": name, **probabilities} for name in names])
    frame.write_parquet(home / "rows.parquet")
    _write_experiment(home / "plan")
    (home / "card.md").write_text("---\nlicense: mit\nmodel-index: []\n---\n# Card\n\nText.\n")
    shutil.copy(_FIXTURES / "paper_palette.toml", home / "palette.toml")
    shutil.copy(_FIXTURES / "paper_clear_changes.toml", home / "clear.toml")
    shutil.copy(_ROOT / "docs" / "example" / "schema.json", home / "schema.json")
    (home / "pact.toml").write_text(
        'decoding = "single"\nk = 4\nbootstrap-seed = 0\npalette = "palette.toml"\n'
    )
    (home / "context.json").write_text('{"turns": ["Clerk: The seal is intact.", 3]}')
    return home


def _write_experiment(folder: Path) -> None:
    """Write a plan of the model beside its folder."""
    plan = write_plan(folder)
    (folder / "base").unlink()
    plan.write_text(plan.read_text().replace('base = "base"', 'base = "../model"'))


def _write_released(folder: Path, result: dict[str, Any]) -> None:
    """Writes the files of a released run."""
    names = ("temperature_mean", "temperature_min", "temperature_max", "ece_before", "ece_after")
    selected = {"step": 8, "summary": {"all": {"nll": 0.5, "accuracy": 0.75}}}
    slopes = {"log_choices": 0.5, "log_tokens": -0.5}
    files: dict[str, Any] = {
        "results": result
        | {"views": {"views": {"train/primary": 12}}, "calibration": dict.fromkeys(names, 0.5)},
        "train_report": {
            "plan": {"train_groups": 6},
            "steps": 8,
            "best": {"step": 8},
            "wall_seconds": 60.5,
            "peak_gpu_gib": 20.5,
        },
        "dev_history": [selected],
        "calibration": {"mode": "contextual", "weights": {"bias": [1.0, 1.0, 1.0], **slopes}},
    }
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


def _old_sample(at: int) -> dict[str, Any]:
    """Returns a sample as lm-evaluation-harness wrote it before 0.4.3: arguments are a list."""
    values = [[-1.0 - (choice != at % 2), False] for choice in range(2)]
    return {
        "doc_id": at,
        "doc": {"q": f"Question {at}", "choices": ["A", "B"]},
        "target": at % 2,
        "arguments": [[f"Question {at}\nAnswer:", f" {letter}"] for letter in "AB"],
        "resps": [[value] for value in values],
        "filtered_resps": values,
        "acc": 1.0,
    }


def _write_logs(home: Path) -> None:
    """Writes a log of every source."""
    logs = _ROOT / "fixtures" / "logs"
    for path in (logs / "lm_eval").glob("*_2026-11-23T00-00-23.360231.json*"):
        shutil.copy(path, home / path.name)
    (home / "old").mkdir()
    (home / "old" / "m_task.jsonl").write_text(json.dumps([_old_sample(at) for at in range(3)]))
    shutil.copy(logs / "inspect" / "answers.json", home / "answers.json")
    # zipfile cannot read the zstd of Inspect, which the mutations of members would have to.
    with (
        ZipMembers(logs / "inspect" / "logprobs.eval") as packed,
        zipfile.ZipFile(home / "logprobs.eval", "w", zipfile.ZIP_DEFLATED) as written,
    ):
        for name in packed.names:
            written.writestr(name, packed.read(name))
    shutil.copytree(logs / "helm" / "tiny", home / "helm")
    (home / "exchanges").mkdir()
    for name, write_log in WRITERS.items():
        write(home / f"exchanges/{name}.jsonl", write_log(tickets(4)))
    write(home / _ANSWERS, cases(tickets(4)))
    for file, write_grades in GRADED.values():
        write_grades(home / "exchanges" / file, tickets(4))
    (home / "index").mkdir()
    results = [result(row, [0.1, 0.7, 0.2], 0.8) for row in SUITE]
    write_index(home / "index", results)


def _write_runs(home: Path, frame: pl.DataFrame) -> None:
    """Writes a run, and what was made of runs of the same adapter: calibrator, gates, reports."""
    hashes = {
        name: sha256_of_file(home / "adapter" / name)
        for name in ("adapter_model.safetensors", "training_data.json")
    }
    model: dict[str, Any] = {
        "adapter": {"sha256": hashes["adapter_model.safetensors"]},
        "base": {"sha256": "b" * 64},
        "data": {"sha256": sha256_of_file(home / _HOLDOUT)},
    }
    role = {"files": ["train.jsonl"], "records": 324, "families": 162, "digest": "c" * 64}
    training = {"sha256": hashes["training_data.json"], "roles": {"train": role}}
    custody = {
        "training": training,
        "trained_on": {"items": ["f0-base"], "families": ["f0"], "files": ["train.jsonl"]},
        "other_data": {"manifest": "data/manifest.json", "expected": "d" * 64, "found": "e" * 64},
        "unchecked": "select.jsonl: no such file",
    }
    for name, stated in (("run", {"training": training}), ("trained", custody)):
        run = write_run(home / name, frame, arm="method", seed=1)
        edit_run(run, settings=model, custody=stated, adapter="adapter")
    steps = [{"step": step, "loss": 1 / step, "pair_margin": 1 / step} for step in range(1, 9)]
    write_jsonl(home / "adapter" / "log.jsonl", steps)
    other = other_items(rows(2, families=60, k=2))
    fitted = edit_run(write_run(home / "fitted", other, arm="method", seed=1), settings=model)
    fit_on_run(fitted, [], mode="scalar", decoding="single").write(
        home / "calibration.json", force=True
    )
    (home / "exported").mkdir()
    shutil.copy(home / "decision" / "decision.json", home / "exported" / "decision.json")
    os.chdir(home)
    for command in (
        ("report", "run", "--html", "page.html", *_FEW),
        ("thresholds", "fitted", "--target-error", "0.5", "--out", "thresholds.json"),
        ("thresholds", "--sets", "fitted", "--coverage", "0.6", "--out", "sets.json"),
        ("import", "answers.json", "--out", "logged"),
    ):
        result = run_command(command)
        assert result.exit_code == 0, result.output
    (home / "report.json").write_text(run_command(_REPORT).stdout)
    (home / "audit.json").write_text(run_command(("audit", "data", "data", "--json")).stdout)


def run_command(command: tuple[str, ...]) -> Result:
    program, words = (pact_audit, command[1:]) if command[0] == "audit" else (pact_eval, command)
    return CliRunner().invoke(program, list(words))


def drawn(seed: int) -> tuple[str, Campaign, random.Random]:
    draw = random.Random(seed)
    names = list(CAMPAIGNS)
    name = draw.choices(
        names, weights=[CAMPAIGNS[campaign_name].weight for campaign_name in names]
    )[0]
    return name, CAMPAIGNS[name], draw


def numbers_of(result: Result) -> Any:
    """Returns the numbers of a report, without names and provenance."""
    groups = json.loads(result.stdout)["groups"]
    return [{key: group[key] for key in ("name", "items", "metrics", "pairs")} for group in groups]


def copy_healthy(campaign: Campaign, healthy: Path, home: Path) -> None:
    """Copies the healthy folder for an input of a campaign: links, but for the mutated file."""
    shutil.copytree(healthy, home, dirs_exist_ok=True, copy_function=os.link)
    (home / campaign.file).unlink()
    shutil.copy2(healthy / campaign.file, home / campaign.file)
    for name in campaign.without:
        (home / name).unlink()


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_input(seed: int, healthy: Path, home: Path, expected: dict[Any, Any]) -> None:
    """Runs one input, and asserts what must hold of every input."""
    name, campaign, draw = drawn(seed)
    copy_healthy(campaign, healthy, home)
    os.chdir(home)
    path = home / campaign.file
    path.write_bytes(draw.choice(campaign.mutations)(draw, path.read_bytes()))
    if campaign.forged:
        forge_seal(path.parent)
    result = measured(lambda: run_command(campaign.command))
    check_end(result)
    if campaign.then and result.exit_code == 0:
        check_end(measured(lambda: run_command(campaign.then)))
    if campaign.numbers and result.exit_code == 0 and not result.stderr.strip():
        if campaign.command not in expected:
            os.chdir(healthy)
            expected[campaign.command] = numbers_of(run_command(campaign.command))
        assert numbers_of(result) == expected[campaign.command], f"{name}: numbers have changed"


def measured(run: Callable[[], Result]) -> Result:
    """Runs a command within its bounds of CPU time and memory."""
    before, started = _reset_peak(), time.process_time()
    result = run()
    seconds, more = time.process_time() - started, _peak() - before
    assert seconds < CPU_SECONDS, f"{seconds:.0f} s of CPU time"
    assert more < MORE_BYTES, f"{more:,} bytes more memory"
    return result


def check_end(result: Result) -> None:
    """Asserts that a command ended in one message, or in a normal result."""
    outcome = f"exit code {result.exit_code}\n{result.output[-2_000:]}"
    assert result.exit_code in _EXIT_CODES, outcome
    assert result.exception is None or isinstance(result.exception, SystemExit), (
        f"{result.exception!r}\n{outcome}"
    )
    assert "Traceback" not in result.output, outcome
    errors = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert len(errors) <= 1, outcome
    if result.exit_code == 1:
        assert errors, outcome
    assert len(result.output) < 400_000, f"{len(result.output):,} characters of output"


def _status(name: str) -> int:
    """Returns a number of bytes of /proc/self/status; 0 where there is no such file."""
    with suppress(OSError):
        peak = re.search(
            rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE
        )
        return 0 if peak is None else int(peak[1]) * 1024
    return 0


def _reset_peak() -> int:
    """Sets the peak of memory to what is used now, and returns it.

    Where the system cannot do that, the old peak is returned: an input is then seen if it takes
    more than any before it.
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return _peak()
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _limit_memory() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = _status("VmSize")
    if used:
        resource.setrlimit(resource.RLIMIT_AS, (used + _GUARD_BYTES, hard))


def check_unchanged(healthy: Path, home: Path) -> None:
    """Runs every campaign without a mutation: it must work, and read the file that it mutates.

    Otherwise a mutation would never get past what is wrong without it. An audit hook sees what is
    read. It cannot be removed, so this runs in a process of its own.
    """
    opened: set[str] = set()

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | Path):
            opened.add(Path(arguments[0]).name)

    sys.addaudithook(audit)
    read: dict[tuple[Any, ...], set[str]] = {}
    for name, campaign in CAMPAIGNS.items():
        command = campaign.command, campaign.without
        if command not in read:
            _say({"start": name, "campaign": name})
            copy_healthy(campaign, healthy, home / name)
            os.chdir(home / name)
            opened.clear()
            result = run_command(campaign.command)
            read[command] = {*opened}
            if result.exit_code not in {0, 3, 4}:
                _say({"failed": name, "campaign": name, "reason": result.output[-500:]})
        if Path(campaign.file).name not in read[command]:
            _say({"failed": name, "campaign": name, "reason": f"{campaign.file} is not read"})
    _say({"done": len(CAMPAIGNS)})


def main(healthy: Path, home: Path, seeds: list[int]) -> None:
    """Runs inputs; writes one JSON object per line: before each input, and after one that fails."""
    expected: dict[Any, Any] = {}
    before = _contents(healthy)
    _limit_memory()
    for seed in seeds:
        name = drawn(seed)[0]
        _say({"start": seed, "campaign": name})
        try:
            check_input(seed, healthy, home / str(seed), expected)
        except AssertionError as error:
            _say({"failed": seed, "campaign": name, "reason": str(error)})
        os.chdir(healthy)
        shutil.rmtree(home / str(seed))
    assert _contents(healthy) == before, "a command wrote into a file instead of replacing it"
    _say({"done": len(seeds)})


def _say(value: dict[str, Any]) -> None:
    sys.__stdout__.write(json.dumps(value) + "\n")  # type: ignore[union-attr] # a pipe is there
    sys.__stdout__.flush()  # type: ignore[union-attr]


if __name__ == "__main__":
    if sys.argv[3] == "unchanged":
        check_unchanged(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
