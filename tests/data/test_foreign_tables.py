"""Tables of other people and of their tools: read right, asked about, or refused. Never wrong."""

from __future__ import annotations

import gzip
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from builders import write_jsonl
from foreign_tables import (
    Dialect,
    assert_asks,
    import_file,
    last_run,
    read_or_asked,
    write_table,
)

N: Final = 40
NAMES: Final = ("refund", "replace", "reject")
ROWS: Final = range(N)


def _drawn(seed: int, size: int) -> tuple[list[int], list[list[float]]]:
    """The right answers, and what a model says of them: it is right most of the time."""
    rng = random.Random(seed)
    right = [rng.randrange(size) for _ in ROWS]
    values = []
    for index in right:
        weights = [rng.gammavariate(1, 1) + 1e-3 for _ in range(size)]
        weights[index] += rng.choice([0, 2])
        values.append([weight / sum(weights) for weight in weights])
    return right, values


RIGHT, VALUES = _drawn(1, len(NAMES))
RIGHT_OF_TWO, VALUES_OF_TWO = _drawn(2, 2)
CHOSEN: Final = [max(range(3), key=row.__getitem__) for row in VALUES]
CHOSEN_OF_TWO: Final = [max(range(2), key=row.__getitem__) for row in VALUES_OF_TWO]
ACCURACY: Final = sum(map(int.__eq__, RIGHT, CHOSEN)) / N
ACCURACY_OF_TWO: Final = sum(map(int.__eq__, RIGHT_OF_TWO, CHOSEN_OF_TWO)) / N
NLL: Final = -math.fsum(math.log(row[k]) for row, k in zip(VALUES, RIGHT, strict=True)) / N

Row = Mapping[str, Any]
Writer = Callable[[Path], Path]


def label(n: int) -> str:
    return NAMES[RIGHT[n]]


def said(n: int) -> str:
    return NAMES[CHOSEN[n]]


def is_hit(n: int) -> bool:
    return RIGHT[n] == CHOSEN[n]


def by_name(n: int, stem: str = "") -> dict[str, float]:
    return {f"{stem}{name}": p for name, p in zip(NAMES, VALUES[n], strict=True)}


def ranked(n: int, name: str, score: str) -> list[dict[str, Any]]:
    pairs = sorted(by_name(n).items(), key=lambda pair: -pair[1])
    return [{name: text, score: value} for text, value in pairs]


def lines(row: Callable[[int], Row]) -> Writer:
    return lambda folder: write_jsonl(folder / "table.jsonl", [row(n) for n in ROWS])


def table(row: Callable[[int], Row], **dialect: Any) -> Writer:
    written = Dialect(**{"container": "csv", **dialect})
    return lambda folder: write_table(folder, [row(n) for n in ROWS], written)


def raw(content: bytes | str, name: str = "table.csv") -> Writer:
    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def document(value: Any) -> Writer:
    return raw(json.dumps(value), "table.json")


def csv_text(separator: str = ",", end: str = "\n", tail: str = "") -> str:
    head = separator.join(["id", "label", *(f"p_{name}" for name in NAMES)])
    cells = [separator.join([f"t{n}", label(n), *map(repr, VALUES[n])]) + tail for n in ROWS]
    return end.join([head + tail, *cells]) + end


def frame(n: int) -> dict[str, Any]:
    return {"text": f"ticket {n}", "label": label(n), "pred": said(n)}


def shuffled_options(n: int) -> dict[str, Any]:
    """The same names in another order in each row, and a list in that order."""
    order = random.Random(n).sample(range(3), 3)
    return {
        "question": f"q{n}",
        "options": [NAMES[k] for k in order],
        "answer": order.index(RIGHT[n]),
        "probabilities": [VALUES[n][k] for k in order],
    }


def top_logprobs(n: int) -> dict[str, Any]:
    listed = [
        {"token": "ABC"[k], "logprob": math.log(p), "bytes": [65 + k]}
        for k, p in sorted(enumerate(VALUES[n]), key=lambda pair: -pair[1])
    ]
    return {"content": [listed[0] | {"top_logprobs": listed}], "refusal": None}


