"""Roles of columns: the names that are tried for each, columns of options, and public sets.

A name is compared without case, spaces and underscores: `answerKey` and `answer_key` are one name.
Public sets whose names alone would be read wrongly, or not at all, are listed in `PUBLIC_SETS`: a
set is a row of names there, not code.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pact_eval._json import Json
from pact_eval.data.labelled.answers import LETTER, POSITIONS, TEXT, Form, Options, cell_text
from pact_eval.data.labelled.draft import LABELS
from pact_eval.data.labelled.entries import Entries, Entry
from pact_eval.data.records import LETTERS
from pact_eval.errors import ShapeError

__all__ = [
    "ALIASES",
    "IGNORED",
    "LISTED_ROLES",
    "PREDICTED",
    "PUBLIC_SETS",
    "ROLES",
    "Group",
    "PublicSet",
    "check_columns",
    "columns_for",
    "columns_option",
    "fold_name",
    "groups_of_options",
    "is_options",
    "parse_columns",
    "public_set",
    "unread_options",
    "unwrapped",
]

ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "state": (
        *("state", "context", "ctx", "passage", "text", "document", "article", "sentence"),
        *("review", "tweet", "comment"),
    ),
    "question": ("question", "instructions", "instruction", "query", "question_stem"),
    "options": ("options", "choices", "candidates", "endings", "answer_choices"),
    "reference": (
        *("reference", "answer", "label", "gold", "target", "answer_key", "correct_answer"),
        *("gold_label", "true_label", "ground_truth", "truth", "y_true", "correct_option"),
        *("answer_index", "answer_idx", "label_idx", "correct_index", "gold_index", "actual"),
        "expected",
    ),
    "type": ("type", "kind"),
    **{label: (label,) for label in LABELS},
}
"""What columns of labelled data can be, and the names that are tried for each."""

PREDICTED: Final[Mapping[str, tuple[str, ...]]] = {
    "prediction": (
        *("prediction", "predicted", "pred", "y_pred", "predicted_label", "pred_label"),
        *("predicted_answer", "predicted_class", "model_answer", "model_prediction"),
    ),
    "probabilities": (
        *("probabilities", "probs", "prob", "proba", "predict_proba", "p", "scores", "classes"),
        "probability",
    ),
    "log_probabilities": (
        *("log_probabilities", "logprobs", "log_probs", "logprob", "log_likelihoods", "lls"),
        *("top_logprobs", "loglikelihoods"),
    ),
    "logits": ("logits",),
    "confidence": ("confidence", "conf", "max_prob", "top_prob"),
    "correct": ("correct", "is_correct", "right", "is_right"),
}
"""What else columns with the answers of a model can be."""

IGNORED: Final = "ignored"
"""Role of columns that are no fact about the answers."""

ALIASES: Final[Mapping[str, str]] = {"answer": "reference", "gold": "reference"}
"""Other names of roles in `--columns`."""

LISTED_ROLES: Final = frozenset(
    {"state", "options", "probabilities", "log_probabilities", "logits", IGNORED}
)
"""Roles that several columns may have together."""

_SUFFIX: Final = re.compile(r"(.*?)[_. -]?(\d{1,2}|[A-Za-z])")
_OPTION_PREFIXES: Final = frozenset(
    {"option", "opt", "choice", "answer", "ans", "ending", "sol", "solution", "op"}
    | {"candidate", "alternative", "alt"}
)
_INPUT_PREFIXES: Final = frozenset(
    {"sentence", "text", "question", "premise", "passage", "sequence", "seq", "input", "sent"}
    | {"context", "paragraph", "turn", "s", "q", "ctx", "doc", "document"}
)
_PAIRS: Final = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("claim", "evidence"),
)
_DISTRACTORS: Final = re.compile(r"(distractor|incorrect|wrong)[_ ]?(answers?|options?)?[_ ]?\d*s?")


@dataclass(frozen=True)
class PublicSet:
    """Names of the columns of a public set.

    Attributes:
        roles: by role, its columns.
        form: how it writes answers, taken if it fits every row; None if that is not fixed.
        others: further columns by which the set is recognised.
    """

    roles: Mapping[str, tuple[str, ...]]
    form: Form | None = None
    others: tuple[str, ...] = ()

    @property
    def columns(self) -> set[str]:
        """All columns that the set has."""
        return {name for names in self.roles.values() for name in names} | {*self.others}


def _set(form: Form | None = None, others: tuple[str, ...] = (), **roles: str) -> PublicSet:
    return PublicSet({role: tuple(names.split("+")) for role, names in roles.items()}, form, others)


PUBLIC_SETS: Final[Mapping[str, PublicSet]] = {
    "HellaSwag": _set(POSITIONS[0], state="ctx", options="endings", reference="label"),
    "PIQA": _set(POSITIONS[0], state="goal", options="sol1+sol2", reference="label"),
    "WinoGrande": _set(
        POSITIONS[1], state="sentence", options="option1+option2", reference="answer"
    ),
    "COPA": _set(
        *(POSITIONS[0],),
        state="premise",
        question="question",
        options="choice1+choice2",
        reference="label",
    ),
    "Social IQa": _set(
        *(POSITIONS[1],),
        state="context",
        question="question",
        options="answerA+answerB+answerC",
        reference="label",
    ),
    "MMLU": _set(
        *(POSITIONS[0], ("subject",)), question="question", options="choices", reference="answer"
    ),
    "MMLU-Pro": _set(
        *(LETTER, ("answer_index",)), question="question", options="options", reference="answer"
    ),
    "MedQA": _set(
        *(LETTER, ("answer",)), question="question", options="options", reference="answer_idx"
    ),
    "MedMCQA": _set(question="question", options="opa+opb+opc+opd", reference="cop"),
    "SWAG": _set(
        POSITIONS[0],
        state="startphrase",
        options="ending0+ending1+ending2+ending3",
        reference="label",
    ),
    "Cosmos QA": _set(
        *(POSITIONS[0],),
        state="context",
        question="question",
        options="answer0+answer1+answer2+answer3",
        reference="label",
    ),
    "Belebele": _set(
        *(POSITIONS[1],),
        state="flores_passage",
        question="question",
        options="mc_answer1+mc_answer2+mc_answer3+mc_answer4",
        reference="correct_answer_num",
    ),
    "DREAM": _set(
        TEXT, state="dialogue", question="question", options="choice", reference="answer"
    ),
    "Story Cloze": _set(
        *(POSITIONS[1],),
        state="InputSentence1+InputSentence2+InputSentence3+InputSentence4",
        options="RandomFifthSentenceQuiz1+RandomFifthSentenceQuiz2",
        reference="AnswerRightEnding",
    ),
    "PubMedQA": _set(state="context", question="question", reference="final_decision"),
    "RACE": _set(
        *(LETTER,),
        state="article",
        question="question",
        options="options",
        reference="answer",
    ),
    "AGIEval": _set(question="query", options="choices", reference="gold"),
    "TruthfulQA MC1": _set(
        POSITIONS[0], question="question", options="mc1_targets", reference="mc1_targets"
    ),
}
"""Public sets by name; the first whose columns are all there is taken."""


@dataclass(frozen=True)
class Group:
    """Columns that are numbered or lettered alike, such as option1, option2.

    Attributes:
        prefix: what their names share, folded.
        columns: their names, in order.
        names: what tells them apart, such as "1" or "A".
    """

    prefix: str
    columns: tuple[str, ...]
    names: tuple[str, ...] = field(default=())

    @property
    def is_options(self) -> bool:
        """Whether its name says that these are options."""
        return self.prefix in _OPTION_PREFIXES

    @property
    def is_input(self) -> bool:
        """Whether its name says that these are parts of the input."""
        return self.prefix in _INPUT_PREFIXES


def fold_name(name: str) -> str:
    """Return what spellings of one name share.

    Examples:
        >>> fold_name("answerKey") == fold_name("Answer_Key")
        True
    """
    return re.sub(r"[^a-z0-9]", "", name.casefold()) or name


def columns_for(role: str, present: Iterable[str]) -> list[str]:
    """Return the columns whose names fit a role, in the order in which the names are tried.

    Examples:
        >>> columns_for("reference", ["id", "Answer Key", "label"])
        ['label', 'Answer Key']
    """
    names = {fold_name(name): None for name in (ROLES.get(role) or PREDICTED[role])}
    ranks = {name: rank for rank, name in enumerate(names)}
    fitting = [name for name in present if fold_name(name) in ranks]
    return sorted(fitting, key=lambda name: ranks[fold_name(name)])


def public_set(present: Sequence[str]) -> PublicSet | None:
    """Return the public set whose columns are all there; pairs of texts are one state."""
    columns = {*present}
    known = next((each for each in PUBLIC_SETS.values() if each.columns <= columns), None)
    if known is None:
        known = next((PublicSet({"state": pair}) for pair in _PAIRS if {*pair} <= columns), None)
    return known or _distractors(present)


def _distractors(present: Sequence[str]) -> PublicSet | None:
    """Return the roles of a set with the right answer in one column, and wrong ones in others."""
    right = [name for name in ("correct_answer", "best_answer") if name in present]
    wrong = [name for name in present if _DISTRACTORS.fullmatch(name.casefold())]
    if not right or not wrong:
        return None
    return PublicSet({"options": (right[0], *wrong), "reference": (right[0],)})


def groups_of_options(present: Sequence[str]) -> list[Group]:
    """Return the columns that are numbered from 0 or 1, or lettered from A, two or more of each.

    Examples:
        >>> [group.columns for group in groups_of_options(["opt_2", "opt_1", "A", "B", "x7"])]
        [('opt_1', 'opt_2'), ('A', 'B')]
    """
    by_prefix: dict[str, dict[str, str]] = {}
    for name in present:
        parts = _SUFFIX.fullmatch(name.strip())
        if parts:
            suffix = parts[2].upper()
            suffix = str(int(suffix)) if suffix.isdigit() else suffix
            by_prefix.setdefault(fold_name(parts[1]) if parts[1] else "", {})[suffix] = name
    groups = []
    for prefix, columns in by_prefix.items():
        numbers = [*map(str, range(26))]
        for order in (LETTERS, numbers, numbers[1:]):
            names = []
            for suffix in order:
                if suffix not in columns:
                    break
                names.append(suffix)
            if len(names) > 1 and not (prefix == "" and names[0].isdigit()):
                groups.append(Group(prefix, tuple(columns[name] for name in names), tuple(names)))
                break
    return groups


def parse_columns(pairs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Read `role=column` pairs, with commas between pairs and `+` between columns of one role.

    Raises:
        ShapeError: a pair has no `=`, an unknown role, or a role twice.

    Examples:
        >>> parse_columns(["state=text,reference=label", "options=A+B"])
        {'state': ('text',), 'reference': ('label',), 'options': ('A', 'B')}
    """
    columns: dict[str, tuple[str, ...]] = {}
    for pair in (part for text in pairs for part in text.split(",")):
        name, equals, names = pair.partition("=")
        role = ALIASES.get(name.strip(), name.strip())
        several = role in LISTED_ROLES
        parts = tuple(part.strip() for part in (names.split("+") if several else [names]))
        roles = (*ROLES, *PREDICTED, IGNORED)
        if not equals or role not in roles or not all(parts):
            message = f"--columns {pair}: expected ROLE=COLUMN, ROLE one of {', '.join(roles)}"
            raise ShapeError(f"{message}; options=A+B+C takes one column per option")
        if role in columns:
            message = f"--columns {pair}: {role} is already {'+'.join(columns[role])}"
            raise ShapeError(message)
        columns[role] = parts
    return columns


