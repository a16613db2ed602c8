"""Differences between two adapters: settings, files and numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pact_eval._json import Json, dumps
from pact_eval.audit.adapter.audit import AdapterAudit, AdapterFacts
from pact_eval.audit.adapter.files import shown
from pact_eval.audit.adapter.tensors import is_readable, relative_difference
from pact_eval.models import ADAPTER_CONFIG, ADAPTER_WEIGHTS, SCHEMA_CONFIG, TensorInfo

Topic = Literal["fact", "adapter_config.json", "schema_config.json", "file"]

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
        >>> from pact_eval.audit.adapter.audit import audit_adapter
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     audit = audit_adapter(Path(folder), keep=20)
        ...     compare_adapters(audit, audit)
        AdapterComparison(differences=(), weights=None)
    """
    facts = _rows("fact", _facts(left.facts), _facts(right.facts))
    configs = _rows(ADAPTER_CONFIG, _texts(left.config), _texts(right.config))
    schemas = _rows(SCHEMA_CONFIG, _texts(left.schema_config), _texts(right.schema_config))
    files = _rows("file", _files(left.facts), _files(right.facts))
    return AdapterComparison((*facts, *configs, *schemas, *files), _compare_weights(left, right))


def _rows(
    topic: Topic, left: Mapping[str, str], right: Mapping[str, str]
) -> Iterator[AdapterDifference]:
    for name in dict.fromkeys([*left, *right]):
        if left.get(name) != right.get(name):
            yield AdapterDifference(topic, shown(name), left.get(name), right.get(name))


def _facts(facts: AdapterFacts) -> dict[str, str]:
    """Return what is derived; what the configurations say is compared there."""
    named: dict[str, Json] = {
        "scale": facts.scale,
        "dtypes": ", ".join(sorted(facts.dtypes)) if facts.dtypes is not None else None,
        "modules": facts.n_modules,
        "layers": facts.n_layers,
        "parameters": facts.n_parameters,
        "base model": facts.base_model,
        "base revision": facts.base_revision,
    }
    return {name: _text(value) for name, value in named.items() if value is not None}


def _texts(config: Mapping[str, Json] | None) -> dict[str, str]:
    return {key: _text(_sort_lists(key, value)) for key, value in (config or {}).items()}


def _sort_lists(key: str, value: Json) -> Json:
    if key in _UNORDERED and isinstance(value, list):
        return sorted(value, key=_text)
    return value


def _text(value: Json) -> str:
    return value if isinstance(value, str) else dumps(value)


def _files(facts: AdapterFacts) -> dict[str, str]:
    return {file.name: file.sha256 or "not opened" for file in facts.files}


def _compare_weights(left: AdapterAudit, right: AdapterAudit) -> WeightsComparison | None:
    if left.tensors is None or right.tensors is None:
        return None
    lefts, rights = _by_name(left.tensors), _by_name(right.tensors)
    shared = [name for name in lefts if name in rights]
    reshaped = tuple(name for name in shared if lefts[name].shape != rights[name].shape)
    pairs = [(lefts[name], rights[name]) for name in shared if name not in set(reshaped)]
    identical = left.facts.weights_sha256 == right.facts.weights_sha256
    folders = left.folder, right.folder
    apart = {} if identical else _differences(folders, pairs)
    finite = {name: value for name, value in apart.items() if not math.isnan(value)}
    compared = len(pairs) if identical else len(finite)
    largest = max(finite, key=lambda name: finite[name], default=None)
    return WeightsComparison(
        identical_bytes=identical,
        only_left=tuple(name for name in lefts if name not in rights),
        only_right=tuple(name for name in rights if name not in lefts),
        reshaped=reshaped,
        compared=compared,
        different=sum(value > 0 for value in finite.values()),
        not_compared=len(pairs) - compared,
        largest_difference=finite[largest]
        if largest is not None
        else 0.0
        if compared
        else math.nan,
        largest_name=largest if largest is not None and finite[largest] > 0 else None,
    )


def _by_name(tensors: Iterable[TensorInfo]) -> dict[str, TensorInfo]:
    return {tensor.name: tensor for tensor in tensors}


def _differences(
    folders: tuple[Path, Path], pairs: Iterable[tuple[TensorInfo, TensorInfo]]
) -> dict[str, float]:
    """Return the relative difference of each pair by name; NaN if it cannot be told."""
    left_path, right_path = (folder / ADAPTER_WEIGHTS for folder in folders)
    apart: dict[str, float] = {}
    for left, right in pairs:
        apart[left.name] = math.nan
        if is_readable(left) and is_readable(right):
            try:
                apart[left.name] = relative_difference(left_path, left, right_path, right)
            except (OSError, ValueError):  # it was cut short since it was audited
                continue
    return apart