LIST_AND_PREDICTION: Final = lines(
    lambda n: (
        {"id": f"t{n}", "text": "x", "label": label(n), "prediction": said(n)}
        | {"probabilities": VALUES[n]}
    )
)
"""The predictions tell the order of the list, which is not that of the alphabet."""

PROBABILITIES: Final[Mapping[str, Writer]] = {
    "answer beside log-probabilities": lines(
        lambda n: (
            {"id": f"t{n}", "text": f"ticket {n}", "answer": label(n)}
            | {"logprobs": {name: math.log(p) for name, p in by_name(n).items()}}
        )
    ),
    "list and prediction": LIST_AND_PREDICTION,
    "reference and gold that agree": lines(
        lambda n: {"reference": RIGHT[n], "probabilities": VALUES[n], "gold": RIGHT[n]}
    ),
    "numbers as ids": lines(lambda n: {"id": n, "label": label(n), "probabilities": by_name(n)}),
    "options in another order in every row": lines(shuffled_options),
    "quoted decimal commas": table(
        lambda n: (
            {"label": label(n)}
            | {name: repr(p).replace(".", ",") for name, p in by_name(n, "p_").items()}
        )
    ),
    "decimal commas": table(
        lambda n: {"label": label(n)} | by_name(n, "p_"),
        container="semicolon.csv",
        decimal_comma=True,
    ),
    "tabs": table(lambda n: {"label": label(n)} | by_name(n, "p_"), container="tsv"),
    "empty lines at the end": raw(csv_text() + "\n\n\n"),
    "lines of separators at the end": raw(csv_text(";") + ";;;;\r\n;;;;\r\n"),
    "no line feed at the end": raw(csv_text().rstrip("\n")),
    "carriage returns": raw(csv_text(end="\r\n")),
    "a byte order mark": raw("\ufeff" + csv_text()),
    "a gzip of two members": raw(
        gzip.compress(csv_text()[:300].encode()) + gzip.compress(csv_text()[300:].encode()),
        "table.csv.gz",
    ),
    "truth in capitals": table(
        lambda n: {"label": label(n), "correct": str(is_hit(n)).upper()} | by_name(n, "p_")
    ),
    "a column of another model": table(
        lambda n: {"label": label(n), "confidence_of_gpt": 0.5 + n / 100} | by_name(n, "p_")
    ),
    "an empty column": lines(
        lambda n: {"label": label(n), "probabilities": by_name(n), "note": None}
    ),
    "all that a row may have": lines(
        lambda n: (
            {"id": f"t{n}", "text": "x", "label": RIGHT[n], "prediction": CHOSEN[n]}
            | {"probabilities": VALUES[n], "correct": int(is_hit(n))}
        )
    ),
    "pandas, with its index": table(lambda n: {"": n} | frame(n) | by_name(n, "p_")),
    "pandas, saved twice": table(
        lambda n: {"Unnamed: 0.1": n, "Unnamed: 0": n} | frame(n) | by_name(n, "prob_")
    ),
    "sklearn, columns of classes": table(
        lambda n: {"y_true": label(n), "y_pred": said(n)} | by_name(n, "proba_")
    ),
    "sklearn, list in the order of classes_": lines(
        lambda n: {"y_true": label(n), "predict_proba": VALUES[n], "y_pred": said(n)}
    ),
    "text classification": lines(
        lambda n: (
            {"text": f"ticket {n}", "true_label": label(n)}
            | {"scores": ranked(n, "label", "score")}
        )
    ),
    "mlr3": table(
        lambda n: {"row_ids": n + 1, "truth": label(n), "response": said(n)} | by_name(n, "prob.")
    ),
    "BigQuery ML": lines(
        lambda n: (
            {"predicted_label": said(n), "label": label(n)}
            | {"predicted_label_probs": ranked(n, "label", "prob")}
        )
    ),
    "top_logprobs of a chat": lines(
        lambda n: (
            {"id": f"q{n}", "options": [*NAMES], "answer": "ABC"[RIGHT[n]]}
            | {"logprobs": top_logprobs(n)}
        )
    ),
}
"""Tables that are read without a question, with the probabilities of all answers."""

