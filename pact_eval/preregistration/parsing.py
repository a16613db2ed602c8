"""Reading `hypotheses.toml`: strictly, and with all of its problems together."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final, TypeVar

from pact_eval.errors import InputError, Problem, RecordError
from pact_eval.preregistration.criteria import FORMAT, Check, Hypotheses, Hypothesis, Instead
from pact_eval.preregistration.toml_lines import toml_lines
from pact_eval.preregistration.toml_reading import TomlTable, did_you_mean, in_words
from pact_eval.preregistration.vocabulary import (
    DECODINGS,
    JUDGED_ON,
    METRIC_SPECS,
    NO_MARGIN,
    RELATIONS,
    VIEW_METRICS,
    Margin,
    Relation,
    margin_unit,
    parse_margin,
)

__all__ = ["pact_hypotheses", "parse_hypotheses", "read_hypotheses"]

Value = TypeVar("Value", bound=str)

_FILE_KEYS: Final = ("format", "hypothesis")
_HYPOTHESIS_KEYS: Final = ("id", "title", "claim", "check", "beside")
_CELL_KEYS: Final = ("metric", "arm", "decoding", "group")
_CHECK_KEYS: Final = (
    "says",
    *_CELL_KEYS,
    "minus",
    "is",
    "within",
    "by_more_than",
    "than",
    "judged_on",
    "seeds",
    "needs",
)
_SHIPPED: Final = "pact.toml"
_TOML_LINE = re.compile(r"\(at line (\d+), column (\d+)\)")
_INSTEAD = 'such as { arm = "ce_only" }'


def read_hypotheses(path: Path) -> Hypotheses:
    """Read a file of hypotheses.

    Args:
        path: a TOML file; `pact.toml` beside this module is an example.

    Returns:
        Its hypotheses.

    Raises:
        InputError: it is missing or cannot be read.
        RecordError: it is no TOML, or says something that is not understood; all problems with
            their lines.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        message = f"{path}: no such file"
        raise InputError(message) from None
    except OSError as error:
        message = f"{path}: cannot be read ({error.strerror})"
        raise InputError(message) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise RecordError(str(path), [Problem(line, None, "not valid UTF-8")]) from None
    return parse_hypotheses(text, str(path))


def pact_hypotheses() -> Hypotheses:
    """Return the five hypotheses of the PACT paper, which ship with the package.

    Example:
        >>> [hypothesis.id for hypothesis in pact_hypotheses().hypotheses]
        ['H1', 'H2', 'H3', 'H4', 'H5']
    """
    text = (
        resources.files("pact_eval.preregistration").joinpath(_SHIPPED).read_text(encoding="utf-8")
    )
    return parse_hypotheses(text, _SHIPPED)


def parse_hypotheses(text: str, source: str) -> Hypotheses:
    """Parse the text of a file of hypotheses.

    Args:
        text: TOML.
        source: the file's name, for messages.

    Raises:
        RecordError: as for `read_hypotheses`.

    Example:
        >>> parse_hypotheses('format = "pact-hypotheses-1"', "mine.toml")
        Traceback (most recent call last):
            ...
        pact_eval.errors.RecordError: mine.toml: expected at least one hypothesis, [[hypothesis]]
    """
    try:
        values = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise RecordError(source, [_syntax_problem(str(error), text)]) from None
    except RecursionError:
        raise RecordError(source, [Problem(None, None, "nested too deeply")]) from None
    problems: list[Problem] = []
    table = TomlTable(values, (), toml_lines(text), problems)
    if values.get("format") != FORMAT:
        table.problem(
            f'expected format = "{FORMAT}", got {in_words(values.get("format"))}', "format"
        )
        raise RecordError(source, problems)
    table.refuse_unknown(_FILE_KEYS, "the file")
    found = tuple(_hypothesis(each) for each in table.tables("hypothesis", "[[hypothesis]]"))
    ids = [hypothesis.id for hypothesis in found if hypothesis.id]
    for twice in dict.fromkeys(each for each in ids if ids.count(each) > 1):
        table.problem(f"two hypotheses have the id {twice}")
    if problems:
        raise RecordError(source, sorted(problems, key=lambda problem: problem.line or 0))
    return Hypotheses(found)


def _syntax_problem(message: str, text: str) -> Problem:
    place = _TOML_LINE.search(message)
    if place is None:
        line = text.count("\n", 0, len(text.rstrip())) + 1 if "end of document" in message else None
        return Problem(line, None, f"not valid TOML ({message})")
    what = message.replace(place[0], f"at column {place[2]}")
    return Problem(int(place[1]), None, f"not valid TOML ({what})")


