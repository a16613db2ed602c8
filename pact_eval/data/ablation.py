"""Evidence-ablated contexts: a record's context with one focus sentence deleted.

The certificate says that without the sentence the focus fact is unknown. The sentence is looked for
by certificate path, then as a complete leaf, then inside a leaf, then in the other member's
wording. A turn that contains nothing else is deleted with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pact_eval._json import Json
from pact_eval.data.certificates import FocusSentence
from pact_eval.data.contexts import LeafPath, leaf_texts
from pact_eval.data.records import Record

__all__ = ["AblatedContext", "FoundBy", "ablate", "find_sentence", "occurrences"]

FoundBy = Literal["path", "leaf", "substring", "other wording"]
"""How the focus sentence was found."""

# A leaf that says who speaks, not what is said; a turn with nothing but these is empty.
_LABEL_KEYS = frozenset({"speaker", "role", "author", "name", "from", "time", "date", "id", "turn"})

# "Speaker:" alone on a line of a text context: what is left of a turn whose sentence was deleted.
_BARE_LABEL = re.compile(r"[^\s:][^:\n]{0,60}:")

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
        message = f"the focus sentence is not in the context: {own!r}"
        raise ValueError(message)
    left = _without(record.state, wording)
    state = "" if isinstance(left, _Empty) else left
    if occurrences(state, wording) or _in_keys(state, wording):
        message = f"the sentence still occurs in the context without it: {wording!r}"
        raise ValueError(message)
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
    items: Iterable[Json] = ()
    if isinstance(value, list | dict):
        items = value.values() if isinstance(value, dict) else value
    for item in items:
        if isinstance(item, list | dict) and _in_keys(item, wording):
            return True
    return isinstance(value, dict) and any(wording in key for key in value)


class _Empty:
    """Marks a value of which the deletion left nothing."""


_EMPTY = _Empty()


def _without(value: Json, wording: str) -> Json | _Empty:
    """Return `value` without the wording; `_EMPTY` where nothing but labels is left of it."""
    if isinstance(value, str):
        return _text_without(value, wording) if wording in value else value
    if isinstance(value, list):
        return _list_without(value, wording)
    if isinstance(value, dict):
        return _object_without(value, wording)
    return value


def _list_without(items: list[Json], wording: str) -> list[Json] | _Empty:
    kept = [new for item in items if not isinstance(new := _without(item, wording), _Empty)]
    return _EMPTY if items and not kept else kept


def _object_without(items: dict[str, Json], wording: str) -> dict[str, Json] | _Empty:
    kept = {
        key: new
        for key, item in items.items()
        if not isinstance(new := _without(item, wording), _Empty)
    }
    if len(kept) < len(items) and all(key.lower() in _LABEL_KEYS for key in kept):
        return _EMPTY
    return kept


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
