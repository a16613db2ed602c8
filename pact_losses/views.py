"""A view for training: one rendering of a record as token ids, with the data that the loss needs.

A family is the two records of a contrastive pair with all of their views: the canonical (primary)
view of each, permuted views under other letter orders, and an ablated view of the base record
without its decisive sentence. An unpaired record has no counterfactual: it is a family of its own,
with a primary view and perhaps permuted ones. This module does not use records or prompts: the
encoder of a trainer creates views.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Literal, get_args

from pact_losses.errors import ViewError

FieldKind = Literal["choice", "boolean", "score"]
"""The three kinds of typed decision; `score` answers are ordered levels."""

_Variant = Literal["base", "counterfactual", "unpaired"]
"""The two members of a contrastive pair, and a record without a pair."""

ViewRole = Literal["primary", "permuted", "ablated"]
"""The role of a view in its family."""


@dataclass(frozen=True, slots=True)
class TrainingView:
    """One encoded view.

    Attributes:
        record_id: id of the record; an ablated view has the id of the base record.
        family: the contrastive pair; of an unpaired record, a name that no other record has.
        variant: member of the pair, or unpaired; an ablated view is of the base.
        view: 0 is the canonical letter order, 1, 2, ... are permuted ones; an ablated view is 0.
        kind: kind of the field.
        token_ids: the prompt, one id per token.
        code_tokens: the token of each letter, C of them.
        code_order: the canonical index shown at each letter, a permutation of 0..C-1.
        reference: canonical index of the correct answer; None for an ablated view.
        ablated_answers: for an ablated view, the references (base, counterfactual) between which
            its context no longer decides; None for a labelled view.
        weight: weight of the view in every mean, above 0 and finite.

    Raises:
        ViewError: the attributes are inconsistent; the message names the record.

    Examples:
        >>> view = TrainingView(
        ...     record_id="a-base", family="a", variant="base", view=1, kind="boolean",
        ...     token_ids=(5, 6, 7), code_tokens=(8, 9), code_order=(1, 0), reference=1)
        >>> view.role, view.n_choices
        ('permuted', 2)
    """

    record_id: str
    family: Hashable
    variant: _Variant
    view: int
    kind: FieldKind
    token_ids: tuple[int, ...]
    code_tokens: tuple[int, ...]
    code_order: tuple[int, ...]
    reference: int | None
    ablated_answers: tuple[int, int] | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        fault = self._fault()
        if fault is not None:
            raise ViewError(f"record {self.record_id}, view {self.view}: {fault}")

    @property
    def n_choices(self) -> int:
        """Number of allowed answers, C."""
        return len(self.code_order)

    @property
    def role(self) -> ViewRole:
        """Primary, permuted or ablated."""
        if self.ablated_answers is not None:
            return "ablated"
        return "primary" if self.view == 0 else "permuted"

    def _fault(self) -> str | None:
        for name, value, allowed in (
            ("variant", self.variant, get_args(_Variant)),
            ("kind", self.kind, get_args(FieldKind)),
        ):
            if value not in allowed:
                return f"expected a {name} among {', '.join(allowed)}, got {value}"
        if self.view < 0:
            return f"expected a view of 0 or more, got {self.view}"
        n = len(self.code_order)
        if not self.token_ids:
            return "expected at least one token, got none"
        if n < 2 or sorted(self.code_order) != list(range(n)):
            return f"expected a permutation of two or more answers, got {list(self.code_order)}"
        if len(self.code_tokens) != n or len(set(self.code_tokens)) != n:
            return f"expected {n} distinct letter tokens, got {list(self.code_tokens)}"
        if not 0 < self.weight < math.inf:
            return f"expected a finite weight above 0, got {self.weight}"
        if self.ablated_answers is None:
            return self._fault_of_labelled()
        return self._fault_of_ablated(self.ablated_answers)

    def _fault_of_labelled(self) -> str | None:
        if self.reference is None:
            return (
                "expected a reference or, for an ablated view, its two answers (ablated_answers); "
                "got neither"
            )
        if not 0 <= self.reference < self.n_choices:
            return f"expected a reference from 0 to {self.n_choices - 1}, got {self.reference}"
        return None

    def _fault_of_ablated(self, answers: tuple[int, int]) -> str | None:
        if self.reference is not None:
            return f"expected no reference in an ablated view, got {self.reference}"
        if len(set(answers)) != 2 or not all(0 <= answer < self.n_choices for answer in answers):
            return (
                f"expected two different answers of {self.n_choices} as ablated_answers, "
                f"got {list(answers)}"
            )
        return None
