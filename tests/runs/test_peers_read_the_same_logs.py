"""Logs of requests and replies, read here and by the packages that write them.

`PACT_PEERS_PYTHON` names a Python that has jevkit-core, jev-eval, jevassert, s1ops, decguard,
errorbars, statgate and evalsig.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import polars as pl
import pytest
from needs import optional_tool
from tool_logs.exchange_logs import GRADED, QUESTIONS, WRITERS, cases, tickets, write

from pact_eval.importing.import_run import find_source, read_log
from pact_eval.importing.source import import_options

PEERS = os.environ.get("PACT_PEERS_PYTHON", "")

JEVKIT = """
from jevkit_core import read_records
from jevkit_core.answers import parse_answers
for record in read_records("log.jsonl"):
    for name, answer in parse_answers(record.answers).items():
        right[name].append(answer.is_correct(record.label[name]))
"""
JEV_EVAL = """
from jev_eval.cache import load_cache
from jev_eval.score import score_answer
for entry in load_cache("log.jsonl"):
    scored = score_answer(entry["row"], entry["question"], entry["answer"], entry["gold"])
    right[entry["id"]].append(scored.correct)
"""
JEVASSERT = """
from jevassert.metrics import _item_for
from jevassert.runner import load_predictions
expected = {case["id"]: case["expect"] for case in map(json.loads, open("cases.jsonl"))}
shapes = {**QUESTIONS, "anger": {**QUESTIONS["anger"], "levels": QUESTIONS["anger"]["criteria"]}}
for key, entry in load_predictions("log.jsonl").items():
    for name, answer in entry["answers"].items():
        right[name].append(_item_for(key, name, shapes[name], expected[key][name], answer).correct)
"""
S1OPS = """
from s1ops.contracts.records import read_records, select
from s1ops.eval.metrics import top_label
for group in select(read_records("log.jsonl")).groups:
    right[group.question_id] = [bool(each) for each in top_label(group.P, group.y)[1]]
"""
DECGUARD = """
from decguard.production.records import ProductionRecord
for line in open("log.jsonl"):
    record = ProductionRecord.model_validate_json(line)
    right["topic"].append(record.selected == record.outcome)
"""
SCRIPTS = {
    "jevkit": JEVKIT,
    "jev-eval": JEV_EVAL,
    "jevassert": JEVASSERT,
    "s1ops": S1OPS,
    "decguard": DECGUARD,
}
OWN_RULES = {("jev-eval", "anger")}
"""It rounds the expected score instead of taking the most probable level."""


@optional_tool(bool(PEERS))
@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_accuracy_against_the_package_that_writes_the_log(tmp_path: Path, name: str) -> None:
    made = tickets(60)
    log = write(tmp_path / "log.jsonl", WRITERS[name](made))
    labels = write(tmp_path / "cases.jsonl", cases(made)) if name == "jevassert" else None
    options = import_options({"data": labels})
    frame = read_log(find_source(log), log, options)[0].frame.with_columns(
        question=pl.col("id").str.split("/").list.last(),
        right=pl.col("logits").list.arg_max() == pl.col("reference"),
    )
    start = (
        "import collections, json\nright = collections.defaultdict(list)\n"
        f"QUESTIONS = json.loads({json.dumps(QUESTIONS)!r})\n"
    )
    script = start + SCRIPTS[name] + "\nprint(json.dumps(right))"
    done = subprocess.run(
        [PEERS, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    theirs = json.loads(done.stdout)
    assert theirs.keys() == {*frame["question"]}
    for question, right in theirs.items():
        ours = frame.filter(pl.col("question") == question)["right"].to_list()
        assert (ours == right) == ((name, question) not in OWN_RULES), question


GRADED_SCRIPTS = {
    "errorbars": "from errorbars.io import load_csv; scores = load_csv(FILE).score",
    "statgate": "from statgate.adapters import load_records\n"
    "scores = [record.passed for record in load_records(Path(FILE))]",
    "evalsig": "from evalsig.io.json_runframe import read_runframe_json\n"
    "scores = [item.score for item in read_runframe_json(FILE).items]",
}


@optional_tool(bool(PEERS))
@pytest.mark.slow
@pytest.mark.parametrize("name", GRADED_SCRIPTS)
def test_grades_against_the_package_that_writes_them(tmp_path: Path, name: str) -> None:
    file, write_grades = GRADED[name]
    path = write_grades(tmp_path / file, tickets(60))
    script = f"import json\nfrom pathlib import Path\nFILE = {file!r}\n{GRADED_SCRIPTS[name]}\n"
    script += "print(json.dumps([float(score) for score in scores]))"
    done = subprocess.run(
        [PEERS, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    frame = read_log(find_source(path), path, import_options({}))[0].frame
    assert [float(logits[0] == 0) for logits in frame["logits"]] == json.loads(done.stdout)
