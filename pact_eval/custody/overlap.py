"""Evaluated records that an adapter was trained or selected on, by its training record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from pact_eval.custody.hashed_data import TrainingRole, are_hashed
from pact_eval.custody.training_record import TrainingRecord
from pact_eval.data.records import Record

LEARNT: Final[tuple[TrainingRole, ...]] = ("train", "selection")
"""Roles whose data the weights have learnt from, or were chosen by."""


@dataclass(frozen=True)
class Overlap:
    """Evaluated records that an adapter was trained or selected on.

    Attributes:
        items: their ids, in the order of the data.
        families: their families, each once.
        by_family: number of these families whose name is in the record; the others share contexts.
        roles: what they were used for: train, selection.
        files: names of all files of these roles.
    """

    items: tuple[str, ...]
    families: tuple[str, ...]
    by_family: int
    roles: tuple[TrainingRole, ...]
    files: tuple[str, ...]


def overlap_with(record: TrainingRecord, evaluated: Sequence[Record]) -> Overlap | None:
    """Compare the families and contexts of evaluated records with those of a training record.

    An ablated context has the family of its record.

    Args:
        record: what the adapter was trained on.
        evaluated: the records.

    Returns:
        What both have; None if nothing.
    """
    families = [item.family for item in evaluated]
    contexts = [item.state for item in evaluated]
    by_family = np.zeros(len(families), dtype=np.bool_)
    by_context = by_family.copy()
    roles = []
    for role in LEARNT:
        data = record.roles.get(role)
        if data is None:
            continue
        in_families = are_hashed(families, data.hashes["families"])
        same = are_hashed(contexts, data.hashes["contexts"])
        if in_families.any() or same.any():
            roles.append(role)
        by_family |= in_families
        by_context |= same
    met = by_family | by_context
    if not met.any():
        return None
    return Overlap(
        tuple(item.id for item, is_met in zip(evaluated, met, strict=True) if is_met),
        _once(family for family, is_met in zip(families, met, strict=True) if is_met),
        len(
            _once(
                family for family, is_shared in zip(families, by_family, strict=True) if is_shared
            )
        ),
        tuple(roles),
        _once(file.name for role in roles for file in record.roles[role].files),
    )


def shared_between(record: TrainingRecord) -> Mapping[tuple[TrainingRole, TrainingRole], int]:
    """Return how many families two roles of a record share; pairs that share none are absent."""
    roles = list(record.roles)
    shared = {
        (one, other): len(
            np.intersect1d(
                record.roles[one].hashes["families"], record.roles[other].hashes["families"]
            )
        )
        for place, one in enumerate(roles)
        for other in roles[place + 1 :]
    }
    return {pair: count for pair, count in shared.items() if count}


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
