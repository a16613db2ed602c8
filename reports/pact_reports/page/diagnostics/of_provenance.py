"""Worries about where runs come from: what `run.json` lacks, and what differs between runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pact_eval._json import Json, dumps
from pact_reports.page.diagnostics.model import Worry

__all__ = ["contract_worries", "missing_worries", "setting_worries", "version_worries"]

Provenance = Mapping[str, Json]
"""The parsed `run.json`."""

_SETTINGS: Final = ("k", "order_seed", "dtype", "base.sha256", "contract.fingerprint")
_SHOWN: Final = 4


def missing_worries(run: str, provenance: Provenance) -> tuple[Worry, ...]:
    """Worry about a run that does not say what made it.

    Args:
        run: label of the run.
        provenance: its `run.json`.

    Example:
        >>> missing_worries("x", {"arm": "x", "seed": 1, "settings": {"adapter": {}}})[0].says
        'run.json has no SHA-256 of the adapter'
    """
    lacking = []
    adapter = _at(provenance, "settings.adapter")
    if provenance.get("arm") is None:
        lacking.append("arm")
    # A base model alone was trained at no seed of ours.
    if provenance.get("seed") is None and (adapter is not None or not _is_base(provenance)):
        lacking.append("seed")
    if adapter is not None and _at(provenance, "settings.adapter.sha256") is None:
        lacking.append("SHA-256 of the adapter")
    if provenance.get("source", "score") != "score":
        lacking.append("adapter, base model or contract, since its predictions were imported")
    if not lacking:
        return ()
    return (Worry("provenance", "minor", f"run.json has no {', no '.join(lacking)}", run),)


def contract_worries(run: str, provenance: Provenance) -> tuple[Worry, ...]:
    """Worry about an adapter that was scored on another contract than it was trained on."""
    mismatch = _at(provenance, "settings.contract.mismatch")
    if mismatch is None or mismatch is False:
        return ()
    text = mismatch if isinstance(mismatch, str) else dumps(mismatch)
    return (Worry("contract", "grave", f"scored with --allow-contract-mismatch: {text}", run),)


def setting_worries(provenances: Mapping[str, Provenance]) -> tuple[Worry, ...]:
    """Worry where runs were scored with different K, code orders, precision, base or contract.

    Args:
        provenances: `run.json` by label of the run.
    """
    found = []
    for name in _SETTINGS:
        values = {
            run: _at(each, f"settings.{name}")
            for run, each in provenances.items()
            if _at(each, f"settings.{name}") is not None
        }
        says = _differing(values)
        if says:
            found.append(Worry("settings", "serious", f"{name} differs between runs: {says}"))
    return tuple(found)


def version_worries(provenances: Mapping[str, Provenance]) -> tuple[Worry, ...]:
    """Worry where runs were scored with different versions of a tool.

    Args:
        provenances: `run.json` by label of the run.

    Example:
        >>> a, b = ({"versions": {"torch": v}} for v in ("2.12", "2.13"))
        >>> version_worries({"a": a, "b": b})[0].says
        'torch differs between runs: 2.12 (a); 2.13 (b)'
    """
    found = []
    names = dict.fromkeys(
        name
        for each in provenances.values()
        for name in (_object(each.get("versions")) | _object(each.get("resumed_with_versions")))
    )
    for name in names:
        values = {
            run: _object(each.get("versions")).get(name)
            for run, each in provenances.items()
            if _object(each.get("versions")).get(name) is not None
        }
        says = _differing(values)
        if says:
            found.append(Worry("versions", "minor", f"{name} differs between runs: {says}"))
    for run, each in provenances.items():
        if "resumed_with_versions" in each:
            says = "part of it was scored with other versions of the tools (it was resumed)"
            found.append(Worry("versions", "minor", says, run))
    return tuple(found)


def _differing(values: Mapping[str, Json]) -> str:
    """Say which runs have which value; nothing where all have one."""
    groups: dict[str, list[str]] = {}
    for run, value in values.items():
        groups.setdefault(value if isinstance(value, str) else dumps(value), []).append(run)
    if len(groups) < 2:
        return ""
    return "; ".join(f"{_short(value)} ({_some(runs)})" for value, runs in groups.items())


def _short(value: str) -> str:
    return value if len(value) <= 24 else f"{value[:12]}…"


def _some(runs: Sequence[str]) -> str:
    # Labels hold commas themselves.
    shown = "; ".join(runs[:_SHOWN])
    return f"{shown} and {len(runs) - _SHOWN:,} more" if len(runs) > _SHOWN else shown


def _is_base(provenance: Provenance) -> bool:
    return _at(provenance, "settings.base") is not None or provenance.get("base_model") is not None


def _at(value: Json | Provenance, way: str) -> Json:
    found: Json | Provenance = value
    for key in way.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(key)
    return found if not isinstance(found, Mapping) else dict(found)


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}