def columns_option(role: str, names: Sequence[str]) -> str:
    """Return the option that names the columns of a role, as a shell takes it.

    Examples:
        >>> columns_option("options", ["wrong 1", "wrong 2"])
        "--columns 'options=wrong 1+wrong 2'"
    """
    pair = f"{role}={'+'.join(names)}"
    return f"--columns {shlex.quote(pair)}"


def check_columns(
    present: Sequence[str], columns: Mapping[str, Sequence[str]], source: str
) -> None:
    """Check that the columns that the user names are there, each in one role.

    Raises:
        ShapeError: one is missing, or has two roles.
    """
    names = [name for role in columns for name in dict.fromkeys(columns[role])]
    missing = [name for name in names if name not in present]
    if missing:
        message = (
            f"{source}: --columns names {', '.join(missing)}, which no entry has; there are "
            f"{', '.join(present) or 'no columns'}"
        )
        raise ShapeError(message)
    for facts in (("reference", "prediction"), ("reference", "correct")):
        shared = {*columns.get(facts[0], ())} & {*columns.get(facts[1], ())}
        if shared:
            message = (
                f"{source}: --columns gives {shared.pop()} two roles, {' and '.join(facts)}: the "
                "same column cannot be the right answer and the prediction"
            )
            raise ShapeError(message)