ANSWERS: Final[Mapping[str, Writer]] = {
    "W&B, rows": table(
        lambda n: (
            {"image_id": f"img_{n:03}", "true_label": label(n), "predicted_label": said(n)}
            | {"confidence": max(VALUES[n]), "correct": is_hit(n)}
        )
    ),
    "letters of a chat": lines(
        lambda n: (
            {"id": f"q{n}", "question": f"What about {n}?", "options": [*NAMES]}
            | {"gold": "ABC"[RIGHT[n]], "prediction": "ABC"[CHOSEN[n]]}
        )
    ),
    "counted from 1": table(
        lambda n: {"id": n, "label": RIGHT[n] + 1, "prediction": CHOSEN[n] + 1}
    ),
}
"""Tables that are read without a question, with the answers of a model alone."""


def zero_shot(n: int) -> dict[str, Any]:
    """Labels and scores of a row, the most probable first."""
    answers = ranked(n, "label", "score")
    return {
        "sequence": f"ticket {n}",
        "labels": [answer["label"] for answer in answers],
        "scores": [answer["score"] for answer in answers],
        "true_label": label(n),
    }


def quoted(*cells: object) -> str:
    return ",".join(f'"{cell}"' for cell in cells)


def r_table() -> str:
    head = quoted("", "text", "truth", "pred", "prob.refund", "prob.replace", "prob.reject", "ok")
    rows = [
        f"{quoted(n + 1, f'ticket {n}', label(n), said(n))},{','.join(map(repr, VALUES[n]))},"
        f"{str(is_hit(n)).upper()}"
        for n in ROWS
    ]
    return "\n".join([head, *rows]) + "\n"


def excel() -> str:
    """German Excel: a line that names the separator, decimal commas, and other names."""
    head = "Nr;Text;Label;Vorhersage;p_refund;p_replace;p_reject"
    rows = [
        ";".join([f"{n + 1};Anfrage {n}", label(n), said(n), *map(str, VALUES[n])]) for n in ROWS
    ]
    return (
        "\ufeff" + "\r\n".join(["sep=;", head, *(row.replace(".", ",") for row in rows)]) + "\r\n"
    )


def weka() -> str:
    rows = [
        f"{n + 1},{RIGHT[n] + 1}:{label(n)},{CHOSEN[n] + 1}:{said(n)},"
        f"{'' if is_hit(n) else '+'},{max(VALUES[n])!r}"
        for n in ROWS
    ]
    return "\n".join(["inst#,actual,predicted,error,prediction", *rows]) + "\n"


ASKED: Final[Mapping[str, Writer]] = {
    "sklearn, numbered columns": table(
        lambda n: (
            {"y_true": RIGHT[n], "y_pred": CHOSEN[n]} | {str(k): p for k, p in enumerate(VALUES[n])}
        )
    ),
    "sklearn, columns that are classes": table(lambda n: by_name(n) | {"label": label(n)}),
    "text classification, label and score": table(
        lambda n: {"text": f"t {n}", "true": label(n), "label": said(n), "score": max(VALUES[n])}
    ),
    "zero shot": lines(zero_shot),
    "trainer": lines(lambda n: {"text": f"ticket {n}", "label_ids": RIGHT[n], "logits": VALUES[n]}),
    "MLflow": table(lambda n: {"inputs": f"ticket {n}", "targets": label(n), "outputs": said(n)}),
    "Excel": raw(excel()),
    "R, with row names": raw(r_table()),
    "tidymodels": table(
        lambda n: {".pred_class": said(n)} | by_name(n, ".pred_") | {"truth": label(n)}
    ),
    "Weka": raw(weka()),
    "spaCy": lines(lambda n: {"text": f"ticket {n}", "label": label(n), "cats": by_name(n)}),
    "fastText": table(
        lambda n: (
            {"label": f"__label__{label(n)}", "prediction": f"__label__{said(n)}"}
            | {"probability": max(VALUES[n])}
        )
    ),
    "a winner beside numbers": table(
        lambda n: (
            {"id": n, "winner": label(n), "model_choice": said(n)}
            | {"latency_ms": 100 + n, "cost": 0.01 * n}
        )
    ),
}
"""Tables that may be asked about; an option that the question names gives the right value."""

