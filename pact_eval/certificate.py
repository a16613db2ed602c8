"""The evidence certificate: which two sentences decide, and how the pair was edited.

A certificate names two *focus* sentences in the base context and gives the wording of both in the
base and in the counterfactual. The one whose wordings differ is the *changed* sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pact_eval.strict_json import Json, describe

__all__ = ["Certificate", "FocusSentence", "parse_certificate"]


@dataclass(frozen=True, slots=True)
class FocusSentence:
    """One of the two sentences that together determine the focus fact.

    Attributes:
        path: leads from `input.state` to the string that holds the sentence; empty for a text
            state. List indices may be written as strings.
        base: its wording in the base context.
        counterfactual: its wording in the counterfactual context.
    """

    path: tuple[str | int, ...]
    base: str
    counterfactual: str


@dataclass(frozen=True, slots=True)
class Certificate:
    """A parsed evidence certificate.

    Attributes:
        focus: the two focus sentences.
        focus_atom: id of the fact that they determine.
        fact_states: state of every fact in this record: supported, refuted, unknown, inconsistent.
    """

    focus: tuple[FocusSentence, FocusSentence]
    focus_atom: str
    fact_states: Mapping[str, str]

    @property
    def changed(self) -> FocusSentence:
        """The focus sentence that the counterfactual words differently.

        Raises:
            ValueError: none of the two is changed, or both are.
        """
        changed = [sentence for sentence in self.focus if sentence.base != sentence.counterfactual]
        if len(changed) != 1:
            message = f"expected one of the two focus sentences to change, got {len(changed)}"
            raise ValueError(message)
        return changed[0]


def parse_certificate(value: Mapping[str, Json]) -> Certificate:
    """Read the `evidence_certificate` of a record.

    Args:
        value: the object as it stands in the file.

    Returns:
        The certificate. Base wordings are matched with the focus evidence by their text, else by
        position (the evidence of a counterfactual record may quote its own wording).

    Raises:
        ValueError: a part is missing or of another type.

    Example:
        >>> certificate = parse_certificate({
        ...     "spec": {"atoms": [], "focus_atom": "open", "focus_evidence": [
        ...         {"path": ["0", "text"], "text": "Box 3 holds the state."},
        ...         {"path": ["1", "text"], "text": "Box 3 says open."}]},
        ...     "fact_states": {"open": "supported"},
        ...     "verified_pair": {
        ...         "left": "Box 3 holds the state.", "right": "Box 3 says open.",
        ...         "negative_left": "Box 3 holds the state.",
        ...         "negative_right": "Box 3 says shut."}})
        >>> certificate.changed.counterfactual
        'Box 3 says shut.'
    """
    spec = _object(value, "spec")
    evidence = spec.get("focus_evidence")
    if not isinstance(evidence, list) or len(evidence) != 2:
        message = "spec.focus_evidence: expected a list of two sentences"
        raise ValueError(message)
    pair = _object(value, "verified_pair")
    wordings = [
        (_text(pair, "left"), _text(pair, "negative_left")),
        (_text(pair, "right"), _text(pair, "negative_right")),
    ]
    quoted = [_text(_as_object(item, "focus evidence"), "text") for item in evidence]
    if quoted[0] in wordings[1] and quoted[0] not in wordings[0]:
        wordings.reverse()
    first, second = (
        FocusSentence(_path(item), base, counterfactual)
        for item, (base, counterfactual) in zip(evidence, wordings, strict=True)
    )
    states = _object(value, "fact_states")
    return Certificate(
        focus=(first, second),
        focus_atom=_text(spec, "focus_atom"),
        fact_states={name: _text(states, name) for name in states},
    )


def _path(item: Json) -> tuple[str | int, ...]:
    path = _as_object(item, "focus evidence").get("path", [])
    if not isinstance(path, list):
        message = f"focus evidence: expected path to be a list, got {describe(path)}"
        raise ValueError(message)
    steps: list[str | int] = []
    for step in path:
        if isinstance(step, bool) or not isinstance(step, str | int):
            message = f"focus evidence: expected steps of text or numbers, got {describe(step)}"
            raise ValueError(message)
        steps.append(step)
    return tuple(steps)


def _object(value: Mapping[str, Json], key: str) -> dict[str, Json]:
    return _as_object(value.get(key), key)


def _as_object(value: Json, what: str) -> dict[str, Json]:
    if not isinstance(value, dict):
        message = f"{what}: expected an object, got {describe(value)}"
        raise ValueError(message)
    return value


def _text(value: Mapping[str, Json], key: str) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        message = f"{key}: expected text, got {describe(found)}"
        raise ValueError(message)
    return found