def is_options(entries: Sequence[Entry], column: str, group: Group) -> bool:
    """Tell whether a group is the options: by its name, or since the answers name its columns.

    Args:
        entries: the rows.
        column: that of the right answer.
        group: columns that are numbered or lettered alike.
    """
    if group.is_options:
        return True
    if group.prefix:
        return False
    named = 0
    for entry in entries:
        answer = cell_text(entry.value.get(column))
        cells = [cell_text(entry.value.get(name)) for name in group.columns]
        named += answer is not None and (answer in group.names or answer in cells)
    return 2 * named > len(entries)


def unread_options(
    entries: Sequence[Entry], column: str, unread: Sequence[str], groups: Sequence[Group]
) -> tuple[str, ...]:
    """Return columns that look like options and have no role.

    These are numbered or lettered columns of texts, unless their name says that they are inputs,
    and columns whose texts are the right answer by turns.

    Args:
        entries: the rows.
        column: that of the right answer.
        unread: columns without a role.
        groups: those of them that are numbered or lettered alike.
    """
    for group in groups:
        suspect = group.is_options or not group.prefix or _are_texts(entries, group)
        if suspect and not group.is_input and {*group.columns} <= {*unread}:
            return group.columns
    lists = [
        name
        for name in unread
        if all(_lists_once(entry.value.get(name), entry.value.get(column)) for entry in entries)
    ]
    if lists:
        return (lists[0],)
    holders: dict[str, None] = {}
    rows = 0
    for entry in entries:
        answer = entry.value.get(column)
        holding = [name for name in unread if _same_text(entry.value.get(name), answer)]
        if not holding and answer not in (None, ""):
            return ()
        rows += bool(holding)
        holders |= dict.fromkeys(holding)
    always = [
        name
        for name in holders
        if all(_same_text(entry.value.get(name), entry.value.get(column)) for entry in entries)
    ]
    return tuple(holders) if rows and len(holders) > 1 and not always else ()


