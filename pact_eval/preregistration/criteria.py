"""Criteria: hypotheses as checks that a machine can decide, and the words they are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pact_eval._files import TomlError, parse_toml, read_text, write_atomically
from pact_eval._toml import UNSTATED, Key, TomlTable, did_you_mean, value_in_words
from pact_eval.errors import InputError, Problem, RecordError
from pact_eval.evaluation.arms.arm_differences import NO_MARGIN, Margin, margin_unit, parse_margin
from pact_eval.evaluation.arms.arm_metrics import MetricCell
from pact_eval.evaluation.registry import DECODING_NAMES, MetricDecoding, find_metric, metric_names

Relation = Literal["higher", "lower", "not higher", "not lower", "similar"]
"""The relation of the first quantity of a check to the second."""

JudgedOn = Literal["matched", "means"]
"""Seed by seed, or on the means over seeds."""

FORMAT: Final = "pact-hypotheses-1"


@dataclass(frozen=True, slots=True)
class Instead:
    """The difference between two cells: the given parts replace those of the other cell.

    Attributes:
        metric, arm, decoding, group: parts of a `MetricCell`; None keeps that of the other.

    Examples:
        >>> ece = MetricCell("ece", "pact_full", MetricDecoding("single"), "all")
        >>> print(Instead(arm="ce_only").of(ece))
        ece of ce_only (single, all)
    """

    metric: str | None = None
    arm: Annotated[str | None, Key("one text")] = None
    decoding: MetricDecoding | None = None
    group: Annotated[str | None, Key("one text")] = None

    def of(self, cell: MetricCell) -> MetricCell:
        """Return the cell with the given parts replaced."""
        return replace(cell, **self._given)

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """The given parts by name."""
        return tuple((name, str(value)) for name, value in self._given.items())

    @property
    def _given(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in ("metric", "arm", "decoding", "group")}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Quantity:
    """A cell, or a cell minus another.

    Examples:
        >>> ensemble = MetricCell("accuracy", "pact_full", MetricDecoding("ensemble"), "all")
        >>> print(Quantity(ensemble, Instead(decoding=MetricDecoding("single")).of(ensemble)))
        accuracy of pact_full (ensemble, all) minus accuracy of pact_full (single, all)
    """

    cell: MetricCell
    minus: MetricCell | None = None

    @property
    def cells(self) -> tuple[MetricCell, ...]:
        """The cell, and the one that is subtracted."""
        return (self.cell,) if self.minus is None else (self.cell, self.minus)

    def __str__(self) -> str:
        return " minus ".join(map(str, self.cells))


@dataclass(frozen=True, slots=True)
class Question:
    """The two quantities of a check, for one of its arms, decodings and groups.

    The second one may be a number that the file names; a rate is a fraction.
    """

    left: Quantity
    right: Quantity | float

    @property
    def cells(self) -> tuple[MetricCell, ...]:
        """The cells of both."""
        return self.left.cells + (self.right.cells if isinstance(self.right, Quantity) else ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A comparison that a machine can decide.

    Attributes:
        says: the check in a few words; its name within the hypothesis.
        metric: metric of the first quantity.
        arms, decodings, groups: the check applies to each of them.
        minus: subtracted from both quantities; None if nothing is subtracted.
        relation: relation of the first quantity to the second.
        than: difference of the second quantity from the first; or a number, such as 0.85.
        margin: for similar: the largest difference; for the others: how far beyond the second
            quantity counts.
        judged_on: "matched" compares seed by seed, "means" the means over seeds.
        seeds: the seeds that it needs; None takes all that its arms share.
        needs: what it takes to test it, for readers of a scorecard that lacks the data.
    """

    says: Annotated[str, Key("the check in a few words")]
    metric: str
    arms: Annotated[tuple[str, ...], Key("the name of an arm", name="arm")]
    decodings: tuple[MetricDecoding, ...]
    groups: Annotated[tuple[str, ...], Key("all, a field kind, or a domain", name="group")] = (
        "all",
    )
    relation: Annotated[Relation, Key(name="is")]
    than: Instead | float
    judged_on: JudgedOn
    minus: Instead | None = None
    margin: Margin = NO_MARGIN
    seeds: Annotated[tuple[int, ...] | None, Key("a list of integers, such as [17, 18, 19]")] = None
    needs: Annotated[str | None, Key("what it takes to test this")] = None

    def questions(self) -> Iterator[Question]:
        """Yield what is asked: one question for each arm, decoding and group."""
        for decoding in self.decodings:
            for arm in self.arms:
                for group in self.groups:
                    left = MetricCell(self.metric, arm, decoding, group)
                    than = self.than
                    right = self._quantity(than.of(left)) if isinstance(than, Instead) else than
                    yield Question(self._quantity(left), right)

    def _quantity(self, cell: MetricCell) -> Quantity:
        return Quantity(cell, None if self.minus is None else self.minus.of(cell))


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A claim, the checks that decide it, and rows that are shown with its verdict.

    Attributes:
        id: short name, such as "H1".
        title: a few words.
        claim: the claim in words.
        checks: all of them must hold for the claim.
        beside: comparisons that readers must see and that decide nothing.
    """

    id: Annotated[str, Key('such as "H1"')]
    title: Annotated[str, Key("a few words")]
    claim: Annotated[str, Key("the claim in words")]
    checks: tuple[Check, ...]
    beside: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Hypotheses:
    """The hypotheses of one file, in its order."""

    hypotheses: tuple[Hypothesis, ...]


_CHECK_KEYS: Final = ("metric", "decoding", "minus", "within", "by_more_than", "than")
"""Keys of a check that are read one by one."""

_DECODING: Final = Key(f"one of {', '.join(DECODING_NAMES)}", name="decoding")

_INSTEAD = 'such as { arm = "ce_only" }'


def read_hypotheses(path: Path) -> Hypotheses:
    """Read a file of hypotheses.

    Args:
        path: a TOML file; `example.toml` next to this module is an example.

    Returns:
        Its hypotheses.

    Raises:
        InputError: it is missing or cannot be read.
        RecordError: it is not TOML, or a key or value is not valid; all problems
            together, each with its hypothesis and key.
    """
    return parse_hypotheses(read_text(path), str(path))


def write_example(path: Path) -> None:
    """Write a commented example of hypotheses to start from.

    Args:
        path: the new file.

    Raises:
        InputError: it exists, or cannot be written.
    """
    if path.exists():
        raise InputError(f"{path}: exists already; give another name")
    text = resources.files("pact_eval.preregistration").joinpath("example.toml")
    write_atomically(path, text.read_text(encoding="utf-8"))


def parse_hypotheses(text: str, source: str) -> Hypotheses:
    """Parse the text of a file of hypotheses.

    Args:
        text: TOML.
        source: the file's name, for messages.

    Raises:
        RecordError: as for `read_hypotheses`.

    Examples:
        >>> parse_hypotheses('format = "pact-hypotheses-1"', "mine.toml")
        Traceback (most recent call last):
            ...
        pact_eval.errors.RecordError: mine.toml: expected at least one hypothesis, [[hypothesis]]
    """
    try:
        values = parse_toml(text)
    except TomlError as error:
        raise RecordError(source, [Problem(error.line, None, str(error))]) from None
    problems: list[Problem] = []
    table = TomlTable(values, problems)
    if values.get("format") != FORMAT:
        table.problem(f'expected format = "{FORMAT}", got {value_in_words(values.get("format"))}')
        raise RecordError(source, problems)
    table.refuse_unknown(("format", "hypothesis"), "the file")
    hypotheses = tuple(_hypothesis(entry) for entry in table.tables("hypothesis", "[[hypothesis]]"))
    for twice in _twice(hypothesis.id for hypothesis in hypotheses):
        table.problem(f"two hypotheses have the id {twice}")
    if problems:
        raise RecordError(source, problems)
    return Hypotheses(hypotheses)


def _twice(texts: Iterable[str]) -> list[str]:
    counts = Counter(texts)
    return [text for text in counts if counts[text] > 1 and text != UNSTATED]


def _hypothesis(table: TomlTable) -> Hypothesis:
    name = table.values.get("id")
    if isinstance(name, str) and name.strip():
        table.owner, table.where = name, ""
    checks = table.tables("check", "[[hypothesis.check]]")
    beside = table.tables("beside", "[[hypothesis.beside]]", compulsory=False)
    hypothesis = table.read(
        Hypothesis,
        "a hypothesis",
        also=("check", "beside"),
        checks=tuple(map(_check, checks)),
        beside=tuple(map(_check, beside)),
    )
    for twice in _twice(check.says for check in (*hypothesis.checks, *hypothesis.beside)):
        table.problem(f'two checks say "{twice}"; each needs a different name')
    return hypothesis


def _check(table: TomlTable) -> Check:
    before = len(table.problems)
    metric = _metric(table)
    check = table.read(
        Check,
        "a check",
        also=_CHECK_KEYS,
        metric=metric or "accuracy",
        decodings=tuple(
            decoding
            for name in table.value(_DECODING, tuple[str, ...])
            if (decoding := _decoding(table, name)) is not None
        ),
        minus=_instead(table, "minus") if "minus" in table.values else None,
        than=_than(table, metric),
        margin=NO_MARGIN,
    )
    if "noul" in check.groups:
        table.problem('group "noul" is written "boolean" here')
    check = replace(check, margin=_margin(table, check.relation, metric))
    contradiction = _contradiction(check) if len(table.problems) == before else None
    if contradiction is not None:
        table.problem(contradiction)
    return check


def _metric(table: TomlTable) -> str | None:
    name = table.values.get("metric")
    if isinstance(name, str) and name in metric_names():
        return name
    hint = did_you_mean(name, metric_names()) if isinstance(name, str) else ""
    table.problem(f"expected metric, the name of a metric, got {value_in_words(name)}{hint}")
    return None


def _decoding(table: TomlTable, name: str) -> MetricDecoding | None:
    """Return the decoding of a name."""
    if name in DECODING_NAMES:
        return MetricDecoding.parse(name)
    got = f"{value_in_words(name)}{did_you_mean(name, DECODING_NAMES)}"
    table.problem(f"expected decoding, one of {', '.join(DECODING_NAMES)}, got {got}")
    return None


def _margin(table: TomlTable, relation: Relation, metric: str | None) -> Margin:
    key, other = ("within", "by_more_than")
    if relation != "similar":
        key, other = other, key
    if other in table.values:
        table.problem(f'{other} does not go with is = "{relation}"; use {key}')
    text = table.values.get(key)
    if metric is None or (text is None and relation != "similar"):
        return NO_MARGIN
    unit = margin_unit(metric)
    example = f'such as "2 {unit}"' if unit else 'such as "0.01"'
    if not isinstance(text, str):
        table.problem(f"expected {key} as text, {example}, got {value_in_words(text)}")
        return NO_MARGIN
    try:
        return parse_margin(text, metric)
    except ValueError as error:
        table.problem(f"{key}: {error}")
        return NO_MARGIN


def _than(table: TomlTable, metric: str | None) -> Instead | float:
    """Return what the second quantity is: the first with other parts, or a number."""
    value = table.values.get("than")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _instead(table, "than")
    low, high = find_metric(metric).bounds if metric is not None else (value, value)
    if "minus" in table.values:
        low = min(low, low - high)
    if not low <= value <= high:
        table.problem(f"expected than, a number from {low:g} to {high:g}, got {value:g}")
    return float(value)


def _instead(table: TomlTable, key: str) -> Instead:
    value = table.values.get(key)
    if not isinstance(value, dict) or not value:
        table.problem(f"expected {key}, {_INSTEAD}, got {value_in_words(value)}")
        return Instead()
    inner = table.inside(value)
    named = inner.value(_DECODING, str, None)
    return inner.read(
        Instead,
        key,
        also=("metric", "decoding"),
        metric=_metric(inner) if "metric" in value else None,
        decoding=_decoding(inner, named) if named else None,
    )


def _contradiction(check: Check) -> str | None:
    """Return the reason why a check that can be read cannot be judged."""
    for question in check.questions():
        for quantity in (question.left, question.right):
            if isinstance(quantity, Quantity) and quantity.cell == quantity.minus:
                return f"minus takes {quantity.cell} from itself"
        if question.left == question.right:
            return f"than compares {question.left} with itself"
        if len({margin_unit(cell.metric) for cell in question.cells}) > 1:
            names = ", ".join(dict.fromkeys(cell.metric for cell in question.cells))
            return f"{names} have different units and cannot be compared"
        for cell in question.cells:
            if (problem := _unfit_decoding(cell)) is not None:
                return problem
    return None


def _unfit_decoding(cell: MetricCell) -> str | None:
    """Return why a metric is not one of a decoding."""
    metric = find_metric(cell.metric)
    if metric.uses_all_views and cell.decoding.views == "single":
        return (
            f"{cell.metric} is of the K views: its decoding is ensemble or "
            f"ensemble_calibrated, got {cell.decoding}"
        )
    return None