def _hypothesis(table: TomlTable) -> Hypothesis:
    name = table.values.get("id")
    table.owner = name if isinstance(name, str) and name.strip() else None
    table.refuse_unknown(_HYPOTHESIS_KEYS, "a hypothesis")
    checks = table.tables("check", "[[hypothesis.check]]")
    beside = table.tables("beside", "[[hypothesis.beside]]", compulsory=False)
    hypothesis = Hypothesis(
        id=table.text("id", 'such as "H1"'),
        title=table.text("title", "a few words"),
        claim=table.text("claim", "the claim in words"),
        checks=tuple(_check(each) for each in checks),
        beside=tuple(_check(each) for each in beside),
    )
    says = [check.says for check in (*hypothesis.checks, *hypothesis.beside) if check.says]
    for twice in dict.fromkeys(each for each in says if says.count(each) > 1):
        table.problem(f'two checks say "{twice}"; each needs words of its own')
    return hypothesis


def _check(table: TomlTable) -> Check:
    before = table.problems_so_far
    table.refuse_unknown(_CHECK_KEYS, "a check")
    metric = _metric(table)
    relation = table.chosen("is", RELATIONS)
    minus = _instead(table, "minus") if "minus" in table.values else None
    check = Check(
        says=table.text("says", "the check in a few words"),
        metric=metric or "accuracy",
        arms=table.several("arm", "the name of an arm"),
        decodings=table.several_of("decoding", DECODINGS),
        groups=_groups(table),
        minus=minus,
        relation=relation,
        than=_instead(table, "than"),
        margin=_margin(table, relation, metric),
        judged_on=table.chosen("judged_on", JUDGED_ON),
        seeds=table.whole_numbers("seeds", "a list of whole numbers, such as [17, 18, 19]"),
        needs=table.text("needs", "what it takes to test this", default="") or None,
    )
    senseless = _senseless(check) if table.problems_so_far == before else None
    if senseless is not None:
        key, message = senseless
        table.problem(message, key)
    return check


def _metric(table: TomlTable) -> str | None:
    name = table.values.get("metric")
    if isinstance(name, str) and name in METRIC_SPECS:
        return name
    hint = did_you_mean(str(name), METRIC_SPECS) if isinstance(name, str) else ""
    table.problem(f"expected metric, the name of a metric, got {in_words(name)}{hint}", "metric")
    return None


def _groups(table: TomlTable) -> tuple[str, ...]:
    groups = table.several("group", "all, a field kind, or a domain", default="all")
    if "noul" in groups:
        table.problem('group "noul" is written "boolean" here', "group")
    return groups


def _margin(table: TomlTable, relation: Relation, metric: str | None) -> Margin:
    wanted, other = ("within", "by_more_than")
    if relation != "similar":
        wanted, other = other, wanted
    if other in table.values:
        table.problem(f'{other} does not go with is = "{relation}"; use {wanted}', other)
    found = table.values.get(wanted)
    if metric is None or (found is None and relation != "similar"):
        return NO_MARGIN
    unit = margin_unit(metric)
    example = f'such as "2 {unit}"' if unit else 'such as "0.01"'
    if not isinstance(found, str):
        table.problem(f"expected {wanted} as text, {example}, got {in_words(found)}", wanted)
        return NO_MARGIN
    try:
        return parse_margin(found, metric)
    except ValueError as error:
        table.problem(f"{wanted}: {error}", wanted)
        return NO_MARGIN


def _instead(table: TomlTable, key: str) -> Instead:
    found = table.values.get(key)
    if not isinstance(found, dict) or not found:
        table.problem(f"expected {key}, {_INSTEAD}, got {in_words(found)}", key)
        return Instead()
    inner = table.inside(key, found)
    inner.refuse_unknown(_CELL_KEYS, key)
    parts = _Parts(inner, found)
    return Instead(
        metric=parts.one_of("metric", tuple(METRIC_SPECS)),
        arm=parts.text("arm"),
        decoding=parts.one_of("decoding", DECODINGS),
        group=parts.text("group"),
    )


@dataclass(frozen=True)
class _Parts:
    """The parts of an inline table, each of them optional."""

    table: TomlTable
    found: dict[str, object]

    def text(self, key: str) -> str | None:
        return self.table.text(key, "one text") if key in self.found else None

    def one_of(self, key: str, allowed: Sequence[Value]) -> Value | None:
        return self.table.chosen(key, allowed) if key in self.found else None


def _senseless(check: Check) -> tuple[str, str] | None:
    """Return the key and the reason why what can be read cannot be judged."""
    for question in check.questions():
        for quantity in (question.left, question.right):
            if quantity.minus == quantity.cell:
                return "minus", f"minus takes {quantity.cell} from itself"
        if question.left == question.right:
            return "than", f"than compares {question.left} with itself"
        if len({margin_unit(cell.metric) for cell in question.cells}) > 1:
            names = ", ".join(dict.fromkeys(cell.metric for cell in question.cells))
            return "than", f"{names} have different units and cannot be compared"
        for cell in question.cells:
            if cell.metric in VIEW_METRICS and cell.decoding.startswith("single"):
                message = (
                    f"{cell.metric} is of the K views: its decoding is ensemble or "
                    f"ensemble_calibrated, got {cell.decoding}"
                )
                return "decoding", message
    return None
