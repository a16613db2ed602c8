"""The registry of shapes, and the detection of the shape of a file.

A shape says which entries fit it, by their keys and the types of their values, and how one is
translated. One that refines another wins over it: a request of `/v1/systemone` is also "questions".
If entries fit two shapes otherwise, nothing decides but the user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pact_eval._json import Json
from pact_eval.data.labelled import questions as named
from pact_eval.data.labelled.draft import Draft, ShapeName
from pact_eval.data.labelled.entries import Entries
from pact_eval.data.labelled.roles import columns_for, public_set
from pact_eval.errors import ShapeError

__all__ = ["COLUMNS", "RECORDS", "SHAPES", "Shape", "shape_of", "shapes_of_entry"]


@dataclass(frozen=True)
class Shape:
    """One shape of entries.

    Attributes:
        name: its name, for `--shape`.
        title: its keys, for messages and docs.
        fits: whether an entry has it.
        draft: translates an entry, given the questions of another file; None for the full format,
            which needs no translation, and for columns, whose reading depends on the file.
        refines: shapes whose entries may have this one too.
    """

    name: ShapeName
    title: str
    fits: Callable[[Mapping[str, Json]], bool]
    draft: Callable[[Mapping[str, Json], Mapping[str, Json]], Draft] | None = None
    refines: tuple[ShapeName, ...] = ()


def _has(entry: Mapping[str, Json], **types: type | tuple[type, ...]) -> bool:
    return all(name in entry and isinstance(entry[name], kind) for name, kind in types.items())


def _is_columns(entry: Mapping[str, Json]) -> bool:
    """Return whether known names have the context or the question, and a plain answer."""
    if public_set([*entry]) is not None:
        return True
    subjects = [entry[name] for role in ("state", "question") for name in columns_for(role, entry)]
    answers = [entry[name] for name in columns_for("reference", entry)]
    return any(isinstance(value, str) for value in subjects) and any(
        isinstance(value, str | int | float | list) for value in answers
    )


_TEXT_OR_OBJECT: Final = (str, dict)

RECORDS: Final = Shape(
    "records", '{"id", "family", "input", "reference", ...}', lambda entry: "input" in entry
)
COLUMNS: Final = Shape("columns", "columns of question, options and answer", _is_columns)

SHAPES: Final[Mapping[ShapeName, Shape]] = {
    shape.name: shape
    for shape in (
        RECORDS,
        Shape(
            "questions",
            '{"state", "questions", "expected"}',
            lambda entry: (
                "state" in entry
                and _has(entry, questions=_TEXT_OR_OBJECT, expected=_TEXT_OR_OBJECT)
            ),
            named.of_questions,
        ),
        Shape(
            "labels",
            '{"state", "labels"}',
            lambda entry: "state" in entry and _has(entry, labels=dict),
            named.of_labels,
        ),
        COLUMNS,
        Shape(
            "systemone",
            'requests of /v1/systemone with "expected"',
            lambda entry: (
                _has(entry, request=dict, expected=dict)
                or ("state" in entry and _has(entry, model=str, questions=dict, expected=dict))
            ),
            named.of_systemone,
            refines=("questions",),
        ),
        Shape(
            "decision-index",
            "rows of the Decision Index suite",
            lambda entry: (
                "state" in entry and _has(entry, questions=dict, expected=dict, _evaluation=dict)
            ),
            named.of_decision_index,
            refines=("questions",),
        ),
        Shape(
            "jevbench",
            "tasks of JevBench",
            lambda entry: "state" in entry and _has(entry, question=dict, labels=list),
            named.of_jevbench,
            refines=("columns",),
        ),
        Shape(
            "typed-decisions",
            "cases of LocalLLaMA/typed-decisions",
            lambda entry: (
                "state" in entry and _has(entry, questions=_TEXT_OR_OBJECT, gold=_TEXT_OR_OBJECT)
            ),
            named.of_typed_decisions,
            refines=("columns",),
        ),
    )
}
"""Every shape, by name."""


def shapes_of_entry(entry: Mapping[str, Json]) -> tuple[ShapeName, ...]:
    """Return the shapes that an entry fits, without those that another of them refines.

    Examples:
        >>> shapes_of_entry({"state": "s", "questions": {}, "expected": {}, "model": "m"})
        ('systemone',)
        >>> shapes_of_entry({"state": "s", "questions": {}, "expected": {}, "labels": {}})
        ('questions', 'labels')
    """
    fitting = [shape for shape in SHAPES.values() if shape.fits(entry)]
    refined = {name for shape in fitting for name in shape.refines}
    return tuple(shape.name for shape in fitting if shape.name not in refined)


def shape_of(
    entries: Entries, source: str, *, name: ShapeName | None = None, named_columns: bool = False
) -> Shape:
    """Return the shape of a file: the one that most of its entries fit.

    Args:
        entries: its entries.
        source: name of the file, for messages.
        name: the shape that the user names; None detects it.
        named_columns: whether the user names columns, which decides for "columns".

    Raises:
        ShapeError: entries fit two shapes, or none.
    """
    if name is None and named_columns:
        name = COLUMNS.name
    if name is not None:
        if name not in SHAPES:
            message = f"--shape {name}: expected one of {', '.join(SHAPES)}"
            raise ShapeError(message)
        return SHAPES[name]
    counts: Counter[ShapeName] = Counter()
    for entry in entries.entries:
        counts.update(shapes_of_entry(entry.value))
    most = max(counts.values(), default=0)
    first = [shape for shape in SHAPES if counts[shape] == most and most]
    both = _fit_together(entries, first)
    if both:
        titles = " and ".join(f'"{shape}" ({SHAPES[shape].title})' for shape in both)
        message = f"{source}: the entries fit two shapes, {titles}; decide with --shape NAME"
        raise ShapeError(message)
    if first:
        return SHAPES[first[0]]
    if entries.container != "JSON lines" or not entries.entries:
        return COLUMNS
    message = (
        f"{source}: no known shape; the entries have {_some(entries.columns)}, and a shape has "
        f"{'; '.join(shape.title for shape in SHAPES.values())}. Name the columns: --columns "
        "state=NAME,answer=NAME"
    )
    raise ShapeError(message)


def _fit_together(entries: Entries, names: Sequence[ShapeName]) -> tuple[ShapeName, ...]:
    """Return the shapes that one entry fits together; none if entries differ in their shapes."""
    if len(names) < 2:
        return ()
    for entry in entries.entries:
        both = tuple(name for name in shapes_of_entry(entry.value) if name in names)
        if len(both) > 1:
            return both
    return ()


def _some(names: Sequence[str], limit: int = 12) -> str:
    shown = ", ".join(names[:limit]) or "no keys"
    return f"{shown}, ..." if len(names) > limit else shown
