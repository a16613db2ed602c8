"""Random tables of answers whose accuracy and NLL are known, in every container and form."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from foreign_tables import COMPRESSIONS, CONTAINERS, Dialect, Row

LETTERS: Final = "ABCDEFGH"
CSV: Final = ("csv", "semicolon.csv", "tsv")


@dataclass(frozen=True)
class Table:
    """A table, how it is written, and what is true of it.

    Attributes:
        rows: its rows.
        dialect: how they are written.
        options: what the user gives to the import.
        statement: options that leave no question; None if there are no such options.
        accuracy: the true accuracy, of the rows with a label.
        nll: the true NLL in nats; None if the table does not say it.
        traits: what it is made of, for messages and counts.
    """

    rows: Sequence[Row]
    dialect: Dialect
    options: Mapping[str, Any]
    statement: Mapping[str, Any] | None
    accuracy: float
    nll: float | None
    traits: tuple[str, ...]


@dataclass(frozen=True)
class Answers:
    """The answers of a table: their names in each row, the right one, and what a model says.

    Attributes:
        kind: what the names look like.
        shared: whether every row has the same names, in the same order.
        names: of each row, in the order of lists and positions.
        right: index of the right one.
        values: probabilities of the names.
    """

    kind: str
    shared: bool
    names: list[list[str]]
    right: list[int]
    values: list[list[float]]

    @property
    def chosen(self) -> list[int]:
        """Index of the most probable answer of each row."""
        return [max(range(len(values)), key=values.__getitem__) for values in self.values]


_SHARED: Final[Mapping[str, Sequence[str]]] = {
    "words": ("refund", "replace", "reject", "ignore", "escalate"),
    "phrases": ("out of stock", "it's late", "wrong item", "no, thanks", "other"),
    "umlauts": ("größer", "kleiner", "gleich", "ungültig", "keine Angabe"),
    "capitals": ("POSITIVE", "NEGATIVE", "NEUTRAL", "MIXED", "UNKNOWN"),
    "HF labels": ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3", "LABEL_4"),
    "letters": tuple("ABCDE"),
    "digits from 0": tuple("01234"),
    "digits from 1": tuple("12345"),
    "yes": ("no", "yes"),
    "truth": ("false", "true"),
}
_SORTED: Final = ("letters", "digits from 0", "digits from 1", "HF labels", "truth")
_OWN: Final = ("own words", "own digits", "own letters", "own punctuation")


def _names(rng: Random, kind: str, size: int, count: int) -> list[list[str]]:
    if kind in _SHARED:
        names = [*_SHARED[kind][:size]]
        if kind not in _SORTED:
            rng.shuffle(names)
        return [names] * count
    made: Mapping[str, Callable[[int], list[str]]] = {
        "own words": lambda n: [f"thing {k} of {n}" for k in range(size)],
        "own digits": lambda _: rng.sample([str(k) for k in range(size)], size),
        "own letters": lambda _: rng.sample(LETTERS[:size], size),
        "own punctuation": lambda n: [f"P(x|{k}, {n}); a" for k in range(size)],
    }
    return [made[kind](n) for n in range(count)]


def draw_answers(rng: Random) -> Answers:
    """Draw the answers of a table."""
    kind = rng.choice([*_SHARED, *_OWN, "own words", "own words", "own words"])
    size = 2 if kind in ("yes", "truth") else rng.randint(2, 5)
    count = rng.randint(20, 36)
    low = rng.random() < 0.1 and size > 2  # the first never right
    high = rng.random() < 0.2 and size > 2  # the last never right
    right = [rng.randrange(low, size - high) for _ in range(count)]
    values = []
    for index in right:
        weights = [rng.gammavariate(1, 1) + 1e-3 for _ in range(size)]
        weights[index] += rng.choice([0, 0, 2])
        values.append([weight / sum(weights) for weight in weights])
    return Answers(kind, kind in _SHARED, _names(rng, kind, size, count), right, values)


@dataclass
class _Draft:
    """A table that is being written: columns by name, and what a full statement says."""

    rng: Random
    answers: Answers
    columns: dict[str, list[Any]] = field(default_factory=dict)
    roles: dict[str, list[str]] = field(default_factory=dict)
    statement: dict[str, Any] | None = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    traits: list[str] = field(default_factory=list)
    has_nll: bool = True

    def add(self, role: str, name: str, values: list[Any]) -> None:
        """Add a column with a role."""
        self.columns[name] = values
        self.roles.setdefault(role, []).append(name)

    def name(self, *names: str) -> str:
        """Draw a name that is free."""
        return self.rng.choice([name for name in names if name not in self.columns])

    def state(self, **values: Any) -> None:
        """Add to the full statement, if there is one."""
        if self.statement is not None:
            self.statement |= values


REFERENCE: Final = ("label", "reference", "gold", "target", "gold_label", "true_label", "y_true")
REFERENCE_OF_OPTIONS: Final = ("answer", "label", "reference", "answerKey", "gold", "target")
PREDICTION: Final = ("prediction", "predicted", "pred", "predicted_label", "y_pred")


def _add_labels(draft: _Draft) -> None:
    rng, count = draft.rng, len(draft.answers.right)
    if rng.random() < 0.7:
        draft.add("id", draft.name("id", "example_id", "uid"), [f"x{n}" for n in range(count)])
    asked = draft.name("question", "query", "prompt") if not draft.answers.shared else "text"
    draft.add(
        "question" if asked != "text" else "state", asked, [f"Item {n}" for n in range(count)]
    )


def _add_options(draft: _Draft) -> str:
    """Add the options of each row; return how they are written."""
    answers, rng = draft.answers, draft.rng
    if answers.shared and rng.random() < 0.6:
        return "none"
    form = rng.choice(["list", "list", "columns", "letters", "object", "two lists"])
    size = len(answers.names[0])
    if form == "columns":
        stem = rng.choice(["option", "choice", "option_"])
        for k in range(size):
            draft.add("options", f"{stem}{k + 1}", [names[k] for names in answers.names])
    elif form == "letters":
        for k in range(size):
            draft.add("options", LETTERS[k], [names[k] for names in answers.names])
    else:
        write: Callable[[list[str]], Any] = {
            "list": lambda names: [*names],
            "object": lambda names: dict(zip(LETTERS, names, strict=False)),
            "two lists": lambda names: {"text": [*names], "label": [*LETTERS[: len(names)]]},
        }[form]
        draft.add("options", draft.name("options", "choices"), [write(n) for n in answers.names])
    return form


def _add_reference(draft: _Draft, options: str, form: str) -> str:
    """Add the right answer; return how it is written."""
    answers, rng = draft.answers, draft.rng
    ways = ["text", "text"]
    if options != "none":
        ways += ["letter", "from 0", "from 1"]
    elif form in ("list", "columns"):
        ways += ["from 0", "from 0", "from 1"]
    way = rng.choice(ways)
    pairs = list(zip(answers.names, answers.right, strict=True))
    writers: Mapping[str, Callable[[], list[Any]]] = {
        "text": lambda: [names[k] for names, k in pairs],
        "letter": lambda: [LETTERS[k] for _, k in pairs],
        "from 0": lambda: [k for _, k in pairs],
        "from 1": lambda: [k + 1 for _, k in pairs],
    }
    written = writers[way]()
    if not way.startswith("from"):
        draft.state(answers=way)
    else:
        draft.state(positions_from=int(way[-1]))
        if rng.random() < 0.3:
            written = [str(k) for k in written]
    names = REFERENCE if options == "none" else REFERENCE_OF_OPTIONS
    draft.add("reference", draft.name(*names), written)
    if answers.kind == "truth" and way == "text" and rng.random() < 0.5:
        draft.columns[draft.roles["reference"][0]] = [text == "true" for text in written]
        draft.traits.append("truth values")
    return way


def _values(draft: _Draft, options: str) -> str:
    """Add what the model says; return its form."""
    rng = draft.rng
    form = rng.choice([*_FORMS, "list", "names", "columns"])
    _FORMS[form](draft, options)
    return form


def _scaled(draft: _Draft) -> tuple[str, list[list[float]]]:
    """Draw the scale of the values; return its role with the values."""
    rng, values = draft.rng, draft.answers.values
    role = rng.choice(["probabilities", "probabilities", "log_probabilities", "logits"])
    if role == "probabilities":
        return role, values
    shifts = [rng.uniform(-3, 3) if role == "logits" else 0.0 for _ in values]
    return role, [
        [math.log(p) + shift for p in row] for row, shift in zip(values, shifts, strict=True)
    ]


_NAMES_OF_VALUES: Final = {
    "probabilities": ("probabilities", "probs", "proba", "probability"),
    "log_probabilities": ("log_probabilities", "logprobs", "log_probs"),
    "logits": ("logits",),
}


def _add_list(draft: _Draft, options: str) -> None:
    role, values = _scaled(draft)
    draft.add(role, draft.name(*_NAMES_OF_VALUES[role]), [[*row] for row in values])
    if draft.answers.shared and options == "none":
        draft.state(options=[*draft.answers.names[0]])
        if draft.rng.random() < 0.4:
            draft.options["options"] = [*draft.answers.names[0]]


def _shuffled(draft: _Draft, row: int) -> list[int]:
    """The order in which a row names its answers."""
    order = [*range(len(draft.answers.names[row]))]
    if draft.traits and "shuffled names" in draft.traits:
        draft.rng.shuffle(order)
    return order


def _add_names(draft: _Draft, options: str) -> None:
    role, values = _scaled(draft)
    if draft.rng.random() < 0.5:
        draft.traits.append("shuffled names")
    cells: list[Any] = [
        {draft.answers.names[n][k]: row[k] for k in _shuffled(draft, n)}
        for n, row in enumerate(values)
    ]
    if draft.rng.random() < 0.3:
        draft.traits.append("JSON in cells")
        cells = [json.dumps(cell, ensure_ascii=False) for cell in cells]
    draft.add(role, draft.name(*_NAMES_OF_VALUES[role]), cells)


def _add_columns(draft: _Draft, options: str) -> None:
    role, values = _scaled(draft)
    prefix = {
        "probabilities": draft.rng.choice(["p_", "prob_", "prob.", "probability_"]),
        "log_probabilities": draft.rng.choice(["logprob_", "logprob."]),
        "logits": "logit_",
    }[role]
    shared = draft.answers.shared
    size = len(draft.answers.names[0])
    names = draft.answers.names[0] if shared else [*LETTERS[:size]]
    for k, name in enumerate(names):
        draft.add(role, f"{prefix}{name}", [row[k] for row in values])
    if shared and options == "none":
        draft.state(options=[*names])


def _add_scores(draft: _Draft, options: str) -> None:
    """A list of labels and scores, the most probable first, as a pipeline gives it."""
    cells = [
        [
            {"label": draft.answers.names[n][k], "score": row[k]}
            for k in sorted(range(len(row)), key=row.__getitem__, reverse=True)
        ]
        for n, row in enumerate(draft.answers.values)
    ]
    draft.add("probabilities", draft.name("scores", "probabilities", "probs"), cells)


def _add_tokens(draft: _Draft, options: str) -> None:
    """The most probable tokens of a chat completion, with some that are no answers."""
    answers = draft.answers
    letters = options != "none"
    cells: list[Any] = []
    for names, row in zip(answers.names, answers.values, strict=True):
        tokens = [*LETTERS[: len(names)]] if letters else names
        mass = draft.rng.uniform(0.7, 0.95)
        listed = [(token, math.log(p * mass)) for token, p in zip(tokens, row, strict=True)]
        listed += [("The", math.log((1 - mass) * 0.6)), ("\n", math.log((1 - mass) * 0.3))]
        listed.sort(key=lambda pair: -pair[1])
        cells.append([{"token": token, "logprob": value} for token, value in listed])
    if draft.rng.random() < 0.3:
        draft.traits.append("nested tokens")
        cells = [{"content": [{"token": cell[0]["token"], "top_logprobs": cell}]} for cell in cells]
        draft.add("log_probabilities", "logprobs", cells)
    else:
        draft.add("log_probabilities", "top_logprobs", cells)
    if not letters:
        draft.options["options"] = [*answers.names[0]]
        draft.state(options=[*answers.names[0]])


def _add_prediction(draft: _Draft, options: str) -> None:
    answers = draft.answers
    texts = [names[k] for names, k in zip(answers.names, answers.chosen, strict=True)]
    draft.add("prediction", draft.name(*PREDICTION), texts)
    draft.has_nll = False


def _add_pair(draft: _Draft, options: str) -> None:
    """How sure the model is, and whether it is right; nothing else is known."""
    answers = draft.answers
    sure = [max(row) for row in answers.values]
    right = [k == chosen for k, chosen in zip(answers.right, answers.chosen, strict=True)]
    truth = draft.rng.choice([("yes", "no"), (1, 0), (True, False)])
    draft.add("confidence", draft.name("confidence", "conf"), sure)
    draft.add("correct", draft.name("correct", "is_correct"), [truth[not hit] for hit in right])
    draft.has_nll = False


def _add_confidence(draft: _Draft, options: str) -> None:
    _add_prediction(draft, options)
    draft.add("confidence", "confidence", [max(row) for row in draft.answers.values])


_FORMS: Final[Mapping[str, Callable[[_Draft, str], None]]] = {
    "list": _add_list,
    "names": _add_names,
    "columns": _add_columns,
    "scores": _add_scores,
    "tokens": _add_tokens,
    "prediction": _add_prediction,
    "pair": _add_pair,
    "confidence": _add_confidence,
}


def _add_checks(draft: _Draft, form: str) -> None:
    """Sometimes the file also says what the model chose, or whether that is right."""
    answers, rng = draft.answers, draft.rng
    if form in ("prediction", "pair", "confidence"):
        return
    if rng.random() < 0.4:
        _add_prediction(draft, "")
        draft.has_nll = True
        draft.traits.append("prediction beside")
    if rng.random() < 0.25:
        hits = [k == chosen for k, chosen in zip(answers.right, answers.chosen, strict=True)]
        draft.add("correct", draft.name("correct", "is_correct"), hits)
        draft.traits.append("correct beside")


def _add_distractors(draft: _Draft) -> None:
    """Columns that look like something else."""
    rng, answers = draft.rng, draft.answers
    count = len(answers.right)
    makers: Mapping[str, Callable[[int], Any]] = {
        "annotator_2": lambda n: rng.choice(answers.names[n]),
        "other_model_confidence": lambda _: rng.random(),
        "difficulty": lambda _: rng.randint(1, 5),
        "tokens_used": lambda _: rng.randint(20, 900),
        "section": lambda _: rng.choice("ABCD"),
        "seed": lambda n: n % 3,
        "notes": lambda _: f"seen by {rng.randint(1, 9)}",
        "batch": lambda _: f"{rng.randint(0, 3)}",
        "rater_agreement": lambda _: rng.random(),
        "idx": lambda n: n,
        "Unnamed: 0": lambda n: n,
        "topic": lambda _: rng.choice(["law", "art", "bio"]),
    }
    for name in rng.sample([*makers], rng.choice([0, 1, 1, 2, 3])):
        draft.columns[name] = [makers[name](n) for n in range(count)]
        draft.traits.append(f"also {name}")


def _hide_labels(draft: _Draft, way: str) -> list[int]:
    """Take the label from some rows; return the rows that keep it."""
    count = len(draft.answers.right)
    if draft.rng.random() >= 0.15 or "reference" not in draft.roles:
        return [*range(count)]
    hidden = set(draft.rng.sample(range(count), count // 6))
    missing = draft.rng.choice([-1, None] if way.startswith("from") else ["-", "", None])
    (name,) = draft.roles["reference"]
    numbers = isinstance(draft.columns[name][0], int)
    if not numbers and missing == -1:
        missing = "-1"
    if isinstance(draft.columns[name][0], bool):
        missing = None
    checks = draft.roles.get("correct", ())
    for column, value in ((name, missing), *((check, None) for check in checks)):
        draft.columns[column] = [
            value if n in hidden else kept for n, kept in enumerate(draft.columns[column])
        ]
    draft.traits.append(f"without label: {missing!r}")
    return [n for n in range(count) if n not in hidden]


def _vary_texts(draft: _Draft, way: str) -> None:
    """Write some labels in another case, or with spaces."""
    if way != "text" or draft.rng.random() >= 0.12 or draft.answers.kind != "words":
        return
    (name,) = draft.roles["reference"]
    vary: list[Callable[[str], str]] = [
        str.upper,
        str.title,
        lambda text: f" {text}",
        lambda text: f"{text} ",
    ]
    draft.columns[name] = [
        draft.rng.choice(vary)(text) if text and n % 4 == 0 else text
        for n, text in enumerate(draft.columns[name])
    ]
    draft.traits.append("variants of labels")


def _rename(draft: _Draft) -> None:
    """Give the columns names that mean nothing, and tell the user's options what they are."""
    new = {name: f"Spalte {n}" for n, name in enumerate(draft.columns)}
    for role in ("options", "probabilities", "log_probabilities", "logits"):
        if len(draft.roles.get(role, ())) > 1:  # names of such columns say which answer it is
            new |= {name: name for name in draft.roles[role]}
    draft.columns = {new[name]: values for name, values in draft.columns.items()}
    draft.roles = {role: [new[name] for name in names] for role, names in draft.roles.items()}
    draft.options["columns"] = _named_columns(draft)
    draft.traits.append("foreign names")


