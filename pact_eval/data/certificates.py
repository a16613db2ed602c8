"""The evidence certificate: the two deciding sentences, and the edit of the pair.

A certificate names two *focus* sentences in the base context and gives the wording of both in the
base and in the counterfactual. The one whose wordings differ is the *changed* sentence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from pact_eval._json import Json
from pact_eval.schema import Section, convert

FactState = Literal["supported", "refuted", "unknown", "inconsistent"]
"""What a context says of a fact."""


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


_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Atom(Section, frozen=True):
    id: _Text
    statement: _Text


class _Evidence(Section, frozen=True):
    text: _Text
    path: tuple[str | int, ...] = ()


class _Spec(Section, frozen=True):
    atoms: tuple[_Atom, ...]
    focus_atom: _Text
    focus_evidence: tuple[_Evidence, _Evidence]


class _Pair(Section, frozen=True):
    left: _Text
    negative_left: _Text
    right: _Text
    negative_right: _Text


class _Certificate(Section, frozen=True):
    spec: _Spec
    fact_states: Mapping[str, FactState]
    verified_pair: _Pair


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
    written = convert({**value}, _Certificate)
    spec, pair = written.spec, written.verified_pair
    wordings = [(pair.left, pair.negative_left), (pair.right, pair.negative_right)]
    quoted = [evidence.text for evidence in spec.focus_evidence]
    if quoted[0] in wordings[1] and quoted[0] not in wordings[0]:
        wordings.reverse()
    first, second = (
        FocusSentence(evidence.path, base, counterfactual, evidence.text)
        for evidence, (base, counterfactual) in zip(spec.focus_evidence, wordings, strict=True)
    )
    atoms = {atom.id: atom.statement for atom in spec.atoms}
    if len(atoms) < len(spec.atoms):
        names = ", ".join(atom.id for atom in spec.atoms)
        raise ValueError(f"spec.atoms: expected different ids, got {names}")
    if spec.focus_atom not in atoms:
        raise ValueError(f"spec.focus_atom: expected one of the atoms, got {spec.focus_atom}")
    return Certificate((first, second), atoms, spec.focus_atom, written.fact_states)
