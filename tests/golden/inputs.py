"""How the inputs of the cases were made.

They are stored, so what the record says does not depend on how runs are written, on the processor,
or on torch. A builder writes into the working folder, and names every file relative to it.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import polars as pl
from adapters import config, schema
from builders import question, record, write_jsonl
from click.testing import CliRunner
from conclusions import planted
from decision_index import ROWS, result, written
from evaluation import test_served_runs as served
from experiments.plans import write_whole_plan
from labelled_files import BROKEN, FILES
from made_experiment import write_experiment
from reports.figures.figure_runs import simulated_folders
from run_frames import ablated_rows, edit_rows, edit_run, other_items, rows, without_seal, write_run
from spoiled_datasets import healthy
from thresholds.simulated import run as simulated

from golden.record import FIXTURES, Case
from pact_cli.audit.main import main as audit
from pact_cli.main import main as evaluation
from pact_eval.preregistration.criteria import write_example
from pact_fixtures.generator.dataset import generate_dataset

HERE: Final = Path()
_UNCHANGED: Final[dict[str, Any]] = {"mtime": 0, "uid": 0, "gid": 0, "uname": "", "gname": ""}


def store(case: Case) -> None:
    """Make the inputs of a case and store them, unless they are stored."""
    if not case.make or case.archive.exists():
        return
    case.archive.parent.mkdir(exist_ok=True)
    partial = case.archive.with_suffix(".partial")
    builder, _, name = case.make.partition(":")
    with TemporaryDirectory() as folder, chdir(folder):
        globals()[builder](HERE, *([name] if name else []))
        with tarfile.open(partial, "w:xz", preset=9) as archive:
            for path in sorted(HERE.rglob("*")):
                if path.is_file() and path.name != ".lock":
                    archive.add(path, filter=lambda entry: entry.replace(**_UNCHANGED, deep=False))
    partial.rename(case.archive)


def run(*words: str) -> None:
    """Run `pact-eval`, or `pact-audit` after "audit"."""
    program, words = (audit, words[1:]) if words[0] == "audit" else (evaluation, words)
    done = CliRunner().invoke(program, words, env={"PACT_EVAL_CONFIG": ""})
    assert done.exit_code == 0, done.output


def scored(folder: Path) -> None:
    """Runs of the bundled model: the demo and what else needs a model; two minutes on two cores."""
    for name in ("adapters", "data", "model"):
        shutil.copytree(FIXTURES / name, folder / name)
    names = ("id", "family", "source_family")
    data = generate_dataset("small", seed=99).holdout[:100]
    renamed = ({**row, **{name: f"calib-{row[name]}" for name in names}} for row in data)
    write_jsonl(folder / "calibration.jsonl", ({**row, "split": "validation"} for row in renamed))
    run("audit", "ablate", "data/holdout.jsonl", "--out", "ablated.jsonl")
    for arm in ("nimble_recipe", "pact"):
        score = ("score", f"adapters/{arm}", "--train-seed", "17", "--arm", arm)
        run(*score, "--data", "data/holdout.jsonl", "--k", "4", "--out", f"demo-{arm}")
        calibration = ("--data", "calibration.jsonl", "--k", "4", "--role", "calibration")
        run(*score, *calibration, "--out", f"calibration-{arm}")
        run(*score, "--data", "ablated.jsonl", "--k", "2", "--out", f"ablated-{arm}")
    some = ("--data", "data/holdout.jsonl", "--limit", "80", "--k")
    base = ("--no-adapter", "--base-model", "model", "--arm", "base")
    run("score", *base, *some, "2", "--out", "base")
    run(*score, *some, "2", "--quantize", "nf4", "--out", "quantised")
    run(*score, *some, "2", "--dtype", "bf16", "--out", "unquantised")
    run(*score, *some, "4", "--content-free", "--out", "content-free")
    for name in ("adapters", "data", "model"):
        shutil.rmtree(folder / name)


def planted_runs(folder: Path, name: str) -> None:
    """Runs with a known truth."""
    (case,) = (case for case in planted.CASES if case.name == name)
    case.first.write(folder / "first", case.seeds[0])
    if case.second is not None:
        case.second.write(folder / "second", case.seeds[1])


def arms(folder: Path) -> None:
    """Two arms with three seeds, their calibrators and training logs, the base, and criteria."""
    simulated_folders(folder, arms=("pact", "ce_only"), families=40)
    write_example(folder / "hypotheses.toml")


def dates(folder: Path) -> None:
    """One model in January, in March, and in April, when it has become worse."""
    simulated(folder / "january", 1)
    simulated(folder / "march", 2, unanswered=True)
    simulated(folder / "april", 3, skill=1.5)


def shapes(folder: Path) -> None:
    """Runs of unusual shapes: few items, booleans only, many views, unanswered, ablated."""
    frame = rows(1, families=40, skill=1.5)
    write_run(folder / "booleans", frame.filter(pl.col("kind") == "boolean"), arm="booleans")
    write_run(folder / "twelve", rows(2, families=6), arm="twelve", seed=1)
    write_run(folder / "two", rows(2, families=1), arm="two")
    write_run(folder / "one-view", rows(3, families=20, k=1), arm="one")
    write_run(folder / "twelve-views", rows(4, families=20, k=12), arm="many", seed=1)
    write_run(folder / "ablated", ablated_rows(5), arm="twelve", seed=1)
    write_run(folder / "calibration", other_items(rows(6, skill=1.5)), arm="twelve", seed=1)
    edit_run(folder / "calibration", role="calibration")
    simulated(folder / "unanswered", 4, families=60, unanswered=True)


def served_runs(folder: Path) -> None:
    """Runs of servers: one order of booleans, rounded probabilities, an item without an answer."""
    served.written(folder / "one-order", served.rows())
    served.written(folder / "unanswered", served.rows(without=("b",)))
    frame = rows(8, families=40, k=2)
    write_run(folder / "local", frame, arm="local")
    shares = pl.col("logits").list.eval((pl.element().exp() / pl.element().exp().sum()).round(2))
    write_run(folder / "rounded", frame, arm="rounded")
    logs = shares.list.eval(pl.max_horizontal(pl.element(), pl.lit(0.001)).log())
    edit_rows(folder / "rounded", frame.select(logits=logs)["logits"])
    edit_run(folder / "rounded", rounding={"decimals": 2, "views_with_zeros": 0})


def logged_rows(folder: Path) -> None:
    """Rows of our own format as every kind of table, repeats, and rows with faults."""
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=24)
    frame = pl.DataFrame(
        {
            "id": [f"q{number}" for number in range(24)],
            "reference": [number % 3 for number in range(24)],
            "family": [f"f{number // 2}" for number in range(24)],
            **{f"p{letter}": p[:, at] for at, letter in enumerate("abc")},
        }
    )
    frame.write_csv(folder / "wide.csv")
    frame.write_csv(folder / "wide.tsv", separator="\t")
    lists = frame.select(
        "id", "reference", "family", probabilities=pl.concat_list("pa", "pb", "pc")
    )
    said = pl.Series("prediction", [list("abc")[at] for at in p.argmax(axis=1)])
    labels = frame.select("id", label=pl.col("reference").replace_strict({0: "a", 1: "b", 2: "c"}))
    labels.with_columns(said).write_csv(folder / "predictions.csv")
    labels.with_columns(said).write_csv(folder / "predictions.tsv", separator="\t")
    lists.write_parquet(folder / "rows.parquet")
    lists.write_ndjson(folder / "rows.jsonl")
    (folder / "rows.json").write_text(json.dumps(lists.to_dicts()))
    repeats = [row | {"view": view} for row in lists.to_dicts() for view in range(3)]
    write_jsonl(folder / "repeats.jsonl", repeats)
    answers = [{"id": f"a{n}", "reference": 0, "n_choices": 3, "answer": n % 3} for n in range(12)]
    write_jsonl(folder / "answers.jsonl", answers)
    good = {"id": "a", "reference": 1, "probabilities": [0.25, 0.75]}
    wrong = {"reference": 2}, {"probabilities": [0.5, 0.1]}, {"probabilities": "x"}, {"id": None}
    write_jsonl(folder / "faulty.jsonl", [good, *(good | {"id": "b"} | one for one in wrong)])


def decision_index(folder: Path) -> None:
    """Results of the Decision Index and their suite, and results that the suite lacks."""
    results = [result(row, [0.2, 0.5, 0.3], 0.7) for row in ROWS[:4]]
    failed = result(ROWS[4], [0.2, 0.5, 0.3], 0.7, status="error", response=None)
    written(folder, [*results, failed])


def labelled(folder: Path) -> None:
    """Labelled files of every known shape, and files that are refused."""
    for kind, files in (("good", FILES), ("broken", BROKEN)):
        for name, file in files.items():
            home = folder / kind / name.replace(" ", "-")
            home.mkdir(parents=True)
            file.write(home)


def datasets(folder: Path) -> None:
    """Healthy data, and data with one fault of each kind."""
    healthy(families=12).write(folder / "healthy")
    data = healthy(families=12)
    copied = [{**row, "split": "validation"} for row in data.train[:2]]
    near = json.loads(json.dumps(data.train[4])) | {"id": "near-base", "family": "near"}
    near["input"]["state"] = f"{near['input']['state']} Indeed."
    data.holdout += [*copied, {**near, "split": "validation"}]
    data.holdout[6]["reference"] = data.holdout[7]["reference"]
    data.holdout[8].pop("evidence_certificate", None)
    data.train[6]["variant"] = "counterfactual"
    data.train[8]["input"]["questions"] = {}
    data.write(folder / "faults")
    (folder / "unlisted").mkdir()
    for name in ("train.jsonl", "manifest.json"):
        shutil.copy(folder / "faults" / name, folder / "unlisted" / name)
    shutil.copy(folder / "faults/train.jsonl", folder / "unlisted/more.jsonl")
    spelled = [record(f"f{n}-base", decision=question("score", 4)) for n in range(6)]
    write_jsonl(folder / "old.jsonl", spelled)
    spelled[1]["reference"]["target"] = 3
    write_jsonl(folder / "new.jsonl", [*spelled[1:], record("f9-base", decision=question("noul"))])


def adapters(folder: Path) -> None:
    """An adapter with faults in its settings; the weights are cut, because they are large."""
    source = FIXTURES / "adapters" / "pact"
    shutil.copytree(source, folder / "faulty")
    config(base_model_name_or_path="elsewhere/base", lora_alpha=0, r=4)(folder / "faulty")
    schema(model="elsewhere/base", revision="main")(folder / "faulty")
    raw = (source / "adapter_model.safetensors").read_bytes()
    (folder / "faulty/adapter_model.safetensors").write_bytes(raw[:60_000])
    (folder / "faulty/adapter_model.bin").write_bytes(b"\x80\x04cos\nsystem\n.")


def plans(folder: Path) -> None:
    """A plan of two arms, its data and its trainer; and a plan that cannot be used."""
    plan = write_whole_plan(folder / "experiment")
    (folder / "experiment/base").unlink()
    text = plan.read_text().replace('base = "base"', 'base = "../model"')
    plan.write_text(text)
    (folder / "experiment/wrong.toml").write_text(text.replace("select = 1", "select = 99\nx = 1"))
    for name in ("paper_plan.toml", "miniature.toml", "paper_hypotheses.toml"):
        shutil.copy(FIXTURES / name, folder / "experiment")


def published(folder: Path) -> None:
    """Files of published metrics and rows."""
    write_experiment(folder)
    shutil.copy(FIXTURES / "paper_hypotheses.toml", folder)


def spoiled_runs(folder: Path) -> None:
    """A run, and runs that were changed after they were sealed, or that are none."""
    frame = rows(1, families=10)
    for name in ("good", "rows", "facts", "unsealed", "cut", "json", "other"):
        write_run(folder / name, other_items(frame) if name == "other" else frame, arm=name)
    path = folder / "rows/predictions.parquet"
    changed = pl.read_parquet(path).with_columns(reference=pl.lit(0, dtype=pl.Int16))
    changed.write_parquet(path)
    facts = json.loads((folder / "facts/run.json").read_bytes())
    (folder / "facts/run.json").write_text(json.dumps(facts | {"arm": "mine"}))
    without_seal(folder / "unsealed")
    raw = (folder / "cut/predictions.parquet").read_bytes()
    (folder / "cut/predictions.parquet").write_bytes(raw[: len(raw) // 2])
    (folder / "json/run.json").write_text('{"format_version": 3,')
    (folder / "not-a-run").mkdir()
    (folder / "not-a-run/notes.txt").write_text("nothing\n")


def requests(folder: Path) -> None:
    """What a server is asked: one request, and records with references."""
    fields = {"topic": question(), "urgent": question("noul"), "harm": question("score", 4)}
    (folder / "schema.json").write_text(json.dumps(fields))
    records: Sequence[Any] = [
        record(f"f{n}-{v}") for n in range(4) for v in ("base", "counterfactual")
    ]
    for number, row in enumerate(records):
        row["input"]["state"] = f"Clerk: Seal {number} is intact."
    write_jsonl(folder / "data.jsonl", records)
