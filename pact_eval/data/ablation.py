"""Evidence-ablated contexts: a record's context with one focus sentence deleted.

The certificate says that without the sentence the focus fact is unknown. The sentence is looked for
by certificate path, then as a complete leaf, then inside a leaf, then in the other member's
wording. If a text has nothing else, the smallest list element around it is deleted, unless the
rest of that element reads like text too: it ends like a sentence, or has six words. Objects with
the same keys under one object are like the elements of a list. Otherwise the key of the text is
deleted. Names of keys do not matter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pact_eval._files import new_files
from pact_eval._json import Json, dumps
from pact_eval.data.certificates import FocusSentence, parse_certificate
from pact_eval.data.diff import words
from pact_eval.data.files import DataFile
from pact_eval.data.index import Located, index_of_records
from pact_eval.data.records import LeafPath, Record, leaf_texts
from pact_eval.errors import Problem, RecordError
from pact_eval.results import Result

FoundBy = Literal["path", "leaf", "substring", "other wording"]
"""How the focus sentence was found."""

# "Speaker:" alone on a line of a text context: what is left of a turn whose sentence was deleted.
_BARE_LABEL = re.compile(r"[^\s:][^:\n]{0,60}:")

# What ends like a sentence, in any script.
_SENTENCE = re.compile(r"[.!?…。！？؟।][\"'”’»)\]]*\Z")
_WORDS_OF_TEXT = 6

_LIST_INDEX = re.compile(r"0|[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class AblatedContext:
    """A context without one of its focus sentences.

    Attributes:
        state: the context that is left.
        removed: the wording that was deleted.
        found_by: how it was found.
    """

    state: Json
    removed: str
    found_by: FoundBy


def ablate(record: Record, sentence: FocusSentence) -> AblatedContext:
    r"""Delete a focus sentence from a record's context, wherever it occurs.

    Args:
        record: base or counterfactual record; its own wording is looked for first.
        sentence: the focus sentence, usually `certificate.changed`.

    Returns:
        The ablation; the sentence occurs nowhere in its state.

    Raises:
        ValueError: the sentence is not in the context in either wording, or it occurs where it
            cannot be deleted (in a key), or its deletion joins words into it anew.

    Examples:
        >>> from pact_eval.data.records import parse_record
        >>> record = parse_record({
        ...     "id": "a-base", "family": "a", "source_family": "s", "split": "train",
        ...     "domain": "travel", "variant": "base",
        ...     "input": {"state": "Clerk: Noted.\nGate: Field 3 reads open.", "questions": {
        ...         "decision": {"type": "noul", "instructions": "Is the gate open?"}}},
        ...     "reference": {"target": True}})
        >>> ablate(record, FocusSentence((), "Field 3 reads open.", "Field 3 reads shut.")).state
        'Clerk: Noted.'
    """
    own, other = sentence.base, sentence.counterfactual
    if record.variant == "counterfactual":
        own, other = other, own
    found_by = find_sentence(record.state, own, sentence.path)
    wording = own
    if found_by is None and find_sentence(record.state, other, sentence.path) is not None:
        found_by, wording = "other wording", other
    if found_by is None:
        raise ValueError(f"the focus sentence is not in the context: {own!r}")
    left = _without(record.state, wording)
    state = "" if isinstance(left, _Empty) else left
    if occurrences(state, wording) or _in_keys(state, wording):
        raise ValueError(f"the sentence still occurs in the context without it: {wording!r}")
    return AblatedContext(state, wording, found_by)


def find_sentence(state: Json, wording: str, path: LeafPath) -> FoundBy | None:
    """Find a sentence in a context: by its path, as a complete leaf, or inside a leaf.

    Args:
        state: the context.
        wording: the sentence.
        path: where it is expected; list indices may be written as strings.

    Returns:
        How it was found, or None. "other wording" is for the caller to say.

    Examples:
        >>> find_sentence(["It rains. It pours."], "It pours.", ("0",))
        'path'
        >>> find_sentence(["It rains. It pours."], "It pours.", ("1",))
        'substring'
    """
    if wording in _text_at(state, path):
        return "path"
    texts = leaf_texts(state)
    if wording in texts:
        return "leaf"
    return "substring" if any(wording in text for text in texts) else None


def occurrences(state: Json, wording: str) -> int:
    """Return how often a sentence occurs in the texts of a context.

    Examples:
        >>> occurrences([{"text": "Shut. Then open. Shut."}, "Shut."], "Shut.")
        3
    """
    return sum([text.count(wording) for text in leaf_texts(state)])


def _text_at(value: Json, path: LeafPath) -> str:
    """Return the text at the end of a path; empty if there is none."""
    for step in map(str, path):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and _LIST_INDEX.fullmatch(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return ""
    return value if isinstance(value, str) else ""


def _in_keys(value: Json, wording: str) -> bool:
    if isinstance(value, list):
        return any(_in_keys(item, wording) for item in value)
    entries = value.items() if isinstance(value, dict) else ()
    return any(wording in key or _in_keys(item, wording) for key, item in entries)


class _Empty:
    """Marks a value of which the deletion left nothing."""


_EMPTY = _Empty()


def _without(value: Json, wording: str) -> Json | _Empty:
    """Return `value` without the wording, and without list elements that have lost their text."""
    if isinstance(value, str):
        return _text_without(value, wording) if wording in value else value
    if isinstance(value, list):
        items = ((item, _without(item, wording)) for item in value)
        kept = [
            new for item, new in items if not isinstance(new, _Empty) and not _is_bare(item, new)
        ]
        return _EMPTY if value and not kept else kept
    if isinstance(value, dict):
        are_elements = _have_the_same_keys([*value.values()])
        entries = ((key, _without(item, wording)) for key, item in value.items())
        left = {
            key: new
            for key, new in entries
            if not isinstance(new, _Empty) and not (are_elements and _is_bare(value[key], new))
        }
        return _EMPTY if value and not left else left
    return value


def _have_the_same_keys(values: list[Json]) -> bool:
    """Return whether values are several objects with the same keys, like those of a list."""
    keys = [[*value] for value in values if isinstance(value, dict)]
    return len(keys) > 1 and len(keys) == len(values) and all(some == keys[0] for some in keys)


def _is_bare(element: Json, left: Json) -> bool:
    """Return whether a list element has lost a text, and nothing that is left reads like one."""
    if isinstance(element, list) and isinstance(left, list):
        has_lost_text = sum(map(_is_text, left)) < sum(map(_is_text, element))
    else:
        has_lost_text = _has_lost_text(element, left)
    return has_lost_text and not any(map(_reads_like_text, leaf_texts(left)))


def _has_lost_text(before: Json, after: Json) -> bool:
    """Return whether the text of a key is gone, in an object or in objects inside it."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    return any(
        _has_lost_text(item, after[key]) if key in after else _is_text(item)
        for key, item in before.items()
    )