def _are_texts(entries: Sequence[Entry], group: Group) -> bool:
    """Return whether most cells of a group are texts that are no numbers."""
    cells = [entry.value.get(name) for entry in entries for name in group.columns]
    texts = [cell for cell in cells if isinstance(cell, str) and not _is_number(cell)]
    return 2 * len(texts) > len(cells)


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[-+]?[\d.,]+(e[-+]?\d+)?%?", text.strip(), re.IGNORECASE))


def _same_text(cell: Json, answer: Json) -> bool:
    return isinstance(cell, str) and bool(cell.strip()) and cell == answer


def _lists_once(cell: Json, answer: Json) -> bool:
    """Return whether a cell is a list of different texts that an answer may name."""
    if not isinstance(cell, list) or len(cell) < 2:
        return False
    texts = tuple(value for value in cell if isinstance(value, str))
    if len({*texts}) < len(cell):
        return False
    options = Options(texts)
    return any(options.index(answer, form) is not None for form in options.forms)


def unwrapped(entries: Entries) -> Entries:
    """Return rows with the columns of their document: "doc" as an object, or "doc.question" etc.

    Logs of lm-evaluation-harness keep a row of a set in this way.
    """
    columns = entries.columns
    nested = all(isinstance(entry.value.get("doc"), dict) for entry in entries.entries)
    prefixed = {name: name[4:] for name in columns if name.startswith("doc.") and len(name) > 4}
    if not (nested and "doc" in columns) and not prefixed:
        return entries
    rows = []
    for entry in entries.entries:
        own = {prefixed.get(name, name): cell for name, cell in entry.value.items()}
        doc = own.get("doc")
        inner = doc if isinstance(doc, dict) else {}
        rows.append(replace(entry, value={**inner, **own}))
    return replace(entries, entries=rows)
