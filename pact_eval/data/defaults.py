"""Defaults of records from a labelled file: facts that nobody named, and the cost of that.

`provenance.labelled.defaults` of a record lists them; `labelled/reader.py` writes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pact_eval.data.records import Record

__all__ = ["LABELLED", "Defaults", "defaults_of", "defaults_of_record"]

LABELLED: Final = "labelled"
"""Key of `provenance` that says how a record was read from a labelled file."""


@dataclass(frozen=True)
class Defaults:
    """Defaults of labelled records that nobody named, and their cost.

    Attributes:
        names: labels with defaults, in the order of `LABELS`, and "instructions".
        pairs: whether no record says that it belongs to a contrastive pair.
        source_families: whether no record names its source family.
        families: whether no record names its family: intervals take records as independent.
    """

    names: tuple[str, ...]
    pairs: bool
    source_families: bool
    families: bool


def defaults_of(records: Sequence[Record]) -> Defaults:
    """Return what nobody named in records; nothing for records of the full format.

    Examples:
        >>> defaults_of([])
        Defaults(names=(), pairs=False, source_families=False, families=False)
    """
    counts: Counter[str] = Counter()
    for record in records:
        counts.update(defaults_of_record(record))
    names = ("id", "family", "source_family", "split", "domain", "variant", "instructions")
    everywhere = {name for name in names if records and counts[name] == len(records)}
    return Defaults(
        tuple(name for name in names if counts[name]),
        pairs="variant" in everywhere,
        source_families="source_family" in everywhere,
        families="family" in everywhere,
    )


def defaults_of_record(record: Record) -> list[str]:
    """Return the names of what nobody named in a record: none for one of the full format."""
    labelled = record.provenance.get(LABELLED)
    names = labelled.get("defaults") if isinstance(labelled, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
