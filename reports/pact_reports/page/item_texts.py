"""The texts of an item: its context in lines with the edited words marked, question and answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pact_eval._json import Json, dumps
from pact_eval.data import Record
from pact_reports.page.edits import Part, marked

__all__ = ["Line", "context_lines", "item_text"]

_SPEAKER: Final = ("speaker", "role", "name", "author", "from")
_SPOKEN: Final = ("text", "content", "message")


@dataclass(frozen=True, slots=True)
class Line:
    """One text inside a context.

    Attributes:
        label: who speaks, or the way that leads to it; "" where the context is one text.
        text: as it stands.
    """

    label: str
    text: str


def context_lines(state: Json) -> list[Line]:
    """Take a context apart into lines for reading.

    A turn (an object of a speaker and a text) is one line under the speaker's name; any other value
    stands under the way that leads to it.

    Example:
        >>> [(line.label, line.text) for line in context_lines(
        ...     [{"speaker": "Clerk", "text": "Noted."}, {"n": 3, "tags": ["a"]}])]
        [('Clerk', 'Noted.'), ('2.n', '3'), ('2.tags.1', 'a')]
    """
    return list(_lines(state, ""))


def _lines(value: Json, way: str) -> Iterator[Line]:
    if isinstance(value, str):
        yield Line(way, value)
    elif isinstance(value, dict):
        turn = _turn(value)
        if turn is not None:
            yield turn
            return
        for key, item in value.items():
            yield from _lines(item, f"{way}.{key}" if way else key)
    elif isinstance(value, list):
        for number, item in enumerate(value, start=1):
            yield from _lines(item, f"{way}.{number}" if way else str(number))
    else:
        yield Line(way, dumps(value))


def _turn(value: Mapping[str, Json]) -> Line | None:
    if len(value) != 2:
        return None
    speaker = next((value[key] for key in _SPEAKER if key in value), None)
    text = next((value[key] for key in _SPOKEN if key in value), None)
    if isinstance(speaker, str) and isinstance(text, str):
        return Line(speaker, text)
    return None


def item_text(record: Record, other: Record | None) -> Json:
    """Return the texts of an item as the browser reads them.

    Args:
        record: of the item.
        other: the other member of its pair, or None.

    Returns:
        `[context, instructions, answers]`: context lines `[label, parts]`, where a part is text
        that both members have, or `[this one's, the other's]`; answers `[key, description]`.
    """
    lines = context_lines(record.state)
    beside = [] if other is None else context_lines(other.state)
    context: list[Json] = []
    if other is None:
        context = [[line.label, [line.text]] for line in lines]
    else:
        context = _paired(lines, beside)
    question = record.field.instructions
    return [
        context,
        question if isinstance(question, str) else dumps(question),
        [[answer.key, answer.description] for answer in record.field.answers],
    ]


def _paired(lines: list[Line], beside: list[Line]) -> list[Json]:
    """Set the lines of two contexts beside each other, in order; what one lacks is a change."""
    shown: list[Json] = []
    for at in range(max(len(lines), len(beside))):
        mine = lines[at] if at < len(lines) else None
        theirs = beside[at] if at < len(beside) else None
        if mine is not None and theirs is not None and mine.label == theirs.label:
            shown.append([mine.label, _json(marked(mine.text, theirs.text))])
            continue
        if mine is not None:
            shown.append([mine.label, [[mine.text, ""]]])
        if theirs is not None:
            shown.append([theirs.label, [["", theirs.text]]])
    return shown


def _json(parts: list[Part]) -> Json:
    return [part if isinstance(part, str) else list(part) for part in parts]
