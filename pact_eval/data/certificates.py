"""The evidence certificate: the two deciding sentences, and the edit of the pair.

A certificate names two *focus* sentences in the base context and gives the wording of both in the
base and in the counterfactual. The one whose wordings differ is the *changed* sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from pact_eval._json import Json, describe, dumps

FactState = Literal["supported", "refuted", "unknown", "inconsistent"]
"""What a context says of a fact."""

_FACT_STATES: Final[tuple[FactState, ...]] = get_args(FactState)


@dataclass(frozen=True, slots=True)
class FocusSentence:
    """One of the two sentences that together determine the focus fact.

    Attributes:
        path: leads from `input.state` to the string that holds the sentence; empty for a text
            state. List indices may be written as strings.
        base: its wording in the base context.
        counterfactual: its wording in the counterfactual context.
        quoted: the text next to the path in the evidence; usually one of the two, None
            where the sentence does not come from a certificate.
    """

    path: tuple[str | int, ...]
    base: str
    counterfactual: str
    quoted: str | None = None


@dataclass(frozen=True, slots=True)
class Certificate:
    """A parsed evidence certificate.

    Attributes:
        focus: the two focus sentences.
        atoms: statement of every fact, by id.
        focus_atom: id of the fact that they determine; one of `atoms`.
        fact_states: state of every fact in this record.
    """

    focus: tuple[FocusSentence, FocusSentence]
    atoms: Mapping[str, str]
    focus_atom: str
    fact_states: Mapping[str, FactState]

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
        value: the object as written in the file.

    Returns:
        The certificate. Base wordings are matched with the focus evidence by their text, else by
        position (the evidence of a counterfactual record may quote its own wording).

    Raises:
        ValueError: a part is missing or of another type, the focus atom is none of the atoms, or a
            fact is in no state that there is.

    Examples:
        >>> certificate = parse_certificate({
        ...     "spec": {"atoms": [{"id": "open", "statement": "It is open."}],
        ...              "focus_atom": "open", "focus_evidence": [
        ...                  {"path": ["0", "text"], "text": "Box 3 holds the state."},
        ...                  {"path": ["1", "text"], "text": "Box 3 says open."}]},
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
        raise ValueError("spec.focus_evidence: expected a list of two sentences")
    pair = _object(value, "verified_pair")
    wordings = [
        (_text(pair, "left"), _text(pair, "negative_left")),
        (_text(pair, "right"), _text(pair, "negative_right")),
    ]
    quoted = [_text(_as_object(item, "focus evidence"), "text") for item in evidence]
    if quoted[0] in wordings[1] and quoted[0] not in wordings[0]:
        wordings.reverse()
    first, second = (
        FocusSentence(_path(item), base, counterfactual, text)
        for item, text, (base, counterfactual) in zip(evidence, quoted, wordings, strict=True)
    )
    states = _object(value, "fact_states")
    atoms = _atoms(spec)
    focus_atom = _text(spec, "focus_atom")
    if focus_atom not in atoms:
        raise ValueError(f"spec.focus_atom: expected one of the atoms, got {focus_atom}")
    return Certificate(
        focus=(first, second),
        atoms=atoms,
        focus_atom=focus_atom,
        fact_states={name: _fact_state(name, state) for name, state in states.items()},
    )


def _atoms(spec: Mapping[str, Json]) -> dict[str, str]:
    atoms = spec.get("atoms")
    if not isinstance(atoms, list):
        raise ValueError(f"spec.atoms: expected a list, got {describe(atoms)}")
    objects = [_as_object(atom, "an atom") for atom in atoms]
    names = [_text(atom, "id") for atom in objects]
    if len(set(names)) < len(names):
        raise ValueError(f"spec.atoms: expected different ids, got {', '.join(names)}")
    return {_text(atom, "id"): _text(atom, "statement") for atom in objects}


def _fact_state(name: str, value: Json) -> FactState:
    for state in _FACT_STATES:
        if state == value:
            return state
    raise ValueError(f"fact_states.{name}: expected {', '.join(_FACT_STATES)}, got {dumps(value)}")


def _path(item: Json) -> tuple[str | int, ...]:
    path = _as_object(item, "focus evidence").get("path", [])
    if not isinstance(path, list):
        raise ValueError(f"focus evidence: expected path to be a list, got {describe(path)}")
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
        raise ValueError(f"{what}: expected an object, got {describe(value)}")
    return value


def _text(value: Mapping[str, Json], key: str) -> str:
    text = value.get(key)
    if not isinstance(text, str) or not text:
        message = f"{key}: expected text, got {'empty text' if text == '' else describe(text)}"
        raise ValueError(message)
    return text