CARELESS: Final[Mapping[str, Writer]] = {
    "a label beside the answer of a model": lines(
        lambda n: (
            {"id": f"t{n}", "label": label(n), "answer": said(n)} | {"probabilities": by_name(n)}
        )
    ),
    "a file that is not what it is called": raw(csv_text(), "table.parquet"),
    "percent signs": table(
        lambda n: {"label": label(n)} | {k: f"{100 * p!r}%" for k, p in by_name(n, "p_").items()}
    ),
    "a separator at the end of each line": raw(csv_text(tail=",")),
    "spaces after separators": raw(csv_text(", ")),
    "pandas, split": document(
        {"columns": [*frame(0)], "index": [*ROWS], "data": [[*frame(n).values()] for n in ROWS]}
    ),
    "text classification, top only": lines(
        lambda n: (
            {"text": f"ticket {n}", "gold": label(n)}
            | {"prediction": {"label": said(n), "score": max(VALUES[n])}}
        )
    ),
    "promptfoo": document(
        {
            "results": {
                "version": 3,
                "results": [
                    {"vars": {"ticket": f"ticket {n}", "expected": label(n)}, "score": 1}
                    | {"response": {"output": said(n)}, "success": is_hit(n)}
                    for n in ROWS
                ],
            }
        }
    ),
}
"""Tables that are read right or refused, whatever is asked."""


def two_models(n: int) -> dict[str, Any]:
    return {"id": f"t{n}", "label": RIGHT[n], "probabilities": VALUES[n], "probs": VALUES[n][::-1]}


Refused = tuple[Writer, Sequence[str], Sequence[str]]
REFUSED: Final[Mapping[str, Refused]] = {
    "one column for two roles": (
        lines(lambda n: {"id": f"t{n}", "label": label(n), "pred": said(n)}),
        ("label",),
        ("--columns", "reference=label,prediction=label"),
    ),
    "probabilities of two models": (lines(two_models), ("probabilities", "probs"), ()),
    "predictions of two models": (
        table(
            lambda n: {"label": label(n), "prediction": said(n), "pred": NAMES[(CHOSEN[n] + 1) % 3]}
        ),
        ("prediction", "pred"),
        (),
    ),
    "labels and predictions of other words": (
        table(
            lambda n: (
                {"id": f"t{n}", "label": RIGHT[n]}
                | {"prediction": ("neg", "neu", "pos")[CHOSEN[n]]}
            )
        ),
        ("label", "prediction"),
        (),
    ),
    "letters and texts without options": (
        table(lambda n: {"id": f"t{n}", "answer": "ABC"[RIGHT[n]], "pred": said(n)}),
        ("answer", "pred"),
        (),
    ),
    "an outcome that contradicts": (
        lines(
            lambda n: (
                {"id": f"t{n}", "label": label(n), "probabilities": by_name(n)}
                | {"correct": is_hit(n) != (n == 9)}
            )
        ),
        ("t9", "correct"),
        (),
    ),
    "a prediction that contradicts": (
        lines(
            lambda n: (
                {"id": f"t{n}", "label": label(n), "probabilities": by_name(n)}
                | {"prediction": NAMES[(CHOSEN[n] + (n == 9)) % 3]}
            )
        ),
        ("t9", "prediction"),
        (),
    ),
    "a prediction that contradicts every order of a list": (
        lines(
            lambda n: (
                {"id": f"t{n}", "label": label(n), "probabilities": VALUES[n]}
                | {"prediction": NAMES[(CHOSEN[n] + (n == 9)) % 3]}
            )
        ),
        ("t9",),
        (),
    ),
    "log-probabilities above 0": (
        lines(
            lambda n: (
                {"id": f"t{n}", "label": label(n)}
                | {"logprobs": {k: -math.log(p) for k, p in by_name(n).items()}}
            )
        ),
        ("logprobs",),
        (),
    ),
    "probabilities of percent": (
        lines(
            lambda n: {"id": f"t{n}", "label": RIGHT[n], "probabilities": [90 - n, n, 10 + n % 2]}
        ),
        ("probabilities",),
        (),
    ),
    "no right answer": (
        lines(lambda n: {"id": f"t{n}", "prediction": said(n), "probabilities": by_name(n)}),
        ("reference",),
        (),
    ),
    "nothing of a model": (
        lines(lambda n: {"id": f"t{n}", "text": f"ticket {n}", "label": label(n)}),
        ("--columns",),
        (),
    ),
    "a label that is no answer": (
        lines(
            lambda n: (
                {"id": f"t{n}", "label": "return" if n == 9 else label(n)}
                | {"probabilities": by_name(n)}
            )
        ),
        ("return",),
        (),
    ),
    "lists of two lengths": (
        lines(
            lambda n: (
                {"id": f"t{n}", "label": RIGHT[n] % 2, "prediction": 0, "options": [*NAMES]}
                | {"probabilities": [0.6, 0.4] if n % 2 else [0.5, 0.3, 0.2]}
            )
        ),
        ("options",),
        (),
    ),
    "options that were not read": (
        table(
            lambda n: (
                {"question": f"q{n}", "thing1": f"a{n}", "thing2": f"b{n}"}
                | {"thing3": f"c{n}", "label": f"{'abc'[RIGHT[n]]}{n}"}
                | {"prediction": f"{'abc'[CHOSEN[n]]}{n}"}
            )
        ),
        ("thing1",),
        (),
    ),
    "options of a name that does not exist": (
        table(lambda n: {"label": label(n), "pred": said(n)}),
        ("gold",),
        ("--columns", "reference=gold"),
    ),
    "fewer options than answers": (
        table(lambda n: {"label": label(n)} | by_name(n, "p_")),
        ("reject",),
        ("--options", "refund,replace"),
    ),
    "a file that is cut short": (
        raw(gzip.compress(csv_text().encode())[:-40], "table.csv.gz"),
        ("table.csv.gz",),
        (),
    ),
    "one object": (document({"a": 1, "b": [1]}), ("table.json",), ()),
}
"""Tables that no reading fits, or several; what the message names, and what the user gives."""


