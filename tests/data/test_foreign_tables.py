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

Writer = Callable[[Path], Path]
Columns = dict[str, Any]

# Columns by what they mean, one value per row.
ID: Final = [f"t{n}" for n in ROWS]
TEXT: Final = [f"ticket {n}" for n in ROWS]
LABEL: Final = [NAMES[k] for k in RIGHT]
SAID: Final = [NAMES[k] for k in CHOSEN]
HIT: Final = [*map(int.__eq__, RIGHT, CHOSEN)]
BEST: Final = [*map(max, VALUES)]
BY_NAME: Final = [dict(zip(NAMES, row, strict=True)) for row in VALUES]
OPTIONS: Final = [[*NAMES]] * N


def per_name(stem: str = "") -> Columns:
    """One column of probabilities per answer."""
    return {f"{stem}{name}": [row[name] for row in BY_NAME] for name in NAMES}


def ranked(name: str, score: str) -> list[list[dict[str, Any]]]:
    """The answers of each row with their probabilities, the most probable first."""
    pairs = [sorted(row.items(), key=lambda pair: -pair[1]) for row in BY_NAME]
    return [[{name: text, score: value} for text, value in row] for row in pairs]


def but(column: Sequence[Any], value: Any, at: int = 9) -> list[Any]:
    """The column with another value in one row."""
    return [*column[:at], value, *column[at + 1 :]]


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    return [{name: column[n] for name, column in columns.items()} for n in ROWS]


def lines(columns: Columns) -> Writer:
    return lambda folder: write_jsonl(folder / "table.jsonl", rows_of(columns))


def table(columns: Columns, **dialect: Any) -> Writer:
    written = Dialect(**{"container": "csv", **dialect})
    return lambda folder: write_table(folder, rows_of(columns), written)


def raw(content: bytes | str, name: str = "table.csv") -> Writer:
    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def document(value: Any) -> Writer:
    return raw(json.dumps(value), "table.json")


def csv_text(separator: str = ",", end: str = "\n", tail: str = "") -> str:
    head = separator.join(["id", "label", *per_name("p_")])
    cells = [separator.join([ID[n], LABEL[n], *map(repr, VALUES[n])]) for n in ROWS]
    return "".join(line + tail + end for line in [head, *cells])


def shuffled() -> Columns:
    """The same names in another order in each row, and a list in that order."""
    orders = [random.Random(n).sample(range(3), 3) for n in ROWS]
    return {
        "question": TEXT,
        "options": [[NAMES[k] for k in order] for order in orders],
        "answer": [order.index(k) for order, k in zip(orders, RIGHT, strict=True)],
        "probabilities": [[VALUES[n][k] for k in order] for n, order in enumerate(orders)],
    }


def top_logprobs(values: Sequence[float]) -> dict[str, Any]:
    """What a chat API lists beside its answer."""
    ranking = sorted(enumerate(values), key=lambda pair: -pair[1])
    listed = [{"token": "ABC"[k], "logprob": math.log(p), "bytes": [65 + k]} for k, p in ranking]
    return {"content": [listed[0] | {"top_logprobs": listed}], "refusal": None}


COMPRESSED: Final = [gzip.compress(text.encode()) for text in (csv_text()[:300], csv_text()[300:])]
LOGS: Final = [{name: math.log(p) for name, p in row.items()} for row in BY_NAME]
PREDICTED: Final[Columns] = {"text": TEXT, "label": LABEL, "pred": SAID}

