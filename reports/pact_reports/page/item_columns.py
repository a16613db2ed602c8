"""Sorting and filtering columns of the item browser: one small number per item and column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from pact_eval._typing import IntArray
from pact_eval.evaluation.item_outcomes import ItemOutcomes
from pact_eval.evaluation.items import pair_partners
from pact_eval.runs.predictions import Predictions
from pact_reports.page.packing import NOT_KNOWN, to_steps

KINDS: Final = ("choice", "boolean", "score")
"""Kinds in the order of their codes; any other kind has the next code."""

FLAGS: Final = {
    "right": 1,
    "flip": 2,
    "confident_error": 4,
    "pair": 8,
    "pair_right": 16,
    "pair_wrong": 32,
    "pair_same": 64,
}
"""Bits of an item's outcome. `pair`: it is a member of a complete pair; `pair_right`: both members
are right; `pair_wrong`: both are wrong; `pair_same`: both get the same answer."""


_VARIANTS: Final = ("", "base", "counterfactual")


@dataclass(frozen=True)
class Column:
    """Integers, one per item.

    Attributes:
        name: name of the column in the script.
        dtype: u1, u2, u4 or i4.
        values: (n,) the integers.
    """

    name: str
    dtype: str
    values: npt.NDArray[np.generic]


def item_columns(views: Predictions, domains: list[str]) -> list[Column]:
    """Return the columns that are the same for every run on these items.

    Args:
        views: the views of one of the runs.
        domains: all domains; the code of a domain is its index.
    """
    rows = np.arange(len(views))
    other = pair_partners(views)
    rank = np.empty(len(views), dtype=np.int64)
    rank[np.argsort(views.ids, kind="stable")] = rows
    kind_codes = {kind: code for code, kind in enumerate(KINDS)}
    domain_codes = {domain: code for code, domain in enumerate(domains)}
    return [
        Column("kind", "u1", np.array([kind_codes.get(kind, 3) for kind in views.kind.tolist()])),
        Column(
            "domain", "u2", np.array([domain_codes[domain] for domain in views.domain.tolist()])
        ),
        Column(
            "variant", "u1", np.array([_variant(variant) for variant in views.variant.tolist()])
        ),
        Column("choices", "u1", views.n_choices),
        Column("reference", "u1", views.reference),
        # Distances between rows are mostly equal, so they compress well.
        Column("partner", "i4", np.where(other < 0, 0, other - rows)),
        Column("rank", "i4", rank - rows),
    ]


def run_columns(outcomes: ItemOutcomes) -> list[Column]:
    """Return the columns of one run: answers, outcomes and probabilities."""
    tokens = np.nan_to_num(outcomes.prompt_tokens)
    columns = [
        Column("answer", "u1", outcomes.predicted),
        Column("flags", "u1", outcome_flags(outcomes)),
        Column("confidence", "u2", to_steps(outcomes.raw.confidence)),
        Column("bin", "u1", outcomes.raw.bin),
        Column("of_reference", "u2", to_steps(outcomes.of_reference)),
        Column("view_tv", "u2", to_steps(outcomes.view_tv)),
        Column("tokens", "u2" if tokens.max(initial=0) < NOT_KNOWN else "u4", tokens),
        Column("answer_mass", "u2", to_steps(outcomes.answer_mass)),
    ]
    if outcomes.right_repeats is not None:
        columns.append(Column("right_repeats", "u2", outcomes.right_repeats))
    if outcomes.calibrated is not None:
        columns.append(Column("calibrated", "u2", to_steps(outcomes.calibrated.confidence)))
        columns.append(Column("calibrated_bin", "u1", outcomes.calibrated.bin))
    return columns


def outcome_flags(outcomes: ItemOutcomes) -> IntArray:
    """Return the outcome of every item as bits of `FLAGS`."""
    masks = {
        "right": outcomes.correct,
        "flip": outcomes.flipped,
        "confident_error": outcomes.confident_error,
        "pair": outcomes.paired,
        "pair_right": outcomes.pair_right,
        "pair_wrong": outcomes.pair_wrong,
        "pair_same": outcomes.pair_same,
    }
    total: IntArray = sum(
        (np.where(mask, FLAGS[name], 0) for name, mask in masks.items()),
        start=np.zeros(len(outcomes.correct), dtype=np.int64),
    )
    return total


def _variant(name: str) -> int:
    return _VARIANTS.index(name) if name in _VARIANTS else 0
