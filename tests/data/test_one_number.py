"""One number per row. Sources of truth: scikit-learn's `predict_proba`, and accuracy by hand."""

from __future__ import annotations

import csv
import json
import math
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from messages import assert_says
from sklearn.linear_model import LogisticRegression

import pact_eval
from pact_cli.main import main
from pact_eval.errors import RecordError, ShapeError
from pact_eval.importing.stored import how_read

FAST = ("--resamples", "100")
MOST_PASTED = 2


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def classified(seed: int, names: Sequence[Any] = (0, 1)) -> tuple[list[Any], np.ndarray]:
    """Labels, and `predict_proba` of a logistic regression that was fitted to them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, 3))
    y = np.asarray(names)[(x[:, 0] + rng.normal(size=60) > 0).astype(int)]
    model = LogisticRegression().fit(x, y)
    assert [*model.classes_] == sorted(names)
    return y.tolist(), model.predict_proba(x)


def table(columns: Mapping[str, Any], name: str = "t.csv") -> Path:
    path = Path(name)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[*columns], *zip(*columns.values(), strict=True)])
    return path


def numbers(folder: Path | str = "run") -> tuple[float, float]:
    """Accuracy and NLL of a run; NaN if it has no probabilities."""
    estimates = pact_eval.evaluate(folder, pact_eval.Settings(resamples=2)).groups[0].estimates
    nll = estimates["nll_nats"].value if "nll_nats" in estimates else math.nan
    return estimates["accuracy"].value, nll


def truth(labels: Sequence[Any], p: np.ndarray) -> tuple[float, float]:
    """Accuracy and NLL by their definitions, of sorted labels."""
    right = np.searchsorted(np.unique(labels), labels)
    losses = -np.log(p[np.arange(len(p)), right])
    return float((p.argmax(axis=1) == right).mean()), float(losses.mean())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("column", "names", "word"),
    [
        ("p_1", (0, 1), "1"),
        ("P_1", (0, 1), "1"),
        ("prob_yes", ("no", "yes"), "yes"),
        ("proba_positive", ("negative", "positive"), "positive"),
        ("prob.spam", ("ham", "spam"), "spam"),
    ],
)
def test_a_column_named_for_an_answer_against_predict_proba(
    column: str, names: Sequence[Any], word: str, seed: int
) -> None:
    labels, p = classified(seed, names)
    pact_eval.import_run(table({"y_true": labels, column: p[:, 1]}), "run")
    assert numbers() == pytest.approx(truth(labels, p), abs=1e-9)
    assert f"{column} = probability of {word}" in how_read(Path("run"))
    other = column.replace(word, str(names[0]))
    pact_eval.import_run(table({"y_true": labels, other: p[:, 0]}, "o.csv"), "other")
    assert numbers("other") == pytest.approx(truth(labels, p), abs=1e-9)


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("column", ["y_proba", "y_score", "confidence", "model_probability"])
def test_predictions_prove_which_answer_a_number_is_of(column: str, positive: int) -> None:
    labels, p = classified(4)
    columns: dict[str, Any] = {"y_true": labels, "y_pred": p.argmax(axis=1), column: p[:, positive]}
    pact_eval.import_run(table(columns), "run")
    assert f"{column} = probability of {positive}" in how_read(Path("run"))
    assert numbers() == pytest.approx(truth(labels, p), abs=1e-9)


@pytest.mark.parametrize("column", ["score", "max_proba", "prediction_confidence"])
def test_numbers_above_a_half_are_the_confidence_of_the_prediction(column: str) -> None:
    labels, p = classified(5)
    said = p.argmax(axis=1)
    pact_eval.import_run(table({"label": labels, "prediction": said, column: p.max(axis=1)}), "run")
    assert_says(how_read(Path("run")), f"{column} = confidence")
    assert numbers()[0] == pytest.approx(truth(labels, p)[0])
    constant = {"label": labels, "prediction": [1] * 60, column: p.max(axis=1)}
    with pytest.raises(ShapeError, match="the probability of 1") as error:
        pact_eval.import_run(table(constant, "c.csv"), "constant")
    assert_says(error.value, f"confidence={column}", f"ignored={column}")


def test_a_question_and_what_each_answer_gives() -> None:
    labels, p = classified(6, ("no", "yes"))
    path = table({"y_true": labels, "y_score": p[:, 1]})
    result = report(path)
    commands = pasted(result)
    assert [command.partition("y_score ")[2] for command in commands] == [
        "--options yes,no",
        "--options no,yes",
    ]
    values = [truth(labels, p)[0], truth(labels, p[:, ::-1])[0]]
    for command, value in zip(commands, values, strict=True):
        told = f"{value:.1%} are right"
        assert told in " ".join(result.stderr.split())
        assert accuracy_of(paste(command)) == pytest.approx(value)


def test_one_number_of_three_answers_is_refused() -> None:
    columns: dict[str, Any] = {"label": ["a", "b", "c"] * 10, "prob_a": [0.2, 0.4, 0.6] * 10}
    with pytest.raises(ShapeError, match="of two answers"):
        pact_eval.import_run(
            table(columns), "run", columns={"probabilities": "prob_a"}, options=["a", "b", "c"]
        )
    with pytest.raises(RecordError, match="p_1: expected the probability of 1"):
        pact_eval.import_run(table({"label": [0, 1], "p_1": [0.2, 1.2]}, "u.csv"), "run")


def test_predictions_that_contradict_both_answers_are_left_out_by_the_remedy() -> None:
    """The threshold of these predictions is 0.3, by hand."""
    labels, p = classified(7)
    columns: dict[str, Any] = {
        "y_true": labels,
        "y_pred": (p[:, 1] >= 0.3).astype(int),
        "y_proba": p[:, 1],
    }
    commands = pasted(report(table(columns)))
    assert accuracy_of(paste(commands[0])) == pytest.approx(truth(labels, p)[0])
    assert "ignored=y_proba" in commands[-1]


def test_confidences_in_percent_by_hand() -> None:
    columns: dict[str, Any] = {
        "label": ["a", "b"] * 5,
        "prediction": ["a"] * 10,
        "confidence": [99.5, 60] * 5,
    }
    pact_eval.import_run(table(columns), "run")
    assert "confidence in percent" in how_read(Path("run"))
    pact_eval.import_run(table(columns | {"confidence": [0.995, 0.6] * 5}, "f.csv"), "fraction")
    settings = pact_eval.Settings(resamples=2)
    percent, fraction = (
        pact_eval.evaluate(name, settings).groups[0].estimates["ece"].value
        for name in ("run", "fraction")
    )
    assert percent == pytest.approx(fraction)
    mixed = table(columns | {"confidence": [99.5, 0.6] * 5}, "mixed.csv")
    (command,) = pasted(report(mixed))
    assert accuracy_of(paste(command)) == 0.5


def test_scores_of_other_things_are_further_columns() -> None:
    """Points are above 1, flags are 0 and 1, and next to all probabilities a score is a column."""
    labels, p = classified(8)
    said = p.argmax(axis=1)
    points = table({"label": labels, "prediction": said, "score": range(60)})
    pact_eval.import_run(points, "points")
    flags = table({"label": labels, "prediction": said, "score": [0, 1] * 30}, "f.csv")
    pact_eval.import_run(flags, "flags")
    both = {"label": labels, "p_0": p[:, 0], "p_1": p[:, 1], "score": p[:, 1]}
    pact_eval.import_run(table(both, "b.csv"), "both")
    for folder in ("points", "flags", "both"):
        assert numbers(folder)[0] == pytest.approx(truth(labels, p)[0])
        assert "score =" not in how_read(Path(folder)).replace("score = slice", "")


# Commands to paste


def report(path: Path | str, *words: str) -> Result:
    return CliRunner().invoke(main, ["report", str(path), "--json", *FAST, *words])


def pasted(result: Result) -> list[str]:
    assert result.exit_code in (1, 2), result.output
    return re.findall(r"^  (pact-eval .*)$", result.stderr, re.MULTILINE)


def paste(command: str) -> Result:
    return CliRunner().invoke(main, [*shlex.split(command)[1:], "--json"])


def accuracy_of(result: Result) -> float:
    assert result.exit_code == 0, result.stderr
    value = json.loads(result.stdout)
    groups = value["groups"] if "groups" in value else value["runs"][0]["groups"]
    return float(groups[0]["metrics"]["accuracy"]["value"])


def test_the_row_names_of_pandas_are_no_probability() -> None:
    """Bytes as `DataFrame.to_csv` writes a frame of `predict_proba` with a column of labels."""
    lines = [",0,1,2,target"]
    lines += [
        f"{n},{'0.1,0.2,0.7' if n % 3 else '0.5,0.25,0.25'},{2 if n % 3 else 0}" for n in range(30)
    ]
    Path("raw.csv").write_bytes("\n".join(lines).encode())
    (command,) = pasted(report("raw.csv"))
    assert command == "pact-eval report raw.csv --columns probabilities=0+1+2"
    assert accuracy_of(paste(command)) == 1


def test_a_german_sheet_and_an_order_that_no_column_gives() -> None:
    rows = ["Nr;Datum;Wahrheit;P_ja;P_nein"]
    rows += [f"{n};01.02.2026;{'ja' if n % 2 else 'nein'};0,75;0,25" for n in range(20)]
    Path("excel.csv").write_text("\n".join(rows))
    (command,) = pasted(report("excel.csv"))
    assert command == "pact-eval report excel.csv --columns reference=Wahrheit"
    assert accuracy_of(paste(command)) == 0.5
    columns: dict[str, Any] = {
        "class_0": [0.6, 0.3] * 9,
        "class_1": [0.4, 0.7] * 9,
        "label": ["low", "high"] * 9,
    }
    best, by_name = pasted(report(table(columns)))
    assert_says(best, "probabilities=class_0+class_1", "--options low,high")
    assert (accuracy_of(paste(best)), accuracy_of(paste(by_name))) == (1, 0)


def random_columns(rng: Random) -> dict[str, list[Any]]:
    """Columns as strangers have them: any of a truth, an answer, numbers, and others."""
    n, size = 24, rng.choice([2, 2, 3])
    names = rng.choice(
        [["no", "yes", "maybe"], ["0", "1", "2"], ["it's", "a b", "c"], ["-1", "1", "2"]]
    )
    right = [rng.randrange(size) for _ in range(n)]
    p = [[rng.random() + 2 * (k == i) for k in range(size)] for i in right]
    p = [[round(x / sum(row), 4) for x in row[:-1]] for row in p]
    p = [[*row, round(1 - sum(row), 4)] for row in p]
    top = [max(range(size), key=row.__getitem__) for row in p]
    columns: dict[str, list[Any]] = {}
    if rng.random() < 0.4:
        columns[rng.choice(["", "Nr", "id"])] = [*range(n)]
    columns[rng.choice(["y_true", "label", "Wahrheit", "truth"])] = [names[k] for k in right]
    if rng.random() < 0.5:
        columns[rng.choice(["y_pred", "model", "prediction"])] = [names[k] for k in top]
    form = rng.choice(["one", "one", "all", "numbered", "max", "none"])
    if form == "one":
        name = rng.choice(["p_1", "score", "y_proba", "prob_yes", "risk", "confidence"])
        columns[name] = [row[1] for row in p]
    elif form == "max":
        columns[rng.choice(["score", "conf", "max_prob"])] = [max(row) for row in p]
    elif form != "none":
        stems = [f"class_{k}" if form == "numbered" else f"P_{names[k]}" for k in range(size)]
        columns |= {stem: [row[k] for row in p] for k, stem in enumerate(stems)}
    if rng.random() < 0.4:
        columns[rng.choice(["region", "notes"])] = [rng.choice("ab") for _ in range(n)]
    return columns


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 400))]
)
def test_a_pasted_command_ends_in_a_report_or_in_another_question(seed: int) -> None:
    path = table(random_columns(Random(seed)))
    waiting = [(command, 1, {command}) for command in _full(report(path), first=True)]
    while waiting:
        command, times, earlier = waiting.pop()
        result = paste(command)
        if result.exit_code == 0:
            continue
        assert times <= MOST_PASTED, f"{command}: {result.stderr}"
        further = _full(result)
        assert further or "NAME" in result.stderr or "FILE" in result.stderr, (
            f"{command}: {result.stderr}"
        )
        assert not earlier & {*further}, f"a loop: {command}: {result.stderr}"
        waiting += [(each, times + 1, earlier | {each}) for each in further]


def _full(result: Result, *, first: bool = False) -> list[str]:
    """The commands of a message that have no blank to fill in."""
    if first and result.exit_code == 0:
        return []
    return [each for each in pasted(result) if not re.search(r"\b(NAME|FILE)\b", each)]