PROBABILITIES: Final[Mapping[str, Writer]] = {
    "answer beside log-probabilities": lines(
        {"id": ID, "text": TEXT, "answer": LABEL, "logprobs": LOGS}
    ),
    # The predictions tell the order of the list, which is not that of the alphabet.
    "list and prediction": lines(
        {"id": ID, "text": TEXT, "label": LABEL, "prediction": SAID, "probabilities": VALUES}
    ),
    "numbers as ids": lines({"id": ROWS, "label": LABEL, "probabilities": BY_NAME}),
    "options in another order in every row": lines(shuffled()),
    "quoted decimal commas": table(
        {"label": LABEL}
        | {
            name: [repr(p).replace(".", ",") for p in column]
            for name, column in per_name("p_").items()
        }
    ),
    "decimal commas": table(
        {"label": LABEL} | per_name("p_"), container="semicolon.csv", decimal_comma=True
    ),
    "tabs": table({"label": LABEL} | per_name("p_"), container="tsv"),
    "empty lines at the end": raw(csv_text() + "\n\n\n"),
    "lines of separators at the end": raw(csv_text(";") + ";;;;\r\n;;;;\r\n"),
    "no line feed at the end": raw(csv_text().rstrip("\n")),
    "carriage returns": raw(csv_text(end="\r\n")),
    "a byte order mark": raw("\ufeff" + csv_text()),
    "a gzip of two members": raw(b"".join(COMPRESSED), "table.csv.gz"),
    "truth in capitals": table(
        {"label": LABEL, "correct": [str(hit).upper() for hit in HIT]} | per_name("p_")
    ),
    "a column of another model": table(
        {"label": LABEL, "confidence_of_gpt": [0.5 + n / 100 for n in ROWS]} | per_name("p_")
    ),
    "an empty column": lines({"label": LABEL, "probabilities": BY_NAME, "note": [None] * N}),
    "all that a row may have": lines(
        {"id": ID, "text": TEXT, "label": RIGHT, "prediction": CHOSEN, "probabilities": VALUES}
        | {"correct": [*map(int, HIT)]}
    ),
    "pandas, with its index": table({"": ROWS} | PREDICTED | per_name("p_")),
    "pandas, saved twice": table(
        {"Unnamed: 0.1": ROWS, "Unnamed: 0": ROWS} | PREDICTED | per_name("prob_")
    ),
    "sklearn, columns of classes": table({"y_true": LABEL, "y_pred": SAID} | per_name("proba_")),
    "sklearn, list in the order of classes_": lines(
        {"y_true": LABEL, "predict_proba": VALUES, "y_pred": SAID}
    ),
    "text classification": lines(
        {"text": TEXT, "true_label": LABEL, "scores": ranked("label", "score")}
    ),
    "text classification, as predictions": lines(
        {"text": TEXT, "label": LABEL, "prediction": ranked("label", "score")}
    ),
    "scores by name, as predictions": table(
        {"text": TEXT, "label": LABEL, "pred": [repr(row) for row in BY_NAME]}
    ),
    "mlr3": table({"row_ids": ROWS, "truth": LABEL, "response": SAID} | per_name("prob.")),
    "BigQuery ML": lines(
        {"predicted_label": SAID, "label": LABEL, "predicted_label_probs": ranked("label", "prob")}
    ),
    "top_logprobs of a chat": lines(
        {"id": ID, "options": OPTIONS, "answer": ["ABC"[k] for k in RIGHT]}
        | {"logprobs": [*map(top_logprobs, VALUES)]}
    ),
}
"""Tables that are read without a question, with the probabilities of all answers."""

ANSWERS: Final[Mapping[str, Writer]] = {
    "W&B, rows": table(
        {"image_id": ID, "true_label": LABEL, "predicted_label": SAID, "confidence": BEST}
        | {"correct": HIT}
    ),
    "letters of a chat": lines(
        {"id": ID, "question": TEXT, "options": OPTIONS, "gold": ["ABC"[k] for k in RIGHT]}
        | {"prediction": ["ABC"[k] for k in CHOSEN]}
    ),
    "text classification, top only": lines(
        {"text": TEXT, "gold": LABEL, "prediction": [row[0] for row in ranked("label", "score")]}
    ),
    "text classification, top only, printed": table(
        {"text": TEXT, "label": LABEL, "pred": [repr(row[:1]) for row in ranked("label", "score")]}
    ),
    "counted from 1": table(
        {"id": ID, "label": [k + 1 for k in RIGHT], "prediction": [k + 1 for k in CHOSEN]}
    ),
}
"""Tables that are read without a question, with the answers of a model alone."""

SCORED: Final = ranked("label", "score")


def quoted(*cells: object) -> str:
    return ",".join(f'"{cell}"' for cell in cells)


