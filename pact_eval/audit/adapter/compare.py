"""Differences between two adapters: settings, files and numbers."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, get_args

from pact_eval._json import Json, dumps
from pact_eval.audit.adapter.audit import AdapterAudit
from pact_eval.audit.adapter.files import shown
from pact_eval.audit.adapter.tensors import is_readable, relative_difference
from pact_eval.models import ADAPTER_WEIGHTS

Topic = Literal["fact", "adapter_config.json", "schema_config.json", "file"]

_TOPICS: Final[tuple[Topic, ...]] = get_args(Topic)
# PEFT keeps these as sets and saves them in any order.
_UNORDERED = ("target_modules", "exclude_modules", "modules_to_save")


@dataclass(frozen=True, slots=True)
class AdapterDifference:
    """One row of a table with a column per adapter.

    Attributes:
        topic: where the two differ: a derived fact, a key of a configuration, or a file.
        name: the fact, key or file.
        left: the first adapter's value as text; None if it has none.
        right: the second adapter's.
    """

    topic: Topic
    name: str
    left: str | None
    right: str | None


@dataclass(frozen=True)
class WeightsComparison:
    """Differences between the tensors of two adapters.

    Attributes:
        identical_bytes: whether the two files are the same byte for byte.
        only_left: names of tensors that the second adapter lacks.
        only_right: names of tensors that the first adapter lacks.
        reshaped: names of tensors that both have, with different shapes.
        compared: tensors whose numbers were compared.
        different: those of them whose numbers differ.
        not_compared: tensors of both whose numbers could not be: a dtype that is not read, or
            numbers that are not finite.
        largest_difference: the largest relative Frobenius difference of a tensor, from 0 (equal)
            to 2 (opposite); NaN if none was compared.
        largest_name: the tensor that has it, or None if none differs.
    """

    identical_bytes: bool
    only_left: tuple[str, ...]
    only_right: tuple[str, ...]
    reshaped: tuple[str, ...]
    compared: int
    different: int
    not_compared: int
    largest_difference: float
    largest_name: str | None


@dataclass(frozen=True)
class AdapterComparison:
    """Differences between two adapters.

    Attributes:
        differences: the rows that differ: facts, configurations, files.
        weights: the tensors; None if those of one adapter cannot be read.
    """

    differences: tuple[AdapterDifference, ...]
    weights: WeightsComparison | None


def compare_adapters(left: AdapterAudit, right: AdapterAudit) -> AdapterComparison:
    """Compare two audited adapters.

    Args:
        left: the first.
        right: the second.

    Returns:
        What differs. The weights are read again, unless the two files have the same hash.

    Examples:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from pact_eval.audit.adapter.audit import audit_adapter
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     audit = audit_adapter(Path(folder), keep=20)
        ...     compare_adapters(audit, audit)
        AdapterComparison(differences=(), weights=None)
    """
    lefts, rights = _described(left), _described(right)
    places = sorted({**lefts, **rights}, key=lambda place: _TOPICS.index(place[0]))
    differences = (
        AdapterDifference(topic, shown(name), lefts.get((topic, name)), rights.get((topic, name)))
        for topic, name in places
        if lefts.get((topic, name)) != rights.get((topic, name))
    )
    return AdapterComparison(tuple(differences), _compare_weights(left, right))


def _described(audit: AdapterAudit) -> dict[tuple[Topic, str], str]:
    """Return derived facts, both configurations and the hashes of all files, as texts."""
    facts = audit.facts
    named: dict[str, Json] = {
        "scale": facts.scale,
        "dtypes": None if facts.dtypes is None else ", ".join(sorted(facts.dtypes)),
        "modules": facts.n_modules,
        "layers": facts.n_layers,
        "parameters": facts.n_parameters,
        "base model": facts.base_model,
        "base revision": facts.base_revision,
    }
    described: dict[tuple[Topic, str], Json] = {
        ("fact", name): value for name, value in named.items() if value is not None
    }
    for key, value in (audit.config or {}).items():
        if key in _UNORDERED and isinstance(value, list):
            value = sorted(value, key=_text)
        described["adapter_config.json", key] = value
    for key, value in (audit.schema_config or {}).items():
        described["schema_config.json", key] = value
    for file in facts.files:
        described["file", file.name] = file.sha256 or "not opened"
    return {place: _text(value) for place, value in described.items()}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else dumps(value)


def _compare_weights(left: AdapterAudit, right: AdapterAudit) -> WeightsComparison | None:
    if left.tensors is None or right.tensors is None:
        return None
    lefts, rights = ({tensor.name: tensor for tensor in of} for of in (left.tensors, right.tensors))
    shared = [name for name in lefts if name in rights]
    alike = [name for name in shared if lefts[name].shape == rights[name].shape]
    identical = left.facts.weights_sha256 == right.facts.weights_sha256
    left_path, right_path = (audit.folder / ADAPTER_WEIGHTS for audit in (left, right))
    apart: dict[str, float] = {}
    for name in () if identical else alike:
        one, other = lefts[name], rights[name]
        with suppress(OSError, ValueError):  # it was cut short since it was audited
            if is_readable(one) and is_readable(other):
                apart[name] = relative_difference(left_path, one, right_path, other)
    apart = {name: value for name, value in apart.items() if not math.isnan(value)}
    compared = len(alike if identical else apart)
    largest = max(apart.values(), default=0.0 if compared else math.nan)
    return WeightsComparison(
        identical_bytes=identical,
        only_left=tuple(name for name in lefts if name not in rights),
        only_right=tuple(name for name in rights if name not in lefts),
        reshaped=tuple(name for name in shared if lefts[name].shape != rights[name].shape),
        compared=compared,
        different=sum(value > 0 for value in apart.values()),
        not_compared=len(alike) - compared,
        largest_difference=largest,
        largest_name=next((name for name in apart if apart[name] == largest > 0), None),
    )
