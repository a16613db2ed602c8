"""Training views of records, encoded as for scoring.

The views of a family are the canonical and permuted views of both members, and one ablated view:
the base context without its changed focus sentence. Unpaired records have a canonical view, with a
lower weight. Training and scoring use the same `Encoder`, so their prompts are identical.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pact_eval.data.ablation import ablate
from pact_eval.data.certificates import parse_certificate
from pact_eval.data.records import Record
from pact_eval.errors import Problem, RecordError
from pact_eval.prompts.encoding import EncodedView, Encoder
from pact_losses import TrainingView


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """The views of a family, and of an unpaired record.

    Attributes:
        permuted: number of permuted views of each member, 0 or more.
        ablated: whether the base also has an ablated view.
        seed: seed of the letter orders.
        unpaired_weight: weight of the views of unpaired records in every mean, 0 or more; 0 leaves
            these records out.
        unpaired_permuted: number of permuted views of an unpaired record, for permutation
            consistency, 0 or more.
    """

    permuted: int = 1
    ablated: bool = True
    seed: int = 0
    unpaired_weight: float = 0.3
    unpaired_permuted: int = 0

    def __post_init__(self) -> None:
        if self.permuted < 0 or self.unpaired_permuted < 0:
            raise ValueError(
                "expected 0 or more permuted views, got "
                f"{self.permuted} and {self.unpaired_permuted} of unpaired records"
            )
        if not 0 <= self.unpaired_weight < math.inf:
            message = f"expected a finite unpaired_weight of 0 or more, got {self.unpaired_weight}"
            raise ValueError(message)


DEFAULT_PLAN: Final = ViewPlan()
"""The published plan: 2 primary, 2 permuted and 1 ablated view per family."""


def training_views(
    records: Sequence[Record],
    encoder: Encoder,
    plan: ViewPlan = DEFAULT_PLAN,
    *,
    unpaired: Sequence[Record] = (),
    source: str = "training records",
) -> list[TrainingView]:
    """Encode all views of a training run.

    Args:
        records: labelled records, both members of every family.
        encoder: tokenizer and prompt contract.
        plan: the views of a family.
        unpaired: labelled records without a pair, such as a mix of public data; each is a family of
            its own.
        source: name of the records in messages, usually their file.

    Returns:
        The views, family by family: base, counterfactual, their permuted views, the ablated view;
        then those of the unpaired records. A record with too few orders (C = 2 and `permuted` above
        1) repeats one, as in scoring.

    Raises:
        RecordError: a family is not a pair, its references do not differ, its ablated context
            cannot be made, or an unpaired record has no reference; one error lists all of them.
        PromptError: a prompt is over the limit.

    Examples:
        >>> from pathlib import Path
        >>> from transformers import AutoTokenizer
        >>> from pact_eval.data.records import read_records
        >>> from pact_eval.prompts.nimble import NIMBLE
        >>> encoder = Encoder(AutoTokenizer.from_pretrained("model"), NIMBLE)
        >>> views = training_views(read_records(Path("data/train.jsonl"))[:2], encoder, ViewPlan())
        >>> [view.role for view in views]
        ['primary', 'primary', 'permuted', 'permuted', 'ablated']
    """
    pairs, problems = _pairs(records)
    contexts: dict[str, Record] = {}
    if plan.ablated:
        for base, _ in pairs:
            try:
                contexts[base.id] = _without_evidence(base)
            except ValueError as error:
                problems.append(Problem(base.line, base.id, str(error)))
    problems += [
        Problem(record.line, record.id, "expected a reference in an unpaired record, got none")
        for record in unpaired
        if record.reference is None
    ]
    if problems:
        raise RecordError(source, problems)
    members = [member for pair in pairs for member in pair]
    k = 1 + plan.permuted
    encoded = encoder.encode(members, k, plan.seed)
    ablated = encoder.encode([contexts[base.id] for base, _ in pairs if plan.ablated], 1, plan.seed)
    views: list[TrainingView] = []
    for number, pair in enumerate(pairs):
        by_member = (encoded[k * row : k * (row + 1)] for row in (2 * number, 2 * number + 1))
        for shown in zip(*by_member, strict=True):  # primary views first, then permuted ones
            views += (_label(*member_and_view) for member_and_view in zip(pair, shown, strict=True))
        if plan.ablated:
            views.append(_ablated_view(pair, ablated[number]))
    return views + _unpaired_views(unpaired, encoder, plan)


def _pairs(records: Sequence[Record]) -> tuple[list[tuple[Record, Record]], list[Problem]]:
    families: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        families[record.family].append(record)
    pairs: list[tuple[Record, Record]] = []
    problems: list[Problem] = []
    for members in families.values():
        fault = next(_faults(members), None)
        if fault is None:
            base, other = sorted(members, key=lambda member: member.variant)
            pairs.append((base, other))
        else:
            problems.append(Problem(members[0].line, members[0].id, fault))
    return pairs, problems


def _faults(members: Sequence[Record]) -> Iterator[str]:
    family = f"family {members[0].family}"
    variants = sorted(member.variant for member in members)
    if variants != ["base", "counterfactual"]:
        actual = ", ".join(variants)
        hint = "; give records without a pair as `unpaired`" if len(members) == 1 else ""
        yield f"{family}: expected one base and one counterfactual record, got {actual}{hint}"
        return
    first, second = members
    if first.reference is None or second.reference is None:
        yield f"{family}: expected a reference in both members, one has none"
    elif first.field.answers != second.field.answers or first.field.kind != second.field.kind:
        yield f"{family}: expected the same answers in both members"
    elif first.reference == second.reference:
        yield f"{family}: expected different references, both are {first.reference}"


def _without_evidence(base: Record) -> Record:
    """Return the base record in its ablated context."""
    if base.certificate is None:
        raise ValueError("expected an evidence certificate (for the ablated view), got none")
    return replace(base, state=ablate(base, parse_certificate(base.certificate).changed).state)


def _unpaired_views(
    records: Sequence[Record], encoder: Encoder, plan: ViewPlan
) -> list[TrainingView]:
    if plan.unpaired_weight == 0:
        return []
    k = 1 + plan.unpaired_permuted
    encoded = encoder.encode(records, k, plan.seed)
    return [
        replace(
            _label(replace(record, variant="base"), view),
            family=f"unpaired: {record.id}",
            variant="unpaired",
            weight=plan.unpaired_weight,
        )
        for row, record in enumerate(records)
        for view in encoded[k * row : k * (row + 1)]
    ]


def _label(record: Record, view: EncodedView) -> TrainingView:
    return _view(record, view, reference=record.reference)


def _ablated_view(pair: tuple[Record, Record], view: EncodedView) -> TrainingView:
    y_a, y_b = (member.reference for member in pair)
    if y_a is None or y_b is None:  # ruled out by `_faults`
        raise ValueError(f"record {pair[0].id}: expected references")
    return replace(_view(pair[0], view, reference=y_a), reference=None, ablated_answers=(y_a, y_b))


def _view(record: Record, view: EncodedView, *, reference: int | None) -> TrainingView:
    if record.variant not in ("base", "counterfactual"):
        raise ValueError(
            f"record {record.id}: expected a base or counterfactual record, got {record.variant}"
        )
    return TrainingView(
        record_id=record.id,
        family=record.family,
        variant=record.variant,
        view=view.view,
        kind=record.field.kind,
        token_ids=view.token_ids,
        code_tokens=view.code_tokens,
        code_order=view.code_order,
        reference=reference,
    )
