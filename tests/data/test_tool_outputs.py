"""Tables as other tools write them, with their names of columns: read right, or asked about."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from builders import write_jsonl
from foreign_tables import Dialect, assert_answerable, import_file, last_run, write_table

N: Final = 40
NAMES: Final = ("refund", "replace", "reject")


def probabilities(seed: int, size: int = 3) -> tuple[list[int], list[list[float]]]:
    """The right answers, and what a model says of them: it is right most of the time."""
    rng = random.Random(seed)
    right = [rng.randrange(size) for _ in range(N)]
    values = []
    for index in right:
        weights = [rng.gammavariate(1, 1) + 1e-3 for _ in range(size)]
        weights[index] += rng.choice([0, 2])
        values.append([weight / sum(weights) for weight in weights])
    return right, values


RIGHT, VALUES = probabilities(1)
RIGHT_2, VALUES_2 = probabilities(2, size=2)
CHOSEN = [max(range(3), key=row.__getitem__) for row in VALUES]
CHOSEN_2 = [max(range(2), key=row.__getitem__) for row in VALUES_2]
ACCURACY = sum(a == b for a, b in zip(RIGHT, CHOSEN, strict=True)) / N
ACCURACY_2 = sum(a == b for a, b in zip(RIGHT_2, CHOSEN_2, strict=True)) / N
ROWS: Final = range(N)


def label(n: int) -> str:
    return NAMES[RIGHT[n]]


def said(n: int) -> str:
    return NAMES[CHOSEN[n]]


def best(n: int) -> float:
    return max(VALUES[n])


def by_name(n: int, stem: str = "") -> dict[str, float]:
    return {f"{stem}{name}": p for name, p in zip(NAMES, VALUES[n], strict=True)}


def ranked(n: int, name: str, score: str) -> list[dict[str, Any]]:
    pairs = sorted(by_name(n).items(), key=lambda pair: -pair[1])
    return [{name: text, score: value} for text, value in pairs]


def text(content: str, name: str = "table.csv") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_text(content, encoding="utf-8", newline="")
        return folder / name

    return write


def lines(row: Callable[[int], Mapping[str, Any]]) -> Callable[[Path], Path]:
    return lambda folder: write_jsonl(folder / "table.jsonl", [row(n) for n in ROWS])


def document(value: Any) -> Callable[[Path], Path]:
    return text(json.dumps(value), "table.json")


def table(row: Callable[[int], Mapping[str, Any]], **dialect: Any) -> Callable[[Path], Path]:
    written = Dialect(**{"container": "csv", **dialect})
    return lambda folder: write_table(folder, [row(n) for n in ROWS], written)


@dataclass(frozen=True)
class Output:
    """What a tool writes.

    Attributes:
        write: writes it into a folder, and returns its path.
        accuracy: the true accuracy.
        options: what the user gives.
        must_read: whether it can be read without a question.
        may_refuse: whether no option of the import can read it.
    """

    write: Callable[[Path], Path]
    accuracy: float = ACCURACY
    options: Sequence[str] = ()
    must_read: bool = True
    may_refuse: bool = False


def frame(n: int) -> dict[str, Any]:
    return {"text": f"ticket {n}", "label": label(n), "pred": said(n)}


def split_frame(n: int) -> list[Any]:
    return [f"ticket {n}", label(n), said(n)]


def zero_shot(n: int) -> dict[str, Any]:
    """Labels and scores of a row, the most probable first."""
    answers = ranked(n, "label", "score")
    return {
        "sequence": f"ticket {n}",
        "labels": [answer["label"] for answer in answers],
        "scores": [answer["score"] for answer in answers],
    }


def quoted(*cells: object) -> str:
    return ",".join(f'"{cell}"' for cell in cells)


def r_table() -> str:
    rows = [
        f'"{n + 1}",{quoted(f"ticket {n}", label(n), said(n))},{VALUES[n][0]!r},{VALUES[n][1]!r},'
        f"{VALUES[n][2]!r},{str(RIGHT[n] == CHOSEN[n]).upper()}"
        for n in ROWS
    ]
    head = quoted("", "text", "truth", "pred", "prob.refund", "prob.replace", "prob.reject", "ok")
    return "\n".join([head, *rows]) + "\n"


def excel() -> str:
    """German Excel: a line that names the separator, decimal commas, and other names."""
    rows = [
        f"{n + 1};Anfrage {n};{label(n)};{said(n)};"
        + ";".join(str(p).replace(".", ",") for p in p3)
        for n, p3 in enumerate(VALUES)
    ]
    head = "Nr;Text;Label;Vorhersage;p_refund;p_replace;p_reject"
    return "\r\n".join(["sep=;", head, *rows]) + "\r\n"


def weka() -> str:
    rows = [
        f"{n + 1},{RIGHT[n] + 1}:{label(n)},{CHOSEN[n] + 1}:{said(n)},"
        f"{'' if RIGHT[n] == CHOSEN[n] else '+'},{best(n)!r}"
        for n in ROWS
    ]
    return "\n".join(["inst#,actual,predicted,error,prediction", *rows]) + "\n"


def top_logprobs(n: int) -> dict[str, Any]:
    listed = [
        {"token": "ABC"[k], "logprob": math.log(p), "bytes": [65 + k]}
        for k, p in sorted(enumerate(VALUES[n]), key=lambda pair: -pair[1])
    ]
    return {"content": [listed[0] | {"top_logprobs": listed}], "refusal": None}


def completion(n: int) -> dict[str, Any]:
    """A chat completion, with the most probable first tokens."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "ABC"[CHOSEN[n]]}}
    return {
        "id": f"chatcmpl-{n}",
        "object": "chat.completion",
        "choices": [choice | {"logprobs": top_logprobs(n), "finish_reason": "stop"}],
    }