def is_right(folder: Path, accuracy: float = ACCURACY) -> bool:
    stated = last_run(folder).accuracy
    return stated is not None and abs(stated - accuracy) < 1e-9


@pytest.mark.parametrize("name", PROBABILITIES)
def test_probabilities_are_read(tmp_path: Path, name: str) -> None:
    result = import_file(tmp_path, PROBABILITIES[name](tmp_path))
    assert result.exit_code == 0, result.output
    numbers = last_run(tmp_path)
    assert numbers.items == N
    assert numbers.accuracy == pytest.approx(ACCURACY, abs=1e-9)
    assert numbers.nll == pytest.approx(NLL, abs=1e-9)


@pytest.mark.parametrize("name", ["answer beside log-probabilities", "list and prediction"])
def test_a_table_may_be_its_own_data(tmp_path: Path, name: str) -> None:
    path = PROBABILITIES[name](tmp_path)
    result = import_file(tmp_path, path, "--data", path)
    assert result.exit_code == 0, result.output
    assert is_right(tmp_path)
    assert last_run(tmp_path).nll == pytest.approx(NLL, abs=1e-9)


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_are_read(tmp_path: Path, name: str) -> None:
    result = import_file(tmp_path, ANSWERS[name](tmp_path))
    assert result.exit_code == 0, result.output
    assert is_right(tmp_path)


@pytest.mark.parametrize("name", ASKED)
def test_a_table_is_read_right_or_asked_about(tmp_path: Path, name: str) -> None:
    path = ASKED[name](tmp_path)
    read_or_asked(lambda *words: import_file(tmp_path, path, *words), lambda: is_right(tmp_path))


@pytest.mark.parametrize("name", CARELESS)
def test_a_careless_table_is_read_right_or_refused(tmp_path: Path, name: str) -> None:
    result = import_file(tmp_path, CARELESS[name](tmp_path))
    assert result.exit_code in (0, 1, 2), result.output
    assert "Traceback" not in result.output
    assert result.exit_code or is_right(tmp_path)


@pytest.mark.parametrize("name", REFUSED)
def test_a_contradiction_is_refused(tmp_path: Path, name: str) -> None:
    write, says, options = REFUSED[name]
    result = import_file(tmp_path, write(tmp_path), *options)
    assert result.exit_code in (1, 2), result.output
    assert "Traceback" not in result.output
    for part in says:
        assert part in result.output, result.output
    assert len(result.output.splitlines()) <= 16, result.output
    assert not (tmp_path / "run-0").exists()