def _named_columns(draft: _Draft) -> dict[str, list[str]]:
    return {role: [*names] for role, names in draft.roles.items()}


def _ordered(draft: _Draft) -> list[str]:
    """The columns in a random order; several of one role keep theirs, because it has a meaning."""
    names = [*draft.columns]
    draft.rng.shuffle(names)
    for several in draft.roles.values():
        places = sorted(names.index(name) for name in several)
        for place, name in zip(places, several, strict=True):
            names[place] = name
    return names


def _dialect(draft: _Draft) -> Dialect:
    rng = draft.rng
    container = rng.choice(CONTAINERS)
    dialect = Dialect(container, rng.choice([*COMPRESSIONS, "", ""]))
    if container in CSV:
        encoding = rng.choice(["utf-8", "utf-8", "utf-8-sig", "cp1252"])
        comma = container == "semicolon.csv" and rng.random() < 0.6
        dialect = replace(dialect, encoding=encoding, decimal_comma=comma)
    return dialect


def _writable(draft: _Draft, dialect: Dialect) -> Dialect:
    """Parquet needs columns of one type; a table of other values is JSON lines."""
    for values in draft.columns.values():
        kinds = {type(value) for value in values if value is not None}
        if dialect.container == "parquet" and (len(kinds) > 1 or kinds == {dict}):
            return replace(dialect, container="jsonl")
    return dialect


