"""Evidence-ablated contexts: a record's context with one focus sentence deleted.

The certificate says that without the sentence the focus fact is unknown. The sentence is looked for
by certificate path, then as a complete leaf, then inside a leaf, then in the other member's
wording. A turn that contains nothing else is deleted with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pact_eval._json import Json
from pact_eval.data.certificates import FocusSentence
from pact_eval.data.contexts import LeafPath, string_leaves
from pact_eval.data.records import Record

__all__ = ["Ablation", "FoundBy", "ablate", "find_sentence", "occurrences"]

FoundBy = Literal["path", "leaf", "substring", "other wording"]
"""How the focus sentence was found."""

# A leaf that says who speaks, not what is said; a turn with nothing but these is empty.
_LABEL_KEYS = frozenset({"speaker", "role", "author", "name", "from", "time", "date", "id", "turn"})

# "Speaker:" alone on a line of a text context: what is left of a turn whose sentence was deleted.
_BARE_LABEL = re.compile(r"[^\s:][^:\n]{0,60}:")


@dataclass(frozen=True, slots=True)
class Ablation:
    """A context without one of its focus sentences.

    Attributes:
        state: the context that is left.
        removed: the wording that was deleted.
        found_by: how it was found.
    """

    state: Json
    removed: str
    found_by: FoundBy


def ablate(record: Record, sentence: FocusSentence) -> Ablation:
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
    return Ablation(state, wording, found_by)


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
    leaves = dict(string_leaves(state))
    # List indices in a certificate's path may be written as strings.
    by_text = {tuple(map(str, leaf_path)): text for leaf_path, text in leaves.items()}
    if wording in by_text.get(tuple(map(str, path)), ""):
        return "path"
    if wording in leaves.values():
        return "leaf"
    return "substring" if any(wording in text for text in leaves.values()) else None


def occurrences(state: Json, wording: str) -> int:
    """Return how often a sentence occurs in the texts of a context.

    Examples:
        >>> occurrences([{"text": "Shut. Then open. Shut."}, "Shut."], "Shut.")
        3
    """
    return sum(text.count(wording) for _, text in string_leaves(state))


def _in_keys(value: Json, wording: str) -> bool:
    if isinstance(value, dict):
        return any(wording in key or _in_keys(item, wording) for key, item in value.items())
    return isinstance(value, list) and any(_in_keys(item, wording) for item in value)


class _Empty:
    """Marks a value of which the deletion left nothing."""


_EMPTY = _Empty()


def _without(value: Json, wording: str) -> Json | _Empty:
    """Return `value` without the wording; `_EMPTY` where nothing but labels is left of it."""
    if isinstance(value, str):
        return _text_without(value, wording) if wording in value else value
    if isinstance(value, list):
        return _rebuild_list(value, lambda item: _without(item, wording))
    if isinstance(value, dict):
        return _rebuild_object(value, lambda item: _without(item, wording))
    return value


def _rebuild_list(
    items: list[Json], change: Callable[[Json], Json | _Empty]
) -> list[Json] | _Empty:
    kept = [new for item in items if not isinstance(new := change(item), _Empty)]
    return _EMPTY if items and not kept else kept


def _rebuild_object(
    items: dict[str, Json], change: Callable[[Json], Json | _Empty]
) -> dict[str, Json] | _Empty:
    changed = {key: change(item) for key, item in items.items()}
    kept = {key: item for key, item in changed.items() if not isinstance(item, _Empty)}
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