@pytest.mark.parametrize("has_prediction", [False, True])
def test_one_probability_of_two(tmp_path: Path, has_prediction: bool) -> None:
    """Of the positive class or of the chosen one: without the prediction, nothing tells which."""
    path = table(
        lambda n: (
            {"y_true": RIGHT_OF_TWO[n], "y_prob": VALUES_OF_TWO[n][1]}
            | ({"y_pred": CHOSEN_OF_TWO[n]} if has_prediction else {})
        )
    )(tmp_path)
    if has_prediction:
        read_or_asked(
            lambda *words: import_file(tmp_path, path, *words),
            lambda: is_right(tmp_path, ACCURACY_OF_TWO),
        )
    else:
        assert import_file(tmp_path, path).exit_code == 2


def test_a_list_with_text_labels_has_no_known_order(tmp_path: Path) -> None:
    path = lines(lambda n: {"label": label(n), "probabilities": VALUES[n]})(tmp_path)
    result = import_file(tmp_path, path)
    assert result.exit_code == 2, result.output
    assert "--options" in result.output
    again = import_file(tmp_path, path, "--options", ",".join(NAMES))
    assert again.exit_code == 0, again.output
    assert is_right(tmp_path)
    assert last_run(tmp_path).nll == pytest.approx(NLL, abs=1e-9)


def test_reference_and_gold_that_differ_are_refused_and_either_can_be_chosen(
    tmp_path: Path,
) -> None:
    right = {"reference": RIGHT, "gold": [(k + n % 2) % 3 for n, k in enumerate(RIGHT)]}
    path = lines(lambda n: {"probabilities": VALUES[n]} | {name: right[name][n] for name in right})(
        tmp_path
    )
    result = import_file(tmp_path, path)
    assert_asks(result)
    for name, references in right.items():
        assert f"reference={name}" in result.output
        again = import_file(tmp_path, path, "--columns", f"reference={name}")
        assert again.exit_code == 0, again.output
        assert is_right(tmp_path, sum(map(int.__eq__, references, CHOSEN)) / N)


# with the right answers in a file of their own

SOLUTION: Final = table(lambda n: {"id": f"t{n}", "text": f"t{n}", "label": label(n)})


@pytest.mark.parametrize("form", ["answers", "probabilities", "bare names"])
def test_a_submission_with_its_solution(tmp_path: Path, form: str) -> None:
    """A submission has ids and answers in another order."""
    solution = SOLUTION(tmp_path).rename(tmp_path / "solution.csv")
    forms: Mapping[str, Callable[[int], Row]] = {
        "answers": lambda n: {"prediction": said(n)},
        "probabilities": lambda n: by_name(n, "p_"),
        "bare names": by_name,
    }
    rows = [{"id": f"t{n}", **forms[form](n)} for n in random.Random(3).sample(ROWS, N)]
    path = write_table(tmp_path, rows, Dialect("csv"), "submission")
    message = read_or_asked(
        lambda *words: import_file(tmp_path, path, "--data", solution, *words),
        lambda: is_right(tmp_path),
    )
    assert not message or form == "bare names"


@pytest.mark.parametrize("form", ["list", "prediction as position"])
def test_names_of_the_data_give_no_order_to_a_list(tmp_path: Path, form: str) -> None:
    """The data has texts as labels; what the rows number is not known."""
    solution = SOLUTION(tmp_path).rename(tmp_path / "solution.csv")
    path = lines(
        lambda n: (
            {"id": f"t{n}"}
            | ({"probabilities": VALUES[n]} if form == "list" else {"prediction": CHOSEN[n]})
        )
    )(tmp_path)
    result = import_file(tmp_path, path, "--data", solution)
    assert result.exit_code == 2, result.output
    again = import_file(tmp_path, path, "--data", solution, "--options", ",".join(NAMES))
    assert again.exit_code == 0, again.output
    assert is_right(tmp_path)


def test_a_reference_that_contradicts_the_data_is_refused(tmp_path: Path) -> None:
    solution = SOLUTION(tmp_path).rename(tmp_path / "solution.csv")
    path = lines(lambda n: {"id": f"t{n}", "reference": 0, "probabilities": by_name(n)})(tmp_path)
    result = import_file(tmp_path, path, "--data", solution)
    assert result.exit_code in (1, 2), result.output
    assert "reference" in result.output
    assert "solution.csv" in result.output
