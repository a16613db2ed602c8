"""Families of training views made up for tests."""

from __future__ import annotations

import random
from typing import Any, Literal

from pact_losses import FieldKind, TrainingView

VARIANTS: tuple[Literal["base", "counterfactual"], ...] = ("base", "counterfactual")


def family(
    key: str,
    *,
    tokens: int = 4,
    references: tuple[int, int] = (0, 1),
    n_choices: int = 2,
    kind: FieldKind = "choice",
    permuted: int = 1,
    ablated: bool = True,
) -> list[TrainingView]:
    """Primary views, permuted views, ablated view; prompts of `tokens` tokens at most."""
    rng = random.Random(key)

    def view(variant: Literal["base", "counterfactual"], number: int, **facts: Any) -> TrainingView:
        order = list(range(n_choices))
        if number > 0:
            rng.shuffle(order)
        longest = variant == "base" and number == 0 and facts["reference"] is not None
        length = tokens if longest else max(1, tokens - 1)
        return TrainingView(
            record_id=f"{key}-{variant}",
            family=key,
            variant=variant,
            view=number,
            kind=kind,
            token_ids=tuple(rng.randrange(30, 300) for _ in range(length)),
            code_tokens=tuple(range(3, 3 + n_choices)),
            code_order=tuple(order),
            **facts,
        )

    views = [
        view(variant, number, reference=reference)
        for number in range(1 + permuted)
        for variant, reference in zip(VARIANTS, references, strict=True)
    ]
    if ablated:
        views.append(view("base", 0, reference=None, ablated_answers=references))
    return views


def unpaired(key: str, *, permuted: int = 0, weight: float = 0.3) -> list[TrainingView]:
    """Views of a record without a pair, with two answers of which the second is correct."""
    return [
        TrainingView(
            record_id=key,
            family=key,
            variant="unpaired",
            view=number,
            kind="boolean",
            token_ids=(30 + number, 31, 32),
            code_tokens=(3, 4),
            code_order=(1, 0) if number % 2 else (0, 1),
            reference=1,
            weight=weight,
        )
        for number in range(1 + permuted)
    ]


def families(lengths: list[int]) -> list[TrainingView]:
    """One family for each length of its longest prompt, all views shuffled."""
    views = [
        view
        for number, length in enumerate(lengths)
        for view in family(f"f{number}", tokens=length)
    ]
    random.Random(len(lengths)).shuffle(views)
    return views
