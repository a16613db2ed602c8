"""Differences between two records, and how they are shown: the same change once, with its places.

Numbers of one type are equal if they differ by at most 1e-12 of their size, or of 1. So are numbers
in a text that is printed with at least twelve digits. Everything else is compared by equality, and
the order of the keys of an object counts. The hash of an object may be another if its numbers are,
within that tolerance: the last digit of a fit is that of the processor's exp and log.
"""

from __future__ import annotations

import difflib
import itertools
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

TOLERANCE: Final = 1e-12
_NUMBER: Final = re.compile(r"-?\d+\.?\d*(?:[eE][-+]?\d+)?")
_TOKEN: Final = re.compile(r"\s+|[^\s]+")
_DIGITS: Final = 12
_MOST_PLACES: Final = 4
_MOST_GROUPS: Final = 60
_WIDTH: Final = 140


@dataclass(frozen=True)
class Difference:
    """One place where two records differ.

    Attributes:
        case: name of the case.
        command: words of the command.
        surface: "json", a width of the terminal, "files" or "figures".
        place: where on the surface.
        old: what was there.
        new: what is there now.
    """

    case: str
    command: str
    surface: str
    place: str
    old: Any
    new: Any


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING: Final = _Missing()


def differences(case: str, before: Any, after: Any) -> Iterator[Difference]:
    """Return every difference between the old and the new record of a case."""
    rounded = dict(_rounded_hashes(before, after))
    found = _differences(case, before, after)
    return (one for one in found if not _is_hash(one.old) or rounded.get(one.old) != one.new)


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _rounded_hashes(old: Any, new: Any) -> Iterator[tuple[str, str]]:
    """Yield the old and the new hash of objects whose numbers differ within the tolerance."""
    if isinstance(old, list) and isinstance(new, list):
        for one, other in zip(old, new, strict=False):
            yield from _rounded_hashes(one, other)
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return
    for key in old.keys() & new.keys():
        yield from _rounded_hashes(old[key], new[key])
    before, after = str(old.get("sha256")), str(new.get("sha256"))
    if _is_hash(before) and _is_hash(after) and before != after:
        one, other = ({**side, "sha256": ""} for side in (old, new))
        if one != other and not any(_places(one, other, "")):
            yield before, after


def _differences(case: str, before: Any, after: Any) -> Iterator[Difference]:
    for command in dict.fromkeys([*before, *after]):
        old, new = before.get(command, MISSING), after.get(command, MISSING)
        if MISSING in (old, new):
            sides = ["nothing" if side is MISSING else "recorded" for side in (old, new)]
            yield Difference(case, command, "command", "", *sides)
            continue
        for surface in dict.fromkeys([*old, *new]):
            empty: Any = [] if surface == "figures" else {}
            one, other = old.get(surface, empty), new.get(surface, empty)
            if "exit" in one and "exit" in other and one["exit"] != other["exit"]:
                # The texts of another ending have little in common.
                one, other = ({**side, "stdout": []} for side in (one, other))
            for place, before_it, after_it in _places(one, other, ""):
                yield Difference(case, command, surface, place, before_it, after_it)