def _is_text(value: Json) -> bool:
    """Return whether a value is a text, in pieces or by name, and not a list of elements."""
    return not isinstance(value, list) or all(isinstance(item, str) for item in value)


def _reads_like_text(text: str) -> bool:
    return bool(_SENTENCE.search(text.rstrip())) or len(words(text)) >= _WORDS_OF_TEXT


def _text_without(text: str, wording: str) -> str | _Empty:
    lines = []
    for line in text.split("\n"):
        if wording not in line:
            lines.append(line)
            continue
        rest = re.sub(r"[ \t]{2,}", " ", line.replace(wording, "")).strip()
        if rest and not _BARE_LABEL.fullmatch(rest):
            lines.append(rest)
    left = "\n".join(lines)
    if wording in left:  # a wording that spans lines
        left = left.replace(wording, "").strip()
    return left if left.strip() else _EMPTY


_LEFT_OUT = ("reference", "evidence_certificate")


@dataclass(frozen=True, repr=False)
class AblatedFile(Result):
    """Result of writing ablated records.

    Attributes:
        source: the dataset file that they were made of.
        path: the file.
        records: ablated records in it, one a pair.
        families: families of the dataset file.
        problems: why the others could not be made.
    """

    source: Path = field(repr=False)
    path: Path
    records: int
    families: int
    problems: tuple[Problem, ...]


def write_ablated_records(source: Path, out: Path, *, allow_missing: bool = False) -> AblatedFile:
    """Write the ablated context of every pair of a dataset file.

    Args:
        source: dataset file with certificates.
        out: file to write; it appears only when complete.
        allow_missing: write what can be made although some pairs cannot be ablated.

    Returns:
        What was written.

    Raises:
        InputError: the file cannot be read, or the file to write is there with other content.
        RecordError: a line is not a record, or a pair cannot be ablated and `allow_missing` is not
            set; all such pairs together.
    """
    index = index_of_records([DataFile(str(source), "train", source)])
    problems: list[Problem] = []
    written = families = 0
    with new_files([out]) as (partial,):
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            for members in index.families():
                families += 1
                try:
                    file.write(dumps(ablated_record(members)) + "\n")
                    written += 1
                except ValueError as error:
                    last = members[-1].record
                    problems.append(Problem(last.line, last.id, str(error)))
        if problems and not (allow_missing and written):
            raise RecordError(str(source), problems)
    return AblatedFile(source, out, written, families, tuple(problems))


def ablated_record(members: list[Located]) -> dict[str, Json]:
    """Make the ablated record of one pair.

    Args:
        members: the records of a family.

    Returns:
        The JSON of a record without reference, with `ablation`.

    Raises:
        ValueError: the family is not a pair, its references do not differ, or the changed focus
            sentence cannot be deleted.
    """
    base, other = _pair(members)
    if base.record.certificate is None:
        raise ValueError("expected an evidence certificate, got none")
    ablation = ablate(base.record, parse_certificate(base.record.certificate).changed)
    value = {key: item for key, item in base.value.items() if key not in _LEFT_OUT}
    inputs = base.value["input"]
    state: dict[str, Json] = {"state": ablation.state}
    return value | {
        "id": f"{base.record.id}-ablated",
        "input": (inputs if isinstance(inputs, dict) else {}) | state,
        "ablation": {
            "record": base.record.id,
            "removed": ablation.removed,
            "found_by": ablation.found_by,
            "answers": [base.record.reference, other.record.reference],
        },
    }


def _pair(members: list[Located]) -> tuple[Located, Located]:
    by_variant = {member.record.variant: member for member in members}
    if len(members) != 2 or len(by_variant) != 2:
        raise ValueError(
            f"family {members[0].record.family}: expected one base and one counterfactual record, "
            f"got {len(members)} records"
        )
    base, other = by_variant["base"], by_variant["counterfactual"]
    if base.record.reference == other.record.reference:
        raise ValueError(f"family {base.record.family}: expected references that differ")
    return base, other
