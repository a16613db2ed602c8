"""Files of ten kinds, each in an empty folder: one command answers, or its message has one.

Source of truth: accuracies that numpy counts in what was written, or that another tool logged.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import decision_index
import numpy as np
import polars as pl
import pytest
from builders import write_jsonl
from click.testing import CliRunner, Result
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from pact_cli.main import main

LOGS = Path(__file__).parents[2] / "fixtures" / "logs"
NAMES = ("escalate", "refund", "replace")
LETTERS = "ABC"


@dataclass(frozen=True)
class Tickets:
    """Predictions of a model on tickets of three answers."""

    labels: tuple[int, ...]
    probabilities: np.ndarray

    @classmethod
    def drawn(cls, items: int = 60) -> Tickets:
        """Probabilities of three decimals, without ties, and labels that they are right for."""
        rng = np.random.default_rng(1)
        counts = rng.multinomial(994, rng.dirichlet([1, 1, 1], items)) + np.array([1, 2, 3])
        unlike = counts[[len({*row}) == 3 for row in counts.tolist()]]
        shares = unlike / 1000
        labels = tuple(int(rng.choice(3, p=row)) for row in shares)
        return cls(labels, shares)

    @property
    def chosen(self) -> list[int]:
        return [int(place) for place in self.probabilities.argmax(axis=1)]

    @property
    def accuracy(self) -> float:
        return float(np.mean(np.array(self.labels) == np.array(self.chosen)))

    @property
    def rows(self) -> list[tuple[str, int, int, np.ndarray]]:
        """Id, right answer, chosen answer and probabilities of each."""
        ids = [f"t{number:03}" for number in range(len(self.labels))]
        return list(zip(ids, self.labels, self.chosen, self.probabilities, strict=True))


TICKETS = Tickets.drawn()
Truth: TypeAlias = float


def table(path: Path, head: Sequence[str], rows: Sequence[Sequence[Any]], mark: str = ",") -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=mark)
        writer.writerow(head)
        writer.writerows(rows)


def csv_with_probabilities(path: Path) -> Truth:
    head = ["ticket", "label", *(f"p_{name}" for name in NAMES), "region"]
    table(path, head, [[i, NAMES[y], *p, "north"] for i, y, _, p in TICKETS.rows])
    return TICKETS.accuracy


def csv_with_predictions_alone(path: Path) -> Truth:
    rows = [[i, NAMES[y], NAMES[chosen]] for i, y, chosen, _ in TICKETS.rows]
    table(path, ["id", "label", "prediction"], rows)
    return TICKETS.accuracy


def semicolons_and_decimal_commas(path: Path) -> Truth:
    rows = [[i, NAMES[y], *(f"{v}".replace(".", ",") for v in p)] for i, y, _, p in TICKETS.rows]
    table(path, ["id", "label", *(f"p_{name}" for name in NAMES)], rows, ";")
    return TICKETS.accuracy


def packed_tabs_with_confidence(path: Path) -> Truth:
    with gzip.open(path, "wt") as file:
        file.write("id\ttruth\tpredicted\tconfidence\n")
        for i, y, chosen, p in TICKETS.rows:
            file.write(f"{i}\t{NAMES[y]}\t{NAMES[chosen]}\t{p.max()}\n")
    return TICKETS.accuracy


def log_probabilities_by_name(path: Path) -> Truth:
    write_jsonl(
        path,
        [
            {
                "id": i,
                "label": NAMES[y],
                "logprobs": dict(zip(NAMES, np.log(p).tolist(), strict=True)),
            }
            for i, y, _, p in TICKETS.rows
        ],
    )
    return TICKETS.accuracy


def tokens_of_openai(path: Path) -> Truth:
    """`choices[0].logprobs` of a chat completion, next to the options and the right letter."""

    def tokens(p: np.ndarray) -> list[dict[str, Any]]:
        pairs = sorted(zip(LETTERS, np.log(p).tolist(), strict=True), key=lambda pair: -pair[1])
        return [{"token": letter, "logprob": value} for letter, value in pairs]

    write_jsonl(
        path,
        [
            {
                "id": i,
                "options": list(NAMES),
                "label": LETTERS[y],
                "logprobs": {"content": [tokens(p)[0] | {"top_logprobs": tokens(p)}]},
            }
            for i, y, _, p in TICKETS.rows
        ],
    )
    return TICKETS.accuracy


def parquet_of_our_columns(path: Path) -> Truth:
    rows = [{"id": i, "reference": y, "probabilities": p.tolist()} for i, y, _, p in TICKETS.rows]
    pl.DataFrame(rows).write_parquet(path)
    return TICKETS.accuracy


def a_classifier_of_sklearn(path: Path) -> Truth:
    """Columns of `predict_proba` under the names of classes alone: are they probabilities?"""
    data = load_iris()
    inputs, held_out, classes, truth = train_test_split(
        data.data, data.target, test_size=0.5, random_state=3
    )
    model = LogisticRegression(max_iter=500).fit(inputs[:, :2], classes)
    frame = pl.DataFrame(
        {"y_true": data.target_names[truth].tolist()}
        | dict(zip(data.target_names.tolist(), model.predict_proba(held_out[:, :2]).T, strict=True))
    )
    frame.write_csv(path)
    return float(model.score(held_out[:, :2], truth))


def a_binary_classifier(path: Path) -> Truth:
    """Numbers of classes, `predict_proba` in columns of numbers, and the predicted class."""
    data = load_breast_cancer()
    inputs, held_out, classes, truth = train_test_split(
        data.data[:, :3], data.target, test_size=0.3, random_state=3
    )
    model = LogisticRegression(max_iter=2000).fit(inputs, classes)
    proba = model.predict_proba(held_out)
    rows = zip(truth.tolist(), model.predict(held_out).tolist(), *proba.T.tolist(), strict=True)
    table(path, ["y_true", "y_pred", "proba_0", "proba_1"], list(rows))
    return float(model.score(held_out, truth))


def log_of_lm_eval(path: Path) -> Truth:
    path.symlink_to(LOGS / "lm_eval")
    (results,) = (LOGS / "lm_eval").glob("results_*.json")
    tasks = json.loads(results.read_text())["results"].values()
    right = sum(task["acc,none"] * task["sample_len"] for task in tasks)
    return float(right / sum(task["sample_len"] for task in tasks))


def log_of_inspect(path: Path) -> Truth:
    path.symlink_to(LOGS / "inspect" / "answers.json")
    samples = json.loads(path.read_text())["samples"]
    scores = [sample["scores"]["choice"] for sample in samples]
    return float(np.mean([score["value"] == "C" for score in scores if score["answer"]]))


def several_right_answers(path: Path) -> Truth:
    path.symlink_to(LOGS / "lm_eval_several")
    (results,) = path.glob("results_*.json")
    (task,) = json.loads(results.read_text())["results"].values()
    return float(task["acc,none"])


def log_of_helm(path: Path) -> Truth:
    path.symlink_to(LOGS / "helm" / "tiny")
    stats = json.loads((path / "stats.json").read_text())
    (mean,) = (
        stat["mean"] for stat in stats if stat["name"] == {"name": "exact_match", "split": "test"}
    )
    return float(mean)


def results_of_the_decision_index(path: Path) -> Truth:
    """Of the first four rows, one question has no reference, and two are scored by outcome."""
    rows = [decision_index.result(row, [0.2, 0.5, 0.3], 0.7) for row in decision_index.ROWS[:4]]
    decision_index.written(path.parent, rows)
    right = [row["expected"] == decision_index.RIGHT for row in decision_index.ROWS[:2]]
    return float(np.mean([*right, *right, False]))


def two_columns_of_right_answers(path: Path) -> Truth:
    """The file does not say which of them is right: the user does, here that of `gold`."""
    rows = [[i, NAMES[(y + 1) % 3], NAMES[y], NAMES[chosen]] for i, y, chosen, _ in TICKETS.rows]
    table(path, ["id", "label", "gold", "prediction"], rows)
    return TICKETS.accuracy


ANSWERED: dict[str, Callable[[Path], Truth]] = {
    "tickets.csv": csv_with_probabilities,
    "answers.csv": csv_with_predictions_alone,
    "europe.csv": semicolons_and_decimal_commas,
    "sure.tsv.gz": packed_tabs_with_confidence,
    "logprobs.jsonl": log_probabilities_by_name,
    "openai.jsonl": tokens_of_openai,
    "rows.parquet": parquet_of_our_columns,
    "cancer.csv": a_binary_classifier,
    "lm_eval": log_of_lm_eval,
    "answers.json": log_of_inspect,
}
ASKED: dict[str, Callable[[Path], Truth]] = {
    "several": several_right_answers,
    "helm": log_of_helm,
    "results.jsonl": results_of_the_decision_index,
    "iris.csv": a_classifier_of_sklearn,
    "two.csv": two_columns_of_right_answers,
}


def typed(line: str) -> Result:
    """Runs a command line as it is typed, or pasted."""
    program, *words = shlex.split(line)
    assert program == "pact-eval"
    return CliRunner().invoke(main, words)


def accuracy_of(result: Result) -> float:
    assert result.exit_code == 0, result.output
    value: dict[str, Any] = json.loads(result.stdout)
    return float(value["groups"][0]["metrics"]["accuracy"]["value"])


@pytest.mark.parametrize("name", ANSWERED)
def test_one_command_reads_and_reports(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    truth = ANSWERED[name](Path(name))
    result = typed(f"pact-eval report {name} --resamples 100 --json")
    assert accuracy_of(result) == pytest.approx(truth, abs=1e-12)
    run = Path("runs") / name.split(".")[0]
    assert {path.name for path in Path("runs").iterdir()} == {run.name}
    assert json.loads(result.stdout)["read"].endswith(f"; saved as {run}")
    first, *_, read, last = typed(
        f"pact-eval report {name} --resamples 100 -q"
    ).stdout.splitlines()[:99]
    assert first.startswith(f"{run.name} answers {100 * truth:.1f}%")
    assert f"pact-eval report {run}" in last
    assert read


@pytest.mark.parametrize("name", ASKED)
def test_a_question_has_commands_that_answer_when_they_are_pasted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    truth = ASKED[name](Path(name))
    result = typed(f"pact-eval report {name}")
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert not Path("runs").exists()
    commands = re.findall(r"^  (pact-eval (?!.*\b(?:NAME|FILE)\b).*)$", result.stderr, re.MULTILINE)
    values = [accuracy_of(typed(f"{command} --json")) for command in commands]
    assert any(value == pytest.approx(truth, abs=1e-12) for value in values)


def test_the_read_line_names_columns_by_their_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        [f"t{n}", NAMES[n % 3], *np.roll([0.7, 0.2, 0.1], n % 2), f"shop {n % 4}", n]
        for n in range(40)
    ]
    head = ["ticket", "label", *(f"p_{name}" for name in NAMES), "shop", "minute"]
    table(Path("t.csv"), head, rows)
    (line,) = (
        line for line in typed("pact-eval report t.csv").stdout.splitlines() if "read " in line
    )
    expected = "label = right answer, p_* = probabilities, shop = slice; saved as runs/t"
    assert " ".join(line.split()) == f"read {expected}"


def test_the_last_line_of_a_file_with_a_blank_in_its_name_can_be_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    csv_with_predictions_alone(Path("my tickets (new).csv"))
    text = typed("pact-eval report 'my tickets (new).csv' --resamples 100").stdout
    (command,) = re.findall(r"All metrics: (pact-eval .* --full)|all metrics: (.* --full)", text)
    again = typed("".join(command))
    assert again.exit_code == 0, again.output
    assert f"{100 * TICKETS.accuracy:.1f}" in again.stdout