def _places(old: Any, new: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        orders = [[key for key in side if key in old and key in new] for side in (old, new)]
        if orders[0] != orders[1]:
            yield f"{place}: order of keys", " ".join(orders[0]), " ".join(orders[1])
        for key in dict.fromkeys([*old, *new]):
            yield from _places(old.get(key, MISSING), new.get(key, MISSING), f"{place}/{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if json.dumps(old) != json.dumps(new):
            yield from _of_lists(old, new, place)
    elif not equal(old, new):
        yield place or "/", old, new


def _of_lists(old: list[Any], new: list[Any], place: str) -> Iterator[tuple[str, Any, Any]]:
    if len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _places(one, other, f"{place}/{number}")
        return
    a, b = ([json.dumps(one) for one in side] for side in (old, new))
    matcher = difflib.SequenceMatcher(a=a, b=b, autojunk=False)
    for _, start, end, first, last in matcher.get_opcodes():
        pairs = itertools.zip_longest(old[start:end], new[first:last], fillvalue=MISSING)
        for number, (one, other) in enumerate(pairs, first):
            if one is MISSING or other is MISSING:
                yield f"{place}/{number}", one, other
            else:
                yield from _places(one, other, f"{place}/{number}")


def equal(old: Any, new: Any) -> bool:
    """Return whether two values of a record are equal: numbers within the tolerance.

    Example:
        >>> equal(0.1, 0.1 + 1e-15), equal("p 0.1", "p 0.2"), equal(1, 1.0)
        (True, False, False)
    """
    if isinstance(old, str) and isinstance(new, str):
        return old == new or _equal_texts(old, new)
    if type(old) is type(new) and type(old) in (int, float):
        both_nan = math.isnan(old) and math.isnan(new)
        return both_nan or math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    return type(old) is type(new) and bool(old == new)


def _equal_texts(old: str, new: str) -> bool:
    if _NUMBER.sub("", old) != _NUMBER.sub("", new):
        return False
    pairs = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
    return all(one == other or _equal_printed(one, other) for one, other in pairs)


def _equal_printed(one: str, other: str) -> bool:
    long = "." in one and "." in other and min(_digits(one), _digits(other)) >= _DIGITS
    return long and equal(float(one), float(other))


def _digits(number: str) -> int:
    return len(re.sub(r"[eE].*|\D", "", number).lstrip("0"))


def shown(found: Sequence[Difference], *, everything: bool = False) -> Iterator[str]:
    """Return the lines that show differences, the same change in one group.

    Texts are grouped by the words that changed, numbers by their place without its digits.
    """
    groups: dict[Any, list[Difference]] = defaultdict(list)
    for one in found:
        groups[_group(one)].append(one)
    limit = len(groups) if everything else _MOST_GROUPS
    for members in itertools.islice(groups.values(), limit):
        first = members[0]
        more = f"   ({len(members)} places)" if len(members) > 1 else ""
        yield f"{' -> '.join(_changed_words(first.old, first.new))}{more}"
        yield from _places_of(members, len(members) if everything else _MOST_PLACES)
    if len(groups) > limit:
        yield f"... and {len(groups) - limit} other changes: --all shows them"
    if found:
        cases = {one.case for one in found}
        commands = {(one.case, one.command) for one in found}
        yield f"{len(found)} differences in {len(commands)} commands of {len(cases)} cases"


def _group(one: Difference) -> Any:
    if isinstance(one.old, float) or isinstance(one.new, float):
        return one.surface, re.sub(r"\d+", "#", one.place)
    return _changed_words(one.old, one.new)


def _places_of(members: Sequence[Difference], limit: int) -> Iterator[str]:
    by_command: dict[tuple[str, str], list[Difference]] = defaultdict(list)
    for one in members:
        by_command[one.case, one.command].append(one)
    for (case, command), places in itertools.islice(by_command.items(), limit):
        named = [f"{one.surface}{one.place}" for one in places[:limit]]
        named += [f"{len(places) - limit} more"] if len(places) > limit else []
        yield f"    {case}: {command}: {', '.join(named)}"
    if len(by_command) > limit:
        yield f"    and in {len(by_command) - limit} other commands"


def _changed_words(old: Any, new: Any) -> tuple[str, str]:
    """Return what differs between two values; of texts, the words from the first to the last."""
    if not (isinstance(old, str) and isinstance(new, str)):
        return _short(repr(old)), _short(repr(new))
    one, other = _TOKEN.findall(old), _TOKEN.findall(new)
    start = _common(one, other)
    end = _common(one[start:][::-1], other[start:][::-1])
    sides = ("".join(words[start : len(words) - end]).strip() for words in (one, other))
    first, second = (_short(repr(side)) for side in sides)
    return (first, second) if first != second else (_short(repr(old)), _short(repr(new)))


def _common(one: Iterable[str], other: Iterable[str]) -> int:
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in pairs)


def _short(text: str) -> str:
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 4]} ..."