OUTPUTS: Final[Mapping[str, Output]] = {
    "pandas, with its index": Output(table(lambda n: {"": n} | frame(n) | by_name(n, "p_"))),
    "pandas, saved twice": Output(
        table(lambda n: {"Unnamed: 0.1": n, "Unnamed: 0": n} | frame(n) | by_name(n, "prob_"))
    ),
    "pandas, split": Output(
        document(
            {"columns": ["text", "label", "pred"], "index": [*ROWS]}
            | {"data": [split_frame(n) for n in ROWS]}
        ),
        must_read=False,
        may_refuse=True,
    ),
    "sklearn, numbered columns": Output(
        table(
            lambda n: (
                {"y_true": RIGHT[n], "y_pred": CHOSEN[n]}
                | {str(k): p for k, p in enumerate(VALUES[n])}
            )
        ),
        must_read=False,
    ),
    "sklearn, columns of classes": Output(
        table(lambda n: {"y_true": label(n), "y_pred": said(n)} | by_name(n, "proba_"))
    ),
    "sklearn, columns that are classes": Output(
        table(lambda n: by_name(n) | {"label": label(n)}), must_read=False
    ),
    "sklearn, list in the order of classes_": Output(
        lines(lambda n: {"y_true": label(n), "predict_proba": VALUES[n], "y_pred": said(n)})
    ),
    "sklearn, one probability of the positive class": Output(
        table(lambda n: {"y_true": RIGHT_2[n], "y_score": VALUES_2[n][1]}),
        ACCURACY_2,
        must_read=False,
        may_refuse=True,
    ),
    "one probability, with the prediction": Output(
        table(lambda n: {"y_true": RIGHT_2[n], "y_pred": CHOSEN_2[n], "y_prob": VALUES_2[n][1]}),
        ACCURACY_2,
        must_read=False,
    ),
    "text classification": Output(
        lines(
            lambda n: (
                {"text": f"ticket {n}", "true_label": label(n)}
                | {"scores": ranked(n, "label", "score")}
            )
        )
    ),
    "text classification, top only": Output(
        lines(
            lambda n: (
                {"text": f"ticket {n}", "gold": label(n)}
                | {"prediction": {"label": said(n), "score": best(n)}}
            )
        ),
        must_read=False,
        may_refuse=True,
    ),
    "text classification, label and score": Output(
        table(lambda n: {"text": f"t {n}", "true": label(n), "label": said(n), "score": best(n)}),
        must_read=False,
    ),
    "zero shot": Output(lines(lambda n: zero_shot(n) | {"true_label": label(n)}), must_read=False),
    "trainer": Output(
        lines(lambda n: {"text": f"ticket {n}", "label_ids": RIGHT[n], "logits": VALUES[n]}),
        must_read=False,
    ),
    "promptfoo": Output(
        document(
            {
                "evalId": "e1",
                "results": {
                    "version": 3,
                    "results": [
                        {"vars": {"ticket": f"ticket {n}", "expected": label(n)}}
                        | {
                            "response": {"output": said(n)},
                            "success": RIGHT[n] == CHOSEN[n],
                            "score": 1,
                        }
                        for n in ROWS
                    ],
                },
            }
        ),
        must_read=False,
        may_refuse=True,
    ),
    "W&B, rows": Output(
        table(
            lambda n: (
                {"image_id": f"img_{n:03}", "true_label": label(n)}
                | {
                    "predicted_label": said(n),
                    "confidence": best(n),
                    "correct": RIGHT[n] == CHOSEN[n],
                }
            )
        )
    ),
    "MLflow": Output(
        table(lambda n: {"inputs": f"ticket {n}", "targets": label(n), "outputs": said(n)}),
        must_read=False,
    ),
    "Excel": Output(text("\ufeff" + excel()), must_read=False),
    "R, with row names": Output(text(r_table()), must_read=False),
    "mlr3": Output(
        table(
            lambda n: (
                {"row_ids": n + 1, "truth": label(n), "response": said(n)} | by_name(n, "prob.")
            )
        )
    ),
    "tidymodels": Output(
        table(lambda n: {".pred_class": said(n)} | by_name(n, ".pred_") | {"truth": label(n)}),
        must_read=False,
    ),
    "Weka": Output(text(weka()), must_read=False),
    "BigQuery ML": Output(
        lines(
            lambda n: (
                {"predicted_label": said(n), "label": label(n)}
                | {"predicted_label_probs": ranked(n, "label", "prob")}
            )
        )
    ),
    "spaCy": Output(
        lines(lambda n: {"text": f"ticket {n}", "label": label(n), "cats": by_name(n)}),
        must_read=False,
    ),
    "fastText": Output(
        table(
            lambda n: (
                {"label": f"__label__{label(n)}", "prediction": f"__label__{said(n)}"}
                | {"probability": best(n)}
            )
        ),
        must_read=False,
    ),
    "letters of a chat": Output(
        lines(
            lambda n: (
                {"id": f"q{n}", "question": f"What about {n}?"}
                | {"options": [*NAMES], "gold": "ABC"[RIGHT[n]], "prediction": "ABC"[CHOSEN[n]]}
            )
        )
    ),
    "top_logprobs of a chat": Output(
        lines(
            lambda n: (
                {"id": f"q{n}", "options": [*NAMES], "answer": "ABC"[RIGHT[n]]}
                | {"logprobs": top_logprobs(n)}
            )
        )
    ),
    "chat completions": Output(
        lines(
            lambda n: (
                {"id": f"q{n}", "options": [*NAMES], "answer": "ABC"[RIGHT[n]]}
                | {"response": completion(n)}
            )
        ),
        must_read=False,
        may_refuse=True,
    ),
    "counted from 1": Output(
        table(lambda n: {"id": n, "label": RIGHT[n] + 1, "prediction": CHOSEN[n] + 1})
    ),
    "a winner beside numbers": Output(
        table(
            lambda n: (
                {"id": n, "winner": label(n), "model_choice": said(n)}
                | {"latency_ms": 100 + n, "cost": 0.01 * n}
            )
        ),
        must_read=False,
    ),
}
"""By name, what tools write."""


