"""Rows with the columns of public data sets; the names are theirs, and the content is made here.

`pact-audit convert` gives the options of each, in order, and the right one. `pact-eval import` of
the same rows with the answers of a model gives its accuracy.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest
from builders import write_jsonl
from foreign_tables import (
    Question,
    assert_asks,
    convert,
    import_file,
    last_questions,
    last_run,
)

N: Final = 24

RowOf = Callable[[int], dict[str, Any]]
QuestionOf = Callable[[int], Question]


@dataclass(frozen=True)
class Shape:
    """The columns of a public set.

    Attributes:
        row: the row of a number.
        question: what the row means.
        statement: the `--columns` that answer a question of the reader; "" if it need not ask.
        classes: names of the integer labels of a Parquet file, by column; none if JSON lines.
        any_order: whether the order of the options is not that of the columns.
    """

    row: RowOf
    question: QuestionOf
    statement: str = ""
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    any_order: bool = False

    def write(self, folder: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
        """Write rows as the set is published."""
        if not self.classes:
            return write_jsonl(folder / "rows.jsonl", rows)
        features = {
            name: {"names": [*names], "_type": "ClassLabel"} for name, names in self.classes.items()
        }
        metadata = {"huggingface": json.dumps({"info": {"features": features}})}
        path = folder / "rows.parquet"
        frame = pl.DataFrame([dict(row) for row in rows], infer_schema_length=None)
        frame.write_parquet(path, metadata=metadata)
        return path


def words(n: int, count: int, stem: str = "answer") -> list[str]:
    """Different options of a row, none of which is a letter or a number."""
    return [f"{stem} {chr(97 + k)} of {n}" for k in range(count)]


def right(n: int, count: int) -> int:
    """Position of the right one: every position occurs, in no simple order."""
    return (n * 7 + n // 5) % count


def of_words(count: int, stem: str = "answer") -> QuestionOf:
    return lambda n: Question(tuple(words(n, count, stem)), words(n, count, stem)[right(n, count)])


def of_labels(*labels: str) -> QuestionOf:
    return lambda n: Question(labels, labels[right(n, len(labels))])


def named(n: int, count: int, names: Sequence[str], stem: str = "answer") -> dict[str, str]:
    return dict(zip(names, words(n, count, stem), strict=True))


def arc(names: str) -> RowOf:
    return lambda n: {
        "id": f"Mercury_{n}",
        "question": f"What melts at {n} degrees?",
        "choices": {"text": words(n, len(names)), "label": [*names]},
        "answerKey": names[right(n, len(names))],
    }


def truthful(n: int) -> dict[str, Any]:
    """The right one comes first; `mc2_targets` has several right ones."""
    return {
        "question": f"Is it true that {n}?",
        "mc1_targets": {"choices": words(n, 4), "labels": [1, 0, 0, 0]},
        "mc2_targets": {"choices": [*words(n, 4), "also right"], "labels": [1, 0, 0, 0, 1]},
    }


def big_bench(n: int) -> dict[str, Any]:
    """An example of a task file: a score of 1 for the right answer, 0 for the others."""
    scores = {text: int(at == right(n, 4)) for at, text in enumerate(words(n, 4))}
    return {"input": f"Which word is {n}?", "target_scores": scores}


def race_passage(n: int) -> dict[str, Any]:
    return {
        "example_id": f"high{n}.txt",
        "article": f"Long ago, {n} farmers met.",
        "answer": "ABCD"[right(n, 4)],
        "question": "Where did they meet?",
        "options": words(n, 4),
    }


def snli_annotated(n: int) -> dict[str, Any]:
    label = ("entailment", "neutral", "contradiction")[right(n, 3)]
    return {
        "annotator_labels": [label, label, "neutral"],
        "captionID": f"{n}.jpg#2",
        "gold_label": label,
        "pairID": f"{n}.jpg#2r1e",
        "sentence1": f"A dog {n} runs.",
        "sentence1_parse": f"(ROOT (S (NP dog {n})))",
        "sentence2": f"An animal {n} moves.",
        "sentence2_parse": f"(ROOT (S (NP animal {n})))",
    }


def mmlu_pro(n: int) -> dict[str, Any]:
    count = 10 if n % 3 else 7
    return {
        "question_id": 70 + n,
        "question": f"What follows from law {n}?",
        "options": words(n, count),
        "answer": "ABCDEFGHIJ"[right(n, count)],
        "answer_index": right(n, count),
        "cot_content": "",
        "category": ("law", "physics")[n % 2],
        "src": f"ori_mmlu-{n}",
    }


def mmlu_pro_question(n: int) -> Question:
    return of_words(10 if n % 3 else 7)(n)


def hellaswag(n: int) -> dict[str, Any]:
    return {
        "ind": 20 + n,
        "activity_label": ("Roof removal", "Cooking")[n % 2],
        "ctx_a": f"A man {n} sits on a roof.",
        "ctx_b": "he",
        "ctx": f"A man {n} sits on a roof. he",
        "endings": words(n, 4),
        "source_id": f"activitynet~v_{n}",
        "split": "val",
        "split_type": ("indomain", "zeroshot")[n % 2],
        "label": str(right(n, 4)),
    }


def medmcqa(n: int) -> dict[str, Any]:
    return {
        "id": f"45258d3d-{n:04}",
        "question": f"Which drug treats {n}?",
        **named(n, 4, ("opa", "opb", "opc", "opd")),
        "cop": right(n, 4),
        "choice_type": ("single", "multi")[n % 2],
        "exp": "Explained elsewhere.",
        "subject_name": "Medicine",
        "topic_name": None,
    }


def medqa(n: int) -> dict[str, Any]:
    return {
        "question": f"A man of {n} years has a cough.",
        "answer": words(n, 5)[right(n, 5)],
        "options": dict(zip("ABCDE", words(n, 5), strict=True)),
        "meta_info": "step1",
        "answer_idx": "ABCDE"[right(n, 5)],
    }


def medqa_list(n: int) -> dict[str, Any]:
    pairs = zip("ABCDE", words(n, 5), strict=True)
    return medqa(n) | {"options": [{"key": key, "value": value} for key, value in pairs]}


def pair(names: tuple[str, str], n: int) -> dict[str, str]:
    return {names[0]: f"The cat {n} sat.", names[1]: f"A cat {n} was sitting."}


def glue(first: str, second: str, **more: Any) -> RowOf:
    return lambda n: pair((first, second), n) | {"label": right(n, 2), "idx": n} | more


def lm_eval_document(doc: RowOf) -> RowOf:
    return lambda n: {f"doc.{name}": value for name, value in doc(n).items()} | {"doc_id": n}


def nested_document(doc: RowOf) -> RowOf:
    return lambda n: {"doc_id": n, "doc": doc(n)}


def mmlu(n: int) -> dict[str, Any]:
    return {
        "question": f"How much is {n} times two?",
        "subject": ("algebra", "anatomy")[n % 2],
        "choices": words(n, 4),
        "answer": right(n, 4),
    }


def boolq(n: int) -> dict[str, Any]:
    answer = bool(right(n, 2))
    return {"question": f"is gate {n} open", "answer": answer, "passage": f"Gate {n} is wide."}


def social(n: int) -> dict[str, Any]:
    return {
        "context": f"Kai {n} fell.",
        "question": "How would Kai feel?",
        **named(n, 3, ("answerA", "answerB", "answerC")),
        "label": str(right(n, 3) + 1),
    }


def sciq(n: int) -> dict[str, Any]:
    texts = words(n, 4)
    return {
        "question": f"What is {n} made of?",
        "distractor3": texts[3],
        "distractor1": texts[1],
        "distractor2": texts[2],
        "correct_answer": texts[0],
        "support": "Some say so.",
    }


def sciq_question(n: int) -> Question:
    return Question(tuple(words(n, 4)), words(n, 4)[0])


def winogrande(n: int) -> dict[str, Any]:
    return {
        "sentence": f"Ann {n} thanked Bob {n} because _ had helped.",
        "option1": words(n, 2)[0],
        "option2": words(n, 2)[1],
        "answer": str(right(n, 2) + 1),
    }


def copa(n: int) -> dict[str, Any]:
    return {
        "premise": f"The man {n} fell.",
        **named(n, 2, ("choice1", "choice2")),
        "question": ("cause", "effect")[n % 3 == 0],
        "idx": n,
        "label": right(n, 2),
    }


def agieval(n: int) -> dict[str, Any]:
    return {
        "query": f"Q: Whose is {n}? Answer Choices: ...",
        "choices": [f"({letter}){text}" for letter, text in zip("ABCDE", words(n, 5), strict=True)],
        "gold": [right(n, 5)],
    }


def agieval_question(n: int) -> Question:
    options = tuple(agieval(n)["choices"])
    return Question(options, options[right(n, 5)])


NLI: Final = ("entailment", "neutral", "contradiction")

SHAPES: Final[Mapping[str, Shape]] = {
    "ARC": Shape(arc("ABCD"), of_words(4)),
    "ARC of both kinds": Shape(lambda n: arc("1234" if n % 3 == 0 else "ABCD")(n), of_words(4)),
    "MMLU": Shape(mmlu, of_words(4)),
    "MMLU with class names": Shape(mmlu, of_words(4), classes={"answer": [*"ABCD"]}),
    "MMLU-Pro": Shape(mmlu_pro, mmlu_pro_question),
    "HellaSwag": Shape(hellaswag, of_words(4)),
    "PIQA": Shape(
        lambda n: {"goal": f"Open jar {n}", **named(n, 2, ("sol1", "sol2")), "label": right(n, 2)},
        of_words(2),
    ),
    "PIQA with class names": Shape(
        lambda n: {"goal": f"Open jar {n}", **named(n, 2, ("sol1", "sol2")), "label": right(n, 2)},
        of_words(2),
        classes={"label": ["0", "1"]},
    ),
    "WinoGrande": Shape(winogrande, of_words(2)),
    "COPA": Shape(copa, of_words(2)),
    "COPA with class names": Shape(copa, of_words(2), classes={"label": ["choice1", "choice2"]}),
    "Social IQa": Shape(social, of_words(3)),
    "SciQ": Shape(sciq, sciq_question, any_order=True),
    "BoolQ": Shape(
        boolq, lambda n: Question(("false", "true"), ("false", "true")[right(n, 2)], "boolean")
    ),
    "OpenBookQA": Shape(
        lambda n: (
            {"id": f"7-{n}", "question_stem": f"Stem {n}"}
            | {name: arc("ABCD")(n)[name] for name in ("choices", "answerKey")}
        ),
        of_words(4),
    ),
    "RACE": Shape(race_passage, of_words(4)),
    "BIG-bench": Shape(big_bench, lambda n: Question(tuple(words(n, 4)), words(n, 4)[right(n, 4)])),
    "TruthfulQA": Shape(truthful, lambda n: Question(tuple(words(n, 4)), words(n, 4)[0])),
    "SNLI": Shape(
        lambda n: pair(("premise", "hypothesis"), n) | {"label": right(n, 3)},
        of_labels(*NLI),
        classes={"label": NLI},
    ),
    "SNLI as annotated": Shape(
        snli_annotated,
        of_labels(*NLI),
        statement="ignored=annotator_labels",
        any_order=True,
    ),
    "SST-2": Shape(
        lambda n: {"idx": n, "sentence": f"a fine film {n}", "label": right(n, 2)},
        of_labels("negative", "positive"),
        classes={"label": ("negative", "positive")},
    ),
    "AGIEval": Shape(agieval, agieval_question),
    "MedQA": Shape(medqa, of_words(5)),
    "MedQA, list of objects": Shape(medqa_list, of_words(5)),
    "MedQA, letters only": Shape(
        lambda n: {name: medqa(n)[name] for name in ("question", "options", "answer_idx")},
        of_words(5),
    ),
    "MedMCQA": Shape(medmcqa, of_words(4)),
    "MedMCQA with class names": Shape(medmcqa, of_words(4), classes={"cop": [*"abcd"]}),
    "MedMCQA, first release": Shape(lambda n: medmcqa(n) | {"cop": right(n, 4) + 1}, of_words(4)),
    "RTE without class names": Shape(glue("sentence1", "sentence2"), of_labels("0", "1")),
    "QQP without class names": Shape(glue("question1", "question2"), of_labels("0", "1")),
    "HellaSwag as doc.*": Shape(lm_eval_document(hellaswag), of_words(4)),
    "MMLU in doc": Shape(nested_document(mmlu), of_words(4)),
    "CMMLU": Shape(
        lambda n: (
            {"": n, "Question": f"Wie viel ist {n}?"}
            | dict(zip("ABCD", words(n, 4), strict=True))
            | {"Answer": "ABCD"[right(n, 4)]}
        ),
        of_words(4),
        statement="question=Question,options=A+B+C+D,reference=Answer",
    ),
    "C-Eval": Shape(
        lambda n: (
            {"id": n, "question": f"Wie viel ist {n}?"}
            | dict(zip("ABCD", words(n, 4), strict=True))
            | {"answer": "ABCD"[right(n, 4)], "explanation": ""}
        ),
        of_words(4),
    ),
    "LogiQA with small letters": Shape(
        lambda n: (
            {"label": "abcd"[right(n, 4)], "context": f"All {n} are red."}
            | {"question": "What follows?", "options": words(n, 4)}
        ),
        of_words(4),
        statement="state=context,question=question,options=options,reference=label",
    ),
    "Belebele": Shape(
        lambda n: (
            {"link": f"https://example.org/{n}", "question_number": n % 2 + 1}
            | {"flores_passage": f"A river {n} rose.", "question": "What rose?"}
            | named(n, 4, ("mc_answer1", "mc_answer2", "mc_answer3", "mc_answer4"))
            | {
                "correct_answer_num": str(right(n, 4) + 1),
                "dialect": "deu_Latn",
                "ds": "2023-05-03",
            }
        ),
        of_words(4),
        statement="state=flores_passage,question=question,"
        "options=mc_answer1+mc_answer2+mc_answer3+mc_answer4,"
        "reference=correct_answer_num",
    ),
    "GPQA": Shape(
        lambda n: (
            {"Question": f"What decays in {n} s?", "Correct Answer": words(n, 4)[0]}
            | {f"Incorrect Answer {k}": words(n, 4)[k] for k in (1, 2, 3)}
        ),
        sciq_question,
        statement="question=Question,"
        "options=Correct Answer+Incorrect Answer 1+Incorrect Answer 2+Incorrect Answer 3,"
        "reference=Correct Answer",
        any_order=True,
    ),
}
"""By name, the columns of public sets."""


def same(asked: Sequence[Question], shape: Shape) -> bool:
    """Whether these are the questions of the shape."""
    expected = [shape.question(n) for n in range(N)]
    if shape.any_order:
        return [(sorted(one.options), one.right) for one in asked] == [
            (sorted(one.options), one.right) for one in expected
        ]
    return [*asked] == expected


@pytest.mark.parametrize("name", SHAPES)
def test_options_and_the_right_one_of_a_public_set(tmp_path: Path, name: str) -> None:
    shape = SHAPES[name]
    path = shape.write(tmp_path, [shape.row(n) for n in range(N)])
    result = convert(tmp_path, path)
    if shape.statement and result.exit_code:
        assert_asks(result)
        result = convert(tmp_path, path, "--columns", shape.statement)
    assert result.exit_code == 0, result.output
    assert same(last_questions(tmp_path), shape)


def model(shape: Shape, seed: str) -> tuple[list[list[float]], float]:
    """Probabilities of a model in the order of the options, and its accuracy."""
    rng = random.Random(seed)
    answers, hits = [], 0
    for n in range(N):
        asked = shape.question(n)
        weights = [rng.gammavariate(1, 1) for _ in asked.options]
        if rng.random() < 0.5:
            weights[asked.options.index(asked.right)] += 3
        answers.append([weight / sum(weights) for weight in weights])
        chosen = max(range(len(weights)), key=weights.__getitem__)
        hits += asked.options[chosen] == asked.right
    return answers, hits / N


def with_names(probabilities: Sequence[float], asked: Question) -> dict[str, Any]:
    names = dict(zip(asked.options, probabilities, strict=True))
    return {"probabilities": names}


def with_list(probabilities: Sequence[float], asked: Question) -> dict[str, Any]:
    chosen = max(range(len(probabilities)), key=probabilities.__getitem__)
    return {"probabilities": [*probabilities], "prediction": asked.options[chosen]}


def with_text(probabilities: Sequence[float], asked: Question) -> dict[str, Any]:
    chosen = max(range(len(probabilities)), key=probabilities.__getitem__)
    return {"prediction": asked.options[chosen]}


FORMS: Final = {"by name": with_names, "list and text": with_list, "text": with_text}


@pytest.mark.parametrize(
    ("name", "form"),
    [
        *((name, "list and text") for name in SHAPES),
        *(
            (name, form)
            for name in ("ARC", "BoolQ", "SNLI", "PIQA")
            for form in ("by name", "text")
        ),
    ],
)
def test_accuracy_of_a_model_on_a_public_set(tmp_path: Path, name: str, form: str) -> None:
    shape = SHAPES[name]
    answers, accuracy = model(shape, name)
    rows = [
        shape.row(n) | FORMS[form](values, shape.question(n)) for n, values in enumerate(answers)
    ]
    path = shape.write(tmp_path, rows)
    result = import_file(tmp_path, path)
    if shape.statement and result.exit_code:
        assert_asks(result)
        result = import_file(tmp_path, path, "--columns", shape.statement)
    assert result.exit_code == 0, result.output
    assert last_run(tmp_path).accuracy == pytest.approx(accuracy, abs=1e-9)


@pytest.mark.parametrize("name", ["SNLI", "RTE without class names", "SST-2", "COPA"])
def test_what_is_asked_about_is_shown(tmp_path: Path, name: str) -> None:
    shape = SHAPES[name]
    rows = [shape.row(n) for n in range(N)]
    assert convert(tmp_path, shape.write(tmp_path, rows)).exit_code == 0
    text = (tmp_path / "converted-0" / "eval.jsonl").read_text(encoding="utf-8")
    shown = json.dumps(json.loads(text.splitlines()[5])["input"])
    for column in ("premise", "hypothesis", "sentence", "sentence1", "sentence2"):
        if column in rows[5]:
            assert rows[5][column] in shown


@pytest.mark.parametrize("name", ["SNLI", "MedMCQA with class names"])
def test_hidden_labels_of_test_splits_are_no_class(tmp_path: Path, name: str) -> None:
    shape = SHAPES[name]
    (label,) = shape.classes
    rows = [shape.row(n) | ({label: -1} if n % 6 == 0 else {}) for n in range(N)]
    result = convert(tmp_path, shape.write(tmp_path, rows))
    assert result.exit_code == 0, result.output
    assert last_questions(tmp_path) == [shape.question(n) for n in range(N) if n % 6]
    assert "4" in result.output


def test_lists_of_questions_are_read_or_refused(tmp_path: Path) -> None:
    """RACE as its authors publish it: an article, with lists of questions, options and answers."""
    rows = [
        {"id": f"middle{n}.txt", "article": f"Long ago, {n} farmers met."}
        | {"questions": ["Who met?", "When?"], "options": [words(n, 4), words(n + 50, 4)]}
        | {"answers": ["ABCD"[right(n, 4)], "ABCD"[right(n + 50, 4)]]}
        for n in range(N)
    ]
    result = convert(tmp_path, write_jsonl(tmp_path / "rows.jsonl", rows))
    assert result.exit_code in (0, 2), result.output
    if result.exit_code == 0:
        expected = [of_words(4)(number) for n in range(N) for number in (n, n + 50)]
        assert last_questions(tmp_path) == expected


@pytest.mark.parametrize(
    ("words_of_user", "levels"), [(("--levels", "1..6"), 6), (("--levels", "0..6"), 7)]
)
def test_a_rubric_of_essays_is_a_score(
    tmp_path: Path, words_of_user: tuple[str, ...], levels: int
) -> None:
    """Essays from 1 to 6, of which none has a 6."""
    rows = [
        {"essay_id": f"e{n}", "full_text": f"An essay {n}.", "score": n % 5 + 1} for n in range(N)
    ]
    path = write_jsonl(tmp_path / "rows.jsonl", rows)
    columns = ("--columns", "id=essay_id,state=full_text,reference=score")
    result = convert(tmp_path, path, *columns, *words_of_user)
    assert result.exit_code == 0, result.output
    for n, question in enumerate(last_questions(tmp_path)):
        assert question.kind == "score"
        assert len(question.options) == levels
        assert question.right == str(n % 5 + 1)
