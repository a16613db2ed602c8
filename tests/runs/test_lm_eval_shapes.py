"""Folders and lines of lm-evaluation-harness, written here as the harness writes them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from builders import write_jsonl
from messages import assert_says

from logs import read_rows
from pact_cli.main import main
from pact_eval.data.labelled.reading import Reading
from pact_eval.errors import InputError, RecordError, SeveralFilesError, ShapeError
from pact_eval.evaluation.experiment import Experiment
from pact_eval.evaluation.settings import Settings
from pact_eval.importing.import_run import import_run
from pact_eval.importing.source import ImportedRows, ImportOptions

FIRST, SECOND = "2026-01-05T10-00-00.000001", "2026-02-05T10-00-00.000001"
LETTERS = ("A", "B", "C", "D")
Row = dict[str, Any]


def line(
    doc_id: int,
    choices: Sequence[str],
    target: object,
    lls: Sequence[float],
    *,
    prompt: str = "Question?\nAnswer:",
    delimiter: str = " ",
    **metrics: Any,
) -> Row:
    requests = [{"arg_0": prompt, "arg_1": delimiter + choice} for choice in choices]
    return {
        "doc_id": doc_id,
        "doc": {"question": doc_id, "choices": [*choices]},
        "target": str(target),
        "arguments": {f"gen_args_{at}": request for at, request in enumerate(requests)},
        "filtered_resps": [[str(value), "False"] for value in lls],
        "filter": "none",
        "metrics": [*metrics],
        "doc_hash": sha256(str(doc_id).encode()).hexdigest(),
        "prompt_hash": sha256(prompt.encode()).hexdigest(),
        "target_hash": sha256(str(target).encode()).hexdigest(),
        **metrics,
    }


def letter_lines(n: int, right: int, prompt: str = "Question?\nAnswer:") -> list[Row]:
    """Lines whose first answers are right."""
    return [
        line(at, LETTERS, at % 4, lls, prompt=prompt, acc=float(at < right))
        for at in range(n)
        for lls in [[-1.0 if place == (at + (at >= right)) % 4 else -3.0 for place in range(4)]]
    ]


def write(folder: Path, task: str, rows: Sequence[Row], date: str = FIRST, **results: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_jsonl(folder / f"samples_{task}_{date}.jsonl", list(rows))
    name = folder / f"results_{date}.json"
    facts = {"results": {task: {}}, "configs": {}, "lm_eval_version": "0.4.13", **results}
    if name.exists():
        facts = json.loads(name.read_text()) | facts
    name.write_text(json.dumps(facts, indent=2))
    return folder


def accuracy(imported: ImportedRows) -> float:
    frame = imported.frame.with_columns(answer=pl.col("logits").list.arg_max())
    return sum(frame["answer"] == frame["reference"]) / len(frame)


def digits(right: Sequence[bool], **metrics: Any) -> list[Row]:
    """Choices 1 to 3: the target is the text of the right one."""
    rows = []
    for at, counted in enumerate(right):
        answer = at % 3 if counted else (at + 1) % 3
        lls = [-1.0 if place == answer else -2.0 for place in range(3)]
        rows.append(line(at, ("1", "2", "3"), at % 3 + 1, lls, acc_norm=float(counted), **metrics))
    return rows


def test_the_only_metric_that_a_log_has_is_read(tmp_path: Path) -> None:
    imported = read_rows(write(tmp_path, "rating", digits([True] * 6 + [False])))
    assert accuracy(imported) == pytest.approx(6 / 7)
    assert_says(" ".join(imported.remarks), "rating", "acc_norm")
    assert imported.facts.log["metric"] == {"rating": "acc_norm"}


def ambiguous(folder: Path) -> Path:
    """Answers that are wrong as texts and as positions."""
    return write(folder, "rating", [line(0, ("1", "2", "3"), 1, [-3, -2, -1], acc=0.0)])


def test_two_readings_of_targets_are_a_question(tmp_path: Path) -> None:
    folder = ambiguous(tmp_path / "log")
    with pytest.raises(ShapeError) as error:
        read_rows(folder)
    assert error.value.exit_code == 2
    said = str(error.value)
    assert_says(
        said, "samples_rating", ":1 (id doc 0)", "target '1'", "position-0: the answer is '2'"
    )
    assert_says(said, "text: the answer is '1'", "--answers text")
    commands = [shlex.split(row) for row in said.splitlines() if "pact-eval import" in row]
    for command, reference in zip(commands, (1, 0), strict=True):
        out = tmp_path / str(reference)
        main([*command[1 : command.index("--out")], "--out", str(out)], standalone_mode=False)
        (run,) = Experiment.read([out]).runs
        assert run.predictions.reference.tolist() == [reference]


@pytest.mark.parametrize(("form", "reference"), [("text", 0), ("position-0", 1), ("position-1", 0)])
def test_targets_are_read_as_stated(tmp_path: Path, form: str, reference: int) -> None:
    imported = read_rows(ambiguous(tmp_path), ImportOptions(reading=Reading(form=form)))
    assert imported.frame["reference"].to_list() == [reference]


def test_a_log_without_any_check_has_unverified_rows(tmp_path: Path) -> None:
    rows = letter_lines(5, 5)
    for row in rows[:2]:
        row["acc"] = None
    imported = read_rows(write(tmp_path, "mmlu", rows))
    assert imported.facts.log["unverified"] == 2
    assert_says(" ".join(imported.remarks), "2 rows of mmlu", "not verified")
    for row in rows:
        row.pop("acc")
    only = read_rows(write(tmp_path, "mmlu", rows))
    assert only.facts.log["unverified"] == 5
    positions = [line(0, LETTERS, 1, [-1, -2, -3, -4])]
    with pytest.raises(ShapeError, match="position-1: the answer is 'A'"):
        read_rows(write(tmp_path / "one", "mmlu", positions))


@pytest.mark.parametrize("name", ["mcc", "f1", "brier_score", "likelihood"])
def test_pairs_of_metrics_state_the_right_answer(tmp_path: Path, name: str) -> None:
    rows = digits([True, False, True, False])
    for at, row in enumerate(rows):
        row.pop("acc_norm")
        answer = at % 3 if at % 2 == 0 else (at + 1) % 3
        row[name] = [at % 3, answer if name in ("mcc", "f1") else "[0.2 0.3 0.5]"]
    imported = read_rows(write(tmp_path / "a", "rating", rows))
    assert accuracy(imported) == 0.5
    assert "unverified" not in imported.facts.log
    assert imported.facts.log["recomputed"] == {"answers": 4, "correct": 2}
    rows[1][name][0] = 2
    with pytest.raises(RecordError, match=r":2 \(id doc 1\): the log states 2 as the reference"):
        read_rows(write(tmp_path / "b", "rating", rows))


@pytest.mark.parametrize(
    ("metric", "published", "other"),
    # By hand: right answers 1 0 1 1, answers 1 1 1 0.
    [("f1", 2 / 3, 0.7), ("mcc", -1 / 3, 0.0), ("acc", 0.5, 0.75), ("brier_score", None, 0.4)],
)
def test_every_published_metric_is_compared(
    tmp_path: Path, metric: str, published: float | None, other: float
) -> None:
    right, answers = (1, 0, 1, 1), (1, 1, 1, 0)
    rows = []
    for at, (gold, answer) in enumerate(zip(right, answers, strict=True)):
        lls = [-0.5 if place == answer else -1.5 for place in range(2)]
        values: Row = {"acc": float(gold == answer), "f1": [gold, answer], "mcc": [gold, answer]}
        values["brier_score"] = [gold, "[0.3 0.7]"]
        rows.append(line(at, ("no", "yes"), gold, lls, **values))
    if published is None:  # softmax of (-0.5, -1.5) has 1/(1+e) on the less likely answer
        share = 1 / (1 + 2.718281828459045)
        published = (
            sum(
                2 * (share if g == a else 1 - share) ** 2
                for g, a in zip(right, answers, strict=True)
            )
            / 4
        )
    name = f"{metric},none"
    read_rows(write(tmp_path / "a", "task", rows, results={"task": {name: published}}))
    with pytest.raises(
        RecordError, match=rf"task: .* is {published:.6f}, that of the results {other}"
    ):
        read_rows(write(tmp_path / "b", "task", rows, results={"task": {name: other}}))
    own = {"task": {"metric_list": [{"metric": metric, "aggregation": "def own(items): ..."}]}}
    read_rows(write(tmp_path / "c", "task", rows, results={"task": {name: other}}, configs=own))


def several_runs(folder: Path) -> Path:
    few: Row = {"n-shot": {"mmlu": 0}, "model_name": "org/base"}
    write(folder, "mmlu", letter_lines(8, 2), **few)
    write(folder, "arc", letter_lines(8, 4), **few)
    few = {"n-shot": {"mmlu": 5}, "model_name": "org/tuned"}
    return write(folder, "mmlu", letter_lines(8, 8), SECOND, **few)


def test_runs_of_two_dates_are_never_one_run(tmp_path: Path) -> None:
    folder = several_runs(tmp_path / "my logs")
    with pytest.raises(SeveralFilesError) as error:
        read_rows(folder)
    said = str(error.value)
    assert_says(said, "2 runs", "org/base of 2026-01-05", "arc, mmlu, 0 shots", "org/tuned")
    commands = [shlex.split(row) for row in said.splitlines() if "pact-eval import" in row]
    found = [accuracy(read_rows(Path(command[2]))) for command in commands]
    assert found == [6 / 16, 1.0]
    assert len({command[-1] for command in commands}) == 2


def test_what_output_path_holds_is_read(tmp_path: Path) -> None:
    out = tmp_path / "out"
    hidden = write(out / "..__base", "mmlu", letter_lines(8, 2), model_name="../base")
    assert accuracy(read_rows(out)) == accuracy(read_rows(hidden)) == 0.25
    write(out / "org__tuned", "mmlu", letter_lines(8, 6), model_name="org/tuned")
    with pytest.raises(SeveralFilesError, match="runs/base") as error:
        read_rows(out)
    assert_says(str(error.value), "runs/org__tuned")
    named = out / "org__tuned" / f"mine_{FIRST}.json"  # --output_path mine.json
    (out / "org__tuned" / f"results_{FIRST}.json").rename(named)
    assert read_rows(named).model == "org/tuned"


def test_results_without_samples_say_how_to_log_them(tmp_path: Path) -> None:
    write(tmp_path, "mmlu", letter_lines(2, 2))
    next(tmp_path.glob("samples_*")).unlink()
    with pytest.raises(InputError, match="--log_samples"):
        read_rows(tmp_path / f"results_{FIRST}.json")


def test_positive_and_equal_log_likelihoods_are_refused(tmp_path: Path) -> None:
    rows = letter_lines(3, 3)
    for row in rows:
        row["filtered_resps"][0][0] = "0.4"
    with pytest.raises(RecordError, match=r":1 .* at most 0, [^\n]*\nand 2 more"):
        read_rows(write(tmp_path / "a", "mmlu", rows))
    rows = [line(at, LETTERS, at % 4, [-1.0] * 4, acc=float(at % 4 == 0)) for at in range(8)]
    with pytest.raises(RecordError, match="equal log-likelihoods"):
        read_rows(write(tmp_path / "b", "mmlu", rows))


def test_counts_of_documents_are_compared(tmp_path: Path) -> None:
    def counts(original: int, effective: int) -> Row:
        return {"n-samples": {"mmlu": {"original": original, "effective": effective}}}

    cut = read_rows(write(tmp_path / "a", "mmlu", letter_lines(25, 9), **counts(60, 60)))
    assert cut.facts.log["incomplete"] == {"read": 25, "of": 60}
    limited = read_rows(write(tmp_path / "b", "mmlu", letter_lines(8, 8), **counts(100, 8)))
    assert limited.facts.log["incomplete"] == {"read": 8, "of": 100}
    assert_says(" ".join(limited.remarks), "8 of 100 documents")
    whole = read_rows(write(tmp_path / "c", "mmlu", letter_lines(8, 8), **counts(8, 8)))
    assert "incomplete" not in whole.facts.log
    with pytest.raises(RecordError, match="9 lines, but the results are of 8 documents"):
        read_rows(write(tmp_path / "d", "mmlu", letter_lines(9, 8), **counts(8, 8)))
    gap = [row for row in letter_lines(8, 8) if row["doc_id"] != 3]
    missing = read_rows(write(tmp_path / "e", "mmlu", gap))
    assert missing.facts.log["incomplete"] == {"read": 7, "of": 8}
    more: Row = {"arc": {"original": 40, "effective": 40}, **counts(8, 8)["n-samples"]}
    both: Row = {"n-samples": more}
    absent = write(tmp_path / "f", "mmlu", letter_lines(8, 8), **both)
    assert read_rows(absent).facts.log["incomplete"] == {"read": 8, "of": 48}
    (file,) = absent.glob("samples_*")
    assert "incomplete" not in read_rows(file).facts.log


@pytest.mark.parametrize(
    ("version", "prefix", "written", "length"),
    [
        ("0.4.13", None, "", 3),
        ("0.4.5", None, " ", 2),
        ("0.4.13", "The answer is", " ", 2),
        ("0.4.9", "The answer is", "", 3),
        ("0.4.13", "The answer is ", "", 3),
    ],
)
def test_lengths_of_a_chat_run_are_without_the_delimiter_that_it_has(
    tmp_path: Path, version: str, prefix: str | None, written: str, length: int
) -> None:
    texts = (" ab", " abcdefgh") if length == 3 else ("ab", "abcdefgh")
    rows = [line(0, texts, 0, [-3.0, -4.0], delimiter=written, acc=1.0)]
    config = {"target_delimiter": " ", "gen_prefix": prefix}
    facts: Row = {"configs": {"hs": config}, "chat_template": "{{ x }}", "lm_eval_version": version}
    write(tmp_path, "hs", [row | {"acc_norm": 0.0} for row in rows], **facts)
    frame = read_rows(tmp_path, ImportOptions(metric="acc_norm")).frame
    assert frame["logits"].to_list() == [[-3.0 / length, -4.0 / (length + 6)]]


def test_letters_are_choices_a_b_c_that_the_prompt_shows(tmp_path: Path) -> None:
    shown = "Question?\nA. one\nB. two\nC. three\nD. four\nAnswer:"
    frame = read_rows(write(tmp_path / "a", "mmlu", letter_lines(8, 4, shown))).frame
    assert frame["answer_mass"].null_count() == 0
    assert frame["code_order"].to_list() == [[0, 1, 2, 3]] * 8
    words = [line(at, ("猫", "犬"), at % 2, [-1.0, -2.0], acc=1.0 - at % 2) for at in range(4)]
    for folder, rows in (("b", letter_lines(8, 4)), ("c", words)):
        frame = read_rows(write(tmp_path / folder, "mmlu", rows)).frame
        assert frame["answer_mass"].null_count() == len(rows)
        assert frame["code_order"].to_list() == [[]] * len(rows)


def generated(doc_id: int) -> Row:
    return {
        "doc_id": doc_id,
        "doc": {},
        "target": "4",
        "arguments": {"gen_args_0": {"arg_0": "q", "arg_1": {"until": ["\n"]}}},
        "filtered_resps": ["4"],
        "exact_match": 1.0,
    }


def test_a_task_of_another_type_does_not_block_a_folder(tmp_path: Path) -> None:
    write(tmp_path, "gsm", [generated(at) for at in range(3)])
    with pytest.raises(RecordError, match="multiple-choice task .*; gsm: .*generate_until"):
        read_rows(tmp_path)
    one = generated(0) | {"arguments": {"gen_args_0": {"arg_0": "q", "arg_1": " end"}}}
    write(tmp_path, "lambada", [one | {"filtered_resps": [["-1", "True"]]}])
    write(tmp_path, "truthful", [row | {"acc": 0.37} for row in letter_lines(3, 3)])
    imported = read_rows(write(tmp_path, "mmlu", letter_lines(8, 2)))
    assert accuracy(imported) == 0.25
    assert imported.facts.log["tasks"] == ["mmlu"]
    said = " ".join(imported.remarks)
    for name in ("gsm is not read", "lambada is not read", "truthful is not read: acc is a share"):
        assert_says(said, name)


@pytest.mark.parametrize("as_array", [True, False])
def test_logs_below_0_4_3_are_read(tmp_path: Path, as_array: bool) -> None:
    rows = []
    for row in letter_lines(8, 2):
        pairs = [[request["arg_0"], request["arg_1"]] for request in row["arguments"].values()]
        numbers = [[float(value), False] for value, _ in row["filtered_resps"]]
        kept = {name: row[name] for name in ("doc_id", "doc", "acc")}
        rows.append(
            {**kept, "target": int(row["target"]), "arguments": pairs, "filtered_resps": numbers}
        )
    path = tmp_path / "pretrained=org__m_mmlu.jsonl"
    if as_array:
        path.write_text(json.dumps(rows, indent=2))
        (tmp_path / "results.json").write_text(
            json.dumps({"results": {"mmlu": {"acc,none": 0.25}}, "configs": {"mmlu": {}}})
        )
        imported = read_rows(tmp_path)
        assert imported.facts.log["tasks"] == ["mmlu"]
    else:
        imported = read_rows(write_jsonl(path, rows))
    assert accuracy(imported) == 0.25


def test_other_prompts_are_compared_only_if_allowed(tmp_path: Path) -> None:
    for name, shots, version, right in (("zero", 0, 1.0, 20), ("five", 5, 2.0, 30)):
        rows = letter_lines(40, right, "example " * shots + "Question?")
        facts: Row = {"n-shot": {"mmlu": shots}, "versions": {"mmlu": version}}
        import_run(write(tmp_path / name, "mmlu", rows, **facts), tmp_path / f"run-{name}", {})
    runs = [tmp_path / "run-zero", tmp_path / "run-five"]
    with pytest.raises(InputError) as error:
        Experiment.read(runs)
    assert_says(
        str(error.value), "0 shots of mmlu, version 1.0 of mmlu", "5 shots", "--allow other-"
    )
    allowed = Experiment.read(runs, replace(Settings(), allow=("other-prompts",)))
    (unlike,) = allowed.unlike
    assert_says(unlike.differences[0].after, "5 shots of mmlu", "prompts")


def test_a_changed_prompt_or_target_is_not_the_one_that_was_hashed(tmp_path: Path) -> None:
    rows = letter_lines(4, 4)
    rows[2]["target"] = "3"
    with pytest.raises(RecordError, match=r":3 \(id doc 2\): target_hash"):
        read_rows(write(tmp_path, "mmlu", rows))