def is_right(folder: Path, accuracy: float) -> bool:
    stated = last_run(folder).accuracy
    return stated is not None and abs(stated - accuracy) < 1e-9


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_output_of_a_tool(tmp_path: Path, name: str) -> None:
    output = OUTPUTS[name]
    path = output.write(tmp_path)
    result = import_file(tmp_path, path, *output.options)
    if result.exit_code == 0:
        assert is_right(tmp_path, output.accuracy), result.output
        return
    assert not output.must_read, result.output
    assert result.exit_code == 2, result.output
    if output.may_refuse:
        return
    assert_answerable(
        lambda *words: import_file(tmp_path, path, *output.options, *words),
        lambda: is_right(tmp_path, output.accuracy),
        result,
    )


LABELS: Final = table(lambda n: {"id": f"t{n}", "label": label(n), "Usage": "Private"})


@pytest.mark.parametrize("form", ["answers", "probabilities", "bare names"])
def test_a_submission_with_its_solution(tmp_path: Path, form: str) -> None:
    """A submission has ids and answers in another order; the solution is a file of its own."""
    order = random.Random(3).sample(ROWS, N)
    solution = LABELS(tmp_path).rename(tmp_path / "solution.csv")
    forms: Mapping[str, Callable[[int], Mapping[str, Any]]] = {
        "answers": lambda n: {"prediction": said(n)},
        "probabilities": lambda n: by_name(n, "p_"),
        "bare names": by_name,
    }
    rows = [{"id": f"t{n}", **forms[form](n)} for n in order]
    path = write_table(tmp_path, rows, Dialect("csv"), "submission")
    result = import_file(tmp_path, path, "--data", solution)
    if form == "bare names" and result.exit_code == 2:
        assert_answerable(
            lambda *words: import_file(tmp_path, path, "--data", solution, *words),
            lambda: is_right(tmp_path, ACCURACY),
            result,
        )
        return
    assert result.exit_code == 0, result.output
    assert is_right(tmp_path, ACCURACY)