def _is_clear(draft: _Draft, options: str, form: str, way: str) -> bool:
    """Whether one statement on answers holds for all columns, if texts are digits or letters."""
    kind = draft.answers.kind
    if form == "pair" or not ("digits" in kind or "letters" in kind):
        return True
    if way == "text":
        by_letter = options != "none" if form == "tokens" else not draft.answers.shared
        return not (form in ("tokens", "columns") and by_letter)
    return form == "list" and "prediction" not in draft.roles


def _truth(draft: _Draft, kept: Sequence[int]) -> tuple[float, float | None]:
    answers = draft.answers
    hits = [answers.right[n] == answers.chosen[n] for n in kept]
    accuracy = sum(hits) / len(kept)
    if not draft.has_nll:
        return accuracy, None
    losses = [
        -math.log(answers.values[n][answers.right[n]] / math.fsum(answers.values[n])) for n in kept
    ]
    return accuracy, math.fsum(losses) / len(kept)


def random_table(seed: int) -> Table:
    """Make the table of a seed."""
    rng = Random(seed)
    draft = _Draft(rng, draw_answers(rng))
    _add_labels(draft)
    options = _add_options(draft)
    form = _values(draft, options)
    way = "none" if form == "pair" else _add_reference(draft, options, form)
    _add_checks(draft, form)
    kept = _hide_labels(draft, way)
    _vary_texts(draft, way)
    _add_distractors(draft)
    if rng.random() < 0.12:
        _rename(draft)
    dialect = _writable(draft, _dialect(draft))
    order = _ordered(draft)
    count = len(draft.answers.right)
    rows = [{name: draft.columns[name][n] for name in order} for n in range(count)]
    draft.state(columns=_named_columns(draft))
    if not _is_clear(draft, options, form, way):
        draft.statement = None
    accuracy, nll = _truth(draft, kept)
    kind = f"{draft.answers.kind}, options {options}, reference {way}, values {form}"
    return Table(
        rows, dialect, draft.options, draft.statement, accuracy, nll, (kind, *draft.traits)
    )