def r_table() -> str:
    head = quoted("", "text", "truth", "pred", *per_name("prob."), "ok")
    cells = [
        f"{quoted(n + 1, TEXT[n], LABEL[n], SAID[n])},{','.join(map(repr, VALUES[n]))},"
        f"{str(HIT[n]).upper()}"
        for n in ROWS
    ]
    return "\n".join([head, *cells]) + "\n"


def excel() -> str:
    """German Excel: a line that names the separator, decimal commas, and other names."""
    head = "Nr;Text;Label;Vorhersage;p_refund;p_replace;p_reject"
    cells = [[str(n + 1), TEXT[n], LABEL[n], SAID[n], *map(str, VALUES[n])] for n in ROWS]
    with_commas = [";".join(row).replace(".", ",") for row in cells]
    return "\ufeff" + "\r\n".join(["sep=;", head, *with_commas]) + "\r\n"


def weka() -> str:
    cells = [
        f"{n + 1},{RIGHT[n] + 1}:{LABEL[n]},{CHOSEN[n] + 1}:{SAID[n]},"
        f"{'' if HIT[n] else '+'},{BEST[n]!r}"
        for n in ROWS
    ]
    return "\n".join(["inst#,actual,predicted,error,prediction", *cells]) + "\n"


ASKED: Final[Mapping[str, Writer]] = {
    "reference and gold that agree": lines(
        {"reference": RIGHT, "probabilities": VALUES, "gold": RIGHT}
    ),
    "sklearn, numbered columns": table(
        {"y_true": RIGHT, "y_pred": CHOSEN}
        | {str(k): column for k, column in enumerate(per_name().values())}
    ),
    "sklearn, columns that are classes": table({**per_name(), "label": LABEL}),
    "text classification, label and score": table(
        {"text": TEXT, "true": LABEL, "label": SAID, "score": BEST}
    ),
    "zero shot": lines(
        {"sequence": TEXT, "labels": [[answer["label"] for answer in row] for row in SCORED]}
        | {"scores": [[answer["score"] for answer in row] for row in SCORED], "true_label": LABEL}
    ),
    "trainer": lines({"text": TEXT, "label_ids": RIGHT, "logits": VALUES}),
    "scores under another name": lines({"text": TEXT, "label": LABEL, "raw": SCORED}),
    "log-probabilities under another name": lines({"text": TEXT, "label": LABEL, "out": LOGS}),
    "a service": table(
        {"Intent": LABEL, "Predicted Intent": SAID, "Confidence": [f"{p:.2%}" for p in BEST]}
    ),
    "MLflow": table({"inputs": TEXT, "targets": LABEL, "outputs": SAID}),
    "Excel": raw(excel()),
    "R, with row names": raw(r_table()),
    "tidymodels": table({".pred_class": SAID, **per_name(".pred_"), "truth": LABEL}),
    "Weka": raw(weka()),
    "spaCy": lines({"text": TEXT, "label": LABEL, "cats": BY_NAME}),
    "fastText": table(
        {"label": [f"__label__{name}" for name in LABEL], "probability": BEST}
        | {"prediction": [f"__label__{name}" for name in SAID]}
    ),
    "a winner beside numbers": table(
        {"id": ROWS, "winner": LABEL, "model_choice": SAID}
        | {"latency_ms": [100 + n for n in ROWS], "cost": [0.01 * n for n in ROWS]}
    ),
}
"""Tables that may be asked about; an option that the question names gives the right value."""

CARELESS: Final[Mapping[str, Writer]] = {
    "a label beside the answer of a model": lines(
        {"id": ID, "label": LABEL, "answer": SAID, "probabilities": BY_NAME}
    ),
    "a file that is not what it is called": raw(csv_text(), "table.parquet"),
    "percent signs": table(
        {"label": LABEL}
        | {name: [f"{100 * p!r}%" for p in column] for name, column in per_name("p_").items()}
    ),
    "a separator at the end of each line": raw(csv_text(tail=",")),
    "spaces after separators": raw(csv_text(", ")),
    "pandas, split": document(
        {"columns": [*PREDICTED], "index": [*ROWS]}
        | {"data": [[*row.values()] for row in rows_of(PREDICTED)]}
    ),
    "promptfoo": document(
        {
            "results": {
                "version": 3,
                "results": [
                    {"vars": {"ticket": TEXT[n], "expected": LABEL[n]}, "score": 1}
                    | {"response": {"output": SAID[n]}, "success": HIT[n]}
                    for n in ROWS
                ],
            }
        }
    ),
}
"""Tables that are read right or refused, whatever is asked."""

OTHER: Final = NAMES[(CHOSEN[9] + 1) % 3]
"""An answer that the model does not prefer in row 9."""

Refused = tuple[Writer, Sequence[str], Sequence[str]]
REFUSED: Final[Mapping[str, Refused]] = {
    "one column for two roles": (
        lines({"id": ID, "label": LABEL, "pred": SAID}),
        ("label",),
        ("--columns", "reference=label,prediction=label"),
    ),
    "probabilities of two models": (
        lines({"label": RIGHT, "probabilities": VALUES, "probs": [row[::-1] for row in VALUES]}),
        ("probabilities", "probs"),
        (),
    ),
    "predictions of two models": (
        table({"label": LABEL, "prediction": SAID, "pred": [NAMES[k - 1] for k in CHOSEN]}),
        ("prediction", "pred"),
        (),
    ),
    "labels and predictions of other words": (
        table({"id": ID, "label": RIGHT, "prediction": [("neg", "neu", "pos")[k] for k in CHOSEN]}),
        ("label", "prediction"),
        (),
    ),
    "letters and texts without options": (
        table({"id": ID, "answer": ["ABC"[k] for k in RIGHT], "pred": SAID}),
        ("answer", "pred"),
        (),
    ),
    "an outcome that contradicts": (
        lines(
            {"id": ID, "label": LABEL, "probabilities": BY_NAME, "correct": but(HIT, not HIT[9])}
        ),
        ("t9", "correct"),
        (),
    ),
    "a prediction that contradicts": (
        lines({"id": ID, "label": LABEL, "probabilities": BY_NAME, "prediction": but(SAID, OTHER)}),
        ("t9", "prediction"),
        (),
    ),
    "a prediction that contradicts every order of a list": (
        lines({"id": ID, "label": LABEL, "probabilities": VALUES, "prediction": but(SAID, OTHER)}),
        ("--options",),
        (),
    ),
    "a prediction that contradicts the order that is given": (
        lines({"id": ID, "label": LABEL, "probabilities": VALUES, "prediction": but(SAID, OTHER)}),
        ("t9", "prediction"),
        ("--options", ",".join(NAMES)),
    ),
    "log-probabilities above 0": (
        lines(
            {"label": LABEL, "logprobs": [{k: -math.log(p) for k, p in r.items()} for r in BY_NAME]}
        ),
        ("logprobs",),
        (),
    ),
    "probabilities of percent": (
        lines({"label": RIGHT, "probabilities": [[90 - n, n, 10 + n % 2] for n in ROWS]}),
        ("probabilities",),
        (),
    ),
    "no right answer": (
        lines({"id": ID, "prediction": SAID, "probabilities": BY_NAME}),
        ("reference",),
        (),
    ),
    "nothing of a model": (lines({"id": ID, "text": TEXT, "label": LABEL}), ("--columns",), ()),
    "a label that is no answer": (
        lines({"id": ID, "label": but(LABEL, "return"), "probabilities": BY_NAME}),
        ("return",),
        (),
    ),
    "lists of two lengths": (
        lines(
            {"label": [k % 2 for k in RIGHT], "prediction": [0] * N, "options": OPTIONS}
            | {"probabilities": [[0.5, 0.3, 0.2], [0.6, 0.4]] * (N // 2)}
        ),
        ("options",),
        (),
    ),
    "options that were not read": (
        table(
            {"question": TEXT}
            | {f"thing{k + 1}": [f"{'abc'[k]}{n}" for n in ROWS] for k in range(3)}
            | {"label": [f"{'abc'[k]}{n}" for n, k in enumerate(RIGHT)]}
            | {"prediction": [f"{'abc'[k]}{n}" for n, k in enumerate(CHOSEN)]}
        ),
        ("thing1",),
        (),
    ),
    "options of a name that does not exist": (
        table({"label": LABEL, "pred": SAID}),
        ("gold",),
        ("--columns", "reference=gold"),
    ),
    "fewer options than answers": (
        table({"label": LABEL} | per_name("p_")),
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
    columns: dict[str, Any] = {"y_true": RIGHT_OF_TWO, "y_prob": [row[1] for row in VALUES_OF_TWO]}
    if not has_prediction:
        assert import_file(tmp_path, table(columns)(tmp_path)).exit_code == 2
        return
    path = table(columns | {"y_pred": CHOSEN_OF_TWO})(tmp_path)
    read_or_asked(
        lambda *words: import_file(tmp_path, path, *words),
        lambda: is_right(tmp_path, ACCURACY_OF_TWO),
    )


def test_a_list_with_text_labels_has_no_known_order(tmp_path: Path) -> None:
    path = lines({"label": LABEL, "probabilities": VALUES})(tmp_path)
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
    path = lines({"probabilities": VALUES} | right)(tmp_path)
    result = import_file(tmp_path, path)
    assert_asks(result)
    for name, references in right.items():
        assert f"reference={name}" in result.output
        again = import_file(tmp_path, path, "--columns", f"reference={name}")
        assert again.exit_code == 0, again.output
        assert is_right(tmp_path, sum(map(int.__eq__, references, CHOSEN)) / N)


# with the right answers in a file of their own


@pytest.fixture
def solution(tmp_path: Path) -> Path:
    path = table({"id": ID, "text": TEXT, "label": LABEL})(tmp_path)
    return path.rename(tmp_path / "solution.csv")


@pytest.mark.parametrize("form", ["answers", "probabilities", "bare names"])
def test_a_submission_with_its_solution(tmp_path: Path, solution: Path, form: str) -> None:
    """A submission has ids and answers in another order."""
    forms: dict[str, Columns] = {
        "answers": {"prediction": SAID},
        "probabilities": per_name("p_"),
        "bare names": per_name(),
    }
    rows = random.Random(3).sample(rows_of({"id": ID, **forms[form]}), N)
    path = write_table(tmp_path, rows, Dialect("csv"), "submission")
    message = read_or_asked(
        lambda *words: import_file(tmp_path, path, "--data", solution, *words),
        lambda: is_right(tmp_path),
    )
    assert not message or form == "bare names"


def test_ids_may_be_numbers_in_one_file_and_texts_in_the_other(tmp_path: Path) -> None:
    numbered = table({"id": ROWS, "text": TEXT, "label": LABEL})(tmp_path)
    path = lines({"id": ROWS, "probabilities": BY_NAME})(tmp_path)
    result = import_file(tmp_path, path, "--data", numbered)
    assert result.exit_code == 0, result.output
    assert is_right(tmp_path)


@pytest.mark.parametrize("columns", [{"probabilities": VALUES}, {"prediction": CHOSEN}])
def test_names_of_the_data_give_no_order_to_a_list(
    tmp_path: Path, solution: Path, columns: Columns
) -> None:
    """The data has texts as labels; what the rows number is not known."""
    path = lines({"id": ID} | columns)(tmp_path)
    result = import_file(tmp_path, path, "--data", solution)
    assert result.exit_code == 2, result.output
    again = import_file(tmp_path, path, "--data", solution, "--options", ",".join(NAMES))
    assert again.exit_code == 0, again.output
    assert is_right(tmp_path)


def test_a_reference_that_contradicts_the_data_is_refused(tmp_path: Path, solution: Path) -> None:
    path = lines({"id": ID, "reference": [0] * N, "probabilities": BY_NAME})(tmp_path)
    result = import_file(tmp_path, path, "--data", solution)
    assert result.exit_code in (1, 2), result.output
    assert "reference" in result.output
    assert "solution.csv" in result.output


def test_options_that_cannot_be_read_are_refused_next_to_data(
    tmp_path: Path, solution: Path
) -> None:
    """By the row: one option is none to choose from."""
    options = [[*NAMES], *[[NAMES[0]]] * (N - 1)]
    path = lines({"id": ID, "options": options, "probabilities": BY_NAME})(tmp_path)
    result = import_file(tmp_path, path, "--data", solution)
    assert result.exit_code == 1, result.output
    assert f"options: expected two or more options; correct the options\nand {N - 2} more" in (
        result.output
    )
